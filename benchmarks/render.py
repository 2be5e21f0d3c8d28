"""Markdown from measurements. Numbers in the documentation come from here, never from a hand."""

import re
from pathlib import Path
from typing import Any

from benchmarks import settings
from benchmarks.experiments import render_rows
from benchmarks.freshness import MARK
from benchmarks.run import PARAMETERS
from benchmarks.storage import Measurement, read_measurements
from benchmarks.suites import SUITES
from benchmarks.summary import (
    Summary,
    Verdict,
    judge_targets,
    reaches_objective,
    round_down,
    summarise,
)
from benchmarks.tables import render_full_table

THREADS = f"""\
{settings.THREADS} threads, of which LIBSVM uses one by design, and times are wall seconds"""
ONE_THREAD = """\
one thread, and times are processor seconds, because other work ran on the same machine"""
METHOD = f"""\
Every measurement runs in a process of its own, on the same float32 data, with
`tol={settings.TOL:g}` and, for the peers, `cache_size={settings.CACHE_MEGABYTES}`. A small fit and
prediction come first, so that imports and compilation are not timed. Right before each timing up
to {settings.MAX_TOUCH_BYTES / 1e9:.0f} GB of memory are touched and freed, because on virtual
machines the first touch of fresh memory costs seconds a gigabyte and would be timed by accident.
Times are the best of the repeats; a peer whose first fit takes longer than
{settings.LONG_FIT_SECONDS:.0f} s runs once.

The objective (dual, minimised; summed over the pairs of classes) and the duality gap are computed
in float64 by the harness from the coefficients each solver returns; a dash stands for a gap that
would take more than {settings.MAX_GAP_ENTRIES / 1e9:g} billion kernel entries.
Peak memory is that of the whole process, data included. A ratio is the peer's time over ours,
rounded down. The mark {MARK} stands behind times of code that has changed since."""


def render_page(measurements: list[Measurement]) -> str:
    """Render the page of a suite."""
    summary = summarise(measurements)
    suite = measurements[0]["suite"]
    parts = (
        f"# {SUITES[suite].title}",
        f"<!-- Rendered by `python -m benchmarks render`; do not edit. -->\n\n{METHOD}",
        describe_threads(suite),
        *describe_parameters(suite),
        "## Results",
        render_full_table(summary),
        describe_origin(measurements),
        "## Targets",
        render_targets(summary),
    )
    return "\n\n".join(parts) + "\n"


def describe_threads(suite: str) -> str:
    """Say how many threads the solvers have, and which time is shown."""
    return f"All solvers have {ONE_THREAD if SUITES[suite].threads == 1 else THREADS}."


def describe_parameters(suite: str) -> list[str]:
    """Table of the parameters that were chosen by cross-validation, if the suite has such."""
    rows = [
        {
            "dataset": chosen["dataset"], **chosen["params"], "RMSE": chosen["cv_rmse"],
            "rows": chosen["cv_rows"], "folds": chosen["cv_folds"],
        }
        for chosen in read_measurements(PARAMETERS)
        if chosen["suite"] == suite
    ]  # fmt: skip
    if not rows:
        return []
    opening = "LIBSVM chose the parameters by cross-validation on a part of the training rows:"
    return ["## Parameters", opening, "\n".join(render_rows(rows))]


def render_targets(summary: Summary) -> str:
    """Say in plain words for each data set which targets are met."""
    rule = (
        f"A time counts only if the objective is within {settings.MAX_OBJECTIVE_DIFFERENCE:g} of "
        "that of LIBSVM, relatively."
    )
    lines = [f"- {dataset}: {describe_verdicts(results)}" for dataset, results in summary.items()]
    return rule + "\n\n" + "\n".join(lines)


def describe_verdicts(results: dict[str, Measurement]) -> str:
    """Say which targets are met on one data set."""
    if reaches_objective(results) is False:
        return "the objective is not that of LIBSVM, so no target counts as met."
    verdicts = judge_targets(results)
    if any(v.met is False for v in verdicts):
        opening = "not all targets are met"
    elif any(v.met is None for v in verdicts) or reaches_objective(results) is None:
        opening = "not all was measured"
    else:
        opening = "all targets are met"
    return f"{opening}: {'; '.join(describe_verdict(v) for v in verdicts)}."


def describe_verdict(verdict: Verdict) -> str:
    """Describe one target and what was reached."""
    goal = f"{verdict.measure} {verdict.target:g}x {settings.SOLVERS[verdict.peer]}"
    if verdict.ratio is None:
        return f"{goal} not measured"
    return f"{goal} {'met' if verdict.met else 'missed'} ({round_down(verdict.ratio)}x)"


def describe_origin(measurements: list[Measurement]) -> str:
    """Machine, versions, dates and commits of the measurements."""
    machines = [m["machine"] for m in measurements]
    packages = dict.fromkeys(name for machine in machines for name in machine["versions"])
    versions = [
        f"{name} {join_distinct(machine['versions'].get(name) for machine in machines)}"
        for name in packages
    ]
    commits = join_distinct(m["machine"]["commit"] for m in measurements if is_ours(m))
    days = sorted({machine["date"][:10] for machine in machines})
    hardware = join_distinct(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB"
        for machine in machines
    )
    period = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"Machine: {hardware}. {', '.join(versions)}. Measured {period}, commit {commits}."


def is_ours(measurement: Measurement) -> bool:
    """Whether a measurement is of this library, whose commit then matters."""
    return measurement["solver"] == "widemargin"


def join_distinct(values: Any) -> str:
    """Distinct values in order, as text; more than one shows that runs were mixed."""
    return " / ".join(dict.fromkeys(str(value) for value in values if value is not None)) or "none"


def replace_marked(path: Path, suite: str, text: str) -> None:
    """Replace what stands between the markers of a suite in a file."""
    begin, end = f"<!-- benchmark:{suite} -->", f"<!-- /benchmark:{suite} -->"
    content = path.read_text()
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if len(pattern.findall(content)) != 1:
        raise ValueError(f"{path} must have the markers {begin} and {end} once")
    path.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", content))
