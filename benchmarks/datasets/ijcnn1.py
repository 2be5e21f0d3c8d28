"""ijcnn1: 49,990 rows of 22 dense features, two classes, one in ten positive."""

import numpy as np

from benchmarks.records import BenchmarkData
from widemargin.datasets import load as load_source


def load(name: str) -> BenchmarkData:
    source = load_source("ijcnn1")
    return BenchmarkData(
        name,
        source.X_train.astype(np.float32),
        source.y_train,
        source.X_test.astype(np.float32),
        source.y_test,
        {"C": 32.0, "gamma": 2.0},
    )
