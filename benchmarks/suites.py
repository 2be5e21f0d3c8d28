"""The suites: what is fitted, by which solvers, and how a fitted model is judged."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks import objective
from benchmarks.datasets import DATASETS, load_dataset, one_class, regression, thin_data
from benchmarks.records import BenchmarkData, PairExpansion
from benchmarks.settings import THREADS, TOL
from benchmarks.solvers import load_solver
from benchmarks.timing import Timing, read_peak_rss, select_rows, time_call, touch_memory

Measures = dict[str, Any]


@dataclass(frozen=True)
class Suite:
    """What is measured in the same way for every solver.

    Attributes
    ----------
    title : str
        Title of the page.
    module : str
        Where our estimator is.
    datasets : tuple of str
        Names of the data sets.
    load : callable
        ``load(name)`` returns the data.
    solvers : tuple of str
        Modules of ``benchmarks.solvers``.
    targets : tuple
        (measure, peer, least ratio of the peer's time to ours).
    quality : tuple of str
        Field, heading and format of what the predictions are judged by.
    judge : callable
        ``judge(data, predicted)`` returns that number.
    measure_model : callable
        ``measure_model(data, expansion)`` returns what is computed in float64 from the coefficients.
    choose : str or None
        Function of the worker that chooses parameters, where the data have none.
    source_of : callable
        ``source_of(name)`` names the data set whose parameters a sample of it has.
    threads : int
        Threads of every solver. The times of one thread are processor seconds, which other work on the
        machine does not change much; the others are wall seconds.
    """

    title: str
    module: str
    datasets: tuple[str, ...]
    load: Callable[[str], BenchmarkData]
    solvers: tuple[str, ...]
    targets: tuple[tuple[str, str, float], ...]
    quality: tuple[str, str, str]
    judge: Callable[[BenchmarkData, Any], float]
    measure_model: Callable[[BenchmarkData, PairExpansion], Measures]
    choose: str | None = None
    source_of: Callable[[str], str] = str
    threads: int = THREADS

    def clock(self, measure: str) -> str:
        """Name the field that holds the time of "fit" or "predict"."""
        return f"{measure}_cpu_seconds" if self.threads == 1 else f"{measure}_seconds"


def measure_accuracy(data: BenchmarkData, predicted: Any) -> float:
    return float(np.mean(predicted == data.y_test))


def measure_error(data: BenchmarkData, predicted: Any) -> float:
    """Root mean squared error; the targets of the training rows have variance one."""
    return float(np.sqrt(np.mean((predicted - data.y_test) ** 2)))


def measure_outliers(data: BenchmarkData, predicted: Any) -> float:
    """Share of the test rows that are called outliers."""
    return float(np.mean(predicted == -1))


SUITES = {
    "exact": Suite(
        title="Benchmarks of the exact solver",
        module="exact.kernel_svc",
        datasets=tuple(DATASETS),
        load=load_dataset,
        solvers=("sklearn", "intelex", "widemargin"),
        targets=(("fit", "sklearn", 10.0), ("fit", "intelex", 3.0), ("predict", "intelex", 2.0)),
        quality=("accuracy", "test accuracy", "{:.2%}"),
        judge=measure_accuracy,
        measure_model=objective.measure_classifier,
    ),
    "regression": Suite(
        title="Benchmarks of KernelSVR",
        module="exact.kernel_svr",
        datasets=(*regression.SAMPLES, *regression.SETS),
        load=regression.load,
        solvers=("sklearn", "intelex", "widemargin"),
        targets=(("fit", "sklearn", 10.0), ("fit", "intelex", 3.0)),
        quality=("test_rmse", "test RMSE", "{:.4f}"),
        judge=measure_error,
        measure_model=objective.measure_regressor,
        choose="benchmarks.datasets.regression:choose_parameters",
        source_of=regression.find_source,
        threads=1,
    ),
    "novelty": Suite(
        title="Benchmarks of KernelOneClassSVM",
        module="exact.kernel_one_class",
        datasets=tuple(one_class.SETS),
        load=one_class.load,
        # Neither intelex nor cuML has a one-class SVM.
        solvers=("sklearn", "widemargin"),
        targets=(("fit", "sklearn", 10.0),),
        quality=("outlier_share", "test outliers", "{:.2%}"),
        judge=measure_outliers,
        measure_model=objective.measure_one_class,
        threads=1,
    ),
}


def measure(
    suite: str,
    dataset: str,
    solver: str,
    max_rows: int | None,
    params: dict[str, float] | None = None,
) -> Iterator[Measures]:
    """Load, warm up, time a fit and a prediction, then judge the model."""
    data = SUITES[suite].load(dataset)
    data = data if max_rows is None else thin_data(data, max_rows)
    yield measure_data(suite, data if params is None else replace(data, params=params), solver)


def measure_data(suite: str, data: BenchmarkData, solver_name: str) -> Measures:
    """Measure one solver on loaded data."""
    kind, solver = SUITES[suite], load_solver(solver_name)
    warm_up(suite, data, solver)
    model = solver.make_model(suite, data.params, kind.threads)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = time_after_touching(lambda: model.fit(data.X_train, data.y_train))
        predict = time_after_touching(lambda: model.predict(data.X_test))
    # Read before the objective is computed, whose memory is the harness's own.
    peak_rss_bytes = read_peak_rss()
    n_train, n_features = data.X_train.shape
    return {
        "n_train": n_train,
        "n_test": len(data.y_test),
        "n_features": n_features,
        "params": data.params,
        "tol": TOL,
        "threads": kind.threads,
        "fit_seconds": fit.seconds,
        "fit_cpu_seconds": fit.cpu_seconds,
        "predict_seconds": predict.seconds,
        "predict_cpu_seconds": predict.cpu_seconds,
        kind.quality[0]: kind.judge(data, predict.value),
        **kind.measure_model(data, solver.extract_expansion(model, data.y_train)),
        "peak_rss_bytes": peak_rss_bytes,
        "warnings": sorted({str(warning.message) for warning in caught}),
    }


def time_after_touching(function: Callable[[], Any]) -> Timing:
    touch_memory()
    return time_call(function)


def warm_up(suite: str, data: BenchmarkData, solver: Any) -> None:
    """Fit and predict on a few rows, so that imports and compilation are not timed."""
    for n_rows in solver.WARM_UP_ROWS:
        rows = np.arange(min(n_rows, len(data.y_train)))
        if suite == "exact":
            rows = select_rows(data.y_train, n_rows)
        model = solver.make_model(suite, data.params, SUITES[suite].threads)
        model.fit(data.X_train[rows], data.y_train[rows]).predict(data.X_test[:n_rows])
