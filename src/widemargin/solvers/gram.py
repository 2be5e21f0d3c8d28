"""The kernel matrix of one problem, and the part of it that is being optimised on."""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Index, Kernel, Points
from widemargin.kernels.tiles_fast import mirror_strip
from widemargin.parallel import Workers
from widemargin.solvers.box_qp_fast import add_matvec, compact_matrix, widen_matrix

#: Rows of the working matrix one thread computes at a time.
STRIP_ROWS = 512
#: Unwanted members are dropped when the wanted ones are less than this share of the set.
KEEP_SHARE = 0.75


class Gram:
    """Kernel matrix among some of the prepared points, never held as a whole.

    Indices given to its methods count from zero within the problem; ``index`` says which points of
    the data they are, so that several problems share one set of points.
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

    def block(
        self, rows: Index, cols: Index, out: NDArray[np.float32], workers: Workers
    ) -> None:
        """Write ``K[rows, cols]`` to the first columns of ``out``."""
        self.kernel.block(
            self.points, self.index[rows], self.points, self.index[cols], out, workers
        )

    def accumulate(
        self, rows: Index, cols: Index, coef: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
        """Add ``K[rows, cols] @ coef`` to ``out``."""
        column = out.reshape(-1, 1)
        self.kernel.accumulate(
            self.points, self.index[rows], self.points, self.index[cols],
            np.ascontiguousarray(coef).reshape(-1, 1), column, self.workers,
        )  # fmt: skip


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

    def accumulate(
        self, cols: Index, change: NDArray[np.float64], out: NDArray[np.float64]
    ) -> None:
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
