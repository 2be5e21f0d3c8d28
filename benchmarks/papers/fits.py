"""Fits of one method on one data set at several settings, as the worker of a task makes them."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Record
from benchmarks.papers.methods import GROUPS, Method, Options
from benchmarks.papers.sets import load_set
from benchmarks.records import BenchmarkData
from benchmarks.timing import read_peak_rss, select_rows, time_call, touch_memory

#: Memory touched before the first fit. Few fits need more, and more would take longer than most fits.
TOUCHED_BYTES = 1e9
#: A call that takes less is made three times, and the best counts.
SHORT_SECONDS, REPEATS = 3.0, 3
#: Rows on which everything is compiled before it is timed.
WARM_UP_ROWS = (600, 6000)


def measure_task(
    data: str, rows: int, group: str, method: str, settings: list[Options]
) -> Iterator[Record]:
    """Yield a record when the data are ready, and two for each setting: fitted, and measured."""
    warnings.simplefilter("ignore")
    loaded, chosen = load_set(data, rows), GROUPS[group][method]
    warm_up(chosen, loaded, settings[0])
    touch_memory(TOUCHED_BYTES)
    yield {"ready": True}
    for options in settings:
        yield from measure(chosen, loaded, options)


def warm_up(method: Method, data: BenchmarkData, options: Options) -> None:
    """Fit on a few rows, so that compiling is not timed."""
    for n_rows in WARM_UP_ROWS:
        if 2 * n_rows > len(data.y_train):
            break
        rows = select_rows(data.y_train, n_rows)
        model = method.make(data.params, options).fit(data.X_train[rows], data.y_train[rows])
        model.predict(data.X_test[:100])


def measure(method: Method, data: BenchmarkData, options: Options) -> Iterator[Record]:
    """Processor seconds to fit and to predict, accuracy, and the size of the model."""
    model = method.make(data.params, options)
    fit = time_call(lambda: model.fit(data.X_train, data.y_train), REPEATS, SHORT_SECONDS)
    yield {"fitted": True}
    predict = time_call(lambda: model.predict(data.X_test), REPEATS, SHORT_SECONDS)
    yield {
        "options": options,
        "n_train": len(data.y_train),
        "n_test": len(data.y_test),
        "fit_s": fit.cpu_seconds,
        "predict_s": predict.cpu_seconds,
        "accuracy": 100.0 * float(np.mean(predict.value == data.y_test)),
        "n_vectors": count_vectors(model),
        "levels": describe_levels(model),
        "peak_gb": read_peak_rss() / 1e9,
    }


def describe_levels(model: Any) -> list[Record]:
    """Wall seconds of every level of a divided machine, in the order they were solved."""
    return [
        {
            "level": level.level,
            "clusters": level.n_clusters,
            "clustering (s)": level.clustering_seconds,
            "solving (s)": level.solving_seconds,
        }
        for level in getattr(model, "levels_", [])
    ]


def count_vectors(model: Any) -> int | None:
    """Support or basis vectors, if the model has any."""
    if hasattr(model, "support_"):
        return len(model.support_)
    return int(np.sum(model.n_basis_)) if hasattr(model, "n_basis_") else None
