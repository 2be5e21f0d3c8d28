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

from widemargin.budget import Budget, StopReason
from widemargin.callbacks import Progress
from widemargin.exact.descent_state import DescentState, OutOfTimeError
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.kernel_matrix import Gram
from widemargin.exact.solution import Pace, Solution, is_crawling


def solve_box_qp(
    gram: Gram,
    problem: DualProblem,
    budget: Budget,
    *,
    seed: int = 0,
    callback: Callable[[Progress], object] | None = None,
) -> Solution:
    """Solve the dual of a support vector machine; see `DualProblem`.

    ======  ========  =====  ==============================
    symbol  variable  shape
    ======  ========  =====  ==============================
    K       gram      (n,n)  see `Gram`; never held whole
    b       coef      (n,)   float64
    Kb + p  gradient  (n,)   float64, p is the linear term
    ======  ========  =====  ==============================

    Parameters
    ----------
    gram : Gram
        Kernel matrix of the problem.
    problem : DualProblem
        Linear term, bounds and the variables to begin with.
    budget : Budget
        Stopping rule. Converged means that no pair of variables violates the optimality conditions
        by ``tol`` (LIBSVM's rule, checked on all points).
    seed : int
        Seed of the order in which points are sampled.
    callback : callable, optional
        Called with a `Progress` after every round.

    Returns
    -------
    solution : Solution
        The optimum, or the best solution found when a limit was reached.
    """
    began = time.perf_counter()
    state = DescentState(gram, problem, budget, seed)
    try:
        has_time = state.begin()
        reason = _descend(state, began, budget, callback) if has_time else StopReason.MAX_TIME
    except OutOfTimeError:
        reason = StopReason.MAX_TIME
    return state.solution(reason)


def _descend(
    state: DescentState, began: float, budget: Budget, callback: Callable[[Progress], object] | None
) -> StopReason:
    pace = Pace()
    while True:
        violation = state.measure()
        at_target = violation < (budget.tol if state.sees_all else state.sample_tol)
        if at_target or pace.is_lost() or is_crawling(state.n_iter, state.n):
            if state.sees_all and state.n_active == state.n:
                return StopReason.CONVERGED if at_target else StopReason.STALLED
            if not at_target:
                state.rests_left = 0
            state.widen()
            pace.restart()
            continue
        pace.record(state.improve())
        if callback is not None:
            callback(state.progress(time.perf_counter() - began))
        stop = budget.limit_reached(state.n_iter, state.finish_seconds())
        if stop:
            if not (stop == StopReason.MAX_TIME and budget.all_or_nothing):
                state.finish_early()
            return stop
