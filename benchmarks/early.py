"""When does early prediction pay? Error against time on six sets.

``python -m benchmarks.early run [set ...]`` measures and appends to the file
``benchmarks/results/early.jsonl``; ``python -m benchmarks.early draw`` makes ``docs/early.png`` and
prints the table of the page. Times are seconds of CPU of one thread, so that other work on the machine
matters less.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe_machine
from benchmarks.papers.sets import load_set
from benchmarks.records import BenchmarkData
from benchmarks.settings import TOL
from widemargin import DCSVC, KernelSVC
from widemargin.divide import PAPER

RESULTS = Path("benchmarks", "results", "early.jsonl")
PICTURE = Path("docs", "early.png")
#: Training rows of each set, and test rows of all.
SETS = {
    "covtype": 50_000, "ijcnn1": 49_990, "census": 50_000, "mnist": 20_000, "cifar": 10_000,
    "gauss": 60_000,
}  # fmt: skip
TEST_ROWS = 20_000
#: Rows of random samples that are solved exactly, the method that early prediction must beat.
SAMPLES = (2500, 5000, 10_000)
Row = dict[str, Any]


def make_gauss(n_rows: int) -> BenchmarkData:
    """Twenty Gaussian features without clusters, and a label that all of them decide with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows + TEST_ROWS, 20)).astype(np.float32)
    score = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + np.sin(2 * X[:, 4])
    score += 0.5 * X @ rng.normal(size=20) + 0.5 * rng.normal(size=len(X))
    y = np.where(score > 0, 1, -1)
    params = {"C": 1.0, "gamma": 0.05}
    return BenchmarkData("gauss", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], params)


def load_rows(name: str) -> BenchmarkData:
    return make_gauss(SETS[name]) if name == "gauss" else load_set(name, SETS[name])


def list_models(params: dict[str, Any]) -> Iterator[tuple[str, Any, int | None]]:
    """Name, model and number of training rows (None for all) of every measurement."""
    exact = {**params, "tol": TOL, "fit_intercept": False, "n_jobs": 1}
    for n in SAMPLES:
        yield f"sample of {n:,}", KernelSVC(**exact), n
    for level in (3, 2):
        early = {**params, "tol": TOL, "n_jobs": 1, "n_levels": level, "stop_level": level}
        ours = {**early, "skip_levels": False}
        yield f"paper, {4**level} clusters", DCSVC(**early, **PAPER), None
        yield (
            f"Eq. 11, {4**level} clusters",
            DCSVC(**ours, background=0, overlap=0, n_nearest=1),
            None,
        )
        yield f"ours, {4**level} clusters", DCSVC(**ours), None
    yield "exact", KernelSVC(**exact), None


def measure(name: str) -> Iterator[Row]:
    data = load_rows(name)
    X, y = data.X_train, data.y_train
    Z, z = data.X_test[:TEST_ROWS], data.y_test[:TEST_ROWS]
    order = np.random.default_rng(1).permutation(len(y))
    for _, model, _ in list_models(data.params):
        model.fit(X[order[:2000]], y[order[:2000]]).predict(Z[:100])
    for method, model, n in list_models(data.params):
        rows = order[:n] if n is not None else slice(None)
        began = time.process_time()
        model.fit(X[rows], y[rows])
        fitted = time.process_time()
        labels = model.predict(Z)
        yield {
            "set": name,
            "rows": len(y),
            "method": method,
            "fit (CPU s)": fitted - began,
            "predict (CPU s)": time.process_time() - fitted,
            "accuracy (%)": 100.0 * float(np.mean(labels == z)),
        }


def run(names: list[str]) -> None:
    machine = describe_machine()
    for name in names:
        for row in measure(name):
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**row, "machine": machine}) + "\n")


def read_rows() -> dict[str, dict[str, Row]]:
    """Return the last measurement of every method on every set."""
    found: dict[str, dict[str, Row]] = {}
    for line in RESULTS.read_text("utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["set"], {})[row["method"]] = row
    return found


def draw() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    found = read_rows()
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), constrained_layout=True)
    kinds = {"exact": "k*", "sample": "C7.--", "paper": "C0s:", "Eq. 11": "C1^:", "ours": "C3o-"}
    for axis, (name, rows) in zip(axes.flat, found.items(), strict=False):
        for kind, style in kinds.items():
            mine = [row for method, row in rows.items() if method.startswith(kind)]
            x = [row["fit (CPU s)"] for row in mine]
            axis.plot(x, [100.0 - row["accuracy (%)"] for row in mine], style, label=kind)
        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(f"{name}, {next(iter(rows.values()))['rows']:,} rows")
        axis.set_xlabel("fit, CPU seconds")
        axis.set_ylabel("test error, %")
    axes.flat[0].legend()
    figure.savefig(PICTURE, dpi=80)


def print_table() -> None:
    """Print accuracy and CPU seconds to fit of every method, a row for each set."""
    found = read_rows()
    methods = list(next(iter(found.values())))
    print("| data | " + " | ".join(methods) + " |")
    print("| --- |" + " --- |" * len(methods))
    for name, rows in found.items():
        cells = [
            f"{rows[m]['accuracy (%)']:.2f}, {rows[m]['fit (CPU s)']:.2g} s" if m in rows else ""
            for m in methods
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    command, *names = sys.argv[1:]
    if command == "run":
        run(names or list(SETS))
    else:
        draw()
        print_table()
