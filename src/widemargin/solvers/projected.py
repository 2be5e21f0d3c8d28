"""Sparse SVMs: machines on a few basis vectors, and the choice of these (PSVM).

A machine minimises ``J(w, b) = w' K_B w + sum_k c_k max(0, e_k)^2`` with the errors
``e_k = 1 - y_k (K(x_k, X_B) w + b)`` (Eq. 9 of Peng, Rafferty and Ferguson). Rows with positive
errors are its support vectors. For a fixed set of these J is quadratic, with the Hessian (halved)

    M = [sum c,  c' K_S; K_S' c,  K_B + K_S' diag(c) K_S],

the paper's H of Eq. 15 bordered by the bias, so that its l and q (Eq. 28) need no formulas of their
own. M follows every row that enters or leaves the support set and every change of the basis; it is
factorised anew each time, which for a hundred basis vectors takes less than one look at the errors,
and carries no rounding errors along as a recursive inverse does.

A candidate z would enter M with a cross term m, a diagonal entry and a gradient g. Adding it lowers
J by ``g^2 / (m_zz - m' inv(M) m)`` (Eq. 44). With ``P = inv(M) m``, exchanging basis vector i for z
has the gradient ``g - w_i P_i / v_i`` and the denominator ``m_zz - m' inv(M) m + P_i^2 / v_i``, where
v is the diagonal of inv(M): all exchanges are scored at once for the price of a product with
inv(M), where the paper removes one basis vector after another and scores all candidates again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from widemargin.kernels import Index, Kernel
from widemargin.parallel import Workers

FloatArray = NDArray[np.float64]

#: Kernel values between candidates and rows are held in float64 up to this many, if computing them
#: so takes at most `EXACT_PRODUCTS` multiplications.
EXACT_VALUES, EXACT_PRODUCTS = 2**23, 2**33
#: Kernels that are not functions of a scalar product compute slower in float64.
SLOW_PRODUCTS = 2**29
#: Feature values of the data up to which columns of basis vectors are computed in float64.
EXACT_COLUMNS = 2**25
#: Most rows and columns of a tile of kernel values. Where it spans all candidates, threads share the
#: rows, in at most so many pieces.
TILE_ROWS, TILE_COLUMNS, ROW_PIECES = 1024, 2048, 16
#: A candidate counts as dependent on the basis if less than this share of its diagonal entry is
#: left (Eq. 48); the second where kernel values have the digits of float32.
DEPENDENT, DEPENDENT_FLOAT32 = 1e-10, 1e-6
#: Rounds of Newton's method for one basis; a few are the rule.
MAX_ROUNDS = 100
#: Largest gradient, as a share of its terms, that counts as zero.
GRADIENT_TOL = 1e-8
#: Exchanges that were promised to lower J and did not, before the search ends.
MAX_REFUSALS = 20
#: Draws of candidates without an exchange, before the search ends.
MAX_IDLE = 5


class Data:
    """All rows, ready for kernel values.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : ndarray or csr_matrix of shape (n, n_features)
        All rows.
    workers : Workers
        Threads.
    """

    def __init__(self, kernel: Kernel, X: Any, workers: Workers) -> None:
        self.kernel = kernel
        self.X = X
        self.workers = workers
        self.is_exact = X.shape[0] * X.shape[1] <= EXACT_COLUMNS
        self.points = kernel.prepare(X)

    def __len__(self) -> int:
        return len(self.points)

    def column(self, row: int) -> FloatArray:
        """Kernel between all rows and one of them."""
        if self.is_exact:
            return self.kernel.exact(self.X, self.X[[row]])[:, 0]
        return self.block(np.array([row]), self.workers)[:, 0].astype(np.float64)

    def block(self, columns: Index, workers: Workers, rows: Index | None = None) -> Any:
        """Kernel between rows (all if not given) and columns, in float32."""
        rows = np.arange(len(self)) if rows is None else rows
        out = np.empty((len(rows), len(columns)), np.float32)
        self.kernel.block(self.points, rows, self.points, columns, out, workers)
        return out


class Columns:
    """Kernel values between all rows and the basis vectors, and the penalty matrix of these.

    Parameters
    ----------
    data : Data
        The rows.
    is_ridge : bool, default=False
        Whether w and b are penalised by their squares and not by ``w' K_B w``, as in RSVM.
    """

    def __init__(self, data: Data, *, is_ridge: bool = False) -> None:
        self.data = data
        self.is_ridge = is_ridge
        self.rows: list[int] = []
        self._values = np.empty((len(data), 8), order="F")

    @property
    def values(self) -> FloatArray:
        """Kernel between all rows and the basis, shape (n, n_basis)."""
        return self._values[:, : len(self.rows)]

    @property
    def penalty(self) -> FloatArray:
        """Penalty matrix of bias and coefficients."""
        size = len(self.rows) + 1
        if self.is_ridge:
            return np.eye(size)
        out = np.zeros((size, size))
        K = self.values[self.rows]
        out[1:, 1:] = 0.5 * (K + K.T)
        return out

    def append(self, row: int, column: FloatArray) -> None:
        """Add a basis vector."""
        size = len(self.rows)
        if size == self._values.shape[1]:
            grown = np.empty((len(self._values), 2 * size), order="F")
            grown[:, :size] = self._values
            self._values = grown
        self._values[:, size] = column
        self.rows.append(row)

    def replace(self, at: int, row: int, column: FloatArray) -> None:
        """Put another basis vector in the place of one."""
        self._values[:, at] = column
        self.rows[at] = row

    def remove(self, at: int) -> None:
        """Take a basis vector away."""
        size = len(self.rows)
        self._values[:, at : size - 1] = self._values[:, at + 1 : size]
        del self.rows[at]


@dataclass(frozen=True)
class Solution:
    """A machine's state.

    Attributes
    ----------
    u : ndarray of shape (n_basis + 1,)
        Bias and coefficients.
    errors : ndarray of shape (n,)
        Of all rows.
    objective : float
        J.
    """

    u: FloatArray
    errors: FloatArray
    objective: float


class Machine:
    """The SVM of one binary problem on a basis that changes.

    Parameters
    ----------
    columns : Columns
        Kernel values of the basis; other machines may share them.
    y : ndarray of shape (n,)
        -1.0 or 1.0.
    cost : ndarray of shape (n,)
        C times the weight of each row.
    """

    def __init__(self, columns: Columns, y: FloatArray, cost: FloatArray) -> None:
        self.columns = columns
        self.y = y
        self.cost = cost
        self.support = np.ones(len(y), bool)
        self.n_rebuilt = 0
        bias = float(cost @ y / cost.sum()) if not columns.is_ridge else 0.0
        self._M = columns.penalty
        self._rhs = np.zeros(1)
        self._rebuild()
        self.solution = self._evaluate(np.array([bias]))
        self.settle()

    @property
    def is_separated(self) -> bool:
        """Whether every row is on its side."""
        return bool((self.solution.errors < 1.0).all())

    @property
    def factor(self) -> FloatArray:
        """Lower triangle L with ``L L' = M``."""
        return self._factor

    @property
    def losses(self) -> FloatArray:
        """How much J would rise if each basis vector were removed (Eq. 61)."""
        return (self.solution.u**2 / _inverse_diagonal(self._factor))[1:]

    def save(self) -> tuple[Any, ...]:
        """Everything that changes, for `restore`."""
        return self._M.copy(), self._rhs.copy(), self._factor, self.support.copy(), self.solution

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to a saved state; the columns must be those of then."""
        self._M, self._rhs, self._factor, self.support, self.solution = state

    def append(self) -> None:
        """Take up the basis vector that was added last; `settle` afterwards."""
        self._border(len(self.columns.rows))
        before = self.solution
        self.solution = replace(before, u=np.append(before.u, 0.0))

    def exchange(self, at: int, old_column: FloatArray) -> None:
        """Take up the basis vector that replaced one; `settle` afterwards."""
        self._border(at + 1)
        before = self.solution
        u = before.u.copy()
        errors = before.errors + self.y * u[at + 1] * old_column
        u[at + 1] = 0.0
        self.solution = self._value(u, errors)

    def remove(self, at: int, old_column: FloatArray) -> None:
        """Forget a basis vector that was removed; `settle` afterwards."""
        before = self.solution
        kept = np.arange(len(before.u)) != at + 1
        self._M = self._M[np.ix_(kept, kept)]
        self._rhs = self._rhs[kept]
        errors = before.errors + self.y * before.u[at + 1] * old_column
        self.solution = self._value(before.u[kept], errors)

    def settle(self) -> None:
        """Find the support set that belongs to the basis, and with it the optimum (Procedure 2).

        Newton's method: the optimum for the present support set gives the next one. A step that does
        not lower J is shortened to its lowest point; when the set stays, the optimum is found.
        """
        self._follow((self.solution.errors > 0) != self.support)
        for _ in range(MAX_ROUNDS):
            target = self._evaluate(self._solve())
            if target.objective > self.solution.objective:
                target = self._shorten(target)
            changed = (target.errors > 0) != self.support
            self.solution = target
            if not changed.any():
                if self._is_stationary():
                    return
                # Rounding errors of many additions and removals: start from the data again.
                self._rebuild()
                continue
            self._follow(changed)
        self._factorise()

    def _border(self, at: int) -> None:
        """Put the row and column of a new basis vector at a place of M."""
        rows = np.flatnonzero(self.support)
        cost = self.cost[rows]
        column = self.columns.values[rows, at - 1]
        weighted = cost * column
        size = len(self.columns.rows) + 1
        if size > len(self._M):
            self._M = np.pad(self._M, (0, 1))
            self._rhs = np.append(self._rhs, 0.0)
        penalty = self.columns.penalty[at]
        line = penalty + np.append(weighted.sum(), weighted @ self.columns.values[rows])
        self._M[at, :] = self._M[:, at] = line
        self._rhs[at] = weighted @ self.y[rows]

    def _follow(self, changed: NDArray[np.bool_]) -> None:
        """Let rows enter or leave the support set."""
        if not changed.any():
            return
        self.support ^= changed
        if 2 * np.count_nonzero(changed) > np.count_nonzero(self.support):
            self._rebuild()
            return
        rows = np.flatnonzero(changed)
        self._add_rows(rows, np.where(self.support[rows], self.cost[rows], -self.cost[rows]))

    def _rebuild(self) -> None:
        self.n_rebuilt += 1
        self._M = self.columns.penalty
        self._rhs = np.zeros(len(self._M))
        rows = np.flatnonzero(self.support)
        self._add_rows(rows, self.cost[rows])

    def _add_rows(self, rows: Index, cost: FloatArray) -> None:
        K = self.columns.values[rows]
        weighted = cost[:, None] * K
        self._M[0, 0] += cost.sum()
        self._M[0, 1:] += weighted.sum(axis=0)
        self._M[1:, 0] = self._M[0, 1:]
        self._M[1:, 1:] += K.T @ weighted
        signed = cost * self.y[rows]
        self._rhs[0] += signed.sum()
        self._rhs[1:] += K.T @ signed

    def _solve(self) -> FloatArray:
        self._factorise()
        half = solve_triangular(self._factor, self._rhs, lower=True)
        return solve_triangular(self._factor, half, lower=True, trans="T")

    def _factorise(self) -> None:
        # Without support vectors the bias is free; so much of the diagonal is rounding error anyway.
        floor = len(self._M) * np.finfo(np.float64).eps * self._M.diagonal().max()
        self._factor = np.linalg.cholesky(self._M + floor * np.eye(len(self._M)))

    def _evaluate(self, u: FloatArray) -> Solution:
        return self._value(u, 1.0 - self.y * (self.columns.values @ u[1:] + u[0]))

    def _value(self, u: FloatArray, errors: FloatArray) -> Solution:
        violations = np.maximum(errors, 0.0)
        penalty = float(u @ self.columns.penalty @ u)
        return Solution(u, errors, penalty + float(self.cost @ (violations * violations)))

    def _shorten(self, target: Solution) -> Solution:
        """Lowest point between the present solution and a step's end, by bisection of the slope."""
        start = self.solution
        step, moved = target.u - start.u, target.errors - start.errors
        penalty = self.columns.penalty
        level, rise = float(step @ penalty @ start.u), float(step @ penalty @ step)
        weighted = self.cost * moved
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            slope = level + middle * rise
            slope += float(weighted @ np.maximum(start.errors + middle * moved, 0.0))
            low, high = (middle, high) if slope < 0 else (low, middle)
        return self._evaluate(start.u + low * step)

    def _is_stationary(self) -> bool:
        violations = self.cost * np.maximum(self.solution.errors, 0.0)
        pull = self.y * violations
        penalty = self.columns.penalty @ self.solution.u
        values = self.columns.values
        gradient = penalty - np.append(pull.sum(), values.T @ pull)
        terms = np.abs(penalty) + np.append(violations.sum(), np.abs(values).T @ violations)
        return bool((np.abs(gradient) <= GRADIENT_TOL * terms.max() + 1e-300).all())


