"""Solutions judged, and where necessary finished, with kernel values in float64.

The fast solvers work with float32 kernel values, which limit the accuracy of a solution (see
`estimate_float32_error`). For a large C, or for features in different units, that is coarser than the
tolerance. This module computes the gradient in float64 and optimises the variables near the margin on
their float64 kernel matrix until the optimality conditions hold.
"""

from dataclasses import replace
from math import isqrt
from typing import Any

import numpy as np
from scipy import sparse

from widemargin.budget import Budget, StopReason
from widemargin.deadline import is_late, seconds_left
from widemargin.exact.active_set import walk_to_optimum
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.interior_point import minimise_interior
from widemargin.exact.pair_moves_fast import optimise_small
from widemargin.exact.solution import Solution, judge, salvage
from widemargin.kernels import Index, Kernel, Linear, Precomputed
from widemargin.parallel import single_blas

#: Kernel values of float32 count as precise enough if the violation that they may cause is less than
#: this share of the tolerance, and what they may change of the objective less than this share of it.
VIOLATION_SHARE, OBJECTIVE_SHARE = 0.1, 1e-6
#: Most float64 kernel values of a solution's check. They take about 15 ns each; the fit of a problem
#: that needs so many has taken several times as long. If there is a time limit, so many for each
#: second that is left, and so many in any case.
MAX_VALUES, VALUES_PER_SECOND, FEW_VALUES = 40_000_000, 20_000_000, 5_000_000
#: Rows whose condition is met by less than this, or by less than so many times the estimated error,
#: are checked in float64 beside the support vectors.
CHECKED_MARGIN, CHECKED_ERRORS = 0.05, 20.0

#: Rows whose products are computed at a time, and kernel values that are held for that.
BLOCK_ROWS, BLOCK_VALUES = 1024, 2_000_000
#: Variables within this distance of the margin, or half of the violation, are optimised together.
NEAR_MARGIN, NEAR_SHARE = 0.3, 0.5
#: Most of them, and bytes for each entry of their matrix: the matrix, its centred copy, its absolute
#: values and its Cholesky factor.
MAX_NEAR, ENTRY_BYTES = 4000, 32
#: Matrix entries that pair updates visit between two looks at the clock, a fraction of a second.
CALL_ENTRIES = 100_000_000
#: An interior-point solve costs about as much as this many pair moves times the squared number of
#: variables. Moves are given up for it when they have cost as much.
MOVES_WORTH = 0.17
#: Newton steps after an interior-point solve.
JUMP_STEPS = 20
#: Rounds that may pass without a smaller violation.
IDLE_ROUNDS = 3


