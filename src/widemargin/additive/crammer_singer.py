"""Crammer and Singer's multiclass SVM: a step changes the dual variables of all classes of a row."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.coded_rows import (
    FloatArray,
    coefs_by_class,
    count_work,
    float_type,
    gram_rows,
    prefers_gram,
    weigh_bins,
    zero_coefs,
)
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.dual_descent import FINISH_TOL, Descent, LinearResult
from widemargin.budget import StopReason
from widemargin.deadline import is_late
from widemargin.parallel import open_workers


@dataclass(frozen=True)
class MulticlassDual:
    """Crammer and Singer's problem of all classes.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Class of every row.
    costs : ndarray of shape (n,)
        Cost of an error at each row.
    norms : ndarray of shape (n,)
        Diagonal of the kernel matrix.
    n_classes : int
        Number of classes.
    """

    labels: NDArray[np.int64]
    costs: FloatArray
    norms: FloatArray
    n_classes: int


def solve_crammer_singer(
    rows: Rows,
    problem: MulticlassDual,
    settings: Descent,
    callback: Callable[[int, float], object] | None = None,
) -> LinearResult:
    """Solve Crammer and Singer's dual problem by coordinate descent over rows.

    Minimise ``0.5 sum_m |w_m|^2 + sum_i sum_{m != y_i} alpha[i, m]`` with ``w_m = sum_i alpha[i, m]
    x_i``, subject to ``sum_m alpha[i, m] = 0``, ``alpha[i, y_i] <= costs[i]`` and ``alpha[i, m] <= 0``
    for all other m.

    Parameters
    ----------
    rows : Rows
        The data.
    problem : MulticlassDual
        Labels, costs and the diagonal of the kernel matrix.
    settings : Descent
        When to stop.
    callback : callable, optional
        Called with the number of the pass and the violation.

    Returns
    -------
    result : LinearResult
        Coefficients and dual variables of all classes.

    Notes
    -----
    Stops when no row violates the optimality conditions by more than ``tol``, after ``max_iter``
    passes, or at the deadline. Small problems continue to the precision of float64.

    References
    ----------
    Crammer, Singer, "On the algorithmic implementation of multiclass kernel-based vector machines",
    2001; Keerthi et al., "A sequential dual method for large scale multi-class linear SVMs", 2008.
    """
    if not prefers_gram(rows, problem.n_classes):
        return _make_passes(rows, problem, settings, callback)
    with open_workers(1) as workers:
        among = gram_rows(rows, workers)
    alone = _make_passes(among, problem, settings, callback)
    return replace(alone, coef=weigh_bins(rows, alone.alpha))


def _make_passes(
    rows: Rows,
    problem: MulticlassDual,
    settings: Descent,
    callback: Callable[[int, float], object] | None,
) -> LinearResult:
    """Make passes over the rows, which may be rows of the kernel matrix, until one of the limits."""
    labels, n_classes = problem.labels, problem.n_classes
    alpha = np.zeros((len(labels), n_classes))
    coef = zero_coefs(rows, n_classes)
    extra = np.zeros((n_classes, rows.n_extra), float_type(rows))
    room = fast.make_room(rows, n_classes, float_type(rows))
    rng = np.random.default_rng(settings.seed)
    reason, violation, n_iter, last = StopReason.MAX_ITER, np.inf, 0, settings.max_iter
    while n_iter < last:
        order = rng.permutation(len(labels))
        violation = fast.crammer_singer_pass(
            rows, order, labels, problem.costs, problem.norms, alpha, room, coef, extra
        )
        n_iter += 1
        if callback is not None:
            callback(n_iter, violation)
        if violation <= settings.tol and reason != StopReason.CONVERGED:
            reason = StopReason.CONVERGED
            last = n_iter + settings.count_finishing(n_iter, count_work(rows) * n_classes)
        if violation <= FINISH_TOL:
            break
        if is_late(settings.deadline):
            reason = StopReason.MAX_TIME if reason == StopReason.MAX_ITER else reason
            break
    return LinearResult(
        coef=coefs_by_class(rows, coef, n_classes), extra=extra, alpha=alpha,
        n_iter=np.array([n_iter]), violation=np.array([violation]), stop_reason=reason,
    )  # fmt: skip
