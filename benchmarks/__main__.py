"""The command ``python -m benchmarks``: suites, the map, families of experiments, papers, pages."""

import argparse
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

from benchmarks import (
    additive,
    additive_svr,
    divide,
    early,
    experiments,
    first_use,
    glass_box,
    map_command,
    pages,
    pairs,
    projected,
    quick,
    tune,
)
from benchmarks.arguments import list_of
from benchmarks.papers import command as papers
from benchmarks.run import Plan, run_plan
from benchmarks.suites import SUITES

Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"
FAMILIES = {
    "divide": divide,
    "early": early,
    "additive": additive,
    "additive-svr": additive_svr,
    "projected": projected,
    "tune": tune,
    "pairs": pairs,
    "glass-box": glass_box,
}


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    return options.command(options)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in SUITES:
        add_suite_parser(commands, name)
    map_command.add_parser(commands)
    first_use.add_parser(commands)
    for name, family in FAMILIES.items():
        add_family_parser(commands, name, family)
    papers.add_parser(commands)
    quick.add_parser(commands)
    pages.add_parser(commands)
    return parser


def add_suite_parser(commands: Commands, name: str) -> None:
    suite = SUITES[name]
    parser = commands.add_parser(name, help=f"measure what is not on file: {suite.title}")
    parser.set_defaults(command=partial(run_suite, name))
    parser.add_argument("--datasets", type=list_of(suite.datasets), default=suite.datasets)
    parser.add_argument("--solvers", type=list_of(suite.solvers), default=suite.solvers)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--output", type=Path, help="default: a file of the suite in benchmarks/results"
    )
    parser.add_argument("--budget-seconds", type=float, help="begin no measurement after this time")
    parser.add_argument(
        "--rows", type=int, help="a trial on so many rows, kept apart in its own file"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget what is on file for these and measure again"
    )


def run_suite(name: str, options: argparse.Namespace) -> int:
    plan = Plan(
        suite=name,
        datasets=options.datasets,
        solvers=options.solvers,
        repeats=options.repeats,
        output=options.output or choose_output(name, options.rows),
        budget_seconds=options.budget_seconds,
        max_rows=options.rows,
        fresh=options.fresh,
    )
    return min(run_plan(plan), 1)


def choose_output(suite: str, max_rows: int | None) -> Path:
    """Choose the file of a suite; trials have one of their own and stay out of the tables."""
    name = suite if max_rows is None else f"{suite}-trial"
    return Path("benchmarks", "results", f"{name}.jsonl")


def add_family_parser(commands: Commands, name: str, family: ModuleType) -> None:
    parser = commands.add_parser(name, help=f"run experiments: {family.TITLE}")
    parser.set_defaults(command=partial(run_family, family))
    parser.add_argument(
        "--only", type=list_of(family.EXPERIMENTS), default=tuple(family.EXPERIMENTS)
    )
    parser.add_argument("--results", type=Path, default=family.RESULTS)
    parser.add_argument("--resume", action="store_true", help="leave out what is on file")


def run_family(family: ModuleType, options: argparse.Namespace) -> int:
    experiments.run_apart(family, options.only, options.results, options.resume)
    return 0


if __name__ == "__main__":
    sys.exit(main())
