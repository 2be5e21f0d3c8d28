"""Calibrate the Bayesian committee machine (Tresp, 2000), to which DC-SVM Table 1 compares.

The committee needs log-odds of each cluster, but an SVM gives decision values f. The log-odds of
cluster c in binary problem p are modelled as ``prior_p + slope_cp f_cp(x)``, where ``prior_p`` are
the log-odds of the training data.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from widemargin.exact.solution import FloatArray
from widemargin.kernels import Index
from widemargin.problem import Subproblem

#: Training rows of each binary problem on which the slopes are fitted.
CALIBRATION_ROWS = 1000
#: Newton iterations.
NEWTON_STEPS = 30


def log_odds(y: FloatArray) -> float:
    """Return the log-odds of the positive class among labels of both signs."""
    n_positive = np.count_nonzero(y > 0)
    return float(np.log(n_positive / (len(y) - n_positive)))


def fit_slopes(decisions: FloatArray, y: FloatArray, prior: float) -> FloatArray:
    """Fit the slopes of a committee by penalised maximum likelihood.

    For each cluster c, minimise over the slope s
    ``sum_i log(1 + exp(-y_i (prior + s f_c(x_i)))) + 0.5 s^2``.

    Parameters
    ----------
    decisions : ndarray of shape (n_clusters, n)
        Decision values ``f_c(x_i)``.
    y : ndarray of shape (n,)
        Labels -1.0 or 1.0.
    prior : float
        Log-odds of the positive class where f is zero.

    Returns
    -------
    slopes : ndarray of shape (n_clusters,)
        After ``NEWTON_STEPS`` Newton steps of length at most one.
    """
    slopes = np.zeros(len(decisions))
    for _ in range(NEWTON_STEPS):
        chance = expit(prior + slopes[:, None] * decisions)
        gradient = ((chance - (y > 0)) * decisions).sum(axis=1) + slopes
        curvature = (chance * (1.0 - chance) * decisions**2).sum(axis=1) + 1.0
        slopes -= np.clip(gradient / curvature, -1.0, 1.0)
    return slopes


def calibrate(
    subproblems: list[Subproblem], decide: Callable[[Index], FloatArray], seed: int
) -> tuple[FloatArray, FloatArray]:
    """Fit the slopes of all clusters on samples of the training rows.

    Parameters
    ----------
    subproblems : list of Subproblem
        The binary problems.
    decide : callable
        Returns the decision values of all clusters at some training rows, of shape (n_clusters,
        n_rows, n_problems).
    seed : int
        Seed of the samples.

    Returns
    -------
    slope : ndarray of shape (n_clusters, n_problems)
        Slopes.
    prior : ndarray of shape (n_problems,)
        Log-odds of the training data.
    """
    rng = np.random.default_rng(seed)
    prior = np.array([log_odds(sub.y) for sub in subproblems])
    slopes = []
    for p, sub in enumerate(subproblems):
        size = min(CALIBRATION_ROWS, len(sub.y))
        at = np.sort(rng.choice(len(sub.y), size, replace=False))
        slopes.append(fit_slopes(decide(sub.index[at])[:, :, p], sub.y[at], prior[p]))
    return np.column_stack(slopes), prior
