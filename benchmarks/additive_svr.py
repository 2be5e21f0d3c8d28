"""Regression with additive kernels beside its peers, and searches over C beside `GridSearchCV`.

``python -m benchmarks additive-svr`` runs every experiment in a process of its own and keeps its rows
in ``benchmarks/results/additive-svr.jsonl``.
"""

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVR
from threadpoolctl import threadpool_limits

from benchmarks.datasets.regression import read_dense
from benchmarks.experiments import Experiments, Row
from benchmarks.timing import time_call
from widemargin import AdditiveSVC, AdditiveSVCCV, AdditiveSVR, AdditiveSVRCV, KernelSVR

TITLE = "Regression with additive kernels: measurements"
RESULTS = Path("benchmarks", "results", "additive-svr.jsonl")

SETS = ("airfoil", "concrete", "energy", "california")
#: Models of curves, behind a scaler to the unit interval; targets have unit variance.
CURVES: dict[str, Any] = {
    "AdditiveSVR()": AdditiveSVR(n_jobs=1),
    "AdditiveSVRCV()": AdditiveSVRCV(n_jobs=1),
    "AdditiveSVRCV(kernel='intersection')": AdditiveSVRCV(kernel="intersection", n_jobs=1),
}
#: Peers, behind a scaler to unit variance.
PEERS: dict[str, Any] = {
    "LinearSVR()": LinearSVR(epsilon=0.1, max_iter=10_000, random_state=0),
    "KernelSVR(C=10)": KernelSVR(C=10.0, n_jobs=1),
    "HistGradientBoostingRegressor()": HistGradientBoostingRegressor(random_state=0),
}
#: Sets of scikit-learn with classes, for the search over C.
CLASSES = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}


def run_peers() -> Iterator[Row]:
    """R2 on a quarter of the rows that is held out, and processor seconds of the fit on one thread."""
    warnings.simplefilter("ignore")
    # Threads of OpenMP that wait for each other would count as time of the processor.
    threadpool_limits(1)
    models = {name: make_pipeline(MinMaxScaler(clip=True), model) for name, model in CURVES.items()}
    models |= {name: make_pipeline(StandardScaler(), model) for name, model in PEERS.items()}
    for name in SETS:
        X, Z, y, z = _divide(name)
        for method, model in models.items():
            # Compiled before it is timed.
            clone(model).fit(X[:200], y[:200]).predict(Z[:200])
            timing = time_call(partial(clone(model).fit, X, y), 3, 1.0)
            yield {
                "data": name, "rows": len(y), "features": X.shape[1], "method": method,
                "R2": _show_score(timing.value.score(Z, z)), "seconds": timing.cpu_seconds,
            }  # fmt: skip


def run_search() -> Iterator[Row]:
    """Ten values of C, five folds, refit; largest difference of a score; processor seconds."""
    warnings.simplefilter("ignore")
    for name in SETS:
        X, _, y, _ = _divide(name)
        rows = MinMaxScaler().fit_transform(X)
        yield {"data": name} | _compare_searches(AdditiveSVRCV, AdditiveSVR(n_jobs=1), rows, y)
    for name, read in CLASSES.items():
        X, y = read(return_X_y=True)
        yield {"data": name} | _compare_searches(AdditiveSVCCV, AdditiveSVC(n_jobs=1), X, y)


def _divide(name: str) -> Any:
    """Training and held-out rows, with targets of mean zero and unit variance in training."""
    X, y = read_dense(f"reg_{name}")
    X, Z, y, z = train_test_split(X, y, random_state=0)
    mean, spread = y.mean(), y.std()
    return X, Z, (y - mean) / spread, (z - mean) / spread


def _compare_searches(search: Any, model: Any, X: Any, y: Any) -> Row:
    """The same values of C and folds by our search and by that of scikit-learn."""
    ours = time_call(lambda: search(n_jobs=1).fit(X, y), 2, 5.0)
    costs = ours.value.Cs_
    # Without growing its range, the search has to do what the peer does.
    ours = time_call(lambda: search(Cs=costs, n_jobs=1).fit(X, y), 2, 5.0)
    theirs = time_call(lambda: GridSearchCV(model, {"C": costs}, cv=5).fit(X, y), 2, 5.0)
    results = theirs.value.cv_results_
    scores = np.array([results[f"split{fold}_test_score"] for fold in range(5)]).T
    return {
        "rows": len(y), "values of C": len(costs), "search": search.__name__,
        "seconds": ours.cpu_seconds, "GridSearchCV seconds": theirs.cpu_seconds,
        "times": theirs.cpu_seconds / ours.cpu_seconds,
        "largest difference": float(np.abs(scores - ours.value.scores_).max()),
        "C": ours.value.C_, "C of GridSearchCV": float(theirs.value.best_params_["C"]),
    }  # fmt: skip


def _show_score(score: float) -> str:
    return f"{score:.3f}"


EXPERIMENTS: Experiments = {"peers": run_peers, "search": run_search}
