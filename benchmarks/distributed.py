"""What a Dask cluster costs and saves: overhead, scaling, memory, the optimum, predictions.

``python -m benchmarks.distributed run [name ...]`` measures, and replaces what the file
``benchmarks/results/distributed.jsonl`` holds for these experiments; ``--rows N`` measures on other
numbers of rows, and keeps them only with ``--keep``. ``python -m benchmarks render --only families``
fills the tables of ``docs/distributed.md``. The cluster is a `LocalCluster` with one thread and 2 GB
for each worker.

Processor seconds are those of the client, which also runs the scheduler, and of the workers. *Tasks*
are the threads of the workers that run tasks, the rest is Dask itself. On a machine that others use
too they say more than wall seconds. *Critical* is the client and the busiest worker, one after the
other: the wall seconds that a machine with a core for every process would need at most.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy.optimize import nnls

from benchmarks.deformed_digits import deform_digits
from benchmarks.experiments import render_rows
from benchmarks.machine import describe_machine
from benchmarks.papers.sets import load_set
from benchmarks.storage import read_measurements, write_measurements
from benchmarks.timing import read_peak_rss
from distributed import Client, LocalCluster, wait
from widemargin import DCSVC
from widemargin.distributed import DaskAdditiveSVC, DaskDCSVC

TITLE = "Fits on a Dask cluster"
RESULTS = Path("benchmarks", "results", "distributed.jsonl")
#: Workers of most experiments, each with one thread.
N_WORKERS = 2
#: Features and rows of a chunk of the synthetic set, its parameters, and rows per cluster.
N_FEATURES, CHUNK_ROWS, CLUSTER_ROWS = 50, 50_000, 7812
#: Sampled rows for each cluster, and in all at least.
SAMPLED_PER_CLUSTER, LEAST_SAMPLE = 8, 1000
SYNTHETIC = {"C": 10.0, "gamma": 0.005, "n_levels": 1, "stop_level": 1, "background": 0}
EARLY = {"n_levels": 3, "stop_level": 3}
#: Rows of a chunk of digits, and their parameters.
DIGIT_ROWS = 20_000
DIGITS = {"C": 1.0, "gamma": 2.0**-21, "n_levels": 1, "stop_level": 1, "background": 0}
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
        DaskDCSVC(**suit(SYNTHETIC, 4000), client=client).fit(*make_synthetic(4000, 1000))
        yield client


def suit(params: Row, n_rows: int) -> Row:
    """Parameters with clusters of `CLUSTER_ROWS` rows, and some sampled rows for each."""
    n_clusters = max(4, round(n_rows / CLUSTER_ROWS))
    sample_size = max(LEAST_SAMPLE, SAMPLED_PER_CLUSTER * n_clusters)
    return {**params, "n_clusters": n_clusters, "sample_size": sample_size}


def make_synthetic(n_rows: int, chunk_rows: int = CHUNK_ROWS, seed: int = 0) -> tuple[Any, Any]:
    """Rows made by the workers: Gaussian features, and a curved boundary in the first ten."""
    X = da.random.default_rng(seed).normal(
        size=(n_rows, N_FEATURES), chunks=(chunk_rows, N_FEATURES)
    )
    X = X.astype(np.float32)
    score = X[:, :10].sum(axis=1) + 0.5 * X[:, 0] * X[:, 1]
    return X, (score > 0).astype(np.int64)


def make_digits(n_rows: int) -> tuple[Any, Any]:
    """Digits of mnist made by the workers, shifted, scaled and turned at random; pixels of a byte."""
    sizes = [min(DIGIT_ROWS, n_rows - start) for start in range(0, n_rows, DIGIT_ROWS)]
    parts = [dask.delayed(deform_digits)(n, seed, pure=True) for seed, n in enumerate(sizes)]
    X = [da.from_delayed(part[0], (n, 784), np.uint8) for part, n in zip(parts, sizes, strict=True)]
    y = [da.from_delayed(part[1], (n,), np.int64) for part, n in zip(parts, sizes, strict=True)]
    return da.concatenate(X), da.concatenate(y)


def read_task_seconds(dask_worker: Any) -> float:
    """Processor seconds of the threads of a worker that run tasks."""
    threads = dask_worker.executors["default"]._threads
    return sum(time.clock_gettime(time.pthread_getcpuclockid(thread.ident)) for thread in threads)


def read_usage(client: Client) -> dict[str, Any]:
    """Processor seconds and peak memory of the client and of every worker so far."""
    return {
        "client": time.process_time(),
        "workers": client.run(time.process_time),
        "tasks": sum(client.run(read_task_seconds).values()),
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
    of_client = after["client"] - before["client"]
    return value, {
        "wall (s)": seconds,
        "all (CPU s)": sum(each) + of_client,
        "tasks (CPU s)": after["tasks"] - before["tasks"],
        "client (CPU s)": of_client,
        "busiest worker (CPU s)": max(each),
        "critical (CPU s)": max(each) + of_client,
        "peak client (MB)": after["peak client"] / 1e6,
        "peak worker (MB)": after["peak workers"] / 1e6,
        "workers restarted": len(
            set(after["n workers"].values()) - set(before["n workers"].values())
        ),
    }


def measure_local(function: Callable[[], Any]) -> tuple[Any, Row]:
    """Call a function in this process, and tell what it cost."""
    began, cpu = time.perf_counter(), time.process_time()
    value = function()
    seconds = time.process_time() - cpu
    return value, {
        "wall (s)": time.perf_counter() - began, "all (CPU s)": seconds, "tasks (CPU s)": seconds,
    }  # fmt: skip


def as_collections(X: Any, y: Any, n_chunks: int = 8) -> tuple[Any, Any]:
    rows = -(-len(y) // n_chunks)
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)


def run_overhead(n_rows: int = 464_810) -> Iterator[Row]:
    """Data covtype, early, 64 clusters: `DCSVC(n_jobs=2)` and `DaskDCSVC` on two workers, in turns."""
    data = load_set("covtype", n_rows)
    params = {**data.params, **EARLY}
    X, y = data.X_train, data.y_train
    with open_cluster(N_WORKERS) as client:
        blocks = client.persist(as_collections(X, y))
        DCSVC(**params, n_jobs=2).fit(X[:5000], y[:5000])
        for _ in range(2):
            local, took = measure_local(lambda: DCSVC(**params, n_jobs=2).fit(X, y))
            accuracy = 100.0 * local.score(data.X_test[:20_000], data.y_test[:20_000])
            yield {"method": "DCSVC(n_jobs=2)", "rows": len(y), **took, "accuracy (%)": accuracy}
            model, row = measure(client, lambda: DaskDCSVC(**params, client=client).fit(*blocks))
            accuracy = 100.0 * model.score(data.X_test[:20_000], data.y_test[:20_000])
            yield {
                "method": "DaskDCSVC, 2 workers", "rows": len(y), **row,
                "all / DCSVC": row["all (CPU s)"] / took["all (CPU s)"],
                "tasks / DCSVC": row["tasks (CPU s)"] / took["all (CPU s)"],
                "accuracy (%)": accuracy,
            }  # fmt: skip


def run_scaling(n_rows: int = 500_000) -> Iterator[Row]:
    """Synthetic set of 50 features, early: one worker and two, the same rows and half of them.

    Speed is the ratio of critical processor seconds to those of the first row, for as many rows;
    speed by the clock that of wall seconds, which count on a machine without other work.
    """
    speeds = {"speed": "critical (CPU s)", "speed by the clock": "wall (s)"}
    first: dict[str, float] = {}
    for n_workers, rows in ((1, n_rows), (2, n_rows), (1, n_rows // 2)):
        with open_cluster(n_workers) as client:
            X, y = client.persist(make_synthetic(rows))
            wait([X, y])
            model = DaskDCSVC(**suit(SYNTHETIC, n_rows), client=client)
            _, row = measure(client, lambda model=model, X=X, y=y: model.fit(X, y))
            paces = {speed: rows / row[seconds] for speed, seconds in speeds.items()}
            first = first or paces
            relative = {speed: pace / first[speed] for speed, pace in paces.items()}
            yield {"workers": n_workers, "rows": rows, **row, **relative}


def run_growth(sizes: tuple[int, ...] = (125_000, 250_000, 500_000)) -> Iterator[Row]:
    """Synthetic set, early, clusters of 7,800 rows, rows made by two workers."""
    for rows in sizes:
        yield fit_made(rows)


def run_memory(n_rows: int = 2_000_000) -> Iterator[Row]:
    """Synthetic set of 50 features, early, rows made by two workers: memory of client and workers."""
    yield fit_made(n_rows)


def fit_made(n_rows: int) -> Row:
    """Fit the synthetic set, made by two workers."""
    with open_cluster(N_WORKERS) as client:
        X, y = make_synthetic(n_rows)
        params = suit(SYNTHETIC, n_rows)
        model = DaskDCSVC(**params, client=client)
        _, row = measure(client, lambda: model.fit(X, y))
        test = make_synthetic(20_000, 20_000, seed=1)
        return {
            "rows": n_rows, "clusters": params["n_clusters"], "data (MB)": 4e-6 * n_rows * N_FEATURES,
            **row, "support vectors": len(model.support_),
            "accuracy (%)": 100.0 * model.score(*test),
        }  # fmt: skip


def run_digits(n_rows: int = 2_000_000) -> Iterator[Row]:
    """Deformed digits, round ones against others, early, made by two workers: memory of all."""
    with open_cluster(N_WORKERS) as client:
        X, y = make_digits(n_rows)
        params = suit(DIGITS, n_rows)
        model = DaskDCSVC(**params, client=client)
        _, row = measure(client, lambda: model.fit(X, y))
        test = as_collections(*deform_digits(10_000, 10**6), n_chunks=4)
        accuracy, scored = measure(client, lambda: model.score(*test))
        yield {
            "rows": n_rows, "clusters": params["n_clusters"], "data (MB)": 784e-6 * n_rows,
            **row, "support vectors": len(model.support_), "accuracy (%)": 100.0 * accuracy,
            "predicting: all (CPU s)": scored["all (CPU s)"],
            "predicting: peak client (MB)": scored["peak client (MB)"],
            "predicting: peak worker (MB)": scored["peak worker (MB)"],
            "predicting: workers restarted": scored["workers restarted"],
        }  # fmt: skip


def run_additive(n_rows: int = 2_000_000) -> Iterator[Row]:
    """Deformed digits, `DaskAdditiveSVC` with the chi2 kernel, made by two workers."""
    with open_cluster(N_WORKERS) as client:
        X, y = make_digits(n_rows)
        model = DaskAdditiveSVC(client=client)
        _, row = measure(client, lambda: model.fit(X, y))
        test = deform_digits(10_000, 10**6)
        yield {
            "rows": n_rows, "data (MB)": 784e-6 * n_rows, **row, "passes": int(np.max(model.n_iter_)),
            "accuracy (%)": 100.0 * model.score(*test),
        }  # fmt: skip


def run_predict(n_rows: int = 10_000_000) -> Iterator[Row]:
    """Synthetic set, early model of 100,000 rows: lazy predictions of rows made by two workers."""
    with open_cluster(N_WORKERS) as client:
        model = DaskDCSVC(**suit(SYNTHETIC, 100_000), client=client)
        model.fit(*make_synthetic(100_000))
        X, _ = make_synthetic(n_rows)
        ones, row = measure(client, lambda: int(model.predict(X).sum().compute()))
        yield {
            "rows": n_rows, "data (MB)": 4e-6 * n_rows * N_FEATURES, **row,
            "share of class 1 (%)": 100.0 * ones / n_rows,
        }  # fmt: skip


def run_exact(sizes: tuple[int, ...] = (20_000, 50_000)) -> Iterator[Row]:
    """Data covtype, the optimum: objective of `DCSVC` and of `DaskDCSVC` on two workers."""
    for n_rows in sizes:
        data = load_set("covtype", n_rows)
        X, y = data.X_train, data.y_train
        with open_cluster(N_WORKERS) as client:
            local, took = measure_local(lambda: DCSVC(**data.params, n_jobs=2).fit(X, y))  # noqa: B023
            yield {
                "method": "DCSVC(n_jobs=2)", "rows": len(y), **took, "objective": local.objective_,
            }  # fmt: skip
            model = DaskDCSVC(**data.params, client=client)
            _, row = measure(client, lambda: model.fit(*as_collections(X, y)))  # noqa: B023
            yield {
                "method": "DaskDCSVC, 2 workers", "rows": len(y), **row,
                "objective": model.objective_,
                "relative difference": abs(model.objective_ / local.objective_ - 1.0),
                "violation": model.violation_,
            }  # fmt: skip


def estimate_cost(measurements: list[dict[str, Any]]) -> list[Row]:
    """A model of the cost of an early fit with clusters of a fixed size.

    A row costs a fixed time to make, move and solve, and a time for every sampled row with which it
    is compared to find its cluster. The largest of the growth is not fitted, but checks the model.
    """
    rows = {m["experiment"]: m["rows"] for m in measurements}
    if "growth" not in rows or "memory" not in rows:
        return []
    points = [*rows["growth"], *rows["memory"]]
    sizes = np.array([row["rows"] for row in points], np.float64)
    seconds = np.array([row["all (CPU s)"] for row in points])
    is_fitted = np.arange(len(points)) != len(rows["growth"]) - 1
    factors, _ = nnls(
        (_count_work(sizes) / seconds[:, None])[is_fitted], np.ones(np.count_nonzero(is_fitted))
    )
    asked = np.array([*sizes, 1e6, 1e7, 1e8])
    model = _count_work(asked) @ factors
    return [
        {
            "rows": int(n), "clusters": int(_count_clusters(n)),
            "sampled rows": int(_count_work(n)[1] / n),
            "measured (CPU s)": float(seconds[k]) if k < len(points) else None,
            "model (CPU s)": float(model[k]),
            "model of rows alone (CPU s)": float(factors[0] * n),
            "rows (GB)": float(4e-9 * n * N_FEATURES),
        }
        for k, n in enumerate(asked)
    ]  # fmt: skip


def _count_clusters(n_rows: Any) -> Any:
    return np.maximum(4, np.round(np.asarray(n_rows) / CLUSTER_ROWS))


def _count_work(n_rows: Any) -> Any:
    """Number of rows, and of comparisons of rows with sampled rows."""
    n_rows = np.asarray(n_rows, np.float64)
    sampled = np.maximum(LEAST_SAMPLE, SAMPLED_PER_CLUSTER * _count_clusters(n_rows))
    return np.stack([n_rows, n_rows * sampled], axis=-1)


EXPERIMENTS: dict[str, Callable[..., Iterator[Row]]] = {
    "overhead": run_overhead,
    "growth": run_growth,
    "memory": run_memory,
    "scaling": run_scaling,
    "exact": run_exact,
    "predict": run_predict,
    "additive": run_additive,
    "digits": run_digits,
}


def run(names: list[str], rows: list[int] | None, is_kept: bool) -> None:
    """Measure each experiment in a process of its own: its peak of memory is that of the process."""
    for name in names:
        process = get_context("spawn").Process(target=run_one, args=(name, rows, is_kept))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


def run_one(name: str, rows: list[int] | None, is_kept: bool) -> None:
    """Measure an experiment, and keep what was measured."""
    machine, done = describe_machine(), []
    takes_several = name in ("growth", "exact")
    given = () if rows is None else ((tuple(rows),) if takes_several else (rows[0],))
    for row in EXPERIMENTS[name](*given):
        print(name, row, file=sys.stderr, flush=True)
        done.append(row)
        if is_kept:
            kept = [m for m in read_measurements(RESULTS) if m["experiment"] != name]
            measured = {"experiment": name, "rows": done, "machine": machine}
            write_measurements(RESULTS, [*kept, measured])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    if given.command == "table":
        for measured in read_measurements(RESULTS):
            print(measured["experiment"], *render_rows(measured["rows"]), "", sep="\n")
    else:
        is_kept = given.keep or given.rows is None
        run(given.names or list(EXPERIMENTS), given.rows, is_kept)