class ExactMatrix:
    """Kernel matrix of a problem in float64, computed wherever it is asked for.

    ``X`` are the data, ``index`` says which rows are those of the problem. ``common`` is subtracted
    from every value, see `DualProblem.common_part`. With a linear kernel ``center`` is subtracted from
    the rows instead: blocks are then those of centred rows, which serve changes of variables that sum
    to zero, and products with variables that sum to zero are those of the rows as they are.
    """

    def __init__(
        self, kernel: Kernel, X: Any, index: Index, common: float = 0.0,
        center: FloatArray | None = None,
    ) -> None:  # fmt: skip
        self.kernel, self.X, self.index = kernel, X, index
        self.common, self.center = common, center

    def __len__(self) -> int:
        return len(self.index)

    @property
    def has_cheap_products(self) -> bool:
        """Whether products with a vector cost no more than a pass over the data."""
        return isinstance(self.kernel, Linear)

    def cut(self, rows: Index) -> "ExactMatrix":
        """Return the matrix of some of the rows."""
        return ExactMatrix(self.kernel, self.X, self.index[rows], self.common, self.center)

    def without_common_part(self, problem: DualProblem) -> "ExactMatrix":
        """Return a matrix that serves a problem as well and whose products round less, or this one."""
        if problem.total != 0.0:
            return self
        values = np.zeros(len(self))
        self.add_products(np.zeros(1, np.intp), np.ones(1), values)
        common = problem.common_part(values)
        if not self.has_cheap_products or not common:
            return ExactMatrix(self.kernel, self.X, self.index, common)
        center = np.ravel(self.X[self.index].mean(axis=0, dtype=np.float64))
        return ExactMatrix(self.kernel, self.X, self.index, center=center)

    def block(self, rows: Index, cols: Index) -> FloatArray:
        """``K[rows, cols]``, less the common part."""
        K = self._values(self.index[rows], self.index[cols])
        return K - self.common if self.common else K

    def _values(self, rows: Index, cols: Index) -> FloatArray:
        """Kernel values between rows of the data."""
        if isinstance(self.kernel, Precomputed):
            return np.asarray(self.X[np.ix_(rows, cols)], np.float64)
        return self.kernel.exact(self._centered(rows), self._centered(cols))

    def _centered(self, rows: Index) -> Any:
        """Return rows of the data less the centre, if there is one."""
        X = self.X[rows]
        if self.center is None:
            return X
        return np.asarray(X.toarray() if sparse.issparse(X) else X, np.float64) - self.center

    def add_products(
        self, cols: Index, coef: FloatArray, out: FloatArray, rows: Index | None = None
    ) -> None:
        """Add ``K[rows, cols] @ coef`` to ``out``, block by block; by default for all rows."""
        if len(cols) == 0:
            return
        rows = self.index if rows is None else self.index[rows]
        cols = self.index[cols]
        by_values = self.common != 0.0 or isinstance(self.kernel, Precomputed)
        vectors = None if by_values else self._centered(cols)
        step = max(1, min(BLOCK_ROWS, BLOCK_VALUES // len(cols))) if self.common else BLOCK_ROWS
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            if by_values:
                out[some] += (self._values(rows[some], cols) - self.common) @ coef
            else:
                out[some] += self.kernel.exact_product(self.X[rows[some]], vectors, coef)


def finish_exactly(
    K: ExactMatrix, kernel_scale: float, problem: DualProblem, found: Solution, budget: Budget
) -> Solution:
    """Check a solution found with float32 kernel values, and improve it where these are not enough.

    Where they may be too coarse, objective, duality gap and violation are computed from float64 kernel
    values, and the solution is improved until it is optimal by these. Rows that are no support vectors
    and meet their condition by a wide margin have no part in any of these figures, so they are left
    out. If a problem has too many support vectors for that, ``violation_error`` says how far float32
    may be off.

    Parameters
    ----------
    K : ExactMatrix
        The kernel matrix.
    kernel_scale : float
        Largest value of its diagonal.
    problem, found, budget
        The problem, its solution, and the budget of the fit.
    """
    error = estimate_float32_error(found.coef, kernel_scale)
    norm = float(np.linalg.norm(found.coef))
    is_precise = (
        error < VIOLATION_SHARE * budget.tol
        and error * norm < 2.0 * OBJECTIVE_SHARE * abs(found.objective)
        and found.stop_reason != StopReason.STALLED
    )
    rows = np.arange(len(K)) if K.has_cheap_products else _find_checked(problem, found, error)
    if is_precise or not _is_affordable(K, len(rows), int(np.count_nonzero(found.coef)), budget):
        return replace(found, violation_error=error)
    with single_blas():
        K = K.without_common_part(problem)
        while True:
            part, dual = _cut_solution(found, rows), problem.cut(rows)
            if found.stop_reason.is_limit:
                part = judge_in_float64(K.cut(rows), dual, part)
            else:
                part = finish_in_float64(K.cut(rows), dual, part, budget)
            found = _join_solution(K, problem, found, rows, part)
            violators = _find_violators(problem, found, rows)
            if len(violators) == 0 or found.stop_reason.is_limit:
                return found
            rows = np.union1d(rows, violators)


def _is_affordable(K: ExactMatrix, n_rows: int, n_support: int, budget: Budget) -> bool:
    """Return whether time and memory allow float64 kernel values of some rows with all vectors."""
    if K.has_cheap_products:
        return True
    most: float = MAX_VALUES
    if budget.deadline is not None:
        in_time = VALUES_PER_SECOND * seconds_left(budget.deadline)
        most = min(most, max(in_time, FEW_VALUES))
    # Sparse rows are made dense.
    dense_bytes = 0 if isinstance(K.kernel, Precomputed) else 16 * n_support * K.X.shape[1]
    return n_rows * n_support <= most and dense_bytes <= budget.cache_bytes


def _find_checked(problem: DualProblem, found: Solution, error: float) -> Index:
    """Support vectors, and rows whose condition float32 kernel values do not settle."""
    rise, fall = problem.slopes(found.gradient + found.intercept, found.coef)
    margin = max(CHECKED_MARGIN, CHECKED_ERRORS * error, found.violation)
    return np.flatnonzero((found.coef != 0) | (np.minimum(rise, -fall) < margin))


def _cut_solution(found: Solution, rows: Index) -> Solution:
    return replace(found, coef=found.coef[rows], gradient=found.gradient[rows])


def _join_solution(
    K: ExactMatrix, problem: DualProblem, found: Solution, rows: Index, part: Solution
) -> Solution:
    """Return the solution of some rows as that of all, with the gradient of the others renewed."""
    change = np.zeros(len(problem))
    change[rows] = part.coef - found.coef[rows]
    changed, others = np.flatnonzero(change), np.ones(len(problem), bool)
    others[rows] = False
    gradient = np.zeros(len(problem))
    if others.any() and len(changed):
        left = np.zeros(np.count_nonzero(others))
        K.add_products(changed, change[changed], left, rows=np.flatnonzero(others))
        gradient[others] = left
    gradient += found.gradient
    gradient[rows] = part.gradient
    return replace(part, coef=found.coef + change, gradient=gradient)


def _find_violators(problem: DualProblem, found: Solution, rows: Index) -> Index:
    """Rows beside the checked ones that violate their condition."""
    rise, fall = problem.slopes(found.gradient + found.intercept, found.coef)
    slack = np.minimum(rise, -fall)
    slack[rows] = np.inf
    return np.flatnonzero(slack < 0)


def judge_in_float64(K: ExactMatrix, problem: DualProblem, found: Solution) -> Solution:
    """Return the same solution with objective, gap and violation from float64 kernel values.

    Where float32 values were so far off that no coefficients at all are better, these are returned.
    """
    judged = judge(problem, found.coef, multiply_exactly(K, problem, found.coef))
    if judged.objective > 0 and problem.total in (None, 0.0):
        judged = judge(problem, np.zeros(len(problem)), problem.linear.copy())
    judged = salvage(problem, judged)
    return replace(judged, n_iter=found.n_iter, stop_reason=found.stop_reason)


def multiply_exactly(K: ExactMatrix, problem: DualProblem, coef: FloatArray) -> FloatArray:
    """Return the gradient ``K coef + linear`` from float64 kernel values."""
    gradient, support = problem.linear.copy(), np.flatnonzero(coef)
    K.add_products(support, coef[support], gradient)
    return gradient


def finish_in_float64(
    K: ExactMatrix, problem: DualProblem, found: Solution, budget: Budget
) -> Solution:
    """Judge a solution in float64, and improve it until it is optimal there.

    Parameters
    ----------
    K : ExactMatrix
        The kernel matrix.
    problem : DualProblem
        Linear term and bounds.
    found : Solution
        The solution found with float32 kernel values.
    budget : Budget
        Stop when the violation, measured in float64, is below ``tol``, or after ``max_iter`` pair
        updates or at the deadline. ``cache_bytes`` bounds the number of variables optimised together.

    Returns
    -------
    Solution
        With objective, duality gap and violation computed from float64 kernel values.
    """
    max_near = max(2, min(MAX_NEAR, isqrt(budget.cache_bytes // ENTRY_BYTES)))
    coef, n_iter = found.coef.copy(), found.n_iter
    gradient = multiply_exactly(K, problem, coef)
    best, idle = np.inf, 0
    while True:
        found = judge(problem, coef, gradient)
        stop = budget.limit_reached(n_iter)
        idle = 0 if found.violation < 0.9 * best else idle + 1
        best = min(best, found.violation)
        if found.violation < budget.tol:
            stop = StopReason.CONVERGED
        elif stop is None and idle > IDLE_ROUNDS:
            stop = StopReason.STALLED
        if stop is not None:
            found = salvage(problem, found) if stop.is_limit else found
            return replace(found, n_iter=n_iter, stop_reason=stop)
        near = _find_near(problem, found, max_near)
        moved, n_moves = _minimise_near(
            K.block(near, near), problem.cut(near), gradient[near] + found.intercept,
            coef[near], budget, budget.iterations_left(n_iter),
        )  # fmt: skip
        n_iter += n_moves
        change = moved - coef[near]
        changed = np.flatnonzero(change)
        coef[near] = moved
        gradient = gradient.copy()
        K.add_products(near[changed], change[changed], gradient)


def estimate_float32_error(coef: FloatArray, kernel_scale: float) -> float:
    """Violation to expect of a solution that was found with float32 kernel values.

    Each of these is off by 6e-8 of its size at most, and the errors of all support vectors add up
    like random numbers. Measured: 0.5 to 2 times this.
    """
    return 1.2e-7 * kernel_scale * float(np.linalg.norm(coef))


def _find_near(problem: DualProblem, found: Solution, most: int) -> Index:
    """Free variables and those near the margin, the nearest if there are too many."""
    rise, fall = problem.slopes(found.gradient + found.intercept, found.coef)
    is_free = rise == fall
    slack = np.where(is_free, -np.abs(rise), np.minimum(rise, -fall))
    reach = max(NEAR_MARGIN, NEAR_SHARE * found.violation)
    near = np.flatnonzero((slack < reach) | is_free)
    return near if len(near) <= most else np.sort(near[np.argsort(slack[near])[:most]])


def _minimise_near(
    K: FloatArray, problem: DualProblem, gradient: FloatArray, coef: FloatArray, budget: Budget,
    spare: float,
) -> tuple[FloatArray, int]:  # fmt: skip
    """Variables after pair updates, and an interior-point solve if these were not enough.

    ``gradient`` is that of the variables ``coef`` of the problem; ``spare`` says how many updates
    there may be.
    """
    n, tied, tol = len(coef), problem.is_tied, 0.5 * budget.tol
    allowed = int(min(max(10 * n, int(MOVES_WORTH * n * n)), spare))
    moved, slope, n_moves = coef.copy(), gradient.copy(), 0
    while n_moves < allowed and not is_late(budget.deadline):
        some = min(allowed - n_moves, max(1, CALL_ENTRIES // n))
        made, violation = optimise_small(
            tied, problem.epsilon, K, problem.lower, problem.upper, tol, some, slope, moved
        )
        n_moves += made
        if violation < tol or made < some:
            return moved, n_moves
    if n_moves >= spare or is_late(budget.deadline):
        return moved, n_moves
    slope = gradient + K @ (moved - coef)
    return _jump(K, problem, slope, moved, budget.deadline), n_moves


def _jump(
    K: FloatArray, problem: DualProblem, gradient: FloatArray, coef: FloatArray,
    deadline: float | None,
) -> FloatArray:  # fmt: skip
    """Variables after an interior-point solve that begins at ``coef``, if these are better.

    In regression every variable stays on its side of zero.
    """
    sided = problem.one_sided(coef, -gradient)
    slope = gradient + (sided.linear - problem.linear)
    low, high, tied = sided.lower - coef, sided.upper - coef, problem.is_tied
    # Changes of the variables instead of these: they sum to zero, so that the matrix may be centred,
    # and nothing large cancels.
    if tied:
        mean = K.mean(axis=0)
        K = K - mean - mean[:, None] + mean.mean()
    changes = replace(
        sided, linear=slope, lower=low, upper=high, total=0.0 if tied else None, start=None
    )
    jump = minimise_interior(K, changes, np.zeros(len(coef)), deadline)
    if not is_late(deadline):
        jump = walk_to_optimum(K, changes, jump, JUMP_STEPS, deadline)
    if jump @ (slope + 0.5 * K @ jump) >= 0:
        return coef
    # On a bound exactly where the change is: a sum could round to just beyond it.
    jumped = np.where(jump == low, sided.lower, np.where(jump == high, sided.upper, coef + jump))
    return np.clip(jumped, sided.lower, sided.upper)
