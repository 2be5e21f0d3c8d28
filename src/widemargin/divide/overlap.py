"""Clusters that overlap: a cluster also trains on the points of other clusters that are nearest to it.

A point near the border of two clusters is then a training point of both. It keeps one dual variable
for each of them; the one of its own cluster belongs to the solution of the level, the others only to
the models of the other clusters.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from widemargin.divide.partition import split_by_group
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.solution import Solution
from widemargin.kernels import Index

#: Nearest clusters of a point that it may join.
N_RANKS = 4


@dataclass(frozen=True)
class Copies:
    """Dual variables of points in clusters that are not their own.

    Attributes
    ----------
    rows : ndarray of shape (n_copies,)
        The points.
    clusters : ndarray of shape (n_copies,)
        The clusters that they joined.
    coef : ndarray of shape (n_problems, n_copies)
        Signed dual variables of each binary problem.
    """

    rows: Index
    clusters: NDArray[np.int32]
    coef: FloatArray


def choose_copies(
    clusters: NDArray[np.int32],
    nearest: NDArray[np.int32],
    distances: NDArray[np.float32],
    share: float,
    n_clusters: int,
) -> list[Index]:
    """Choose for each cluster the points of other clusters that are nearest to it.

    Parameters
    ----------
    clusters : ndarray of shape (n_points,)
        Cluster of every point.
    nearest, distances : ndarray of shape (n_ranks, n_points)
        Nearest clusters of every point and how far they are, in ascending order.
    share : float
        Number of points to choose, as a share of the points of the cluster.
    n_clusters : int
        Number of clusters; some may have no points.

    Returns
    -------
    copies : list of ndarray
        The chosen points of each cluster, ascending. A point is chosen by how much farther the
        cluster is than the nearest one, compared with the farthest of ``nearest``.
    """
    sizes = np.bincount(clusters, minlength=n_clusters)
    span = np.maximum(distances[-1] - distances[0], np.finfo(np.float32).tiny)
    rank, point = np.nonzero(nearest != clusters)
    farther = (distances[rank, point] - distances[0, point]) / span[point]
    wanted = nearest[rank, point]
    copies = []
    for c, at in enumerate(split_by_group(wanted, len(sizes))):
        order = np.argsort(farther[at], kind="stable")[: int(share * sizes[c])]
        copies.append(np.sort(point[at[order]]))
    return copies


def add_copies(
    duals: list[DualProblem], places: list[list[Index]], copies: list[Index], n_points: int
) -> list[list[Index]]:
    """Add the copies to the positions in each dual of the points of each cluster."""
    joined = []
    for dual, mine in zip(duals, places, strict=True):
        position = np.full(n_points, -1)
        position[dual.index] = np.arange(len(dual.index))
        more = [position[rows] for rows in copies]
        joined.append(
            [np.sort(np.concatenate([a, b[b >= 0]])) for a, b in zip(mine, more, strict=True)]
        )
    return joined


def collect_copies(
    c: int, rows: Index, duals: list[DualProblem], places: list[Index], solutions: list[Solution]
) -> Copies:
    """Collect the dual variables of the copies in cluster c from the solutions of its problems.

    ``rows`` are the copies, and ``places`` the positions of all points of the cluster in each dual.
    """
    coef = np.zeros((len(duals), len(rows)))
    if len(rows):
        # The variables of all problems at once: with many classes there are hundreds of problems.
        points = np.concatenate([dual.index[at] for dual, at in zip(duals, places, strict=True)])
        values = np.concatenate([found.coef for found in solutions])
        problems = np.repeat(np.arange(len(duals)), [len(at) for at in places])
        column = np.minimum(np.searchsorted(rows, points), len(rows) - 1)
        is_copy = rows[column] == points
        coef[problems[is_copy], column[is_copy]] = values[is_copy]
    used = np.flatnonzero(coef.any(axis=0))
    return Copies(rows[used], np.full(len(used), c, np.int32), coef[:, used])


def join_copies(parts: list[Copies]) -> Copies:
    """Return the copies of all clusters as one record."""
    return Copies(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.clusters for part in parts]),
        np.concatenate([part.coef for part in parts], axis=1),
    )
