"""Problems whose full kernel matrix is in memory: pair updates on all rows, then on few."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from widemargin.budget import Budget, StopReason
from widemargin.callbacks import Progress
from widemargin.deadline import is_late
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.free_newton import NewtonPlan, find_free, move_free
from widemargin.exact.kernel_matrix import Gram, LazyMatrix
from widemargin.exact.pair_moves_fast import add_matvec, optimise_pairs
from widemargin.exact.solution import Pace, Solution, is_crawling, judge, salvage
from widemargin.kernels import Index
from widemargin.kernels.tiles_fast import copy_stored_rows
from widemargin.parallel import Workers

#: Most points of such a problem, and most where kernel rows are computed one by one, as those of few
#: features are, unless the matrix is there already; computing all of a larger one takes longer than a
#: solution with working sets. The larger matrix has 31 MB: glibc returns memory of more than 32 MB to
#: the system, and the first touch of fresh memory may take longer than the fit.
WHOLE_ROWS, SINGLE_ROWS = 2000, 2800
#: Pair updates per point before variables at their bounds are shrunk away and Newton steps are tried:
#: most problems are solved by then.
FIRST_MOVES = 3
#: A round on the remaining variables ends at this share of the violation it began with.
ROUND_SHARE = 0.1
#: Matrix entries that a round may visit, and its moves; between rounds Ctrl-C and the time are
#: heeded.
ROUND_ENTRIES, ROUND_MOVES = 50_000_000, 50_000
#: Matrix entries that the first round may visit, on all variables.
FIRST_ENTRIES = 300_000_000
#: Copying an entry of the matrix takes as long as so many entries that updates visit.
COPY_COST = 4
#: Moves when time is up from the beginning: a poor model is better than none, but hundreds of clusters
#: that come too late must not take long.
LATE_MOVES = 128


def fits_whole(gram: Gram, budget: Budget) -> bool:
    """Whether a problem is for `solve_whole`."""
    n = len(gram)
    is_small = n <= WHOLE_ROWS or (n <= SINGLE_ROWS and gram.row_source is not None)
    return is_small and 4 * n * n <= budget.cache_bytes


def solve_whole(
    gram: Gram,
    problem: DualProblem,
    budget: Budget,
    callback: Callable[[Progress], object] | None = None,
) -> Solution:
    """Solve a `DualProblem` without samples and working sets; see `solve_box_qp`.

    In a small problem choosing a working set takes longer than updating all variables. Nearly all of
    the work is compiled, so threads can solve many such problems in parallel. After many updates,
    variables at their bounds are left out (shrinking), which makes each update cheaper.
    """
    began = time.perf_counter()
    n, matrix, coef = len(gram), gram.whole(), problem.first_point()
    matrix.fill(np.flatnonzero(coef))
    gradient = _multiply(matrix.tiles, coef, problem.linear)
    members, target = np.arange(n), 0.5 * budget.tol
    most = min(FIRST_MOVES * n, FIRST_ENTRIES // n)
    pace, newton = Pace(), NewtonPlan(budget.cache_bytes)
    n_moves, objective = 0, 0.0
    while True:
        most = int(min(most, budget.iterations_left(n_moves)))
        if is_late(budget.deadline):
            most = min(most, LATE_MOVES)
        n_made = _optimise(problem, matrix, members, (target, most), gradient, coef)
        n_moves += n_made
        newton.record_moves(n_made, len(members))
        gradient = _multiply(matrix.tiles, coef, problem.linear)
        found = judge(problem, coef, gradient)
        if callback is not None:
            seconds, n_support = time.perf_counter() - began, int(np.count_nonzero(coef))
            callback(Progress(n, n, len(members), n_support, found.violation, n_moves, seconds))
        pace.record(objective - found.objective)
        objective = found.objective
        reason = budget.limit_reached(n_moves)
        if found.violation < budget.tol:
            reason = StopReason.CONVERGED
        elif pace.is_lost() or is_crawling(n_moves, n):
            reason = StopReason.STALLED
        if reason is not None:
            found = salvage(problem, found) if reason.is_limit else found
            return replace(found, n_iter=n_moves, stop_reason=reason)
        members = _find_movable(problem, found)
        free = find_free(problem, coef)
        if newton.is_due(len(free), n):
            moved = _move_free(problem, matrix, free, found, gram.workers, budget.deadline)
            newton.record_step(moved is not None)
            if moved is not None:
                add_matvec(matrix.tiles, free, moved - coef[free], 0, n, gradient)
                coef[free] = moved
        target = max(0.5 * budget.tol, ROUND_SHARE * found.violation)
        pause = max(n, newton.count_moves(len(free), len(members)))
        most = min(ROUND_ENTRIES // len(members), ROUND_MOVES, pause)
        if most * (n - len(members)) < COPY_COST * len(members) ** 2:
            # A matrix of the members alone would cost more than it saves.
            members = np.arange(n)


def _optimise(
    problem: DualProblem, matrix: LazyMatrix, members: Index, stop: tuple[float, int],
    gradient: FloatArray, coef: FloatArray,
) -> int:  # fmt: skip
    """Update the variables of some points, see `optimise_pairs`; returns the number of updates.

    ``stop`` is the violation, and the number of updates, at which to stop.
    """
    tiles, is_known = matrix.tiles, matrix.is_known
    if len(members) < len(coef):
        matrix.fill(members)
        tiles = np.empty((1, len(members), len(members)), np.float32)
        copy_stored_rows(matrix.tiles[0], members, members, tiles[0])
        is_known = np.ones(len(members), bool)
    inside, slope = coef[members], gradient[members]
    n_moves, _ = optimise_pairs(
        problem.is_tied, problem.epsilon, tiles, is_known, matrix.source, matrix.diag[members],
        problem.lower[members], problem.upper[members], *stop, slope, inside,
    )  # fmt: skip
    coef[members] = inside
    return int(n_moves)


def _move_free(
    problem: DualProblem, matrix: LazyMatrix, free: Index, found: Solution, workers: Workers,
    deadline: float | None,
) -> FloatArray | None:  # fmt: skip
    """Return better values of the free variables by a Newton step, or None."""
    # Without epsilon a variable at zero is free too, and its row may never have been needed.
    matrix.fill(free)
    K = matrix.tiles[0][np.ix_(free, free)].astype(np.float64)
    return move_free(
        K, problem.cut(free), found.gradient[free], found.coef[free], workers, deadline
    )


def _find_movable(problem: DualProblem, found: Solution) -> Index:
    """Free variables, and variables that barely satisfy their condition."""
    rise, fall = problem.slopes(found.gradient + found.intercept, found.coef)
    return np.flatnonzero((rise == fall) | (np.minimum(rise, -fall) < found.violation))


def _multiply(tiles: NDArray[np.float32], coef: FloatArray, linear: FloatArray) -> FloatArray:
    """``K @ coef + linear``, summed in float64."""
    out, support = linear.copy(), np.flatnonzero(coef)
    add_matvec(tiles, support, coef[support], 0, len(out), out)
    return out
