"""The contests of the quick guard: models of ours beside a peer on the same rows."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from benchmarks.experiments import Row
from benchmarks.quick_data import (
    make_census,
    make_digits,
    make_histograms,
    make_terrain,
    make_words,
)
from benchmarks.records import BenchmarkData
from benchmarks.settings import CACHE_MEGABYTES, THREADS, TOL
from benchmarks.timing import select_rows, time_call
from widemargin import (
    DCSVC,
    AdditiveSVC,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
    ProjectedSVC,
)
from widemargin.baselines import SpSVC

#: Runs of each model, the best of which counts.
REPEATS = 3
#: A model that has taken so long is not run again.
LONG_SECONDS = 8.0
#: The second size reaches the compiled loops that a few hundred rows do not need.
WARM_UP_ROWS = (300, 4000)


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
        "colours", (shrink(15_000, scale), n_test), n_bins=100, n_classes=5, length=1e3, spread=0.3
    )
    for data in (make_words(shrink(3000, scale), n_few), colours):
        peer = make_pipeline(AdditiveChi2Sampler(), LinearSVC(C=0.1, tol=0.1, random_state=0))
        ours = {"AdditiveSVC": AdditiveSVC(C=0.1, tol=0.1, **one)}
        yield Contest(data, ours, "sampler + LinearSVC", peer, 1)
    linear = LinearSVC(tol=0.1, random_state=0)
    yield Contest(colours, {"PowerMeanSVC": PowerMeanSVC(tol=0.1, **one)}, "LinearSVC", linear, 1)
    pair = make_histograms(
        "pair", (shrink(4000, scale), n_few), n_bins=100, n_classes=2, length=1e3, spread=0.2
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
                show_row(row)
                yield {**row, "threads": f"{threads} / {contest.peer_threads}"}


def show_row(row: Row) -> None:
    """One line for the person who waits."""
    seconds = f"{row['ours (s)']:.3f} s, peer {row['peer (s)']:.3f} s"
    print(f"  {row['what']}: {seconds}, ratio {row['ratio']:.2f}", file=sys.stderr, flush=True)


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
    fit = time_call(lambda: model.fit(data.X_train, data.y_train))
    predict = time_call(lambda: model.predict(data.X_test))
    accuracy = 100.0 * float(np.mean(predict.value == data.y_test))
    return {"fit": fit.seconds, "predict": predict.seconds, "accuracy": accuracy}


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
