"""Searches of C and gamma, and probabilities: `KernelSVCCV` beside scikit-learn with its `SVC`."""

import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler, normalize
from sklearn.svm import SVC

from benchmarks.datasets import load_dataset
from benchmarks.datasets.covtype import load as load_covtype
from benchmarks.experiments import Experiments, Row
from benchmarks.papers.sets import load_set as load_paper_set
from benchmarks.records import BenchmarkData
from benchmarks.timing import time_call
from widemargin import KernelSVC, KernelSVCCV
from widemargin.datasets import load
from widemargin.exact.search_grid import find_costs, find_gammas
from widemargin.kernels import RBF
from widemargin.validation import validate_problem

TITLE = "Tuning: measurements"
RESULTS = Path("benchmarks", "results", "tune.jsonl")

#: Folds, threads, and the cells of the grid along each axis that `SVC` is measured in.
FOLDS, THREADS, MEASURED = 5, 1, (1, 4, 8)
#: Rows that are enough to compile all that a search uses.
WARM_ROWS = 1500
#: Threads for large data.
LARGE_THREADS = 2
#: Most rows of a test part.
TEST_ROWS = 10_000
#: Groups of news20 that are told apart: atheism, graphics, two of computer hardware.
NEWS_GROUPS = 4


def load_news() -> BenchmarkData:
    """Four groups of news20: word counts of a row divided by their length, 130,107 features."""
    data = load("news20_bydate_counts")
    parts = []
    for X, y in ((data.X_train, data.y_train), (data.X_test, data.y_test)):
        rows = np.random.default_rng(0).permutation(np.flatnonzero(y < NEWS_GROUPS))
        parts += [normalize(X[rows].astype(np.float64)), y[rows]]
    return BenchmarkData("news20, 4 groups", *parts, {})


def load_plain(name: str, scaler: Any = None) -> BenchmarkData:
    """A set in random order, with features scaled by its training rows."""
    data = load(name)
    scaler = MaxAbsScaler() if scaler is None else scaler
    X, X_test = data.X_train.astype(np.float64), data.X_test.astype(np.float64)
    X, X_test = scaler.fit_transform(X), scaler.transform(X_test)
    order = np.random.default_rng(0).permutation(len(data.y_train))
    return BenchmarkData(name, X[order], data.y_train[order], X_test, data.y_test, {})


#: Set -> how it is loaded, and rows of the search.
SETS: dict[str, tuple[Callable[[], BenchmarkData], int]] = {
    "covtype": (lambda: load_dataset("covtype-20k"), 5000),
    "a9a (sparse)": (lambda: load_dataset("a9a"), 3000),
    "mnist": (lambda: load_dataset("mnist-20k"), 2000),
    "dna": (lambda: load_plain("dna"), 2000),
    "news20 (sparse)": (load_news, 1500),
    "ijcnn1": (lambda: load_plain("ijcnn1"), 3000),
    "segment": (lambda: load_plain("segment"), 1800),
    "w1a": (lambda: load_plain("w1a"), 2477),
}
#: Sets on which the rules of halving were chosen; the others were only measured.
TUNED_ON = ("covtype", "a9a (sparse)", "mnist", "dna", "news20 (sparse)")


def search_all() -> Iterator[Row]:
    """Searches of 10 x 10 cells with 5 folds.

    The grid is the one that `KernelSVCCV` finds; it is not extended. Both searches have one thread.
    The rules of halving were chosen on the sets that the column ``rules`` calls seen. `SVC` is fitted
    to one fold in nine of the cells, spread over the grid; its processor seconds are multiplied by
    100 / 9 cells and by the folds. A ratio is one of processor seconds, so that other work on the
    machine does not count. Accuracies are those of the final model on the test rows.
    """
    for name, (load_set, n_rows) in SETS.items():
        yield compare(name, load_set(), n_rows)


