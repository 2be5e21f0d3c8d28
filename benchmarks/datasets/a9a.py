"""a9a (adult): 32,561 sparse rows of 123 binary features, two classes."""

import numpy as np

from benchmarks.records import BenchmarkData
from widemargin.datasets import load as load_source


def load(name: str) -> BenchmarkData:
    source = load_source("a9a")
    return BenchmarkData(
        name,
        source.X_train.astype(np.float32),
        source.y_train,
        source.X_test.astype(np.float32),
        source.y_test,
        {"C": 8.0, "gamma": 1 / 32},
    )
