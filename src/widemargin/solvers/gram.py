"""The kernel matrix of one problem, and the part of it that is being optimised on."""

from collections.abc import Iterator
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Index, Kernel, Points
from widemargin.kernels.tiles_fast import add_stored_rows, mirror_strip
from widemargin.parallel import Workers
from widemargin.solvers.box_qp_fast import add_matvec, compact_matrix, widen_matrix

FloatArray = NDArray[np.float64]

#: Rows of the working matrix one thread computes at a time.
STRIP_ROWS = 512
#: Unwanted members are dropped when the wanted ones are less than this share of the set.
KEEP_SHARE = 0.9
#: Values per point from which kernel rows are kept. An estimate from the cost of an entry and of
#: touching memory: 12 to 22 values computed anew, 150 kept; nothing between was tried.
CACHE_ENTRIES = 64


class Gram:
    """Kernel matrix of one problem, computed wherever it is asked for and never held whole.

    The problem's points are some of all prepared points: indices given to the methods count from
    zero within the problem, and ``index`` says which points they are.
    """

    def __init__(
        self, kernel: Kernel, points: Points, workers: Workers, index: Index | None = None
    ) -> None:
        self.kernel = kernel
        self.points = points
        self.workers = workers
        self.index = np.arange(len(points)) if index is None else index
        self.diag = kernel.diag(points)[self.index]

    def __len__(self) -> int:
        return len(self.index)

    def block(self, rows: Index, cols: Index, out: NDArray[np.float32], workers: Workers) -> None:
        """Write ``K[rows, cols]`` to the first columns of ``out``."""
        self.kernel.block(
            self.points, self.index[rows], self.points, self.index[cols], out, workers
        )

    def accumulate(self, rows: Index, cols: Index, coef: FloatArray, out: FloatArray) -> None:
        """Add ``K[rows, cols] @ coef`` to ``out``."""
        self.kernel.accumulate(
            self.points, self.index[rows], self.points, self.index[cols], coef.reshape(-1, 1),
            out.reshape(-1, 1), self.workers,
        )  # fmt: skip


