"""When does early prediction pay? Exact fits, the paper's early prediction, ours, and samples.

Times are seconds of CPU of one thread, so that other work on the machine matters less.
"""

from collections.abc import Iterator
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets.covtype import load as load_covtype
from benchmarks.early_data import SETS, TEST_ROWS, load_rows
from benchmarks.early_unseen import UNSEEN, load_unseen
from benchmarks.experiments import Experiments, Row
from benchmarks.records import BenchmarkData
from benchmarks.settings import TOL
from benchmarks.timing import time_call
from widemargin import DCSVC, KernelSVC
from widemargin.divide import PAPER

TITLE = "Early prediction: measurements"
RESULTS = Path("benchmarks", "results", "early.jsonl")
#: Rows of random samples that are solved exactly.
SAMPLES = (2500, 5000, 10_000, 20_000)
#: The time to solve a sample grows with this power of its rows.
SAMPLE_GROWTH = 1.6
#: Fits of less than this many seconds are repeated, and the least time counts.
SHORT_SECONDS, REPEATS = 1.0, 3
#: Rows of covtype over three doublings, and rows of each cluster.
GROWTH_ROWS, CLUSTER_ROWS = (58_101, 116_202, 232_405, 464_810), 1816


def make_exact(params: dict[str, Any]) -> KernelSVC:
    return KernelSVC(**params, tol=TOL, fit_intercept=False, n_jobs=1)


def make_early(params: dict[str, Any], level: int, **more: Any) -> DCSVC:
    return DCSVC(**params, tol=TOL, n_jobs=1, n_levels=level, stop_level=level, **more)


def measure_set(name: str) -> Iterator[Row]:
    """Fit and prediction on one set, by every method.

    "ours" is `DCSVC` as it is by default, "paper" is `DCSVC(**PAPER)`, "sample" is `KernelSVC` on
    random rows; the last sample is so large that it takes about as long to fit as ours with 64
    clusters.
    """
    data = load_rows(name)
    warm_up(data)
    for n_rows in SAMPLES:
        if n_rows < len(data.y_train):
            yield measure_sample(data, n_rows)
    ours = judge("ours, 64 clusters", make_early(data.params, 3), data)
    yield measure_same_time(data, ours["fit (CPU s)"])
    yield ours
    yield judge("ours, 16 clusters", make_early(data.params, 2), data)
    yield judge("ours, 4 clusters", make_early(data.params, 1), data)
    yield judge("paper, 64 clusters", make_early(data.params, 3, **PAPER), data)
    yield judge("exact", make_exact(data.params), data)


def measure_same_time(data: BenchmarkData, seconds: float) -> Row:
    """Measure a sample that takes as long to fit."""
    n_rows, row = SAMPLES[1], measure_sample(data, SAMPLES[1])
    for _ in range(2):
        factor = (seconds / row["fit (CPU s)"]) ** (1.0 / SAMPLE_GROWTH)
        n_rows = min(int(n_rows * factor), len(data.y_train))
        row = measure_sample(data, n_rows)
    return row | {"method": "sample of the same time"}


def measure_sample(data: BenchmarkData, n_rows: int) -> Row:
    order = np.random.default_rng(1).permutation(len(data.y_train))[:n_rows]
    part = BenchmarkData(
        data.name, data.X_train[order], data.y_train[order], data.X_test, data.y_test, data.params
    )
    return judge(f"sample of {n_rows:,}", make_exact(data.params), part)


def judge(method: str, model: Any, data: BenchmarkData) -> Row:
    """Time a fit and predictions of the test rows, and say what a `DCSVC` chose."""
    Z, z = data.X_test[:TEST_ROWS], data.y_test[:TEST_ROWS]
    fit = time_call(lambda: model.fit(data.X_train, data.y_train), REPEATS, SHORT_SECONDS)
    predict = time_call(lambda: model.predict(Z), REPEATS, SHORT_SECONDS)
    return {
        "method": method,
        "rows": len(data.y_train),
        "fit (CPU s)": fit.cpu_seconds,
        "predict (CPU s)": predict.cpu_seconds,
        "accuracy (%)": 100.0 * float(np.mean(predict.value == z)),
        "uses": describe_choice(model),
    }


def describe_choice(model: Any) -> str:
    """Say what predicts in a fitted model."""
    if not isinstance(model, DCSVC) or model.level_ == 0:
        return "all rows" if isinstance(model, DCSVC) else ""
    n_clusters = model.levels_[-1].n_clusters
    if n_clusters == 1:
        return "a sample"
    return f"{n_clusters} clusters" + ("" if model._parts.background is None else " and a sample")


