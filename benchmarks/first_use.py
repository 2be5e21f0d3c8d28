"""``python -m benchmarks firstuse``: a first fit that compiles, and first fits that load the code."""

import argparse
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np

from benchmarks.arguments import list_of
from benchmarks.harness import Job, Record, run_job
from benchmarks.storage import append_measurement
from benchmarks.timing import time_call

RESULTS = Path("benchmarks", "results", "first_use.jsonl")
ESTIMATORS = ("KernelSVC", "DCSVC", "AdditiveSVC", "ProjectedSVC")
N_ROWS, N_FEATURES = 5000, 5


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "firstuse", help="the first fit of a process, with an empty cache and a filled one"
    )
    parser.set_defaults(command=run_first_use)
    parser.add_argument("--estimators", type=list_of(ESTIMATORS), default=("KernelSVC",))
    parser.add_argument("--repeats", type=int, default=3, help="processes that load the code")
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--output", type=Path, default=RESULTS)


def run_first_use(options: argparse.Namespace) -> int:
    """Measure each estimator with a cache of its own, which is empty at first."""
    for name in options.estimators:
        with tempfile.TemporaryDirectory() as folder:
            job = Job(
                "benchmarks.first_use:fit_first",
                {"estimator": name, "n_rows": options.rows},
                threads=1,
                environment={"NUMBA_CACHE_DIR": folder, "WIDEMARGIN_QUIET": "1"},
            )
            for run in range(1 + options.repeats):
                outcome = run_job(job, label=name)
                record = outcome.records[0] | {"cache": "filled" if run else "empty"}
                append_measurement(options.output, record | {"machine": outcome.machine})
                print(describe(record), flush=True)
    return 0


def fit_first(estimator: str, n_rows: int) -> Iterator[Record]:
    """Fit and predict twice in a fresh process; imports are measured apart."""
    imports = [
        time_call(lambda name=name: import_module(name)).cpu_seconds
        for name in ("numba", "sklearn.svm")
    ]
    import widemargin

    ours = time_call(lambda: getattr(widemargin, estimator))
    X = np.random.default_rng(0).random((n_rows, N_FEATURES))
    y = (X[:, 0] - 0.5) * (X[:, 1] - 0.5) > 0
    first, second = (
        time_call(lambda: ours.value(random_state=0).fit(X, y).predict(X)) for _ in range(2)
    )
    from widemargin.compilation import compilation

    yield {
        "estimator": estimator,
        "n_rows": n_rows,
        "n_compiled": len(compilation.functions),
        "import_numba_cpu_seconds": imports[0],
        "import_sklearn_cpu_seconds": imports[1],
        "import_widemargin_cpu_seconds": ours.cpu_seconds,
        "first_cpu_seconds": first.cpu_seconds,
        "first_seconds": first.seconds,
        "second_cpu_seconds": second.cpu_seconds,
    }


def describe(record: Record) -> str:
    """One line for a process."""
    return (
        f"{record['estimator']}, {record['cache']} cache: first fit "
        f"{record['first_cpu_seconds']:.2f} s of CPU, second {record['second_cpu_seconds']:.2f} s, "
        f"{record['n_compiled']} functions compiled"
    )
