"""The solver of the classifiers that are linear in a representation: one class against the rest."""

from collections.abc import Callable
from dataclasses import replace

from widemargin.additive.centring import descend_centred
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.coef_newton import count_patience, finish_classes
from widemargin.additive.dense_rows import can_be_dense
from widemargin.additive.dual_descent import Descent, LinearResult, OneVsRestDual, WarmStart
from widemargin.additive.mean_direction import descend_split
from widemargin.budget import StopReason
from widemargin.parallel import Workers


def solve_one_vs_rest(
    rows: Rows,
    problem: OneVsRestDual,
    settings: Descent,
    workers: Workers,
    *,
    is_free: bool,
    start: WarmStart | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> LinearResult:
    """Solve the dual of every one-vs-rest problem, with or without a free intercept.

    Minimise ``0.5 a'(Q + diag(ridge))a - sum(a)`` subject to ``0 <= a <= upper`` and, if the intercept
    is free, ``sum(y a) = 0``. Dual coordinate descent solves it. With a large C and the squared hinge
    loss it may crawl; problems of few coefficients or few support vectors are then solved by Newton's
    method, from where the descent is.

    Parameters and result are those of `descend`, and ``is_free`` says that the last extra number of
    the rows makes an intercept without penalty. The norms of the problem may be changed in place.
    """
    can_finish = problem.is_squared and can_be_dense(rows)
    if can_finish:
        patience = count_patience(rows, len(problem.positives), settings.max_iter)
        settings = replace(settings, patience=patience)
    solve = descend_centred if is_free else descend_split
    result = solve(rows, problem, settings, workers, start, callback)
    has_passes = result.n_iter.min() < settings.max_iter
    if not (can_finish and has_passes and result.stop_reason is StopReason.MAX_ITER):
        return result
    return finish_classes(
        rows, problem, result, settings, workers, is_free=is_free, callback=callback
    )
