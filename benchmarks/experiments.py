"""Families of experiments: each runs in a process of its own and leaves a table of rows."""

import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.harness import Job, run_job
from benchmarks.storage import read_measurements, write_measurements

MARKED = re.compile(
    r"<!-- table:(?P<name>[\w-]+): (?P<columns>[^>]*?) -->.*?<!-- /table -->", re.DOTALL
)
Row = dict[str, Any]
Experiments = dict[str, Callable[[], Iterator[Row]]]


def run_apart(
    family: ModuleType, names: tuple[str, ...], output: Path, resume: bool = False
) -> None:
    """Run experiments, each in a process of its own, replacing what is on file for them.

    With ``resume``, experiments that are on file are left out.
    """
    known = {m["experiment"] for m in read_measurements(output)} if resume else set()
    for name in names:
        if name in known:
            continue
        print(f"{name} ...", file=sys.stderr, flush=True)
        arguments = {"family": family.__name__, "name": name}
        done = run_job(Job("benchmarks.experiments:run_experiment", arguments))
        kept = [m for m in read_measurements(output) if m["experiment"] != name]
        measured = {"experiment": name, "rows": done.records, "machine": done.machine}
        write_measurements(output, [*kept, measured | {"process": done.process}])


def run_experiment(family: str, name: str) -> Iterator[Row]:
    """Run one experiment of the module of a family, and show its rows as they come."""
    for row in import_module(family).EXPERIMENTS[name]():
        print(row, file=sys.stderr, flush=True)
        yield row


def render(family: ModuleType, measurements: list[dict[str, Any]]) -> str:
    """All experiments of a family as Markdown tables."""
    parts = [f"# {family.TITLE}", ""]
    for name, experiment in family.EXPERIMENTS.items():
        for m in measurements:
            if m["experiment"] == name:
                machine = m["machine"]
                parts += [f"## {name}", "", cleandoc(str(experiment.__doc__)), ""]
                parts += render_rows(m["rows"])
                parts += ["", f"{machine['cpu']}, commit {machine['commit']}, "
                              f"{machine['date'][:10]}.", ""]  # fmt: skip
    return "\n".join(parts)


def render_into(text: str, measurements: list[dict[str, Any]]) -> str:
    """Fill the marked tables of a page.

    ``<!-- table:NAME: one column, another -->`` begins the table of an experiment with some of its
    columns, ``<!-- /table -->`` ends it.
    """
    rows = {m["experiment"]: m["rows"] for m in measurements}

    def fill(match: re.Match[str]) -> str:
        name, columns = match["name"], match["columns"].split(", ")
        if name not in rows:
            return match[0]
        lines = render_rows(rows[name], columns)
        return "\n".join([f"<!-- table:{name}: {match['columns']} -->", *lines, "<!-- /table -->"])

    return MARKED.sub(fill, text)


def render_rows(rows: list[Row], columns: list[str] | None = None) -> list[str]:
    """Rows as a Markdown table, of all columns or some."""
    columns = columns or list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return lines + ["| " + " | ".join(show(row.get(c)) for c in columns) + " |" for row in rows]


def show(value: Any) -> str:
    """A value of a table as text."""
    if isinstance(value, float):
        if 0 < abs(value) < 0.01:
            return f"{value:.1e}"
        return f"{value:,.2f}" if abs(value) < 1e4 else f"{value:,.0f}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
