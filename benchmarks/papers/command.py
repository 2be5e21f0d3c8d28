"""``python -m benchmarks papers``: measures the tables and figures of the papers."""

import argparse
import sys
import time
from pathlib import Path

from benchmarks import experiments
from benchmarks.harness import Record
from benchmarks.papers.cells import run_task
from benchmarks.papers.methods import GROUPS
from benchmarks.papers.plan import (
    BUDGETS,
    STUDIES,
    leave_out_done,
    make_tasks,
    merge_tasks,
    select_exhibits,
)
from benchmarks.papers.sets import SETS
from benchmarks.papers.tables import is_present_code
from benchmarks.storage import read_measurements, replace_measurement

RESULTS = Path("benchmarks", "results", "papers.jsonl")
PAPERS = ("dcsvm", "pmsvm", "icd", "psvm")
METHODS = tuple(dict.fromkeys(name for methods in GROUPS.values() for name in methods))


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "papers", help="tables and figures of the papers beside the published numbers"
    )
    parser.set_defaults(command=run_command)
    parser.add_argument("--paper", choices=PAPERS)
    parser.add_argument("--table", help="a number, figure-NUMBER, statement-NUMBER, or error-time")
    parser.add_argument(
        "--method", choices=METHODS, metavar="NAME", help="one of the tables' methods"
    )
    parser.add_argument("--data", choices=tuple(SETS), metavar="NAME", help="one of the data sets")
    parser.add_argument("--budget", choices=tuple(BUDGETS), default="10m")
    parser.add_argument(
        "--limit-seconds", type=float, help="stop a fit after; by the budget if not given"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)


def run_command(options: argparse.Namespace) -> int:
    try:
        run_exhibits(select_exhibits(options.paper, options.table), options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def run_exhibits(exhibits: list[str], options: argparse.Namespace) -> None:
    budget = BUDGETS[options.budget]
    limit = options.limit_seconds or budget.limit_seconds
    clock = Clock(budget.seconds)
    if options.method is None and options.data is None:
        run_studies(exhibits, clock)
    run_tasks(exhibits, options, limit, clock)


class Clock:
    """Time that is left, and lines that say so."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return self._end - time.monotonic()

    def say(self, text: str) -> None:
        left = self.left()
        shown = "" if left == float("inf") else f"[{max(left, 0.0) / 60:.0f} min left] "
        print(f"{shown}{text}", file=sys.stderr, flush=True)


def run_studies(exhibits: list[str], clock: Clock) -> None:
    """Run the experiments that are not on file, if the time is enough."""
    for study in dict.fromkeys(s for name in exhibits for s in STUDIES.get(name, ())):
        if study.is_done(read_measurements(study.family.RESULTS)):
            continue
        if study.seconds > clock.left():
            clock.say(f"{study.name}: left out, takes about {study.seconds:.0f} s")
            continue
        clock.say(study.name)
        experiments.run_apart(study.family, (study.name,), study.family.RESULTS)


def run_tasks(exhibits: list[str], options: argparse.Namespace, limit: float, clock: Clock) -> None:
    """Measure the cells that are not on file, or of older code, while there is time."""
    measured = [m for m in read_measurements(options.results) if is_present_code(m)]
    asked = merge_tasks(t for name in exhibits for t in make_tasks(name, options.budget))
    tasks = [leave_out_done(task, measured, limit) for task in asked]
    tasks = [
        task
        for task in tasks
        if task.settings
        and options.method in (None, task.method)
        and options.data in (None, task.data)
    ]
    for number, task in enumerate(tasks, start=1):
        if clock.left() <= 0:
            clock.say(
                f"{len(tasks) - number + 1} of {len(tasks)} methods on data sets not measured"
            )
            break
        allowed = min(limit, clock.left())

        def keep(record: Record, number: int = number, allowed: float = allowed) -> None:
            replace_measurement(options.results, record | {"limit_s": allowed})
            clock.say(f"{number} of {len(tasks)}: {record['key']}: {show_outcome(record)}")

        run_task(task, allowed, keep)


def show_outcome(record: Record) -> str:
    if "fit_s" not in record:
        return str(record["outcome"])
    return f"{record['fit_s']:.2f} s, {record['accuracy']:.2f} %"
