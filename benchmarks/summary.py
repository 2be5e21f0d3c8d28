"""From measurements to what the tables say: best of the repeats, ratios, targets."""

import math
from dataclasses import dataclass

from benchmarks.settings import MAX_OBJECTIVE_DIFFERENCE, SOLVERS
from benchmarks.storage import Measurement
from benchmarks.suites import SUITES, Suite

#: Data set -> solver -> best measurement, in the order of the file and of SOLVERS.
Summary = dict[str, dict[str, Measurement]]


@dataclass(frozen=True)
class Verdict:
    """A target on one data set: the ratio reached, None if something was not measured."""

    measure: str
    peer: str
    target: float
    ratio: float | None

    @property
    def met(self) -> bool | None:
        """Whether the target is met, None if that is not known."""
        return None if self.ratio is None else self.ratio >= self.target


def summarise(measurements: list[Measurement]) -> Summary:
    """Best fit of the repeats for each data set and solver, with the best prediction time."""
    groups: dict[str, dict[str, list[Measurement]]] = {}
    for m in measurements:
        groups.setdefault(m["dataset"], {}).setdefault(m["solver"], []).append(m)
    return {
        dataset: {s: select_best(by_solver[s]) for s in SOLVERS if s in by_solver}
        for dataset, by_solver in groups.items()
    }


def select_best(repeats: list[Measurement]) -> Measurement:
    """Select the repeat with the fastest fit; add the fastest prediction and the number."""
    suite = SUITES[repeats[0]["suite"]]
    fit, predict = suite.clock("fit"), suite.clock("predict")
    best = min(repeats, key=lambda m: m[fit])
    return best | {predict: min(m[predict] for m in repeats), "n_repeats": len(repeats)}


def find_ratio(results: dict[str, Measurement], measure: str, peer: str) -> float | None:
    """Time of a peer over ours."""
    if peer not in results or "widemargin" not in results:
        return None
    key = find_suite(results).clock(measure)
    return results[peer][key] / results["widemargin"][key]


def compare_objective(results: dict[str, Measurement], solver: str) -> float | None:
    """Objective relative to that of LIBSVM; below zero is better."""
    if "sklearn" not in results or solver not in results:
        return None
    reference = results["sklearn"]["objective"]
    return (results[solver]["objective"] - reference) / abs(reference)


def judge_targets(results: dict[str, Measurement]) -> list[Verdict]:
    """Hold one data set against the targets."""
    return [
        Verdict(measure, peer, target, find_ratio(results, measure, peer))
        for measure, peer, target in find_suite(results).targets
    ]


def find_suite(results: dict[str, Measurement]) -> Suite:
    """The suite that measurements of one data set belong to."""
    return SUITES[next(iter(results.values()))["suite"]]


def reaches_objective(results: dict[str, Measurement]) -> bool | None:
    """Whether our objective is that of LIBSVM, without which no time counts."""
    difference = compare_objective(results, "widemargin")
    return None if difference is None else abs(difference) <= MAX_OBJECTIVE_DIFFERENCE


def round_down(ratio: float) -> float:
    """Cut a ratio to one decimal, so that it never seems to reach a target it misses."""
    return math.floor(10 * ratio) / 10
