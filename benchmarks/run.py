"""Runs the measurements of a suite that are still missing."""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.datasets import name_trial
from benchmarks.harness import Job, MeasurementError, run_job
from benchmarks.settings import LONG_FIT_SECONDS
from benchmarks.storage import (
    Measurement,
    append_measurement,
    forget_measurements,
    read_measurements,
)
from benchmarks.suites import SUITES

#: Parameters that were chosen by cross-validation.
PARAMETERS = Path("benchmarks", "results", "parameters.jsonl")


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
    parameters: Path = PARAMETERS


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
        try:
            measurement = measure_apart(plan, dataset, solver, label)
        except MeasurementError as error:
            failed.add((dataset, solver))
            report(f"{label}: {error}")
            continue
        key = {"suite": plan.suite, "dataset": names[dataset], "solver": solver, "repeat": repeat}
        append_measurement(plan.output, key | measurement)
        report(f"{label}: {summarise_measurement(plan.suite, measurement)}")
    return len(failed)


def measure_apart(plan: Plan, dataset: str, solver: str, label: str) -> Measurement:
    """Measure in a fresh process, with parameters that are chosen first where the data have none."""
    arguments: dict[str, Any] = {
        "suite": plan.suite, "dataset": dataset, "solver": solver, "max_rows": plan.max_rows,
    }  # fmt: skip
    if SUITES[plan.suite].choose is not None:
        arguments["params"] = choose_parameters(plan, dataset)
    job = Job("benchmarks.suites:measure", arguments, threads=SUITES[plan.suite].threads)
    done = run_job(job, label=label)
    return done.records[0] | {"machine": done.machine}


def choose_parameters(plan: Plan, dataset: str) -> dict[str, float]:
    """Read the parameters of a data set, or choose them once, for all solvers and samples of it."""
    dataset = SUITES[plan.suite].source_of(dataset)
    key = {"suite": plan.suite, "dataset": dataset}
    for known in read_measurements(plan.parameters):
        if key.items() <= known.items():
            return known["params"]
    label = f"{dataset}: parameters"
    choose = SUITES[plan.suite].choose
    assert choose is not None
    done = run_job(Job(choose, {"dataset": dataset}), label=label)
    chosen = done.records[0]
    append_measurement(plan.parameters, key | chosen | {"machine": done.machine})
    report(f"{label}: {chosen['params']}")
    return chosen["params"]


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


def summarise_measurement(suite: str, measurement: Measurement) -> str:
    """One line for the person who waits."""
    kind = SUITES[suite]
    field, heading, form = kind.quality
    return (
        f"fit {measurement[kind.clock('fit')]:.2f} s, "
        f"predict {measurement[kind.clock('predict')]:.2f} s, "
        f"{heading} {form.format(measurement[field])}, {measurement['n_support']:,} support vectors, "
        f"objective {measurement['objective']:.6g}"
    )


def report(text: str) -> None:
    """Write a progress line over the one being updated."""
    start = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(start + text, file=sys.stderr, flush=True)