def compare(name: str, data: BenchmarkData, n_rows: int) -> Row:
    """Search with every cell on all rows, and with samples first."""
    X, y = data.X_train[:n_rows], data.y_train[:n_rows]
    warm_up(X, y)
    gammas, Cs = find_grid(X, y)
    row: Row = {"data": name, "rows": len(y), "features": int(X.shape[1])}
    row |= {"classes": len(np.unique(y)), "rules": "seen" if name in TUNED_ON else "new"}
    for search in ("grid", "halving"):
        model = KernelSVCCV(Cs=Cs, gammas=gammas, cv=FOLDS, search=search, n_jobs=THREADS)
        row |= measure(model, X, y, data, search)
    row["SVC CPU s (estimated)"] = estimate_peer(X, y, Cs, gammas)
    row["SVC / grid"] = row["SVC CPU s (estimated)"] / row["grid CPU s"]
    row["SVC / halving"] = row["SVC CPU s (estimated)"] / row["halving CPU s"]
    return row


def measure(model: KernelSVCCV, X: Any, y: Any, data: BenchmarkData, name: str) -> Row:
    """Seconds of a search with its final fit, and the accuracy of the final model."""
    timing = time_call(lambda: model.fit(X, y))
    return {
        f"{name} s": timing.seconds,
        f"{name} CPU s": timing.cpu_seconds,
        f"{name} accuracy": 100.0 * model.score(data.X_test[:TEST_ROWS], data.y_test[:TEST_ROWS]),
    }


def find_grid(X: Any, y: Any) -> tuple[Any, Any]:
    """The values of gamma and C that a search finds from the data."""
    problem = validate_problem(KernelSVCCV(), X, y, None, None, precomputed=False)
    kernel = RBF(1.0)
    return find_gammas(kernel, problem, 10, 0), find_costs(kernel, problem, 10, 0, 1.0)


def warm_up(X: Any, y: Any) -> None:
    """Compile what the searches use, which is kept on disk for later processes."""
    KernelSVCCV(Cs=[1.0, 100.0], gammas=[0.1, 1.0], cv=2, search="grid", refit=False).fit(X, y)


def estimate_peer(X: Any, y: Any, Cs: Any, gammas: Any) -> float:
    """Processor seconds of a search with `SVC`, from one fold of some cells."""
    train, test = next(StratifiedKFold(FOLDS).split(np.zeros(len(y)), y))
    began = time.process_time()
    for c, g in product(MEASURED, MEASURED):
        SVC(C=Cs[c], gamma=gammas[g]).fit(X[train], y[train]).predict(X[test])
    n_cells = len(Cs) * len(gammas)
    return (time.process_time() - began) * FOLDS * n_cells / len(MEASURED) ** 2


def search_large() -> Iterator[Row]:
    """Searches of many rows of covtype, with two threads and the grid that is found from the data.

    Ranges are extended where the best cell is at their end. Seconds include the final fit.
    """
    for n_rows, search in ((20_000, "halving"), (464_810, "regions")):
        data = load_covtype("covtype", n_train=n_rows)
        model = KernelSVCCV(search=search, n_jobs=LARGE_THREADS)
        row: Row = {"data": data.name, "rows": n_rows, "search": search}
        row |= measure(model, data.X_train, data.y_train, data, "search")
        row |= {"C": model.C_, "gamma": model.gamma_, "cells": len(model.cv_results_["params"])}
        yield row | {"final model": type(model.best_estimator_).__name__}


def compare_probabilities() -> Iterator[Row]:
    """Probabilities at fixed C = 10 and gamma="scale" by sigmoids from 5 folds.

    The peer is `CalibratedClassifierCV(SVC(), ensemble=False)`, on the same rows and folds, one thread
    each. The Brier score and the log loss are those of the test rows; smaller is better.
    """
    for name, (load_set, n_rows) in SETS.items():
        data = load_set()
        X, y = data.X_train[:n_rows], data.y_train[:n_rows]
        X_test, y_test = data.X_test[:TEST_ROWS], data.y_test[:TEST_ROWS]
        ours = KernelSVCCV(Cs=[10.0], gammas="scale", cv=FOLDS, calibration="sigmoid", n_jobs=1)
        peer = CalibratedClassifierCV(SVC(C=10.0), cv=FOLDS, ensemble=False)
        row: Row = {"data": name, "rows": len(y)}
        ours.fit(X[:1500], y[:1500])
        row |= judge_probabilities("KernelSVCCV", ours, X, y, X_test, y_test)
        row |= judge_probabilities("SVC", peer, X, y, X_test, y_test)
        yield row | {"SVC / KernelSVCCV": row["SVC CPU s"] / row["KernelSVCCV CPU s"]}


