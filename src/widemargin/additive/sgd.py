"""Stochastic descent on the primal problem of linear machines: Algorithm 4 of Wu and Yang."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.coded_rows import (
    FloatArray,
    coefs_by_class,
    coefs_in_order,
    count_coefs,
    float_type,
)
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.dual_descent import DIVERGED


@dataclass
class StochasticState:
    """Coefficients in the course of stochastic descent.

    Attributes
    ----------
    coef : ndarray, one-dimensional
        Coefficients of all classes, each divided by its scale; the order is that of the rows.
    extra : ndarray of shape (n_problems, n_extra)
        Of the extra numbers, divided alike.
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


class BestPass:
    """The best coefficients that stochastic descent has had.

    With approximate gradients it may go astray; as steps get shorter all the time, coefficients
    settle wherever they are.
    """

    def __init__(self, state: StochasticState) -> None:
        self.state = state
        self.loss = np.inf
        self.kept = state.coef.copy(), state.extra.copy()

    def consider(self) -> None:
        """Keep a copy if the last pass was the best so far."""
        now = float(self.state.losses.max())
        if now < self.loss:
            self.loss, self.kept = now, (self.state.coef.copy(), self.state.extra.copy())

    def has_diverged(self) -> bool:
        """Whether the last pass was far worse than the best, and than coefficients of zero."""
        return not self.state.losses.max() <= DIVERGED * max(self.loss, 1.0)

    def restore(self) -> None:
        """Go back to the best coefficients."""
        self.state.coef[:], self.state.extra[:] = self.kept


def stochastic_pass(
    rows: Rows,
    order: NDArray[np.intp],
    labels: NDArray[np.int64],
    positives: NDArray[np.int64],
    weights: FloatArray,
    norms: FloatArray,
    state: StochasticState,
    *,
    penalty: float,
    delay: float,
    is_squared: bool,
) -> None:
    """Steps ``1 / (penalty (t + delay))`` along the subgradient of one row each (Algorithm 4).

    Minimises ``penalty / 2 |w|^2 + mean of weighted losses``. Updates ``state``.
    """
    room = fast.make_room(rows, len(positives), float_type(rows))
    state.losses[:] = 0.0
    state.n_steps = fast.stochastic_steps(
        rows, order, labels, positives, weights, norms, state.n_steps, penalty, delay, is_squared,
        state.scales, state.losses, room, state.coef, state.extra,
    )  # fmt: skip
    state.losses /= max(float(weights[order].sum()), 1e-300)
    # Scales fall like 1 / t: bring them back before digits get lost.
    by_class = coefs_by_class(rows, state.coef, len(positives))
    by_class *= state.scales[:, None]
    state.coef[:] = coefs_in_order(rows, by_class)
    state.extra *= state.scales[:, None]
    state.scales[:] = 1.0


def start_stochastic(rows: Rows, n_problems: int) -> StochasticState:
    """Coefficients of zero."""
    return StochasticState(
        np.zeros(count_coefs(rows) * n_problems, float_type(rows)),
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
