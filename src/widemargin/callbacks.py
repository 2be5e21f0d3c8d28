"""What callbacks are told about the progress of a fit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

__all__ = ["LevelProgress", "Progress", "Stage"]


@dataclass(frozen=True)
class Progress:
    """What a callback is told after every round."""

    n_seen: int
    n_total: int
    n_working: int
    n_support: int
    violation: float
    n_iter: int
    seconds: float


@dataclass(frozen=True)
class LevelProgress:
    """What a callback is told while a level is being solved.

    ``seconds_left`` is for this level: the time so far, in proportion to what remains; None where
    nothing is known yet. The whole problem (level 0) has one cluster and reports every round, with
    the ``violation`` of the optimality conditions, and once more when it is solved. ``objective`` is
    that of the clusters solved so far. ``n_support`` counts points once, in however many binary
    problems they are; during the rounds of several problems it is that of the level below.
    """

    level: int
    n_clusters: int
    n_done: int
    n_support: int
    objective: float
    seconds: float
    seconds_left: float | None
    violation: float | None = None


@dataclass(frozen=True)
class Stage:
    """A basis and the machines on it.

    Attributes
    ----------
    rows : tuple of int
        Training rows that are the basis, in the order of the coefficients.
    coef : ndarray of shape (n_machines, n_basis)
        Coefficients.
    intercept : ndarray of shape (n_machines,)
        Biases.
    objective : ndarray of shape (n_machines,)
        J of each machine.
    n_wrong : ndarray of shape (n_machines,)
        Training rows on the wrong side.
    n_support : ndarray of shape (n_machines,)
        Training rows with an error.
    vectors : ndarray of shape (n_basis, n_features) or None
        Where the basis vectors have moved; None if they are the rows themselves.
    """

    rows: tuple[int, ...]
    coef: FloatArray
    intercept: FloatArray
    objective: FloatArray
    n_wrong: NDArray[np.intp]
    n_support: NDArray[np.intp]
    vectors: FloatArray | None = None
