"""The command ``python -m benchmarks``: papers, quick, run, render and families of experiments."""

import argparse
import sys
from pathlib import Path
from types import ModuleType

from benchmarks import additive, divide, experiments, projected, quick
from benchmarks.arguments import list_of
from benchmarks.datasets import DATASETS
from benchmarks.papers import command as papers
from benchmarks.render import render_page, replace_marked
from benchmarks.run import Plan, run_plan
from benchmarks.settings import SOLVERS
from benchmarks.storage import read_measurements
from benchmarks.summary import summarise
from benchmarks.tables import render_short_table

SUITES = ("exact",)


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    return options.command(options)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_run_parser(commands)
    add_render_parser(commands)
    add_family_parser(commands, "divide", divide)
    add_family_parser(commands, "additive", additive)
    add_family_parser(commands, "projected", projected)
    papers.add_parser(commands)
    quick.add_parser(commands)
    return parser


def add_run_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("run", help="measure what is not yet on file")
    parser.set_defaults(command=run_suite)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--datasets", type=list_of(DATASETS), default=tuple(DATASETS))
    parser.add_argument("--solvers", type=list_of(SOLVERS), default=tuple(SOLVERS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--output", type=Path, help="default: a file of the suite in benchmarks/results"
    )
    parser.add_argument("--budget-seconds", type=float, help="begin no measurement after this time")
    parser.add_argument(
        "--max-rows", type=int, help="a trial on so many rows, kept apart in its own file"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget what is on file for these and measure again"
    )


def add_render_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("render", help="turn measurements into Markdown")
    parser.set_defaults(command=render_results)
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="write a page")
    parser.add_argument("--into", type=Path, help="replace the short table in this file")


def add_family_parser(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, family: ModuleType
) -> None:
    parser = commands.add_parser(name, help="run experiments, or render their page")
    parser.set_defaults(command=run_family, family=family)
    parser.add_argument(
        "--only", type=list_of(family.EXPERIMENTS), default=tuple(family.EXPERIMENTS)
    )
    parser.add_argument("--results", type=Path, default=family.RESULTS)
    parser.add_argument("--render", type=Path, metavar="PAGE", help="write the page, run nothing")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="fill marked tables, run nothing")


def run_family(options: argparse.Namespace) -> int:
    measurements = read_measurements(options.results)
    if options.render:
        options.render.write_text(experiments.render(options.family, measurements))
    if options.into:
        options.into.write_text(experiments.render_into(options.into.read_text(), measurements))
    if not (options.render or options.into):
        experiments.run_apart(options.family, options.only, options.results)
    return 0


def run_suite(options: argparse.Namespace) -> int:
    plan = Plan(
        suite=options.suite,
        datasets=options.datasets,
        solvers=options.solvers,
        repeats=options.repeats,
        output=options.output or choose_output(options.suite, options.max_rows),
        budget_seconds=options.budget_seconds,
        max_rows=options.max_rows,
        fresh=options.fresh,
    )
    return min(run_plan(plan), 1)


def choose_output(suite: str, max_rows: int | None) -> Path:
    """Choose the file of a suite; trials have one of their own and stay out of the tables."""
    name = suite if max_rows is None else f"{suite}-trial"
    return Path("benchmarks", "results", f"{name}.jsonl")


def render_results(options: argparse.Namespace) -> int:
    measurements = read_measurements(options.results)
    if not measurements:
        print(f"{options.results} has no measurements", file=sys.stderr)
        return 1
    if options.output:
        options.output.write_text(render_page(measurements))
    if options.into:
        table = render_short_table(summarise(measurements))
        replace_marked(options.into, measurements[0]["suite"], table)
    if not (options.output or options.into):
        print(render_page(measurements))
    return 0


if __name__ == "__main__":
    sys.exit(main())