class Source:
    """Kernel values between all rows and some candidates, held if that is affordable.

    Parameters
    ----------
    data : Data
        The rows.
    candidates : ndarray of shape (n_candidates,)
        Rows that are candidates.
    max_bytes : int
        Bytes that held values may take.
    """

    def __init__(self, data: Data, candidates: Index, max_bytes: int) -> None:
        self.data = data
        self.candidates = candidates
        size, d = len(data) * len(candidates), data.X.shape[1]
        limit = EXACT_PRODUCTS if data.kernel.is_product else SLOW_PRODUCTS
        self.is_exact = data.is_exact and size <= EXACT_VALUES and size * d <= limit
        self._held: NDArray[Any] | None = None
        if self.is_exact:
            self._held = data.kernel.exact(data.X, data.X[candidates])
        elif 4 * size <= max_bytes:
            self._held = data.block(candidates, data.workers)
        self.diag = data.kernel.diag(data.points)[candidates]

    @property
    def threshold(self) -> float:
        """Share of a diagonal entry that must be left for a candidate to be independent."""
        return DEPENDENT if self.is_exact else DEPENDENT_FLOAT32

    def column(self, position: int) -> FloatArray:
        """Kernel between all rows and a candidate."""
        if self.is_exact and self._held is not None:
            return self._held[:, position].copy()
        return self.data.column(int(self.candidates[position]))

    def sweep(
        self, weights: FloatArray, factors: Callable[[Index | slice], FloatArray], *, squares: bool
    ) -> tuple[FloatArray, FloatArray]:
        """``factors' diag(weights) K`` and ``weights' K^2``, K between all rows and the candidates.

        ``factors`` gives the factors of some rows. Rows of weight zero are left out. The result does
        not depend on the number of threads.
        """
        rows = np.flatnonzero(weights)
        if self._held is None and not squares:
            coef = weights[rows, None] * factors(rows)
            return self._accumulate(rows, coef).T, np.empty(0)
        n = len(self.candidates)
        n_factors = factors(rows[:0]).shape[1]
        # Zeros cost less than a copy of the rows; a row taken at random costs more than its length.
        as_runs = self._held is not None and 3 * len(rows) > len(weights)
        n_rows = len(weights) if as_runs else len(rows)
        jobs = _cut(n_rows, n)
        out, squared = np.zeros((n_factors, n)), np.zeros(n)
        sums = [np.zeros((n_factors + squares, job[1].stop - job[1].start)) for job in jobs]

        def work(first: int, last: int) -> None:
            for number in range(first, last):
                span, columns = jobs[number]
                for start in range(span.start, span.stop, TILE_ROWS):
                    part: Any = slice(start, min(start + TILE_ROWS, span.stop))
                    part = part if as_runs else rows[part]
                    K = self._tile(part, columns)
                    coef = (weights[part, None] * factors(part)).T.astype(K.dtype)
                    sums[number][:n_factors] += coef @ K
                    if squares:
                        sums[number][-1] += weights[part].astype(K.dtype) @ (K * K)

        self.data.workers.run(len(jobs), work, grain=1)
        for (_, columns), more in zip(jobs, sums, strict=True):
            out[:, columns] += more[:n_factors]
            if squares:
                squared[columns] += more[-1]
        return out, squared

    def _tile(self, rows: Any, columns: slice) -> NDArray[Any]:
        """Kernel between some rows and consecutive candidates."""
        if self._held is not None:
            return self._held[rows, columns]
        return self.data.block(self.candidates[columns], Workers(1, None), rows)

    def _accumulate(self, rows: Index, coef: FloatArray) -> FloatArray:
        out = np.zeros((len(self.candidates), coef.shape[1]))
        points = self.data.points
        self.data.kernel.accumulate(
            points, self.candidates, points, rows, coef, out, self.data.workers
        )
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


