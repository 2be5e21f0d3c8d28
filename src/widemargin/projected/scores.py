"""What candidates for a basis are worth (PSVM).

A candidate z would enter a machine's Hessian M with a cross term m, a diagonal entry and a gradient
g. Adding it lowers J by ``g^2 / (m_zz - m' inv(M) m)`` (Eq. 44). With ``P = inv(M) m``, exchanging
basis vector i for z has the gradient ``g - w_i P_i / v_i`` and the denominator
``m_zz - m' inv(M) m + P_i^2 / v_i``, where v is the diagonal of inv(M): all exchanges are scored at
once for the price of a product with inv(M), where the paper removes one basis vector after another
and scores all candidates again.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Index
from widemargin.parallel import Workers
from widemargin.projected.basis import (
    COPIED_VALUES,
    PIECE_VALUES,
    FloatArray,
    KernelRows,
    solve_lower,
)
from widemargin.projected.machine import Machine, inverse_diagonal
from widemargin.projected.scores_fast import add_rows, add_squares

#: Gives factors of some rows, shape (n_rows, n_factors).
Factors = Callable[[Index | slice], FloatArray]

#: Kernel values between candidates and rows are held in float64 for up to so many rows, if all are
#: candidates and computing them takes at most `EXACT_PRODUCTS` multiplications.
EXACT_ROWS, EXACT_PRODUCTS = 1024, 2**33
#: For up to so many rows float32 values are added in float64: a large C wants the digits.
WIDE_ROWS = 4096
#: Kernels that are not functions of a scalar product compute slower in float64.
SLOW_PRODUCTS = 2**29
#: Most rows and columns of a tile of kernel values. Where it spans all candidates, threads share the
#: rows, in at most so many pieces.
TILE_ROWS, TILE_COLUMNS, ROW_PIECES = 1024, 2048, 16
#: Rows in whose multiples threads share the work on kernel values.
ROW_GRAIN = 256
#: A candidate counts as dependent on the basis if less than this share of its diagonal entry is
#: left (Eq. 48): with kernel values of float64, of float32 added in float64, and of float32.
DEPENDENT, DEPENDENT_WIDE, DEPENDENT_FLOAT32 = 1e-10, 1e-9, 1e-6
#: Sums with up to so many factors read the kernel matrix in place; BLAS is quicker with more.
FEW_FACTORS = 4


class Candidates:
    """Rows that may join the basis; kernel values between them and all rows are held if affordable.

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
        """Share of a diagonal entry that must be left for a candidate to be independent."""
        if self.is_exact:
            return DEPENDENT
        return DEPENDENT_WIDE if self._sum_type == np.float64 else DEPENDENT_FLOAT32

    def column(self, position: int) -> FloatArray:
        """Kernel between all rows and a candidate."""
        if self.is_exact and self._held is not None:
            return self._held[:, position] + self._means[position]
        return self.data.column(int(self.rows[position]))

    def sweep(
        self, weights: FloatArray, factors: Factors, n_factors: int, *, squares: bool
    ) -> tuple[FloatArray, FloatArray]:
        """``factors' diag(weights) K`` and ``weights' K^2``, K between all rows and the candidates.

        K is less the means of its columns. ``factors`` gives the ``n_factors`` factors of some rows.
        Rows of weight zero are left out. The result does not depend on the number of threads.
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
        # Zeros cost less than a copy of the rows; a row taken at random costs more than its length.
        as_runs = self._held is not None and 3 * len(used) > len(weights)
        jobs = _cut(len(weights) if as_runs else len(used), n)
        total = np.zeros((n_factors + 1, n))
        # Jobs that have columns to themselves need no sums of their own.
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
                        # Tiles that are not held are of no more use.
                        squared = np.multiply(K, K, out=K if self._held is None else None)
                        sums[number][-1] += weights[part].astype(K.dtype) @ squared

        self.data.workers.run(len(jobs), work, grain=1)
        self.data.require_time()
        if not are_apart:
            total += np.sum(sums, axis=0)
        return total[:-1], total[-1]

    def _tile(self, rows: Any, columns: slice) -> NDArray[Any]:
        """Kernel between some rows and consecutive candidates."""
        if self._held is not None:
            return self._held[rows, columns].astype(self._sum_type, copy=False)
        tile = self.data.block(self.rows[columns], Workers(1, None), rows)
        out = tile if self._sum_type == np.float32 else np.empty(tile.shape)
        return np.subtract(tile, self._means[columns], out=out, casting="same_kind")

    def _pieces(self) -> Iterator[slice]:
        """Pieces of all rows whose kernel values with the candidates are held."""
        n = len(self.data)
        step = max(1, PIECE_VALUES // len(self.rows) // ROW_GRAIN) * ROW_GRAIN
        for start in range(0, n, step):
            self.data.require_time()
            yield slice(start, min(start + step, n))

    def _compute(self) -> NDArray[np.float32]:
        """Kernel between all rows and the candidates."""
        out = np.empty((len(self.data), len(self.rows)), np.float32)
        points, everyone = self.data.points, np.arange(len(self.data))
        for part in self._pieces():
            self.data.kernel.block(
                points, everyone[part], points, self.rows, out[part], self.data.workers
            )
        return out

    def _find_means(self) -> FloatArray:
        """Mean kernel value of each candidate, which the bias makes up for."""
        n = len(self.data)
        if self._held is not None:
            sums = [self._held[part].sum(axis=0, dtype=np.float64) for part in self._pieces()]
            return np.asarray(np.sum(sums, axis=0) / n)
        return self._multiply(np.arange(n), np.full((n, 1), 1.0 / n))[:, 0]

    def _add_rows(
        self, used: Index, coef: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Sums of rows in place, and of their squares if there are weights for them."""
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
        """Kernel between candidates and some rows, as it is, times coefficients."""
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
        """Pieces of the candidates."""
        n = len(self.rows)
        return (slice(i, min(i + TILE_COLUMNS, n)) for i in range(0, n, TILE_COLUMNS))


