"""Tables and figures of the DC-SVM paper that need fits of their own."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.datasets import load_dataset
from benchmarks.datasets.covtype import load as load_covtype
from benchmarks.divide_models import (
    assign,
    divided,
    dual_objective,
    exact,
    fit_and_judge,
    full_coef,
    glue,
    shuffle,
    warm_up,
)
from benchmarks.experiments import Row
from benchmarks.settings import CACHE_MEGABYTES, TOL
from benchmarks.timing import time_call, touch_memory
from widemargin.kernels import RBF


def run_combine() -> Iterator[Row]:
    """Table 1: covtype 100k, three ways to combine the models of clusters."""
    data = load_covtype("covtype", 100_000)
    warm_up(data)
    for k in (50, 100):
        for combine in ("naive", "bcm", "early"):
            model = divided(data.params, n_clusters=k, n_levels=1, stop_level=1, combine=combine)
            row = fit_and_judge(f"{combine}, k = {k}", model, data)
            row["ms a query"] = 1e3 * row["predict (s)"] / len(data.y_test)
            yield row


def run_levels() -> Iterator[Row]:
    """Table 6 and Figure 3: covtype 50k, what every level costs and reaches."""
    data = load_covtype("covtype", 50_000)
    warm_up(data)
    touch_memory()
    model = divided(data.params, keep_levels=True).fit(data.X_train, data.y_train)
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
        model = divided(data.params, n_clusters=k, n_levels=1, stop_level=1)
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
    """Figure 2: covtype 20k, support vectors found by each level against those of the optimum."""
    data = load_covtype("covtype", 20_000)
    warm_up(data)
    kernels: dict[str, dict[str, Any]] = {
        "rbf": data.params,
        "poly": {"kernel": "poly", "degree": 3, "gamma": 1.0, "coef0": 1.0, "C": 2.0},
    }
    for name, params in kernels.items():
        model = divided(params, keep_levels=True).fit(data.X_train, data.y_train)
        final = set(model.support_)
        for stage, record in zip(model._stages[:-1], model.levels_[:-1], strict=True):
            clusters = assign(stage, data)
            blind = np.flatnonzero(glue(model.kernel_, data, shuffle(clusters), params["C"]))
            for way, found in (
                ("DC-SVM", set(stage.parts.columns)), ("random", set(blind))
            ):  # fmt: skip
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

    At most two minutes a fit.
    """
    data = load_covtype("covtype", 20_000)
    params = {"kernel": "poly", "degree": 3, "gamma": 1.0, "coef0": 0.0, "C": 2.0}
    few = slice(0, 3000)
    divided(params, n_levels=1).fit(data.X_train[few], data.y_train[few])
    yield fit_and_judge("DCSVC, levels 4, 3", divided(params, stop_level=3), data)
    yield fit_and_judge("DCSVC, exact", divided(params, max_time=120.0), data)
    model = exact(params).set_params(max_time=120.0)
    yield fit_and_judge("KernelSVC", model, data)


def run_grid() -> Iterator[Row]:
    """Table 7: ijcnn1, exact (at most 30 s a fit) and early (64 clusters)."""
    yield from compare_settings((-10, -6, 1, 6))


def run_grid_narrow() -> Iterator[Row]:
    """Table 7, continued: the narrowest kernel."""
    yield from compare_settings((10,))


def run_grid_libsvm() -> Iterator[Row]:
    """Table 7, some settings: LIBSVM and DC-SVM at the same optimum, with intercept."""
    data = load_dataset("ijcnn1")
    warm_up(data)
    for C, gamma in ((-6, 1), (1, -6), (1, 1), (6, -6), (6, 1), (10, 1)):
        params = {"C": 2.0**C, "gamma": 2.0**gamma}
        peer = SVC(**params, tol=TOL, cache_size=CACHE_MEGABYTES)
        fit = time_call(lambda: peer.fit(data.X_train, data.y_train))  # noqa: B023
        row = fit_and_judge("exact", divided(params, fit_intercept=True), data)
        yield {
            "C": f"2^{C}",
            "gamma": f"2^{gamma}",
            "LIBSVM accuracy (%)": 100.0 * float(peer.score(data.X_test, data.y_test)),
            "DCSVC accuracy (%)": row["accuracy (%)"],
            "LIBSVM fit (s)": fit.seconds,
            "DCSVC fit (s)": row["fit (s)"],
        }


def compare_settings(gammas: tuple[int, ...]) -> Iterator[Row]:
    data = load_dataset("ijcnn1")
    warm_up(data)
    for C in (-10, -6, 1, 6, 10):
        for gamma in gammas:
            params = {"C": 2.0**C, "gamma": 2.0**gamma}
            limited = exact(params).set_params(max_time=30.0)
            rows = [
                fit_and_judge("exact", limited, data),
                fit_and_judge("early", divided(params, n_levels=3, stop_level=3), data),
            ]
            yield {
                "C": f"2^{C}",
                "gamma": f"2^{gamma}",
                **{f"{r['model']} accuracy (%)": r["accuracy (%)"] for r in rows},
                **{f"{r['model']} fit (s)": r["fit (s)"] for r in rows},
                "exact ended": limited.stop_reason_,
            }
