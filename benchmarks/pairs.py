"""Curves and pairs of features: additive SVMs beside explainable boosting machines.

``python -m benchmarks pairs`` runs two experiments for every data set, each in a process of its own,
on one thread: models of ours, and the peer, which takes much longer. It keeps their rows in
``benchmarks/results/pairs.jsonl``; ``--resume`` leaves out what is on file. The peer is
``ExplainableBoostingClassifier`` of the package interpret-core (``pip install interpret-core``) with
its default parameters.
"""

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
from benchmarks.timing import CpuLimitError, call_limited, time_call
from widemargin.additive.pair_choice import SAMPLE_ROWS

TITLE = "Curves and pairs of features: measurements"
RESULTS = Path("benchmarks", "results", "pairs.jsonl")
#: Processor seconds after which a fit is stopped.
MAX_SECONDS = 600
#: Fits of fewer seconds are repeated, and the least time counts.
SHORT_SECONDS, REPEATS = 1.0, 3
#: Name -> how a model is fitted: ours beside a reference that is quick, and the peer.
QUICK: dict[str, Callable[[Table], Any]] = OURS | {"boosting": fit_boosting}
PEERS: dict[str, Callable[[Table], Any]] = {
    "EBM curves": partial(fit_ebm, 0),
    "EBM": partial(fit_ebm, "3x"),
}
#: Tables of the guide: their names, what they show, and how this is named in the experiments.
SUMMARIES = {"accuracy": "accuracy (%)", "log-loss": "log loss", "seconds": "fit (s)"}
#: Ratios of the table of seconds: the peer whose seconds are divided by those of ours.
RATIOS = (("EBM curves", "curves"), ("EBM", "few pairs"), ("EBM", "all pairs"))
#: End of the names of experiments with the peer.
PEER = "-ebm"
#: Name of the processor seconds after which a fit was stopped, in its row.
STOPPED = "stopped (s)"


def run_ours(name: str) -> Iterator[Row]:
    """Accuracy and log loss on test rows, and processor seconds of a fit on one thread.

    Small tables are divided twice at random, with 40 % of the rows for testing, and the numbers are
    means. The class of a row is the one of the larger probability. Seconds include all choices and the
    calibration of probabilities. ``boosting`` is `HistGradientBoostingClassifier`.
    """
    tables = list(SETS[name]())
    warnings.simplefilter("ignore")
    _compile(tables[0])
    for method, fit in QUICK.items():
        yield _describe(method, tables) | _judge_all(fit, tables)


def run_peers(name: str) -> Iterator[Row]:
    """Explainable boosting machines on the same rows, judged in the same way.

    A fit is stopped after 600 processor seconds; pairs are not begun if curves alone were stopped.
    """
    tables = list(SETS[name]())
    warnings.simplefilter("ignore")
    judged: Row = {}
    for method, fit in PEERS.items():
        if STOPPED not in judged:
            judged = _judge_all(fit, tables)
        yield _describe(method, tables) | judged


def _describe(method: str, tables: list[Table]) -> Row:
    n_rows, n_features = tables[0].X.shape
    return {"method": method, "rows": n_rows, "features": n_features}


def _compile(table: Table) -> None:
    """Fit models of ours to few rows, so that compilation is not timed."""
    # Larger samples take other paths.
    sizes = (200, SAMPLE_ROWS + 500) if len(table.y) > SAMPLE_ROWS else (200,)
    for n_rows in sizes:
        few = Table(table.X[:n_rows], table.y[:n_rows], None, None, table.categories)
        for fit in OURS.values():
            fit(few)


def _judge_all(fit: Callable[[Table], Any], tables: list[Table]) -> Row:
    """Return the means over all divisions, or after how many seconds a fit was stopped."""
    try:
        found = [call_limited(partial(_judge, fit, table), MAX_SECONDS) for table in tables]
    except CpuLimitError:
        return {STOPPED: MAX_SECONDS}
    return {key: float(np.mean([judged[key] for judged in found])) for key in found[0]}


def _judge(fit: Callable[[Table], Any], table: Table) -> Row:
    with threadpool_limits(1):
        timing = time_call(lambda: fit(table), REPEATS, SHORT_SECONDS)
    Z = table.Z if fit in OURS.values() else as_dense(table.Z)
    probabilities = timing.value.predict_proba(Z)
    return {
        SUMMARIES["accuracy"]: 100.0 * float(np.mean(probabilities.argmax(axis=1) == table.z)),
        SUMMARIES["log-loss"]: float(log_loss(table.z, probabilities)),
        SUMMARIES["seconds"]: timing.cpu_seconds,
    }


def summarise(measurements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tables of the guide: one row for each data set, one column for each method."""
    measured = {m["experiment"]: m["rows"] for m in measurements}
    tables: dict[str, list[Row]] = {title: [] for title in SUMMARIES}
    for name in SETS:
        found = measured.get(name, []) + measured.get(f"{name}{PEER}", [])
        if not found:
            continue
        rows = {row["method"]: row for row in found}
        for title, key in SUMMARIES.items():
            line: Row = {"data": name, "rows": found[0]["rows"], "features": found[0]["features"]}
            tables[title].append(line | {method: _show(row, key) for method, row in rows.items()})
        tables["seconds"][-1] |= _compare_seconds(rows)
    return [{"experiment": title, "rows": rows} for title, rows in tables.items()]


def _show(row: Row, key: str) -> Any:
    """What a method has reached, or that it was stopped; two digits are too few for a log loss."""
    if STOPPED in row:
        return f"stopped after {row[STOPPED]:.0f} s"
    return f"{row[key]:.3f}" if key == SUMMARIES["log-loss"] else row[key]


def _compare_seconds(rows: dict[str, Row]) -> Row:
    """How many times as long as ours a peer takes; a stopped one takes longer than its limit."""
    found: Row = {}
    key = SUMMARIES["seconds"]
    for peer, ours in RATIOS:
        if peer in rows and key in rows.get(ours, {}):
            sign = "> " if STOPPED in rows[peer] else ""
            theirs = rows[peer].get(STOPPED, rows[peer].get(key))
            found[f"{peer} / {ours}"] = f"{sign}{theirs / rows[ours][key]:,.0f}"
    return found


EXPERIMENTS: Experiments = {
    **{name: update_wrapper(partial(run_ours, name), run_ours) for name in SETS},
    **{f"{name}{PEER}": update_wrapper(partial(run_peers, name), run_peers) for name in SETS},
}
