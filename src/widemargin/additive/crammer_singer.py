"""Crammer and Singer's multiclass machine: all classes of a row are moved at once."""

from collections.abc import Callable
from dataclasses import replace

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
from widemargin.additive.dual_descent import FINISH_TOL, Descent, LinearResult
from widemargin.deadline import is_late
from widemargin.parallel import open_workers


def solve_crammer_singer(
    rows: Rows,
    labels: NDArray[np.int64],
    costs: FloatArray,
    norms: FloatArray,
    n_classes: int,
    settings: Descent,
    callback: Callable[[int, float], object] | None = None,
) -> LinearResult:
    """Solve the dual by descent over rows (Crammer and Singer 2001; Keerthi et al. 2008).

    Stops when no row violates the optimality conditions by more than ``tol``, or finishes from there.

    Parameters
    ----------
    rows : Rows
        The data.
    labels : ndarray of shape (n,)
        Class of every row.
    costs : ndarray of shape (n,)
        Cost of an error at each row.
    norms : ndarray of shape (n,)
        Diagonal of the kernel matrix.
    n_classes : int
        Classes.
    settings : Descent
        When to stop.
    callback : callable, optional
        Called with the number of the pass and the violation.
    """
    if prefers_gram(rows, n_classes):
        with open_workers(1) as workers:
            among = gram_rows(rows, workers)
        alone = solve_crammer_singer(among, labels, costs, norms, n_classes, settings, callback)
        coef, extra = weigh_bins(rows, alone.alpha)
        return replace(alone, coef=coef, extra=extra)
    alpha = np.zeros((len(labels), n_classes))
    coef = np.zeros(n_classes * count_coefs(rows), float_type(rows))
    extra = np.zeros((n_classes, rows.n_extra), float_type(rows))
    room = fast.make_room(rows, n_classes, float_type(rows))
    rng = np.random.default_rng(settings.seed)
    reason, violation, n_iter, last = "max_iter", np.inf, 0, settings.max_iter
    while n_iter < last:
        order = rng.permutation(len(labels))
        violation = fast.crammer_singer_pass(
            rows, order, labels, costs, norms, alpha, room, coef, extra
        )
        n_iter += 1
        if callback is not None:
            callback(n_iter, violation)
        if violation <= settings.tol and reason != "converged":
            reason = "converged"
            last = n_iter + settings.count_finishing(n_iter, count_work(rows) * n_classes)
        if violation <= FINISH_TOL:
            break
        if is_late(settings.deadline):
            reason = "max_time" if reason == "max_iter" else reason
            break
    return LinearResult(
        coef=coefs_by_class(rows, coef, n_classes), extra=extra, alpha=alpha,
        n_iter=np.array([n_iter]), violation=np.array([violation]), stop_reason=reason,
    )  # fmt: skip
