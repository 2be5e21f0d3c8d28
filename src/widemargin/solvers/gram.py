"""The kernel matrix of one problem, and the part of it that is being optimised on."""

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
#: Rows a cache computes at a time.
FETCH_ROWS = 1024


class KernelRows:
    """The kernel matrix among all prepared points, computed wherever it is asked for."""

    def __init__(self, kernel: Kernel, points: Points, workers: Workers) -> None:
        self.kernel = kernel
        self.points = points
        self.workers = workers
        self.diag = kernel.diag(points)

    def block(self, rows: Index, cols: Index, out: NDArray[np.float32], workers: Workers) -> None:
        """Write ``K[rows, cols]`` to the first columns of ``out``."""
        self.kernel.block(self.points, rows, self.points, cols, out, workers)

    def accumulate(self, rows: Index, cols: Index, coef: FloatArray, out: FloatArray) -> None:
        """Add ``K[rows, cols] @ coef`` to ``out``."""
        self.kernel.accumulate(
            self.points, rows, self.points, cols, coef.reshape(-1, 1), out.reshape(-1, 1),
            self.workers,
        )  # fmt: skip


class CachedRows(KernelRows):
    """Rows of support vectors kept in memory, so that several problems compute them once.

    Rows are taken in when they are multiplied by a coefficient, whole; those used longest ago make
    room.
    """

    def __init__(
        self, kernel: Kernel, points: Points, workers: Workers, max_bytes: int
    ) -> None:
        super().__init__(kernel, points, workers)
        n = len(points)
        capacity = int(min(n, max(1, max_bytes // (4 * n))))
        self._store = np.empty((capacity, n), np.float32)
        self._slot_of = np.full(n, -1, np.intp)
        self._owner_of = np.full(capacity, -1, np.intp)
        self._last_use = np.zeros(capacity, np.int64)
        self._clock = 0

    def accumulate(self, rows: Index, cols: Index, coef: FloatArray, out: FloatArray) -> None:
        """Add ``K[rows, cols] @ coef`` to ``out``."""
        step = max(1, len(self._store) // 2)
        for at in range(0, len(cols), step):
            slots = self._fetch(cols[at : at + step])
            part = coef[at : at + step]
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
        everyone = np.arange(len(self.points))
        for at in range(0, len(missing), FETCH_ROWS):
            part = missing[at : at + FETCH_ROWS]
            rows = np.empty((len(part), len(everyone)), np.float32)
            super().block(part, everyone, rows, self.workers)
            self._store[slots[at : at + FETCH_ROWS]] = rows


class Gram:
    """Kernel matrix of one problem, whose points are some of all points.

    Indices given to its methods count from zero within the problem; ``index`` says which points
    they are.
    """

    def __init__(self, rows: KernelRows, index: Index | None = None) -> None:
        self.rows = rows
        self.index = np.arange(len(rows.points)) if index is None else index
        self.diag = rows.diag[self.index]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def workers(self) -> Workers:
        """Threads to compute with."""
        return self.rows.workers

    def block(self, rows: Index, cols: Index, out: NDArray[np.float32], workers: Workers) -> None:
        """Write ``K[rows, cols]`` to the first columns of ``out``."""
        self.rows.block(self.index[rows], self.index[cols], out, workers)

    def accumulate(self, rows: Index, cols: Index, coef: FloatArray, out: FloatArray) -> None:
        """Add ``K[rows, cols] @ coef`` to ``out``."""
        self.rows.accumulate(self.index[rows], self.index[cols], coef, out)


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
        pieces = max(1, -(-(size - start) // STRIP_ROWS), 2 * workers.n_threads)
        bounds = np.linspace(start, size, pieces + 1).astype(int)
        alone = Workers(1, None)

        def fill_strips(first: int, last: int) -> None:
            for s, e in zip(bounds[first:last], bounds[first + 1 : last + 1], strict=True):
                self.gram.block(self.members[s:e], self.members[:e], matrix[s:e], alone)
                mirror_strip(matrix, s, e)

        workers.run(pieces, fill_strips, grain=1)
        at = np.arange(start, size)
        matrix[at, at] = self.gram.diag[self.members[start:]]
