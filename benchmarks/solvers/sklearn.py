"""LIBSVM, as scikit-learn's SVC, SVR and OneClassSVM."""

from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.svm import SVC, SVR, OneClassSVM

from benchmarks.records import PairExpansion
from benchmarks.settings import CACHE_MEGABYTES, TOL

WARM_UP_ROWS = (300,)
MODELS = {"exact": SVC, "regression": SVR, "novelty": OneClassSVM}


def make_model(suite: str, params: dict[str, float], threads: int = 1) -> Any:
    """Make a model; LIBSVM has one thread, whatever ``threads`` is."""
    return MODELS[suite](kernel="rbf", tol=TOL, cache_size=CACHE_MEGABYTES, **params)


def extract_expansion(model: Any, y_train: Any) -> PairExpansion:
    """Unfold LIBSVM's layout: a support vector has one coefficient for every other class.

    Row ``r`` of ``dual_coef_`` holds, for a vector of class ``c``, the pair of ``c`` with class
    ``r`` if ``r < c`` and with class ``r + 1`` otherwise.
    """
    support = np.asarray(model.support_, dtype=np.intp)
    # Fitted to sparse rows, the coefficients are sparse as well.
    packed = model.dual_coef_.toarray() if issparse(model.dual_coef_) else model.dual_coef_
    packed = np.asarray(packed, dtype=np.float64)
    intercept = np.asarray(model.intercept_, dtype=np.float64)
    n_classes = len(getattr(model, "classes_", ()))
    if n_classes <= 2:
        return PairExpansion(support, packed, intercept)
    labels = np.searchsorted(model.classes_, y_train[support])
    coef = np.zeros((n_classes * (n_classes - 1) // 2, len(support)))
    for row, (first, second) in zip(coef, combinations(range(n_classes), 2), strict=True):
        row[labels == first] = packed[second - 1, labels == first]
        row[labels == second] = packed[first, labels == second]
    # With several classes, and only then, positive means the first class of a pair.
    return PairExpansion(support, -coef, -intercept)
