"""mnist: images of 784 pixels scaled to [0, 1], ten classes, one-vs-one."""

import numpy as np

from benchmarks.records import BenchmarkData
from widemargin.datasets import load as load_source


def load(name: str, n_train: int) -> BenchmarkData:
    source = load_source("mnist")
    return BenchmarkData(
        name,
        source.X_train[:n_train].astype(np.float32) / 255,
        source.y_train[:n_train],
        source.X_test.astype(np.float32) / 255,
        source.y_test,
        {"C": 10.0, "gamma": 0.02},
    )
