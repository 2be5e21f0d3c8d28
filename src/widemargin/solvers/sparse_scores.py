"""What candidates for a basis are worth (PSVM).

A candidate z would enter a machine's Hessian M with a cross term m, a diagonal entry and a gradient
g. Adding it lowers J by ``g^2 / (m_zz - m' inv(M) m)`` (Eq. 44). With ``P = inv(M) m``, exchanging
basis vector i for z has the gradient ``g - w_i P_i / v_i`` and the denominator
``m_zz - m' inv(M) m + P_i^2 / v_i``, where v is the diagonal of inv(M): all exchanges are scored at
once for the price of a product with inv(M), where the paper removes one basis vector after another
and scores all candidates again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from widemargin.kernels import Index
from widemargin.parallel import Workers
from widemargin.solvers.sparse_fast import add_rows
from widemargin.solvers.sparse_machine import FloatArray, KernelRows, Machine, inverse_diagonal

#: Kernel values between candidates and rows are held in float64 for up to so many rows, if computing
#: them so takes at most `EXACT_PRODUCTS` multiplications.
EXACT_ROWS, EXACT_PRODUCTS = 1024, 2**33
#: For up to so many rows float32 values are added in float64: a large C wants the digits.
WIDE_ROWS = 4096
#: Kernels that are not functions of a scalar product compute slower in float64.
SLOW_PRODUCTS = 2**29
#: Most rows and columns of a tile of kernel values. Where it spans all candidates, threads share the
#: rows, in at most so many pieces.
TILE_ROWS, TILE_COLUMNS, ROW_PIECES = 1024, 2048, 16
#: A candidate counts as dependent on the basis if less than this share of its diagonal entry is
#: left (Eq. 48): with kernel values of float64, of float32 added in float64, and of float32.
DEPENDENT, DEPENDENT_WIDE, DEPENDENT_FLOAT32 = 1e-10, 1e-9, 1e-6
#: Values of rows that are drawn are kept for up to so many rows; of more few are drawn twice.
HELD_ROWS = 8192
#: Rows that a thread adds up at a time for candidates that are drawn.
PIECE_ROWS = 16384
#: Sums with up to so many factors read the kernel matrix in place; BLAS is quicker with more.
FEW_FACTORS = 4


class RowValues:
    """Kernel values between some rows and all, in float32; of few rows each is computed once.

    Parameters
    ----------
    data : KernelRows
        The rows.
    max_bytes : int
        Bytes that held values may take.
    """

    def __init__(self, data: KernelRows, max_bytes: int) -> None:
        n = len(data)
        self.data = data
        self._known = np.zeros(n, bool)
        is_held = n <= HELD_ROWS and 4 * n * n <= max_bytes
        self._held = np.empty((n, n), np.float32) if is_held else None

    def take(self, rows: Index) -> NDArray[np.float32]:
        """Values of these rows, shape (n_rows, n)."""
        if self._held is None:
            return self._compute(rows)
        fresh = rows[~self._known[rows]]
        if len(fresh):
            self._held[fresh] = self._compute(fresh)
            self._known[fresh] = True
        return self._held[rows]

    def _compute(self, rows: Index) -> Any:
        return self.data.block(np.arange(len(self.data)), self.data.workers, rows)


class HeldCandidates:
    """Candidates of all choices; kernel values between them and all rows are held if affordable.

    Parameters
    ----------
    data : KernelRows
        The rows.
    rows : ndarray of shape (n_candidates,)
        Rows that are candidates.
    max_bytes : int
        Bytes that held values may take.
    """

    def __init__(self, data: KernelRows, rows: Index, max_bytes: int) -> None:
        self.data = data
        self.rows = rows
        size = len(data) * len(rows)
        limit = EXACT_PRODUCTS if data.kernel.is_product else SLOW_PRODUCTS
        is_cheap = len(data) <= EXACT_ROWS and size * data.X.shape[1] <= limit
        self.is_exact = data.is_exact and is_cheap and 8 * size <= max_bytes
        self._held: NDArray[Any] | None = None
        if self.is_exact:
            self._held = data.kernel.exact(data.X, data.X[rows])
        elif 4 * size <= max_bytes:
            self._held = data.block(rows, data.workers)
        if self._held is not None and len(data) <= WIDE_ROWS and 12 * size <= max_bytes:
            self._held = self._held.astype(np.float64, copy=False)
        self._means = self._find_means()
        if self._held is not None:
            self._held -= self._means
        self.diag = data.diag[rows]

    @property
    def threshold(self) -> float:
        """Share of a diagonal entry that must be left for a candidate to be independent."""
        if self.is_exact:
            return DEPENDENT
        is_wide = self._held is not None and self._held.dtype == np.float64
        return DEPENDENT_WIDE if is_wide else DEPENDENT_FLOAT32

    def column(self, position: int) -> FloatArray:
        """Kernel between all rows and a candidate."""
        if self.is_exact and self._held is not None:
            return self._held[:, position] + self._means[position]
        return self.data.column(int(self.rows[position]))

    def sweep(
        self, weights: FloatArray, factors: Callable[[Index | slice], FloatArray], *, squares: bool
    ) -> tuple[FloatArray, FloatArray]:
        """``factors' diag(weights) K`` and ``weights' K^2``, K between all rows and the candidates.

        K is less the means of its columns. ``factors`` gives the factors of some rows. Rows of
        weight zero are left out. The result does not depend on the number of threads.
        """
        used = np.flatnonzero(weights)
        n_factors = factors(used[:0]).shape[1]
        if squares or (self._held is not None and n_factors > FEW_FACTORS):
            return self._sweep_tiles(used, weights, factors, n_factors, squares=squares)
        coef = weights[used, None] * factors(used)
        sums = self._accumulate(used, coef) if self._held is None else self._add_rows(used, coef)
        return sums, np.empty(0)

    def _sweep_tiles(
        self, used: Index, weights: FloatArray, factors: Callable[[Index | slice], FloatArray],
        n_factors: int, *, squares: bool,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        n = len(self.rows)
        # Zeros cost less than a copy of the rows; a row taken at random costs more than its length.
        as_runs = self._held is not None and 3 * len(used) > len(weights)
        jobs = _cut(len(weights) if as_runs else len(used), n)
        sums = [np.zeros((n_factors + 1, job[1].stop - job[1].start)) for job in jobs]

        def work(first: int, last: int) -> None:
            for number in range(first, last):
                span, columns = jobs[number]
                for start in range(span.start, span.stop, TILE_ROWS):
                    part: Any = slice(start, min(start + TILE_ROWS, span.stop))
                    part = part if as_runs else used[part]
                    K = self._tile(part, columns)
                    coef = (weights[part, None] * factors(part)).T.astype(K.dtype)
                    sums[number][:-1] += coef @ K
                    if squares:
                        sums[number][-1] += weights[part].astype(K.dtype) @ (K * K)

        self.data.workers.run(len(jobs), work, grain=1)
        total = np.zeros((n_factors + 1, n))
        for (_, columns), more in zip(jobs, sums, strict=True):
            total[:, columns] += more
        return total[:-1], total[-1]

    def _tile(self, rows: Any, columns: slice) -> NDArray[Any]:
        """Kernel between some rows and consecutive candidates."""
        if self._held is not None:
            return self._held[rows, columns]
        tile = self.data.block(self.rows[columns], Workers(1, None), rows)
        return np.asarray(tile - self._means[columns], np.float32)

    def _find_means(self) -> FloatArray:
        """Mean kernel value of each candidate, which the bias makes up for."""
        n = len(self.data)
        if self._held is not None:
            return self._held.mean(axis=0, dtype=np.float64)
        return self._multiply(np.arange(n), np.full((n, 1), 1.0 / n))[:, 0]

    def _add_rows(self, used: Index, coef: FloatArray) -> FloatArray:
        held = self._held
        assert held is not None
        jobs = _cut(len(used), held.shape[1])
        coef = coef.astype(held.dtype)
        out = np.zeros((len(jobs), coef.shape[1], held.shape[1]), held.dtype)

        def work(first: int, last: int) -> None:
            for number in range(first, last):
                span, columns = jobs[number]
                add_rows(held[:, columns], used[span], coef[span], out[number, :, columns])

        self.data.workers.run(len(jobs), work, grain=1)
        return out.sum(axis=0, dtype=np.float64)

    def _accumulate(self, used: Index, coef: FloatArray) -> FloatArray:
        return (self._multiply(used, coef) - self._means[:, None] * coef.sum(axis=0)).T

    def _multiply(self, used: Index, coef: FloatArray) -> FloatArray:
        """Kernel between candidates and some rows, as it is, times coefficients."""
        out = np.zeros((len(self.rows), coef.shape[1]))
        points = self.data.points
        self.data.kernel.accumulate(points, self.rows, points, used, coef, out, self.data.workers)
        return out


def _cut(n_rows: int, n_columns: int) -> list[tuple[slice, slice]]:
    """Parts of a matrix for threads: columns, or rows as well if columns are few."""
    n_pieces = 1 if n_columns > TILE_COLUMNS else min(ROW_PIECES, n_rows // TILE_ROWS + 1)
    ends = np.linspace(0, n_rows, n_pieces + 1).astype(int)
    return [
        (slice(int(first), int(last)), slice(column, min(column + TILE_COLUMNS, n_columns)))
        for first, last in pairwise(ends)
        for column in range(0, n_columns, TILE_COLUMNS)
    ]


class DrawnCandidates:
    """Some candidates drawn for one choice, with their kernel values.

    Parameters
    ----------
    values : RowValues
        Kernel values of rows.
    rows : ndarray of shape (n_candidates,)
        Rows that are candidates.
    """

    def __init__(self, values: RowValues, rows: Index) -> None:
        self.data = values.data
        self.rows = rows
        self.diag = values.data.diag[rows]
        is_wide = len(self.data) <= WIDE_ROWS
        wanted = np.float64 if is_wide else np.float32
        self.values: NDArray[Any] = values.take(rows).astype(wanted)
        # The bias makes up for the means.
        self.values -= self.values.mean(axis=1, keepdims=True, dtype=np.float64).astype(wanted)
        self.threshold = DEPENDENT_WIDE if is_wide else DEPENDENT_FLOAT32

    def column(self, position: int) -> FloatArray:
        """Kernel between all rows and a candidate."""
        return self.data.column(int(self.rows[position]))


class Scores(ABC):
    """What each candidate would do for one machine.

    Parameters
    ----------
    machine : Machine
        The machine.
    candidates : HeldCandidates or DrawnCandidates
        Rows that may join the basis.
    """

    def __init__(self, machine: Machine, candidates: HeldCandidates | DrawnCandidates) -> None:
        self.machine = machine
        self.candidates = candidates

    @abstractmethod
    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weighted sums over the support vectors, for all candidates.

        Of the kernel, with ones and with the columns of the basis, shape (n_basis + 1, n); of the
        kernel with the labels; and of its squares.
        """

    def gains(self) -> FloatArray:
        """How much J would fall if a candidate were added; zero for dependent ones (Eq. 44)."""
        _, left, gradient, enough = self._relate()
        return np.where(enough(left), gradient**2 / np.where(enough(left), left, 1.0), 0.0)

    def exchanges(self) -> FloatArray:
        """How much J would fall if a basis vector made way for a candidate.

        Shape (n_basis, n_candidates); -inf for candidates that depend on the others.
        """
        half, left, gradient, enough = self._relate()
        factor = self.machine.factor
        P = solve_triangular(factor, half, lower=True, trans="T", check_finite=False)
        inverse_diag = inverse_diagonal(factor)
        u = self.machine.solution.u
        out = np.empty((len(u) - 1, len(left)))

        def score(first: int, last: int) -> None:
            for i in range(first + 1, last + 1):
                moved = gradient - (u[i] / inverse_diag[i]) * P[i]
                room = left + P[i] * P[i] / inverse_diag[i]
                good = enough(room)
                gain = moved * moved / np.where(good, room, 1.0) - u[i] ** 2 / inverse_diag[i]
                out[i - 1] = np.where(good, gain, -np.inf)

        self.candidates.data.workers.run(len(out), score, grain=1)
        return out

    def _relate(self) -> tuple[FloatArray, FloatArray, FloatArray, Callable[[FloatArray], Any]]:
        """Cross terms solved halfway, what is left of the diagonal, gradients, and the test (48)."""
        cross, labels, squares = self._sums()
        cross[1:] += self.machine.columns.kernel_at(self.candidates.rows).T
        gradient = self.machine.solution.u @ cross - labels
        factor = self.machine.factor
        half = np.empty_like(cross)

        def solve(i: int, j: int) -> None:
            half[:, i:j] = solve_triangular(factor, cross[:, i:j], lower=True, check_finite=False)

        self.candidates.data.workers.run(cross.shape[1], solve)
        whole = self.candidates.diag + squares
        left = whole - np.einsum("ij,ij->j", half, half)
        least = self.candidates.threshold * whole
        return half, left, gradient, lambda room: room > least


