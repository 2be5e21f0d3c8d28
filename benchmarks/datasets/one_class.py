"""Novelty detection: 50,000 and 200,000 rows of large sets, features of variance one."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets.regression import read_dense, standardise
from benchmarks.records import BenchmarkData
from widemargin.datasets import load as load_source

N_TEST = 20_000
#: Share of the training rows that may lie outside.
NU = 0.05
#: Columns of kddcup99 that hold codes of categories.
CATEGORIES = (1, 2, 3)


def read_connections() -> NDArray[np.float64]:
    """Network connections of kddcup99: the 38 numbers; long-tailed counts as logarithms."""
    source = load_source("kddcup99_10pct")
    X = np.delete(source.X_train.astype(np.float64), CATEGORIES, axis=1)
    return np.log1p(np.maximum(X, 0.0))


#: Name in the tables -> how its rows are read, and how many are for training.
SETS = {
    "covtype-50k": (lambda: read_dense("covtype")[0], 50_000),
    "covtype-200k": (lambda: read_dense("covtype")[0], 200_000),
    "kddcup99-50k": (read_connections, 50_000),
    "kddcup99-200k": (read_connections, 200_000),
}


def load(name: str) -> BenchmarkData:
    """Random rows; gamma is one over the number of features, and targets are zeros without a use."""
    read, n_train = SETS[name]
    X = read()
    order = np.random.RandomState(0).permutation(len(X))
    train, test = order[:n_train], order[-N_TEST:]
    X = X[:, X[train].std(axis=0) > 0]
    none, none_test = np.zeros(n_train, np.int8), np.zeros(N_TEST, np.int8)
    params = {"nu": NU, "gamma": 1.0 / X.shape[1]}
    X = standardise(X, train).astype(np.float32)
    return BenchmarkData(name, X[train], none, X[test], none_test, params)
