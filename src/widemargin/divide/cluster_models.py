"""Models that are made of one kernel expansion per cluster."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.divide.partition import Partition, split_by_group
from widemargin.exact.expansion import Expansion, block_rows, require_finite, resolve_far
from widemargin.kernels import Index, Kernel, Points, Precomputed
from widemargin.parallel import Workers, open_workers

#: Queries for which a committee holds the votes of all its members at a time.
COMMITTEE_QUERIES = 1024


@dataclass(frozen=True)
class Committee:
    """How far each cluster of a `CommitteeModel` is trusted.

    Attributes
    ----------
    slope : ndarray of shape (n_clusters, n_functions)
        Log-odds of a cluster are ``prior + slope * f``.
    prior : ndarray of shape (n_functions,)
        Log-odds in the training data.
    """

    slope: NDArray[np.float64]
    prior: NDArray[np.float64]


@dataclass(frozen=True)
class ClusterParts:
    """Everything that the models of one level are made of.

    Attributes
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
        Constants of each cluster.
    mean_intercept : ndarray of shape (n_functions,)
        Constants for the sum of all clusters.
    partition : Partition or None
        How to find the cluster of a query; None if there is one only, the whole problem. Its sampled
        points are numbered by their row in ``samples``, or by their column in a precomputed kernel.
    samples : ndarray or csr_matrix of shape (m, n_features), or None
        The sampled points of the partition; None for a precomputed kernel.
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


class _Clustered(ABC):
    """Decision functions of clusters on one set of support vectors.

    ``f_cp(x) = sum_{i in c} coef[p, i] k(vectors[i], x) + intercept[c, p]`` for cluster c.
    """

    #: Position of the first support vector among the prepared points.
    _first_vector = 0

    def __init__(self, parts: ClusterParts) -> None:
        self.parts = parts
        self.kernel = parts.kernel

    @property
    def is_given(self) -> bool:
        """Whether queries are rows of a precomputed kernel matrix."""
        return isinstance(self.kernel, Precomputed)

    def decide(self, X: Any, *, max_bytes: int, n_jobs: int | None) -> NDArray[np.float64]:
        """Values of all functions at the rows of ``X``, shape (n, n_functions)."""
        out = np.empty((X.shape[0], len(self.parts.coef)))
        step = block_rows(X.shape[1], max_bytes)
        with open_workers(n_jobs) as workers:
            for start in range(0, X.shape[0], step):
                queries = self.prepare(X[start : start + step])
                self._decide_block(queries, out[start : start + step], workers)
        require_finite(out)
        return out

    def prepare(self, X: Any) -> Points:
        """Queries in the form the kernel wants them."""
        return self.kernel.prepare(X, like=None if self.is_given else self._points)

    @cached_property
    def _points(self) -> Points:
        return self.kernel.prepare(self.parts.vectors)

    @cached_property
    def _members(self) -> list[Index]:
        """Support vectors of each cluster."""
        return split_by_group(self.parts.clusters, len(self.parts.intercept))

    def _decide_cluster(self, c: int, queries: Points, rows: Index) -> NDArray[np.float64]:
        """Values of the functions of one cluster at some queries."""
        out = np.tile(self.parts.intercept[c], (len(rows), 1))
        members = self._members[c]
        if len(members) and len(rows):
            target = queries if self.is_given else self._points
            cols = self.parts.columns[members] if self.is_given else self._first_vector + members
            coef = np.ascontiguousarray(self.parts.coef[:, members].T)
            alone = Workers(1, None)
            self.kernel.accumulate(queries, rows, target, cols, coef, out, alone)
            resolve_far(
                self.kernel, queries, rows, target, cols, coef, self.parts.intercept[c], out, alone
            )
        return out

    @abstractmethod
    def _decide_block(
        self, queries: Points, out: NDArray[np.float64], workers: Workers
    ) -> None: ...


class EarlyModel(_Clustered):
    """Every query is answered by its own cluster: DC-SVM's early prediction, Eq. 11."""

    def __init__(self, parts: ClusterParts) -> None:
        super().__init__(parts)
        self._first_vector = 0 if parts.samples is None else parts.samples.shape[0]

    @cached_property
    def _points(self) -> Points:
        both = [self.parts.samples, self.parts.vectors]
        is_sparse = sparse.issparse(self.parts.vectors)
        return self.kernel.prepare(sparse.vstack(both, "csr") if is_sparse else np.vstack(both))

    @cached_property
    def _samples(self) -> Points:
        return self.kernel.narrow(self.kernel.prepare(self.parts.samples, like=self._points))

    def find_clusters(self, queries: Points, workers: Workers) -> NDArray[np.int32]:
        """Cluster of every query."""
        samples = queries if self.is_given else self._samples
        assert self.parts.partition is not None
        return self.parts.partition.assign(
            self.kernel, self.kernel.narrow(queries, like=samples), np.arange(len(queries)),
            samples, workers,
        )  # fmt: skip

    def _decide_block(self, queries: Points, out: NDArray[np.float64], workers: Workers) -> None:
        rows = split_by_group(self.find_clusters(queries, workers), len(self.parts.intercept))
        work = [len(mine) * len(theirs) for mine, theirs in zip(rows, self._members, strict=True)]
        order = np.argsort(work)[::-1]

        def ask(first: int, last: int) -> None:
            for c in order[first:last]:
                out[rows[c]] = self._decide_cluster(c, queries, rows[c])

        workers.run(len(rows), ask, grain=1, one_by_one=True)


class CommitteeModel(_Clustered):
    """All clusters vote with their log-odds: the Bayesian committee of Tresp (2000).

    If clusters held independent data, the log-odds of a class given all of them would be the sum of
    their log-odds, less the prior's for all but one. A cluster's log-odds are those of the prior plus
    a multiple of its decision value: far from its points it has nothing to say.
    """

    def decide_clusters(
        self, queries: Points, rows: Index, workers: Workers
    ) -> NDArray[np.float64]:
        """Decision values of every cluster, shape (n_clusters, n_rows, n_functions)."""
        votes = np.empty((len(self.parts.intercept), len(rows), len(self.parts.coef)))

        def ask(first: int, last: int) -> None:
            for c in range(first, last):
                votes[c] = self._decide_cluster(c, queries, rows)

        workers.run(len(votes), ask, grain=1)
        return votes

    def _decide_block(self, queries: Points, out: NDArray[np.float64], workers: Workers) -> None:
        committee = self.parts.committee
        assert committee is not None
        everyone = np.arange(len(queries))
        for start in range(0, len(queries), COMMITTEE_QUERIES):
            rows = everyone[start : start + COMMITTEE_QUERIES]
            votes = self.decide_clusters(queries, rows, workers)
            out[rows] = committee.prior + np.einsum("cp,cip->ip", committee.slope, votes)


def make_model(parts: ClusterParts, combine: str) -> Expansion | EarlyModel | CommitteeModel:
    """The predictor: clusters on their own (``"early"``), added up, or as a committee."""
    if parts.partition is None or combine == "naive":
        return Expansion(
            parts.kernel, parts.vectors, parts.columns, parts.coef, parts.mean_intercept
        )
    return EarlyModel(parts) if combine == "early" else CommitteeModel(parts)
