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

from widemargin.budget import Budget, StopReason
from widemargin.deadline import is_late
from widemargin.exact.active_set import walk_to_optimum
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.interior_point import minimise_interior
from widemargin.exact.pair_moves_fast import optimise_small
from widemargin.exact.solution import Solution, judge, suit_intercept
from widemargin.kernels import Index, Kernel, Linear, Precomputed

#: Rows whose kernel values are computed at a time.
BLOCK_ROWS = 1024
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

    ``X`` are the data, ``index`` says which rows are those of the problem.
    """

    def __init__(self, kernel: Kernel, X: Any, index: Index) -> None:
        self.kernel, self.X, self.index = kernel, X, index

    def __len__(self) -> int:
        return len(self.index)

    @property
    def has_cheap_products(self) -> bool:
        """Whether products with a vector cost no more than a pass over the data."""
        return isinstance(self.kernel, Linear)

    def block(self, rows: Index, cols: Index) -> FloatArray:
        """``K[rows, cols]``."""
        rows, cols = self.index[rows], self.index[cols]
        if isinstance(self.kernel, Precomputed):
            return np.asarray(self.X[np.ix_(rows, cols)], np.float64)
        return self.kernel.exact(self.X[rows], self.X[cols])

    def add_products(self, cols: Index, coef: FloatArray, out: FloatArray) -> None:
        """Add ``K[:, cols] @ coef`` to ``out``, block by block."""
        if self.has_cheap_products:
            weights = self.X[self.index[cols]].astype(np.float64).T @ coef
        for start in range(0, len(out), BLOCK_ROWS):
            rows = np.arange(start, min(start + BLOCK_ROWS, len(out)))
            if self.has_cheap_products:
                out[rows] += self.X[self.index[rows]].astype(np.float64) @ weights
            else:
                out[rows] += self.block(rows, cols) @ coef


def judge_in_float64(K: ExactMatrix, problem: DualProblem, found: Solution) -> Solution:
    """Return the same solution with objective, gap and violation from float64 kernel values.

    Where float32 values were so far off that no coefficients at all are better, these are returned.
    """
    judged = judge(problem, found.coef, multiply_exactly(K, problem, found.coef))
    if judged.objective > 0 and problem.total in (None, 0.0):
        judged = judge(problem, np.zeros(len(problem)), problem.linear.copy())
    judged = suit_intercept(problem, judged)
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
            found = suit_intercept(problem, found) if stop.is_limit else found
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
    jump = minimise_interior(
        K, slope, low, high, total=0.0 if tied else None, start=np.zeros(len(coef)),
        deadline=deadline,
    )  # fmt: skip
    if not is_late(deadline):
        jump = walk_to_optimum(K, slope, low, high, tied, jump, max_steps=JUMP_STEPS)
    if jump @ (slope + 0.5 * K @ jump) >= 0:
        return coef
    # On a bound exactly where the change is: a sum could round to just beyond it.
    jumped = np.where(jump == low, sided.lower, np.where(jump == high, sided.upper, coef + jump))
    return np.clip(jumped, sided.lower, sided.upper)
