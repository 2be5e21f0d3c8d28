"""Clusters as nearest-centre regions of the feature space, and the assignment of points to them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.divide.kernel_kmeans_fast import assign_groups, rank_clusters
from widemargin.exact.expansion import FAR_END, FAR_FACTOR, FAR_STEP
from widemargin.kernels import Index, Kernel, Points, Precomputed
from widemargin.parallel import Workers, open_workers

#: Points assigned at a time, few enough that their kernel values stay in cache. The number is fixed so
#: that rounding does not depend on the number of threads.
CHUNK = 512

#: Takes kernel values between the sampled points and some points, and the positions of these; returns
#: the distances to the nearest group.
Visitor = Callable[[NDArray[np.float32], Index], NDArray[np.float32]]


@dataclass(frozen=True)
class Partition:
    """Clusters around the means, in the kernel's feature space, of groups of sampled points.

    This is the paper's pi: it maps every point, of the training data or not, to a cluster.

    Attributes
    ----------
    sample : ndarray of shape (m,)
        The sampled points, sorted by group, as positions among some reference points.
    bounds : ndarray of shape (n_groups + 1,)
        Group g is ``sample[bounds[g]:bounds[g + 1]]``.
    squared_norms : ndarray of shape (n_groups,)
        Squared norm of the mean of each group.
    on_sphere : bool
        Whether points are assigned by the angle to the means instead of the distance.
    part_of : ndarray of shape (n_groups,)
        Part of each group. Several groups may be merged into one part.
    children : dict of int to Partition
        Partitions of the parts that are divided again. The clusters are the undivided parts, numbered
        in depth-first order.
    """

    sample: Index
    bounds: Index
    squared_norms: NDArray[np.float64]
    on_sphere: bool
    part_of: NDArray[np.int32]
    children: dict[int, "Partition"]

    @property
    def n_parts(self) -> int:
        """Number of parts, before some are divided again."""
        return int(self.part_of.max()) + 1

    @property
    def n_clusters(self) -> int:
        """Number of clusters, including those inside divided parts."""
        inside = sum(child.n_clusters for child in self.children.values())
        return self.n_parts - len(self.children) + inside

    def all_samples(self) -> Index:
        """Return the sampled points of this partition and of all its children."""
        parts = [self.sample, *(child.all_samples() for child in self.children.values())]
        return np.concatenate(parts)

    def renumber(self, position: Index) -> "Partition":
        """Return the same partition with sampled point ``i`` renumbered as ``position[i]``."""
        children = {g: child.renumber(position) for g, child in self.children.items()}
        return replace(self, sample=position[self.sample], children=children)

    def assign(
        self, kernel: Kernel, a: Points, rows: Index, b: Points, workers: Workers
    ) -> NDArray[np.int32]:
        """Return the cluster of each of the points ``a[rows]`` (DC-SVM Algorithm 1, line 9).

        The sampled points are positions in ``b``. Narrowed points are precise enough.
        """
        parts = self.part_of[self._assign_groups(kernel, a, rows, b, workers)]
        if not self.children:
            return parts
        clusters = np.empty(len(rows), np.int32)
        first = 0
        for p in range(self.n_parts):
            at = np.flatnonzero(parts == p)
            child = self.children.get(p)
            if child is None:
                clusters[at] = first
                first += 1
            else:
                clusters[at] = first + child.assign(kernel, a, rows[at], b, workers)
                first += child.n_clusters
        return clusters

    def rank(
        self, kernel: Kernel, a: Points, rows: Index, b: Points, n_nearest: int, workers: Workers
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the nearest clusters of the points ``a[rows]`` and how far they are.

        Both arrays have a column for each point and a row for each rank, at most ``n_nearest``. Parts
        that are divided again are compared by the groups inside. The distances are squared and less
        ``k(x, x)``, or the negative cosine on the sphere.
        """
        flat, clusters = self.list_groups()
        ranker = _Ranker.make(flat, clusters, min(n_nearest, self.n_clusters), len(rows))
        flat._visit(kernel, a, rows, b, ranker.visit, workers)
        return ranker.nearest, ranker.distances

    def assign_ranked(
        self, kernel: Kernel, a: Points, rows: Index, b: Points, n_nearest: int, workers: Workers
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """Return what `assign` and `rank` return, from kernel values that are computed once.

        No part may be divided again.
        """
        assert not self.children
        ranker = _Ranker.make(self, self.part_of, min(n_nearest, self.n_clusters), len(rows))
        groups = np.empty(len(rows), np.int32)

        def assign_and_rank(block: NDArray[np.float32], at: Index) -> NDArray[np.float32]:
            ranker.visit(block, at)
            return self._assign_chunk(block, at, groups)

        self._visit(kernel, a, rows, b, assign_and_rank, workers)
        return self.part_of[groups], ranker.nearest, ranker.distances

    def list_groups(self, first: int = 0) -> tuple["Partition", NDArray[np.int32]]:
        """Return all groups that are not divided again as one partition, and their clusters."""
        pieces, cluster_of_part = [], np.empty(self.n_parts, np.int32)
        for p in range(self.n_parts):
            child = self.children.get(p)
            cluster_of_part[p] = first
            if child is not None:
                pieces.append(child.list_groups(first))
            first += 1 if child is None else child.n_clusters
        whole = [g for g, p in enumerate(self.part_of) if p not in self.children]
        mine = [self.sample[self.bounds[g] : self.bounds[g + 1]] for g in whole]
        own = replace(
            self, sample=np.concatenate([*mine, self.sample[:0]]), children={},
            bounds=np.cumsum([0, *map(len, mine)]), squared_norms=self.squared_norms[whole],
        )  # fmt: skip
        pieces.insert(0, (own, cluster_of_part[self.part_of[whole]]))
        clusters = np.concatenate([clusters for _, clusters in pieces])
        sizes = np.concatenate([np.diff(piece.bounds) for piece, _ in pieces])
        flat = replace(
            own, sample=np.concatenate([piece.sample for piece, _ in pieces]), part_of=clusters,
            bounds=np.concatenate([[0], np.cumsum(sizes)]),
            squared_norms=np.concatenate([piece.squared_norms for piece, _ in pieces]),
        )  # fmt: skip
        return flat, clusters

    def _assign_groups(
        self, kernel: Kernel, a: Points, rows: Index, b: Points, workers: Workers
    ) -> NDArray[np.int32]:
        groups = np.empty(len(rows), np.int32)
        self._visit(kernel, a, rows, b, partial(self._assign_chunk, groups=groups), workers)
        return groups

    def _assign_chunk(
        self, block: NDArray[np.float32], at: Index, groups: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """Write the nearest groups of some points to ``groups``, and return the distances to them."""
        # Zeros, because kernel values that are not numbers decide nothing.
        distances, found = np.empty(len(at), np.float32), np.zeros(len(at), np.int32)
        assign_groups(block, self.bounds, self.squared_norms, self.on_sphere, distances, found)
        groups[at] = found
        return distances

    def _visit(
        self, kernel: Kernel, a: Points, rows: Index, b: Points, visit: Visitor, workers: Workers
    ) -> None:
        """Call ``visit`` with the kernel between the sampled points and chunks of ``a[rows]``.

        The visitor gets a block with a column for each point and the positions of these in ``rows``,
        and returns the distances to the nearest group. Where a point is so far from all sampled points
        that their kernel values are beyond the range of float32, it is visited again with all its
        kernel values multiplied by a power of two, which changes no angle to a mean.
        """
        beyond = FAR_FACTOR * kernel.floor * np.sqrt(np.diff(self.bounds).max())

        def visit_chunks(first: int, last: int) -> None:
            block = np.empty((len(self.sample), CHUNK), np.float32)
            for start in range(first * CHUNK, min(last * CHUNK, len(rows)), CHUNK):
                at = np.arange(start, min(start + CHUNK, len(rows)))
                _fill_columns(kernel, a, rows[at], b, self.sample, block)
                distances = visit(block, at)
                if not (self.on_sphere and beyond):
                    continue
                for shift in range(FAR_STEP, FAR_END, FAR_STEP):
                    at = at[distances >= -beyond]
                    if not len(at):
                        break
                    far = kernel.take(a, rows[at])
                    nearer = replace(far, norms=far.norms - far.norms.dtype.type(shift))
                    _fill_columns(kernel, nearer, np.arange(len(at)), b, self.sample, block)
                    distances = visit(block, at)

        workers.run(-(-len(rows) // CHUNK), visit_chunks, grain=1)


@dataclass(frozen=True)
class _Ranker:
    """Visitor that ranks the clusters of every point; arrays have a row for each rank."""

    partition: Partition
    clusters: NDArray[np.int32]
    nearest: NDArray[np.int32]
    distances: NDArray[np.float32]

    @classmethod
    def make(
        cls, partition: Partition, clusters: NDArray[np.int32], n_ranks: int, n_points: int
    ) -> "_Ranker":
        shape = (n_ranks, n_points)
        return cls(partition, clusters, np.empty(shape, np.int32), np.empty(shape, np.float32))

    def visit(self, block: NDArray[np.float32], at: Index) -> NDArray[np.float32]:
        mine, shape = self.partition, (len(self.nearest), len(at))
        far, near = np.zeros(shape, np.float32), np.zeros(shape, np.int32)
        rank_clusters(
            block, mine.bounds, mine.squared_norms, mine.on_sphere, self.clusters, far, near
        )
        self.nearest[:, at], self.distances[:, at] = near, far
        return far[0]


def assign_rows(
    kernel: Kernel, X: Any, partition: Partition, samples: Any, n_jobs: int | None
) -> NDArray[np.int32]:
    """Return the cluster of each row of ``X``.

    The sampled points of the partition are rows of ``samples``, or columns of ``X`` if that is part
    of a precomputed kernel matrix and ``samples`` is None.
    """
    points = None if samples is None else kernel.narrow(kernel.prepare(samples))
    queries = kernel.narrow(kernel.prepare(X, like=points), like=points)
    rows = np.arange(len(queries))
    with open_workers(n_jobs) as workers:
        return partition.assign(
            kernel, queries, rows, queries if points is None else points, workers
        )


def _fill_columns(
    kernel: Kernel, a: Points, rows: Index, b: Points, sample: Index, out: NDArray[np.float32]
) -> None:
    """Write the kernel between the sampled points and ``a[rows]`` to the first columns of ``out``."""
    alone = Workers(1, None)
    if not isinstance(kernel, Precomputed):
        kernel.block(b, sample, a, rows, out, alone)
        return
    # The rows of a precomputed matrix are the points to assign, so the block is transposed.
    block = np.empty((len(rows), len(sample)), np.float32)
    kernel.block(a, rows, b, sample, block, alone)
    out[:, : len(rows)] = block.T


def split_by_group(groups: NDArray[np.int32], n_groups: int) -> list[Index]:
    """Return the positions of the members of each group in ascending order."""
    # NumPy sorts integers of 16 bits in linear time.
    keys = groups.astype(np.uint16) if n_groups <= 2**16 else groups
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=n_groups))
    return np.split(order, ends[:-1])
