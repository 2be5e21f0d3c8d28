"""Two-step kernel k-means: cluster some sampled points, then assign every point to a cluster.

DC-SVM Section 3, "Divide Step". Step 1 runs kernel k-means on m sampled points, which gives cluster
centres as means in the kernel's feature space. Step 2 assigns every point to the nearest centre. The
kernel matrix has m**2 values instead of n**2.

This module differs from the paper in three points. Plain k-means makes clusters of very different
sizes, so step 1 finds more groups than clusters and merges groups into clusters of similar sizes
(`merge_groups`). A cluster that still gets far too many points in step 2 is divided again. The centre
of a group is the mean of its most central points (`find_central`). None of this happens to
``Sampling.is_plain`` partitions, which are the paper's own.
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

#: Number of starts of k-means, the best of which is kept, and of iterations of each start.
N_STARTS, MAX_ROUNDS = 3, 30
#: Sampled points per group before groups are merged, and the largest number of groups, unless more
#: clusters than that are wanted.
GROUP_POINTS, MAX_GROUPS = 8, 512
#: Points of a group, the most central ones, whose mean is its centre when points are assigned. Halving
#: the number of 8 left accuracies as they were (ijcnn1, covtype, census, mnist) and saved a quarter of
#: the time of fits and predictions.
CENTRAL_POINTS = 4
#: Merged groups have at most this many times the mean number of sampled points, where possible.
MERGED_SHARE = 1.5
#: A cluster with more than this many times the mean number of points is divided again; the depth of
#: such divisions is limited.
MAX_SHARE, MAX_DEPTH = 3.0, 4
#: A cluster of at most this many points is never divided again.
MIN_DIVIDED = 500

#: The nearest clusters of every point, and how far they are.
Ranks = tuple[NDArray[np.int32], NDArray[np.float32]]


@dataclass(frozen=True)
class Sampling:
    """How the points for kernel k-means are sampled (DC-SVM Algorithm 1, lines 4 and 6).

    Attributes
    ----------
    candidates : ndarray
        Points to sample from: all points, or the support vectors of the level before.
    size : int
        Number of points to sample, the paper's m.
    max_bytes : int
        Fewer points are sampled if their kernel matrix would take more than half of these bytes.
    rng : Generator
        Random number generator.
    is_plain : bool
        Whether the clusters are the groups of k-means and every point joins the nearest mean, as in
        the paper.
    n_starts : int
        Number of starts of k-means, the best of which is kept.
    """

    candidates: Index
    size: int
    max_bytes: int
    rng: np.random.Generator
    is_plain: bool = False
    n_starts: int = N_STARTS


def divide_points(
    kernel: Kernel, points: Points, n_clusters: int, sampling: Sampling, workers: Workers
) -> tuple[Partition, NDArray[np.int32]]:
    """Divide all points into about ``n_clusters`` clusters (DC-SVM Algorithm 1, lines 3 to 9).

    Parameters
    ----------
    kernel, points
        The kernel and the points prepared for it.
    n_clusters : int
        Number of clusters wanted. There are fewer if fewer of the sampled points are distinct, and
        more if a cluster was so large that it was divided again.
    sampling : Sampling
        How to sample the points for kernel k-means.
    workers : Workers
        Threads.

    Returns
    -------
    partition : Partition
        The clusters. Its sampled points are positions in ``points``.
    clusters : ndarray of shape (n_points,)
        Cluster of every point.
    """
    divider = _Divider.make(kernel, points, n_clusters, sampling, workers)
    return divider.divide(np.arange(len(points)), n_clusters, sampling.candidates, 0)


def divide_ranked(
    kernel: Kernel,
    points: Points,
    n_clusters: int,
    sampling: Sampling,
    workers: Workers,
    n_ranks: int,
) -> tuple[Partition, NDArray[np.int32], Ranks]:
    """Divide all points as `divide_points` does, and find the nearest clusters of every point.

    ``n_ranks`` is the number of nearest clusters. The last value returned is what `Partition.rank`
    returns; it costs no further kernel values unless a cluster was divided again.
    """
    divider = _Divider.make(kernel, points, n_clusters, sampling, workers)
    flat = divider.divide_sample(n_clusters, sampling.candidates)
    narrowed, everyone = divider.narrowed, np.arange(len(points))
    parts, nearest, distances = flat.assign_ranked(
        kernel, narrowed, everyone, narrowed, n_ranks, workers
    )
    partition, clusters = divider.divide_again(flat, everyone, parts, sampling.candidates, 0)
    if not partition.children:
        return partition, clusters, (nearest, distances)
    ranks = partition.rank(kernel, narrowed, everyone, narrowed, n_ranks, workers)
    return partition, clusters, ranks


@dataclass(frozen=True)
class _Divider:
    """Values that all divisions of the same points share.

    ``narrowed`` are the points in the precision that assigning them to clusters needs.
    """

    kernel: Kernel
    points: Points
    narrowed: Points
    mean_size: float
    samples_per_cluster: float
    max_sample: int
    sampling: Sampling
    workers: Workers

    @classmethod
    def make(
        cls, kernel: Kernel, points: Points, n_clusters: int, sampling: Sampling, workers: Workers
    ) -> "_Divider":
        return cls(
            kernel=kernel,
            points=points,
            narrowed=kernel.narrow(points),
            mean_size=len(points) / n_clusters,
            samples_per_cluster=sampling.size / n_clusters,
            max_sample=max(1, isqrt(sampling.max_bytes // 8)),
            sampling=sampling,
            workers=workers,
        )

    def divide(
        self, rows: Index, n_clusters: int, candidates: Index, depth: int
    ) -> tuple[Partition, NDArray[np.int32]]:
        """Divide the points ``rows`` into clusters, and too large clusters again."""
        flat = self.divide_sample(n_clusters, candidates)
        # Algorithm 1, line 9: every point joins the cluster with the nearest centre.
        parts = flat.assign(self.kernel, self.narrowed, rows, self.narrowed, self.workers)
        return self.divide_again(flat, rows, parts, candidates, depth)

    def divide_again(
        self, flat: Partition, rows: Index, parts: NDArray[np.int32], candidates: Index, depth: int
    ) -> tuple[Partition, NDArray[np.int32]]:
        """Divide parts that are too large; ``parts`` has the part of each of the points ``rows``."""
        if self.sampling.is_plain:
            return flat, parts
        members = split_by_group(parts, flat.n_parts)
        limit = max(MAX_SHARE * self.mean_size, MIN_DIVIDED)
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
                    inside, max(2, round(len(at) / self.mean_size)),
                    chosen if len(chosen) > 1 else inside, depth + 1,
                )  # fmt: skip
                if child.n_clusters > 1:
                    children[p] = child
                    clusters[at], n_inside = first + within, child.n_clusters
            first += n_inside
        return replace(flat, children=children), clusters

    def divide_sample(self, n_clusters: int, candidates: Index) -> Partition:
        """Cluster sampled points (DC-SVM Algorithm 1, lines 4, 6 and 8)."""
        sample = candidates
        wanted = max(round(self.samples_per_cluster * n_clusters), n_clusters)
        sample_size = min(wanted, self.max_sample)
        if len(candidates) > sample_size:
            sample = np.sort(self.sampling.rng.choice(candidates, sample_size, replace=False))
        return cluster_sample(self.kernel, self.points, sample, n_clusters, self.sampling)


def cluster_sample(
    kernel: Kernel, points: Points, sample: Index, n_clusters: int, sampling: Sampling
) -> Partition:
    """Return the partition whose centres are means of the points ``sample`` (Algorithm 1, line 8)."""
    K = np.empty((len(sample), len(sample)), np.float32)
    # One thread computes the matrix, so that rounding does not depend on the number of threads.
    kernel.block(points, sample, points, sample, K, Workers(1, None))
    rng, n_starts = sampling.rng, sampling.n_starts
    if sampling.is_plain:
        groups = kernel_kmeans(K, n_clusters, rng, n_starts=n_starts)
        part_of = np.arange(groups.max() + 1, dtype=np.int32)
        return _make_partition(K, sample, groups, False, part_of)
    on_sphere = is_on_sphere(K)
    n_groups = max(n_clusters, min(len(sample) // GROUP_POINTS, MAX_GROUPS))
    groups = kernel_kmeans(K, n_groups, rng, on_sphere, n_starts)
    part_of = merge_groups(K, groups, n_clusters)
    kept = find_central(K, groups)
    return _make_partition(K[np.ix_(kept, kept)], sample[kept], groups[kept], on_sphere, part_of)


def find_central(K: NDArray[np.float32], groups: Index, n_most: int = CENTRAL_POINTS) -> Index:
    """Return the ``n_most`` points of each group that are nearest to its mean, in ascending order.

    Their mean is nearly that of the group, and every row and query that is assigned to a cluster is
    compared with fewer points. On the sphere, nearest means the smallest angle.
    """
    sums, sizes = _sum_groups(K, groups)
    # The squared distance to the mean is k(x, x) - 2 <phi(x), m> + ||m||^2.
    distance = K.diagonal() - 2.0 * sums[groups, np.arange(len(K))] / sizes[groups]
    order = np.lexsort((distance, groups))
    rank = np.arange(len(K)) - (np.cumsum(sizes) - sizes)[groups[order]]
    return np.sort(order[rank < n_most])


def is_on_sphere(K: NDArray[np.float32]) -> bool:
    """Return whether all points have the same norm in feature space, as with a radial kernel.

    Points on a sphere are compared with the directions of the centres (spherical k-means). By
    distance, a point that is similar to no centre would join the centre of smallest norm, so one
    cluster would get nearly all points when the kernel is narrow.
    """
    diag = K.diagonal()
    return bool(diag[0] > 0 and np.allclose(diag, diag[0], rtol=1e-5))


def _make_partition(
    K: NDArray[np.float32],
    sample: Index,
    groups: Index,
    on_sphere: bool,
    part_of: NDArray[np.int32],
) -> Partition:
    """Return the partition whose centres are the means of the groups of sampled points."""
    sums, sizes = _sum_groups(K, groups)
    own = sums[groups, np.arange(len(K))]
    squared_norms = np.bincount(groups, own, len(sizes)) / sizes**2
    order = np.argsort(groups, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    return Partition(sample[order], bounds, squared_norms, on_sphere, part_of, {})


def _sum_groups(K: NDArray[np.float32], groups: Index) -> tuple[NDArray[np.float64], Index]:
    """Return the sum of the rows of ``K`` over each group, and the number of its points."""
    n_groups = int(groups.max()) + 1
    sums, sizes = np.empty((n_groups, len(K))), np.empty(n_groups, np.int64)
    add_by_group(K, groups, sums, sizes)
    return sums, sizes


def kernel_kmeans(
    K: NDArray[np.float32],
    n_clusters: int,
    rng: np.random.Generator,
    on_sphere: bool = False,
    n_starts: int = N_STARTS,
) -> Index:
    """Cluster points by kernel k-means.

    Minimise ``sum_i ||phi(x_i) - m_g(i)||^2`` over the groups ``g(i)``, where ``m_g`` is the mean of
    ``phi(x_j)`` over group g, by Lloyd's iterations from k-means++ starts. Up to a constant this is
    minus the sum over groups of the kernel inside the group, divided by the size of the group, so it
    makes the kernel between groups small while it balances their sizes: DC-SVM needs a small D(pi)
    (Theorem 1). On the sphere each mean is scaled to norm one.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel matrix.
    n_clusters : int
        Number of clusters wanted; fewer are found if fewer points are distinct.
    rng : Generator
        Random number generator.
    on_sphere : bool
        Whether to compare directions instead of distances; see `is_on_sphere`.
    n_starts : int
        Number of starts. The result with the smallest objective is returned.

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
    """Merge groups of sampled points into parts of similar sizes with a small kernel between them.

    DC-SVM Theorem 1 bounds the error of a level by ``0.5 C^2 D(pi)``, where D(pi) is the sum of
    ``|k(x_i, x_j)|`` over points in different clusters. Each step merges the two parts with the
    largest mean ``|k|`` between them whose joint size is within ``MERGED_SHARE``. Among parts with a
    kernel near zero between them, the smallest are merged, so that sizes become similar.

    Parameters
    ----------
    K : ndarray of shape (m, m)
        Kernel matrix of the sampled points.
    groups : ndarray of shape (m,)
        Group of every point, numbered from zero without gaps.
    n_parts : int
        Number of parts wanted; no groups are merged if there are at most as many.

    Returns
    -------
    part_of : ndarray of shape (n_groups,)
        Part of every group, numbered from zero without gaps.
    """
    n_groups = int(groups.max()) + 1
    part_of = np.arange(n_groups, dtype=np.int32)
    if n_groups <= n_parts:
        return part_of
    # Few kernels have negative values; for the others a copy of the matrix is avoided.
    sums, counts = _sum_groups(K if K.min() >= 0 else np.abs(K), groups)
    between, sizes = np.empty((n_groups, n_groups)), counts.astype(np.float64)
    add_by_group(np.ascontiguousarray(sums.T), groups, between, counts)
    most, little = MERGED_SHARE * len(K) / n_parts, 1e-6 * float(np.abs(K.diagonal()).max())

    def rate(part: int) -> NDArray[np.float64]:
        """Return the mean kernel between a part and each other; -inf where merging is not allowed."""
        together = sizes + sizes[part]
        rates = between[part] / (sizes * sizes[part]) + little / together
        rates[together > most] = -np.inf
        rates[part] = -np.inf
        return rates

    rates = np.array([rate(part) for part in range(n_groups)])
    for _ in range(n_groups - n_parts):
        kept, gone = divmod(int(np.argmax(rates)), n_groups)
        if rates[kept, gone] == -np.inf:
            # No two parts are small enough together: merge the two smallest.
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
    """Return the groups around k-means++ seeds."""
    m = len(K)
    diag = K.diagonal().astype(np.float64)
    groups = np.zeros(m, np.intp)
    # Distances between equal points are not exactly zero because of rounding.
    noise = 1e-6 * max(float(np.abs(diag).max()), 1e-300)
    first, draws = int(rng.integers(m)), rng.random(min(n_clusters, m) - 1)
    seed_groups(K, diag, first, draws, noise, groups)
    return groups