def warm_up(data: BenchmarkData) -> None:
    few = slice(0, 4000)
    for model in (make_exact(data.params), make_early(data.params, 2),
                  make_early(data.params, 2, **PAPER)):  # fmt: skip
        model.fit(data.X_train[few], data.y_train[few]).predict(data.X_test[:100])


def measure_letters() -> Iterator[Row]:
    """Letters (26 classes, 325 binary problems): early prediction at three levels, and exact."""
    for n_rows in (15_000, 30_000):
        data = load_rows("letters", n_rows)
        warm_up(data)
        yield judge("exact", make_exact(data.params), data)
        for level in (1, 2, 3):
            yield judge(f"ours, level {level}", make_early(data.params, level), data)


def measure_growth() -> Iterator[Row]:
    """Early prediction on covtype over three doublings of the rows, with 1,816 rows a cluster.

    The exponent is that of the seconds between two rows of the table.
    """
    before: Row | None = None
    for n_rows in GROWTH_ROWS:
        data = load_covtype("covtype", n_rows, TEST_ROWS)
        if before is None:
            warm_up(data)
        n_clusters = n_rows // CLUSTER_ROWS
        row = judge("ours", make_early(data.params, 1, n_clusters=n_clusters), data)
        if before is not None:
            ratios = [row[name] / before[name] for name in ("fit (CPU s)", "rows")]
            row["exponent"] = float(np.log(ratios[0]) / np.log(ratios[1]))
        before = row
        yield row


def measure_splits() -> Iterator[Row]:
    """Early prediction on five random splits of covtype: 464,810 training and 116,202 test rows."""
    rows: list[Row] = []
    for split in range(5):
        data = load_covtype("covtype", 464_810, 116_202, split)
        model = make_early(data.params, 3)
        fit = time_call(lambda model=model, data=data: model.fit(data.X_train, data.y_train))
        accuracy = 100.0 * float(np.mean(model.predict(data.X_test) == data.y_test))
        rows.append({"split": split, "fit (CPU s)": fit.cpu_seconds, "accuracy (%)": accuracy})
        yield rows[-1]
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    yield means | {"split": "mean"}


def measure_unseen() -> Iterator[Row]:
    """Early prediction with 64 clusters on sets on which no threshold of ours was chosen.

    The sample takes about as long to fit as ours.
    """
    for name in UNSEEN:
        data = load_unseen(name)
        warm_up(data)
        exact = judge("exact", make_exact(data.params), data)
        ours = judge("ours", make_early(data.params, 3), data)
        sample = measure_same_time(data, ours["fit (CPU s)"])
        yield {"data": f"{name}, {ours['rows']:,}"} | _compare(exact, ours, sample)


def _compare(exact: Row, ours: Row, sample: Row) -> Row:
    """Return accuracies and times of three ways to fit in one row."""
    row: Row = {}
    for title, measured in (("exact", exact), ("ours", ours), ("sample", sample)):
        row[f"{title} (%)"] = measured["accuracy (%)"]
        row[f"{title} (s)"] = measured["fit (CPU s)"]
    row["predict, ours / exact"] = ours["predict (CPU s)"] / exact["predict (CPU s)"]
    return row | {"ours uses": ours["uses"], "rows of the sample": sample["rows"]}


def summarise(measurements: list[dict[str, Any]]) -> list[Row]:
    """Return one row for each set: accuracy and seconds of every way to fit."""
    summary = []
    for measured in measurements:
        name = measured["experiment"].removeprefix("early-")
        if name not in SETS:
            continue
        rows = {row["method"]: row for row in measured["rows"]}
        ours, sample = rows["ours, 64 clusters"], rows["sample of the same time"]
        paper = rows["paper, 64 clusters"]
        line = {"data": f"{name}, {ours['rows']:,}"} | _compare(rows["exact"], ours, sample)
        line["paper (%)"], line["paper (s)"] = paper["accuracy (%)"], paper["fit (CPU s)"]
        summary.append(line)
    return summary


EXPERIMENTS: Experiments = {
    **{f"early-{name}": update_wrapper(partial(measure_set, name), measure_set) for name in SETS},
    "early-unseen": measure_unseen,
    "letters-levels": measure_letters,
    "covtype-growth": measure_growth,
    "covtype-early-splits": measure_splits,
}
