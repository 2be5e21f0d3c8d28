"""Solutions judged, and where necessary finished, with kernel values in float64.

The fast solvers work with float32 kernel values. These limit the accuracy of a solution to about
``1e-7 C sqrt(n_bounded)`` times the size of the kernel, which for a large C, or for features in
different units, is more than the tolerance. Here the gradient is computed anew in float64, and
variables near the margin are optimised on their float64 kernel matrix until the conditions hold.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from widemargin.kernels import Index
from widemargin.solvers.box_qp_fast import optimise_small
from widemargin.solvers.interior_point import minimise_interior
from widemargin.solvers.optimum import FloatArray, Limits, Result, limit_reached, optimum_of

#: Rows whose kernel values are computed at a time.
BLOCK_ROWS = 1024
#: Variables within this distance of the margin, or half of the violation, are optimised together.
NEAR_MARGIN, NEAR_SHARE = 0.3, 0.5
#: Most of them: their matrix and its factor take 16 bytes an entry.
MAX_NEAR = 4000
#: An interior-point solve costs about as much as this many pair moves times the squared number of
#: variables. Moves are given up for it when they have cost as much.
MOVES_WORTH = 0.17
#: Rounds that may pass without a smaller violation.
IDLE_ROUNDS = 3

#: Gives the kernel in float64 between some rows and some others of a problem.
ExactKernel = Callable[[Index, Index], FloatArray]


def finish_in_float64(
    kernel: ExactKernel, y: FloatArray, upper: FloatArray, result: Result, *, intercept: bool,
    limits: Limits, max_near: int = MAX_NEAR,
) -> Result:  # fmt: skip
    """Judge a solution in float64, and improve it until it is optimal there.

    ::

        minimise    0.5 b'Kb - y'b
        subject to  0 <= y_i b_i <= upper_i,  and  sum(b) = 0  with an intercept

    Parameters
    ----------
    kernel : callable
        ``kernel(rows, cols)`` is the kernel matrix in float64 between rows of the problem.
    y, upper, intercept
        As for `solve_box_qp`.
    result : Result
        The solution found with float32 kernel values.
    limits : Limits
        Stop when the violation, measured in float64, is below ``tol``, or at ``max_iter`` moves or
        ``max_time``.
    max_near : int
        Most variables that are optimised together.

    Returns
    -------
    Result
        With objective, duality gap and violation computed from float64 kernel values.
    """
    began = time.perf_counter()
    lower, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
    coef, n_iter = result.coef.copy(), result.n_iter
    gradient = -y
    _add_products(kernel, np.flatnonzero(coef), coef, gradient)
    best, idle = np.inf, 0
    while True:
        found = optimum_of(coef, gradient, y, upper, intercept)
        stop = limit_reached(n_iter, time.perf_counter() - began, limits)
        idle = 0 if found.violation < 0.9 * best else idle + 1
        best = min(best, found.violation)
        if found.violation < limits.tol:
            stop = "converged"
        elif stop is None and idle > IDLE_ROUNDS:
            stop = "stalled"
        if stop is not None:
            return replace(found, n_iter=n_iter, stop_reason=stop)
        near = _find_near(found, lower, high, max_near)
        spare = limits.max_iter - n_iter if limits.max_iter >= 0 else None
        moved, n_moves = _minimise_near(
            kernel(near, near), gradient[near], lower[near], high[near], coef[near],
            tied=intercept, tol=0.5 * limits.tol, spare=spare,
        )  # fmt: skip
        n_iter += n_moves
        change = np.zeros(len(y))
        change[near] = moved - coef[near]
        coef[near] = moved
        gradient = gradient.copy()
        _add_products(kernel, np.flatnonzero(change), change, gradient)


def estimate_float32_error(coef: FloatArray, kernel_scale: float) -> float:
    """Violation to expect of a solution that was found with float32 kernel values.

    Each of these is off by 6e-8 of its size at most, and the errors of all support vectors add up
    like random numbers. Measured: 0.5 to 2 times this.
    """
    return 1.2e-7 * kernel_scale * float(np.linalg.norm(coef))


def _add_products(kernel: ExactKernel, cols: Index, coef: FloatArray, out: FloatArray) -> None:
    """Add ``K[:, cols] @ coef[cols]`` to ``out``, block by block."""
    for start in range(0, len(out), BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, len(out)))
        out[rows] += kernel(rows, cols) @ coef[cols]


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
    *, tied: bool, tol: float, spare: int | None,
) -> tuple[FloatArray, int]:  # fmt: skip
    """Variables after pair moves, and an interior-point solve if these were not enough."""
    n = len(coef)
    allowed = max(10 * n, int(MOVES_WORTH * n * n))
    allowed = allowed if spare is None else min(allowed, spare)
    moved, slope = coef.copy(), gradient.copy()
    n_moves, violation = optimise_small(tied, K, lower, high, tol, allowed, slope, moved)
    if violation < tol or n_moves < allowed or n_moves == spare:
        return moved, n_moves
    linear = gradient - K @ coef
    total = float(coef.sum()) if tied else None
    jumped = minimise_interior(K, linear, lower, high, total=total, start=moved)
    slope = K @ jumped + linear
    if 0.5 * jumped @ (slope + linear) > 0.5 * moved @ (K @ moved + 2.0 * linear):
        return moved, n_moves
    more, _ = optimise_small(tied, K, lower, high, tol, allowed, slope, jumped)
    return jumped, n_moves + more
