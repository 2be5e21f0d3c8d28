"""Searches of C and gamma: `KernelSVCCV` beside `GridSearchCV` with scikit-learn's `SVC`."""

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from benchmarks.datasets import load_dataset
from benchmarks.experiments import Experiments, Row
from benchmarks.records import BenchmarkData
from benchmarks.timing import time_call
from widemargin import KernelSVCCV
from widemargin.exact.search_grid import find_costs, find_gammas
from widemargin.kernels import RBF
from widemargin.validation import validate_problem

TITLE = "Tuning: measurements"
RESULTS = Path("benchmarks", "results", "tune.jsonl")

#: Folds, threads, and the cells of the grid along each axis that `SVC` is measured in.
FOLDS, THREADS, MEASURED = 5, 2, (1, 4, 8)
#: Set -> rows of the search.
SETS = {"covtype-20k": 5000, "mnist-20k": 2000}


def search_all() -> Iterator[Row]:
    """Searches of 10 x 10 cells with 5 folds.

    The grid is the one that `KernelSVCCV` finds; it is not extended. Both searches have two threads.
    `SVC` is fitted to one fold in nine of the cells, spread over the grid; its processor seconds are
    multiplied by 100 / 9 cells and by the folds. A ratio is one of processor seconds, so that other
    work on the machine does not count. Accuracies are those of the final model on the test rows.
    """
    for name, n_rows in SETS.items():
        yield compare(load_dataset(name), n_rows)


def compare(data: BenchmarkData, n_rows: int) -> Row:
    """Search with every cell on all rows, and with samples first."""
    X, y = data.X_train[:n_rows], data.y_train[:n_rows]
    warm_up(X, y)
    gammas, Cs = find_grid(X, y)
    row: Row = {"data": data.name, "rows": n_rows, "features": int(X.shape[1])}
    for search in ("grid", "halving"):
        model = KernelSVCCV(Cs=Cs, gammas=gammas, cv=FOLDS, search=search, n_jobs=THREADS)
        timing = time_call(lambda model=model: model.fit(X, y))
        row[f"{search} s"] = timing.seconds
        row[f"{search} CPU s"] = timing.cpu_seconds
        row[f"{search} accuracy"] = 100.0 * float(model.score(data.X_test, data.y_test))
    row["SVC CPU s (estimated)"] = estimate_peer(X, y, Cs, gammas)
    row["SVC / grid"] = row["SVC CPU s (estimated)"] / row["grid CPU s"]
    row["SVC / halving"] = row["SVC CPU s (estimated)"] / row["halving CPU s"]
    return row


def find_grid(X: Any, y: Any) -> tuple[Any, Any]:
    """The values of gamma and C that a search finds from the data."""
    problem = validate_problem(KernelSVCCV(), X, y, None, None, precomputed=False)
    kernel = RBF(1.0)
    return find_gammas(kernel, problem, 10, 0), find_costs(kernel, problem, 10, 0, 1.0)


def warm_up(X: Any, y: Any) -> None:
    """Compile what the searches use, which is kept on disk for later processes."""
    KernelSVCCV(Cs=[1.0, 100.0], gammas=[0.1, 1.0], cv=2, search="grid", refit=False).fit(X, y)


def estimate_peer(X: Any, y: Any, Cs: Any, gammas: Any) -> float:
    """Processor seconds of a search with `SVC`, from one fold of some cells."""
    train, test = next(StratifiedKFold(FOLDS).split(X, y))
    began = time.process_time()
    for c, g in product(MEASURED, MEASURED):
        SVC(C=Cs[c], gamma=gammas[g]).fit(X[train], y[train]).predict(X[test])
    n_cells = len(Cs) * len(gammas)
    return (time.process_time() - began) * FOLDS * n_cells / len(MEASURED) ** 2


EXPERIMENTS: Experiments = {"search": search_all}
