"""Models of a level of DC-SVM, which has one kernel expansion for each cluster.

Three models combine the clusters (DC-SVM Section 4 and Table 1): the sum of all (Eq. 10), early
prediction by the cluster of the query (Eq. 11), and a Bayesian committee (Tresp, 2000).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.divide.partition import CHUNK, Partition, split_by_group
from widemargin.exact.expansion import Expansion, block_rows, require_finite, resolve_far
from widemargin.kernels import Index, Kernel, Points, Precomputed
from widemargin.parallel import Workers, open_workers

#: Queries for which a committee holds the decision values of all clusters at a time.
COMMITTEE_QUERIES = 1024
#: Squared norm of points, as the kernel has them, beyond which sums of float32 do not tell ties from
#: rounding: an exponent of so much is rounded by a millionth.
ROUTE_NORM = 10.0
#: Power of the nearness of a cluster in its weight. A larger one favours the nearest cluster, which is
#: better for narrow kernels and worse for wide ones.
WEIGHT_POWER = 4
#: At most one cluster in so many decides about a query. More would take as long as a model without
#: clusters, because the clusters of a level together have more support vectors.
NEAREST_SHARE = 4


@dataclass(frozen=True)
class Committee:
    """Calibration of a `CommitteeModel`; see `widemargin.divide.committee`.

    Attributes
    ----------
    slope : ndarray of shape (n_clusters, n_functions)
        The log-odds of a cluster with decision value f are ``prior + slope * f``.
    prior : ndarray of shape (n_functions,)
        Log-odds of the positive class in the training data.
    """

    slope: NDArray[np.float64]
    prior: NDArray[np.float64]


@dataclass(frozen=True)
class ClusterParts:
    """Arrays from which the models of one level are made.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    vectors : ndarray or csr_matrix of shape (n_vectors, n_features), or None
        Support vectors; None for a precomputed kernel.
    columns : ndarray of shape (n_vectors,)
        Training row of each support vector, which is its column in a precomputed kernel matrix.
    clusters : ndarray of shape (n_vectors,)
        Cluster of each support vector.
    coef : ndarray of shape (n_functions, n_vectors)
        Signed dual coefficients.
    intercept : ndarray of shape (n_clusters, n_functions)
        Intercepts of each cluster.
    mean_intercept : ndarray of shape (n_functions,)
        Intercepts of the sum of all clusters.
    partition : Partition or None
        Finds the cluster of a query; None for the whole problem. Its sampled points are rows of
        ``samples``, or columns of a precomputed kernel matrix.
    samples : ndarray or csr_matrix of shape (m, n_features), or None
        The sampled points of the partition; None for a precomputed kernel.
    committee : Committee or None
        Calibration, for a committee only.
    background : Expansion or None
        The model to which early prediction adds that of a cluster.
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
    background: Expansion | None = None

    def join(
        self, clusters: NDArray[np.int32], columns: Index, coef: NDArray[np.float64], vectors: Any
    ) -> "ClusterParts":
        """Return these parts with more support vectors, which are points that joined other clusters.

        The arguments are as the attributes.
        """
        return replace(
            self,
            vectors=None if self.vectors is None else stack_rows(self.vectors, vectors),
            columns=np.concatenate([self.columns, columns]),
            clusters=np.concatenate([self.clusters, clusters]),
            coef=np.concatenate([self.coef, coef], axis=1),
        )


class _ClusterModel(ABC):
    """Base of the models that evaluate clusters separately.

    The decision function p of cluster c is
    ``f_cp(x) = sum_{i in c} coef[p, i] k(vectors[i], x) + intercept[c, p]``.
    """

    #: Position of the first support vector in `_points`.
    _first_vector = 0

    def __init__(self, parts: ClusterParts) -> None:
        self.parts = parts
        self.kernel = parts.kernel

    @property
    def _values_per_query(self) -> int:
        """Number of decision values that are held for each query beside those that are returned."""
        return 0

    @property
    def is_given(self) -> bool:
        """Whether queries are rows of a precomputed kernel matrix."""
        return isinstance(self.kernel, Precomputed)

    def decide(self, X: Any, *, max_bytes: int, n_jobs: int | None) -> NDArray[np.float64]:
        """Return the decision values at the rows of ``X``, of shape (n, n_functions)."""
        out = np.zeros((X.shape[0], len(self.parts.coef)))
        step = block_rows(X.shape[1] + self._values_per_query, max_bytes)
        with open_workers(n_jobs) as workers:
            for start in range(0, X.shape[0], step):
                queries = self.prepare(X[start : start + step])
                self._decide_block(queries, out[start : start + step], workers)
        require_finite(out)
        return out

    def prepare(self, X: Any) -> Points:
        """Prepare queries for the kernel."""
        return self.kernel.prepare(X, like=None if self.is_given else self._points)

    @cached_property
    def _points(self) -> Points:
        return self.kernel.prepare(self.parts.vectors)

    @cached_property
    def _members(self) -> list[Index]:
        """Support vectors of each cluster."""
        return split_by_group(self.parts.clusters, len(self.parts.intercept))

    def _decide_cluster(self, c: int, queries: Points, rows: Index) -> NDArray[np.float64]:
        """Return the decision values of one cluster at some queries: a term of DC-SVM Eq. 11."""
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
    def _decide_block(self, queries: Points, out: NDArray[np.float64], workers: Workers) -> None:
        """Write the decision values at prepared queries to ``out``, which holds zeros."""


