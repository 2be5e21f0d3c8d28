"""Data and models of the experiments with additive kernels, and how one is judged."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.experiments import Row
from benchmarks.timing import time_call
from widemargin import AdditiveSVC, IntersectionSVC, PowerMeanSVC
from widemargin.datasets import load

Parts = tuple[Any, Any, Any, Any]
#: Seconds below which a fit is repeated, and how often it runs then.
SHORT, REPEATS = 1.0, 3


def histograms(name: str) -> Parts:
    """Bags of words, as `divide_by_largest` has them."""
    return divide_by_largest(*counts(name))


def divide_by_largest(X: Any, y: Any, Z: Any, z: Any) -> Parts:
    """Every column divided by its largest count in training."""
    largest = np.maximum(X.max(axis=0).toarray().ravel(), 1.0)
    scale = sparse.diags(1.0 / largest)
    return (X @ scale).tocsr(), y, (Z @ scale).tocsr(), z


def scaled(name: str) -> Parts:
    """Dense features scaled to [0, 1] by their range in training, and clipped."""
    source = load(name)
    X, Z = (np.asarray(part, np.float64) for part in (source.X_train, source.X_test))
    low, high = X.min(axis=0), X.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return (
        (X - low) / width, source.y_train, np.clip((Z - low) / width, 0.0, 1.0), source.y_test,
    )  # fmt: skip


def counts(name: str) -> Parts:
    """Sparse counts as they are."""
    source = load(name)
    X, Z = source.X_train.astype(np.float64), source.X_test.astype(np.float64)
    return X, source.y_train, Z, source.y_test


def pass_seconds(model: Any, X: Any, y: Any) -> float:
    """How long one pass takes: that of six less that of one, each the best of three fits."""
    best = {}
    for passes in (1, 6):
        model.set_params(max_iter=passes)
        best[passes] = time_call(lambda: model.fit(X, y), REPEATS).seconds
    return (best[6] - best[1]) / 5


def judge(name: str, model: Any, parts: Parts) -> Row:
    """One row: seconds to fit, the best of three if short, and to predict, and accuracy."""
    X, y, Z, z = parts
    warnings.simplefilter("ignore", ConvergenceWarning)
    fit = time_call(lambda: model.fit(X, y), REPEATS, SHORT)
    predict = time_call(lambda: model.predict(Z))
    passes = getattr(model, "n_iter_", None)
    return {
        "model": name,
        "fit (s)": fit.seconds,
        "predict (s)": predict.seconds,
        "accuracy (%)": 100.0 * float(np.mean(predict.value == z)),
        "passes": None if passes is None else int(np.max(passes)),
    }


def compile_on(parts: Parts) -> None:
    """Compile what the fits below will use."""
    X, y, Z, _ = parts
    few = np.sort(np.random.default_rng(0).permutation(len(y))[:600])
    for model in ours(1.0).values():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(max_iter=2).fit(X[few], y[few]).predict(Z[:300])


def ours(C: float) -> dict[str, Any]:
    one = {"n_jobs": 1, "random_state": 0}
    return {
        f"AdditiveSVC chi2, C={C:g}": AdditiveSVC(C=C, **one),
        f"AdditiveSVC intersection, C={C:g}": AdditiveSVC(C=C, kernel="intersection", **one),
        "IntersectionSVC": IntersectionSVC(**one),
        "PowerMeanSVC chi2": PowerMeanSVC(**one),
        "PowerMeanSVC chi2, table": PowerMeanSVC(lut=True, anchors="chebyshev", **one),
        "PowerMeanSVC p=-8, table": PowerMeanSVC(p=-8.0, lut=True, anchors="chebyshev", **one),
    }


def peers(is_large: bool = False) -> dict[str, Any]:
    """LIBLINEAR on raw features and on those of chi-square; also with our tolerance."""
    found = {
        "LinearSVC, tol=0.1": LinearSVC(tol=0.1, random_state=0),
        "AdditiveChi2Sampler + LinearSVC, tol=0.1": make_pipeline(
            AdditiveChi2Sampler(), LinearSVC(tol=0.1, random_state=0)
        ),
        "LinearSVC": LinearSVC(random_state=0),
    }
    if not is_large:
        found["AdditiveChi2Sampler + LinearSVC"] = make_pipeline(
            AdditiveChi2Sampler(), LinearSVC(random_state=0)
        )
    return found


def compare(parts: Parts, C: float, is_large: bool = False) -> Iterator[Row]:
    compile_on(parts)
    for name, model in (ours(C) | peers(is_large)).items():
        yield judge(name, model, parts)
