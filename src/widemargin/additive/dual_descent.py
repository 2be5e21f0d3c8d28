"""Dual coordinate descent for SVMs that are linear in the numbers of a representation.

The descent is that of Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), with their shrinking and
stopping rule, for one-vs-rest problems. With rows of bins it is ICD (Algorithms 1 and 2), with PmSVM's
tables it is PmSVM Algorithm 3, and with kernel values at anchors it is LR-SVM, PmSVM Algorithm 2. It
solves several classes at once, so that a row is computed from its codes once for all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.coded_rows import (
    FloatArray,
    cheapest_kind,
    coefs_by_class,
    coefs_in_order,
    count_work,
    float_type,
    gram_rows,
    weigh_bins,
    zero_coefs,
)
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.hat_basis import hat_rows, hats_to_curves
from widemargin.additive.multipliers import Multipliers, SlowCoefficient
from widemargin.budget import StopReason, worst_reason
from widemargin.deadline import is_late
from widemargin.parallel import Workers

#: Most classes that share a pass. Fixed, so that solutions do not depend on the number of threads.
CLASSES_AT_ONCE = 8
#: Approximate dual descent has diverged when its violation is this many times its smallest violation;
#: stochastic descent, when its loss is this many times its smallest loss.
DIVERGED = 100.0
#: Interval of the passes in which an approximate descent visits shrunk rows too, to be judged by all.
CHECK_PASSES = 10
#: Violation to which small problems are finished, and the most multiplications spent on that: about
#: a tenth of a second.
FINISH_TOL, FINISH_WORK = 1e-11, 2 * 10**8
#: Multiplications between two looks at the clock: some hundredths of a second.
PIECE_WORK = 5 * 10**7
#: Fewer passes would change a solution, but not finish it.
FINISH_PASSES = 100


@dataclass(frozen=True)
class OneVsRestDual:
    """One-vs-rest problems on the same rows.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Class of every row.
    positives : ndarray of shape (n_problems,)
        Positive class of each problem.
    upper : ndarray of shape (n,)
        Upper bound of the dual variables; infinite for the squared hinge loss.
    ridge : ndarray of shape (n,)
        Numbers that the squared hinge loss adds to the diagonal: D in ICD Eq. 11.
    norms : ndarray of shape (n,)
        Diagonal of the kernel matrix.
    slow : SlowCoefficient or None
        How the coefficient of the last extra number changes, if updates do not determine it; see
        `centring`.
    """

    labels: NDArray[np.int64]
    positives: NDArray[np.int64]
    upper: FloatArray
    ridge: FloatArray
    norms: FloatArray
    slow: SlowCoefficient | None = None

    @property
    def is_squared(self) -> bool:
        """Whether the loss is the squared hinge."""
        return bool(self.ridge.any())

    def costs(self) -> FloatArray:
        """Return the cost C_i of an error of every row, which either loss has as its factor."""
        return 0.5 / self.ridge if self.is_squared else self.upper

    def sign(self, alpha: FloatArray) -> FloatArray:
        """Return dual variables, shape (n, n_problems), with the sign of the class of their row."""
        is_positive = self.labels[:, None] == self.positives
        return np.where(is_positive, alpha, -alpha)


class WarmStart(NamedTuple):
    """Solution from which a descent starts.

    Attributes
    ----------
    alpha : ndarray of shape (n, n_problems)
        Dual variables, not negative.
    extra : ndarray of shape (n_problems, n_extra)
        Coefficients of the extra numbers.
    coef : ndarray of shape (n_problems, n_features * rank) or None
        Coefficients that other rows have a share in too, which keep their dual variables; None if they
        follow from ``alpha``.
    """

    alpha: FloatArray
    extra: NDArray[Any]
    coef: NDArray[Any] | None = None


@dataclass(frozen=True)
class Descent:
    """Stopping rule and seed of a solver.

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
    patience : callable or None
        Returns from the mean number of support vectors of a class the passes after which another
        method would be faster. A descent that has made so many ends with the reason ``MAX_ITER``; the
        classes that have not converged have a violation above ``tol``.
    """

    tol: float
    max_iter: int
    deadline: float | None = None
    seed: int = 0
    finish: bool = False
    patience: Callable[[float], float] | None = None

    def count_finishing(self, n_made: int, work: float) -> int:
        """Passes left after ``n_made`` to finish with, each of so many multiplications."""
        if not self.finish or FINISH_PASSES * work > FINISH_WORK:
            return 0
        return max(0, min(self.max_iter - n_made, int(FINISH_WORK / max(work, 1.0))))

    def is_slow(self, n_made: int, n_support: float) -> bool:
        """Return whether another method is expected to be faster than further passes."""
        return self.patience is not None and n_made >= self.patience(n_support)


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
        Dual variables, not negative.
    n_iter : ndarray of shape (n_problems,)
        Passes.
    violation : ndarray of shape (n_problems,)
        Spread of the projected gradients in the last pass.
    stop_reason : StopReason
        ``CONVERGED``, ``MAX_ITER``, ``MAX_TIME`` or ``DIVERGED``.
    """

    coef: NDArray[Any]
    extra: NDArray[Any]
    alpha: FloatArray
    n_iter: NDArray[np.int64]
    violation: FloatArray
    stop_reason: StopReason


