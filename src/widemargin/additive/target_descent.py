"""Dual coordinate descent for regressions that are linear in the numbers of a representation.

The descent is that of Ho and Lin, "Large-scale linear support vector regression" (2012): one signed
dual variable for each row, and a soft threshold for the tube. Rows are read and added as in
`dual_descent`, and an intercept without penalty is found as in `centring`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.centring import centre_rows, solve_flat
from widemargin.additive.coded_rows import (
    FloatArray,
    cheapest_kind,
    coefs_by_class,
    count_coefs,
    count_work,
    decide,
    float_type,
    gram_rows,
    weigh_bins,
    zero_coefs,
)
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.coef_newton import Objective, count_on, count_patience, minimise
from widemargin.additive.dense_rows import can_be_dense, make_dense
from widemargin.additive.dual_descent import (
    FINISH_TOL,
    PIECE_WORK,
    Descent,
    LinearResult,
    WarmStart,
)
from widemargin.additive.multipliers import Multipliers, SlowCoefficient
from widemargin.budget import StopReason
from widemargin.deadline import is_late
from widemargin.parallel import Workers

#: Most coefficients for which Newton's method is used from the beginning.
FEW_COEFS = 128
#: Steps of the search for an intercept, each of which halves an interval.
HALVINGS = 60


@dataclass(frozen=True)
class TargetDual:
    """The dual of a regression.

    Minimise ``0.5 b'(K + diag(ridge))b - targets'b + epsilon |b|_1`` subject to ``|b| <= upper`` and,
    if the intercept has no penalty, ``sum(b) = 0``.

    Attributes
    ----------
    targets : ndarray of shape (n,)
        Numbers to predict.
    upper : ndarray of shape (n,)
        Largest size of the dual variables; infinite for the squared loss.
    ridge : ndarray of shape (n,)
        Numbers that the squared loss adds to the diagonal.
    norms : ndarray of shape (n,)
        Diagonal of the kernel matrix.
    epsilon : float
        Half the width of the tube.
    slow : SlowCoefficient or None
        As in `OneVsRestDual`.
    """

    targets: FloatArray
    upper: FloatArray
    ridge: FloatArray
    norms: FloatArray
    epsilon: float
    slow: SlowCoefficient | None = None

    @property
    def is_squared(self) -> bool:
        """Whether errors beyond the tube are squared."""
        return bool(self.ridge.any())

    def costs(self) -> FloatArray:
        """Return the cost C_i of an error of every row, which either loss has as its factor."""
        return 0.5 / self.ridge if self.is_squared else self.upper


def descend_targets(
    rows: Rows,
    problem: TargetDual,
    settings: Descent,
    workers: Workers,
    *,
    is_free: bool,
    start: WarmStart | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> LinearResult:
    """Solve the dual of a regression.

    Parameters
    ----------
    rows : Rows
        The data.
    problem : TargetDual
        Targets, bounds and diagonals; the norms are changed in place if ``is_free``.
    settings : Descent
        When to stop: no optimality condition is violated by more than ``tol``.
    workers : Workers
        Threads that compute what does not depend on an order.
    is_free : bool
        Whether the intercept has no penalty. The last extra number of the rows must then be one.
    start : WarmStart, optional
        Solution to start from, with signed dual variables.
    callback : callable, optional
        Called with the number of the pass and the violation.

    Returns
    -------
    result : LinearResult
        Coefficients, signed dual variables of shape (n, 1), and the reason for stopping.
    """
    has_newton = problem.is_squared and can_be_dense(rows)
    if has_newton and count_coefs(rows) <= FEW_COEFS:
        return solve_newton(rows, problem, settings, is_free, start, callback)
    if has_newton:
        settings = replace(settings, patience=count_patience(rows, 1, settings.max_iter))
    solve = _solve_free if is_free else _solve
    found = solve(rows, problem, settings, workers, start, callback)
    n_made = int(found.n_iter[0])
    n_left = settings.max_iter - n_made
    if found.stop_reason is not StopReason.MAX_ITER or n_left == 0:
        return found
    begin = WarmStart(found.alpha, found.extra, found.coef)
    left = replace(settings, max_iter=n_left)
    ended = solve_newton(rows, problem, left, is_free, begin, count_on(callback, n_made))
    return replace(ended, n_iter=ended.n_iter + n_made)


def solve_newton(
    rows: Rows,
    problem: TargetDual,
    settings: Descent,
    is_free: bool,
    start: WarmStart | None,
    callback: Callable[[int, float], object] | None,
) -> LinearResult:
    """Minimise ``0.5 |w|^2 + sum_i C_i max(0, |z_i - w'x_i - b| - epsilon)^2`` by Newton's method.

    Parameters and result are those of `descend_targets`.
    """
    dense = make_dense(rows)
    objective = Objective(
        dense.A, problem.targets, problem.costs(), problem.epsilon,
        dense.penalty(is_free=is_free), is_one_sided=False,
    )  # fmt: skip
    n_numbers = len(dense.roots)
    w = np.zeros(dense.A.shape[1])
    if start is not None and start.coef is not None:
        w = dense.start(start.coef[0], start.extra[0])
    elif start is not None:
        w = start.alpha[:, 0] @ dense.A
        w[n_numbers:] = start.extra[0]
    point, n_iter, reason = minimise(objective, w, settings, callback)
    return LinearResult(
        dense.make_coef(rows, point.w)[None], point.w[None, n_numbers:], point.pull[:, None],
        np.array([n_iter]), np.array([point.violation]), reason,
    )  # fmt: skip


def _solve_free(
    rows: Rows,
    problem: TargetDual,
    settings: Descent,
    workers: Workers,
    start: WarmStart | None,
    callback: Callable[[int, float], object] | None,
) -> LinearResult:
    """Solve the problem by descent, with an intercept without penalty."""
    centred = centre_rows(rows, problem.norms, problem.costs(), settings.seed, workers)
    if centred.is_flat:
        return search_intercept(rows, problem, solve_flat(rows, 1), workers)
    slow = SlowCoefficient(centred.step, 1.0, is_free=True)
    free = replace(problem, norms=centred.norms, slow=slow)
    if start is not None:
        beta = np.clip(start.alpha, -problem.upper[:, None], problem.upper[:, None])
        intercept = start.extra[:, -1:] - beta.sum() * centred.square
        start = WarmStart(beta, intercept)
    found = _solve(centred.rows, free, settings, workers, start, callback)
    return search_intercept(rows, problem, centred.finish(found), workers)


def search_intercept(
    rows: Rows, problem: TargetDual, result: LinearResult, workers: Workers
) -> LinearResult:
    """Return the solution with the intercept of least loss for its other coefficients.

    The derivative of the loss by the intercept never falls, so that halving an interval finds where it
    becomes zero and where it ceases to be zero; the intercept is the middle between both.
    """
    extra = result.extra.astype(np.float64)
    decisions = decide(rows, result.coef, extra.astype(result.extra.dtype), workers)[:, 0]
    move = find_shift(
        problem.targets - decisions, problem.costs(), problem.epsilon, problem.is_squared
    )
    extra[:, -1] += move
    return replace(result, extra=extra)


def find_shift(residuals: FloatArray, costs: FloatArray, epsilon: float, is_squared: bool) -> float:
    """Return the constant that minimises the loss of ``residuals - constant``."""
    low = np.full(2, residuals.min() - epsilon)
    high = np.full(2, residuals.max() + epsilon)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        over = residuals[:, None] - middle
        excess = np.maximum(np.abs(over) - epsilon, 0.0)
        size = excess if is_squared else (excess > 0.0).astype(np.float64)
        pull = costs @ (np.sign(over) * size)
        rises = np.array([pull[0] > 0.0, pull[1] >= 0.0])
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return float(0.25 * (low + high).sum())


def _solve(
    rows: Rows,
    problem: TargetDual,
    settings: Descent,
    workers: Workers,
    start: WarmStart | None,
    callback: Callable[[int, float], object] | None,
) -> LinearResult:
    """Solve the problem on the kind of rows that is fastest."""
    if cheapest_kind(rows, 1) != fast.GRAM:
        return _TargetDescent(rows, problem, start).solve(settings, workers, callback)
    gram = gram_rows(rows, workers)
    found = _TargetDescent(gram, problem, start).solve(settings, workers, callback)
    return replace(found, coef=weigh_bins(rows, found.alpha))


class _TargetDescent:
    """Dual variables and coefficients between two passes."""

    def __init__(self, rows: Rows, problem: TargetDual, start: WarmStart | None) -> None:
        self.rows, self.problem = rows, problem
        n, kind = len(problem.targets), float_type(rows)
        self.info = np.column_stack(
            [problem.targets, problem.upper, problem.ridge, problem.norms]
        ).ravel()
        self.beta = np.zeros(n)
        self.shrunk = np.zeros(n, bool)
        self.coef = zero_coefs(rows, 1)
        self.extra = np.zeros((1, rows.n_extra), kind)
        self.room = fast.make_room(rows, 1, kind)
        self.n_iter, self.violation = 0, np.inf
        self.multipliers = None
        if problem.slow is not None:
            self.multipliers = Multipliers(problem.slow, 1)
        self.work = count_work(rows)
        self.piece = max(1, int(PIECE_WORK * n / max(self.work, 1.0)))
        if start is not None:
            self._begin(start)

    def _begin(self, start: WarmStart) -> None:
        """Set the coefficients that belong to the dual variables of a start."""
        self.beta[:] = np.clip(start.alpha[:, 0], -self.problem.upper, self.problem.upper)
        label = np.zeros(len(self.beta), np.int64)
        fast.add_rows(
            self.rows, label, label[:1], self.beta[:, None], self.room, self.coef, self.extra
        )
        if self.multipliers is not None:
            self.extra[:, -1] = start.extra[:, -1]

    def solve(
        self, settings: Descent, workers: Workers, callback: Callable[[int, float], object] | None
    ) -> LinearResult:
        """Make passes until the solution has converged, or until the stopping rule ends them."""
        rng = np.random.default_rng(settings.seed)
        reason = self._descend(settings, settings.tol, settings.max_iter, rng, workers, callback)
        if reason == StopReason.CONVERGED:
            reached = self.violation
            n_passes = settings.count_finishing(self.n_iter, self.work)
            patient = replace(settings, patience=None)
            self._descend(patient, FINISH_TOL, n_passes, rng, workers, None)
            self.violation = min(reached, self.violation)
        return LinearResult(
            coefs_by_class(self.rows, self.coef, 1), self.extra, self.beta[:, None],
            np.array([self.n_iter]), np.array([self.violation]), reason,
        )  # fmt: skip

    def _descend(
        self,
        settings: Descent,
        tol: float,
        max_iter: int,
        rng: np.random.Generator,
        workers: Workers,
        callback: Callable[[int, float], object] | None,
    ) -> StopReason:
        threshold = np.inf
        self.shrunk[:] = False
        for _ in range(max_iter):
            if workers.failed:
                # Another thread was interrupted, so this solution will not be used.
                return StopReason.MAX_TIME
            is_full = not self.shrunk.any()
            order = rng.permutation(np.flatnonzero(~self.shrunk))
            if self.multipliers is not None:
                self.multipliers.move(self.extra)
            is_whole = self._sweep(order, threshold, settings.deadline)
            of_rows = self.violation
            if self.multipliers is not None:
                of_moves = self.multipliers.find_moves(self.extra, np.ones(1, bool))
                self.violation = max(self.violation, float(of_moves[0]))
            self.n_iter += 1
            if not is_whole:
                return StopReason.MAX_TIME
            if callback is not None:
                callback(self.n_iter, self.violation)
            if self.violation <= tol and is_full:
                return StopReason.CONVERGED
            if settings.is_slow(self.n_iter, float(np.count_nonzero(self.beta))):
                return StopReason.MAX_ITER
            threshold = of_rows
            if of_rows <= tol:
                # Shrunk rows were judged by an older solution and by an intercept that may still move.
                self.shrunk[:] = False
                threshold = np.inf
            if is_late(settings.deadline):
                return StopReason.MAX_TIME
        return StopReason.MAX_ITER

    def _sweep(self, order: NDArray[np.intp], threshold: float, deadline: float | None) -> bool:
        """Make a pass; return False if the deadline ends it early."""
        self.violation = 0.0
        for first in range(0, len(order), self.piece):
            worst = fast.sweep_targets(
                self.rows, order[first : first + self.piece], self.info, self.problem.epsilon,
                threshold, self.beta, self.shrunk, self.room, self.coef, self.extra,
            )  # fmt: skip
            self.violation = max(self.violation, worst)
            if first + self.piece < len(order) and is_late(deadline):
                return False
        return True
