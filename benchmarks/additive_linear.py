"""The intersection kernel beside a linear SVM: what it costs, and which of both is right."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks.additive_models import REPEATS, SHORT, Parts, counts, scaled
from benchmarks.experiments import Row
from benchmarks.timing import time_call
from widemargin import IntersectionSVC
from widemargin.datasets import load

#: C times the mean of k(x, x), for both.
COST = 10.0
#: Sets of the choice between both kernels.
CHOICES = (
    "segment", "keel_vowel", "keel_vehicle", "heart_scale", "breast_cancer", "german_numer_scale",
    "diabetes", "australian", "ionosphere", "keel_sonar", "splice", "leukemia",
)  # fmt: skip


def run_linear_cost() -> Iterator[Row]:
    """`IntersectionSVC` beside LIBLINEAR: processor seconds of a fit, one thread.

    Both with the squared hinge loss, tol = 0.1 and C = 10 / mean of k(x, x). Of fits that take less
    than a second the best of three. Ratio is our time by LIBLINEAR's. Pixels and tables are scaled to
    [0, 1] for LIBLINEAR.
    """
    for name, parts in _sets():
        ours = _time_fit(IntersectionSVC(n_jobs=1), parts)
        X = parts[0]
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        cost = COST / float(squares.sum(axis=1).mean())
        peer = _time_fit(LinearSVC(C=cost, tol=0.1, random_state=0), parts)
        yield {
            "data": name, "rows": X.shape[0], "features": X.shape[1],
            "classes": len(np.unique(parts[1])), "IntersectionSVC (s)": ours["seconds"],
            "LinearSVC (s)": peer["seconds"], "ratio": ours["seconds"] / peer["seconds"],
            "IntersectionSVC (%)": ours["accuracy"], "LinearSVC (%)": peer["accuracy"],
            "passes": ours["passes"],
        }  # fmt: skip


def run_kernel_choice() -> Iterator[Row]:
    """`IntersectionSVC` with either kernel and with kernel="auto": test accuracy, and who is right.

    The rows are split three times, with a third for testing; accuracies and seconds are means. A
    kernel is right in a split if the other is not more accurate on its test rows. Processor seconds
    of one thread.
    """
    kernels = ("intersection", "linear", "auto")
    for name in CHOICES:
        fits = [
            {k: _time_fit(IntersectionSVC(kernel=k, n_jobs=1), parts) for k in kernels}
            for parts in _split(name)
        ]
        row: Row = {"data": name, "splits": len(fits)}
        for k in kernels:
            row[f"{k} (%)"] = float(np.mean([fit[k]["accuracy"] for fit in fits]))
        for k in kernels:
            row[f"{k} right"] = sum(
                fit[k]["accuracy"] == max(each["accuracy"] for each in fit.values()) for fit in fits
            )
        yield row | {
            f"{k} (s)": float(np.mean([fit[k]["seconds"] for fit in fits])) for k in kernels
        }


def _split(name: str) -> list[Parts]:
    """Three splits of the rows of a table, whose columns the models scale themselves."""
    source = load(name)
    X = np.concatenate([source.X_train, source.X_test]).astype(np.float64)
    y = np.concatenate([source.y_train, source.y_test])
    rows = (np.random.default_rng(seed).permutation(len(y)) for seed in range(3))
    third = len(y) // 3
    return [(X[r[third:]], y[r[third:]], X[r[:third]], y[r[:third]]) for r in rows]


def _time_fit(model: Any, parts: Parts) -> Row:
    X, y, Z, z = parts
    warnings.simplefilter("ignore", ConvergenceWarning)
    some = np.random.default_rng(0).permutation(len(y))[:400]
    # Compiles, or loads what was compiled; the type of the numbers depends on the size.
    model.fit(X[some], y[some])
    model.set_params(max_iter=1).fit(X, y)
    model.set_params(max_iter=1000)
    fit = time_call(lambda: model.fit(X, y), REPEATS, SHORT)
    accuracy = 100.0 * float(np.mean(model.predict(Z) == z))
    passes = int(np.max(model.n_iter_))
    return {"seconds": fit.cpu_seconds, "accuracy": accuracy, "passes": passes}


def _sets() -> Iterator[tuple[str, Parts]]:
    yield "news20", counts("news20_bydate_counts")
    yield "reuters", counts("reuters_moneyfx")
    yield "scene15", counts("scene15_bow")
    yield "caltech101", counts("caltech101_bow")
    yield "mnist", _pixels(20_000)
    yield "segment", scaled("segment")
    yield "vowel", scaled("keel_vowel")


def _pixels(n_rows: int) -> Parts:
    """Random digits of mnist."""
    source = load("mnist")
    rows = np.random.RandomState(0).permutation(len(source.y_train))[:n_rows]
    X, Z = source.X_train[rows], source.X_test
    X, Z = (part.reshape(len(part), -1).astype(np.float32) / 255.0 for part in (X, Z))
    return X, source.y_train[rows], Z, source.y_test