class DrawnScores(Scores):
    """Scores of candidates that are looked at once."""

    candidates: DrawnCandidates

    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        machine, K = self.machine, self.candidates.values
        rows = np.flatnonzero(machine.support)
        # A copy of the rows pays if it is much shorter.
        parts = _pieces(rows) if 2 * len(rows) < len(machine.y) else _pieces(len(machine.y))
        weights = np.where(machine.support, machine.cost, 0.0).astype(K.dtype)
        sums = np.zeros((len(parts), len(K), len(machine.columns.rows) + 2))
        squares = np.zeros((len(parts), len(K)))

        def add(first: int, last: int) -> None:
            for number in range(first, last):
                part = parts[number]
                weighted = K[:, part] * weights[part]
                y = machine.y[part]
                factors = np.column_stack([np.ones_like(y), machine.columns.values[part], y])
                sums[number] = weighted @ factors.astype(K.dtype)
                squares[number] = np.einsum("ij,ij->i", weighted, K[:, part])

        self.candidates.data.workers.run(len(parts), add, grain=1)
        total = sums.sum(axis=0).T
        return total[:-1].copy(), total[-1], squares.sum(axis=0)


def _pieces(rows: Any) -> list[Any]:
    """Some rows, or that many, in pieces for threads; their sums do not depend on the threads."""
    if isinstance(rows, int):
        return [slice(i, min(i + PIECE_ROWS, rows)) for i in range(0, rows, PIECE_ROWS)]
    return [rows[i : i + PIECE_ROWS] for i in range(0, len(rows), PIECE_ROWS)]


