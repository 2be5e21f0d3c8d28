"""The quick guard: a few minutes that show a slowdown before it lands.

``python -m benchmarks quick`` times every family beside a peer, in the same run and on the same
rows, and compares the ratio of the peer's time to ours with the ratio on file. A busy or another
machine slows both sides, so ratios move much less than seconds. A ratio that looks bad is measured a
second time before it counts. ``--save`` makes the ratios of this run the reference.

Where the peer is our own (divide, sparse), a ratio falls also if the peer becomes faster; the lines
below the table tell which of the two moved. If that is progress, save a new reference.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.arguments import list_of
from benchmarks.experiments import Row, show
from benchmarks.harness import Job, MeasurementError, run_job
from benchmarks.machine import ROOT
from benchmarks.quick_contests import FAMILIES

REFERENCE = ROOT / "benchmarks" / "results" / "quick.json"
#: A family that takes longer counts as failed.
MAX_FAMILY_SECONDS = 900.0
#: A ratio may be lower than its reference by this share.
TOLERANCE = 0.3
#: Accuracy may be lower than its reference by so many points.
MAX_ACCURACY_LOSS = 0.5
#: Verdicts that do not fail the run.
OK, NEW = "ok", "no reference"

#: Family -> rows and the machine that measured them.
Reference = dict[str, dict[str, Any]]


def measure_apart(family: str, scale: float) -> dict[str, Any]:
    """Measure a family in a process of its own."""
    print(f"{family} ...", file=sys.stderr, flush=True)
    arguments = {"family": family, "scale": scale}
    threads = FAMILIES[family].threads
    job = Job("benchmarks.quick_contests:measure_family", arguments, threads)
    done = run_job(job, MAX_FAMILY_SECONDS)
    return {"machine": done.machine, "rows": done.records}


def judge(row: Row, known: Row | None, tolerance: float) -> str:
    """A row beside its reference, in words."""
    if known is None:
        return NEW
    faults = []
    fall = 1.0 - row["ratio"] / known["ratio"]
    if fall > tolerance:
        faults.append(f"slower: ratio fell by {100 * fall:.0f} %")
    loss = known["accuracy (%)"] - row["accuracy (%)"]
    if loss > MAX_ACCURACY_LOSS:
        faults.append(f"less accurate: by {loss:.1f} points")
    return ", ".join(faults) or OK


def is_fine(verdict: str) -> bool:
    return verdict in (OK, NEW)


def find_known(reference: Reference, family: str) -> dict[str, Row]:
    """Rows of a family on file, by what they measure."""
    return {row["what"]: row for row in reference.get(family, {"rows": []})["rows"]}


def measure_surely(
    family: str, scale: float, known: dict[str, Row], tolerance: float
) -> dict[str, Any]:
    """Measure a family, and once more if a row looks bad; the better of the two counts."""

    def rank(row: Row) -> tuple[bool, float]:
        return is_fine(judge(row, known.get(row["what"]), tolerance)), row["ratio"]

    first = measure_apart(family, scale)
    if all(rank(row)[0] for row in first["rows"]):
        return first
    print(f"{family}: looks worse than its reference, so once more", file=sys.stderr)
    second = measure_apart(family, scale)
    pairs = zip(first["rows"], second["rows"], strict=True)
    return {**second, "rows": [max(pair, key=rank) for pair in pairs]}


def tabulate(measured: Reference, reference: Reference, tolerance: float) -> list[Row]:
    """Rows of the table: measurements, their reference and the verdict."""
    table = []
    for family, record in measured.items():
        known = find_known(reference, family)
        for row in record["rows"]:
            old = known.get(row["what"])
            change = None if old is None else f"{100 * (row['ratio'] / old['ratio'] - 1):+.0f} %"
            accuracies = f"{row['accuracy (%)']:.2f} / {row['peer accuracy (%)']:.2f}"
            table.append({
                "family": family,
                **{column: row[column] for column in ("what", "threads", "ours (s)", "peer (s)")},
                "accuracy (%)": accuracies,
                "ratio": row["ratio"],
                "reference": None if old is None else old["ratio"],
                "change": change,
                "verdict": judge(row, old, tolerance),
            })  # fmt: skip
    return table


def render_table(table: list[Row]) -> str:
    """Columns of equal width, numbers to the right."""
    cells = [list(table[0])] + [[show(value) for value in row.values()] for row in table]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    words = [column in ("family", "what", "verdict") for column in table[0]]
    lines = []
    for line in cells:
        padded = [
            cell.ljust(width) if is_word else cell.rjust(width)
            for cell, width, is_word in zip(line, widths, words, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def list_notes(table: list[Row], reference: Reference) -> Iterator[str]:
    """What the table does not say: which side moved, what is gone, where the reference is from."""
    families = dict.fromkeys(row["family"] for row in table)
    measured = {row["what"] for row in table}
    for row in table:
        if not is_fine(row["verdict"]):
            yield tell_seconds(row, find_known(reference, row["family"])[row["what"]])
    for family in families:
        for what in find_known(reference, family):
            if what not in measured:
                yield f"On file but not measured: {family}, {what}."
    machines = [reference[family]["machine"] for family in families if family in reference]
    yield from dict.fromkeys(map(tell_origin, machines))


def tell_seconds(row: Row, old: Row) -> str:
    ours, peer = (
        f"{show(row[side])} s, was {show(old[side])}" for side in ("ours (s)", "peer (s)")
    )
    return f"{row['what']}: ours {ours}; peer {peer}."


def tell_origin(machine: dict[str, Any]) -> str:
    return f"Reference: commit {machine['commit']}, {machine['date'][:10]}, {machine['cpu']}."


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "quick",
        help="guard against slowdowns: a few minutes, ratios beside those on file",
        description=(
            "Time every family beside a peer and compare the ratios of the peer's time to ours with "
            "those on file. About three minutes on two cores. A family with a ratio that fell too far "
            "is measured a second time before it counts, and the better of the two is taken. "
            "Ends with code 1 if a ratio or an accuracy still is too low, or a family failed."
        ),
    )
    parser.set_defaults(command=run_quick)
    parser.add_argument(
        "--only",
        type=list_of(FAMILIES),
        default=tuple(FAMILIES),
        metavar="NAMES",
        help=f"some of {','.join(FAMILIES)}",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        help="share by which a ratio may be below its reference (default: %(default)s)",
    )
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="the ratios on file")
    parser.add_argument(
        "--save",
        action="store_true",
        help="make this run the reference instead of judging it; the machine should be idle",
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="a trial on this share of the rows"
    )


def run_quick(options: argparse.Namespace) -> int:
    """Measure, show, and judge or save."""
    reference = read_reference(options.reference)
    measured, failures = measure_families(options, reference)
    table = tabulate(measured, reference, options.tolerance)
    if table:
        print(render_table(table))
        print("Threads and accuracy: ours / peer. Ratio: seconds of the peer / ours.")
    for note in (*list_notes(table, reference), *failures):
        print(note)
    if options.save and not failures:
        save_reference(options.reference, reference | measured)
        return 0
    if options.save:
        print("Nothing was saved.")
    elif not reference:
        print(f"{options.reference} does not exist, so nothing was judged; --save makes it.")
    return int(bool(failures) or not all(is_fine(row["verdict"]) for row in table))


def measure_families(
    options: argparse.Namespace, reference: Reference
) -> tuple[Reference, list[str]]:
    """Records of the families, and a line for each that failed."""
    measured, failures = {}, []
    for family in options.only:
        known = {} if options.save else find_known(reference, family)
        try:
            measured[family] = measure_surely(family, options.scale, known, options.tolerance)
        except MeasurementError as error:
            failures.append(f"{family} failed: {error}.")
    return measured, failures


def read_reference(path: Path) -> Reference:
    """The ratios on file; none if there is no file."""
    return json.loads(path.read_text()) if path.exists() else {}


def save_reference(path: Path, records: Reference) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=1) + "\n")
    print(f"Saved in {path}.")
