"""Problems of up to a thousand points: pair moves on the whole kernel matrix."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from widemargin.solvers.box_qp_fast import add_matvec, optimise_pairs
from widemargin.solvers.gram import Gram
from widemargin.solvers.optimum import (
    FloatArray,
    Limits,
    Pace,
    Progress,
    Result,
    limit_reached,
    make_feasible,
    optimum_of,
)

#: Most points of such a problem: of more, working sets leave most alone.
WHOLE_ROWS = 1000
#: Matrix entries that one compiled call may visit; between calls Ctrl-C and the time are heeded.
CALL_ENTRIES = 300_000_000


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
) -> Result:
    """Solve the problem of `solve_box_qp` without samples and working sets.

    Of few points, choosing takes longer than moving them all. And as hardly anything is left to the
    interpreter, threads can solve many such problems side by side.
    """
    began = time.perf_counter()
    n, diag, tol = len(gram), gram.diag.astype(np.float32), np.float32(0.5 * limits.tol)
    lower, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
    coef = np.zeros(n) if start is None else make_feasible(start, lower, high, intercept)
    tiles = gram.whole()
    gradient = _multiply(tiles, coef, y)
    pace, n_moves, objective = Pace(), 0, 0.0
    while True:
        # A few moves even when time is up from the beginning: a poor model is better than none.
        in_time = limits.max_time is None or time.perf_counter() - began < limits.max_time
        most = CALL_ENTRIES // n if in_time else n
        if limits.max_iter >= 0:
            most = min(most, limits.max_iter - n_moves)
        rounded = gradient.astype(np.float32)
        n_made, _ = optimise_pairs(intercept, tiles, diag, lower, high, tol, most, rounded, coef)
        n_moves += n_made
        gradient = _multiply(tiles, coef, y)
        found = optimum_of(coef, gradient, y, upper, intercept)
        seconds = time.perf_counter() - began
        if callback is not None:
            n_support = int(np.count_nonzero(coef))
            callback(Progress(n, n, n, n_support, found.violation, n_moves, seconds))
        pace.record(objective - found.objective)
        objective = found.objective
        reason = limit_reached(n_moves, seconds, limits)
        if found.violation < limits.tol:
            reason = "converged"
        elif pace.is_lost():
            reason = "stalled"
        if reason is not None:
            return replace(found, n_iter=n_moves, stop_reason=reason)


def _multiply(tiles: NDArray[np.float32], coef: FloatArray, y: FloatArray) -> FloatArray:
    """``K @ coef - y``, summed in float64."""
    out, support = -y, np.flatnonzero(coef)
    add_matvec(tiles, support, coef[support], 0, len(y), out)
    return out
