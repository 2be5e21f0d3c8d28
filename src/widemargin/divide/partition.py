"""Clusters as nearest-centre regions of the feature space, and the assignment of points to them."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from widemargin.divide.kernel_kmeans_fast import assign_groups
from widemargin.kernels import Index, Kernel, Points, Precomputed
from widemargin.parallel import Workers

#: Points assigned at a time, few enough that their kernel values stay in cache. The number is fixed so
#: that rounding does not depend on the number of threads.
CHUNK = 512


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
