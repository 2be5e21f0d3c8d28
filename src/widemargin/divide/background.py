"""A global model under the models of the clusters: the solution of a random sample.

A cluster does not see the points of other clusters. The background does: it is the SVM of some points
that are drawn at random, with signed dual variables b0 and decision values ``f0 = K b0``. A cluster
then changes the dual variables of its own points by d, so that it minimises

    0.5 d' K d + (f0 - y)' d

and the decision at a point x of cluster c is ``f0(x) + sum_{i in c} d_i k(x_i, x)``. This is one step
of block minimisation on the dual of all points, in which every block is a cluster. With b0 = 0 it is
DC-SVM Eq. 2 and Eq. 11.
"""

from dataclasses import dataclass

import numpy as np

from widemargin.divide.partition import split_by_group
from widemargin.exact.several_problems import Task
from widemargin.exact.solution import FloatArray, Result
from widemargin.kernels import Index, Kernel, Points
from widemargin.parallel import Workers

#: Rows of the sample if the number is not given, at most; and the share of all rows, at most.
AUTO_ROWS, AUTO_SHARE = 5000, 0.25
#: Points at which the decision values of all problems are computed at a time. The number is fixed so
#: that rounding does not depend on the number of threads.
CHUNK = 8192


@dataclass(frozen=True)
class Background:
    """The solution of a random sample.

    Attributes
    ----------
    results : list of Result
        Solution of each binary problem; ``coef`` has a value for each of its points, which is zero
        outside the sample.
    decisions : list of ndarray
        Decision values f0, with intercept, at the points of each binary problem.
    """

    results: list[Result]
    decisions: list[FloatArray]


def count_rows(background: int | str, n_points: int) -> int:
    """Return the number of points in the sample; ``background`` is a number or "auto"."""
    if isinstance(background, str):
        return min(AUTO_ROWS, int(AUTO_SHARE * n_points))
    return min(background, n_points)


def decide_all(
    kernel: Kernel, points: Points, tasks: list[Task], results: list[Result], workers: Workers
) -> list[FloatArray]:
    """Return the decision values of each binary problem at all of its points."""
    coef = np.zeros((len(points), len(tasks)))
    for p, (task, result) in enumerate(zip(tasks, results, strict=True)):
        coef[task.index, p] = result.coef
    support = np.flatnonzero(coef.any(axis=1))
    coef, intercepts = coef[support], np.array([result.intercept for result in results])
    decisions = [np.empty(len(task.index)) for task in tasks]
    n_chunks = -(-len(points) // CHUNK)
    places = [split_by_group((task.index // CHUNK).astype(np.int32), n_chunks) for task in tasks]
    for chunk in range(n_chunks):
        rows: Index = np.arange(chunk * CHUNK, min((chunk + 1) * CHUNK, len(points)))
        values = np.tile(intercepts, (len(rows), 1))
        kernel.accumulate(points, rows, points, support, coef, values, workers)
        for p, task in enumerate(tasks):
            at = places[p][chunk]
            decisions[p][at] = values[task.index[at] - rows[0], p]
    return decisions
