"""PSVM by its formulas, slowly: optima by a general minimiser, exchanges one after another."""

import numpy as np
from scipy.optimize import minimize


def objective(K, rows, y, cost, u, ridge=False):
    """J and its gradient for a basis; u is bias and coefficients, K the whole kernel matrix."""
    columns, penalty = K[:, rows], K[np.ix_(rows, rows)]
    w, b = u[1:], u[0]
    errors = np.maximum(1.0 - y * (columns @ w + b), 0.0)
    pull = cost * errors * y
    if ridge:
        value = u @ u
        slope = 2.0 * u
    else:
        value = w @ penalty @ w
        slope = np.append(0.0, 2.0 * penalty @ w)
    gradient = slope - 2.0 * np.append(pull.sum(), columns.T @ pull)
    return value + cost @ errors**2, gradient


def minimise(K, rows, y, cost, ridge=False):
    """Lowest J on a basis, by L-BFGS in coordinates that make the problem round."""
    scale = np.eye(len(rows) + 1)
    if not ridge:
        values, vectors = np.linalg.eigh(K[np.ix_(rows, rows)])
        scale[1:, 1:] = vectors / np.sqrt(np.maximum(values, 1e-14))

    def value(z):
        f, g = objective(K, rows, y, cost, scale @ z, ridge)
        return f, scale.T @ g

    found = minimize(
        value, np.zeros(len(scale)), jac=True, method="L-BFGS-B",
        options={"maxiter": 50_000, "maxfun": 200_000, "ftol": 1e-16, "gtol": 1e-10},
    )  # fmt: skip
    return found.fun, scale @ found.x


def solve_fixed(K, rows, y, cost, support):
    """Eq. 14 for a given support set, and J of that set alone (Eq. 20)."""
    columns, c = K[np.ix_(support, rows)], cost[support]
    H = K[np.ix_(rows, rows)] + columns.T @ (c[:, None] * columns)
    ones = np.ones(len(support))
    Q = np.diag(c) - (c[:, None] * columns) @ np.linalg.solve(H, columns.T * c)
    b = ones @ Q @ y[support] / (ones @ Q @ ones)
    w = np.linalg.solve(H, columns.T @ (c * (y[support] - b)))
    errors = y[support] - b - columns @ w
    value = w @ K[np.ix_(rows, rows)] @ w + c @ errors**2
    q = ones @ Q @ ones
    return w, b, value, q, np.linalg.solve(H, columns.T @ c)
