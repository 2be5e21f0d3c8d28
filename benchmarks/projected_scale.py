"""Sparse machines on many rows of covtype: time, memory and growth."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.datasets.covtype import load as load_covtype
from benchmarks.experiments import Row
from benchmarks.projected_models import (
    DRAWN,
    accuracy,
    count_vectors,
    fit_quietly,
    measure_objective,
)
from benchmarks.settings import THREADS
from benchmarks.timing import read_peak_rss, time_call, touch_memory
from widemargin import ProjectedSVC


def run_scale() -> Iterator[Row]:
    """Data covtype (C = 32, gamma = 32), 20,000 rows, all of them candidates; two threads."""
    ways: list[dict[str, Any]] = [{"refine": False}, {}, {"refine": False, "move": True}]
    yield from fit_covtype(20_000, ways, n_basis=100, candidates="all")


def run_scale_drawn() -> Iterator[Row]:
    """Data covtype (C = 32, gamma = 32), 200,000 rows, 500 candidates; two threads.

    With little memory kernel values, 160 MB of the basis and 400 MB of candidates, are computed again.
    """
    ways: list[dict[str, Any]] = [
        {"refine": False, "memory": "50 MB"}, {"refine": False}, {}, {"refine": False, "move": True},
    ]  # fmt: skip
    yield from fit_covtype(200_000, ways, n_basis=100, candidates=DRAWN)


def fit_covtype(n: int, ways: list[dict[str, Any]], **params: Any) -> Iterator[Row]:
    few = load_covtype("covtype", 3000)
    for way in ways:
        fit_quietly(large(few.params, **way, **params), few.X_train, few.y_train)
    data = load_covtype("covtype", n)
    touch_memory()
    for way in ways:
        yield fit_large(large(data.params, **way, **params), data)


def large(settings: dict[str, Any], **params: Any) -> ProjectedSVC:
    return ProjectedSVC(**settings, n_jobs=THREADS, random_state=0, **params)


def fit_large(model: ProjectedSVC, data: Any) -> Row:
    before = read_peak_rss() / 1e9
    fit = time_call(lambda: fit_quietly(model, data.X_train, data.y_train))
    after = read_peak_rss() / 1e9
    return {
        "rows": len(data.y_train),
        "basis": "moved" if model.move else "refined" if model.refine else "forward only",
        "memory": model.memory,
        "vectors": count_vectors(model),
        "fit (s)": fit.seconds,
        "peak memory before (GB)": before,
        "peak memory (GB)": after,
        "J": measure_objective(model, data.X_train, data.y_train),
        "test (%)": accuracy(model, data.X_test, data.y_test),
        "ended": model.stop_reason_,
    }


def run_growth() -> Iterator[Row]:
    """Data covtype: growth with the rows, 50 basis vectors, 500 candidates; two threads.

    The exponent is that of the last doubling.
    """
    few = load_covtype("covtype", 3000)
    fit_quietly(large(few.params, n_basis=50, candidates=DRAWN), few.X_train, few.y_train)
    touch_memory()
    last: dict[bool, float] = {}
    for n in (25_000, 50_000, 100_000, 200_000):
        data = load_covtype("covtype", n)
        for refine in (False, True):
            model = large(data.params, refine=refine, n_basis=50, candidates=DRAWN)
            row = fit_large(model, data)
            seconds = row["fit (s)"]
            exponent = float(np.log2(seconds / last[refine])) if refine in last else None
            last[refine] = seconds
            yield {**row, "exponent": exponent}
