"""Divide and conquer: what it reaches, level by level, and the claims of its paper.

``python -m benchmarks divide`` runs every experiment in a process of its own and keeps its rows in
``benchmarks/results/divide.jsonl``; ``python -m benchmarks divide --render`` makes the page.
"""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from benchmarks.datasets import load_dataset
from benchmarks.datasets.covtype import load as load_covtype
from benchmarks.experiments import Row, run_here
from benchmarks.records import BenchmarkData
from benchmarks.settings import CACHE_MEGABYTES, THREADS, TOL
from benchmarks.worker import touch_memory
from widemargin import DCSVC, KernelSVC
from widemargin.budget import Budget
from widemargin.divide import kernel_kmeans as partition
from widemargin.divide.cluster_models import EarlyModel
from widemargin.exact import descent_state as box_qp
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.several_problems import solve_problems
from widemargin.kernels import RBF, Kernel
from widemargin.parallel import open_workers

TITLE = "Divide and conquer: measurements"
RESULTS = Path("benchmarks", "results", "divide.jsonl")


def exact(params: dict[str, Any]) -> KernelSVC:
    return KernelSVC(**params, fit_intercept=False, tol=TOL, n_jobs=THREADS)


#: Early prediction by Eq. 11; ``benchmarks/early.py`` measures what is beyond the paper.
NEAREST: dict[str, Any] = {"background": 0, "overlap": 0.0, "n_nearest": 1}


def divided(params: dict[str, Any], **more: Any) -> DCSVC:
    return DCSVC(**params, tol=TOL, n_jobs=THREADS, **NEAREST, **more)


