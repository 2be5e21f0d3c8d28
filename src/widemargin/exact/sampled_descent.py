"""Exact solver of the SVM dual: growing samples, a dense working set, exact pair updates.

The plan, and why it is fast:

1. Solve a small random sample, then ever larger ones, each from the solution of the last. Most
   points are never support vectors, so most of the work is done on few points.
2. Within a sample, optimise on a working set of the worst violators and all free variables that have
   changed or must. Its kernel matrix is dense and small, so a pair update costs a pass over
   thousands of floats instead of a row of the full matrix.
3. After each round bring the gradient of all active points up to date in one product of kernel
   tiles with the changed coefficients; tiles are never stored.
4. Near the optimum, points far from the margin are left out (shrinking). Before the solver reports
   convergence, it updates and checks their gradient, so the solution is that of the full problem.
"""

import time
from collections.abc import Callable

import numpy as np

from widemargin.callbacks import Progress
from widemargin.exact.descent_state import DescentState, OutOfTimeError
from widemargin.exact.kernel_matrix import Gram
from widemargin.exact.solution import FloatArray, Limits, Pace, Result, is_crawling, limit_reached


def solve_box_qp(
    gram: Gram,
    y: FloatArray,
    upper: FloatArray,
    *,
    intercept: bool,
    limits: Limits,
    start: FloatArray | None = None,
    refine: bool = False,
    seed: int = 0,
    callback: Callable[[Progress], object] | None = None,
    linear: FloatArray | None = None,
) -> Result:
    """Solve the dual of a support vector machine.

    ::

        minimise    0.5 b'Kb - y'b
        subject to  0 <= y_i b_i <= upper_i,  and  sum(b) = 0  with an intercept

    where ``b_i = y_i alpha_i``; in alpha this is the dual that LIBSVM solves (with intercept) or
    DC-SVM (Eq. 1, without).

    ======  ========  =====  ==============================
    symbol  variable  shape
    ======  ========  =====  ==============================
    K       gram      (n,n)  see `Gram`; never held whole
    b       coef      (n,)   float64
    Kb - y  gradient  (n,)   float64
    ======  ========  =====  ==============================

    Parameters
    ----------
    gram : Gram
        Kernel matrix of the problem.
    y : ndarray of shape (n,)
        Labels, -1.0 or 1.0.
    upper : ndarray of shape (n,)
        Largest alpha of each point: C times its weight.
    intercept : bool
        Whether the decision function has one.
    limits : Limits
        Stopping rule. Converged means that no pair of variables violates the optimality conditions
        by ``tol`` (LIBSVM's rule, checked on all points).
    start : ndarray of shape (n,), optional
        Signed dual variables to begin with; made feasible if they are not.
    refine : bool
        Whether to solve for the support vectors of ``start`` alone before all points take part.
    seed : int
        Seed of the order in which points are sampled.
    callback : callable, optional
        Called with a `Progress` after every round.
    linear : ndarray of shape (n,), optional
        Linear term in the place of ``-y``; then ``y`` says only on which side of zero a variable is.
    """
    began = time.perf_counter()
    state = DescentState(gram, y, upper, intercept, limits, start, refine, seed, linear)
    if limits.all_or_nothing and limits.max_time is not None:
        state.give_up_at = began + limits.max_time
    try:
        state.refresh(state.active)
        reason = _descend(state, began, limits, callback)
    except OutOfTimeError:
        reason = "max_time"
    return state.result(reason)


def _descend(
    state: DescentState, began: float, limits: Limits, callback: Callable[[Progress], object] | None
) -> str:
    pace = Pace()
    while True:
        violation = state.measure()
        at_target = violation < (limits.tol if state.sees_all else state.sample_tol)
        if at_target or pace.is_lost() or is_crawling(state.n_iter, state.n):
            if state.sees_all and state.n_active == state.n:
                return "converged" if at_target else "stalled"
            if not at_target:
                state.rests_left = 0
            state.widen()
            pace.restart()
            continue
        spare = limits.max_iter - state.n_iter if limits.max_iter >= 0 else np.inf
        deadline = np.inf if limits.max_time is None else began + limits.max_time
        pace.record(state.improve(spare, deadline))
        seconds = time.perf_counter() - began
        if callback is not None:
            callback(state.progress(seconds))
        stop = limit_reached(state.n_iter, seconds + state.finish_seconds(), limits)
        if stop:
            if not (stop == "max_time" and limits.all_or_nothing):
                state.finish_early()
            return stop
