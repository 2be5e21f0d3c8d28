"""Small problems: pair updates on the full kernel matrix."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from widemargin.callbacks import Progress
from widemargin.exact.kernel_matrix import Gram, LazyMatrix
from widemargin.exact.pair_moves_fast import add_matvec, optimise_pairs
from widemargin.exact.solution import (
    FloatArray,
    Limits,
    Pace,
    Result,
    is_crawling,
    limit_reached,
    make_feasible,
    optimum_of,
    stopped,
)
from widemargin.kernels import Index

#: Most points of such a problem; larger ones gain from working sets.
WHOLE_ROWS = 2000
#: Pair updates per point before variables at their bounds are shrunk away: most problems are solved
#: by then.
FIRST_MOVES = 20
#: A round on the remaining variables ends at this share of the violation it began with.
ROUND_SHARE = 0.1
#: Matrix entries that a round may visit, and its moves; between rounds Ctrl-C and the time are
#: heeded.
ROUND_ENTRIES, ROUND_MOVES = 50_000_000, 50_000


def fits_whole(n: int, limits: Limits) -> bool:
    """Whether a problem is for `solve_whole`."""
    return n <= WHOLE_ROWS and 4 * n * n <= limits.cache_bytes


def solve_whole(
    gram: Gram,
    y: FloatArray,
    upper: FloatArray,
    *,
    intercept: bool,
    limits: Limits,
    start: FloatArray | None = None,
    callback: Callable[[Progress], object] | None = None,
    linear: FloatArray | None = None,
) -> Result:
    """Solve the problem of `solve_box_qp` without samples and working sets.

    In a small problem choosing a working set takes longer than updating all variables. Nearly all of
    the work is compiled, so threads can solve many such problems in parallel. After many updates,
    variables at their bounds are left out (shrinking), which makes each update cheaper.
    """
    began = time.perf_counter()
    n, matrix = len(gram), gram.whole()
    is_classification, linear = linear is None, -y if linear is None else linear
    lower, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
    coef = np.zeros(n) if start is None else make_feasible(start, lower, high, intercept)
    matrix.fill(np.flatnonzero(coef))
    gradient = _multiply(matrix.tiles, coef, linear)
    members, target, most = np.arange(n), 0.5 * limits.tol, FIRST_MOVES * n
    pace, n_moves, objective = Pace(), 0, 0.0
    while True:
        if limits.max_iter >= 0:
            most = min(most, limits.max_iter - n_moves)
        if limits.max_time is not None and time.perf_counter() - began >= limits.max_time:
            # A few moves even when time is up from the beginning: a poor model is better than none.
            most = min(most, n)
        n_moves += _optimise(intercept, matrix, lower, high, members, target, most, gradient, coef)
        gradient = _multiply(matrix.tiles, coef, linear)
        found = optimum_of(coef, gradient, y, upper, intercept, linear)
        seconds = time.perf_counter() - began
        if callback is not None:
            n_support = int(np.count_nonzero(coef))
            callback(Progress(n, n, len(members), n_support, found.violation, n_moves, seconds))
        pace.record(objective - found.objective)
        objective = found.objective
        reason = limit_reached(n_moves, seconds, limits)
        if found.violation < limits.tol:
            reason = "converged"
        elif pace.is_lost() or is_crawling(n_moves, n):
            reason = "stalled"
        if reason in ("max_iter", "max_time") and is_classification:
            found = stopped(found, y, upper, intercept)
        if reason is not None:
            return replace(found, n_iter=n_moves, stop_reason=reason)
        members = _find_movable(found, lower, high)
        target = max(0.5 * limits.tol, ROUND_SHARE * found.violation)
        most = min(ROUND_ENTRIES // len(members), ROUND_MOVES)


def _optimise(
    tied: bool, matrix: LazyMatrix, lower: FloatArray, upper: FloatArray, members: Index,
    tol: float, max_moves: int, gradient: FloatArray, coef: FloatArray,
) -> int:  # fmt: skip
    """Update the variables of some points, see `optimise_pairs`; returns the number of updates."""
    tiles, is_known = matrix.tiles, matrix.is_known
    if len(members) < len(coef):
        matrix.fill(members)
        tiles = np.ascontiguousarray(tiles[0][np.ix_(members, members)])[None]
        is_known = np.ones(len(members), bool)
    inside, slope = coef[members], gradient[members]
    n_moves, _ = optimise_pairs(
        tied, tiles, is_known, matrix.source, matrix.diag[members], lower[members],
        upper[members], tol, max_moves, slope, inside,
    )  # fmt: skip
    coef[members] = inside
    return int(n_moves)


def _find_movable(found: Result, lower: FloatArray, upper: FloatArray) -> Index:
    """Free variables, and variables that barely satisfy their condition."""
    above = found.gradient + found.intercept
    rises, falls = found.coef < upper, found.coef > lower
    slack = np.minimum(np.where(rises, above, np.inf), np.where(falls, -above, np.inf))
    return np.flatnonzero((rises & falls) | (slack < found.violation))


def _multiply(tiles: NDArray[np.float32], coef: FloatArray, linear: FloatArray) -> FloatArray:
    """``K @ coef + linear``, summed in float64."""
    out, support = linear.copy(), np.flatnonzero(coef)
    add_matvec(tiles, support, coef[support], 0, len(out), out)
    return out