class FollowedScores(Scores):
    """Scores of the same candidates again and again: the sums follow the machine's changes."""

    candidates: HeldCandidates

    def __init__(self, machine: Machine, candidates: HeldCandidates) -> None:
        super().__init__(machine, candidates)
        n = len(candidates.rows)
        self._support = np.zeros(len(machine.y), bool)
        self._bias = np.zeros(n)
        self._labels = np.zeros(n)
        self._squares = np.zeros(n)
        self._cross: dict[int, FloatArray] = {}

    def _sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        self._synchronise()
        basis = [self._cross[row] for row in self.machine.columns.rows]
        return np.array([self._bias, *basis]), self._labels, self._squares

    def _synchronise(self) -> None:
        """Follow the machine's changes since the last time."""
        rows, cost = self.machine.columns.rows, self.machine.cost
        self._cross = {row: values for row, values in self._cross.items() if row in rows}
        known, y = list(self._cross), self.machine.y
        now = self.machine.support
        if (self._support != now).any():
            weights = np.where(self._support != now, np.where(now, cost, -cost), 0.0)
            columns = self._values_of(known)
            sums, squares = self.candidates.sweep(
                weights,
                lambda some: np.column_stack([np.ones_like(y[some]), y[some], columns(some)]),
                squares=True,
            )
            self._bias += sums[0]
            self._labels += sums[1]
            self._squares += squares
            for row, more in zip(known, sums[2:], strict=True):
                self._cross[row] += more
            self._support = now.copy()
        fresh = [row for row in rows if row not in self._cross]
        if fresh:
            weights = np.where(now, cost, 0.0)
            sums, _ = self.candidates.sweep(weights, self._values_of(fresh), squares=False)
            self._cross |= dict(zip(fresh, sums, strict=True))

    def _values_of(self, basis: list[int]) -> Callable[[Index | slice], FloatArray]:
        """Function that gives the kernel between some rows and these basis vectors."""
        columns = self.machine.columns
        if basis == columns.rows:
            return lambda some: columns.values[some]
        places = [columns.rows.index(row) for row in basis]
        return lambda some: columns.values[some][:, places]
