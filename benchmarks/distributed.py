"""What a Dask cluster costs and saves: overhead, scaling, memory, the optimum, predictions.

``python -m benchmarks.distributed run [name ...]`` measures and appends to the file
``benchmarks/results/distributed.jsonl``; ``--rows N`` measures on fewer rows. ``python -m
benchmarks.distributed table`` prints the tables. The cluster is a `LocalCluster` with one thread and
2 GB for each worker. Processor seconds are those of the client, which also runs the scheduler, and of
each worker: on a machine that others use too, they say more than wall seconds.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

from benchmarks.experiments import render_rows
from benchmarks.machine import describe_machine
from benchmarks.papers.sets import load_set
from benchmarks.timing import read_peak_rss
from distributed import Client, LocalCluster
from widemargin import DCSVC
from widemargin.distributed import DaskDCSVC

RESULTS = Path("benchmarks", "results", "distributed.jsonl")
#: Features and rows of a chunk of the synthetic set, and its parameters.
N_FEATURES, CHUNK_ROWS = 50, 50_000
SYNTHETIC = {"C": 1.0, "gamma": 0.02, "n_levels": 3, "stop_level": 3}
EARLY = {"n_levels": 3, "stop_level": 3}
Row = dict[str, Any]


@contextmanager
def open_cluster(n_workers: int) -> Iterator[Client]:
    """A cluster whose workers have compiled and imported what they need."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, memory_limit="2 GB", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        X, y = make_synthetic(4000, 1000)
        DaskDCSVC(**SYNTHETIC, client=client).fit(X, y)
        yield client


def make_synthetic(n_rows: int, chunk_rows: int = CHUNK_ROWS) -> tuple[Any, Any]:
    """Rows made by the workers: Gaussian features, and a curved boundary in the first five."""
    X = da.random.default_rng(0).normal(size=(n_rows, N_FEATURES), chunks=(chunk_rows, N_FEATURES))
    X = X.astype(np.float32)
    score = X[:, 0] * X[:, 1] + X[:, 2] ** 2 + np.sin(2 * X[:, 3]) + X[:, 4] - 1.0
    return X, (score > 0).astype(np.int64)


def read_usage(client: Client) -> dict[str, Any]:
    """Processor seconds and peak memory of the client and of every worker so far."""
    return {
        "client": time.process_time(),
        "workers": client.run(time.process_time),
        "peak client": read_peak_rss(),
        "peak workers": max(client.run(read_peak_rss).values()),
        "n workers": client.run(lambda dask_worker: dask_worker.id),
    }


def measure(client: Client, function: Callable[[], Any]) -> tuple[Any, Row]:
    """Call a function, and tell what it cost client and workers."""
    before, began = read_usage(client), time.perf_counter()
    value = function()
    seconds, after = time.perf_counter() - began, read_usage(client)
    each = [after["workers"][name] - before["workers"].get(name, 0.0) for name in after["workers"]]
    return value, {
        "wall (s)": seconds,
        "client (CPU s)": after["client"] - before["client"],
        "busiest worker (CPU s)": max(each),
        "all (CPU s)": sum(each) + after["client"] - before["client"],
        "peak client (MB)": after["peak client"] / 1e6,
        "peak worker (MB)": after["peak workers"] / 1e6,
        "workers restarted": len(
            set(after["n workers"].values()) - set(before["n workers"].values())
        ),
    }


def as_collections(X: Any, y: Any, n_chunks: int = 8) -> tuple[Any, Any]:
    rows = -(-len(y) // n_chunks)
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)


def run_overhead(n_rows: int) -> Iterator[Row]:
    """Data covtype, early: `DCSVC(n_jobs=2)` and `DaskDCSVC` on two workers, in turns."""
    data = load_set("covtype", n_rows)
    params = {**data.params, **EARLY}
    X, y = data.X_train, data.y_train
    with open_cluster(2) as client:
        X_blocks, y_blocks = client.persist(as_collections(X, y))
        DCSVC(**params, n_jobs=2).fit(X[:5000], y[:5000])
        for _ in range(2):
            began, cpu = time.perf_counter(), time.process_time()
            local = DCSVC(**params, n_jobs=2).fit(X, y)
            took = {
                "wall (s)": time.perf_counter() - began,
                "all (CPU s)": time.process_time() - cpu,
            }
            accuracy = 100.0 * local.score(data.X_test[:20_000], data.y_test[:20_000])
            yield {"method": "DCSVC(n_jobs=2)", "rows": len(y), **took, "accuracy (%)": accuracy}
            model = DaskDCSVC(**params, client=client)
            _, row = measure(client, lambda model=model: model.fit(X_blocks, y_blocks))
            accuracy = 100.0 * model.score(data.X_test[:20_000], data.y_test[:20_000])
            yield {
                "method": "DaskDCSVC, 2 workers",
                "rows": len(y),
                **row,
                "accuracy (%)": accuracy,
            }


