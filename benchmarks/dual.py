"""The dual problem of all kernel machines, and how far coefficients are from its optimum, in float64.

    minimise    0.5 b'Kb + p'b + epsilon |b|_1
    subject to  l <= b <= u,  sum(b) = s

Classification has p = -y and epsilon = 0, regression p = -y and its epsilon, one-class p = 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BoxProblem:
    """The problem without its kernel matrix.

    Attributes
    ----------
    linear : ndarray of shape (n_rows,)
        p, the linear term.
    lower, upper : ndarray of shape (n_rows,)
        l and u, the bounds.
    epsilon : float
        Weight of the absolute values.
    total : float
        s, the sum of all variables.
    """

    linear: Array
    lower: Array
    upper: Array
    epsilon: float = 0.0
    total: float = 0.0


def measure_objective(problem: BoxProblem, b: Array, product: Array) -> float:
    """The objective, given ``product = K b``."""
    linear = problem.linear @ b + problem.epsilon * np.abs(b).sum()
    return float(0.5 * b @ product + linear)


def measure_violation(problem: BoxProblem, b: Array, product: Array) -> float:
    """Largest decrease rate of the objective when one variable rises and another falls as much.

    Zero or less at the optimum; solvers stop when they believe that it is below ``tol``. At zero the
    absolute value has a slope for each direction.
    """
    gradient = product + problem.linear
    rise = (gradient + np.where(b >= 0, problem.epsilon, -problem.epsilon))[b < problem.upper]
    fall = (gradient + np.where(b > 0, problem.epsilon, -problem.epsilon))[b > problem.lower]
    if not (len(rise) and len(fall)):
        return 0.0
    return float(fall.max() - rise.min())


def measure_infeasibility(problem: BoxProblem, b: Array) -> float:
    """Largest violation of the bounds and of the sum, relative to the bounds and the variables."""
    width = np.max(np.abs([problem.lower, problem.upper]))
    box = max(np.max(problem.lower - b), np.max(b - problem.upper), 0.0) / width
    balance = abs(b.sum() - problem.total) / max(np.abs(b).sum(), np.finfo(float).tiny)
    return float(max(box, balance))
