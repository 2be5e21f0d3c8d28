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

from widemargin.deadline import is_late, start_deadline
from widemargin.exact.active_set import walk_to_optimum
from widemargin.exact.interior_point import minimise_interior
from widemargin.exact.pair_moves_fast import optimise_small
from widemargin.exact.solution import (
    FloatArray,
    Limits,
    Result,
    limit_reached,
    optimum_of,
    stopped,
)
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


def judge_in_float64(
    K: ExactMatrix, y: FloatArray, upper: FloatArray, result: Result, *, intercept: bool,
    linear: FloatArray | None = None,
) -> Result:  # fmt: skip
    """The same solution with objective, duality gap and violation from float64 kernel values.

    Where float32 values were so far off that no coefficients at all are better, these are returned.
    """
    support = np.flatnonzero(result.coef)
    gradient = -y if linear is None else linear.copy()
    K.add_products(support, result.coef[support], gradient)
    found = optimum_of(result.coef, gradient, y, upper, intercept, linear)
    if linear is None:
        if found.objective > 0:
            found = optimum_of(np.zeros(len(y)), -y, y, upper, intercept)
        found = stopped(found, y, upper, intercept)
    return replace(found, n_iter=result.n_iter, stop_reason=result.stop_reason)


def finish_in_float64(
    K: ExactMatrix, y: FloatArray, upper: FloatArray, result: Result, *, intercept: bool,
    limits: Limits, linear: FloatArray | None = None,
) -> Result:  # fmt: skip
    """Judge a solution in float64, and improve it until it is optimal there.

    ::

        minimise    0.5 b'Kb + linear'b
        subject to  0 <= y_i b_i <= upper_i,  and  sum(b) = 0  with an intercept

    Parameters
    ----------
    K : ExactMatrix
        The kernel matrix.
    y, upper, intercept
        As for `solve_box_qp`.
    result : Result
        The solution found with float32 kernel values.
    limits : Limits
        Stop when the violation, measured in float64, is below ``tol``, or after ``max_iter`` pair
        updates or ``max_time``. ``cache_bytes`` bounds the number of variables optimised together.
    linear : ndarray of shape (n,), optional
        Linear term; minus the labels if not given.

    Returns
    -------
    Result
        With objective, duality gap and violation computed from float64 kernel values.
    """
    deadline = start_deadline(limits.max_time)
    max_near = max(2, min(MAX_NEAR, isqrt(limits.cache_bytes // ENTRY_BYTES)))
    lower, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
    coef, n_iter = result.coef.copy(), result.n_iter
    gradient = -y if linear is None else linear.copy()
    support = np.flatnonzero(coef)
    K.add_products(support, coef[support], gradient)
    best, idle = np.inf, 0
    while True:
        found = optimum_of(coef, gradient, y, upper, intercept, linear)
        stop = "max_time" if is_late(deadline) else limit_reached(n_iter, 0.0, limits)
        idle = 0 if found.violation < 0.9 * best else idle + 1
        best = min(best, found.violation)
        if found.violation < limits.tol:
            stop = "converged"
        elif stop is None and idle > IDLE_ROUNDS:
            stop = "stalled"
        if stop in ("max_iter", "max_time") and linear is None:
            found = stopped(found, y, upper, intercept)
        if stop is not None:
            return replace(found, n_iter=n_iter, stop_reason=stop)
        near = _find_near(found, lower, high, max_near)
        spare = limits.max_iter - n_iter if limits.max_iter >= 0 else None
        moved, n_moves = _minimise_near(
            K.block(near, near), gradient[near], lower[near], high[near], coef[near],
            tied=intercept, tol=0.5 * limits.tol, spare=spare, deadline=deadline,
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


def _find_near(found: Result, lower: FloatArray, high: FloatArray, most: int) -> Index:
    """Free variables and those near the margin, the nearest if there are too many."""
    above = found.gradient + found.intercept
    rises, falls = found.coef < high, found.coef > lower
    slack = np.minimum(np.where(rises, above, np.inf), np.where(falls, -above, np.inf))
    slack[rises & falls] = -np.abs(above[rises & falls])
    reach = max(NEAR_MARGIN, NEAR_SHARE * found.violation)
    near = np.flatnonzero((slack < reach) | (rises & falls))
    return near if len(near) <= most else np.sort(near[np.argsort(slack[near])[:most]])


def _minimise_near(
    K: FloatArray, gradient: FloatArray, lower: FloatArray, high: FloatArray, coef: FloatArray,
    *, tied: bool, tol: float, spare: int | None, deadline: float | None,
) -> tuple[FloatArray, int]:  # fmt: skip
    """Variables after pair updates, and an interior-point solve if these were not enough."""
    n = len(coef)
    allowed = max(10 * n, int(MOVES_WORTH * n * n))
    allowed = allowed if spare is None else min(allowed, spare)
    moved, slope, n_moves = coef.copy(), gradient.copy(), 0
    while n_moves < allowed and not is_late(deadline):
        some = min(allowed - n_moves, max(1, CALL_ENTRIES // n))
        made, violation = optimise_small(tied, K, lower, high, tol, some, slope, moved)
        n_moves += made
        if violation < tol or made < some:
            return moved, n_moves
    if n_moves == spare or is_late(deadline):
        return moved, n_moves
    # Changes of the variables instead of these: they sum to zero, so that the matrix may be centred,
    # and nothing large cancels.
    if tied:
        mean = K.mean(axis=0)
        K = K - mean - mean[:, None] + mean.mean()
    low, top, total = lower - coef, high - coef, 0.0 if tied else None
    jump = minimise_interior(
        K, gradient, low, top, total=total, start=moved - coef, deadline=deadline
    )
    if not is_late(deadline):
        jump = walk_to_optimum(K, gradient, low, top, tied, jump, max_steps=JUMP_STEPS)
    is_better = _gain(K, gradient, jump) > _gain(K, gradient, moved - coef)
    # On a bound exactly where the change is: a sum could round to just beyond it.
    jumped = np.where(jump == low, lower, np.where(jump == top, high, coef + jump))
    return (np.clip(jumped, lower, high) if is_better else moved), n_moves


def _gain(K: FloatArray, gradient: FloatArray, change: FloatArray) -> float:
    """Decrease of the objective by a change of the variables."""
    return -float(change @ (gradient + 0.5 * K @ change))
