"""KernelSVC, KernelSVR and KernelOneClassSVM of the library under test."""

from typing import Any

import numpy as np

from benchmarks.records import PairExpansion
from benchmarks.settings import THREADS, TOL
from widemargin import KernelOneClassSVM, KernelSVC, KernelSVR

#: The second size reaches the compiled loops that a few hundred rows do not need.
WARM_UP_ROWS = (300, 4000)

MODELS = {"exact": KernelSVC, "regression": KernelSVR, "novelty": KernelOneClassSVM}


def make_model(suite: str, params: dict[str, float], threads: int = THREADS) -> Any:
    return MODELS[suite](kernel="rbf", tol=TOL, n_jobs=threads, **params)


def extract_expansion(model: Any, y_train: Any) -> PairExpansion:
    return PairExpansion(model.support_.astype(np.intp), model._dual_coef_, model.intercept_)
