"""The quick guard: a few minutes that show a slowdown before it lands.

``python -m benchmarks quick`` times every family beside a peer, in the same run and on the same
rows, and compares the ratio of the peer's time to ours with the ratio on file. A busy or another
machine slows both sides, so ratios move much less than seconds. A ratio that looks bad is measured a
second time before it counts. ``--save`` makes the ratios of this run the reference.

The data are scikit-learn's digits and three generated sets, so that everyone can run the guard,
nothing is downloaded, and its figures do not depend on a folder. Each copies what makes a real set
easy or hard for its family:

- *terrain* is like covtype: ten smooth measurements of a place and the kind of ground there, a
  winding boundary that needs a narrow kernel, wrong labels, about a third of the rows support vectors;
- *histograms* are like bags of words and of colours: counts in many bins of which most are small or
  zero, classes that differ in the shape of all bins a little; short ones are sparse;
- *census* is like a1a: 14 answers as 126 zeros and ones, a quarter of the rows positive, noise.

They come from ``RandomState``, whose numbers NumPy promises to keep. The ratios are a guard and not
claims: those are measured on real sets by the other commands.

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
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from benchmarks.experiments import Row, show
from benchmarks.isolate import THREAD_VARIABLES, MeasurementError
from benchmarks.machine import ROOT, describe_machine
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


def split(name: str, X: Any, y: NDArray[Any], n_train: int, **params: float) -> BenchmarkData:
    """The first rows to train with, the others to test."""
    name = f"{name} {n_train:,}"
    return BenchmarkData(name, X[:n_train], y[:n_train], X[n_train:], y[n_train:], params)


def make_terrain(n_train: int, n_test: int) -> BenchmarkData:
    """Places on a map: smooth measurements, kind of ground, and a winding boundary."""
    rng = np.random.RandomState(0)
    n = n_train + n_test
    place = rng.random_sample((n, 3))
    height = add_waves(rng, place, n_waves=40, frequency=10.0)
    is_wrong = rng.random_sample(n) < 0.05
    y = np.where((height > np.median(height)) ^ is_wrong, 1, -1)
    angle = place @ rng.normal(0.0, 1.5, (3, 10)) + rng.uniform(0.0, 2.0 * np.pi, 10)
    ground = cdist(place, rng.random_sample((20, 3))).argmin(axis=1)
    X = np.hstack([0.5 + 0.5 * np.cos(angle), np.eye(20)[ground]]).astype(np.float32)
    return split("terrain", X, y, n_train, C=32.0, gamma=32.0)


def add_waves(
    rng: np.random.RandomState, place: NDArray[np.float64], n_waves: int, frequency: float
) -> NDArray[np.float64]:
    """A random smooth function: waves of many directions and lengths."""
    direction = rng.normal(0.0, frequency, (place.shape[1], n_waves))
    return np.cos(place @ direction + rng.uniform(0.0, 2.0 * np.pi, n_waves)).sum(axis=1)


def make_digits(n_train: int) -> BenchmarkData:
    """Handwritten digits and their shifts by one pixel; all five of an image on the same side."""
    images, y = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) / 16.0
    wide = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    corners = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
    shifted = [wide[:, i : i + 8, j : j + 8] for i, j in corners]
    X = np.stack(shifted, axis=1).reshape(-1, 64).astype(np.float32)
    return split("digits", X, np.repeat(y, len(corners)), n_train, C=10.0, gamma=0.05)


def make_histograms(
    name: str,
    n_train: int,
    n_test: int,
    *,
    n_bins: int,
    n_classes: int,
    length: float,
    spread: float,
) -> BenchmarkData:
    """Counts, about ``length`` a row, divided by the largest count of their bin."""
    rng = np.random.RandomState(0)
    y = rng.randint(n_classes, size=n_train + n_test)
    shape = 0.3 * np.exp(spread * rng.normal(size=(n_classes, n_bins)))
    weight = rng.gamma(shape[y])
    counts = rng.poisson(length * weight / weight.sum(axis=1, keepdims=True))
    X = np.minimum(counts / np.maximum(counts[:n_train].max(axis=0), 1), 1.0)
    return split(name, X, y, n_train)


def make_words(n_train: int, n_test: int) -> BenchmarkData:
    """Short histograms with many bins, as sparse rows."""
    data = make_histograms(
        "words", n_train, n_test, n_bins=2000, n_classes=10, length=100.0, spread=0.4
    )
    X_train, X_test = (sparse.csr_matrix(part) for part in (data.X_train, data.X_test))
    return BenchmarkData(data.name, X_train, data.y_train, X_test, data.y_test, {})


def make_census(n_train: int, n_test: int) -> BenchmarkData:
    """Answers to 14 questions with nine choices each, as sparse zeros and ones."""
    rng = np.random.RandomState(0)
    n, n_questions, n_choices = n_train + n_test, 14, 9
    odds = rng.dirichlet(np.full(n_choices, 0.7), n_questions)
    answers = np.stack([rng.choice(n_choices, n, p=p) for p in odds], axis=1)
    X = np.eye(n_choices)[answers].reshape(n, -1)
    n_columns = X.shape[1]
    alone = X @ rng.normal(size=n_columns)
    together = np.einsum("ij,ij->i", X @ rng.normal(size=(n_columns, n_columns)), X)
    score = alone + 0.2 * together
    score = (score - score.mean()) / score.std() + 0.45 * rng.normal(size=n)
    y = np.where(score > 0.7, 1, -1)
    return split("census", sparse.csr_matrix(X), y, n_train, C=4.0, gamma=0.04)


def contest_exact(scale: float) -> Iterator[Contest]:
    """KernelSVC beside LIBSVM: two classes, then ten, one against one."""
    n_test = shrink(10_000, scale)
    for data in (make_terrain(shrink(8000, scale), n_test), make_digits(shrink(6000, scale))):
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
        type=parse_families,
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


def parse_families(text: str) -> tuple[str, ...]:
    """Comma-separated names of families."""
    names = tuple(text.split(","))
    for name in names:
        if name not in FAMILIES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(FAMILIES)}")
    return names


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
