"""An oracle for machines on a given basis: the convex problem by a general method."""

import numpy as np
from scipy.optimize import minimize


def minimise_primal(features, penalty, sign, cost):
    """Minimum of ``sum penalty u^2 + sum cost max(0, 1 - sign (features u))^2`` over u."""

    def value(u):
        errors = np.maximum(1 - sign * (features @ u), 0)
        slope = 2 * penalty * u - 2 * features.T @ (sign * cost * errors)
        return penalty @ u**2 + cost @ errors**2, slope

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9}
    start = np.zeros(features.shape[1])
    return minimize(value, start, jac=True, method="L-BFGS-B", options=options).fun


def with_ones(K):
    """A column of ones, for the bias, before the others."""
    return np.column_stack([np.ones(len(K)), K])
