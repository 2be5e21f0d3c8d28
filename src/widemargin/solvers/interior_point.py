"""Interior-point solver of small dense quadratic programs on which pair moves crawl."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

FloatArray = NDArray[np.float64]

#: Newton steps; 15 to 25 are usual.
MAX_STEPS = 60
#: Share of the way to the nearest bound that a step may go.
TO_BOUND = 0.995
#: Added to the diagonal when a matrix is not numerically positive definite, relative to its largest
#: element; a hundred times as much at each of so many attempts.
RIDGE, MAX_RIDGES = 1e-15, 5
#: Complementarity, relative to the objective, at which the iteration ends.
PRECISION = 1e-12


def minimise_interior(
    K: FloatArray,
    linear: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    total: float | None,
    start: FloatArray,
) -> FloatArray:
    """Minimise a convex quadratic function over a box by Mehrotra's predictor-corrector method.

    ::

        minimise    0.5 x'Kx + linear'x
        subject to  lower <= x <= upper,  and  sum(x) = total  unless that is None

    A Newton step costs a Cholesky factorisation, and their number hardly depends on how badly
    conditioned K is. Pair moves need more the worse the condition and the wider the box.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Positive semidefinite.
    linear, lower, upper : ndarray of shape (n,)
        ``lower < upper``, both finite.
    total : float or None
        Sum to hold.
    start : ndarray of shape (n,)
        Where to begin; moved into the interior of the box.

    Returns
    -------
    x : ndarray of shape (n,)
        Within the box, with a sum that is right up to rounding. Variables whose bound is active are
        set on it.
    """
    width = upper - lower
    x = np.clip(start, lower + 0.1 * width, upper - 0.1 * width)
    level = 0.0
    slope = K @ x + linear
    scale = max(1.0, float(np.abs(slope).mean()))
    low_price, high_price = np.full(len(x), scale), np.full(len(x), scale)
    for _ in range(MAX_STEPS):
        below, above = x - lower, upper - x
        slope = K @ x + linear
        residual = slope - low_price + high_price - level
        missing = 0.0 if total is None else total - x.sum()
        product = float(low_price @ below + high_price @ above) / (2 * len(x))
        objective = abs(float(0.5 * (x @ (slope + linear))))
        if product * 2 * len(x) <= PRECISION * (1.0 + objective):
            break
        solve = _factorise(K, low_price / below + high_price / above)
        if solve is None:
            break

        def find_step(low_target: FloatArray, high_target: FloatArray) -> tuple[FloatArray, float]:
            side = low_target / below - high_target / above - residual - low_price + high_price
            if total is None:
                return solve(side), 0.0
            along, ones = solve(np.column_stack([side, np.ones(len(x))])).T
            change = (missing - along.sum()) / ones.sum()
            return along + change * ones, float(change)

        nothing = np.zeros(len(x))
        step, _ = find_step(nothing, nothing)
        low_step = -low_price * (1.0 + step / below)
        high_step = -high_price * (1.0 - step / above)
        share = _longest_step(below, above, step, low_price, low_step, high_price, high_step)
        reached = (low_price + share * low_step) @ (below + share * step)
        reached += (high_price + share * high_step) @ (above - share * step)
        centring = (float(reached) / (2 * len(x)) / product) ** 3 * product
        low_target, high_target = centring - step * low_step, centring + step * high_step
        step, level_step = find_step(low_target, high_target)
        low_step = (low_target - low_price * step) / below - low_price
        high_step = (high_target + high_price * step) / above - high_price
        share = min(
            1.0,
            TO_BOUND
            * _longest_step(below, above, step, low_price, low_step, high_price, high_step),
        )
        if not np.isfinite(step).all() or share < 1e-10:
            break
        x = x + share * step
        level += share * level_step
        low_price, high_price = low_price + share * low_step, high_price + share * high_step
    # A bound is active where moving onto it changes the slope by less than the bound's price.
    curvature = K.diagonal()
    at_lower = (x - lower) * curvature < low_price
    at_upper = ((upper - x) * curvature < high_price) & ~at_lower
    return _snap(x, lower, upper, at_lower, at_upper, total)


def _factorise(K: FloatArray, barrier: FloatArray):  # type: ignore[no-untyped-def]
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


def _longest_step(
    below: FloatArray, above: FloatArray, step: FloatArray,
    low_price: FloatArray, low_step: FloatArray, high_price: FloatArray, high_step: FloatArray,
) -> float:  # fmt: skip
    """Share of a step after which the first variable or price would be zero; at most 1 / TO_BOUND."""
    longest = 1.0 / TO_BOUND
    for room, change in (
        (below, step), (above, -step), (low_price, low_step), (high_price, high_step)
    ):  # fmt: skip
        falling = change < 0
        if falling.any():
            longest = min(longest, float((room[falling] / -change[falling]).min()))
    return longest


def _snap(
    x: FloatArray, lower: FloatArray, upper: FloatArray, at_lower: NDArray[np.bool_],
    at_upper: NDArray[np.bool_], total: float | None,
) -> FloatArray:  # fmt: skip
    """Put variables with an active bound on it, and spread what that adds over the others."""
    snapped = np.where(at_lower, lower, np.where(at_upper, upper, x))
    if total is None:
        return snapped
    # The free variables first, then, if they have no room, all.
    for movable in (~(at_lower | at_upper), np.ones(len(x), bool)):
        missing = total - float(snapped.sum())
        room = np.where(missing > 0, upper - snapped, snapped - lower) * movable
        # A difference by rounding must not move variables off their bounds.
        if abs(missing) > 1e-14 * float(np.abs(snapped).sum()) and room.any():
            share = min(1.0, abs(missing) / float(room.sum()))
            snapped = np.clip(snapped + np.sign(missing) * share * room, lower, upper)
    return snapped