def run_scaling(n_rows: int) -> Iterator[Row]:
    """Synthetic set of 50 features, early: one worker and two, the same rows and half of them."""
    for n_workers, rows in ((1, n_rows), (2, n_rows), (1, n_rows // 2)):
        with open_cluster(n_workers) as client:
            X, y = make_synthetic(rows)
            X, y = client.persist((X, y))
            model = DaskDCSVC(**SYNTHETIC, client=client)
            _, row = measure(client, lambda model=model, X=X, y=y: model.fit(X, y))
            yield {"workers": n_workers, "rows": rows, **row}


def run_memory(n_rows: int) -> Iterator[Row]:
    """Synthetic set, early, rows made by two workers: memory of the client and of the workers."""
    with open_cluster(2) as client:
        X, y = make_synthetic(n_rows)
        model = DaskDCSVC(**SYNTHETIC, client=client)
        _, row = measure(client, lambda: model.fit(X, y))
        test_X, test_y = make_synthetic(20_000, 20_000)
        yield {
            "rows": n_rows, "data (MB)": 4e-6 * n_rows * N_FEATURES, **row,
            "support vectors": len(model.support_),
            "accuracy (%)": 100.0 * model.score(test_X, test_y),
        }  # fmt: skip


def run_predict(n_rows: int) -> Iterator[Row]:
    """Synthetic set, early model of 100,000 rows: predictions of rows made by two workers."""
    with open_cluster(2) as client:
        model = DaskDCSVC(**SYNTHETIC, client=client).fit(*make_synthetic(100_000))
        X, _ = make_synthetic(n_rows)
        ones, row = measure(client, lambda: int(model.predict(X).sum().compute()))
        yield {"rows": n_rows, **row, "share of class 1 (%)": 100.0 * ones / n_rows}


def run_exact(n_rows: int) -> Iterator[Row]:
    """Data covtype, the optimum: objective of `DCSVC` and of `DaskDCSVC` on two workers."""
    data = load_set("covtype", n_rows)
    X, y = data.X_train, data.y_train
    with open_cluster(2) as client:
        began, cpu = time.perf_counter(), time.process_time()
        local = DCSVC(**data.params, n_jobs=2).fit(X, y)
        took = {"wall (s)": time.perf_counter() - began, "all (CPU s)": time.process_time() - cpu}
        yield {"method": "DCSVC(n_jobs=2)", "rows": len(y), **took, "objective": local.objective_}
        model = DaskDCSVC(**data.params, client=client, verbose=2)
        _, row = measure(client, lambda: model.fit(*as_collections(X, y)))
        apart = abs(model.objective_ / local.objective_ - 1.0)
        yield {
            "method": "DaskDCSVC, 2 workers", "rows": len(y), **row, "objective": model.objective_,
            "relative difference": apart, "violation": model.violation_,
        }  # fmt: skip


EXPERIMENTS: dict[str, tuple[Callable[[int], Iterator[Row]], int]] = {
    "overhead": (run_overhead, 464_810),
    "scaling": (run_scaling, 500_000),
    "memory": (run_memory, 2_000_000),
    "predict": (run_predict, 10_000_000),
    "exact": (run_exact, 464_810),
}


def run(names: list[str], rows: int | None) -> None:
    machine = describe_machine()
    for name in names:
        function, usual = EXPERIMENTS[name]
        for row in function(rows or usual):
            print(name, row, file=sys.stderr, flush=True)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"experiment": name, **row, "machine": machine}) + "\n")


def show_tables() -> str:
    """The tables of all measurements on file."""
    found: dict[str, list[Row]] = {}
    for line in RESULTS.read_text("utf-8").splitlines():
        row = json.loads(line)
        del row["machine"]
        found.setdefault(row.pop("experiment"), []).append(row)
    parts = []
    for name, rows in found.items():
        parts += [f"## {name}", "", str(EXPERIMENTS[name][0].__doc__), "", *render_rows(rows), ""]
    return "\n".join(parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--rows", type=int)
    given = parser.parse_args()
    if given.command == "table":
        print(show_tables())
    else:
        run(given.names or list(EXPERIMENTS), given.rows)
