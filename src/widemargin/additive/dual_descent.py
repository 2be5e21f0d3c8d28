"""Dual coordinate descent for machines that are linear in numbers made up on the fly.

The descent is that of Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), with their shrinking and
stopping rule, for one class against the rest. It runs for several classes at once: a row is made up
from its codes once for all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.coded_rows import (
    FloatArray,
    coefs_by_class,
    count_coefs,
    count_work,
    float_type,
    gram_rows,
    prefers_gram,
    weigh_bins,
)
from widemargin.additive.coded_rows_fast import Rows
from widemargin.deadline import is_late
from widemargin.parallel import Workers

#: Classes that share a pass at most. Fixed, so that answers do not depend on the number of threads.
CLASSES_AT_ONCE = 8
#: An approximate descent has diverged when the violation is so many times the smallest it had; a
#: stochastic one, when the loss is.
DIVERGED = 100.0
#: Every so many passes all rows of an approximate descent take part, so that it can be judged.
CHECK_PASSES = 10
#: Violation to which small problems are finished, and the most multiplications spent on that: about
#: a tenth of a second.
FINISH_TOL, FINISH_WORK = 1e-11, 2 * 10**8
#: Multiplications between two looks at the clock: some hundredths of a second.
PIECE_WORK = 5 * 10**7
#: Fewer passes would change a solution, but not finish it.
FINISH_PASSES = 100

#: From worst to best.
STOP_REASONS = ("diverged", "max_time", "max_iter", "converged")


@dataclass(frozen=True)
class DualProblem:
    """One-vs-rest problems on the same rows.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Class of every row.
    positives : ndarray of shape (n_problems,)
        Class that each problem asks about.
    upper : ndarray of shape (n,)
        Largest dual coefficient; infinite for the squared hinge loss.
    ridge : ndarray of shape (n,)
        What the squared hinge loss adds to the diagonal.
    norms : ndarray of shape (n,)
        Diagonal of the kernel matrix.
    """

    labels: NDArray[np.int64]
    positives: NDArray[np.int64]
    upper: FloatArray
    ridge: FloatArray
    norms: FloatArray


@dataclass(frozen=True)
class Descent:
    """How long to go on.

    Attributes
    ----------
    tol : float
        Stop when the projected gradients of a problem differ by less.
    max_iter : int
        Passes over the data.
    deadline : float or None
        When to stop, by `time.perf_counter`.
    seed : int
        For the order of rows.
    finish : bool
        Whether to go on, once converged, to the precision of float64 where that costs little.
    """

    tol: float
    max_iter: int
    deadline: float | None = None
    seed: int = 0
    finish: bool = False

    def count_finishing(self, n_made: int, work: float) -> int:
        """Passes left after ``n_made`` to finish with, each of so many multiplications."""
        if not self.finish or FINISH_PASSES * work > FINISH_WORK:
            return 0
        return max(0, min(self.max_iter - n_made, int(FINISH_WORK / max(work, 1.0))))


@dataclass(frozen=True)
class LinearResult:
    """Solutions of one-vs-rest problems.

    Attributes
    ----------
    coef : ndarray of shape (n_problems, n_features * rank)
        Coefficients; of rows that are bins, the decision curves.
    extra : ndarray of shape (n_problems, n_extra)
        Coefficients of the extra numbers.
    alpha : ndarray of shape (n, n_problems)
        Dual coefficients, not negative.
    n_iter : ndarray of shape (n_problems,)
        Passes.
    violation : ndarray of shape (n_problems,)
        Spread of the projected gradients in the last pass.
    stop_reason : str
        ``"converged"``, ``"max_iter"``, ``"max_time"`` or ``"diverged"``.
    """

    coef: NDArray[Any]
    extra: NDArray[Any]
    alpha: FloatArray
    n_iter: NDArray[np.int64]
    violation: FloatArray
    stop_reason: str


def descend(
    rows: Rows,
    problem: DualProblem,
    settings: Descent,
    workers: Workers,
    start: FloatArray | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> LinearResult:
    """Solve the one-vs-rest problems.

    Parameters
    ----------
    rows : Rows
        The data.
    problem : DualProblem
        Labels, bounds and diagonals.
    settings : Descent
        When to stop.
    workers : Workers
        Threads, which share the classes.
    start : ndarray of shape (n, n_problems), optional
        Dual coefficients to start from.
    callback : callable, optional
        Called with the number of the pass and the violation, from the thread that made it.
    """
    if prefers_gram(rows, len(problem.positives)):
        alone = descend(gram_rows(rows, workers), problem, settings, workers, start, callback)
        is_positive = problem.labels[:, None] == problem.positives
        coef, extra = weigh_bins(rows, np.where(is_positive, alone.alpha, -alone.alpha))
        return replace(alone, coef=coef, extra=extra)
    n_problems = len(problem.positives)
    n_groups = -(-n_problems // CLASSES_AT_ONCE)
    groups = np.array_split(np.arange(n_problems), n_groups)
    solved: dict[int, LinearResult] = {}

    def solve(first: int, last: int) -> None:
        for g in range(first, last):
            group = _Group(rows, problem, groups[g], start)
            solved[g] = group.solve(settings, workers, callback)

    workers.run(n_groups, solve, grain=1)
    return gather_results([solved[g] for g in range(n_groups)])


def gather_results(parts: list[LinearResult]) -> LinearResult:
    """One result of those of several classes; its reason to stop is the worst of theirs."""
    reasons = {part.stop_reason for part in parts}
    return LinearResult(
        coef=np.concatenate([part.coef for part in parts]),
        extra=np.concatenate([part.extra for part in parts]),
        alpha=np.hstack([part.alpha for part in parts]),
        n_iter=np.concatenate([part.n_iter for part in parts]),
        violation=np.concatenate([part.violation for part in parts]),
        stop_reason=next(reason for reason in STOP_REASONS if reason in reasons),
    )


class _Group:
    """Descent for a few classes that share passes."""

    def __init__(
        self, rows: Rows, problem: DualProblem, members: NDArray[np.intp], start: FloatArray | None
    ) -> None:
        self.rows = rows
        self.info = np.column_stack(
            [problem.labels, problem.upper, problem.ridge, problem.norms]
        ).ravel()
        self.positives = problem.positives[members]
        n, k = len(problem.labels), len(members)
        self.alpha = np.zeros((n, k))
        self.resting = np.zeros((n, k), bool)
        self.coef = np.zeros(count_coefs(rows) * k, float_type(rows))
        self.extra = np.zeros((k, rows.n_extra), float_type(rows))
        self.room = fast.make_room(rows, k, float_type(rows))
        self.highest, self.lowest = np.empty(k), np.empty(k)
        self.is_done = np.zeros(k, bool)
        self.n_iter = np.zeros(k, np.int64)
        self.violation = np.full(k, np.inf)
        per_row = max(count_work(rows) * k / max(n, 1), 1.0)
        self.piece = max(1, int(PIECE_WORK / per_row))
        # All groups share what may be spent on finishing.
        self.work = count_work(rows) * len(problem.positives)
        if start is not None:
            self.alpha[:] = np.minimum(start[:, members], problem.upper[:, None])
            fast.add_rows(
                rows, problem.labels, self.positives, self.alpha, self.room, self.coef, self.extra
            )

    def solve(
        self, settings: Descent, workers: Workers, callback: Callable[[int, float], object] | None
    ) -> LinearResult:
        """Go on until all classes are done, or it is time to stop."""
        rng = np.random.default_rng(settings.seed)
        reason = self._descend(settings, settings.tol, settings.max_iter, rng, workers, callback)
        if reason == "converged":
            self._finish(settings, rng, workers)
        return LinearResult(
            coefs_by_class(self.rows, self.coef, len(self.positives)), self.extra, self.alpha,
            self.n_iter, self.violation, reason,
        )  # fmt: skip

    def _finish(self, settings: Descent, rng: np.random.Generator, workers: Workers) -> None:
        """Go on to the precision of float64, as far as the passes left allow."""
        n_passes = settings.count_finishing(int(self.n_iter.max()), self.work)
        if n_passes == 0:
            return
        violation = self.violation.copy()
        self.is_done[:] = False
        self.resting[:] = False
        self._descend(settings, FINISH_TOL, n_passes, rng, workers, None)
        self.violation = np.minimum(violation, self.violation)

    def _descend(
        self,
        settings: Descent,
        tol: float,
        max_iter: int,
        rng: np.random.Generator,
        workers: Workers,
        callback: Callable[[int, float], object] | None,
    ) -> str:
        tops, bottoms = np.full(len(self.positives), np.inf), np.full(len(self.positives), -np.inf)
        best = _Best(self) if not self.rows.is_symmetric else None
        reason = "max_time"
        for number in range(max_iter):
            if workers.failed:
                # Another thread was interrupted; nobody will look at this solution.
                return "max_time"
            if best is not None and number % CHECK_PASSES == 0:
                self.resting[:, ~self.is_done] = False
            is_full = not self.resting[:, ~self.is_done].any()
            order = np.flatnonzero(~self.resting.all(axis=1))
            is_whole = self._sweep(rng.permutation(order), tops, bottoms, settings.deadline)
            going = ~self.is_done
            self.violation[going] = np.maximum(self.highest - self.lowest, 0.0)[going]
            self.n_iter[going] += 1
            if not is_whole:
                break
            self._rest(tol, tops, bottoms)
            if callback is not None:
                callback(number + 1, float(self.violation.max()))
            if best is not None:
                if is_full:
                    best.consider()
                if best.has_diverged(tol):
                    best.restore()
                    return "diverged"
            if self.is_done.all():
                return "converged"
            if is_late(settings.deadline):
                break
        else:
            reason = "max_iter"
        if best is not None:
            best.restore()
        return reason

    def _sweep(
        self, order: NDArray[np.intp], tops: FloatArray, bottoms: FloatArray, deadline: float | None
    ) -> bool:
        """Make a pass; False if time is up before its end."""
        highest, lowest = np.empty(len(tops)), np.empty(len(tops))
        self.highest[:], self.lowest[:] = -np.inf, np.inf
        for start in range(0, len(order), self.piece):
            fast.sweep(
                self.rows, order[start : start + self.piece], self.info, self.positives, tops,
                bottoms, self.alpha.ravel(), self.resting.ravel(), self.room, self.coef, self.extra,
                highest, lowest,
            )  # fmt: skip
            np.maximum(self.highest, highest, out=self.highest)
            np.minimum(self.lowest, lowest, out=self.lowest)
            if start + self.piece < len(order) and is_late(deadline):
                return False
        return True

    def _rest(self, tol: float, tops: FloatArray, bottoms: FloatArray) -> None:
        """Decide which rows may rest from now on, and which classes are done."""
        for k in np.flatnonzero(~self.is_done):
            if self.violation[k] <= tol:
                # Rows that rested were judged by an older solution: once more with all of them.
                self.is_done[k] = not self.resting[:, k].any()
                self.resting[:, k] = self.is_done[k]
                tops[k], bottoms[k] = np.inf, -np.inf
            else:
                tops[k] = self.highest[k] if self.highest[k] > 0 else np.inf
                bottoms[k] = self.lowest[k] if self.lowest[k] < 0 else -np.inf


class _Best:
    """The best solution an approximate descent has had; it need not get better with every pass."""

    def __init__(self, group: _Group) -> None:
        self.group = group
        self.violation = np.inf
        self.kept: tuple[Any, ...] = ()

    def consider(self) -> None:
        """Keep a copy if it is the best so far, judged by a pass in which no row rested."""
        g = self.group
        now = float(g.violation.max())
        if now < self.violation:
            self.violation = now
            self.kept = (g.coef.copy(), g.extra.copy(), g.alpha.copy(), g.violation.copy())

    def has_diverged(self, tol: float) -> bool:
        """Whether the group is far worse than it was. Rows that rest can only add to that."""
        now = float(self.group.violation.max())
        return not now <= DIVERGED * max(self.violation, tol)

    def restore(self) -> None:
        """Go back to the best solution."""
        if self.kept:
            self.group.coef, self.group.extra, self.group.alpha, self.group.violation = self.kept
