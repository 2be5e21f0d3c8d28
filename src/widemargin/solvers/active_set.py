"""Finishing a small problem to machine precision by a primal active-set method."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from widemargin.solvers.box_qp import Result, optimum_of

FloatArray = NDArray[np.float64]

#: Steps before giving up; from a nearly converged start a handful is enough.
MAX_STEPS = 300
#: Slope that counts as none, relative to the terms it is summed from.
EXACT = 1e-13
#: Eigenvalue, relative to the largest, below which a direction has no curvature.
FLAT = 1e-13


def finish_exactly(
    K: FloatArray, y: FloatArray, upper: FloatArray, *, intercept: bool, tol: float, result: Result
) -> Result:
    """Improve a solution of ``min 0.5 b'Kb - y'b`` until only rounding is left.

    Walks to the optimum of the free variables, the others at their bounds, until a bound is met;
    once there, frees the worst violator. Every step is an exact line search, so the result is never
    worse than the start.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix in float64.
    y, upper : ndarray of shape (n,)
        Labels and largest alphas, as for `solve_box_qp`.
    intercept : bool
        Whether the sum of b is held at zero.
    tol : float
        Violation up to which the result counts as converged.
    result : Result
        Where to start.

    Returns
    -------
    Result
        The solution.
    """
    lower, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
    coef, size = result.coef.copy(), np.abs(K)
    free = (coef > lower) & (coef < high)
    for _ in range(MAX_STEPS):
        slope = K @ coef - y
        offset = float(slope[free].mean()) if intercept and free.any() else 0.0
        scale = 1.0 + float((size @ np.abs(coef)).max())
        downhill = offset - slope[free]
        if np.abs(downhill).max(initial=0.0) > EXACT * scale:
            _walk(K, _find_direction(K[np.ix_(free, free)], downhill, intercept), downhill,
                  lower, high, free, coef)  # fmt: skip
            continue
        above = np.where(free, 0.0, slope - offset)
        violation = np.maximum(-above * (coef < high), above * (coef > lower))
        worst = int(np.argmax(violation))
        if not free.any() or violation[worst] <= EXACT * scale:
            break
        free[worst] = True
    found = optimum_of(coef, K @ coef - y, y, upper, intercept)
    reason = "converged" if found.violation < tol else "stalled"
    return replace(found, n_iter=result.n_iter, stop_reason=reason)


def _find_direction(K: FloatArray, downhill: FloatArray, tied: bool) -> FloatArray:
    """Newton's direction; along directions without curvature, straight downhill.

    Repeated or dependent rows make the matrix singular. If the slope has a part where there is no
    curvature, the objective falls along it without end, and a bound will stop the walk.
    """
    if tied:
        K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    curvature, axes = eigh(K)
    along = axes.T @ downhill
    curved = curvature > FLAT * max(curvature[-1], 1e-300)
    flat = axes[:, ~curved] @ along[~curved]
    if np.abs(flat).max(initial=0.0) > 1e-9 * np.abs(downhill).max():
        return flat
    return axes[:, curved] @ (along[curved] / curvature[curved])


def _walk(
    K: FloatArray, direction: FloatArray, downhill: FloatArray, lower: FloatArray,
    high: FloatArray, free: NDArray[np.bool_], coef: FloatArray,
) -> None:  # fmt: skip
    """Move the free variables to the lowest point ahead, or to the first bound, which then holds."""
    at = np.flatnonzero(free)
    curvature = float(direction @ K[np.ix_(at, at)] @ direction)
    best = float(downhill @ direction) / curvature if curvature > 0 else np.inf
    room = np.where(direction > 0, high[at] - coef[at], coef[at] - lower[at])
    shares = np.divide(room, np.abs(direction), out=np.full(len(at), np.inf), where=direction != 0)
    first = int(np.argmin(shares))
    share = min(best, float(shares[first]))
    coef[at] = np.clip(coef[at] + share * direction, lower[at], high[at])
    if shares[first] <= best:
        coef[at[first]] = high[at[first]] if direction[first] > 0 else lower[at[first]]
        free[at[first]] = False
