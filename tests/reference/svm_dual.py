"""The two duals of a support vector machine, solved slowly and surely in float64.

Minimise ``0.5 b'Kb - y'b`` over ``0 <= y_i b_i <= upper_i``, and ``sum(b) = 0`` with an intercept.
"""

from itertools import product

import numpy as np
from scipy.optimize import brentq, lsq_linear


def objective(K, y, b):
    return 0.5 * b @ K @ b - y @ b


def bounds(y, upper):
    return np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)


def violation(K, y, upper, b, intercept):
    """Largest violation of the optimality conditions by a pair of variables."""
    lower, high = bounds(y, upper)
    gradient = K @ b - y
    lowest = gradient[b < high].min(initial=np.inf)
    highest = gradient[b > lower].max(initial=-np.inf)
    if not intercept:
        lowest, highest = min(lowest, 0.0), max(highest, 0.0)
    return max(highest - lowest, 0.0)


def primal(K, y, upper, b, offset):
    """Primal objective of the decision function ``K b + offset``."""
    hinge = np.maximum(1.0 - y * (K @ b + offset), 0.0)
    return 0.5 * b @ K @ b + upper @ hinge


def duality_gap(K, y, upper, b, offset):
    return primal(K, y, upper, b, offset) + objective(K, y, b)


def enumerate_faces(K, y, upper, intercept):
    """Optimum by trying every choice of variables at zero, at their bound, or free: 3^n systems.

    The optimum is stationary on its face, and no feasible point is better, so the best feasible
    stationary point of all faces is the optimum.
    """
    n = len(y)
    best, best_b = np.inf, None
    for face in product((0, 1, 2), repeat=n):
        b = stationary_point(K, y, upper, np.array(face), intercept)
        if b is not None and objective(K, y, b) < best:
            best, best_b = objective(K, y, b), b
    return best_b


def stationary_point(K, y, upper, face, intercept):
    """Stationary point of a face (0: at zero, 1: at the bound, 2: free), None if not feasible."""
    free = face == 2
    b = np.where(face == 1, y * upper, 0.0)
    m = np.count_nonzero(free)
    if m:
        system = np.zeros((m + 1, m + 1))
        system[:m, :m] = K[np.ix_(free, free)]
        system[:m, m] = system[m, :m] = 1.0
        target = np.append(y[free] - K[free] @ b, -b.sum())
        if not intercept:
            system, target = system[:m, :m], target[:m]
        b[free] = np.linalg.lstsq(system, target, rcond=None)[0][:m]
    lower, high = bounds(y, upper)
    slack = 1e-9 * upper
    feasible = (b >= lower - slack).all() and (b <= high + slack).all()
    if intercept:
        feasible &= abs(b.sum()) <= 1e-9 * upper.sum()
    return b if feasible else None


def solve(K, y, upper, intercept):
    """Optimum for a positive definite K and tens of variables.

    Without an intercept this is bounded least squares in a root of K. With one, the multiplier of
    ``sum(b) = 0`` shifts y, and the sum falls as it grows: its zero is found by bisection.
    """
    root = np.linalg.cholesky(K)
    lower, high = bounds(y, upper)

    def solve_shifted(multiplier):
        target = np.linalg.solve(root, y - multiplier)
        b = lsq_linear(root.T, target, (lower, high), method="bvls", tol=1e-15).x
        b = np.where(np.abs(b - lower) < 1e-12 * upper, lower, b)
        return np.where(np.abs(b - high) < 1e-12 * upper, high, b)

    if not intercept:
        return solve_shifted(0.0)
    reach = 1.0 + np.abs(K).max() * upper.sum()
    return solve_shifted(brentq(lambda m: solve_shifted(m).sum(), -reach, reach, xtol=1e-14))
