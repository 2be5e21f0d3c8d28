"""Additive kernels: accuracy, time and memory beside linear and exact machines.

``python -m benchmarks additive`` runs every experiment in a process of its own, on one thread unless
it says otherwise, and keeps its rows in ``benchmarks/results/additive.jsonl``;
``python -m benchmarks render`` makes the page.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.additive_claims import run_bins, run_lut, run_searched, run_sgd
from benchmarks.additive_costs import (
    run_bandwidth,
    run_cost,
    run_exact_peer,
    run_million,
    run_power,
    run_traffic,
)
from benchmarks.additive_defaults import run_defaults
from benchmarks.additive_large_costs import run_large_costs
from benchmarks.additive_linear import run_kernel_choice, run_linear_cost
from benchmarks.additive_models import (
    compare,
    compile_on,
    counts,
    divide_by_largest,
    histograms,
    judge,
    peers,
    scaled,
)
from benchmarks.additive_scaling import run_scaling
from benchmarks.additive_tables import run_approximation
from benchmarks.experiments import Experiments, Row
from widemargin import AdditiveSVC, IntersectionSVC
from widemargin.datasets import load

TITLE = "Additive kernels: measurements"
RESULTS = Path("benchmarks", "results", "additive.jsonl")


def run_scene15() -> Iterator[Row]:
    """Scenes as bags of words: 1,500 rows, 21,000 sparse features, 15 classes; one thread."""
    return compare(histograms("scene15_bow"), 0.1)


def run_scene15_splits() -> Iterator[Row]:
    """Scenes drawn anew: is `AdditiveSVC` as accurate as LIBLINEAR on chi-square features? One thread.

    Each time 100 images of every class for training, the others for testing.
    """
    given = counts("scene15_bow")
    compile_on(divide_by_largest(*given))
    X, y = sparse.vstack(given[::2], "csr"), np.concatenate(given[1::2])
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(y))
        train = np.concatenate([order[y[order] == label][:100] for label in np.unique(y)])
        test = np.setdiff1d(order, train)
        parts = divide_by_largest(X[train], y[train], X[test], y[test])
        row: Row = {"split": seed}
        for name, model in {
            "AdditiveSVC": AdditiveSVC(C=0.1, n_jobs=1, random_state=0),
            "sampler + LinearSVC": peers()["AdditiveChi2Sampler + LinearSVC"],
        }.items():
            judged = judge(name, model, parts)
            row |= {f"{name} (%)": judged["accuracy (%)"], f"{name} (s)": judged["fit (s)"]}
        yield row


def run_caltech101() -> Iterator[Row]:
    """Objects as bags of words: 1,515 rows, 21,000 sparse features, 101 classes; one thread.

    `LinearSVC` with its own tolerance only on the raw features.
    """
    return compare(histograms("caltech101_bow"), 0.1, is_large=True)


def run_shuttle() -> Iterator[Row]:
    """Shuttle: 43,500 rows, 9 features scaled to [0, 1], 7 classes; one thread."""
    return compare(scaled("shuttle"), 10.0)


def run_ijcnn1() -> Iterator[Row]:
    """ijcnn1: 49,990 rows, 22 features scaled to [0, 1], 2 classes; one thread."""
    return compare(scaled("ijcnn1"), 1.0)


def run_mnist() -> Iterator[Row]:
    """Pixels of digits: 60,000 rows, 784 features in [0, 1], 10 classes; one thread.

    `LinearSVC` with its own tolerance only on the raw features.
    """
    source = load("mnist")
    X, Z = (part.reshape(len(part), -1) / 255.0 for part in (source.X_train, source.X_test))
    return compare((X, source.y_train, Z, source.y_test), 0.01, is_large=True)


def run_covtype() -> Iterator[Row]:
    """covtype: 464,810 rows, 54 features scaled to [0, 1], class 2 against the rest; one thread."""
    source = load("covtype")
    X = np.concatenate([source.X_train, source.X_test]).astype(np.float64)
    y = np.where(np.concatenate([source.y_train, source.y_test]) == 2, 1, -1)
    order = np.random.RandomState(0).permutation(len(y))
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    train, test = order[:464_810], order[464_810:]
    return compare((X[train], y[train], X[test], y[test]), 0.1)


def run_news20() -> Iterator[Row]:
    """Twenty newsgroups: 11,314 rows, 130,107 sparse counts, 20 classes; one thread."""
    parts = counts("news20_bydate_counts")
    one = {"n_jobs": 1, "random_state": 0}
    X, y, Z, _ = parts
    few = np.random.default_rng(0).permutation(len(y))[:600]
    for model in (AdditiveSVC(max_iter=2, **one), IntersectionSVC(max_iter=2, **one)):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[few], y[few]).predict(Z[:300])
        model.fit(X, y)
    yield judge("AdditiveSVC chi2, C=0.1", AdditiveSVC(C=0.1, **one), parts)
    yield judge(
        "AdditiveSVC hellinger, C=0.1", AdditiveSVC(C=0.1, kernel="hellinger", **one), parts
    )
    yield judge("IntersectionSVC", IntersectionSVC(**one), parts)
    yield judge("LinearSVC, tol=0.1", LinearSVC(tol=0.1, random_state=0), parts)
    yield judge("AdditiveChi2Sampler + LinearSVC, tol=0.1", make_pipeline(
        AdditiveChi2Sampler(), LinearSVC(tol=0.1, random_state=0)), parts)  # fmt: skip


EXPERIMENTS: Experiments = {
    "scene15": run_scene15,
    "scene15-splits": run_scene15_splits,
    "mnist": run_mnist,
    "covtype": run_covtype,
    "caltech101": run_caltech101,
    "shuttle": run_shuttle,
    "ijcnn1": run_ijcnn1,
    "news20": run_news20,
    "linear-cost": run_linear_cost,
    "kernel-choice": run_kernel_choice,
    "scaling": run_scaling,
    "exact-peer": run_exact_peer,
    "bandwidth": run_bandwidth,
    "traffic": run_traffic,
    "million": run_million,
    "approximation": run_approximation,
    "power": run_power,
    "cost": run_cost,
    "bins": run_bins,
    "searched": run_searched,
    "lut": run_lut,
    "sgd": run_sgd,
    "defaults": run_defaults,
    "large-costs": run_large_costs,
}