def _cut(n_rows: int, n_columns: int) -> list[tuple[slice, slice]]:
    """Parts of a matrix for threads: columns, or rows as well if columns are few."""
    n_pieces = 1 if n_columns > TILE_COLUMNS else min(ROW_PIECES, n_rows // TILE_ROWS + 1)
    ends = [n_rows * piece // n_pieces for piece in range(n_pieces + 1)]
    return [
        (slice(first, last), slice(column, min(column + TILE_COLUMNS, n_columns)))
        for first, last in pairwise(ends)
        for column in range(0, n_columns, TILE_COLUMNS)
    ]


class Related(NamedTuple):
    """Some candidates in relation to a machine.

    Attributes
    ----------
    factor, inverse_diag : ndarray
        Lower triangle L with ``L L' = M``, and the diagonal of inv(M).
    half : ndarray of shape (n_basis + 1, n_candidates)
        Cross terms m, as ``inv(L) m``.
    left, least : ndarray of shape (n_candidates,)
        ``m_zz - m' inv(M) m``, and the least of it that counts as independent (Eq. 48).
    gradient : ndarray of shape (n_candidates,)
        Gradients g.
    """

    factor: FloatArray
    inverse_diag: FloatArray
    half: FloatArray
    left: FloatArray
    least: FloatArray
    gradient: FloatArray


class Scores:
    """What each candidate would do for one machine; sums over rows follow the machine's changes.

    Parameters
    ----------
    machine : Machine
        The machine.
    candidates : Candidates
        Rows that may join the basis.
    """

    def __init__(self, machine: Machine, candidates: Candidates) -> None:
        self.machine = machine
        self.candidates = candidates
        n = len(candidates.rows)
        self._support = np.zeros(len(machine.y), bool)
        # Cross terms of the bias and of these basis vectors; sums over the support vectors of the
        # kernel with labels, and of its squares.
        self._basis: list[int] = []
        self._cross = np.zeros((1, n))
        self._labels = np.zeros(n)
        self._squares = np.zeros(n)

    def gains(self) -> FloatArray:
        """How much J would fall if a candidate were added; zero for dependent ones (Eq. 44)."""
        out = np.empty(len(self.candidates.rows))

        def score(columns: slice, related: Related) -> None:
            good = related.left > related.least
            fall = related.gradient**2 / np.where(good, related.left, 1.0)
            out[columns] = np.where(good, fall, 0.0)

        self._visit(score)
        return out

    def exchanges(self) -> FloatArray:
        """How much J would fall if a basis vector made way for a candidate.

        Shape (n_basis, n_candidates); -inf for candidates that depend on the others.
        """
        u = self.machine.solution.u
        out = np.empty((len(u) - 1, len(self.candidates.rows)))

        def score(columns: slice, related: Related) -> None:
            P = solve_lower(related.factor, related.half, transposed=True)
            for i, v in enumerate(related.inverse_diag[1:], start=1):
                moved = related.gradient - (u[i] / v) * P[i]
                room = related.left + P[i] * P[i] / v
                good = room > related.least
                fall = moved * moved / np.where(good, room, 1.0) - u[i] ** 2 / v
                out[i - 1, columns] = np.where(good, fall, -np.inf)

        self._visit(score)
        return out

    def _visit(self, score: Callable[[slice, Related], None]) -> None:
        """Call ``score`` with candidates, piece by piece, and their relation to the machine."""
        self._synchronise()
        factor, u = self.machine.factor, self.machine.solution.u
        inverse_diag = inverse_diagonal(factor)
        candidates, pieces = self.candidates, list(self.candidates.split())

        def work(first: int, last: int) -> None:
            for columns in pieces[first:last]:
                if candidates.data.is_late():
                    return
                cross = self._cross[:, columns]
                half = solve_lower(factor, cross)
                whole = candidates.diag[columns] + self._squares[columns]
                left = whole - np.einsum("ij,ij->j", half, half)
                gradient = u @ cross - self._labels[columns]
                least = candidates.threshold * whole
                score(columns, Related(factor, inverse_diag, half, left, least, gradient))

        candidates.data.workers.run(len(pieces), work, grain=1)
        candidates.data.require_time()

    def _synchronise(self) -> None:
        """Follow the machine's changes since the last time."""
        basis = self.machine.columns.rows
        self._keep([row for row in self._basis if row in basis])
        now, cost, y = self.machine.support, self.machine.cost, self.machine.y
        changed = self._support != now
        if changed.any():
            values = self._values_of(self._basis)
            sums, squares = self.candidates.sweep(
                np.where(changed, np.where(now, cost, -cost), 0.0),
                lambda some: np.column_stack([np.ones_like(y[some]), values(some), y[some]]),
                len(self._basis) + 2,
                squares=True,
            )
            self._cross += sums[:-1]
            self._labels += sums[-1]
            self._squares += squares
            self._support = now.copy()
        fresh = [row for row in basis if row not in self._basis]
        if fresh:
            self._cross = np.vstack([self._cross, self._cross_terms(fresh)])
            self._basis += fresh
        self._keep(basis)

    def _keep(self, basis: list[int]) -> None:
        """Cross terms of these basis vectors only, in this order."""
        if basis != self._basis:
            self._cross = self._cross[[0, *(1 + self._basis.index(row) for row in basis)]]
            self._basis = basis.copy()

    def _cross_terms(self, basis: list[int]) -> FloatArray:
        """Cross terms of new basis vectors: sums over the support vectors and the regulariser."""
        values, means = self._values_of(basis), self.machine.columns.means[self._places_of(basis)]
        weights = np.where(self._support, self.machine.cost, 0.0)
        sums, _ = self.candidates.sweep(weights, values, len(basis), squares=False)
        return sums + (values(self.candidates.rows) + means).T

    def _values_of(self, basis: list[int]) -> Factors:
        """Function that gives the kernel between some rows and these basis vectors."""
        columns = self.machine.columns
        places = self._places_of(basis)
        return lambda some: columns.values(some, places)

    def _places_of(self, basis: list[int]) -> Index | slice:
        """Where in the machine's basis these vectors are; a slice, which is quicker, if it can be."""
        rows = self.machine.columns.rows
        first = rows.index(basis[0]) if basis else 0
        if rows[first : first + len(basis)] == basis:
            return slice(first, first + len(basis))
        return np.array([rows.index(row) for row in basis], np.intp)
