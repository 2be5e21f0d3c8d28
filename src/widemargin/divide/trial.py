"""What predicts best in a fit that stops early: clusters, the solution of a random sample, or both.

Clusters are better where the kernel is narrow and the data have clusters (covtype); a sample is better
where they have none, and both together are best in between (mnist). The choice is measured on rows of
some clusters that are held out:

1. the loss of these clusters alone (DC-SVM Eq. 11), each trained without its held-out rows;
2. the loss of a small sample, and that of the clusters on top of it (`widemargin.divide.background`);
   if neither promises a lower one, the clusters alone are used;
3. otherwise the losses of a larger sample and of the clusters on top of it. The lowest of the three
   losses wins, and both together only if they lower it much and do not cost nearly as much as the
   whole problem. If the sample alone would, the whole problem is solved instead.

Of many binary problems only some are tried, which tells as much in a fraction of the time. The loss is
the hinge loss, which the SVM minimises, and which varies less with the choice of the held-out rows
than the number of errors does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.divide.background import Background, change_background
from widemargin.divide.costs import (
    TRIED_PROBLEMS,
    estimate_exact,
    estimate_level,
    estimate_sample,
    estimate_whole,
    grow_support,
)
from widemargin.divide.partition import split_by_group
from widemargin.divide.records import Plan
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.solution import Solution
from widemargin.kernels import Index

#: A sample has as many rows as the root of this times the number of all rows, so that its kernel
#: matrix, and with it the time to solve it, grows in proportion to the number of all rows.
VALUES_PER_ROW = 10_000
#: A sample, or clusters on top of one, that costs more than this share of the whole problem is not
#: worth its loss. The trial has a cost too, which is not counted.
SAMPLE_SHARE, WORTH_SHARE = 0.45, 0.6
#: One row in so many of a tried cluster is held out. Clusters are tried until so many rows are held
#: out and so many clusters are tried, but at most one cluster in so many.
HELD_OUT, WANTED_ROWS, LEAST_CLUSTERS, CLUSTER_SHARE = 5, 2000, 4, 4
#: The first sample that is tried has one row in so many of the sample, whose loss is lower than this
#: share of that of the first.
SMALL_PART, SAMPLE_GAIN = 8, 0.8
#: What costs more must lower the loss to this share: a sample below clusters, or clusters on top of a
#: sample.
LEAST_GAIN = 0.84

#: Positions of rows in a binary problem, and which of the rows they are.
Places = tuple[Index, Index]
#: Solves the binary problems on some rows; the solutions are zero elsewhere.
Solve = Callable[[list[DualProblem], Index], list[Solution]]
#: Returns decision values at some rows, of shape (n_rows, n_problems).
Decide = Callable[[list[DualProblem], list[Solution], Index], FloatArray]


@dataclass(frozen=True)
class Trial:
    """Clusters and binary problems that are tried.

    Attributes
    ----------
    problems : ndarray
        The tried binary problems.
    trained, held_out : list of ndarray
        Training rows and held-out rows of each cluster.
    trained_places, tested_places : list of (ndarray, ndarray)
        Where the tried problems have these rows, as `find_places` says.
    """

    problems: Index
    trained: list[Index]
    held_out: list[Index]
    trained_places: list[Places]
    tested_places: list[Places]

    @property
    def tested(self) -> Index:
        """The held-out rows of all clusters."""
        return np.concatenate(self.held_out)

    def measure(self, duals: list[DualProblem], values: FloatArray) -> float:
        """Return the mean hinge loss at the held-out rows, weighted by the cost of each row."""
        loss = weight = 0.0
        for p, (dual, (at, rows)) in enumerate(zip(duals, self.tested_places, strict=True)):
            assert dual.labels is not None
            cost = dual.upper[at] - dual.lower[at]
            loss += float(cost @ np.maximum(0.0, 1.0 - dual.labels[at] * values[rows, p]))
            weight += float(cost.sum())
        return loss / weight if weight else 0.0


@dataclass(frozen=True)
class Choice:
    """What a fit uses: the solution of a sample of ``n_rows`` or None, and whether its clusters.

    If it uses neither, the whole problem is to be solved.
    """

    background: list[Solution] | None
    n_rows: int
    uses_clusters: bool


def count_sample(n_points: int) -> int:
    """Return the number of rows of the sample."""
    return min(isqrt(VALUES_PER_ROW * n_points), n_points)


def draw_trial(
    clusters: NDArray[np.int32], n_clusters: int, duals: list[DualProblem], seed: int
) -> Trial:
    """Draw clusters, rows of them to hold out, and binary problems."""
    rng = np.random.default_rng(seed)
    problems = np.sort(rng.permutation(len(duals))[:TRIED_PROBLEMS])
    members = split_by_group(clusters, n_clusters)
    trained, held_out, n_rows = list[Index](), list[Index](), 0
    for c in rng.permutation(n_clusters)[: max(1, n_clusters // CLUSTER_SHARE)]:
        order = rng.permutation(members[c])
        n_held = len(order) // HELD_OUT
        held_out.append(np.sort(order[:n_held]))
        trained.append(np.sort(order[n_held:]))
        n_rows += n_held
        if n_rows >= WANTED_ROWS and len(trained) >= LEAST_CLUSTERS:
            break
    tried = [duals[p] for p in problems]
    both = (find_places(tried, np.concatenate(rows), len(clusters)) for rows in (trained, held_out))
    return Trial(problems, trained, held_out, *both)


def find_places(duals: list[DualProblem], rows: Index, n_points: int) -> list[Places]:
    """Return for each binary problem the positions of ``rows`` in it, and which rows these are."""
    position, places = np.full(n_points, -1), list[Places]()
    position[rows] = np.arange(len(rows))
    for dual in duals:
        found = position[dual.index]
        at = np.flatnonzero(found >= 0)
        places.append((at, found[at]))
    return places


def choose_models(
    trial: Trial, duals: list[DualProblem], order: Index, plan: Plan, solve: Solve, decide: Decide
) -> Choice:
    """Measure clusters and samples on held-out rows, and choose what predicts best.

    Parameters
    ----------
    trial : Trial
        Clusters and their held-out rows.
    duals : list of DualProblem
        The binary problems.
    order : ndarray
        All rows but the held-out ones, in random order; samples are its first rows.
    plan : Plan
        Levels and clusters.
    solve, decide
        Solve the problems on some rows, and compute decision values at some.
    """
    tried, n_sample = [duals[p] for p in trial.problems], count_sample(len(order))
    alone = trial.measure(tried, _decide_clusters(trial, tried, solve, decide))
    n_small = n_sample // SMALL_PART
    small = solve(tried, np.sort(order[:n_small]))
    losses = _measure_sample(trial, tried, small, solve, decide)
    if alone <= min(SAMPLE_GAIN * losses.sample, losses.both / LEAST_GAIN):
        return Choice(None, 0, True)
    costs = _Costs.estimate(duals, small, (n_small, n_sample, len(order)), plan)
    if costs.sample > SAMPLE_SHARE * costs.whole:
        return Choice(None, 0, False)
    large = solve(duals, np.sort(order[:n_sample]))
    losses = _measure_sample(trial, tried, [large[p] for p in trial.problems], solve, decide)
    is_worth = losses.both < LEAST_GAIN * min(losses.sample, alone)
    if is_worth and costs.both <= WORTH_SHARE * costs.whole:
        return Choice(large, n_sample, True)
    return Choice(large, n_sample, False) if losses.sample < alone else Choice(None, 0, True)


class _Costs(NamedTuple):
    """Costs of the whole problem, of a sample, and of a sample below clusters, in kernel values."""

    whole: float
    sample: float
    both: float

    @classmethod
    def estimate(
        cls, duals: list[DualProblem], small: list[Solution], rows: tuple[int, int, int], plan: Plan
    ) -> "_Costs":
        """Estimate costs from the solution of a small sample of some of the problems.

        ``rows`` are the numbers of rows of the small sample, of the sample, and of the whole problem.
        """
        n_small, n_sample, n_points = rows
        sizes = np.array([len(dual) for dual in duals], np.float64)
        shares = [np.count_nonzero(found.coef) / len(found.coef) for found in small]
        n_support = float(np.mean(shares)) * sizes
        n_whole, n_sampled = (grow_support(n_support, n / n_small) for n in (n_points, n_sample))
        whole, of_sample = estimate_whole(n_whole, sizes), sizes * n_sample / n_points
        exact = estimate_exact(n_whole, sizes)
        clusters = estimate_level(exact, len(duals), n_points, plan, plan.stop_level)
        both = estimate_sample(n_sampled, of_sample, n_sample, n_points) + clusters
        return cls(whole, estimate_whole(n_sampled, of_sample), both)


class _Losses(NamedTuple):
    """The loss of a sample, and that of the clusters on top of it."""

    sample: float
    both: float


def _measure_sample(
    trial: Trial, tried: list[DualProblem], found: list[Solution], solve: Solve, decide: Decide
) -> _Losses:
    """Measure the solution of a sample, alone and below the tried clusters."""
    values = decide(tried, found, trial.tested)
    changed = _change_tried(trial, tried, found, decide)
    both = values + _decide_clusters(trial, changed, solve, decide)
    return _Losses(trial.measure(tried, values), trial.measure(tried, both))


def _decide_clusters(
    trial: Trial, duals: list[DualProblem], solve: Solve, decide: Decide
) -> FloatArray:
    """Return the decision values of each tried cluster at its held-out rows."""
    return np.concatenate(
        [
            decide(duals, solve(duals, inside), outside)
            for inside, outside in zip(trial.trained, trial.held_out, strict=True)
        ]
    )


def _change_tried(
    trial: Trial, duals: list[DualProblem], background: list[Solution], decide: Decide
) -> list[DualProblem]:
    """Return the problems whose variables are changes of the background, for tried clusters only."""
    values, decisions = decide(duals, background, np.concatenate(trial.trained)), list[FloatArray]()
    for p, (dual, (at, rows)) in enumerate(zip(duals, trial.trained_places, strict=True)):
        decisions.append(np.zeros(len(dual)))
        decisions[p][at] = values[rows, p]
    return change_background(duals, Background(background, decisions))
