"""Measures of a model, computed here in float64 and never taken from a solver.

For a pair of classes with labels y = -1, +1, coefficients b = y * alpha and decision function
f = K b + intercept:

    dual objective   0.5 b'Kb - sum|b|                                 (minimised)
    primal           0.5 b'Kb + C sum max(0, 1 - y f) over the rows of both classes
    duality gap      primal + dual objective, zero at the optimum

A classifier of several classes has the sums over its pairs. Regression and one-class models have the
objectives of ``benchmarks.dual``; their primal is

    regression       0.5 b'Kb + C sum max(0, |y - f| - epsilon)
    one class        0.5 b'Kb + nu n intercept + sum max(0, -f)
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from benchmarks.dual import BoxProblem, measure_objective, measure_violation
from benchmarks.dual import measure_infeasibility as measure_box
from benchmarks.records import BenchmarkData, PairExpansion
from benchmarks.settings import MAX_GAP_ENTRIES

#: Memory of a block of kernel entries.
BLOCK_BYTES = 2**27

Array = NDArray[np.float64]


def measure_classifier(data: BenchmarkData, model: PairExpansion) -> dict[str, Any]:
    """Objective, duality gap (None if too costly), infeasibility and support vectors."""
    n_train, n_support = len(data.y_train), len(model.support)
    with_gap = n_train * n_support <= MAX_GAP_ENTRIES
    rows = np.arange(n_train) if with_gap else model.support
    products = multiply_kernel(data, model, rows)
    at_support = products[model.support] if with_gap else products
    quadratic = 0.5 * np.einsum("ps,sp->p", model.coef, at_support)
    objective = float((quadratic - np.abs(model.coef).sum(axis=1)).sum())
    gap = None
    if with_gap:
        losses = sum_losses(data, products + model.intercept)
        gap = float(quadratic.sum() + losses + objective)
    return {
        "objective": objective,
        "duality_gap": gap,
        "infeasibility": measure_infeasibility(data, model),
        "n_support": n_support,
    }


def measure_regressor(data: BenchmarkData, model: PairExpansion) -> dict[str, Any]:
    """Objective, violation and duality gap (None if too costly), infeasibility, support vectors."""
    C, epsilon = data.params["C"], data.params["epsilon"]
    y = data.y_train.astype(np.float64)
    bound = np.full(len(y), C)

    def sum_errors(decisions: Array) -> float:
        return float(C * np.maximum(0.0, np.abs(y - decisions) - epsilon).sum())

    return measure_machine(data, model, BoxProblem(-y, -bound, bound, epsilon), sum_errors)


def measure_one_class(data: BenchmarkData, model: PairExpansion) -> dict[str, Any]:
    """Objective, violation and duality gap (None if too costly), infeasibility, support vectors."""
    n = len(data.y_train)
    total = data.params["nu"] * n

    def sum_errors(decisions: Array) -> float:
        return float(total * model.intercept[0] + np.maximum(0.0, -decisions).sum())

    problem = BoxProblem(np.zeros(n), np.zeros(n), np.ones(n), total=total)
    return measure_machine(data, model, problem, sum_errors)


def measure_machine(
    data: BenchmarkData,
    model: PairExpansion,
    problem: BoxProblem,
    sum_errors: Callable[[Array], float],
) -> dict[str, Any]:
    """Judge a model of one problem; ``sum_errors`` gives what the primal has beside 0.5 b'Kb."""
    n_train, n_support = len(data.y_train), len(model.support)
    b = np.zeros(n_train)
    b[model.support] = model.coef[0]
    in_full = n_train * n_support <= MAX_GAP_ENTRIES
    product = np.zeros(n_train)
    rows = np.arange(n_train) if in_full else model.support
    product[rows] = multiply_kernel(data, model, rows)[:, 0]
    objective = measure_objective(problem, b, product)
    gap = None
    if in_full:
        gap = float(0.5 * b @ product) + sum_errors(product + model.intercept[0]) + objective
    return {
        "objective": objective,
        "violation": measure_violation(problem, b, product) if in_full else None,
        "duality_gap": gap,
        "infeasibility": measure_box(problem, b),
        "n_support": n_support,
    }


def multiply_kernel(data: BenchmarkData, model: PairExpansion, rows: NDArray[np.intp]) -> Array:
    """K[rows, support] @ coef.T of the RBF kernel, in blocks of bounded memory."""
    vectors = to_float64(data.X_train[model.support])
    squares = square_norms(vectors)
    block_rows = max(1, BLOCK_BYTES // (8 * max(1, vectors.shape[0])))
    products = np.empty((len(rows), len(model.coef)))
    for start in range(0, len(rows), block_rows):
        block = slice(start, start + block_rows)
        X = to_float64(data.X_train[rows[block]])
        K = X @ vectors.T
        K = K.toarray() if issparse(K) else K
        K *= 2
        K -= squares
        K -= square_norms(X)[:, None]
        np.minimum(K, 0, out=K)
        K *= data.params["gamma"]
        np.exp(K, out=K)
        products[block] = K @ model.coef.T
    return products


def sum_losses(data: BenchmarkData, decisions: Array) -> float:
    """C times the hinge losses of all pairs, each over the rows of its two classes."""
    signs = sign_pairs(data.y_train)
    hinges = np.maximum(0, 1 - signs.T * decisions)
    return float(data.params["C"] * hinges[signs.T != 0].sum())


def measure_infeasibility(data: BenchmarkData, model: PairExpansion) -> float:
    """Largest relative violation of 0 <= alpha <= C, sum(b) = 0 and membership in the pair."""
    signs = sign_pairs(data.y_train)[:, model.support]
    alpha, cost = model.coef * signs, data.params["C"]
    foreign = np.abs(model.coef[signs == 0])
    box = max(-alpha.min(), alpha.max() - cost, foreign.max(initial=0.0)) / cost
    balance = np.abs(model.coef.sum(axis=1)) / np.abs(model.coef).sum(axis=1)
    return float(max(box, balance.max(), 0.0))


def sign_pairs(y: NDArray[Any]) -> NDArray[np.int8]:
    """-1, +1 or 0 for each pair and row: first class, second class, neither."""
    classes, labels = np.unique(y, return_inverse=True)
    pairs = combinations(range(len(classes)), 2)
    return np.array([(labels == j).astype(np.int8) - (labels == i) for i, j in pairs])


def to_float64(X: Any) -> Any:
    return X.astype(np.float64)


def square_norms(X: Any) -> Array:
    """Squared length of every row, dense or sparse."""
    if issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)
