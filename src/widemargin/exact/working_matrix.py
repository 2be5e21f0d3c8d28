"""The kernel matrix of the working set."""

from itertools import pairwise
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.exact.kernel_matrix import FloatArray, Gram
from widemargin.exact.pair_moves_fast import add_matvec, store_block
from widemargin.kernels import Index
from widemargin.parallel import Workers

#: Most rows and columns of a tile. A pass over a row slows down at the border between two tiles.
MAX_SIDE = 8192
#: The matrix is filled, and multiplied by vectors, in parts of `PART` members; `STRIP` new members are
#: computed at a time.
PART, STRIP = 1024, 256
#: The matrix shrinks when fewer than this share of its members stay in the working set.
KEEP_SHARE = 0.8


class WorkingMatrix:
    """Dense kernel matrix among the members of a working set, kept from round to round.

    Every member has a slot, a row and column of the matrix. A new member takes the slot of one that
    is no longer wanted, or a new slot at the end, so no entry is ever moved; and the matrix is
    stored in square tiles, so memory is touched only as far as the largest set needs it.
    """

    def __init__(self, gram: Gram, max_bytes: int) -> None:
        self.gram = gram
        self.members = np.zeros(0, np.intp)
        n, room = len(gram), max(2, isqrt(max_bytes // 4))
        across = -(-min(n, room) // MAX_SIDE)
        side = min(-(-n // across), room // across)
        self.max_members = min(n, side * across)
        self.tiles = gram.buffers.take("working", across * across, side, side)

    def change_members(self, wanted: NDArray[np.bool_]) -> None:
        """Take in the marked variables, in the place of others as far as there are any.

        Unwanted members stay until their slot is needed: they often come back.
        """
        size, n_wanted = len(self.members), int(np.count_nonzero(wanted))
        if n_wanted < KEEP_SHARE * size:
            # Wanted members at the end come back as new ones: cheaper than moving their columns.
            size = n_wanted
        members = self.members[:size]
        new = wanted.copy()
        new[members] = False
        entering = np.flatnonzero(new)
        slots = np.flatnonzero(~wanted[members])[: len(entering)]
        n_appended = len(entering) - len(slots)
        slots = np.concatenate([slots, np.arange(size, size + n_appended)])
        self.members = np.concatenate([members, np.zeros(n_appended, np.intp)])
        self.members[slots] = entering
        if len(slots):
            self._fill(slots, size)

    def accumulate(self, cols: Index, change: FloatArray, out: FloatArray) -> None:
        """Add ``K[members, members[cols]] @ change`` to ``out``."""
        parts = self._parts(len(self.members))

        def add_parts(first: int, last: int) -> None:
            for start, stop in parts[first:last]:
                add_matvec(self.tiles, cols, change, start, stop, out)

        self.gram.workers.run(len(parts), add_parts, grain=1)

    def lower_block(self, slots: Index) -> FloatArray:
        """Return the lower triangle of the kernel matrix of some slots, ascending, in float64."""
        side = self.tiles.shape[2]
        out = np.zeros((len(slots), len(slots)))
        cuts = np.searchsorted(slots, np.arange(0, len(self.members) + side, side))
        for row, (top, bottom) in enumerate(pairwise(cuts)):
            for col, (left, right) in enumerate(pairwise(cuts[: row + 2])):
                at = np.ix_(slots[top:bottom] - row * side, slots[left:right] - col * side)
                out[top:bottom, left:right] = self.tiles[row * row + col][at]
        return out

    def _parts(self, size: int) -> list[tuple[int, int]]:
        """The first ``size`` slots cut into parts, none of which lies in two tiles."""
        side = self.tiles.shape[2]
        return [
            (start, min(start + PART, first + side, size))
            for first in range(0, size, side)
            for start in range(first, min(first + side, size), PART)
        ]

    def _fill(self, slots: Index, old_size: int) -> None:
        """Compute the rows and columns of ``slots``, ascending, some below ``old_size``."""
        is_new = np.zeros(len(self.members), bool)
        is_new[slots] = True
        strips = [slots[at : at + STRIP] for at in range(0, len(slots), STRIP)]
        # Behind the old members all are new: what lies beyond a strip there, later strips compute.
        blocks = [
            (strip, *part) for strip in strips for part in self._parts(max(old_size, strip[-1] + 1))
        ]
        alone = Workers(1, None)

        def fill_blocks(first: int, last: int) -> None:
            for strip, start, stop in blocks[first:last]:
                values = np.empty((stop - start, len(strip)), np.float32)
                self.gram.block(self.members[start:stop], self.members[strip], values, alone)
                store_block(values, start, strip, is_new, self.tiles)

        self.gram.workers.run(len(blocks), fill_blocks, grain=1)
        tile, at = np.divmod(slots, self.tiles.shape[2])
        self.tiles[tile * (tile + 1), at, at] = self.gram.diag[self.members[slots]]