class Scores:
    """What each candidate would do for one machine, kept up to date by small changes.

    Parameters
    ----------
    machine : Machine
        The machine.
    source : Source
        Kernel values of the candidates.
    """

    def __init__(self, machine: Machine, source: Source) -> None:
        self.machine = machine
        self.source = source
        n = len(source.candidates)
        self._support = np.zeros(len(machine.y), bool)
        self._bias = np.zeros(n)
        self._labels = np.zeros(n)
        self._squares = np.zeros(n)
        self._cross: dict[int, FloatArray] = {}

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
        inverse_diag = _inverse_diagonal(factor)
        u = self.machine.solution.u
        out = np.empty((len(u) - 1, len(left)))

        def score(first: int, last: int) -> None:
            for i in range(first + 1, last + 1):
                moved = gradient - (u[i] / inverse_diag[i]) * P[i]
                room = left + P[i] * P[i] / inverse_diag[i]
                good = enough(room)
                gain = moved * moved / np.where(good, room, 1.0) - u[i] ** 2 / inverse_diag[i]
                out[i - 1] = np.where(good, gain, -np.inf)

        self.source.data.workers.run(len(out), score, grain=1)
        return out

    def _relate(self) -> tuple[FloatArray, FloatArray, FloatArray, Callable[[FloatArray], Any]]:
        """Cross terms solved halfway, what is left of the diagonal, gradients, and the test (48)."""
        self._synchronise()
        columns = self.machine.columns
        cross = np.empty((len(columns.rows) + 1, len(self._bias)))
        cross[0] = self._bias
        for position, row in enumerate(columns.rows, start=1):
            cross[position] = (
                self._cross[row] + columns.values[self.source.candidates, position - 1]
            )
        gradient = self.machine.solution.u @ cross - self._labels
        factor = self.machine.factor
        half = np.empty_like(cross)

        def solve(i: int, j: int) -> None:
            half[:, i:j] = solve_triangular(factor, cross[:, i:j], lower=True, check_finite=False)

        self.source.data.workers.run(cross.shape[1], solve)
        whole = self.source.diag + self._squares
        left = whole - np.einsum("ij,ij->j", half, half)
        least = self.source.threshold * whole
        return half, left, gradient, lambda room: room > least

    def _synchronise(self) -> None:
        """Follow the machine's changes since the last time."""
        rows, cost = self.machine.columns.rows, self.machine.cost
        self._cross = {row: values for row, values in self._cross.items() if row in rows}
        known, y = list(self._cross), self.machine.y
        now = self.machine.support
        if (self._support != now).any():
            weights = np.where(self._support != now, np.where(now, cost, -cost), 0.0)
            columns = self._values_of(known)
            sums, squares = self.source.sweep(
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
            sums, _ = self.source.sweep(weights, self._values_of(fresh), squares=False)
            self._cross |= dict(zip(fresh, sums, strict=True))

    def _values_of(self, basis: list[int]) -> Callable[[Index | slice], FloatArray]:
        """Function that gives the kernel between some rows and these basis vectors."""
        columns = self.machine.columns
        if basis == columns.rows:
            return lambda some: columns.values[some]
        places = [columns.rows.index(row) for row in basis]
        return lambda some: columns.values[some][:, places]


def _inverse_diagonal(factor: FloatArray) -> FloatArray:
    """Diagonal of ``inv(L L')``."""
    inverse = solve_triangular(factor, np.eye(len(factor)), lower=True)
    return np.einsum("ij,ij->j", inverse, inverse)


@dataclass(frozen=True)
class Stage:
    """A basis and the machines on it.

    Attributes
    ----------
    rows : tuple of int
        Training rows that are the basis, in the order of the coefficients.
    coef : ndarray of shape (n_machines, n_basis)
        Coefficients.
    intercept : ndarray of shape (n_machines,)
        Biases.
    objective : ndarray of shape (n_machines,)
        J of each machine.
    n_wrong : ndarray of shape (n_machines,)
        Training rows on the wrong side.
    n_support : ndarray of shape (n_machines,)
        Training rows with an error.
    """

    rows: tuple[int, ...]
    coef: FloatArray
    intercept: FloatArray
    objective: FloatArray
    n_wrong: NDArray[np.intp]
    n_support: NDArray[np.intp]


@dataclass(frozen=True)
class Search:
    """How to choose a basis.

    Attributes
    ----------
    n_basis : int
        Basis vectors.
    n_candidates : int or None
        Rows drawn anew for every choice; None for all rows.
    refine : bool
        Whether to exchange basis vectors afterwards.
    tol : float
        Least share of J that an exchange must be worth.
    max_iter : int
        Most exchanges.
    deadline : float or None
        Time at which to stop.
    max_bytes : int
        Memory for kernel values.
    seed : int
        For the draws.
    """

    n_basis: int
    n_candidates: int | None = None
    refine: bool = True
    tol: float = 1e-4
    max_iter: int = 1000
    deadline: float | None = None
    max_bytes: int = 2 * 10**9
    seed: int = 0


@dataclass(frozen=True)
class Selection:
    """Result of a search.

    Attributes
    ----------
    final : Stage
        The basis to use.
    path : list of Stage
        The bases of stage one, one vector more each.
    stop_reason : str
        ``"converged"``, ``"separated"`` if fewer basis vectors separate the rows, ``"rank"`` if there
        are no more independent ones, ``"max_iter"`` or ``"max_time"``.
    n_exchanges : int
        Exchanges made.
    n_requested : int
        Basis vectors asked for.
    """

    final: Stage
    path: list[Stage]
    stop_reason: str
    n_exchanges: int
    n_requested: int


class Selector:
    """Chooses the basis of some machines that share it.

    Parameters
    ----------
    columns : Columns
        Kernel and rows; without basis vectors yet.
    machines : list of Machine
        On these columns.
    search : Search
        What to do.
    source : Source or None
        Kernel values of all rows as candidates, if they are at hand.
    show : callable or None
        Called with the name of the stage and the present `Stage` after every change.
    """

    def __init__(
        self,
        columns: Columns,
        machines: list[Machine],
        search: Search,
        source: Source | None = None,
        show: Callable[[str, Stage], object] | None = None,
    ) -> None:
        self.columns = columns
        self.machines = machines
        self.search = search
        self.show = show
        self._rng = np.random.default_rng(search.seed)
        self._n = len(machines[0].y)
        self._scores: list[Scores] = []
        if search.n_candidates is None:
            source = source or Source(columns.data, np.arange(self._n), search.max_bytes)
            self._scores = [Scores(machine, source) for machine in machines]

    def run(self) -> Selection:
        """Grow the basis (Procedures 1 to 3), then refine it (Procedure 4)."""
        path, stop_reason = self._grow()
        n_exchanges = 0
        if self.search.refine and stop_reason != "max_time":
            n_exchanges, refined = self._refine()
            stop_reason = stop_reason if refined == "converged" else refined
        return Selection(self.describe(), path, stop_reason, n_exchanges, self.search.n_basis)

    def describe(self) -> Stage:
        """The present basis and its machines."""
        solutions = [machine.solution for machine in self.machines]
        return Stage(
            rows=tuple(self.columns.rows),
            coef=np.array([s.u[1:] for s in solutions]),
            intercept=np.array([s.u[0] for s in solutions]),
            objective=np.array([s.objective for s in solutions]),
            n_wrong=np.array([np.count_nonzero(s.errors >= 1.0) for s in solutions]),
            n_support=np.array([np.count_nonzero(m.support) for m in self.machines]),
        )

    @property
    def _objective(self) -> float:
        return sum(machine.solution.objective for machine in self.machines)

    @property
    def _is_separated(self) -> bool:
        return all(machine.is_separated for machine in self.machines)

    def _is_late(self) -> bool:
        return self.search.deadline is not None and time.time() > self.search.deadline

    def _grow(self) -> tuple[list[Stage], str]:
        path: list[Stage] = []
        while len(self.columns.rows) < self.search.n_basis:
            if path and self._is_separated:
                return path, "separated"
            if path and self._is_late():
                return path, "max_time"
            if not self._append_best():
                return path, "rank"
            path.append(self.describe())
            self._tell("grow")
        return path, "converged"

    def _append_best(self) -> bool:
        """Add the candidate that lowers J most; False if none is independent of the basis."""
        scores = self._current_scores()
        gains = np.sum([s.gains() for s in scores], axis=0)
        source = scores[0].source
        candidates = source.candidates
        gains[np.isin(candidates, self.columns.rows)] = 0.0
        for at in np.argsort(-gains, kind="stable")[:MAX_REFUSALS]:
            if gains[at] <= 0:
                break
            row, column = int(candidates[at]), source.column(int(at))
            if self._is_independent(row, column, self.columns.rows, source.threshold):
                self.columns.append(row, column)
                for machine in self.machines:
                    machine.append()
                    machine.settle()
                return True
        return False

    def _is_independent(
        self, row: int, column: FloatArray, others: list[int], threshold: float
    ) -> bool:
        """The condition (48) for the regulariser alone, whatever the support vectors."""
        places = [self.columns.rows.index(other) for other in others]
        K = self.columns.values[np.ix_(others, places)]
        mine = column[others]
        left = column[row] - mine @ np.linalg.lstsq(K, mine, rcond=None)[0]
        return bool(left > threshold * column[row])

    def _refine(self) -> tuple[int, str]:
        n_exchanges, n_idle = 0, 0
        while n_exchanges < self.search.max_iter:
            if self._is_late():
                return n_exchanges, "max_time"
            if self._is_separated and len(self.columns.rows) > 1:
                self._remove_least()
                self._tell("shrink")
                continue
            if self._exchange_best():
                n_exchanges, n_idle = n_exchanges + 1, 0
                self._tell("refine")
            elif self.search.n_candidates is None or n_idle == MAX_IDLE:
                return n_exchanges, "converged"
            else:
                # Other candidates are drawn the next time.
                n_idle += 1
        return n_exchanges, "max_iter"

    def _remove_least(self) -> None:
        at = int(np.argmin(np.sum([machine.losses for machine in self.machines], axis=0)))
        column = self.columns.values[:, at].copy()
        self.columns.remove(at)
        for machine in self.machines:
            machine.remove(at, column)
            machine.settle()

    def _exchange_best(self) -> bool:
        """Make the exchange that lowers J most; False if none does."""
        scores = self._current_scores()
        falls = np.sum([s.exchanges() for s in scores], axis=0)
        source = scores[0].source
        candidates = source.candidates
        falls[:, np.isin(candidates, self.columns.rows)] = -np.inf
        least = self.search.tol * self._objective
        for _ in range(MAX_REFUSALS):
            at, chosen = np.unravel_index(int(np.argmax(falls)), falls.shape)
            if falls[at, chosen] <= least:
                return False
            if self._try_exchange(int(at), source, int(chosen)):
                return True
            falls[at, chosen] = -np.inf
        return False

    def _try_exchange(self, at: int, source: Source, chosen: int) -> bool:
        """Exchange a basis vector; undone if J, with the support set found anew, is not lower."""
        row, column = int(source.candidates[chosen]), source.column(chosen)
        others = self.columns.rows[:at] + self.columns.rows[at + 1 :]
        if not self._is_independent(row, column, others, source.threshold):
            return False
        old_row, old_column = self.columns.rows[at], self.columns.values[:, at].copy()
        before, states = self._objective, [machine.save() for machine in self.machines]
        self.columns.replace(at, row, column)
        for machine in self.machines:
            machine.exchange(at, old_column)
            machine.settle()
        if self._objective < before - self.search.tol * abs(before):
            return True
        self.columns.replace(at, old_row, old_column)
        for machine, state in zip(self.machines, states, strict=True):
            machine.restore(state)
        return False

    def _current_scores(self) -> list[Scores]:
        if self.search.n_candidates is None:
            return self._scores
        n_drawn = min(self.search.n_candidates, self._n)
        drawn = np.sort(self._rng.choice(self._n, n_drawn, replace=False))
        source = Source(self.columns.data, drawn, self.search.max_bytes)
        return [Scores(machine, source) for machine in self.machines]

    def _tell(self, stage: str) -> None:
        if self.show is not None:
            self.show(stage, self.describe())