class CachedGram(Gram):
    """A `Gram` that keeps whole rows once they have been multiplied by a coefficient.

    That pays when rows are expensive, or when several problems on the same points share them. Rows
    used longest ago make room for others.
    """

    def __init__(
        self, kernel: Kernel, points: Points, workers: Workers, max_bytes: int,
        index: Index | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel, points, workers, index)
        n = len(self)
        capacity = int(min(n, max(1, max_bytes // (4 * n))))
        self._store = np.empty((capacity, n), np.float32)
        self._slot_of = np.full(n, -1, np.intp)
        self._owner_of = np.full(capacity, -1, np.intp)
        self._last_use = np.zeros(capacity, np.int64)
        self._clock = 0

    def accumulate(self, rows: Index, cols: Index, coef: FloatArray, out: FloatArray) -> None:
        """Add ``K[rows, cols] @ coef`` to ``out``."""
        step = len(self._store)
        for at in range(0, len(cols), step):
            slots, part = self._fetch(cols[at : at + step]), coef[at : at + step]
            self.workers.run(
                len(rows),
                lambda i, j, slots=slots, part=part: add_stored_rows(  # type: ignore[misc]
                    self._store, slots, part, rows[i:j], out[i:j]
                ),
                grain=2048,
            )

    def _fetch(self, wanted: Index) -> Index:
        """Slots that hold the wanted rows, after computing those that are missing."""
        self._clock += 1
        held = self._slot_of[wanted]
        self._last_use[held[held >= 0]] = self._clock
        missing = wanted[held < 0]
        if len(missing):
            slots = np.argsort(self._last_use, kind="stable")[: len(missing)]
            evicted = self._owner_of[slots]
            self._slot_of[evicted[evicted >= 0]] = -1
            self._compute(missing, slots)
            self._slot_of[missing], self._owner_of[slots] = slots, missing
            self._last_use[slots] = self._clock
        return self._slot_of[wanted]

    def _compute(self, missing: Index, slots: Index) -> None:
        """Fill slots with rows; threads share the columns, because rows come in small numbers."""
        everyone, alone = np.arange(len(self)), Workers(1, None)

        def fill_columns(start: int, stop: int) -> None:
            part = np.empty((len(missing), stop - start), np.float32)
            self.block(missing, everyone[start:stop], part, alone)
            self._store[slots, start:stop] = part

        self.workers.run(len(self), fill_columns)


def make_grams(
    kernel: Kernel, points: Points, workers: Workers, indices: list[Index], max_bytes: int
) -> Iterator[Gram]:
    """Kernel matrices of several problems, one at a time.

    Problems on all points, as in one-vs-rest, share one cache of rows. Otherwise a problem has a
    cache of its own if its rows are expensive, and computes tiles anew if they are cheap.
    """
    n = len(points)
    shared = None
    if len(indices) > 1 and all(len(index) == n for index in indices):
        shared = CachedGram(kernel, points, workers, max_bytes)
    for index in indices:
        if shared is not None:
            yield shared
        elif points.entries_per_row >= CACHE_ENTRIES:
            yield CachedGram(kernel, points, workers, max_bytes, index)
        else:
            yield Gram(kernel, points, workers, index)


class WorkingMatrix:
    """Dense kernel matrix among the members of a working set, kept from round to round.

    When the set changes, entries between members that stay are moved, not computed again, and they
    move within one buffer: memory is touched only as far as the largest set needs it.
    """

    def __init__(self, gram: Gram, max_bytes: int) -> None:
        self.gram = gram
        max_members = min(len(gram), max(2, isqrt(max_bytes // 4)))
        self.max_members = max_members
        self.members = np.zeros(0, np.intp)
        self._buffer = np.empty(max_members * max_members, np.float32)
        self._side = 0

    @property
    def matrix(self) -> NDArray[np.float32]:
        """The matrix, in the order of ``members``."""
        return self._buffer[: self._side * self._side].reshape(self._side, self._side)

    def change_members(self, wanted: NDArray[np.bool_]) -> None:
        """Take in the marked variables and, when that pays, let the others go.

        Dropped members often come back, and dropping moves the whole matrix, so a few unwanted ones
        are carried along.
        """
        added = wanted.copy()
        added[self.members] = False
        new = np.flatnonzero(added)
        kept = np.flatnonzero(wanted[self.members])
        everyone = len(self.members) + len(new)
        if everyone <= self.max_members and len(kept) + len(new) >= KEEP_SHARE * everyone:
            kept = np.arange(len(self.members))
        if len(kept) < len(self.members):
            compact_matrix(self._buffer, self._side, kept)
            self.members = self.members[kept]
        self._side = len(kept)
        if len(new):
            widen_matrix(self._buffer, len(kept), len(kept) + len(new))
            self._side += len(new)
            self.members = np.concatenate([self.members, new])
            self._fill(len(kept))

    def accumulate(self, cols: Index, change: FloatArray, out: FloatArray) -> None:
        """Add ``K[members, members[cols]] @ change`` to ``out``."""
        self.gram.workers.run(
            len(self.members),
            lambda start, stop: add_matvec(self.matrix, cols, change, start, stop, out),
            grain=2048,
        )

    def _fill(self, start: int) -> None:
        """Compute the rows from ``start`` on, below the diagonal, and mirror them."""
        size, matrix = len(self.members), self.matrix
        workers = self.gram.workers
        pieces = max(-(-(size - start) // STRIP_ROWS), workers.n_threads)
        bounds = np.linspace(start, size, pieces + 1).astype(int)
        alone = Workers(1, None)

        def fill_strips(first: int, last: int) -> None:
            for s, e in zip(bounds[first:last], bounds[first + 1 : last + 1], strict=True):
                self.gram.block(self.members[s:e], self.members[:e], matrix[s:e], alone)
                mirror_strip(matrix, s, e)

        workers.run(pieces, fill_strips, grain=1)
        at = np.arange(start, size)
        matrix[at, at] = self.gram.diag[self.members[start:]]
