"""Models of the experiments with divide and conquer, how one is judged, and glued solutions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from benchmarks.experiments import Row
from benchmarks.records import BenchmarkData
from benchmarks.settings import THREADS, TOL
from benchmarks.timing import read_peak_rss, time_call, touch_memory
from widemargin import DCSVC, KernelSVC
from widemargin.baselines.cascade_layers import Cascade, CascadeFit
from widemargin.budget import Budget
from widemargin.divide import PAPER
from widemargin.divide.cluster_models import EarlyModel
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.several_problems import solve_problems
from widemargin.exact.solution import Solution
from widemargin.kernels import Kernel
from widemargin.parallel import open_workers


def exact(params: dict[str, Any]) -> KernelSVC:
    return KernelSVC(**params, fit_intercept=False, tol=TOL, n_jobs=THREADS)


#: Early prediction by Eq. 11; ``benchmarks/early.py`` measures what is beyond the paper.
NEAREST: dict[str, Any] = {"background": 0, "overlap": 0.0, "n_nearest": 1}


def published(params: dict[str, Any], **more: Any) -> DCSVC:
    """DC-SVM with the algorithm of its paper."""
    return DCSVC(**params, tol=TOL, n_jobs=THREADS, **PAPER, **more)


def divided(params: dict[str, Any], **more: Any) -> DCSVC:
    return DCSVC(**params, tol=TOL, n_jobs=THREADS, **NEAREST, **more)


def fit_and_judge(name: str, model: Any, data: BenchmarkData) -> Row:
    """One row: seconds to fit and to predict, accuracy, and what the levels did."""
    touch_memory()
    fit = time_call(lambda: model.fit(data.X_train, data.y_train))
    predict = time_call(lambda: model.predict(data.X_test))
    levels = getattr(model, "levels_", [])
    return {
        "model": name,
        "rows": len(data.y_train),
        "clusters": levels[-1].n_clusters if levels else 1,
        "fit (s)": fit.seconds,
        "clustering (s)": sum(level.clustering_seconds for level in levels),
        "predict (s)": predict.seconds,
        "accuracy (%)": 100.0 * float(np.mean(predict.value == data.y_test)),
        "support vectors": len(model.support_),
        "objective": None if isinstance(model, SVC) else float(np.sum(model.objective_)),
        "peak memory (GB)": read_peak_rss() / 1e9,
    }


def warm_up(data: BenchmarkData) -> None:
    """Compile on a few thousand rows."""
    few = slice(0, 5000)
    for model in (exact(data.params), divided(data.params, n_levels=1),
                  divided(data.params, n_levels=1, stop_level=1)):  # fmt: skip
        model.fit(data.X_train[few], data.y_train[few]).predict(data.X_test[:100])


def full_coef(model: KernelSVC | DCSVC, data: BenchmarkData) -> NDArray[np.float64]:
    """Fit, and return the signed dual variables of all rows."""
    model.fit(data.X_train, data.y_train)
    coef = np.zeros(len(data.y_train))
    coef[model.support_] = model._dual_coef_[0]
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


class LayeredCascade(Cascade):
    """A cascade that keeps the support vectors of every layer, by its number of sets."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.support: dict[int, set[int]] = {}

    def take_solutions(self, solutions: list[Solution], seconds: float) -> None:
        super().take_solutions(solutions, seconds)
        self.support[len(solutions)] = {int(row) for rows in self._sets for row in rows}


def cascade_support(
    kernel: Kernel, data: BenchmarkData, C: float, n_layers: int
) -> dict[int, set[int]]:
    """Support vectors that one round of a cascade passes on, by the number of sets of the layer."""
    everyone = np.arange(len(data.y_train))
    costs = np.full(len(everyone), C)
    dual = classification_dual(everyone, data.y_train.astype(float), costs, intercept=False)
    cascade = LayeredCascade(dual, n_layers, np.random.default_rng(0))
    with open_workers(THREADS) as workers:
        points = kernel.prepare(data.X_train)
        CascadeFit(kernel, points, workers, Budget(TOL), 0, 0).run([cascade], max_rounds=1)
    return cascade.support


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