class EarlyModel(_ClusterModel):
    """Early prediction (DC-SVM Eq. 11): the cluster of a query decides alone.

    This is the decision function of DC-SVM Lemma 1, whose kernel is zero between clusters. Two
    additions are beyond the paper: the ``n_nearest`` clusters nearest to a query may decide together,
    with weights (`weigh_clusters`), and their decisions are added to that of the background.
    """

    def __init__(self, parts: ClusterParts, n_nearest: int = 1) -> None:
        super().__init__(parts)
        self.n_nearest = max(1, min(n_nearest, len(parts.intercept) // NEAREST_SHARE))
        self._first_vector = 0 if parts.samples is None else parts.samples.shape[0]

    def decide(self, X: Any, *, max_bytes: int, n_jobs: int | None) -> NDArray[np.float64]:
        """Return the decision values at the rows of ``X``, of shape (n, n_functions)."""
        out = super().decide(X, max_bytes=max_bytes, n_jobs=n_jobs)
        background = self.parts.background
        if background is None:
            return out

        def add_background(first: int, last: int) -> None:
            for start in range(first * CHUNK, min(last * CHUNK, len(out)), CHUNK):
                part = slice(start, start + CHUNK)
                out[part] += background.decide(X[part], max_bytes=max_bytes, n_jobs=1)

        # Chunks of a fixed size, so that rounding does not depend on the number of threads.
        with open_workers(n_jobs) as workers:
            workers.run(-(-len(out) // CHUNK), add_background, grain=1)
        return out

    @cached_property
    def _points(self) -> Points:
        return self.kernel.prepare(stack_rows(self.parts.samples, self.parts.vectors))

    @cached_property
    def _samples(self) -> Points:
        return self._suit(self.kernel.prepare(self.parts.samples, like=self._points))

    def _suit(self, points: Points, like: Points | None = None) -> Points:
        """Return points as precise as routing needs them.

        Which cluster is nearest, float32 tells well enough, unless the kernel is so narrow that its
        rounding is larger than what counts as equally near. The weights of several clusters follow
        small differences of distances, in which the rounding would show. It depends on the points
        beside a point.
        """
        if self._routes_in_float64:
            return self.kernel.widen(points)
        return self.kernel.narrow(points, like)

    @cached_property
    def _routes_in_float64(self) -> bool:
        is_narrow = not self.is_given and self._points.norms.max(initial=0.0) > ROUTE_NORM
        return self.n_nearest > 1 or bool(is_narrow)

    def find_clusters(self, queries: Points, workers: Workers) -> NDArray[np.int32]:
        """Return the cluster of every query: the one with the nearest centre, pi(x) in Eq. 11."""
        partition, narrowed, samples = self._route(queries)
        return partition.assign(self.kernel, narrowed, np.arange(len(queries)), samples, workers)

    def rank_clusters(
        self, queries: Points, workers: Workers
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return the clusters that decide about every query, and their weights.

        Both have a row for each rank and a column for each query.
        """
        partition, narrowed, samples = self._route(queries)
        nearest, distances = partition.rank(
            self.kernel, narrowed, np.arange(len(queries)), samples, self.n_nearest + 1, workers
        )
        weights = weigh_clusters(distances)
        return nearest[: len(weights)], weights

    def _route(self, queries: Points) -> tuple[Partition, Points, Points]:
        """Return the partition, and queries and sampled points as precise as routing needs them."""
        samples = queries if self.is_given else self._samples
        assert self.parts.partition is not None
        return self.parts.partition, self._suit(queries, like=samples), samples

    @property
    def _values_per_query(self) -> int:
        return self.n_nearest * len(self.parts.coef)

    def _decide_block(self, queries: Points, out: NDArray[np.float64], workers: Workers) -> None:
        if self.n_nearest == 1:
            nearest = self.find_clusters(queries, workers)[None]
            weights = np.ones(nearest.shape)
        else:
            nearest, weights = self.rank_clusters(queries, workers)
        values = self._decide_nearest(nearest, queries, workers)
        # Rank by rank, so that rounding does not depend on the number of threads.
        for weight, mine in zip(weights, values, strict=True):
            mine *= weight[:, None]
            out += mine

    def _decide_nearest(
        self, nearest: NDArray[np.int32], queries: Points, workers: Workers
    ) -> NDArray[np.float64]:
        """Return the decision values of ``nearest[rank, q]`` at query q, (n_ranks, n, n_functions).

        Each cluster is evaluated once, at all queries that have it among their nearest clusters.
        """
        values = np.empty((nearest.size, len(self.parts.coef)))
        places = split_by_group(nearest.ravel(), len(self.parts.intercept))
        work = [len(mine) * len(theirs) for mine, theirs in zip(places, self._members, strict=True)]
        order = np.argsort(work)[::-1]

        def decide(first: int, last: int) -> None:
            for c in order[first:last]:
                # DC-SVM Eq. 11: only support vectors of the cluster V_pi(x) count.
                rows = places[c] % nearest.shape[1]
                values[places[c]] = self._decide_cluster(c, queries, rows)

        workers.run(len(places), decide, grain=1, one_by_one=True)
        return values.reshape(*nearest.shape, -1)


def stack_rows(above: Any, below: Any) -> Any:
    """Return the rows of two matrices, both dense or both sparse, as one matrix."""
    both = [above, below]
    return sparse.vstack(both, "csr") if sparse.issparse(below) else np.vstack(both)


def weigh_clusters(distances: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the weights of the nearest clusters of every query.

    Parameters
    ----------
    distances : ndarray of shape (n_ranks, n_queries)
        Distances of the nearest clusters in ascending order, at least one.

    Returns
    -------
    weights : ndarray of shape (max(n_ranks - 1, 1), n_queries)
        They sum to one, and fall smoothly from the nearest cluster to zero at the last of
        ``distances``, so that decisions do not jump where other clusters become the nearest.
    """
    if len(distances) == 1:
        return np.ones(distances.shape)
    first, last = distances[0].astype(np.float64), distances[-1].astype(np.float64)
    span = last - first
    weights = ((last - distances[:-1]) / np.where(span > 0.0, span, 1.0)) ** WEIGHT_POWER
    # Where all are equally far, the first decides.
    weights[0, span <= 0.0] = 1.0
    return weights / weights.sum(axis=0)


class CommitteeModel(_ClusterModel):
    """Bayesian committee machine (Tresp, 2000): the log-odds of all clusters are combined.

    If the clusters were independent data, the log-odds of the positive class given K clusters would
    be the sum of their log-odds minus K - 1 times the prior log-odds. Here the log-odds of a cluster
    are ``prior + slope * f``, so the sum is ``prior + sum_c slope_c f_c(x)``. Far from the points of
    a cluster, f is zero and its log-odds are the prior.
    """

    def decide_clusters(
        self, queries: Points, rows: Index, workers: Workers
    ) -> NDArray[np.float64]:
        """Return the decision values of all clusters, of shape (n_clusters, n_rows, n_functions)."""
        values = np.empty((len(self.parts.intercept), len(rows), len(self.parts.coef)))

        def decide(first: int, last: int) -> None:
            for c in range(first, last):
                values[c] = self._decide_cluster(c, queries, rows)

        workers.run(len(values), decide, grain=1)
        return values

    def _decide_block(self, queries: Points, out: NDArray[np.float64], workers: Workers) -> None:
        committee = self.parts.committee
        assert committee is not None
        all_rows = np.arange(len(queries))
        for start in range(0, len(queries), COMMITTEE_QUERIES):
            rows = all_rows[start : start + COMMITTEE_QUERIES]
            values = self.decide_clusters(queries, rows, workers)
            out[rows] = committee.prior + np.einsum("cp,cip->ip", committee.slope, values)


def make_model(
    parts: ClusterParts, combine: str, n_nearest: int = 1
) -> Expansion | EarlyModel | CommitteeModel:
    """Make the model that combines the clusters of a level.

    Parameters
    ----------
    parts : ClusterParts
        The level.
    combine : {"early", "naive", "bcm"}
        Early prediction, the sum of all clusters, or a Bayesian committee. The whole problem is one
        kernel expansion in each case.
    n_nearest : int
        Number of clusters that decide together in early prediction, at most a quarter of all.
    """
    if parts.partition is None or combine == "naive":
        # DC-SVM Eq. 10: the sum over the support vectors of all clusters.
        return Expansion(
            parts.kernel, parts.vectors, parts.columns, parts.coef, parts.mean_intercept
        )
    return EarlyModel(parts, n_nearest) if combine == "early" else CommitteeModel(parts)
