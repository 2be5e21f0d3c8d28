"""Finishing a small problem to machine precision by a primal active-set method."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq

from widemargin.solvers.box_qp import Result, optimum_of

FloatArray = NDArray[np.float64]

#: Linear systems solved before giving up; from a converged start a handful is enough.
MAX_STEPS = 50
#: Violation of the optimality conditions that counts as none.
EXACT = 1e-11


def finish_exactly(
    K: FloatArray, y: FloatArray, upper: FloatArray, *, intercept: bool, result: Result
) -> Result:
    """Improve a converged solution of ``min 0.5 b'Kb - y'b`` until only rounding is left.

    Solves for the free variables with the others at their bounds, walks there until a bound is met
    or, when none is, frees the worst violator. Every step lowers the objective, so the result is
    never worse than the start.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix in float64.
    y, upper : ndarray of shape (n,)
        Labels and largest alphas, as for `solve_box_qp`.
    intercept : bool
        Whether the sum of b is held at zero.
    result : Result
        Where to start.

    Returns
    -------
    Result
        The solution.
    """
    lower, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
    coef = result.coef.copy()
    free = (coef > lower) & (coef < high)
    for _ in range(MAX_STEPS):
        step, offset = _solve_free(K, y, coef, free, intercept)
        share, blocked = _longest_share(coef[free], step, lower[free], high[free])
        coef[free] = np.clip(coef[free] + share * step, lower[free], high[free])
        if blocked is not None:
            at = np.flatnonzero(free)[blocked]
            coef[at] = lower[at] if step[blocked] < 0 else high[at]
            free[at] = False
            continue
        slope = K @ coef - y - offset
        violation = np.where(free, 0.0, np.maximum(-slope * (coef < high), slope * (coef > lower)))
        worst = int(np.argmax(violation))
        if not free.any() or violation[worst] <= EXACT * max(1.0, float(np.abs(slope).max())):
            break
        free[worst] = True
    found = optimum_of(coef, K @ coef - y, y, upper, intercept)
    reason = "converged" if found.violation <= result.violation else result.stop_reason
    return replace(found, n_iter=result.n_iter, stop_reason=reason)


def _solve_free(
    K: FloatArray, y: FloatArray, coef: FloatArray, free: NDArray[np.bool_], intercept: bool
) -> tuple[FloatArray, float]:
    """Step of the free variables to the optimum on their face, and the gradient they share there."""
    rest = y[free] - K[free] @ coef
    system = K[np.ix_(free, free)]
    if not intercept:
        return _solve(system, rest), 0.0
    m = len(rest)
    bordered = np.zeros((m + 1, m + 1))
    bordered[:m, :m] = system
    bordered[:m, m] = bordered[m, :m] = -1.0
    solution = _solve(bordered, np.append(rest, coef.sum()))
    return solution[:m], float(solution[m])


def _solve(system: FloatArray, right: FloatArray) -> FloatArray:
    """Least-norm solution: repeated rows make the system singular but consistent."""
    return lstsq(system, right, lapack_driver="gelsy")[0] if len(right) else right


def _longest_share(
    coef: FloatArray, step: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[float, int | None]:
    """How much of the step fits between the bounds, and which variable stops it."""
    room = np.where(step > 0, upper - coef, coef - lower)
    shares = np.divide(room, np.abs(step), out=np.full_like(room, np.inf), where=step != 0)
    if len(shares) == 0 or shares.min() >= 1.0:
        return 1.0, None
    blocked = int(np.argmin(shares))
    return float(shares[blocked]), blocked
