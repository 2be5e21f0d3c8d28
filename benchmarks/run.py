"""Runs the measurements of a suite that are still missing."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets import name_trial
from benchmarks.isolate import MeasurementError, measure_apart
from benchmarks.machine import describe_machine
from benchmarks.settings import LONG_FIT_SECONDS
from benchmarks.storage import (
    Measurement,
    append_measurement,
    forget_measurements,
    read_measurements,
)


@dataclass(frozen=True)
class Plan:
    """What to measure; ``max_rows`` thins the data for a trial."""

    suite: str
    datasets: tuple[str, ...]
    solvers: tuple[str, ...]
    repeats: int
    output: Path
    budget_seconds: float | None = None
    max_rows: int | None = None
    fresh: bool = False


def run_plan(plan: Plan) -> int:
    """Measure what is missing, one after the other; return the number of failures."""
    names = {dataset: name_trial(dataset, plan.max_rows) for dataset in plan.datasets}
    if plan.fresh:
        forget_measurements(plan.output, names.values(), plan.solvers)
    began = time.monotonic()
    failed: set[tuple[str, str]] = set()
    for number, (dataset, solver, repeat) in list_tasks(plan):
        earlier = select_earlier(plan, names[dataset], solver)
        if (dataset, solver) in failed or is_settled(earlier, solver, repeat):
            continue
        if plan.budget_seconds is not None and time.monotonic() - began > plan.budget_seconds:
            report("the budget is spent; run the same command again for the rest")
            break
        label = f"{number} {names[dataset]}, {solver}, repeat {repeat}"
        # Described before, in case the sources change while a long measurement runs.
        machine = describe_machine()
        try:
            measurement = measure_apart(dataset, solver, plan.max_rows, label)
        except MeasurementError as error:
            failed.add((dataset, solver))
            report(f"{label}: {error}")
            continue
        key = {"suite": plan.suite, "dataset": names[dataset], "solver": solver, "repeat": repeat}
        append_measurement(plan.output, {**key, **measurement, "machine": machine})
        report(f"{label}: {summarise_measurement(measurement)}")
    return len(failed)


def list_tasks(plan: Plan) -> Iterator[tuple[str, tuple[str, str, int]]]:
    """Numbered tasks; solvers take turns, so that a slow spell of the machine meets them all."""
    tasks = [
        (dataset, solver, repeat)
        for dataset in plan.datasets
        for repeat in range(1, plan.repeats + 1)
        for solver in plan.solvers
    ]
    return ((f"[{i}/{len(tasks)}]", task) for i, task in enumerate(tasks, start=1))


def select_earlier(plan: Plan, dataset: str, solver: str) -> list[Measurement]:
    """Select the measurements on file of a data set by a solver."""
    return [
        m
        for m in read_measurements(plan.output)
        if (m["suite"], m["dataset"], m["solver"]) == (plan.suite, dataset, solver)
    ]


def is_settled(earlier: list[Measurement], solver: str, repeat: int) -> bool:
    """Whether a task is done, or not worth its time because the peer takes long."""
    if any(m["repeat"] == repeat for m in earlier):
        return True
    takes_long = any(m["fit_seconds"] > LONG_FIT_SECONDS for m in earlier)
    return takes_long and solver != "widemargin"


def summarise_measurement(measurement: dict[str, Any]) -> str:
    """One line for the person who waits."""
    return (
        f"fit {measurement['fit_seconds']:.2f} s, predict {measurement['predict_seconds']:.2f} s, "
        f"accuracy {measurement['accuracy']:.2%}, {measurement['n_support']:,} support vectors, "
        f"objective {measurement['objective']:.6g}"
    )


def report(text: str) -> None:
    """Write a progress line over the one being updated."""
    start = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(start + text, file=sys.stderr, flush=True)
