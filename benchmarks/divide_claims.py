"""Tables and figures of the DC-SVM paper that need fits of their own."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.datasets.covtype import load as load_covtype
from benchmarks.divide_models import (
    assign,
    cascade_support,
    divided,
    dual_objective,
    exact,
    fit_and_judge,
    full_coef,
    glue,
    published,
    shuffle,
    warm_up,
)
from benchmarks.experiments import Row
from benchmarks.records import BenchmarkData
from benchmarks.settings import CACHE_MEGABYTES, THREADS, TOL
from benchmarks.timing import touch_memory
from widemargin import DCSVC
from widemargin.baselines import LaSVC
from widemargin.kernels import RBF

#: The polynomial kernel of Figures 2 and 4, with the parameters of Figure 4.
CUBIC: dict[str, Any] = {"kernel": "poly", "degree": 3, "gamma": 1.0, "coef0": 0.0, "C": 2.0}


def run_combine() -> Iterator[Row]:
    """Data covtype 100k: three ways to combine the models of clusters, which are merged groups."""
    data = load_covtype("covtype", 100_000)
    warm_up(data)
    yield from combine_clusters(data, divided)


def run_combine_published() -> Iterator[Row]:
    """Table 1: covtype, 464,810 rows, three ways to combine the models of clusters of k-means."""
    data = load_covtype("covtype", 464_810, 116_202)
    warm_up(data)
    yield from combine_clusters(data, published)


def combine_clusters(data: BenchmarkData, make: Callable[..., DCSVC]) -> Iterator[Row]:
    for k in (50, 100):
        for combine in ("naive", "bcm", "early"):
            model = make(data.params, n_clusters=k, n_levels=1, stop_level=1, combine=combine)
            row = fit_and_judge(f"{combine}, k = {k}", model, data)
            row["ms a query"] = 1e3 * row["predict (s)"] / len(data.y_test)
            yield row


def run_levels() -> Iterator[Row]:
    """Table 6 and Figure 3: covtype 50k, what every level costs and reaches."""
    data = load_covtype("covtype", 50_000)
    warm_up(data)
    touch_memory()
    model = published(data.params, keep_levels=True).fit(data.X_train, data.y_train)
    kernel = RBF(data.params["gamma"])
    seconds = 0.0
    for stage, record, labels in zip(
        model._stages, model.levels_, model.staged_predict(data.X_test), strict=True
    ):
        seconds += record.clustering_seconds + record.solving_seconds
        coef = np.zeros(len(data.y_train))
        parts = getattr(stage, "parts", stage)
        coef[parts.columns] = parts.coef[0]
        yield {
            "clusters": record.n_clusters,
            "largest": record.largest_cluster,
            "clustering (s)": record.clustering_seconds,
            "solving (s)": record.solving_seconds,
            "seconds so far": seconds,
            "objective of the whole problem": dual_objective(kernel, data, coef),
            "accuracy (%)": 100.0 * float(np.mean(labels == data.y_test)),
            "support vectors": record.n_support,
        }


def run_bound() -> Iterator[Row]:
    """Figure 1: covtype 10k, distance of the glued solution to the optimum, and its bound."""
    data = load_covtype("covtype", 10_000)
    warm_up(data)
    C, kernel = data.params["C"], RBF(data.params["gamma"])
    best = dual_objective(kernel, data, full_coef(exact(data.params), data))
    K = kernel(data.X_train)
    for k in (8, 16, 32, 64, 128):
        model = published(data.params, n_clusters=k, n_levels=1, stop_level=1)
        coef = full_coef(model, data)
        clusters = assign(model._model, data)
        blind = shuffle(clusters)
        for name, groups, glued in (
            ("kernel k-means", clusters, coef),
            ("random", blind, glue(kernel, data, blind, C)),
        ):
            between = sum(float(np.abs(K[groups == c][:, groups != c]).sum()) for c in set(groups))
            yield {
                "clusters": len(set(groups)),
                "partition": name,
                "f(glued) - f(optimum)": dual_objective(kernel, data, glued) - best,
                "bound": 0.5 * C**2 * between,
                "f(optimum)": best,
            }


def run_support() -> Iterator[Row]:
    """Figure 2: covtype 20k, support vectors found by each level against those of the optimum.

    DC-SVM is the paper's algorithm. A layer of a cascade has as many random parts; it passes on the
    support vectors of the layer below only, and needs 200 rows in a part.
    """
    data = load_covtype("covtype", 20_000)
    warm_up(data)
    kernels: dict[str, dict[str, Any]] = {"rbf": data.params, "poly": CUBIC}
    for name, params in kernels.items():
        model = published(params, keep_levels=True).fit(data.X_train, data.y_train)
        cascade = cascade_support(model.kernel_, data, params["C"], n_layers=8)
        final = set(model.support_)
        for stage, record in zip(model._stages[:-1], model.levels_[:-1], strict=True):
            ways = {"DC-SVM": set(stage.parts.columns)}
            if record.n_clusters in cascade:
                ways["cascade"] = cascade[record.n_clusters]
            for way, found in ways.items():
                both = len(final & found)
                yield {
                    "kernel": name,
                    "clusters": record.n_clusters,
                    "partition": way,
                    "precision (%)": 100.0 * both / len(found),
                    "recall (%)": 100.0 * both / len(final),
                }


def run_poly() -> Iterator[Row]:
    """Figure 4: covtype 20k, polynomial kernel of degree 3 (C = 2, gamma = 1, coef0 = 0).

    DC-SVM is the paper's algorithm. LIBSVM has an intercept and one thread; the others have two
    threads and no intercept. LaSVM makes one pass. Our fits take at most two minutes.
    """
    data = load_covtype("covtype", 20_000)
    few = slice(0, 4000)
    models: dict[str, Any] = {
        "DC-SVM (early)": published(CUBIC, stop_level=3, max_time=120.0),
        "DC-SVM": published(CUBIC, max_time=120.0),
        "KernelSVC": exact(CUBIC).set_params(max_time=120.0),
        "LaSVM": LaSVC(**CUBIC, tol=TOL, n_epochs=1, n_jobs=THREADS, max_time=120.0),
        "LIBSVM": SVC(**CUBIC, tol=TOL, cache_size=CACHE_MEGABYTES),
    }
    for name, model in models.items():
        model.fit(data.X_train[few], data.y_train[few])
        yield fit_and_judge(name, model, data)
