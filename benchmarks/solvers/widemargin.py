"""KernelSVC of the library under test."""

from typing import Any

import numpy as np

from benchmarks.records import PairExpansion
from benchmarks.settings import THREADS, TOL
from widemargin import KernelSVC

#: The second size reaches the compiled loops that a few hundred rows do not need.
WARM_UP_ROWS = (300, 3000)


def make_model(params: dict[str, float]) -> KernelSVC:
    return KernelSVC(kernel="rbf", C=params["C"], gamma=params["gamma"], tol=TOL, n_jobs=THREADS)


def extract_expansion(model: KernelSVC, y_train: Any) -> PairExpansion:
    return PairExpansion(model.support_.astype(np.intp), model.dual_coef_, model.intercept_)
