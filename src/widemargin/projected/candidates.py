"""Rows that may join the basis, and weighted sums of their kernel values."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Index
from widemargin.parallel import Workers
from widemargin.projected.basis import COPIED_VALUES, PIECE_VALUES, FloatArray, KernelRows
from widemargin.projected.scores_fast import add_rows, add_squares

#: Function that returns the factors of given rows, shape (n_rows, n_factors).
Factors = Callable[[Index | slice], FloatArray]

#: Kernel values between candidates and rows are held in float64 for at most this many rows, if all
#: rows are candidates and the values cost at most `EXACT_PRODUCTS` multiplications.
EXACT_ROWS, EXACT_PRODUCTS = 1024, 2**33
#: Sums over at most this many rows are accumulated in float64, because a large C needs the digits.
WIDE_ROWS = 4096
#: The same limit as `EXACT_PRODUCTS` for kernels that are not functions of a scalar product, which
#: are slower in float64.
SLOW_PRODUCTS = 2**29
#: Largest number of rows and of columns of a tile of kernel values. If one tile spans all candidates,
#: the threads share the rows, in at most `ROW_PIECES` pieces.
TILE_ROWS, TILE_COLUMNS, ROW_PIECES = 1024, 2048, 16
#: Pieces of kernel values that threads compute have a multiple of this many rows.
ROW_GRAIN = 256
#: PSVM Eq. 48 with rounding errors: a candidate counts as linearly dependent on the basis if at most
#: this share of its diagonal entry h remains after ``h - h' inv(H) h``. The three shares are for
#: kernel values in float64, in float32 with sums in float64, and in float32 with sums in float32.
DEPENDENT, DEPENDENT_WIDE, DEPENDENT_FLOAT32 = 1e-10, 1e-9, 1e-6
#: Sums with at most this many factors read the kernel matrix in place; BLAS is faster with more.
FEW_FACTORS = 4


class Candidates:
    """Rows that may join the basis, with their kernel values, which are held if memory permits.

    Parameters
    ----------
    data : KernelRows
        The rows.
    rows : ndarray of shape (n_candidates,)
        The candidates.
    max_bytes : int
        Memory for held kernel values.
    """

    def __init__(self, data: KernelRows, rows: Index, max_bytes: int) -> None:
        self.data = data
        self.rows = rows
        size = len(data) * len(rows)
        limit = EXACT_PRODUCTS if data.kernel.is_product else SLOW_PRODUCTS
        is_cheap = len(data) <= EXACT_ROWS and size * data.X.shape[1] <= limit
        are_all = len(rows) == len(data)
        self.is_exact = data.is_exact and is_cheap and are_all and 8 * size <= max_bytes
        self._held: NDArray[Any] | None = None
        if self.is_exact:
            self._held = data.kernel.exact(data.X, data.X[rows])
        elif 4 * size <= max_bytes:
            self._held = self._compute()
        self._sum_type = np.float64 if len(data) <= WIDE_ROWS else np.float32
        self._means = self._find_means()
        if self._held is not None:
            means: Any = self._means.astype(self._held.dtype)
            for part in self._pieces():
                self._held[part] -= means
        self.diag = data.diag[rows]

    @property
    def threshold(self) -> float:
        """Share of its diagonal entry that an independent candidate must exceed (PSVM Eq. 48)."""
        if self.is_exact:
            return DEPENDENT
        return DEPENDENT_WIDE if self._sum_type == np.float64 else DEPENDENT_FLOAT32

    def column(self, position: int) -> FloatArray:
        """Return the kernel values between all rows and a candidate."""
        if self.is_exact and self._held is not None:
            return self._held[:, position] + self._means[position]
        return self.data.column(int(self.rows[position]))

    def sweep(
        self, weights: FloatArray, factors: Factors, n_factors: int, *, squares: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``factors' diag(weights) K`` and ``weights' K^2``.

        K are the centred kernel values between all rows and the candidates. ``factors`` returns the
        ``n_factors`` factors of given rows. Rows of weight zero are skipped. The result does not
        depend on the number of threads.
        """
        used = np.flatnonzero(weights)
        is_held = self._held is not None
        if (is_held and n_factors > FEW_FACTORS) or (squares and not is_held):
            return self._sweep_tiles(used, weights, factors, n_factors, squares=squares)
        if is_held:
            coef = weights[used, None] * factors(used)
            return self._add_rows(used, coef, weights[used] if squares else np.empty(0))
        out = np.zeros((n_factors, len(self.rows)))
        step = max(TILE_COLUMNS, COPIED_VALUES // max(n_factors, 1))
        for start in range(0, len(used), step):
            part = used[start : start + step]
            out += self._accumulate(part, weights[part, None] * factors(part))
        return out, np.empty(0)

    def _sweep_tiles(
        self, used: Index, weights: FloatArray, factors: Factors, n_factors: int, *, squares: bool
    ) -> tuple[FloatArray, FloatArray]:
        n = len(self.rows)
        # Products with zeros cost less than copying scattered rows, if at least a third is used.
        as_runs = self._held is not None and 3 * len(used) > len(weights)
        jobs = _cut(len(weights) if as_runs else len(used), n)
        total = np.zeros((n_factors + 1, n))
        # Jobs whose columns no other job has can add to the total directly.
        are_apart = all(span.start == 0 for span, _ in jobs)
        sums = [
            total[:, columns] if are_apart else np.zeros((n_factors + 1, n)) for _, columns in jobs
        ]

        def work(first: int, last: int) -> None:
            for number in range(first, last):
                span, columns = jobs[number]
                for start in range(span.start, span.stop, TILE_ROWS):
                    if self.data.is_late():
                        return
                    part: Any = slice(start, min(start + TILE_ROWS, span.stop))
                    part = part if as_runs else used[part]
                    K = self._tile(part, columns)
                    coef = (weights[part, None] * factors(part)).T.astype(K.dtype)
                    sums[number][:-1] += coef @ K
                    if squares:
                        # A tile that is not held may be overwritten.
                        squared = np.multiply(K, K, out=K if self._held is None else None)
                        sums[number][-1] += weights[part].astype(K.dtype) @ squared

        self.data.workers.run(len(jobs), work, grain=1)
        self.data.require_time()
        if not are_apart:
            total += np.sum(sums, axis=0)
        return total[:-1], total[-1]

    def _tile(self, rows: Any, columns: slice) -> NDArray[Any]:
        """Return centred kernel values between rows and consecutive candidates."""
        if self._held is not None:
            return self._held[rows, columns].astype(self._sum_type, copy=False)
        tile = self.data.block(self.rows[columns], Workers(1, None), rows)
        out = tile if self._sum_type == np.float32 else np.empty(tile.shape)
        return np.subtract(tile, self._means[columns], out=out, casting="same_kind")

    def _pieces(self) -> Iterator[slice]:
        """Yield slices of all rows, and check the deadline before each."""
        n = len(self.data)
        step = max(1, PIECE_VALUES // len(self.rows) // ROW_GRAIN) * ROW_GRAIN
        for start in range(0, n, step):
            self.data.require_time()
            yield slice(start, min(start + step, n))

    def _compute(self) -> NDArray[np.float32]:
        """Return the kernel values between all rows and the candidates."""
        out = np.empty((len(self.data), len(self.rows)), np.float32)
        points, everyone = self.data.points, np.arange(len(self.data))
        for part in self._pieces():
            self.data.kernel.block(
                points, everyone[part], points, self.rows, out[part], self.data.workers
            )
        return out

    def _find_means(self) -> FloatArray:
        """Return the mean kernel value of each candidate, for centring."""
        n = len(self.data)
        if self._held is not None:
            sums = [self._held[part].sum(axis=0, dtype=np.float64) for part in self._pieces()]
            return np.asarray(np.sum(sums, axis=0) / n)
        return self._multiply(np.arange(n), np.full((n, 1), 1.0 / n))[:, 0]

    def _add_rows(
        self, used: Index, coef: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return sums of held rows, read in place, and of their squares if there are weights."""
        held = self._held
        assert held is not None
        jobs = _cut(len(used), held.shape[1])
        coef, weights = coef.astype(self._sum_type), weights.astype(self._sum_type)
        out = np.zeros((len(jobs), coef.shape[1], held.shape[1]), self._sum_type)
        squares = np.zeros((len(jobs), held.shape[1]), self._sum_type)

        def work(first: int, last: int) -> None:
            for number in range(first, last):
                if self.data.is_late():
                    return
                span, columns = jobs[number]
                K, rows = held[:, columns], used[span]
                add_rows(K, rows, coef[span], out[number, :, columns])
                if len(weights):
                    add_squares(K, rows, weights[span], squares[number, columns])

        self.data.workers.run(len(jobs), work, grain=1)
        self.data.require_time()
        return out.sum(axis=0, dtype=np.float64), squares.sum(axis=0, dtype=np.float64)

    def _accumulate(self, used: Index, coef: FloatArray) -> FloatArray:
        return (self._multiply(used, coef) - self._means[:, None] * coef.sum(axis=0)).T

    def _multiply(self, used: Index, coef: FloatArray) -> FloatArray:
        """Return the kernel values between candidates and rows, not centred, times coefficients."""
        out = np.zeros((len(self.rows), coef.shape[1]))
        data, points = self.data, self.data.points
        step = max(TILE_ROWS, PIECE_VALUES // min(len(self.rows), TILE_COLUMNS))
        for start in range(0, len(used), step):
            part = slice(start, start + step)
            for columns in self.split():
                data.require_time()
                data.kernel.accumulate(
                    points, self.rows[columns], points, used[part], coef[part], out[columns],
                    data.workers,
                )  # fmt: skip
        return out

    def split(self) -> Iterator[slice]:
        """Yield slices of the candidates."""
        n = len(self.rows)
        return (slice(i, min(i + TILE_COLUMNS, n)) for i in range(0, n, TILE_COLUMNS))


def _cut(n_rows: int, n_columns: int) -> list[tuple[slice, slice]]:
    """Divide a matrix among threads: by columns, and by rows too if there are few columns."""
    n_pieces = 1 if n_columns > TILE_COLUMNS else min(ROW_PIECES, n_rows // TILE_ROWS + 1)
    ends = [n_rows * piece // n_pieces for piece in range(n_pieces + 1)]
    return [
        (slice(first, last), slice(column, min(column + TILE_COLUMNS, n_columns)))
        for first, last in pairwise(ends)
        for column in range(0, n_columns, TILE_COLUMNS)
    ]