def fit_and_judge(name: str, model: Any, data: BenchmarkData) -> Row:
    """One row: seconds to fit and to predict, accuracy, and what the levels did."""
    touch_memory()
    began = time.perf_counter()
    model.fit(data.X_train, data.y_train)
    fitted = time.perf_counter()
    predicted = model.predict(data.X_test)
    done = time.perf_counter()
    levels = getattr(model, "levels_", [])
    return {
        "model": name,
        "rows": len(data.y_train),
        "clusters": levels[-1].n_clusters if levels else 1,
        "fit (s)": fitted - began,
        "clustering (s)": sum(level.clustering_seconds for level in levels),
        "predict (s)": done - fitted,
        "accuracy (%)": 100.0 * float(np.mean(predicted == data.y_test)),
        "support vectors": len(model.support_),
        "objective": None if isinstance(model, SVC) else float(np.sum(model.objective_)),
        "peak memory (GB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def warm_up(data: BenchmarkData) -> None:
    """Compile on a few thousand rows."""
    few = slice(0, 5000)
    for model in (exact(data.params), divided(data.params, n_levels=1),
                  divided(data.params, n_levels=1, stop_level=1)):  # fmt: skip
        model.fit(data.X_train[few], data.y_train[few]).predict(data.X_test[:100])


def run_ijcnn1() -> Iterator[Row]:
    """Data ijcnn1 (C = 32, gamma = 2): early prediction, our own exact fit, and LIBSVM's.

    LIBSVM has an intercept, and one thread.
    """
    data = load_dataset("ijcnn1")
    warm_up(data)
    peer = SVC(**data.params, tol=TOL, cache_size=CACHE_MEGABYTES)
    yield fit_and_judge("LIBSVM", peer, data)
    early: dict[str, Any] = {"n_levels": 3, "stop_level": 3}
    for _ in range(5):
        yield fit_and_judge("KernelSVC", exact(data.params), data)
        yield fit_and_judge("DCSVC, level 3 at once", divided(data.params, **early), data)
        few = divided(data.params, sample_size=500, **early)
        yield fit_and_judge("DCSVC, level 3 at once, 500 sampled", few, data)
        yield fit_and_judge("DCSVC, levels 4, 3", divided(data.params, stop_level=3), data)
        yield fit_and_judge("DCSVC, exact", divided(data.params), data)


def run_covtype_100k() -> Iterator[Row]:
    """Data covtype 100k (C = 32, gamma = 32): the optimum by levels and from zero."""
    data = load_covtype("covtype-100k", 100_000)
    warm_up(data)
    for _ in range(2):
        yield fit_and_judge("KernelSVC", exact(data.params), data)
        yield fit_and_judge("DCSVC, exact", divided(data.params), data)
        model = divided(data.params, n_clusters=8, n_levels=2)
        yield fit_and_judge("DCSVC, exact, 64 and 8 clusters", model, data)


def run_merging() -> Iterator[Row]:
    """Data covtype 100k: the optimum without what we added to the paper's algorithm.

    Groups of k-means are the clusters, instead of being merged; all free variables of a level enter
    the working set of the next, instead of those that have to move.
    """
    data = load_covtype("covtype-100k", 100_000)
    warm_up(data)
    unmerged = patch.object(partition, "GROUP_POINTS", len(data.y_train))
    all_free = patch.object(box_qp, "ENTRY_SHARE", -np.inf)
    for name, changes in {
        "as it is": [], "all free variables": [all_free], "not merged": [unmerged],
        "neither": [unmerged, all_free],
    }.items():  # fmt: skip
        with ExitStack() as stack:
            for change in changes:
                stack.enter_context(change)
            model = divided(data.params)
            row = fit_and_judge(name, model, data)
        *_, below, last = model.levels_
        row["largest of level 1"] = below.largest_cluster
        row["last level (s)"] = last.solving_seconds
        yield row


def run_mnist_60k() -> Iterator[Row]:
    """MNIST 60k, one-vs-one (C = 10, gamma = 0.02): the optimum by levels and from zero."""
    from benchmarks.datasets.mnist import load

    data = load("mnist-60k", 60_000)
    warm_up(data)
    for _ in range(3):
        yield fit_and_judge("KernelSVC", exact(data.params), data)
        yield fit_and_judge("DCSVC, exact, one level", divided(data.params, n_levels=1), data)


def run_covtype_early() -> Iterator[Row]:
    """Data covtype, 464,810 rows (C = 32, gamma = 32): early prediction; the paper has 96.12 %."""
    data = load_covtype("covtype", 464_810, 116_202)
    warm_up(data)
    for seed in range(3):
        model = divided(data.params, n_levels=3, stop_level=3, random_state=seed)
        yield fit_and_judge(f"DCSVC, level 3, seed {seed}", model, data)
    for seed in range(3):
        model = divided(data.params, stop_level=3, random_state=seed)
        yield fit_and_judge(f"DCSVC, levels 4, 3, seed {seed}", model, data)
    yield fit_and_judge("DCSVC, levels 4, 3, 2", divided(data.params, stop_level=2), data)


def run_covtype_exact() -> Iterator[Row]:
    """Data covtype, 464,810 rows (C = 32, gamma = 32): every level up to the optimum.

    The paper has 96.15 %, after 3 hours, and LIBSVM after 23.
    """
    data = load_covtype("covtype", 464_810, 116_202)
    warm_up(data)
    touch_memory()
    model = divided(data.params, keep_levels=True)
    model.fit(data.X_train, data.y_train)
    seconds = 0.0
    for stage, record in zip(model._stages, model.levels_, strict=True):
        seconds += record.clustering_seconds + record.solving_seconds
        began = time.perf_counter()
        decisions = stage.decide(data.X_test, max_bytes=10**9, n_jobs=THREADS)
        predict_seconds = time.perf_counter() - began
        labels = np.where(decisions[:, 0] >= 0, 1, -1)
        yield {
            "clusters": record.n_clusters,
            "largest": record.largest_cluster,
            "clustering (s)": record.clustering_seconds,
            "solving (s)": record.solving_seconds,
            "seconds so far": seconds,
            "predict (s)": predict_seconds,
            "accuracy (%)": 100.0 * float(np.mean(labels == data.y_test)),
            "support vectors": record.n_support,
            "objective": record.objective,
            "peak memory (GB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        }


def run_covtype_splits() -> Iterator[Row]:
    """Data covtype, random splits of 464,810 and 116,202 rows: accuracy early and at the optimum.

    Split 0 is that of all other measurements. The standard error of an accuracy is 0.06 points.
    """
    early: dict[str, Any] = {"n_levels": 3, "stop_level": 3}
    ways: dict[str, dict[str, Any]] = {
        "early (%)": early, "large sample (%)": {"sample_size": 3000, **early}, "optimum (%)": {},
    }  # fmt: skip
    rows = []
    for split in range(5):
        data = load_covtype("covtype", 464_810, 116_202, split)
        row: Row = {"split": split}
        for name, options in ways.items():
            model = divided(data.params, random_state=0, **options)
            row[name] = fit_and_judge(name, model, data)["accuracy (%)"]
        rows.append(row)
        yield row
    yield {"split": "mean", **{way: float(np.mean([row[way] for row in rows])) for way in ways}}


def run_growth() -> Iterator[Row]:
    """Data covtype: growth with the number of rows, about 7,300 rows a cluster.

    The exponent is that of the time over the last doubling of the rows.
    """
    warm_up(load_covtype("covtype", 20_000))
    last = None
    for n in (58_101, 116_203, 232_405, 464_810):
        data = load_covtype("covtype", n)
        k = round(n / 7263)
        model = divided(data.params, n_clusters=k, n_levels=1, stop_level=1)
        row = fit_and_judge(f"DCSVC, {k} clusters at once", model, data)
        exponent = None if last is None else float(np.log2(row["fit (s)"] / last))
        yield {**row, "exponent": exponent}
        last = row["fit (s)"]


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
        began = time.perf_counter()
        peer.fit(data.X_train, data.y_train)
        seconds = time.perf_counter() - began
        row = fit_and_judge("exact", divided(params, fit_intercept=True), data)
        yield {
            "C": f"2^{C}",
            "gamma": f"2^{gamma}",
            "LIBSVM accuracy (%)": 100.0 * float(peer.score(data.X_test, data.y_test)),
            "DCSVC accuracy (%)": row["accuracy (%)"],
            "LIBSVM fit (s)": seconds,
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


EXPERIMENTS: dict[str, Callable[[], Iterator[Row]]] = {
    "ijcnn1": run_ijcnn1,
    "covtype-early": run_covtype_early,
    "covtype-exact": run_covtype_exact,
    "covtype-splits": run_covtype_splits,
    "covtype-100k": run_covtype_100k,
    "merging": run_merging,
    "mnist-60k": run_mnist_60k,
    "growth": run_growth,
    "combine": run_combine,
    "levels": run_levels,
    "bound": run_bound,
    "support": run_support,
    "poly": run_poly,
    "grid": run_grid,
    "grid-narrow": run_grid_narrow,
    "grid-libsvm": run_grid_libsvm,
}


def full_coef(model: KernelSVC | DCSVC, data: BenchmarkData) -> NDArray[np.float64]:
    """Fit, and return the signed dual variables of all rows."""
    model.fit(data.X_train, data.y_train)
    coef = np.zeros(len(data.y_train))
    coef[model.support_] = model.dual_coef_[0]
    return coef


def assign(early: EarlyModel, data: BenchmarkData) -> NDArray[np.int32]:
    """Cluster of every training row."""
    with open_workers(THREADS) as workers:
        return early.find_clusters(early.prepare(data.X_train), workers)


def shuffle(clusters: NDArray[np.int32]) -> NDArray[np.int32]:
    """A random partition into clusters of the same sizes."""
    return np.random.default_rng(0).permutation(clusters)


def glue(
    kernel: Kernel, data: BenchmarkData, groups: NDArray[np.int32], C: float
) -> NDArray[np.float64]:
    """Solve every group by itself and put the dual variables together."""
    duals = [
        classification_dual(
            rows, data.y_train[rows].astype(float), np.full(len(rows), C), intercept=False
        )
        for rows in (np.flatnonzero(groups == c) for c in np.unique(groups))
    ]
    coef = np.zeros(len(data.y_train))
    with open_workers(THREADS) as workers:
        solutions = solve_problems(
            kernel, kernel.prepare(data.X_train), duals, workers, budget=Budget(tol=TOL)
        )
    for dual, found in zip(duals, solutions, strict=True):
        coef[dual.index] = found.coef
    return coef


def dual_objective(kernel: Kernel, data: BenchmarkData, coef: NDArray[np.float64]) -> float:
    """``0.5 b'Kb - sum |b|`` on the whole problem."""
    support = np.flatnonzero(coef)
    points = kernel.prepare(data.X_train[support])
    everyone = np.arange(len(support))
    product = np.zeros((len(support), 1))
    with open_workers(THREADS) as workers:
        kernel.accumulate(
            points, everyone, points, everyone, coef[support][:, None], product, workers
        )
    return float(0.5 * coef[support] @ product[:, 0] - np.abs(coef).sum())


if __name__ == "__main__":
    run_here(EXPERIMENTS, sys.argv[1])
