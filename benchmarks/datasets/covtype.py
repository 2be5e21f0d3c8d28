"""covtype: random rows of 54 dense features scaled to [0, 1], class 2 against the rest."""

import numpy as np

from benchmarks.records import BenchmarkData
from widemargin.datasets import load as load_source

N_TEST = 20_000


def load(name: str, n_train: int, n_test: int = N_TEST, split: int = 0) -> BenchmarkData:
    source = load_source("covtype")
    # No split is published, so the one made by the loader is undone.
    X = np.concatenate([source.X_train, source.X_test])
    y = np.where(np.concatenate([source.y_train, source.y_test]) == 2, 1, -1)
    order = np.random.RandomState(split).permutation(len(y))
    # Taken from the two ends: every size of training set has the same test rows.
    train, test = order[:n_train], order[-n_test:]
    low, high = X.min(axis=0), X.max(axis=0)
    width = (high - low).astype(np.float32)
    return BenchmarkData(
        name,
        (X[train] - low) / width,
        y[train],
        (X[test] - low) / width,
        y[test],
        {"C": 32.0, "gamma": 32.0},
    )
