"""Blocks of the kernel matrix that several problems share, as one-vs-one problems of many classes do.

The kernel values between two rows of one class belong to every pair that contains the class, and the
block between two classes is needed once although the matrix of their pair contains it twice. With 10
classes the blocks have 0.28 times as many values as the matrices of all pairs.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from widemargin.budget import Budget
from widemargin.deadline import is_late
from widemargin.exact.full_matrix import WHOLE_ROWS
from widemargin.exact.kernel_matrix import FloatArray, Gram
from widemargin.kernels import Index, Kernel, Points
from widemargin.kernels.custom import Precomputed
from widemargin.kernels.tiles_fast import RowSource, store_columns
from widemargin.memory import Buffers
from widemargin.parallel import Workers

#: Share of the memory for kernel values that the blocks may take.
MEMORY_SHARE = 0.5

Pair = tuple[int, int]


@dataclass(frozen=True)
class RowGroups:
    """Groups of rows that belong to the same problems: the classes, in one-vs-one classification.

    Attributes
    ----------
    rows : list of ndarray
        The prepared points of each group.
    orders : list of ndarray
        For each problem, its variables sorted by group.
    members : list of ndarray
        For each problem, its groups.
    pairs : list of tuple
        Groups that meet in a problem, the smaller number first.
    """

    rows: list[Index]
    orders: list[Index]
    members: list[Index]
    pairs: list[Pair]

    def count_values(self) -> int:
        """Return the number of kernel values in all blocks."""
        return sum(len(self.rows[g]) * len(self.rows[h]) for g, h in self.pairs)


def group_rows(n_points: int, indices: list[Index]) -> RowGroups | None:
    """Group the rows of some problems; None if there are more groups than problems.

    Rows that no problem has are a group without a pair.
    """
    # Rows of the same problems have the same sum of random numbers, others practically never.
    keys = np.random.default_rng(0).integers(1, 2**62, len(indices), np.uint64)
    sums = np.zeros(n_points, np.uint64)
    for key, index in zip(keys, indices, strict=True):
        sums[index] += key
    known, group_of = np.unique(sums, return_inverse=True)
    if np.count_nonzero(known) > len(indices):
        return None
    by_group = np.argsort(group_of, kind="stable")
    is_member = np.zeros((len(indices), len(known)), bool)
    for p, index in enumerate(indices):
        is_member[p, group_of[index]] = True
    meet = is_member.T.astype(np.float32) @ is_member.astype(np.float32) > 0
    return RowGroups(
        rows=np.split(by_group, np.cumsum(np.bincount(group_of))[:-1]),
        orders=[np.argsort(group_of[index], kind="stable") for index in indices],
        members=[np.flatnonzero(has) for has in is_member],
        pairs=[(int(g), int(h)) for g, h in np.argwhere(np.triu(meet))],
    )


@dataclass(frozen=True)
class SharedBlocks:
    """Kernel matrices between groups of rows that meet, and the diagonal of all prepared points."""

    groups: RowGroups
    blocks: dict[Pair, NDArray[np.float32]]
    diag: FloatArray

    @property
    def nbytes(self) -> int:
        """Number of bytes of all blocks."""
        return sum(block.nbytes for block in self.blocks.values())


class BlockGram(Gram):
    """Kernel matrix of a problem whose variables are sorted by group, copied from shared blocks."""

    def __init__(
        self, kernel: Kernel, points: Points, workers: Workers, shared: SharedBlocks,
        members: Index, buffers: Buffers,
    ) -> None:  # fmt: skip
        index = np.concatenate([shared.groups.rows[g] for g in members])
        super().__init__(kernel, points, workers, index, buffers, shared.diag)
        self._shared, self._members = shared, members

    @cached_property
    def row_source(self) -> RowSource | None:
        """None: rows are copied, not computed."""
        return None

    def fill_whole(self, out: NDArray[np.float32]) -> None:
        """Write the full matrix to ``out``."""
        rows, blocks = self._shared.groups.rows, self._shared.blocks
        starts = np.cumsum([0, *(len(rows[g]) for g in self._members)])
        for a, g in enumerate(self._members):
            for b, h in enumerate(self._members[a:], a):
                block = blocks[g, h]
                out[starts[a] : starts[a + 1], starts[b] : starts[b + 1]] = block
                if a < b:
                    store_columns(block, np.arange(starts[b], starts[b + 1]), starts[a], out)
        everyone = np.arange(len(self))
        out[everyone, everyone] = self.diag


def share_blocks(
    kernel: Kernel, points: Points, workers: Workers, indices: list[Index], budget: Budget,
    buffers: Buffers,
) -> SharedBlocks | None:  # fmt: skip
    """Compute the blocks of the kernel matrix that several problems share.

    Returns None where problems are so large that few rows of their matrices are needed, where the
    blocks do not save kernel values or do not fit the memory, and when time is up.
    """
    largest = max(indices, key=len, default=np.empty(0, np.intp))
    is_stored = isinstance(kernel, Precomputed)
    if len(indices) < 2 or len(largest) > WHOLE_ROWS or is_stored or is_late(budget.deadline):
        return None
    if kernel.row_source(points, largest) is not None:
        # Rows are computed one by one, and most are never needed.
        return None
    groups = group_rows(len(points), indices)
    if groups is None:
        return None
    n_values = groups.count_values()
    is_less = n_values < sum(len(index) ** 2 for index in indices)
    own_bytes = 4 * len(largest) ** 2 * workers.n_threads
    if not is_less or max(4 * n_values, own_bytes) > MEMORY_SHARE * budget.cache_bytes:
        return None
    blocks = _cut_blocks(groups, buffers.take("shared", n_values))
    _fill(kernel, points, workers, budget.deadline, groups, blocks)
    return None if is_late(budget.deadline) else SharedBlocks(groups, blocks, kernel.diag(points))


def _cut_blocks(groups: RowGroups, store: NDArray[np.float32]) -> dict[Pair, NDArray[np.float32]]:
    """Return a part of the memory for each block."""
    blocks, at = {}, 0
    for g, h in groups.pairs:
        shape = len(groups.rows[g]), len(groups.rows[h])
        size = shape[0] * shape[1]
        blocks[g, h] = store[at : at + size].reshape(shape)
        at += size
    return blocks


def _fill(
    kernel: Kernel, points: Points, workers: Workers, deadline: float | None, groups: RowGroups,
    blocks: dict[Pair, NDArray[np.float32]],
) -> None:  # fmt: skip
    """Compute the blocks until the deadline.

    One thread computes a block, so that rounding does not depend on the number of threads.
    """
    alone = Workers(1, None)

    def fill_some(first: int, last: int) -> None:
        for g, h in groups.pairs[first:last]:
            if workers.failed or is_late(deadline):
                return
            kernel.block(points, groups.rows[g], points, groups.rows[h], blocks[g, h], alone)

    workers.run(len(groups.pairs), fill_some, grain=1)
