"""Stochastic descent on the primal problem of linear SVMs (PmSVM Algorithm 4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.coded_rows import (
    FloatArray,
    coefs_by_class,
    coefs_in_order,
    float_type,
    zero_coefs,
)
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.dual_descent import DIVERGED, Descent
from widemargin.budget import StopReason
from widemargin.deadline import is_late

#: Passes before the change of the coefficients is compared with the tolerance.
MIN_PASSES = 5


@dataclass(frozen=True)
class PrimalProblem:
    """One-vs-rest problems on the same rows, in the primal.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Class of every row.
    positives : ndarray of shape (n_problems,)
        Positive class of each problem.
    weights : ndarray of shape (n,)
        Factor on the loss of each row.
    norms : ndarray of shape (n,)
        Diagonal of the kernel matrix.
    penalty : float
        Regularisation: lambda in PmSVM Eq. 34.
    delay : float
        Step t has the length ``1 / (penalty (t + delay))``.
    is_squared : bool
        Whether the loss is the squared hinge.
    """

    labels: NDArray[np.int64]
    positives: NDArray[np.int64]
    weights: FloatArray
    norms: FloatArray
    penalty: float
    delay: float
    is_squared: bool


@dataclass(frozen=True)
class StochasticResult:
    """Solutions of one-vs-rest problems by stochastic descent.

    Attributes
    ----------
    coef : ndarray of shape (n_problems, n_coefs)
        Coefficients.
    extra : ndarray of shape (n_problems, n_extra)
        Coefficients of the extra numbers.
    n_steps : int
        Steps, one for each visit to a row.
    n_iter : int
        Passes.
    violation : float
        Relative change of the coefficients in the last pass; the mean loss if the descent diverged.
    stop_reason : StopReason
        ``CONVERGED``, ``MAX_ITER``, ``MAX_TIME`` or ``DIVERGED``.
    """

    coef: NDArray[Any]
    extra: NDArray[Any]
    n_steps: int
    n_iter: int
    violation: float
    stop_reason: StopReason


@dataclass
class StochasticState:
    """Coefficients during stochastic descent.

    Attributes
    ----------
    coef : ndarray, one-dimensional
        Coefficients of all classes, each divided by its scale; the order is that of the rows.
    extra : ndarray of shape (n_problems, n_extra)
        Coefficients of the extra numbers, each divided by the scale of its class.
    scales : ndarray of shape (n_problems,)
        The scales.
    losses : ndarray of shape (n_problems,)
        Weighted mean losses of the rows of the last pass, as they were visited; one for
        coefficients of zero.
    n_steps : int
        Steps made.
    """

    coef: NDArray[Any]
    extra: NDArray[Any]
    scales: FloatArray
    losses: FloatArray
    n_steps: int = 0

    def is_finite(self) -> bool:
        """Whether all coefficients are numbers; the losses of a pass do not tell."""
        return bool(np.isfinite(self.coef).all() and np.isfinite(self.extra).all())


class BestPass:
    """The best coefficients of a stochastic descent.

    With approximate gradients the descent may diverge. Since its steps get shorter all the time, it
    would not return from there.
    """

    def __init__(self, state: StochasticState) -> None:
        self.state = state
        self.loss = np.inf
        self.kept = state.coef.copy(), state.extra.copy()

    def consider(self) -> None:
        """Keep a copy if the last pass was the best so far."""
        now = float(self.state.losses.max())
        if now < self.loss and self.state.is_finite():
            self.loss, self.kept = now, (self.state.coef.copy(), self.state.extra.copy())

    def has_diverged(self) -> bool:
        """Whether the last pass was far worse than the best, and than coefficients of zero."""
        is_near = self.state.losses.max() <= DIVERGED * max(self.loss, 1.0)
        return not (is_near and self.state.is_finite())

    def restore(self) -> None:
        """Return to the best coefficients: those of zero, whose loss is one, if none are finite."""
        self.state.coef[:], self.state.extra[:] = self.kept
        self.loss = self.loss if np.isfinite(self.loss) else 1.0


def solve_stochastic(
    rows: Rows,
    problem: PrimalProblem,
    settings: Descent,
    callback: Callable[[int, float], object] | None = None,
) -> StochasticResult:
    """Minimise the primal objective of every class by stochastic descent (PmSVM Algorithm 4).

    Minimise ``penalty / 2 |w|^2 + mean of weights_i loss(y_i w'x_i)`` for each one-vs-rest problem.

    Parameters
    ----------
    rows : Rows
        The data.
    problem : PrimalProblem
        Labels, weights, loss, penalty and step length.
    settings : Descent
        When to stop, and the seed for the order of the rows.
    callback : callable, optional
        Called after every pass with its number and the relative change of the coefficients.

    Returns
    -------
    result : StochasticResult
        Coefficients of every class. If the gradients are approximate and the descent diverged, they
        are the best that it had.

    Notes
    -----
    Stops when a pass changes the coefficients by less than ``0.1 tol``, relative to their norm; after
    ``max_iter`` passes; at the deadline; or when approximate gradients make the descent diverge.
    """
    rng = np.random.default_rng(settings.seed)
    state = start_stochastic(rows, len(problem.positives))
    before, best = state.coef.copy(), None if rows.is_symmetric else BestPass(state)
    reason, n_iter, change = StopReason.MAX_ITER, 0, np.inf
    for number in range(settings.max_iter):
        stochastic_pass(rows, rng.permutation(len(problem.labels)), problem, state)
        n_iter = number + 1
        if best is not None:
            best.consider()
            if best.has_diverged():
                best.restore()
                reason, change = StopReason.DIVERGED, best.loss
                break
        size = max(float(np.linalg.norm(state.coef)), 1e-300)
        change = float(np.linalg.norm(state.coef - before)) / size
        before = state.coef.copy()
        if callback is not None:
            callback(n_iter, change)
        if n_iter >= MIN_PASSES and change < 0.1 * settings.tol:
            reason = StopReason.CONVERGED
            break
        if is_late(settings.deadline):
            reason = StopReason.MAX_TIME
            break
    coef = stochastic_coefs(rows, state)
    return StochasticResult(coef, state.extra, state.n_steps, n_iter, change, reason)


def stochastic_pass(
    rows: Rows, order: NDArray[np.intp], problem: PrimalProblem, state: StochasticState
) -> None:
    """Make one step for each row of ``order`` and update ``state``: PmSVM Algorithm 4, lines 3-10."""
    room = fast.make_room(rows, len(problem.positives), float_type(rows))
    state.losses[:] = 0.0
    state.n_steps = fast.stochastic_steps(
        rows, order, problem.labels, problem.positives, problem.weights, problem.norms,
        state.n_steps, problem.penalty, problem.delay, problem.is_squared,
        state.scales, state.losses, room, state.coef, state.extra,
    )  # fmt: skip
    state.losses /= max(float(problem.weights[order].sum()), 1e-300)
    # Scales fall like 1 / t. They return to one before they cost the coefficients digits.
    by_class = coefs_by_class(rows, state.coef, len(problem.positives))
    by_class *= state.scales[:, None]
    state.coef[:] = coefs_in_order(rows, by_class)
    state.extra *= state.scales[:, None]
    state.scales[:] = 1.0


def start_stochastic(rows: Rows, n_problems: int) -> StochasticState:
    """Start from coefficients of zero."""
    return StochasticState(
        zero_coefs(rows, n_problems),
        np.zeros((n_problems, rows.n_extra), float_type(rows)),
        np.ones(n_problems),
        np.ones(n_problems),
    )


def set_stochastic(rows: Rows, state: StochasticState, coef: NDArray[Any]) -> None:
    """Continue from coefficients of every class, shape (n_problems, n_coefs)."""
    state.coef[:] = coefs_in_order(rows, coef)


def stochastic_coefs(rows: Rows, state: StochasticState) -> NDArray[Any]:
    """Coefficients of every class, shape (n_problems, n_coefs)."""
    return coefs_by_class(rows, state.coef, len(state.scales))
