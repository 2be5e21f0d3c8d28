"""``python -m benchmarks map``: measures the cells of the map that are not on file."""

import argparse
import sys
from itertools import product
from pathlib import Path

from benchmarks.arguments import list_of
from benchmarks.harness import Job, Record, describe_job, start_job
from benchmarks.map_cells import C_GRID, GAMMA_GRID, SETS
from benchmarks.map_table import describe_summary, summarise_map
from benchmarks.storage import append_measurement, read_measurements, write_measurements

RESULTS = Path("benchmarks", "results", "map.jsonl")
TRIAL = RESULTS.with_name("map-trial.jsonl")
#: Seconds that loading and compiling may take.
PREPARATION_SECONDS = 300.0
#: Seconds after which LIBSVM, which has no limit of its own, is given up.
PEER_SECONDS = 900.0
Cell = tuple[int, int]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "map", help="KernelSVC beside LIBSVM over a grid of C and gamma, one thread"
    )
    parser.set_defaults(command=run_map)
    parser.add_argument("--datasets", type=list_of(SETS), default=tuple(SETS))
    parser.add_argument("--rows", type=int, help="a trial on so many rows, kept apart")
    parser.add_argument(
        "--limit-seconds", type=float, default=60.0, help="max_time of a fit of ours"
    )
    parser.add_argument(
        "--output", type=Path, help="default: benchmarks/results/map.jsonl, or map-trial.jsonl"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget what is on file for these and measure again"
    )


def run_map(options: argparse.Namespace) -> int:
    """Measure what is missing, then print the summary; ends with code 1 if a cell has none."""
    output = options.output or (RESULTS if options.rows is None else TRIAL)
    if options.fresh:
        forget(output, options.datasets, options.rows)
    for data in options.datasets:
        run_set(data, options.rows, options.limit_seconds, output)
    asked = select_cells(read_measurements(output), options.datasets, options.rows)
    print(describe_summary(summarise_map(asked)["all"]))
    return int(any("ours" not in record for record in asked))


def forget(output: Path, datasets: tuple[str, ...], max_rows: int | None) -> None:
    kept = (r for r in read_measurements(output) if not is_asked(r, datasets, max_rows))
    write_measurements(output, list(kept))


def is_asked(record: Record, datasets: tuple[str, ...], max_rows: int | None) -> bool:
    return record["data"] in datasets and record["max_rows"] == max_rows


def select_cells(
    records: list[Record], datasets: tuple[str, ...], max_rows: int | None
) -> list[Record]:
    """The records of some sets at this number of rows, the last of each cell."""
    chosen = (r for r in records if is_asked(r, datasets, max_rows))
    return list({(r["data"], r["C_log2"], r["gamma_log2"]): r for r in chosen}.values())


def list_missing(records: list[Record], data: str, max_rows: int | None) -> list[Cell]:
    """Cells of a set that have no measurement yet; a cell that failed is tried again."""
    found = select_cells(records, (data,), max_rows)
    done = {(r["C_log2"], r["gamma_log2"]) for r in found if "ours" in r}
    return [cell for cell in product(C_GRID, GAMMA_GRID) if cell not in done]


def run_set(data: str, max_rows: int | None, limit_seconds: float, output: Path) -> None:
    """Measure the missing cells of a set in one process; start another after a cell that failed."""
    cells = list_missing(read_measurements(output), data, max_rows)
    while cells:
        arguments = {
            "data": data, "max_rows": max_rows, "cells": cells, "limit_seconds": limit_seconds,
        }  # fmt: skip
        job = Job("benchmarks.map_cells:measure_cells", arguments, threads=1)
        key = {"data": data, "max_rows": max_rows}
        cells = cells[keep_records(job, key, cells, output) :]


def keep_records(job: Job, key: Record, cells: list[Cell], output: Path) -> int:
    """Write the records of a process as they come; return how many cells are dealt with."""
    machine = describe_job(job)
    with start_job(job) as running:
        running.wait(PREPARATION_SECONDS)
        for number, (C, gamma) in enumerate(cells, start=1):
            measured = running.wait(PEER_SECONDS, f"{key['data']}, C = 2^{C}, gamma = 2^{gamma}")
            record = measured or {"C_log2": C, "gamma_log2": gamma, "outcome": running.ended}
            append_measurement(output, key | record | {"machine": machine})
            show_cell(key | record)
            if running.ended:
                return number
    return len(cells)


def show_cell(record: Record) -> None:
    """One line for the person who waits."""
    where = f"{record['data']}, C = 2^{record['C_log2']}, gamma = 2^{record['gamma_log2']}"
    if "ours" not in record:
        text = record["outcome"]
    else:
        ours, peer = record["ours"], record["peer"]
        text = (
            f"{ours['cpu_seconds']:.3f} s, LIBSVM {peer['cpu_seconds']:.3f} s, {ours['stop_reason']}, "
            f"violation {ours['violation']:.1e}"
        )
    print(f"{where}: {text}", file=sys.stderr, flush=True)
