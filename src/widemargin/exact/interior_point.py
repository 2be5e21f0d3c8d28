"""Interior-point solver of small dense quadratic programs on which pair moves crawl."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin.deadline import is_late
from widemargin.exact.dual_problem import DualProblem, FloatArray

#: Solves a linear system for one or several right-hand sides.
Solver = Callable[[FloatArray], FloatArray]

#: Newton steps; 15 to 25 are usual.
MAX_STEPS = 60
#: Share of the way to the nearest bound that a step may go; shorter steps than this share of
#: Newton's lead nowhere.
TO_BOUND, MIN_SHARE = 0.995, 1e-10
#: Added to the diagonal when a matrix is not numerically positive definite, relative to its largest
#: element; a hundred times as much at each of so many attempts.
RIDGE, MAX_RIDGES = 1e-15, 5
#: Complementarity, relative to the objective, at which the iteration ends.
PRECISION = 1e-12


def minimise_interior(
    K: FloatArray, problem: DualProblem, start: FloatArray, deadline: float | None = None
) -> FloatArray:
    """Solve a `DualProblem` without epsilon by Mehrotra's predictor-corrector method.

    A Newton step costs a Cholesky factorisation, and their number hardly depends on how badly
    conditioned K is. Pair moves need more the worse the condition and the wider the box.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Positive semidefinite.
    problem : DualProblem
        Linear term, bounds with ``lower < upper``, both finite, and the sum to hold.
    start : ndarray of shape (n,)
        Where to begin; moved into the interior of the box.
    deadline : float, optional
        Time after which no further step is made, see `widemargin.deadline`.

    Returns
    -------
    x : ndarray of shape (n,)
        Within the box, with a sum that is right up to rounding. Variables whose bound is active are
        set on it.
    """
    iterate = _Iterate(K, problem, start)
    for _ in range(MAX_STEPS):
        if iterate.is_precise() or is_late(deadline) or not iterate.step():
            break
    return iterate.snap()


class _Iterate:
    """Variables x, the prices of their two bounds, and the multiplier ``level`` of the sum.

    At the optimum ``Kx + linear - low_price + high_price - level = 0``, and each price times the
    distance to its bound is zero.
    """

    def __init__(self, K: FloatArray, problem: DualProblem, start: FloatArray) -> None:
        self.K, self.linear, self.total = K, problem.linear, problem.total
        self.lower, self.upper = problem.lower, problem.upper
        room = 0.1 * (self.upper - self.lower)
        self.x = np.clip(start, self.lower + room, self.upper - room)
        price = max(1.0, float(np.abs(K @ self.x + self.linear).mean()))
        self.low_price = np.full(len(start), price)
        self.high_price = np.full(len(start), price)
        self.level = 0.0
        self._measure()

    def _measure(self) -> None:
        self.slope = self.K @ self.x + self.linear
        self.below, self.above = self.x - self.lower, self.upper - self.x
        products = float(self.low_price @ self.below + self.high_price @ self.above)
        self.complementarity = products / (2 * len(self.x))

    def is_precise(self) -> bool:
        """Whether prices and distances are complementary up to rounding."""
        objective = abs(float(0.5 * (self.x @ (self.slope + self.linear))))
        return 2 * len(self.x) * self.complementarity <= PRECISION * (1.0 + objective)

    def step(self) -> bool:
        """One predictor and one corrector; False where neither gets any further."""
        solve = _factorise(self.K, self.low_price / self.below + self.high_price / self.above)
        if solve is None:
            return False
        # The predictor aims at complementarity zero, and tells how far that is within reach.
        step, _ = self._find_step(solve, 0.0, 0.0)
        low_step = -self.low_price * (1.0 + step / self.below)
        high_step = -self.high_price * (1.0 - step / self.above)
        share = min(1.0, self._longest(step, low_step, high_step))
        reached = (self.low_price + share * low_step) @ (self.below + share * step)
        reached += (self.high_price + share * high_step) @ (self.above - share * step)
        reached /= 2 * len(self.x) * self.complementarity
        centre = float(reached) ** 3 * self.complementarity
        low_target, high_target = centre - step * low_step, centre + step * high_step
        step, level_step = self._find_step(solve, low_target, high_target)
        low_step = (low_target - self.low_price * step) / self.below - self.low_price
        high_step = (high_target + self.high_price * step) / self.above - self.high_price
        share = min(1.0, TO_BOUND * self._longest(step, low_step, high_step))
        if not np.isfinite(step).all() or share < MIN_SHARE:
            return False
        self.x = self.x + share * step
        self.level += share * level_step
        self.low_price = self.low_price + share * low_step
        self.high_price = self.high_price + share * high_step
        self._measure()
        return True

    def _find_step(self, solve: Solver, low_target: Any, high_target: Any) -> tuple[Any, float]:
        """Newton step of x and of the level towards prices times distances as given."""
        side = low_target / self.below - high_target / self.above - self.slope + self.level
        if self.total is None:
            return solve(side), 0.0
        along, ones = solve(np.column_stack([side, np.ones(len(self.x))])).T
        change = (self.total - self.x.sum() - along.sum()) / ones.sum()
        return along + change * ones, float(change)

    def _longest(self, step: FloatArray, low_step: FloatArray, high_step: FloatArray) -> float:
        """Share of a step after which the first distance or price would be zero."""
        longest = np.inf
        for room, change in (
            (self.below, step), (self.above, -step),
            (self.low_price, low_step), (self.high_price, high_step),
        ):  # fmt: skip
            falling = change < 0
            if falling.any():
                longest = min(longest, float((room[falling] / -change[falling]).min()))
        return longest

    def snap(self) -> FloatArray:
        """Variables with an active bound on it; what that adds is spread over the others."""
        # A bound is active where moving onto it changes the slope by less than the bound's price.
        curvature = self.K.diagonal()
        at_lower = self.below * curvature < self.low_price
        at_upper = (self.above * curvature < self.high_price) & ~at_lower
        snapped = np.where(at_lower, self.lower, np.where(at_upper, self.upper, self.x))
        if self.total is None:
            return snapped
        # The free variables first, then, if they have no room, all.
        for movable in (~(at_lower | at_upper), np.ones(len(snapped), bool)):
            missing = self.total - float(snapped.sum())
            room = np.where(missing > 0, self.upper - snapped, snapped - self.lower) * movable
            # A difference by rounding must not move variables off their bounds.
            if abs(missing) > 1e-14 * float(np.abs(snapped).sum()) and room.any():
                share = np.sign(missing) * min(1.0, abs(missing) / float(room.sum()))
                snapped = np.clip(snapped + share * room, self.lower, self.upper)
        return snapped


def _factorise(K: FloatArray, barrier: FloatArray) -> Solver | None:
    """Function that solves with ``K + diag(barrier)``; None if no ridge makes it definite."""
    matrix = K.copy()
    at = np.diag_indices(len(K))
    ridge = 0.0
    for attempt in range(MAX_RIDGES):
        matrix[at] = K[at] + barrier + ridge
        try:
            factor = cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            ridge = RIDGE * 100.0**attempt * float(matrix[at].max())
            continue
        return lambda side: cho_solve(factor, side, check_finite=False)
    return None
