"""One measurement, in a process of its own: ``python -m benchmarks.worker DATASET SOLVER``.

The record is the last line of standard output, as JSON.
"""

import gc
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import load_dataset
from benchmarks.objective import measure_model
from benchmarks.records import BenchmarkData
from benchmarks.settings import MAX_TOUCH_BYTES, THREADS, TOL, TOUCH_SHARE
from benchmarks.solvers import load_solver
from widemargin.memory import free_bytes

#: Private, because shared memory would come in small pages, which are slow to touch and leave
#: the free memory in pieces.
TOUCH_CODE = """\
import mmap, sys
memory = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
if hasattr(mmap, "MADV_HUGEPAGE"):
    memory.madvise(mmap.MADV_HUGEPAGE)
memory[:: mmap.PAGESIZE] = bytes(len(range(0, len(memory), mmap.PAGESIZE)))
"""


def measure(data: BenchmarkData, solver: ModuleType) -> dict[str, Any]:
    """Warm up, time a fit and a prediction, then judge the model."""
    warm_up(data, solver)
    model = solver.make_model(data.params)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        times = {"fit": time_call(lambda: model.fit(data.X_train, data.y_train))}
        times["predict"] = time_call(lambda: model.predict(data.X_test))
    # Read before the objective is computed, whose memory is the harness's own.
    peak_rss_bytes = read_peak_rss()
    _, fit_seconds, fit_cpu_seconds = times["fit"]
    predicted, predict_seconds, _ = times["predict"]
    return {
        **describe_task(data),
        "fit_seconds": fit_seconds,
        "fit_cpu_seconds": fit_cpu_seconds,
        "predict_seconds": predict_seconds,
        "accuracy": float(np.mean(predicted == data.y_test)),
        **measure_model(data, solver.extract_expansion(model, data.y_train)),
        "peak_rss_bytes": peak_rss_bytes,
        "warnings": sorted({str(warning.message) for warning in caught}),
    }


def describe_task(data: BenchmarkData) -> dict[str, Any]:
    """Describe what is to be done, the same for every solver."""
    n_train, n_features = data.X_train.shape
    return {
        "n_train": n_train,
        "n_test": len(data.y_test),
        "n_features": n_features,
        "params": data.params,
        "tol": TOL,
        "threads": THREADS,
    }


def warm_up(data: BenchmarkData, solver: ModuleType) -> None:
    """Fit and predict on a few rows, so that imports and compilation are not timed."""
    for n_rows in solver.WARM_UP_ROWS:
        rows = select_rows(data.y_train, n_rows)
        model = solver.make_model(data.params).fit(data.X_train[rows], data.y_train[rows])
        model.predict(data.X_test[:n_rows])


def select_rows(y: NDArray[Any], n_rows: int) -> NDArray[np.intp]:
    """About ``n_rows`` rows with an equal number, where there are enough, of every class."""
    classes = np.unique(y)
    share = n_rows // len(classes)
    return np.sort(np.concatenate([np.flatnonzero(y == c)[:share] for c in classes]))


def time_call(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """Value, wall seconds and processor seconds of a call."""
    gc.collect()
    touch_memory()
    cpu_began, began = time.process_time(), time.perf_counter()
    value = function()
    return value, time.perf_counter() - began, time.process_time() - cpu_began


def touch_memory(max_bytes: float = MAX_TOUCH_BYTES) -> None:
    """Have the host of a virtual machine back the memory that is about to be used.

    The first touch of fresh memory can cost seconds a gigabyte. A child process does it: its
    pages return to the system, and the peak memory of this process stays that of the solver.
    """
    n_bytes = int(min(TOUCH_SHARE * free_bytes(), max_bytes))
    subprocess.run([sys.executable, "-I", "-S", "-c", TOUCH_CODE, str(n_bytes)], check=True)


def read_peak_rss() -> int:
    """Largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    dataset_name, solver_name, *rest = sys.argv[1:]
    task = load_dataset(dataset_name, int(rest[0]) if rest else None)
    print(json.dumps(measure(task, load_solver(solver_name))))
