"""Small problems, solved to machine precision: pair moves, then a primal active-set method.

Where pair moves crawl, because the kernel matrix is badly conditioned or C is large, an
interior-point method takes over in between.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotrs

from widemargin.budget import Budget, StopReason
from widemargin.deadline import is_late
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.interior_point import minimise_interior
from widemargin.exact.pair_moves_fast import optimise_small
from widemargin.exact.solution import IDLE_SHARE, Solution, judge, salvage

#: Function of a kernel matrix, a problem without epsilon and variables that returns better ones.
Minimiser = Callable[[FloatArray, DualProblem, FloatArray], FloatArray]
#: Pair updates per row before Newton steps are tried, and rounds of both. Ctrl-C and the time limit
#: are checked between rounds.
MOVES_PER_ROW, MAX_ROUNDS = 150, 5
#: Matrix entries visited by pair updates for the last digits before Newton steps are tried: with few
#: rows many updates are cheaper than one step.
FINISH_ENTRIES = 20_000
#: Steps before giving up; from a nearly converged start a handful is enough.
MAX_STEPS = 300
#: A slope counts as zero below this share of the terms it is summed from.
EXACT = 1e-13
#: Eigenvalue, relative to the largest, below which a direction has no curvature.
FLAT = 1e-13
#: Share of the shortest step that lowers the objective below which a direction is rounding.
NEGLIGIBLE = 1e-9
#: Squared ratio of the pivots of a Cholesky factor below which its solutions are not trusted.
PIVOTS = 1e-10


def solve_small(K: FloatArray, problem: DualProblem, budget: Budget) -> Solution:
    """Solve a `DualProblem` until only rounding is left.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix in float64.
    problem : DualProblem
        Linear term, bounds and start.
    budget : Budget
        When to stop; what is done beyond ``tol`` does not count as moves.

    Returns
    -------
    Solution
        The solution, never worse than the start.
    """
    common = problem.common_part(K[0])
    return _solve_centred(K - common, problem, budget) if common else _solve(K, problem, budget)


def _solve_centred(K: FloatArray, problem: DualProblem, budget: Budget) -> Solution:
    """Solve a problem whose variables sum to zero on the centred matrix, which has no common part.

    That changes all elements of the gradient by the same number, and the intercept by its negative.
    """
    mean = K.mean(axis=0)
    found = _solve(K - mean - mean[:, None] + mean.mean(), problem, budget)
    level = float(mean @ found.coef)
    return replace(found, gradient=found.gradient + level, intercept=found.intercept - level)


def _solve(K: FloatArray, problem: DualProblem, budget: Budget) -> Solution:
    """Solve a problem on a matrix as it is."""
    coef, linear = problem.first_point(), problem.linear
    n_moves, objective = 0, np.inf
    for _ in range(MAX_ROUNDS):
        gradient = K @ coef + linear
        allowed = int(min(MOVES_PER_ROW * len(problem), budget.iterations_left(n_moves)))
        made, violation = optimise_small(
            problem.is_tied, problem.epsilon, K, problem.lower, problem.upper, 0.5 * budget.tol,
            allowed, gradient, coef,
        )  # fmt: skip
        n_moves += made
        is_done = made < allowed or violation < 0.5 * budget.tol
        reason = None if is_done else budget.limit_reached(n_moves)
        found = judge(problem, coef, K @ coef + linear)
        if not is_done and reason is None:
            # Pairs crawl where the kernel is nearly singular; steps of all variables do not.
            found = _improve(K, problem, found, _jump)
        if reason is None:
            found = _improve(K, problem, found, _walk_on)
        coef = found.coef
        is_idle = objective - found.objective <= IDLE_SHARE * abs(found.objective)
        if reason is None and found.violation < budget.tol:
            reason = StopReason.CONVERGED
        if reason is not None or is_done or is_idle:
            break
        objective = found.objective
    reason = StopReason.STALLED if reason is None else reason
    found = salvage(problem, found) if reason.is_limit else found
    return replace(found, n_iter=n_moves, stop_reason=reason)


def _improve(K: FloatArray, problem: DualProblem, found: Solution, minimise: Minimiser) -> Solution:
    """Return what ``minimise`` makes of a solution, unless rounding costs more than it gains.

    In regression every variable stays on its side of zero.
    """
    towards = -(found.gradient + found.intercept)
    coef = minimise(K, problem.one_sided(found.coef, towards), found.coef)
    better = judge(problem, coef, K @ coef + problem.linear)
    is_better = better.objective <= found.objective + IDLE_SHARE * abs(found.objective)
    return better if is_better else found


def _jump(K: FloatArray, problem: DualProblem, coef: FloatArray) -> FloatArray:
    """Variables after an interior-point solve."""
    return minimise_interior(K, problem, coef)


def _walk_on(K: FloatArray, problem: DualProblem, coef: FloatArray) -> FloatArray:
    """Variables after Newton steps of all free ones."""
    return walk_to_optimum(K, problem, coef, MAX_STEPS)


def walk_to_optimum(
    K: FloatArray, problem: DualProblem, coef: FloatArray, max_steps: int,
    deadline: float | None = None,
) -> FloatArray:  # fmt: skip
    """Bring a solution of a problem without epsilon to the precision of float64.

    Walks to the optimum of the free variables, the others at their bounds, until a bound is met;
    once there, frees the worst violator. Every step is an exact line search: only rounding can make
    the result worse than the start. No step begins after the deadline.
    """
    coef, size = coef.copy(), np.abs(K)
    linear, lower, high, tied = problem.linear, problem.lower, problem.upper, problem.is_tied
    slope, scale = K @ coef + linear, 1.0 + float((size @ np.abs(coef)).max())
    _, violation = optimise_small(
        tied, 0.0, K, lower, high, EXACT * scale, FINISH_ENTRIES // len(coef), slope, coef
    )
    if violation < EXACT * scale:
        return coef
    free = (coef > lower) & (coef < high)
    for _ in range(max_steps):
        if is_late(deadline):
            break
        slope = K @ coef + linear
        offset = float(slope[free].mean()) if tied and free.any() else 0.0
        scale = 1.0 + float((size @ np.abs(coef)).max())
        downhill = offset - slope[free]
        if np.abs(downhill).max(initial=0.0) > EXACT * scale:
            direction = _find_direction(K[np.ix_(free, free)], downhill, tied, EXACT * scale)
            # No step that lowers the objective is shorter than this, by the largest curvature.
            shortest = np.abs(downhill).max() / size.max()
            if tied:
                # Along a direction without curvature a step may be so long that the rounding of the
                # direction's sum changes the sum of the variables.
                direction -= direction.mean()
            if np.abs(direction).max() <= NEGLIGIBLE * shortest:
                break
            _walk(K, problem, direction, downhill, free, coef)
            continue
        above = np.where(free, 0.0, slope - offset)
        violation = np.maximum(-above * (coef < high), above * (coef > lower))
        worst = int(np.argmax(violation))
        if not free.any() or violation[worst] <= EXACT * scale:
            break
        free[worst] = True
    return coef


def _find_direction(K: FloatArray, downhill: FloatArray, tied: bool, rounding: float) -> FloatArray:
    """Newton's direction; along directions without curvature, straight downhill.

    ``rounding`` is the size up to which slopes are rounding.
    """
    factor, failed = dpotrf(K)
    pivots = factor.diagonal()
    if failed or pivots.min() ** 2 < PIVOTS * pivots.max() ** 2:
        return _find_flat_direction(K, downhill, tied, rounding)
    sides = np.column_stack([downhill, np.ones(len(downhill))])
    newton, level = dpotrs(factor, sides)[0].T
    return newton - level * (newton.sum() / level.sum()) if tied else newton


def _find_flat_direction(
    K: FloatArray, downhill: FloatArray, tied: bool, rounding: float
) -> FloatArray:
    """Newton's direction for a matrix that is singular: repeated or dependent rows.

    If the slope has a part where there is no curvature, the objective falls along it without end,
    and a bound will stop the walk.
    """
    if tied:
        K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    curvature, axes = eigh(K)
    along = axes.T @ downhill
    curved = curvature > FLAT * max(curvature[-1], 1e-300)
    flat = axes[:, ~curved] @ along[~curved]
    if np.abs(flat).max(initial=0.0) > max(1e-9 * np.abs(downhill).max(), rounding):
        return flat
    return axes[:, curved] @ (along[curved] / curvature[curved])


def _walk(
    K: FloatArray, problem: DualProblem, direction: FloatArray, downhill: FloatArray,
    free: NDArray[np.bool_], coef: FloatArray,
) -> None:  # fmt: skip
    """Move the free variables to the lowest point ahead, or to the first bound, which then holds."""
    at = np.flatnonzero(free)
    lower, high = problem.lower[at], problem.upper[at]
    curvature = float(direction @ K[np.ix_(at, at)] @ direction)
    best = float(downhill @ direction) / curvature if curvature > 0 else np.inf
    room = np.where(direction > 0, high - coef[at], coef[at] - lower)
    shares = np.divide(room, np.abs(direction), out=np.full(len(at), np.inf), where=direction != 0)
    first = int(np.argmin(shares))
    share = min(best, float(shares[first]))
    coef[at] = np.clip(coef[at] + share * direction, lower, high)
    if shares[first] <= best:
        coef[at[first]] = high[first] if direction[first] > 0 else lower[first]
        free[at[first]] = False
