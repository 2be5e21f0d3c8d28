"""Fits of one method on one data set: ``python -m benchmarks.papers.worker TASK``.

The task is JSON: ``{"data": ..., "rows": ..., "group": ..., "method": ..., "settings": [...]}``.
A line of JSON goes to standard output when the data are ready, and for each setting when the model
is fitted and when it is measured, so that none is lost when a later one takes too long.
"""

import gc
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.papers.methods import GROUPS, Method, Options
from benchmarks.papers.sets import load_set
from benchmarks.records import BenchmarkData
from benchmarks.worker import read_peak_rss, select_rows, touch_memory

#: Memory touched before the first fit. Few fits need more, and more would take longer than most fits.
TOUCHED_BYTES = 1e9
#: A call that takes less is made three times, and the best counts.
SHORT_SECONDS, REPEATS = 3.0, 3
#: Rows on which everything is compiled before it is timed.
WARM_UP_ROWS = (600, 6000)


def main(task: dict[str, Any]) -> None:
    warnings.simplefilter("ignore")
    data = load_set(task["data"], task["rows"])
    method = GROUPS[task["group"]][task["method"]]
    warm_up(method, data, task["settings"][0])
    touch_memory(TOUCHED_BYTES)
    say({"ready": True})
    for options in task["settings"]:
        say(measure(method, data, options))


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def warm_up(method: Method, data: BenchmarkData, options: Options) -> None:
    """Fit on a few rows, so that compiling is not timed."""
    for n_rows in WARM_UP_ROWS:
        if 2 * n_rows > len(data.y_train):
            break
        rows = select_rows(data.y_train, n_rows)
        model = method.make(data.params, options).fit(data.X_train[rows], data.y_train[rows])
        model.predict(data.X_test[:100])


def measure(method: Method, data: BenchmarkData, options: Options) -> dict[str, Any]:
    """Seconds to fit and to predict, accuracy, and the size of the model."""
    model = method.make(data.params, options)
    fit_seconds = time_call(lambda: model.fit(data.X_train, data.y_train))
    say({"fitted": True})
    predicted: list[Any] = []
    predict_seconds = time_call(lambda: predicted.append(model.predict(data.X_test)))
    return {
        "options": options,
        "n_train": len(data.y_train),
        "n_test": len(data.y_test),
        "fit_s": fit_seconds,
        "predict_s": predict_seconds,
        "accuracy": 100.0 * float(np.mean(predicted[0] == data.y_test)),
        "n_vectors": count_vectors(model),
        "peak_gb": read_peak_rss() / 1e9,
    }


def time_call(function: Callable[[], object]) -> float:
    """Seconds of a call, the best of three if it is short."""
    seconds: list[float] = []
    while not seconds or (len(seconds) < REPEATS and min(seconds) < SHORT_SECONDS):
        gc.collect()
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def count_vectors(model: Any) -> int | None:
    """Support or basis vectors, if the model has any."""
    if hasattr(model, "support_"):
        return len(model.support_)
    return int(np.sum(model.n_basis_)) if hasattr(model, "n_basis_") else None


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
