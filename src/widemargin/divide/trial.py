"""What predicts best in a fit that stops early: clusters, the solution of a random sample, or both.

Clusters are better where the kernel is narrow and the data have clusters (covtype); a sample is better
where they have none, and both together are best in between (mnist). The choice is measured on rows of
some clusters that are held out:

1. the loss of these clusters alone (DC-SVM Eq. 11), each trained without its held-out rows;
2. the loss of a small sample, and that of the clusters on top of it (`widemargin.divide.background`);
   if neither is lower, the clusters alone are used;
3. otherwise the losses of the sample and of the clusters on top of it, of which the lower one is used.
   If the sample would cost nearly as much as the whole problem, the whole problem is solved instead.

The loss is the hinge loss, which the SVM minimises, and which varies less with the choice of the
held-out rows than the number of errors does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.divide.background import Background, change_background
from widemargin.divide.costs import estimate_exact, estimate_sample, grow_support
from widemargin.divide.partition import split_by_group
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.solution import Solution
from widemargin.kernels import Index

#: A sample has as many rows as the root of this times the number of all rows, so that its kernel
#: matrix, and with it the time to solve it, grows in proportion to the number of all rows.
VALUES_PER_ROW = 10_000
#: A sample that costs more than this share of the whole problem is not worth its loss.
WORTH_SHARE = 0.6
#: One row in so many of a tried cluster is held out. Clusters are tried until so many rows are held
#: out and so many clusters are tried, but at most one cluster in so many.
HELD_OUT, WANTED_ROWS, LEAST_CLUSTERS, CLUSTER_SHARE = 5, 2000, 4, 4
#: The first sample that is tried has one row in so many of the sample, and must lower the loss of the
#: clusters to this share at least.
SMALL_PART, LEAST_GAIN = 8, 0.94

#: Positions of rows in a binary problem, and which of the rows they are.
Places = tuple[Index, Index]
#: Solves the binary problems on some rows; the solutions are zero elsewhere.
Solve = Callable[[list[DualProblem], Index], list[Solution]]
#: Returns decision values at some rows, of shape (n_rows, n_problems).
Decide = Callable[[list[DualProblem], list[Solution], Index], FloatArray]


@dataclass(frozen=True)
class Trial:
    """Clusters that are tried.

    Attributes
    ----------
    trained, held_out : list of ndarray
        Training rows and held-out rows of each cluster.
    trained_places, tested_places : list of (ndarray, ndarray)
        Where the binary problems have these rows, as `find_places` says.
    """

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
    """Draw clusters, and rows of them to hold out."""
    rng = np.random.default_rng(seed)
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
    both = (find_places(duals, np.concatenate(rows), len(clusters)) for rows in (trained, held_out))
    return Trial(trained, held_out, *both)


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
    trial: Trial, duals: list[DualProblem], order: Index, solve: Solve, decide: Decide
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
    solve, decide
        Solve the problems on some rows, and compute decision values at some.
    """
    n_sample = count_sample(len(order))
    alone = trial.measure(duals, _decide_clusters(trial, duals, solve, decide))
    small = _Losses.measure(trial, duals, np.sort(order[: n_sample // SMALL_PART]), solve, decide)
    if alone <= min(small.sample, small.both / LEAST_GAIN):
        return Choice(None, 0, True)
    if not _is_affordable(duals, small.solutions, n_sample, len(order)):
        return Choice(None, 0, False)
    large = _Losses.measure(trial, duals, np.sort(order[:n_sample]), solve, decide)
    return Choice(large.solutions, n_sample, large.both < large.sample)


def _is_affordable(
    duals: list[DualProblem], small: list[Solution], n_sample: int, n_points: int
) -> bool:
    """Return whether the sample costs so much less than the whole problem that it pays."""
    n_small, sizes = n_sample // SMALL_PART, np.array([len(dual) for dual in duals], np.float64)
    n_support = np.array([np.count_nonzero(found.coef) for found in small], np.float64)
    exact = estimate_exact(grow_support(n_support, n_points / n_small), sizes)
    of_sample = sizes * n_sample / n_points
    grown = grow_support(n_support, SMALL_PART)
    return estimate_sample(grown, of_sample, n_sample, n_points) <= WORTH_SHARE * exact


@dataclass(frozen=True)
class _Losses:
    """The solution of a sample, its loss, and the loss of the clusters on top of it."""

    solutions: list[Solution]
    sample: float
    both: float

    @classmethod
    def measure(
        cls, trial: Trial, duals: list[DualProblem], rows: Index, solve: Solve, decide: Decide
    ) -> "_Losses":
        solutions = solve(duals, rows)
        values = decide(duals, solutions, trial.tested)
        changed = _change_tried(trial, duals, solutions, decide)
        both = values + _decide_clusters(trial, changed, solve, decide)
        return cls(solutions, trial.measure(duals, values), trial.measure(duals, both))


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
