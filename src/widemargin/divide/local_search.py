"""One C and one gamma for each cluster of the rows: the clusters, and what each of them chooses.

Every cluster is searched as data of their own. It takes the parameters that its held-out rows prefer,
unless these are hardly better than the parameters that are best for all rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.deadline import is_late, share_time
from widemargin.divide.assignment import assign_rows
from widemargin.divide.kernel_kmeans import Sampling, divide_ranked
from widemargin.divide.overlap import N_RANKS, choose_copies
from widemargin.divide.partition import Partition, split_by_group
from widemargin.divide.search_regions import Regions, join_regions, split_region, take_training
from widemargin.kernels import Index, Kernel
from widemargin.parallel import open_workers
from widemargin.problem import Problem

FloatArray = NDArray[np.float64]

#: Rows that kernel k-means samples, and rows of other clusters that a cluster also trains on, as a
#: share of its own: the defaults of `DCSVC`.
SAMPLE_SIZE, OVERLAP = 1000, 0.2
#: Fewest held-out rows with which a cluster chooses for itself; clusters have as many rows on average.
LEAST_ROWS = 200
#: Standard errors of the difference over the folds by which the cell of a cluster must be better than
#: the common one. The best of a hundred cells is often better by one of them without any reason.
NOISE = 2.0


@dataclass(frozen=True)
class Division:
    """A division of space into clusters, which also finds the cluster of new rows.

    Attributes
    ----------
    kernel : Kernel
        The kernel whose distances decide.
    samples : ndarray or csr_matrix of shape (m, n_features)
        The sampled points of the partition.
    partition : Partition
        The clusters.
    """

    kernel: Kernel
    samples: Any
    partition: Partition

    def find_clusters(self, X: Any, n_jobs: int | None) -> NDArray[np.int32]:
        """Return the cluster of each row of ``X``."""
        return assign_rows(self.kernel, X, self.partition, self.samples, n_jobs)


@dataclass(frozen=True)
class Cluster:
    """A cluster of the rows of a problem.

    Attributes
    ----------
    rows : ndarray
        Its rows.
    copies : ndarray
        Rows of other clusters that are nearest to it, on which its model also trains.
    sampled : ndarray
        The sampled rows whose mean is its centre.
    """

    rows: Index
    copies: Index
    sampled: Index


@dataclass(frozen=True)
class DividedRows:
    """The rows of a problem in clusters, and the folds of all rows.

    Attributes
    ----------
    problem : Problem
        All rows.
    splits : list of (ndarray, ndarray)
        Training and held-out rows of every fold.
    division : Division
        Finds the cluster of a row.
    clusters : list of Cluster
        Some may have no rows.
    """

    problem: Problem
    splits: list[tuple[Index, Index]]
    division: Division
    clusters: list[Cluster]

    def make_region(self, cluster: Cluster) -> Regions:
        """The folds of a cluster; classes that it lacks get their nearest rows for training."""
        inside = self._mark(cluster.rows)
        folds = split_region(self.problem, self.splits, inside, self._measure(cluster))
        return join_regions(self.problem, folds)

    def list_held_out(self, cluster: Cluster) -> Index:
        """Rows of a cluster that some fold holds out."""
        held_out = self._mark(np.concatenate([test for _, test in self.splits]))
        return cluster.rows[held_out[cluster.rows]]

    def list_training(self, cluster: Cluster) -> Index:
        """Rows to which the model of a cluster is fitted: its own and near ones, of all classes."""
        everyone = np.arange(len(self.problem.labels))
        inside = self._mark(np.concatenate([cluster.rows, cluster.copies]))
        return take_training(self.problem, everyone, inside, self._measure(cluster))

    def _mark(self, rows: Index) -> NDArray[np.bool_]:
        marked = np.zeros(len(self.problem.labels), bool)
        marked[rows] = True
        return marked

    def _measure(self, cluster: Cluster) -> FloatArray:
        """Squared distances of all rows to the centre of a cluster, less a constant."""
        kernel, X, sampled = self.division.kernel, self.problem.X, cluster.sampled
        share = np.full(len(sampled), 1.0 / len(sampled))
        products = kernel.exact_product(X, X[sampled], share)
        return kernel.diag(kernel.prepare(X)) - 2.0 * products


def divide_rows(
    kernel: Kernel, problem: Problem, splits: list[tuple[Index, Index]], n_clusters: int,
    max_bytes: int, seed: int, n_jobs: int | None,
) -> DividedRows:  # fmt: skip
    """Divide rows into about ``n_clusters`` clusters of similar sizes by kernel k-means."""
    X, rng = problem.X, np.random.default_rng(seed)
    points = kernel.prepare(X)
    sampling = Sampling(np.arange(len(points)), SAMPLE_SIZE, max_bytes, rng)
    with open_workers(n_jobs) as workers:
        partition, of_row, ranks = divide_ranked(
            kernel, points, n_clusters, sampling, workers, N_RANKS
        )
    n_found = partition.n_clusters
    copies = choose_copies(of_row, *ranks, OVERLAP, n_found)
    flat, of_group = partition.list_groups()
    of_sample = np.repeat(of_group, np.diff(flat.bounds))
    sampled = [flat.sample[of_sample == c] for c in range(n_found)]
    clusters = list(map(Cluster, split_by_group(of_row, n_found), copies, sampled))
    used, position = np.unique(partition.all_samples()), np.zeros(len(points), np.intp)
    position[used] = np.arange(len(used))
    division = Division(kernel, X[used], partition.renumber(position))
    return DividedRows(problem, splits, division, clusters)


def count_clusters(given: int | str, n_rows: int, cluster_rows: int) -> int:
    """Number of clusters to ask for; ``cluster_rows`` is what each has if ``given`` is "auto"."""
    wanted = round(n_rows / cluster_rows) if isinstance(given, str) else given
    return max(1, min(wanted, n_rows // LEAST_ROWS))


@dataclass(frozen=True)
class ClusterChoice:
    """The parameters of a cluster.

    Attributes
    ----------
    n_rows : int
        Rows of the cluster.
    C, gamma : float
        The chosen parameters; gamma is None for a kernel without gamma.
    score : float
        Mean score of these parameters over the folds of the cluster; NaN if it is not known.
    common_score : float
        The same for the parameters that are best for all rows.
    """

    n_rows: int
    C: float
    gamma: float | None
    score: float = nan
    common_score: float = nan

    @property
    def is_own(self) -> bool:
        """Whether the cluster prefers these parameters to those of all rows."""
        return self.score > self.common_score


#: ``search(region, cell, deadline, keep_decisions=False)`` searches the folds of a cluster: one cell,
#: or the whole grid for None. It returns a fitted search.
Search = Callable[..., Any]


def choose_cells(
    divided: DividedRows, common: dict[str, float], search: Search, deadline: float | None
) -> list[ClusterChoice]:
    """Choose the parameters of every cluster by the scores of its held-out rows.

    ``common`` are the parameters that are best for all rows. A cluster keeps them if it has few
    held-out rows, or of one class only, or if its share of the time to the deadline is too short.
    """
    choices = []
    for number, cluster in enumerate(divided.clusters):
        end = share_time(deadline, len(divided.clusters) - number)
        kept = ClusterChoice(len(cluster.rows), common["C"], common.get("gamma"))
        labels = divided.problem.labels[divided.list_held_out(cluster)]
        if len(labels) < LEAST_ROWS or (labels == labels[0]).all() or is_late(end):
            choices.append(kept)
        else:
            run = partial(search, divided.make_region(cluster), deadline=end)
            choices.append(_choose_cell(kept, run))
    return choices


def _choose_cell(
    kept: ClusterChoice, search: Callable[[ClusterChoice | None], Any]
) -> ClusterChoice:
    """Choose between the common cell and the one that is best for the cluster.

    A cell in which the solver did not converge is not chosen.
    """
    common = _list_scores(search(kept))
    kept = replace(kept, score=float(common.mean()), common_score=float(common.mean()))
    own = search(None)
    has_converged = own.cv_results_["stop_reason"][own.best_index_] == "converged"
    if not (has_converged and is_clearly_better(_list_scores(own), common)):
        return kept
    return replace(kept, C=own.C_, gamma=own.gamma_, score=own.best_score_)


def find_decisions(
    divided: DividedRows, choices: list[ClusterChoice], search: Search, deadline: float | None
) -> FloatArray:
    """Held-out decision values of all rows, each by the parameters of its cluster.

    They have the shape (n_rows, n_problems), and are NaN for rows that no fold holds out.
    """
    kept, parts = divided.problem.kept, []
    for cluster, choice in zip(divided.clusters, choices, strict=True):
        if is_late(deadline):
            raise ValueError(
                "max_time: it has passed before the held-out decision values of all clusters were "
                "known; allow more time"
            )
        if len(divided.list_held_out(cluster)):
            region = divided.make_region(cluster)
            found = search(region, choice, None, keep_decisions=True).decision_oof_
            is_known = ~np.isnan(found).any(axis=1)
            parts.append((np.searchsorted(kept, region.problem.kept[is_known]), found[is_known]))
    decisions = np.full((len(kept), parts[0][1].shape[1]), np.nan)
    for rows, values in parts:
        decisions[rows] = values
    return decisions


def is_clearly_better(scores: FloatArray, common: FloatArray) -> bool:
    """Whether scores exceed others of the same folds by `NOISE` standard errors of the difference.

    Scores that are not known are not better, nor is the score of a single fold.
    """
    difference = scores - common
    if len(difference) < 2 or np.isnan(difference).any():
        return False
    error = difference.std(ddof=1) / sqrt(len(difference))
    return bool(difference.mean() > NOISE * error)


def _list_scores(search: Any) -> FloatArray:
    """Scores of the chosen cell of a search in all folds."""
    results, at = search.cv_results_, search.best_index_
    return np.array([results[f"split{f}_test_score"][at] for f in range(search.n_splits_)])
