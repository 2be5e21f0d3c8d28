"""What callbacks are told about the progress of a fit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

__all__ = ["LevelProgress", "Progress", "Stage"]


@dataclass(frozen=True)
class Progress:
    """What a callback is told after every round.

    Attributes
    ----------
    n_seen, n_total : int
        Rows of the present sample, and of the problem.
    n_working : int
        Rows in the working set.
    n_support : int
        Support vectors so far.
    violation : float
        Largest violation of the optimality conditions, which the solver compares with ``tol``.
    n_iter : int
        Updates of pairs so far.
    seconds : float
        Time since the solver began.
    """

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

    The whole problem (level 0) has one cluster and reports every round, and once more when it is
    solved.

    Attributes
    ----------
    level : int
        Number of the level; 0 is the whole problem.
    n_clusters, n_done : int
        Clusters of the level, and how many of them are solved.
    n_support : int
        Support vectors, each counted once, in however many binary problems it is. During the rounds of
        several problems it is that of the level below.
    objective : float
        Dual objective of the clusters solved so far.
    seconds : float
        Time since the fit began.
    seconds_left : float or None
        Time that this level may still take: the time so far, in proportion to what remains. None
        where nothing is known yet.
    violation : float or None
        Largest violation of the optimality conditions, in the rounds of the whole problem.
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
