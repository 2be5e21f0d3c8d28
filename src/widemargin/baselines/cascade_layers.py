"""Cascade SVM: train on parts of the rows, and merge their support vectors in pairs.

Reference: H. P. Graf, E. Cosatto, L. Bottou, I. Durdanovic, V. Vapnik, "Parallel support vector
machines: the cascade SVM", NIPS 2004.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from widemargin.budget import Budget, StopReason
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.kernel_matrix import Gram
from widemargin.exact.several_problems import solve_problems
from widemargin.exact.solution import Solution, judge
from widemargin.kernels import Index, Kernel, Points
from widemargin.parallel import Workers
from widemargin.progress import show_problems

#: Minimum number of rows of a part, and of a class in it. Smaller parts cost more than they save.
MIN_ROWS, MIN_CLASS_ROWS = 200, 2
#: A round that lowers the objective by at most this share of it counts as stalled.
IDLE_SHARE = 1e-10


@dataclass(frozen=True)
class LayerRecord:
    """Statistics of one layer.

    Attributes
    ----------
    n_sets : int
        Number of sets.
    n_rows : int
        Number of rows in the sets.
    n_support : int
        Number of support vectors of the solutions.
    seconds : float
        Time to solve the sets. Problems solved together share it in proportion to their rows.
    """

    n_sets: int = 0
    n_rows: int = 0
    n_support: int = 0
    seconds: float = 0.0

    def __add__(self, other: "LayerRecord") -> "LayerRecord":
        return LayerRecord(
            self.n_sets + other.n_sets,
            self.n_rows + other.n_rows,
            self.n_support + other.n_support,
            self.seconds + other.seconds,
        )


class Cascade:
    """Cascade of one binary problem: the sets of each layer, from the parts to the last set.

    Parameters
    ----------
    dual : DualProblem
        The dual of a classifier. Row numbers are places in it.
    n_layers : int
        Maximum number of times that sets are merged.
    rng : Generator
        Random generator for the split.
    """

    def __init__(self, dual: DualProblem, n_layers: int, rng: np.random.Generator) -> None:
        self.dual = dual
        labels = -dual.linear
        self.n_layers = count_layers(labels, n_layers)
        self.parts = split_rows(labels, 2**self.n_layers, rng)
        self.n_rounds = self.n_iter = 0
        self.is_done = False
        self.layers: list[LayerRecord] = []
        self.solution = judge(dual, np.zeros(len(dual)), dual.linear)
        self._sets: list[Index] = []
        self._starts: Sequence[FloatArray | None] = []

    def start_round(self) -> None:
        """Set up the first layer: the parts, with the support vectors of the last round."""
        self.n_rounds += 1
        self._is_late = False
        self.layers = []
        if self.n_rounds == 1:
            self._sets, self._starts = self.parts, [None] * len(self.parts)
            return
        fed_back = np.append(np.flatnonzero(self.solution.coef), self._find_worst_pair())
        self._sets = [np.union1d(part, fed_back) for part in self.parts]
        self._starts = [self.solution.coef[rows] for rows in self._sets]

    @property
    def n_rows(self) -> int:
        """Number of rows in the sets of this layer."""
        return sum(map(len, self._sets))

    def make_duals(self) -> list[DualProblem]:
        """Return the sets of this layer as binary problems."""
        return [
            replace(self.dual.cut(rows), start=start)
            for rows, start in zip(self._sets, self._starts, strict=True)
        ]

    def take_solutions(self, solutions: list[Solution], seconds: float) -> None:
        """Record a solved layer, and merge the support vectors of its sets in pairs."""
        n_support = sum(int(np.count_nonzero(found.coef)) for found in solutions)
        self.layers.append(LayerRecord(len(solutions), self.n_rows, n_support, seconds))
        self.n_iter += sum(found.n_iter for found in solutions)
        self._is_late |= any(found.stop_reason == StopReason.MAX_TIME for found in solutions)
        solved = [
            (rows[found.coef != 0], found.coef[found.coef != 0])
            for rows, found in zip(self._sets, solutions, strict=True)
        ]
        pairs = [solved[s : s + 2] for s in range(0, len(solved), 2)]
        merged = [merge_sets(pair, len(self.dual)) for pair in pairs]
        self._sets = [rows for rows, _ in merged]
        self._starts = [start for _, start in merged]
        self._root = solutions[0]

    def finish_round(self, kernel: Kernel, points: Points, workers: Workers, tol: float) -> None:
        """Check on all rows whether the solution of the last set is optimal for the problem."""
        if len(self.parts) == 1:
            self.solution, self.is_done = replace(self._root, n_iter=self.n_iter), True
            return
        found = self._measure(kernel, points, workers)
        reason = self._judge(found, tol)
        self.solution = replace(found, n_iter=self.n_iter, stop_reason=reason)
        # Only a round without another stop reason can be improved by a further one.
        self.is_done = reason != StopReason.MAX_ITER

    def _measure(self, kernel: Kernel, points: Points, workers: Workers) -> Solution:
        """Return the solution of the last set, with its gradient on all rows."""
        dual, support = self.dual, self._sets[0]
        coef, gradient = np.zeros(len(dual)), dual.linear.copy()
        coef[support] = self._starts[0]
        gram = Gram(kernel, points, workers, dual.index)
        gram.accumulate(np.arange(len(coef)), support, coef[support], gradient)
        return judge(dual, coef, gradient)

    def _judge(self, found: Solution, tol: float) -> StopReason:
        """Return the stop reason after this round, or ``MAX_ITER`` to continue."""
        if found.violation < tol:
            return StopReason.CONVERGED
        if self._is_late:
            return StopReason.MAX_TIME
        before = self.solution.objective
        is_idle = before - found.objective <= IDLE_SHARE * abs(before)
        return StopReason.STALLED if is_idle else StopReason.MAX_ITER

    def _find_worst_pair(self) -> Index:
        """Return the most violating pair of rows."""
        rise, fall = self.dual.slopes(self.solution.gradient, self.solution.coef)
        return np.array([np.argmin(rise), np.argmax(fall)])


@dataclass(frozen=True)
class CascadeFit:
    """Kernel, rows, budget and options of a fit, and its loop over rounds and layers."""

    kernel: Kernel
    points: Points
    workers: Workers
    budget: Budget
    seed: int
    verbose: int

    def run(self, cascades: list[Cascade], max_rounds: int | None) -> None:
        """Run rounds until all problems have converged, stalled or reached a limit."""
        while True:
            running = [cascade for cascade in cascades if not cascade.is_done]
            for cascade in running:
                cascade.start_round()
            n_layers = max(cascade.n_layers for cascade in running)
            for layer in range(n_layers, -1, -1):
                self._solve_layer([c for c in running if c.n_layers >= layer])
            for cascade in running:
                cascade.finish_round(self.kernel, self.points, self.workers, self.budget.tol)
            is_last = max_rounds is not None and running[0].n_rounds >= max_rounds
            if is_last or all(cascade.is_done for cascade in running):
                return

    def _solve_layer(self, cascades: list[Cascade]) -> None:
        """Solve the sets of all problems together, and pass each problem its solutions."""
        start = time.perf_counter()
        duals = [dual for cascade in cascades for dual in cascade.make_duals()]
        with show_problems(len(duals), self.verbose) as show:
            solutions = solve_problems(
                self.kernel, self.points, duals, self.workers, budget=self.budget, seed=self.seed,
                callback=show,
            )  # fmt: skip
        seconds, left = time.perf_counter() - start, iter(solutions)
        # After the deadline a set may have no support vectors, so that the next layer has no rows.
        n_rows = max(sum(cascade.n_rows for cascade in cascades), 1)
        for cascade in cascades:
            own = [next(left) for _ in cascade.make_duals()]
            cascade.take_solutions(own, seconds * cascade.n_rows / n_rows)


def add_layers(cascades: list[Cascade]) -> list[LayerRecord]:
    """Return the sums of the layer records of all problems in their last round, parts first."""
    from_root = zip_longest(*(c.layers[::-1] for c in cascades), fillvalue=LayerRecord())
    return [sum(layer, LayerRecord()) for layer in from_root][::-1]


def count_layers(y: FloatArray, most: int) -> int:
    """Return how often the rows can be halved, up to ``most``, before parts are too small."""
    n_positive = int(np.count_nonzero(y > 0))
    rarer = min(n_positive, len(y) - n_positive)
    n_parts = max(1, min(len(y) // MIN_ROWS, rarer // MIN_CLASS_ROWS))
    return min(most, n_parts.bit_length() - 1)


def split_rows(y: FloatArray, n_parts: int, rng: np.random.Generator) -> list[Index]:
    """Split rows at random into parts of nearly equal size and nearly equal class shares."""
    order = np.concatenate([rng.permutation(np.flatnonzero(side)) for side in (y < 0, y > 0)])
    return [np.sort(order[p::n_parts]) for p in range(n_parts)]


def merge_sets(solved: list[tuple[Index, FloatArray]], n_rows: int) -> tuple[Index, FloatArray]:
    """Return the union of sets of rows, with the mean coefficient of rows in several sets."""
    total, count = np.zeros(n_rows), np.zeros(n_rows, np.intp)
    for rows, coef in solved:
        total[rows] += coef
        count[rows] += 1
    rows = np.flatnonzero(count)
    return rows, total[rows] / count[rows]
