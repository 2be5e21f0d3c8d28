"""A division of space into clusters, and the cluster of every point."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from widemargin.divide.kernel_kmeans_fast import assign_groups
from widemargin.kernels import Index, Kernel, Points, Precomputed
from widemargin.parallel import Workers

#: Points assigned at a time: their kernel values stay in cache. Fixed, so that results do not depend
#: on the number of threads.
CHUNK = 512


@dataclass(frozen=True)
class Partition:
    """A division of space into clusters around means, in kernel space, of sampled points.

    Attributes
    ----------
    sample : ndarray of shape (m,)
        The sampled points, sorted by group: positions among some reference points.
    bounds : ndarray of shape (n_groups + 1,)
        Group g is ``sample[bounds[g]:bounds[g + 1]]``.
    squared_norms : ndarray of shape (n_groups,)
        Of the mean of each group.
    on_sphere : bool
        Whether a point belongs to the mean in whose direction it lies, not to the nearest mean.
    part_of : ndarray of shape (n_groups,)
        Part to which each group belongs: several groups may have been merged.
    children : dict of int to Partition
        Parts that are divided further. The clusters are the undivided parts, in depth-first order.
    """

    sample: Index
    bounds: Index
    squared_norms: NDArray[np.float64]
    on_sphere: bool
    part_of: NDArray[np.int32]
    children: dict[int, "Partition"]

    @property
    def n_parts(self) -> int:
        """Number of parts, before some are divided further."""
        return int(self.part_of.max()) + 1

    @property
    def n_clusters(self) -> int:
        """Number of clusters, counting those inside divided parts."""
        inside = sum(child.n_clusters for child in self.children.values())
        return self.n_parts - len(self.children) + inside

    def all_samples(self) -> Index:
        """Sampled points of this partition and all within it."""
        parts = [self.sample, *(child.all_samples() for child in self.children.values())]
        return np.concatenate(parts)

    def renumber(self, position: Index) -> "Partition":
        """The same with sampled points numbered by ``position[old]``."""
        children = {g: child.renumber(position) for g, child in self.children.items()}
        return replace(self, sample=position[self.sample], children=children)

    def assign(
        self, kernel: Kernel, a: Points, rows: Index, b: Points, workers: Workers
    ) -> NDArray[np.int32]:
        """Cluster of the points ``a[rows]``; the sampled points are among ``b``. Few digits do."""
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

    def _assign_groups(
        self, kernel: Kernel, a: Points, rows: Index, b: Points, workers: Workers
    ) -> NDArray[np.int32]:
        groups = np.empty(len(rows), np.int32)

        def assign_chunks(first: int, last: int) -> None:
            block = np.empty((len(self.sample), CHUNK), np.float32)
            for start in range(first * CHUNK, min(last * CHUNK, len(rows)), CHUNK):
                part = rows[start : start + CHUNK]
                _fill_columns(kernel, a, part, b, self.sample, block)
                assign_groups(
                    block, self.bounds, self.squared_norms, self.on_sphere,
                    groups[start : start + CHUNK],
                )  # fmt: skip

        workers.run(-(-len(rows) // CHUNK), assign_chunks, grain=1)
        return groups


def _fill_columns(
    kernel: Kernel, a: Points, rows: Index, b: Points, sample: Index, out: NDArray[np.float32]
) -> None:
    """Write the kernel between sampled points and some rows to the first columns of ``out``."""
    alone = Workers(1, None)
    if not isinstance(kernel, Precomputed):
        kernel.block(b, sample, a, rows, out, alone)
        return
    # A matrix that is given has a row for each query.
    block = np.empty((len(rows), len(sample)), np.float32)
    kernel.block(a, rows, b, sample, block, alone)
    out[:, : len(rows)] = block.T


def split_by_group(groups: NDArray[np.int32], n_groups: int) -> list[Index]:
    """Positions of the members of each group, ascending."""
    # Numbers of 16 bits are sorted in one pass.
    keys = groups.astype(np.uint16) if n_groups <= 2**16 else groups
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=n_groups))
    return np.split(order, ends[:-1])
