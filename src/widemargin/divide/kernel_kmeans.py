"""Two-step kernel k-means: clusters of a few sampled points, then the nearest for every point.

K-means alone makes clusters of very different sizes, and cuts through points that belong together.
So there are more groups than clusters at first, and those are merged that have most to do with each
other, as long as none becomes too large.
"""

from dataclasses import dataclass, replace
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.divide.kernel_kmeans_fast import (
    add_by_group,
    improve_groups,
    seed_groups,
)
from widemargin.divide.partition import Partition, split_by_group
from widemargin.kernels import Index, Kernel, Points
from widemargin.parallel import Workers

#: Starts of k-means, of which the best is taken, and rounds of each.
N_STARTS, MAX_ROUNDS = 3, 30
#: Sampled points for each group before groups are merged, and most groups; where as many clusters are
#: wanted as that, groups are clusters.
GROUP_POINTS, MAX_GROUPS = 8, 512
#: Merged groups have no more than so many times their share of the sampled points, if that can be.
MERGED_SHARE = 1.5
#: A cluster with so many times its share of the points is divided again, so many times at most.
MAX_SHARE, MAX_DEPTH = 3.0, 4
#: Clusters up to this size are never divided again.
MIN_DIVIDED = 500


def divide_points(
    kernel: Kernel,
    points: Points,
    n_clusters: int,
    candidates: Index,
    sample_size: int,
    rng: np.random.Generator,
    workers: Workers,
    max_bytes: int,
) -> tuple[Partition, NDArray[np.int32]]:
    """Divide all points into about ``n_clusters`` clusters.

    Parameters
    ----------
    kernel, points
        What to divide.
    n_clusters : int
        Clusters wanted. There are fewer if fewer of the sampled points are distinct, more if some
        cluster took far more than its share and was divided again.
    candidates : ndarray
        Points to sample from: all of them, or the support vectors found so far.
    sample_size : int
        Points to sample.
    rng : Generator
        Source of randomness.
    workers : Workers
        Threads.
    max_bytes : int
        Memory: fewer points are sampled if their kernel matrix would take more than half of it.

    Returns
    -------
    partition : Partition
        Its sampled points are positions among ``points``.
    clusters : ndarray of shape (n_points,)
        Cluster of every point.
    """
    share = len(points) / n_clusters
    per_cluster = sample_size / n_clusters
    max_sample = max(1, isqrt(max_bytes // 8))
    divider = _Divider(
        kernel, points, kernel.narrow(points), share, per_cluster, max_sample, rng, workers
    )
    return divider.divide(np.arange(len(points)), n_clusters, candidates, 0)


@dataclass(frozen=True)
class _Divider:
    """What stays the same when crowded clusters are divided again: points and samples of each."""

    kernel: Kernel
    points: Points
    narrowed: Points
    share: float
    samples: float
    max_sample: int
    rng: np.random.Generator
    workers: Workers

    def divide(
        self, rows: Index, n_clusters: int, candidates: Index, depth: int
    ) -> tuple[Partition, NDArray[np.int32]]:
        """Divide the points ``rows``, and again those parts that hold too many of them."""
        flat = self._divide_sample(n_clusters, candidates)
        parts = flat.assign(self.kernel, self.narrowed, rows, self.narrowed, self.workers)
        members = split_by_group(parts, flat.n_parts)
        limit = max(MAX_SHARE * self.share, MIN_DIVIDED)
        if depth == MAX_DEPTH or len(members) == 1 or max(map(len, members)) <= limit:
            return flat, parts
        is_candidate = np.zeros(len(self.points), bool)
        is_candidate[candidates] = True
        children, clusters, first = {}, np.empty(len(rows), np.int32), 0
        for p, at in enumerate(members):
            clusters[at], n_inside = first, 1
            if len(at) > limit:
                inside = rows[at]
                chosen = inside[is_candidate[inside]]
                child, within = self.divide(
                    inside, max(2, round(len(at) / self.share)),
                    chosen if len(chosen) > 1 else inside, depth + 1,
                )  # fmt: skip
                if child.n_clusters > 1:
                    children[p] = child
                    clusters[at], n_inside = first + within, child.n_clusters
            first += n_inside
        return replace(flat, children=children), clusters

    def _divide_sample(self, n_clusters: int, candidates: Index) -> Partition:
        """Kernel k-means on sampled candidates, into more groups than clusters, which are merged."""
        sample = candidates
        sample_size = min(max(round(self.samples * n_clusters), n_clusters), self.max_sample)
        if len(candidates) > sample_size:
            sample = np.sort(self.rng.choice(candidates, sample_size, replace=False))
        K = np.empty((len(sample), len(sample)), np.float32)
        # By one thread, so that rounding does not depend on how many there are.
        self.kernel.block(self.points, sample, self.points, sample, K, Workers(1, None))
        on_sphere = is_on_sphere(K)
        n_groups = max(n_clusters, min(len(sample) // GROUP_POINTS, MAX_GROUPS))
        groups = kernel_kmeans(K, n_groups, self.rng, on_sphere)
        return _describe(K, sample, groups, on_sphere, merge_groups(K, groups, n_clusters))


def is_on_sphere(K: NDArray[np.float32]) -> bool:
    """Whether all points have the same norm, as those of a radial kernel.

    Then the direction of a mean is what counts. Its length does not: a point that is similar to no
    mean would be nearest to the shortest, the most diffuse, and one cluster would take nearly
    everything when the kernel is narrow.
    """
    diag = K.diagonal()
    return bool(diag[0] > 0 and np.allclose(diag, diag[0], rtol=1e-5))


def _describe(
    K: NDArray[np.float32],
    sample: Index,
    groups: Index,
    on_sphere: bool,
    part_of: NDArray[np.int32],
) -> Partition:
    """The partition that belongs to groups ``0 .. n_groups - 1`` of sampled points, and to parts."""
    n_groups = int(groups.max()) + 1
    sums, sizes = np.empty((n_groups, len(K))), np.empty(n_groups, np.int64)
    add_by_group(K, groups, sums, sizes)
    own = sums[groups, np.arange(len(K))]
    squared_norms = np.bincount(groups, own, n_groups) / sizes**2
    order = np.argsort(groups, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return Partition(sample[order], bounds, squared_norms, on_sphere, part_of, {})


def kernel_kmeans(
    K: NDArray[np.float32],
    n_clusters: int,
    rng: np.random.Generator,
    on_sphere: bool = False,
    n_starts: int = N_STARTS,
) -> Index:
    """Cluster points given their kernel matrix.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel matrix.
    n_clusters : int
        Clusters wanted; fewer are found if fewer points are distinct.
    rng : Generator
        Source of randomness.
    on_sphere : bool
        Whether to compare directions, not distances; see `is_on_sphere`.
    n_starts : int
        Independent starts, of which the one with the smallest spread is taken.

    Returns
    -------
    groups : ndarray of shape (m,)
        Cluster of every point, numbered from zero without gaps.
    """
    starts = []
    for _ in range(n_starts):
        groups = _seed_groups(K, n_clusters, rng)
        starts.append((improve_groups(K, groups, n_clusters, on_sphere, MAX_ROUNDS), groups))
    _, best = min(starts, key=lambda start: start[0])
    return np.unique(best, return_inverse=True)[1].astype(np.intp)


def merge_groups(K: NDArray[np.float32], groups: Index, n_parts: int) -> NDArray[np.int32]:
    """Merge groups of sampled points into parts of similar sizes that have little in common.

    What is lost between clusters is the kernel between their points (Theorem 1 of the paper), so
    those two parts are merged between which the kernel is largest in the mean, of those that are
    small enough together; of strangers the smallest, so that sizes come out even.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel matrix of the sampled points.
    groups : ndarray of shape (m,)
        Group of every point, numbered from zero without gaps.
    n_parts : int
        Parts wanted; if there are no more groups than that, none are merged.

    Returns
    -------
    part_of : ndarray of shape (n_groups,)
        Part of every group, numbered from zero without gaps.
    """
    n_groups = int(groups.max()) + 1
    part_of = np.arange(n_groups, dtype=np.int32)
    if n_groups <= n_parts:
        return part_of
    sums, counts = np.empty((n_groups, len(K))), np.empty(n_groups, np.int64)
    # A copy of the matrix would be the largest array there is.
    add_by_group(K if K.min() >= 0 else np.abs(K), groups, sums, counts)
    between, sizes = np.empty((n_groups, n_groups)), counts.astype(np.float64)
    add_by_group(np.ascontiguousarray(sums.T), groups, between, counts)
    most, little = MERGED_SHARE * len(K) / n_parts, 1e-6 * float(np.abs(K.diagonal()).max())

    def rate(part: int) -> NDArray[np.float64]:
        """How much each other part should be merged with this one; a part that is gone never."""
        together = sizes + sizes[part]
        rates = between[part] / (sizes * sizes[part]) + little / together
        rates[together > most] = -np.inf
        rates[part] = -np.inf
        return rates

    rates = np.array([rate(part) for part in range(n_groups)])
    for _ in range(n_groups - n_parts):
        kept, gone = divmod(int(np.argmax(rates)), n_groups)
        if rates[kept, gone] == -np.inf:
            kept, gone = np.argpartition(sizes, 1)[:2]
        between[kept] += between[gone]
        between[:, kept] += between[:, gone]
        sizes[kept] += sizes[gone]
        sizes[gone] = np.inf
        part_of[part_of == gone] = kept
        rates[gone] = rates[:, gone] = -np.inf
        rates[kept] = rates[:, kept] = rate(kept)
    return np.unique(part_of, return_inverse=True)[1].astype(np.int32)


def _seed_groups(K: NDArray[np.float32], n_clusters: int, rng: np.random.Generator) -> Index:
    """Groups around points drawn one by one, each likely to be far from those before it."""
    m = len(K)
    diag = K.diagonal().astype(np.float64)
    groups = np.zeros(m, np.intp)
    # Rounding leaves tiny distances between equal points.
    noise = 1e-6 * max(float(np.abs(diag).max()), 1e-300)
    first, draws = int(rng.integers(m)), rng.random(min(n_clusters, m) - 1)
    seed_groups(K, diag, first, draws, noise, groups)
    return groups
