"""Crammer and Singer's multiclass machine: all classes of a row are moved at once."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from widemargin.solvers import additive_fast as fast
from widemargin.solvers.additive import SMALL_PASSES, SMALL_TOL, Descent, LinearResult
from widemargin.solvers.additive_fast import Rows
from widemargin.solvers.coded_rows import FloatArray, coefs_by_class, count_coefs, float_type


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

    Stops when no row violates the optimality conditions by more than ``tol``.

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
    alpha = np.zeros((len(labels), n_classes))
    coef = np.zeros(n_classes * count_coefs(rows), float_type(rows))
    extra = np.zeros((n_classes, rows.n_extra), float_type(rows))
    room = fast.make_room(rows, n_classes, float_type(rows))
    rng = np.random.default_rng(settings.seed)
    reason, violation, n_iter = "max_iter", np.inf, 0
    tol = SMALL_TOL if settings.finish else settings.tol
    for number in range(SMALL_PASSES if settings.finish else settings.max_iter):
        order = rng.permutation(len(labels))
        violation = fast.crammer_singer_pass(
            rows, order, labels, costs, norms, alpha, room, coef, extra
        )
        n_iter = number + 1
        if callback is not None:
            callback(n_iter, violation)
        if violation <= tol:
            reason = "converged"
            break
        if settings.deadline is not None and time.perf_counter() > settings.deadline:
            reason = "max_time"
            break
    return LinearResult(
        coef=coefs_by_class(rows, coef, n_classes), extra=extra, alpha=alpha,
        n_iter=np.array([n_iter]), violation=np.array([violation]), stop_reason=reason,
    )  # fmt: skip
