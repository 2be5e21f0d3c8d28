"""The quick guard: a few minutes that show a slowdown before it lands.

``python -m benchmarks quick`` times every family beside a peer, in the same run and on the same
rows, and compares the ratio of the peer's time to ours with the ratio on file. A busy or another
machine slows both sides, so ratios move much less than seconds. A ratio that looks bad is measured a
second time before it counts. ``--save`` makes the ratios of this run the reference.

Where the peer is our own (divide, sparse), a ratio falls also if the peer becomes faster; the lines
below the table tell which of the two moved. If that is progress, save a new reference.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from benchmarks.arguments import list_of
from benchmarks.experiments import Row, show
from benchmarks.isolate import THREAD_VARIABLES, MeasurementError
from benchmarks.machine import ROOT, describe_machine
from benchmarks.quick_data import (
    make_census,
    make_digits,
    make_histograms,
    make_terrain,
    make_words,
)
from benchmarks.records import BenchmarkData
from benchmarks.settings import CACHE_MEGABYTES, THREADS, TOL
from benchmarks.worker import select_rows
from widemargin import (
    DCSVC,
    AdditiveSVC,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
    ProjectedSVC,
)
from widemargin.baselines import SpSVC

REFERENCE = ROOT / "benchmarks" / "results" / "quick.json"
#: Runs of each model, the best of which counts.
REPEATS = 3
#: A model that has taken so long is not run again.
LONG_SECONDS = 8.0
#: The second size reaches the compiled loops that a few hundred rows do not need.
WARM_UP_ROWS = (300, 3000)
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


@dataclass(frozen=True, eq=False)
class Contest:
    """Models of ours against one peer, on the same rows.

    Attributes
    ----------
    data : BenchmarkData
        What is fitted.
    ours : dict
        Models by name.
    peer_name : str
        What the peer is called.
    peer : estimator
        The peer.
    peer_threads : int
        Threads of the peer; LIBSVM and LIBLINEAR have one.
    measures : tuple of str
        What is compared: "fit", "predict".
    """

    data: BenchmarkData
    ours: dict[str, Any]
    peer_name: str
    peer: Any
    peer_threads: int
    measures: tuple[str, ...] = ("fit",)


@dataclass(frozen=True)
class Family:
    """What is measured in one process.

    Attributes
    ----------
    contests : callable
        Makes the contests, on this share of their rows.
    threads : int
        Threads of ours, and the most that any library may take.
    """

    contests: Callable[[float], Iterator[Contest]]
    threads: int


def contest_exact(scale: float) -> Iterator[Contest]:
    """KernelSVC beside LIBSVM: two classes, then ten, one against one, with many rows and few."""
    terrain = make_terrain(shrink(8000, scale), shrink(10_000, scale))
    digits = (make_digits(shrink(n_rows, scale)) for n_rows in (6000, 900))
    for data in (terrain, *digits):
        same: dict[str, Any] = {**data.params, "tol": TOL}
        ours, peer = KernelSVC(**same, n_jobs=THREADS), SVC(**same, cache_size=CACHE_MEGABYTES)
        yield Contest(data, {"KernelSVC": ours}, "SVC", peer, 1, measures=("fit", "predict"))


def contest_divide(scale: float) -> Iterator[Contest]:
    """Divide and conquer beside our own solver from zero."""
    data = make_terrain(shrink(15_000, scale), shrink(10_000, scale))
    same: dict[str, Any] = {**data.params, "tol": TOL, "n_jobs": THREADS}
    ours = {"DCSVC early": DCSVC(**same, stop_level=3), "DCSVC exact": DCSVC(**same)}
    peer = KernelSVC(**same, fit_intercept=False)
    yield Contest(data, ours, "KernelSVC", peer, THREADS)


def contest_additive(scale: float) -> Iterator[Contest]:
    """Additive kernels beside LIBLINEAR and, for the intersection, LIBSVM; one thread."""
    one: dict[str, Any] = {"n_jobs": 1, "random_state": 0}
    n_few, n_test = shrink(2000, scale), shrink(5000, scale)
    colours = make_histograms(
        "colours", shrink(15_000, scale), n_test, n_bins=100, n_classes=5, length=1e3, spread=0.3
    )
    for data in (make_words(shrink(3000, scale), n_few), colours):
        peer = make_pipeline(AdditiveChi2Sampler(), LinearSVC(C=0.1, tol=0.1, random_state=0))
        ours = {"AdditiveSVC": AdditiveSVC(C=0.1, tol=0.1, **one)}
        yield Contest(data, ours, "sampler + LinearSVC", peer, 1)
    linear = LinearSVC(tol=0.1, random_state=0)
    yield Contest(colours, {"PowerMeanSVC": PowerMeanSVC(tol=0.1, **one)}, "LinearSVC", linear, 1)
    pair = make_histograms(
        "pair", shrink(4000, scale), n_few, n_bins=100, n_classes=2, length=1e3, spread=0.2
    )
    # IntersectionSVC counts in steps of a hundredth, so that 1e-3 is 0.1 on the range 0 to 1.
    exact = SVC(C=0.1, kernel=intersect, tol=TOL, cache_size=CACHE_MEGABYTES)
    steps = IntersectionSVC(C=1e-3, loss="hinge", tol=TOL, **one)
    yield Contest(pair, {"IntersectionSVC": steps}, "SVC and its matrix", exact, 1)


def intersect(A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
    """The intersection kernel, from sums and differences: sum min(a, b)."""
    return 0.5 * (A.sum(axis=1)[:, None] + B.sum(axis=1) - cdist(A, B, "cityblock"))


def contest_sparse(scale: float) -> Iterator[Contest]:
    """PSVM beside SpSVM that looks at all rows, with as many basis vectors; one thread."""
    data = make_census(shrink(2000, scale), shrink(5000, scale))
    same: dict[str, Any] = {**data.params, "n_basis": 28, "n_jobs": 1, "random_state": 0}
    peer = SpSVC(**same, n_candidates=len(data.y_train))
    yield Contest(data, {"ProjectedSVC": ProjectedSVC(**same)}, "SpSVC on all rows", peer, 1)


def shrink(n_rows: int, scale: float) -> int:
    """So many rows, or fewer in a trial."""
    return max(100, round(n_rows * scale))


FAMILIES = {
    "exact": Family(contest_exact, THREADS),
    "divide": Family(contest_divide, THREADS),
    "additive": Family(contest_additive, 1),
    "sparse": Family(contest_sparse, 1),
}


def measure_family(family: str, scale: float) -> Iterator[Row]:
    """Run all contests of a family."""
    threads = FAMILIES[family].threads
    for contest in FAMILIES[family].contests(scale):
        best = time_models(contest)
        peer = best.pop(contest.peer_name)
        for name, result in best.items():
            for measure in contest.measures:
                row = compare(contest, name, measure, result, peer)
                yield {**row, "threads": f"{threads} / {contest.peer_threads}"}


def time_models(contest: Contest) -> dict[str, dict[str, float]]:
    """Best seconds of all models, run in turns, so that a busy moment meets all of them."""
    models = {contest.peer_name: contest.peer, **contest.ours}
    for model in models.values():
        warm_up(model, contest.data)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in models}
    for _ in range(REPEATS):
        for name, model in models.items():
            if sum(run["fit"] + run["predict"] for run in runs[name]) < LONG_SECONDS:
                runs[name].append(time_model(model, contest.data))
    return {name: choose_best(runs[name]) for name in models}


def warm_up(model: Any, data: BenchmarkData) -> None:
    """Fit and predict on a few rows, so that compilation is not timed."""
    for n_rows in WARM_UP_ROWS:
        rows = select_rows(data.y_train, n_rows)
        model.fit(data.X_train[rows], data.y_train[rows]).predict(data.X_test[:n_rows])


def time_model(model: Any, data: BenchmarkData) -> dict[str, float]:
    """Seconds to fit and to predict, and accuracy in percent."""
    gc.collect()
    began = time.perf_counter()
    model.fit(data.X_train, data.y_train)
    fitted = time.perf_counter()
    predicted = model.predict(data.X_test)
    done = time.perf_counter()
    accuracy = 100.0 * float(np.mean(predicted == data.y_test))
    return {"fit": fitted - began, "predict": done - fitted, "accuracy": accuracy}


def choose_best(runs: list[dict[str, float]]) -> dict[str, float]:
    """Least seconds, and the worst accuracy: time bought with luck does not count."""
    return {key: min(run[key] for run in runs) for key in runs[0]}


def compare(
    contest: Contest, name: str, measure: str, ours: dict[str, float], peer: dict[str, float]
) -> Row:
    """One ratio, and what makes it fair."""
    return {
        "what": f"{measure}: {name} vs {contest.peer_name}, {contest.data.name}",
        "ours (s)": ours[measure],
        "peer (s)": peer[measure],
        "ratio": peer[measure] / ours[measure],
        "accuracy (%)": ours["accuracy"],
        "peer accuracy (%)": peer["accuracy"],
    }


def run_here(family: str, scale: float) -> None:
    """Measure a family; its record is the last line of the output."""
    rows = []
    for row in measure_family(family, scale):
        rows.append(row)
        seconds = f"{row['ours (s)']:.3f} s, peer {row['peer (s)']:.3f} s"
        print(f"  {row['what']}: {seconds}, ratio {row['ratio']:.2f}", file=sys.stderr, flush=True)
    print(json.dumps({"machine": describe_machine(), "rows": rows}))


def measure_apart(family: str, scale: float) -> dict[str, Any]:
    """Measure a family in a process of its own."""
    print(f"{family} ...", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "benchmarks.quick", family, str(scale)]
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(FAMILIES[family].threads))
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, cwd=ROOT, env=environment, text=True, check=True,
            timeout=MAX_FAMILY_SECONDS,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        raise MeasurementError(f"its process ended with code {error.returncode}") from error
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"it took more than {MAX_FAMILY_SECONDS:.0f} s") from error
    return json.loads(done.stdout.splitlines()[-1])


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


if __name__ == "__main__":
    run_here(sys.argv[1], float(sys.argv[2]))
