"""Measures of a model, computed here in float64 and never taken from a solver.

For a pair of classes with labels y = -1, +1, coefficients b = y * alpha and decision function
f = K b + intercept:

    dual objective   0.5 b'Kb - sum|b|                                 (minimised)
    primal           0.5 b'Kb + C sum max(0, 1 - y f) over the rows of both classes
    duality gap      primal + dual objective, zero at the optimum

A model of several classes has the sums over its pairs.
"""

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from benchmarks.records import BenchmarkData, PairExpansion
from benchmarks.settings import MAX_GAP_ENTRIES

#: Memory of a block of kernel entries.
BLOCK_BYTES = 2**27

Array = NDArray[np.float64]


def measure_model(data: BenchmarkData, model: PairExpansion) -> dict[str, Any]:
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


def multiply_kernel(data: BenchmarkData, model: PairExpansion, rows: NDArray[np.intp]) -> Array:
    """K[rows, support] @ coef.T in blocks of bounded memory."""
    vectors = to_dense(data.X_train[model.support])
    squares = np.einsum("ij,ij->i", vectors, vectors)
    block_rows = max(1, BLOCK_BYTES // (8 * max(1, len(vectors))))
    products = np.empty((len(rows), len(model.coef)))
    for start in range(0, len(rows), block_rows):
        block = slice(start, start + block_rows)
        X = to_dense(data.X_train[rows[block]])
        K = X @ vectors.T
        K *= 2
        K -= squares
        K -= np.einsum("ij,ij->i", X, X)[:, None]
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


def to_dense(X: Any) -> Array:
    """Rows as dense float64; the blocks are small and the sets narrow."""
    return (X.toarray() if issparse(X) else X).astype(np.float64)
