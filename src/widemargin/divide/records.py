"""Records of the levels: the plan of a fit, the solution of a level, and its summary."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from widemargin.divide.background import Background
from widemargin.divide.overlap import Copies
from widemargin.divide.partition import Partition
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.solution import Solution
from widemargin.kernels import Index

#: A level is left out if its clusters would have fewer points than this on average.
MIN_POINTS = 50


@dataclass(frozen=True)
class Plan:
    """Parameters of the levels.

    Attributes
    ----------
    n_clusters : int
        The paper's k: level l has k**l clusters.
    n_levels : int
        The paper's l_max, the level with the most clusters, solved first; 0 for none.
    stop_level : int
        The last level to solve; 0 for the whole problem.
    sample_size : int
        The paper's m, the number of points on which kernel k-means runs.
    adaptive : bool
        Whether to sample them from the support vectors of the level before (line 6).
    refine : bool
        Whether to solve for the support vectors of level 1 before the whole problem (line 14).
    n_jobs : int or None
        Clusters solved at a time; see `count_local_threads`.
    seed : int
        Seed of the samples.
    is_plain : bool
        Whether clusters are those of plain two-step kernel k-means; see `Sampling`.
    background : int
        Number of points in the sample of the background; 0 for no background.
    overlap : float
        Points of other clusters on which each cluster of the last level also trains, as a share of
        its own.
    is_measured : bool
        Whether held-out rows decide about clusters and background; see `widemargin.divide.trial`.
    """

    n_clusters: int
    n_levels: int
    stop_level: int
    sample_size: int
    adaptive: bool
    refine: bool
    n_jobs: int | None
    seed: int
    is_plain: bool = False
    background: int = 0
    overlap: float = 0.0
    is_measured: bool = False


@dataclass(frozen=True)
class LevelRecord:
    """Summary of one level.

    Attributes
    ----------
    level : int
        Number of the level; the whole problem is level 0.
    n_clusters : int
        Number of clusters, without empty ones and with those into which large ones were divided.
    largest_cluster : int
        Number of points in the largest cluster.
    n_support : int
        Number of points that are a support vector of at least one binary problem.
    objective : float
        Dual objective of DC-SVM Lemma 1, where the kernel is zero between clusters, summed over the
        binary problems.
    clustering_seconds, solving_seconds : float
        Time to divide the points and to solve the clusters; at level 0, to refine and to solve.
    is_complete : bool
        False if ``max_time`` ended the level before all clusters had converged.
    """

    level: int
    n_clusters: int
    largest_cluster: int
    n_support: int
    objective: float
    clustering_seconds: float
    solving_seconds: float
    is_complete: bool = True


@dataclass(frozen=True)
class Level:
    """Solution of one level.

    Attributes
    ----------
    record : LevelRecord
        Summary.
    partition : Partition or None
        The clusters; None for the whole problem.
    clusters : ndarray of shape (n_points,)
        Cluster of every point: the paper's pi.
    solutions : list of Solution
        One for each binary problem: the solutions of the clusters, concatenated. The intercept is
        the mean over the clusters, weighted by their numbers of points.
    intercepts : ndarray of shape (n_clusters, n_problems)
        Intercepts of each cluster.
    background : Background or None
        What ``solutions`` change, if there is a background.
    copies : Copies or None
        Dual variables of points in clusters that are not their own, if clusters overlap.
    """

    record: LevelRecord
    partition: Partition | None
    clusters: NDArray[np.int32]
    solutions: list[Solution]
    intercepts: FloatArray
    background: Background | None = None
    copies: Copies | None = None


def replace_problems(
    level: Level, duals: list[DualProblem], solutions: list[Solution], chosen: NDArray[np.bool_]
) -> Level:
    """Return a level with other solutions, without coefficients, of the problems that are chosen.

    All clusters get the intercept of such a solution.
    """
    kept = [
        replace(new, n_iter=old.n_iter, stop_reason=old.stop_reason) if is_chosen else old
        for new, old, is_chosen in zip(solutions, level.solutions, chosen, strict=True)
    ]
    support = find_support(duals, [found.coef for found in kept], len(level.clusters))
    record = replace(
        level.record, n_support=len(support), objective=sum(found.objective for found in kept)
    )
    copies = level.copies
    if copies is not None:
        copies = replace(copies, coef=np.where(chosen[:, None], 0.0, copies.coef))
    intercepts = np.where(chosen, [found.intercept for found in solutions], level.intercepts)
    return replace(level, record=record, solutions=kept, intercepts=intercepts, copies=copies)


def count_levels(
    n_points: int, n_clusters: int, n_levels: int, min_points: int = MIN_POINTS
) -> int:
    """Return the largest l <= n_levels whose n_clusters**l clusters have enough points each."""
    if n_clusters == 1:
        return n_levels if n_points >= min_points else 0
    level, points_needed = 0, min_points * n_clusters
    while level < n_levels and points_needed <= n_points:
        level, points_needed = level + 1, points_needed * n_clusters
    return level


def find_support(duals: list[DualProblem], coefs: list[FloatArray], n_points: int) -> Index:
    """Return the points that are support vectors of at least one binary problem."""
    is_support = np.zeros(n_points, bool)
    for dual, coef in zip(duals, coefs, strict=True):
        is_support[dual.index[coef != 0]] = True
    return np.flatnonzero(is_support)
