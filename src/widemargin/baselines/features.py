"""Mixin of linear SVMs on explicit features, and the functions that these share."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from widemargin.additive.anchor_model import KernelValues
from widemargin.additive.classifier_base import LinearClassifier
from widemargin.additive.coded_rows import plain_rows
from widemargin.arguments import draw_seed
from widemargin.exact.expansion import Expansion
from widemargin.kernels import Index
from widemargin.parallel import Workers, open_workers, single_blas
from widemargin.problem import Problem

#: Maximum number of values in a block of rows, of the features or of the data.
BLOCK_VALUES = 2**23
#: Number of rows that k-means uses: the first number, or the second for each centre if that is more.
KMEANS_ROWS, ROWS_PER_CENTRE = 20_000, 10
#: Maximum number of k-means iterations, which start from random rows. With 3,000 centres, k-means++
#: would take far longer than the iterations do.
KMEANS_PASSES = 20


class Decisions(Protocol):
    """Model that is linear in some features."""

    def decide(self, X: Any, *, n_jobs: int | None) -> NDArray[np.float64]:
        """Return the decision values of the rows of ``X``, shape (n, n_functions)."""


class FeatureMap(ABC):
    """Function that maps rows of data to feature vectors of a fixed length."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features."""

    @abstractmethod
    def fill(self, X: Any, out: NDArray[Any], workers: Workers) -> None:
        """Write the features of the rows of ``X`` to ``out``."""

    @abstractmethod
    def make_model(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> Decisions:
        """Return the model with the given coefficients of the features."""


class KernelMap(KernelValues, FeatureMap):
    """Kernel values with given vectors as features."""

    def fill(self, X: Any, out: NDArray[Any], workers: Workers) -> None:
        out[:] = self.compute(X, workers)

    def make_model(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> Expansion:
        return Expansion(self.kernel, self.vectors, np.arange(self.width), coef, intercept)


class FeaturesMixin(LinearClassifier):
    """A linear SVM on explicit features and a constant feature of one, as LIBLINEAR fits it."""

    _model: Decisions

    def expand(self, X: Any) -> NDArray[Any]:
        """Compute the features that the decision function is linear in, without the constant one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        features : ndarray of shape (n_samples, n_expanded)
            ``decision = features @ coef_.T + intercept_``.
        """
        X = self._check_queries(X)
        return compute_features(self._map, X, np.float64, self.n_jobs)[:, :-1]

    @abstractmethod
    def _choose_map(self, problem: Problem, seed: int) -> FeatureMap:
        """Choose the features for these data."""

    def _fit(self, problem: Problem) -> None:
        deadline = self._deadline()
        self._map = self._choose_map(problem, draw_seed(self.random_state))
        numbers = compute_features(self._map, problem.X, self._dtype(problem), self.n_jobs)
        norms = np.einsum("ij,ij->i", numbers, numbers).astype(np.float64)
        result = self._descend(problem, plain_rows(numbers, None), norms, deadline)
        self.coef_ = result.coef[:, :-1].astype(np.float64)
        self.intercept_ = result.coef[:, -1].astype(np.float64)
        self._model = self._map.make_model(self.coef_, self.intercept_)


def compute_features(features: FeatureMap, X: Any, dtype: type, n_jobs: int | None) -> NDArray[Any]:
    """Return the features of all rows, followed by a constant feature of one."""
    numbers = np.empty((X.shape[0], features.width + 1), dtype)
    with open_workers(n_jobs) as workers:
        for rows in split_rows(X, features.width):
            features.fill(X[rows], numbers[rows, :-1], workers)
    numbers[:, -1] = 1.0
    return numbers


def split_rows(X: Any, width: int) -> Iterator[slice]:
    """Yield blocks of rows whose features, and whose data as dense rows, fit `BLOCK_VALUES`."""
    step = max(1, BLOCK_VALUES // max(width, X.shape[1]))
    return (slice(start, start + step) for start in range(0, X.shape[0], step))


def choose_centres(problem: Problem, n_centres: int, seed: int) -> Any:
    """Return the k-means centres of the rows, or the distinct rows if there are no more of them.

    Equal rows are merged into one and their weights are added, so that a row of weight two counts like
    two rows. If there are many rows, k-means uses a random sample.
    """
    rng = np.random.default_rng(seed)
    rows, weights = merge_rows(problem.X, problem.sample_weights, rng)
    if len(rows) <= n_centres:
        return problem.X[rows]
    drawn = rng.permutation(len(rows))[: max(KMEANS_ROWS, ROWS_PER_CENTRE * n_centres)]
    kmeans = KMeans(n_centres, init="random", n_init=1, max_iter=KMEANS_PASSES, random_state=seed)
    # With several threads the order of additions varies; with one thread, fits are repeatable. The
    # limit of OpenMP holds for the calling thread only. That of BLAS holds for the whole process, so
    # `single_blas` is shared with other fits.
    with single_blas(), threadpool_limits(limits=1, user_api="openmp"):
        kmeans.fit(problem.X[rows[drawn]], sample_weight=weights[drawn])
    return kmeans.cluster_centers_


def merge_rows(
    X: Any, weights: NDArray[np.float64], rng: np.random.Generator
) -> tuple[Index, NDArray[np.float64]]:
    """Return the first row of each group of equal rows, and the weight of the group.

    Rows count as equal if their scalar products with a random vector are. The order of the groups does
    not depend on the order of the rows.
    """
    products = multiply_rows(X, rng.standard_normal(X.shape[1]))
    _, first, group = np.unique(products, return_index=True, return_inverse=True)
    return first, np.bincount(group, weights).astype(np.float64)


def multiply_rows(X: Any, direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the product of each row with a vector, bitwise the same for equal rows.

    Products with sparse matrices have this property; those with dense matrices do not.
    """
    if sparse.issparse(X):
        return np.asarray(X @ direction)
    parts = [sparse.csr_matrix(X[rows]) @ direction for rows in split_rows(X, 1)]
    return np.concatenate(parts)
