"""Curves and pairs of features: additive SVMs beside explainable boosting machines.

``python -m benchmarks pairs`` runs the experiment of every data set in a process of its own, on one
thread, and keeps its rows in ``benchmarks/results/pairs.jsonl``; ``--resume`` leaves out what is there.
The peer is ``ExplainableBoostingClassifier`` of the package interpret-core (``pip install
interpret-core``) with its default parameters.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from benchmarks.experiments import Experiments, Row
from benchmarks.pairs_data import SETS, Table
from benchmarks.pairs_models import OURS, as_dense, fit_boosting, fit_ebm
from benchmarks.timing import CpuLimitError, limit_cpu, time_call
from widemargin.additive.pair_choice import SAMPLE_ROWS

TITLE = "Curves and pairs of features: measurements"
RESULTS = Path("benchmarks", "results", "pairs.jsonl")
#: Processor seconds after which a fit is stopped.
MAX_SECONDS = 600.0
#: Fits of fewer seconds are repeated, and the least time counts.
SHORT_SECONDS, REPEATS = 1.0, 3
#: Name -> how a model is fitted, in the order of the tables.
METHODS: dict[str, Callable[[Table], Any]] = OURS | {
    "EBM curves": partial(fit_ebm, 0),
    "EBM": partial(fit_ebm, "3x"),
    "boosting": fit_boosting,
}
#: Tables of the guide: their names, what they show, and how this is named in the experiments.
SUMMARIES = {"accuracy": "accuracy (%)", "log-loss": "log loss", "seconds": "fit (s)"}
#: Ratios of the table of seconds: the peer whose seconds are divided by those of ours.
RATIOS = (("EBM curves", "curves"), ("EBM", "few pairs"), ("EBM", "all pairs"))
STOPPED = "stopped"


def run_set(name: str) -> Iterator[Row]:
    """Accuracy and log loss on test rows, and processor seconds of a fit on one thread.

    Small tables are divided three times at random, with 40 % of the rows for testing, and the numbers
    are means. Seconds include all choices and the calibration of probabilities. A fit is stopped after
    600 seconds.
    """
    warnings.simplefilter("ignore")
    tables = list(SETS[name]())
    n_rows, n_features = tables[0].X.shape
    with threadpool_limits(1):
        _compile(tables[0])
        for method, fit in METHODS.items():
            found = [_judge(fit, table) for table in tables]
            row: Row = {"method": method, "rows": n_rows, "features": n_features}
            if any(judged is None for judged in found):
                yield row | {"outcome": STOPPED}
            else:
                yield row | {key: float(np.mean([f[key] for f in found])) for key in found[0]}


def _compile(table: Table) -> None:
    """Fit models of ours to few rows, so that compilation is not timed."""
    for n_rows in (200, SAMPLE_ROWS + 500):
        few = Table(table.X[:n_rows], table.y[:n_rows], None, None, table.categories)
        for fit in OURS.values():
            fit(few)


def _judge(fit: Callable[[Table], Any], table: Table) -> Row | None:
    """Judge a fitted model; None if its fit was stopped."""
    try:
        with limit_cpu(MAX_SECONDS):
            timing = time_call(lambda: fit(table), REPEATS, SHORT_SECONDS)
    except CpuLimitError:
        return None
    Z = table.Z if fit in OURS.values() else as_dense(table.Z)
    model = timing.value
    return {
        SUMMARIES["accuracy"]: 100.0 * float(np.mean(model.predict(Z) == table.z)),
        SUMMARIES["log-loss"]: float(log_loss(table.z, model.predict_proba(Z))),
        SUMMARIES["seconds"]: timing.cpu_seconds,
    }


def summarise(measurements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tables of the guide: one row for each data set, one column for each method."""
    tables: dict[str, list[Row]] = {title: [] for title in SUMMARIES}
    for name, measured in itertools.product(SETS, measurements):
        if measured["experiment"] != name:
            continue
        rows = {row["method"]: row for row in measured["rows"]}
        first = measured["rows"][0]
        for title, key in SUMMARIES.items():
            line: Row = {"data": name, "rows": first["rows"], "features": first["features"]}
            line |= {method: row.get(key, row.get("outcome")) for method, row in rows.items()}
            tables[title].append(line)
        tables["seconds"][-1] |= _compare_seconds(tables["seconds"][-1])
    return [{"experiment": title, "rows": rows} for title, rows in tables.items()]


def _compare_seconds(seconds: Row) -> Row:
    """How many times as long as ours a peer takes; a stopped one took longer than the limit."""
    found: Row = {}
    for peer, ours in RATIOS:
        if seconds[peer] == STOPPED:
            found[f"{peer} / {ours}"] = f"> {MAX_SECONDS / seconds[ours]:,.0f}"
        else:
            found[f"{peer} / {ours}"] = round(seconds[peer] / seconds[ours], 1)
    return found


EXPERIMENTS: Experiments = {
    name: update_wrapper(partial(run_set, name), run_set) for name in SETS
}  # fmt: skip