def descend(
    rows: Rows,
    problem: OneVsRestDual,
    settings: Descent,
    workers: Workers,
    start: WarmStart | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> LinearResult:
    """Solve the dual of every one-vs-rest problem.

    Minimise ``0.5 a'(Q + diag(ridge))a - sum(a)`` subject to ``0 <= a <= upper`` (ICD Eq. 11), where
    ``Q_ij = y_i y_j k(x_i, x_j)``.

    Parameters
    ----------
    rows : Rows
        The data.
    problem : OneVsRestDual
        Labels, bounds and diagonals.
    settings : Descent
        When to stop.
    workers : Workers
        Threads, which share the classes.
    start : WarmStart, optional
        Solution to start from.
    callback : callable, optional
        Called with the number of the pass and the violation, from the thread that made it.

    Returns
    -------
    result : LinearResult
        Coefficients, dual variables and the reason for stopping.

    Notes
    -----
    Stops when the projected gradients of every problem differ by at most ``tol`` in a pass over all
    rows; after ``max_iter`` passes; at the deadline; or when an approximate descent diverges, and then
    returns the best solution it had. Small problems continue to the precision of float64.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for large-scale linear
    SVM", 2008; ICD Algorithms 1 and 2; PmSVM Algorithms 2 and 3.
    """
    kind = cheapest_kind(rows, len(problem.positives))
    shares_coef = start is not None and start.coef is not None
    if shares_coef or kind == rows.kind:
        return _solve_groups(rows, problem, settings, workers, start, callback)
    tol = 0.0 if settings.finish else settings.tol
    other = hat_rows(rows, tol) if kind == fast.HATS else gram_rows(rows, workers)
    found = _solve_groups(other, problem, settings, workers, start, callback)
    if kind == fast.HATS:
        return replace(found, coef=hats_to_curves(other, found.coef, rows))
    return replace(found, coef=weigh_bins(rows, problem.sign(found.alpha)))


def _solve_groups(
    rows: Rows,
    problem: OneVsRestDual,
    settings: Descent,
    workers: Workers,
    start: WarmStart | None,
    callback: Callable[[int, float], object] | None,
) -> LinearResult:
    """Solve the problems of a few classes at a time, so that a row is read once for all of these."""
    n_problems = len(problem.positives)
    groups = group_classes(rows, n_problems)
    n_groups = len(groups)
    solved: dict[int, LinearResult] = {}

    def solve(first: int, last: int) -> None:
        for g in range(first, last):
            group = _Group(rows, problem, groups[g], start)
            solved[g] = group.solve(settings, workers, callback)

    workers.run(n_groups, solve, grain=1)
    return gather_results([solved[g] for g in range(n_groups)])


def group_classes(rows: Rows, n_problems: int) -> list[NDArray[np.intp]]:
    """Return the classes of each group: equal groups, or full lanes and one group of the rest."""
    classes = np.arange(n_problems)
    if fast.lane_width(rows.kind, 2) > 2:
        return np.split(classes, range(fast.MOST_LANES, n_problems, fast.MOST_LANES))
    return np.array_split(classes, -(-n_problems // CLASSES_AT_ONCE))


def gather_results(parts: list[LinearResult]) -> LinearResult:
    """Join the results of several classes; the stop reason is the worst of theirs."""
    return LinearResult(
        coef=np.concatenate([part.coef for part in parts]),
        extra=np.concatenate([part.extra for part in parts]),
        alpha=np.hstack([part.alpha for part in parts]),
        n_iter=np.concatenate([part.n_iter for part in parts]),
        violation=np.concatenate([part.violation for part in parts]),
        stop_reason=worst_reason(part.stop_reason for part in parts),
    )


class _Group:
    """Descent for a few classes that share passes."""

    def __init__(
        self,
        rows: Rows,
        problem: OneVsRestDual,
        members: NDArray[np.intp],
        start: WarmStart | None,
    ) -> None:
        self.rows = rows
        self.info = np.column_stack(
            [problem.labels, problem.upper, problem.ridge, problem.norms]
        ).ravel()
        self.positives = problem.positives[members]
        self.labels = problem.labels
        self.multipliers = None
        if problem.slow is not None:
            self.multipliers = Multipliers(problem.slow, len(members))
        n, k = len(problem.labels), len(members)
        self.alpha = np.zeros((n, k))
        self.shrunk = np.zeros((n, k), bool)
        self.coef = zero_coefs(rows, k)
        self.extra = np.zeros((k, rows.n_extra), float_type(rows))
        self.room = fast.make_room(rows, k, float_type(rows))
        self.highest, self.lowest = np.empty(k), np.empty(k)
        self.is_done = np.zeros(k, bool)
        self.n_iter = np.zeros(k, np.int64)
        self.violation = np.full(k, np.inf)
        # The violation without that of the slow coefficient.
        self.spread = np.full(k, np.inf)
        per_row = max(count_work(rows) * k / max(n, 1), 1.0)
        self.piece = max(1, int(PIECE_WORK / per_row))
        # All groups share the multiplications that may be spent on finishing.
        self.work = count_work(rows) * len(problem.positives)
        if start is not None:
            self.alpha[:] = np.minimum(start.alpha[:, members], problem.upper[:, None])
            self._start_coef(start, members)

    def _start_coef(self, start: WarmStart, members: NDArray[np.intp]) -> None:
        """Set the coefficients that belong to the dual variables of a start."""
        if start.coef is not None:
            self.coef[:] = coefs_in_order(self.rows, start.coef[members])
            self.extra[:] = start.extra[members]
            return
        fast.add_rows(
            self.rows, self.labels, self.positives, self.alpha, self.room, self.coef, self.extra
        )
        if self.multipliers is not None:
            self.extra[:, -1] = start.extra[members, -1]

    def solve(
        self, settings: Descent, workers: Workers, callback: Callable[[int, float], object] | None
    ) -> LinearResult:
        """Make passes until all classes have converged, or until the stopping rule ends them."""
        rng = np.random.default_rng(settings.seed)
        reason = self._descend(settings, settings.tol, settings.max_iter, rng, workers, callback)
        if reason == StopReason.CONVERGED:
            self._finish(settings, rng, workers)
        return LinearResult(
            coefs_by_class(self.rows, self.coef, len(self.positives)), self.extra, self.alpha,
            self.n_iter, self.violation, reason,
        )  # fmt: skip

    def _finish(self, settings: Descent, rng: np.random.Generator, workers: Workers) -> None:
        """Continue to the precision of float64, within the remaining passes."""
        n_passes = settings.count_finishing(int(self.n_iter.max()), self.work)
        if n_passes == 0:
            return
        violation = self.violation.copy()
        self.is_done[:] = False
        self.shrunk[:] = False
        patient = replace(settings, patience=None)
        self._descend(patient, FINISH_TOL, n_passes, rng, workers, None)
        self.violation = np.minimum(violation, self.violation)

    def _descend(
        self,
        settings: Descent,
        tol: float,
        max_iter: int,
        rng: np.random.Generator,
        workers: Workers,
        callback: Callable[[int, float], object] | None,
    ) -> StopReason:
        tops, bottoms = np.full(len(self.positives), np.inf), np.full(len(self.positives), -np.inf)
        best = _Best(self) if not self.rows.is_symmetric else None
        reason = StopReason.MAX_TIME
        for number in range(max_iter):
            if workers.failed:
                # Another thread was interrupted, so this solution will not be used.
                return StopReason.MAX_TIME
            if best is not None and number % CHECK_PASSES == 0:
                self.shrunk[:, ~self.is_done] = False
            is_full = not self.shrunk[:, ~self.is_done].any()
            order = np.flatnonzero(~self.shrunk.all(axis=1))
            if self.multipliers is not None:
                self.multipliers.move(self.extra)
            is_whole = self._sweep(rng.permutation(order), tops, bottoms, settings.deadline)
            going = ~self.is_done
            self.spread[going] = np.maximum(self.highest - self.lowest, 0.0)[going]
            self.violation[going] = self.spread[going]
            if self.multipliers is not None:
                of_moves = self.multipliers.find_moves(self.extra, going)
                self.violation[going] = np.maximum(self.violation, of_moves)[going]
            if best is not None and not self._is_finite():
                self.violation[going] = np.inf
            self.n_iter[going] += 1
            if not is_whole:
                break
            self._shrink(tol, tops, bottoms)
            if callback is not None:
                callback(number + 1, float(self.violation.max()))
            if best is not None:
                if is_full:
                    best.consider()
                if best.has_diverged(tol):
                    best.restore()
                    return StopReason.DIVERGED
            if self.is_done.all():
                return StopReason.CONVERGED
            if is_late(settings.deadline):
                break
            if settings.is_slow(number + 1, np.count_nonzero(self.alpha) / len(self.positives)):
                reason = StopReason.MAX_ITER
                break
        else:
            reason = StopReason.MAX_ITER
        if best is not None:
            best.restore()
        # Shrunk rows may violate the conditions by more than the last pass has seen.
        left = ~self.is_done
        self.violation[left] = np.maximum(self.violation, np.nextafter(tol, np.inf))[left]
        return reason

    def _is_finite(self) -> bool:
        """Return whether an approximate descent has stayed within the largest number."""
        return bool(np.isfinite(self.coef).all() and np.isfinite(self.extra).all())

    def _sweep(
        self, order: NDArray[np.intp], tops: FloatArray, bottoms: FloatArray, deadline: float | None
    ) -> bool:
        """Make a pass; return False if the deadline ends it early."""
        highest, lowest = np.empty(len(tops)), np.empty(len(tops))
        self.highest[:], self.lowest[:] = -np.inf, np.inf
        for start in range(0, len(order), self.piece):
            fast.sweep(
                self.rows, order[start : start + self.piece], self.info, self.positives, tops,
                bottoms, self.alpha.ravel(), self.shrunk.ravel(), self.room, self.coef, self.extra,
                highest, lowest,
            )  # fmt: skip
            np.maximum(self.highest, highest, out=self.highest)
            np.minimum(self.lowest, lowest, out=self.lowest)
            if start + self.piece < len(order) and is_late(deadline):
                return False
        return True

    def _shrink(self, tol: float, tops: FloatArray, bottoms: FloatArray) -> None:
        """Set the thresholds for shrinking, and mark the classes that have converged."""
        for k in np.flatnonzero(~self.is_done):
            if self.violation[k] <= tol:
                # Shrunk rows were judged by an older solution: make one more pass with all rows.
                self.is_done[k] = not self.shrunk[:, k].any()
                self.shrunk[:, k] = self.is_done[k]
                tops[k], bottoms[k] = np.inf, -np.inf
            elif self.spread[k] <= tol:
                # Only the slow coefficient moves. Shrunk rows, maybe all, must see where it is now.
                self.shrunk[:, k] = False
                tops[k], bottoms[k] = np.inf, -np.inf
            else:
                tops[k] = self.highest[k] if self.highest[k] > 0 else np.inf
                bottoms[k] = self.lowest[k] if self.lowest[k] < 0 else -np.inf


class _Best:
    """The best solution of an approximate descent, which may get worse from pass to pass."""

    def __init__(self, group: _Group) -> None:
        self.group = group
        self.violation = np.inf
        self.kept: tuple[Any, ...] = ()

    def consider(self) -> None:
        """Keep a copy if it is the best so far, judged by a pass in which no row was shrunk."""
        g = self.group
        now = float(g.violation.max())
        if now < self.violation:
            self.violation = now
            self.kept = (g.coef.copy(), g.extra.copy(), g.alpha.copy(), g.violation.copy())

    def has_diverged(self, tol: float) -> bool:
        """Return whether the violation is far above its minimum; shrunk rows can only add to it."""
        now = float(self.group.violation.max())
        return not np.isfinite(now) or now > DIVERGED * max(self.violation, tol)

    def restore(self) -> None:
        """Return to the best solution; to zero if the first pass diverged beyond all numbers."""
        g = self.group
        if self.kept:
            g.coef, g.extra, g.alpha, g.violation = self.kept
        elif not g._is_finite():
            g.coef, g.extra, g.alpha = (np.zeros_like(a) for a in (g.coef, g.extra, g.alpha))
            # The gradient of the dual objective at zero is minus one.
            g.violation = np.ones_like(g.violation)
