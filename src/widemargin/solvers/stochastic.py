"""Stochastic descent on the primal problem of linear machines: Algorithm 4 of Wu and Yang."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.solvers import additive_fast as fast
from widemargin.solvers.additive_fast import Rows
from widemargin.solvers.coded_rows import (
    FloatArray,
    coefs_by_class,
    coefs_in_order,
    count_coefs,
    float_type,
)


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
    n_steps : int
        Steps made.
    """

    coef: NDArray[Any]
    extra: NDArray[Any]
    scales: FloatArray
    n_steps: int = 0


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
    state.n_steps = fast.stochastic_steps(
        rows, order, labels, positives, weights, norms, state.n_steps, penalty, delay, is_squared,
        state.scales, room, state.coef, state.extra,
    )  # fmt: skip
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
    )


def set_stochastic(rows: Rows, state: StochasticState, coef: NDArray[Any]) -> None:
    """Continue from coefficients of every class, shape (n_problems, n_coefs)."""
    state.coef[:] = coefs_in_order(rows, coef)


def stochastic_coefs(rows: Rows, state: StochasticState) -> NDArray[Any]:
    """Coefficients of every class, shape (n_problems, n_coefs)."""
    return coefs_by_class(rows, state.coef, len(state.scales))
