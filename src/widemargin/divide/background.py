"""A global model under the models of the clusters: the solution of a random sample.

A cluster does not see the points of other clusters. The background does: it is the SVM of some points
that are drawn at random, with signed dual variables b0 and decision values ``f0 = K b0``. A cluster
then changes the dual variables of its own points by d, which minimise

    0.5 d' K d + (f0 - y)' d    subject to    lower - b0 <= d <= upper - b0

and the decision at a point x of cluster c is ``f0(x) + sum_{i in c} d_i k(x_i, x)``. This is one step
of block minimisation on the dual of all points, in which every block is a cluster. With b0 = 0 it is
DC-SVM Eq. 2 and Eq. 11.
"""

from dataclasses import dataclass, replace

import numpy as np

from widemargin.divide.partition import split_by_group
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.solution import Solution
from widemargin.kernels import Index, Kernel, Points
from widemargin.parallel import Workers

#: Rows of the sample if the number is not given, at most; and the share of all rows, at most.
AUTO_ROWS, AUTO_SHARE = 5000, 0.25
#: Points at which the decision values of all problems are computed at a time. The number is fixed so
#: that rounding does not depend on the number of threads.
CHUNK = 4096
#: Tolerance to which a sample is solved whose size is chosen by measurement, unless ``tol`` is larger.
#: Held-out rows do not tell a more precise solution from it, which takes up to twice as long.
SAMPLE_TOL = 0.1


@dataclass(frozen=True)
class Background:
    """The solution of a random sample.

    Attributes
    ----------
    solutions : list of Solution
        Solution of each binary problem; ``coef`` has a value for each of its points, which is zero
        outside the sample.
    decisions : list of ndarray
        Decision values f0, with intercept, at the points of each binary problem.
    """

    solutions: list[Solution]
    decisions: list[FloatArray]


def count_rows(background: int | str, n_points: int) -> int:
    """Return the number of points in the sample; ``background`` is a number or "auto"."""
    if isinstance(background, str):
        return min(AUTO_ROWS, int(AUTO_SHARE * n_points))
    return min(background, n_points)


def change_background(duals: list[DualProblem], background: Background) -> list[DualProblem]:
    """Return the problems whose variables are the changes d of the background's."""
    return [
        replace(
            dual,
            linear=dual.linear + decisions,
            lower=np.minimum(dual.lower - found.coef, 0.0),
            upper=np.maximum(dual.upper - found.coef, 0.0),
        )
        for dual, found, decisions in zip(
            duals, background.solutions, background.decisions, strict=True
        )
    ]


def decide_all(
    kernel: Kernel,
    points: Points,
    duals: list[DualProblem],
    solutions: list[Solution],
    workers: Workers,
) -> list[FloatArray]:
    """Return the decision values of each binary problem at all of its points."""
    support, coef, intercepts = _collect_coef(points, duals, solutions)
    decisions = [np.empty(len(dual.index)) for dual in duals]
    n_chunks = -(-len(points) // CHUNK)
    places = [split_by_group((dual.index // CHUNK).astype(np.int32), n_chunks) for dual in duals]

    def decide(first: int, last: int) -> None:
        for chunk in range(first, last):
            rows: Index = np.arange(chunk * CHUNK, min((chunk + 1) * CHUNK, len(points)))
            values = np.tile(intercepts, (len(rows), 1))
            kernel.accumulate(points, rows, points, support, coef, values, Workers(1, None))
            for p, dual in enumerate(duals):
                at = places[p][chunk]
                decisions[p][at] = values[dual.index[at] - rows[0], p]

    workers.run(n_chunks, decide, grain=1)
    return decisions


def decide_rows(
    kernel: Kernel,
    points: Points,
    duals: list[DualProblem],
    solutions: list[Solution],
    rows: Index,
    workers: Workers,
) -> FloatArray:
    """Return the decision values of all binary problems at some points, (n_rows, n_problems)."""
    support, coef, intercepts = _collect_coef(points, duals, solutions)
    values = np.tile(intercepts, (len(rows), 1))

    def decide(first: int, last: int) -> None:
        for start in range(first * CHUNK, min(last * CHUNK, len(rows)), CHUNK):
            part = slice(start, start + CHUNK)
            mine = np.ascontiguousarray(values[part])
            kernel.accumulate(points, rows[part], points, support, coef, mine, Workers(1, None))
            values[part] = mine

    if len(support):
        workers.run(-(-len(rows) // CHUNK), decide, grain=1)
    return values


def _collect_coef(
    points: Points, duals: list[DualProblem], solutions: list[Solution]
) -> tuple[Index, FloatArray, FloatArray]:
    """Return the support vectors of all problems, their coefficients, and the intercepts."""
    is_support = np.zeros(len(points), bool)
    for dual, found in zip(duals, solutions, strict=True):
        is_support[dual.index[found.coef != 0]] = True
    support = np.flatnonzero(is_support)
    coef = np.zeros((len(support), len(duals)))
    for p, (dual, found) in enumerate(zip(duals, solutions, strict=True)):
        at = np.flatnonzero(found.coef)
        coef[np.searchsorted(support, dual.index[at]), p] = found.coef[at]
    return support, coef, np.array([found.intercept for found in solutions])
