"""Models that are made of one kernel expansion per cluster."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.kernels import Index, Kernel, Points, Precomputed
from widemargin.models.expansion import Expansion, block_rows, resolve_far
from widemargin.parallel import Workers, open_workers
from widemargin.solvers.partition import Partition

#: Queries for which a committee holds the votes of all its members at a time.
COMMITTEE_QUERIES = 1024


class _Clustered(ABC):
    """Decision functions of clusters on one set of support vectors.

    ``f_cp(x) = sum_{i in c} coef[p, i] k(vectors[i], x) + intercept[c, p]`` for cluster c.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    vectors : ndarray or csr_matrix of shape (n_vectors, n_features), or None
        Support vectors; None for a precomputed kernel.
    columns : ndarray of shape (n_vectors,)
        Training row of each support vector, its column in a precomputed kernel.
    clusters : ndarray of shape (n_vectors,)
        Cluster of each support vector.
    coef : ndarray of shape (n_functions, n_vectors)
        Signed dual coefficients.
    intercept : ndarray of shape (n_clusters, n_functions)
        Constants.
    """

    def __init__(
        self,
        kernel: Kernel,
        vectors: Any,
        columns: Index,
        clusters: NDArray[np.int32],
        coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
    ) -> None:
        self.kernel = kernel
        self.vectors = vectors
        self.columns = columns
        self.clusters = clusters
        self.coef = coef
        self.intercept = intercept

    @property
    def is_given(self) -> bool:
        """Whether queries are rows of a precomputed kernel matrix."""
        return isinstance(self.kernel, Precomputed)

    def decide(self, X: Any, *, max_bytes: int, n_jobs: int | None) -> NDArray[np.float64]:
        """Values of all functions at the rows of ``X``, shape (n, n_functions)."""
        out = np.empty((X.shape[0], len(self.coef)))
        step = block_rows(X.shape[1], max_bytes)
        with open_workers(n_jobs) as workers:
            for start in range(0, X.shape[0], step):
                queries = self.prepare(X[start : start + step])
                self._decide_block(queries, out[start : start + step], workers)
        return out

    def prepare(self, X: Any) -> Points:
        """Queries in the form the kernel wants them."""
        return self.kernel.prepare(X, like=None if self.is_given else self._points)

    @cached_property
    def _points(self) -> Points:
        return self.kernel.prepare(self.vectors)

    @cached_property
    def _members(self) -> list[Index]:
        """Support vectors of each cluster."""
        order = np.argsort(self.clusters, kind="stable")
        ends = np.cumsum(np.bincount(self.clusters, minlength=len(self.intercept)))
        return np.split(order, ends[:-1])

    def _ask_cluster(self, c: int, queries: Points, rows: Index) -> NDArray[np.float64]:
        """Values of the functions of one cluster at some queries."""
        out = np.tile(self.intercept[c], (len(rows), 1))
        members = self._members[c]
        if len(members) and len(rows):
            target = queries if self.is_given else self._points
            cols = self.columns[members] if self.is_given else self._first_vector + members
            coef = np.ascontiguousarray(self.coef[:, members].T)
            alone = Workers(1, None)
            self.kernel.accumulate(queries, rows, target, cols, coef, out, alone)
            resolve_far(
                self.kernel, queries, rows, target, cols, coef, self.intercept[c], out, alone
            )
        return out

    #: Position of the first support vector among the prepared points.
    _first_vector = 0

    @abstractmethod
    def _decide_block(
        self, queries: Points, out: NDArray[np.float64], workers: Workers
    ) -> None: ...


class EarlyModel(_Clustered):
    """Every query is answered by its own cluster: DC-SVM's early prediction, Eq. 11.

    Parameters
    ----------
    kernel, vectors, columns, clusters, coef, intercept
        As for all models of clusters.
    partition : Partition
        How to find the cluster of a query. Its sampled points are numbered by their row in
        ``samples``, or by their column in a precomputed kernel.
    samples : ndarray or csr_matrix of shape (m, n_features), or None
        The sampled points of the partition; None for a precomputed kernel.
    """

    def __init__(
        self,
        kernel: Kernel,
        vectors: Any,
        columns: Index,
        clusters: NDArray[np.int32],
        coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        partition: Partition,
        samples: Any,
    ) -> None:
        super().__init__(kernel, vectors, columns, clusters, coef, intercept)
        self.partition = partition
        self.samples = samples
        self._first_vector = 0 if samples is None else samples.shape[0]

    @cached_property
    def _points(self) -> Points:
        both = [self.samples, self.vectors]
        is_sparse = sparse.issparse(self.vectors)
        return self.kernel.prepare(sparse.vstack(both, "csr") if is_sparse else np.vstack(both))

    def find_clusters(self, queries: Points, workers: Workers) -> NDArray[np.int32]:
        """Cluster of every query."""
        target = queries if self.is_given else self._points
        return self.partition.assign(self.kernel, queries, np.arange(len(queries)), target, workers)

    def _decide_block(self, queries: Points, out: NDArray[np.float64], workers: Workers) -> None:
        clusters = self.find_clusters(queries, workers)
        order = np.argsort(clusters, kind="stable")
        ends = np.cumsum(np.bincount(clusters, minlength=len(self.intercept)))
        rows = np.split(order, ends[:-1])

        def ask(first: int, last: int) -> None:
            for c in range(first, last):
                out[rows[c]] = self._ask_cluster(c, queries, rows[c])

        workers.run(len(rows), ask, grain=1)


class CommitteeModel(_Clustered):
    """All clusters vote with their log-odds: the Bayesian committee of Tresp (2000).

    If clusters held independent data, the log-odds of a class given all of them would be the sum of
    their log-odds, less the prior's for all but one. A cluster's log-odds are those of the prior plus
    a multiple of its decision value: far from its points it has nothing to say.

    Parameters
    ----------
    kernel, vectors, columns, clusters, coef, intercept
        As for all models of clusters.
    slope : ndarray of shape (n_clusters, n_functions)
        Log-odds of a cluster are ``prior + slope * f``.
    prior : ndarray of shape (n_functions,)
        Log-odds in the training data.
    """

    def __init__(
        self,
        kernel: Kernel,
        vectors: Any,
        columns: Index,
        clusters: NDArray[np.int32],
        coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
        slope: NDArray[np.float64],
        prior: NDArray[np.float64],
    ) -> None:
        super().__init__(kernel, vectors, columns, clusters, coef, intercept)
        self.slope, self.prior = slope, prior

    def ask_all(self, queries: Points, rows: Index, workers: Workers) -> NDArray[np.float64]:
        """Decision values of every cluster, shape (n_clusters, n_rows, n_functions)."""
        votes = np.empty((len(self.intercept), len(rows), len(self.coef)))

        def ask(first: int, last: int) -> None:
            for c in range(first, last):
                votes[c] = self._ask_cluster(c, queries, rows)

        workers.run(len(votes), ask, grain=1)
        return votes

    def _decide_block(self, queries: Points, out: NDArray[np.float64], workers: Workers) -> None:
        everyone = np.arange(len(queries))
        for start in range(0, len(queries), COMMITTEE_QUERIES):
            rows = everyone[start : start + COMMITTEE_QUERIES]
            votes = self.ask_all(queries, rows, workers)
            out[rows] = self.prior + np.einsum("cp,cip->ip", self.slope, votes)


@dataclass(frozen=True)
class Committee:
    """How far each cluster of a `CommitteeModel` is trusted; see there."""

    slope: NDArray[np.float64]
    prior: NDArray[np.float64]


@dataclass(frozen=True)
class ClusterParts:
    """Everything that the models of one level are made of.

    Attributes
    ----------
    kernel, vectors, columns, clusters, coef, intercept
        As for all models of clusters.
    mean_intercept : ndarray of shape (n_functions,)
        Constants for the sum of all clusters.
    partition : Partition or None
        The clusters; None if there is one only, the whole problem.
    samples : ndarray, csr_matrix or None
        The sampled points of the partition.
    committee : Committee or None
        For a committee only.
    """

    kernel: Kernel
    vectors: Any
    columns: Index
    clusters: NDArray[np.int32]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    mean_intercept: NDArray[np.float64]
    partition: Partition | None
    samples: Any
    committee: Committee | None

    def make_model(self, combine: str) -> Expansion | EarlyModel | CommitteeModel:
        """The predictor: clusters on their own (``"early"``), added up, or as a committee."""
        if self.partition is None or combine == "naive":
            return Expansion(
                self.kernel, self.vectors, self.columns, self.coef, self.mean_intercept
            )
        common = (
            self.kernel, self.vectors, self.columns, self.clusters, self.coef, self.intercept,
        )  # fmt: skip
        if combine == "early":
            return EarlyModel(*common, self.partition, self.samples)
        assert self.committee is not None
        return CommitteeModel(*common, self.committee.slope, self.committee.prior)
