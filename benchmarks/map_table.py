"""What the map says: faults of the cells, ratios, and the page."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.experiments import Row, render_rows
from benchmarks.harness import Record
from benchmarks.map_cells import C_GRID, GAMMA_GRID, SHORT_SECONDS
from benchmarks.settings import TOL

#: Our time may be so many times that of LIBSVM.
SLOW_FACTOR = 1.2
#: An objective counts as equal if it is higher than LIBSVM's by no more, relatively.
OBJECTIVE_TOL = 1e-6
#: Rounding of the violation as it is computed here.
VIOLATION_SLACK = 1.01

INTRODUCTION = f"""\
`python -m benchmarks map` fits `KernelSVC` and scikit-learn's `SVC` in the same process, one thread
each, `tol={TOL:g}`, on seven sets of 1,000 to 3,000 rows with features scaled to [0, 1]. Times are
processor seconds; a fit of less than {SHORT_SECONDS:g} s is the best of three. Objective and violation
of the optimality conditions are computed in float64 from the coefficients of the fitted model. A ratio
is the time of LIBSVM over ours."""


@dataclass(frozen=True)
class Summary:
    """What some cells have in common.

    Attributes
    ----------
    n_cells : int
        How many cells there are.
    faults : dict
        How many of them have each fault.
    n_violated_peer : int
        Cells in which the violation of LIBSVM is above the tolerance.
    mean_ratio : float
        Geometric mean of the ratios.
    seconds, peer_seconds : float
        Processor seconds in all.
    """

    n_cells: int
    faults: dict[str, int]
    n_violated_peer: int
    mean_ratio: float
    seconds: float
    peer_seconds: float


#: Faults of a cell that was measured.
FAULTS: dict[str, Callable[[Record], bool]] = {
    "not converged": lambda r: r["ours"]["stop_reason"] != "converged",
    "violation above tol": lambda r: r["ours"]["violation"] > VIOLATION_SLACK * TOL,
    "objective higher": lambda r: is_higher(r["ours"]["objective"], r["peer"]["objective"]),
    "objective_ not true": lambda r: is_other(
        r["ours"]["claimed_objective"], r["ours"]["objective"]
    ),
    "slower than 1.2x": lambda r: r["ratio"] < 1.0 / SLOW_FACTOR,
}


def is_higher(value: float, reference: float) -> bool:
    return value > reference + OBJECTIVE_TOL * abs(reference)


def is_other(value: float, reference: float) -> bool:
    return abs(value - reference) > OBJECTIVE_TOL * abs(reference)


def list_faults(record: Record) -> list[str]:
    """What is wrong with a cell."""
    if "ours" not in record:
        return [str(record["outcome"])]
    return [name for name, is_at_fault in FAULTS.items() if is_at_fault(record)]


def summarise_map(records: list[Record]) -> dict[str, Summary]:
    """Summaries of every set and, under "all", of all cells that were measured."""
    measured = [record for record in records if "ours" in record]
    names = dict.fromkeys(record["data"] for record in measured)
    groups = {name: [r for r in measured if r["data"] == name] for name in names}
    return {name: summarise_cells(group) for name, group in (groups | {"all": measured}).items()}


def summarise_cells(records: list[Record]) -> Summary:
    ratios = [record["ratio"] for record in records]
    return Summary(
        n_cells=len(records),
        faults={name: sum(map(at_fault, records)) for name, at_fault in FAULTS.items()},
        n_violated_peer=sum(r["peer"]["violation"] > VIOLATION_SLACK * TOL for r in records),
        mean_ratio=float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan"),
        seconds=sum(record["ours"]["cpu_seconds"] for record in records),
        peer_seconds=sum(record["peer"]["cpu_seconds"] for record in records),
    )


def describe_summary(summary: Summary) -> str:
    """The summary in a few words."""
    faults = ", ".join(f"{number} {name}" for name, number in summary.faults.items())
    return (
        f"{summary.n_cells} cells: {faults}; geometric mean {summary.mean_ratio:.2f}x, "
        f"{summary.seconds:.1f} s against {summary.peer_seconds:.1f} s of LIBSVM"
    )


def render_map(records: list[Record]) -> str:
    """Render the page: the summary, the ratios of every set, and the cells that are at fault."""
    latest = list({(r["data"], r["C_log2"], r["gamma_log2"]): r for r in records}.values())
    parts = ["# The map of C and gamma", "", INTRODUCTION, "", "## Summary", ""]
    parts += render_rows(
        [make_summary_row(name, summary) for name, summary in summarise_map(latest).items()]
    )
    parts += [
        "",
        "`python -m benchmarks render` draws the ratios: `docs/_build/map.png`.",
    ]
    for name in dict.fromkeys(record["data"] for record in latest):
        cells = [record for record in latest if record["data"] == name]
        parts += ["", f"## {name}, {cells[0].get('n_train', 0):,} rows", "", *render_ratios(cells)]
    parts += ["", "## Cells at fault", "", *render_faults(latest), ""]
    machine = latest[-1]["machine"]
    parts += [f"{machine['cpu']}, commit {machine['commit']}, {machine['date'][:10]}.", ""]
    return "\n".join(parts)


def make_summary_row(name: str, summary: Summary) -> Row:
    return {
        "data": name,
        "cells": summary.n_cells,
        **summary.faults,
        "LIBSVM: violation above tol": summary.n_violated_peer,
        "geometric mean": summary.mean_ratio,
        "ours (s)": summary.seconds,
        "LIBSVM (s)": summary.peer_seconds,
    }


def render_ratios(cells: list[Record]) -> list[str]:
    """Ratios of one set as a table: C downwards, gamma to the right."""
    ratios = {(r["C_log2"], r["gamma_log2"]): r.get("ratio") for r in cells}
    return render_rows(
        [
            {"C": f"2^{C}"} | {f"gamma = 2^{gamma}": ratios.get((C, gamma)) for gamma in GAMMA_GRID}
            for C in C_GRID
        ]
    )


def render_faults(cells: list[Record]) -> list[str]:
    """One row for each cell with a fault, or a sentence that there is none."""
    rows: list[Row] = [
        {
            "data": record["data"],
            "C": f"2^{record['C_log2']}",
            "gamma": f"2^{record['gamma_log2']}",
            "faults": ", ".join(list_faults(record)),
            "violation": record.get("ours", {}).get("violation"),
            "LIBSVM: violation": record.get("peer", {}).get("violation"),
            "ours (s)": record.get("ours", {}).get("cpu_seconds"),
            "LIBSVM (s)": record.get("peer", {}).get("cpu_seconds"),
        }
        for record in cells
        if list_faults(record)
    ]
    return render_rows(rows) if rows else ["No cell is at fault."]