def judge_probabilities(name: str, model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> Row:
    """Processor seconds of a fit, and how good the probabilities of test rows are."""
    seconds = time_call(lambda: model.fit(X, y)).cpu_seconds
    values = model.predict_proba(X_test)
    return {
        f"{name} CPU s": seconds,
        f"{name} Brier": brier_score_loss(y_test, values, labels=model.classes_),
        f"{name} log loss": log_loss(y_test, values, labels=model.classes_),
    }


#: Small sets with features in different units, whose scores depend on scaling.
UNSCALED = ("keel_vehicle", "diabetes", "australian", "german_numer_scale")


def compare_scaling() -> Iterator[Row]:
    """Features standardised by all rows before the folds, or by the training rows of every fold.

    16 cells (C = 0.1, 1, 10, 100; gamma = 0.01, 0.03, 0.1, 0.3), 5 folds. The columns are the best
    mean accuracies of both ways, the largest difference in any cell, and whether the chosen cells are
    the same.
    """
    grid = list(product((0.1, 1.0, 10.0, 100.0), (0.01, 0.03, 0.1, 0.3)))
    for name in UNSCALED:
        data = load(name)
        X = np.concatenate([data.X_train, data.X_test]).astype(np.float64)
        y = np.concatenate([data.y_train, data.y_test])
        scaled = StandardScaler().fit_transform(X)
        before, inside = (
            np.array([100.0 * cross_val_score(make(C, g), Z, y, cv=FOLDS).mean() for C, g in grid])
            for Z, make in (
                (scaled, lambda C, g: KernelSVC(C=C, gamma=g)),
                (X, lambda C, g: make_pipeline(StandardScaler(), KernelSVC(C=C, gamma=g))),
            )
        )
        yield {
            "data": name, "rows": len(y), "scaled before": before.max(),
            "scaled in folds": inside.max(), "largest difference": np.abs(before - inside).max(),
            "same cell": bool(before.argmax() == inside.argmax()),
        }  # fmt: skip


#: Sets whose clusters choose their own parameters, and their rows.
CLUSTER_SETS: dict[str, tuple[Callable[[], BenchmarkData], int]] = {
    "covtype": (lambda: load_paper_set("covtype", 20_000), 20_000),
    "ijcnn1": (lambda: load_paper_set("ijcnn1", 20_000), 20_000),
    "census": (lambda: load_paper_set("census", 20_000), 20_000),
    "mnist": (lambda: load_dataset("mnist-20k"), 6000),
}
#: Clusters, values of C and of gamma, and folds.
CLUSTERS, CLUSTER_VALUES, CLUSTER_FOLDS = 4, 6, 3


def compare_clusters() -> Iterator[Row]:
    """One C and gamma for all rows, or one for each of 4 clusters: 6 x 6 cells, 3 folds, one thread.

    *common* is a search on regions with an exact final model. *own* lets every cluster choose; its
    seconds include those of the common search. If no cluster prefers other parameters, the models
    are the same. The last columns tell how many clusters do, and the smallest and largest gamma.
    """
    for name, (load_set, n_rows) in CLUSTER_SETS.items():
        data = load_set()
        X, y = data.X_train[:n_rows], data.y_train[:n_rows]
        warm_up(X[:WARM_ROWS], y[:WARM_ROWS])
        common = KernelSVCCV(
            Cs=CLUSTER_VALUES, gammas=CLUSTER_VALUES, cv=CLUSTER_FOLDS, search="regions",
            n_jobs=THREADS,
        )  # fmt: skip
        row: Row = {"data": name, "rows": len(y), "classes": len(np.unique(y))}
        row |= measure(common, X, y, data, "common")
        own = clone(common).set_params(n_clusters=CLUSTERS)
        row |= measure(own, X, y, data, "own")
        gammas = [choice.gamma for choice in own.clusters_]
        n_own = sum(choice.is_own for choice in own.clusters_)
        row |= {"own / common": row["own CPU s"] / row["common CPU s"], "gamma": own.gamma_}
        row |= {"own choices": f"{n_own} of {len(gammas)}"}
        yield row | {"least gamma": min(gammas), "largest gamma": max(gammas)}


EXPERIMENTS: Experiments = {
    "search": search_all,
    "large": search_large,
    "calibration": compare_probabilities,
    "scaling": compare_scaling,
    "clusters": compare_clusters,
}
