"""Two-step kernel k-means as a clusterer for scikit-learn."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_integer, draw_seed
from widemargin.divide.assignment import assign_rows
from widemargin.divide.kernel_kmeans import N_STARTS, Sampling, divide_points
from widemargin.divide.partition import Partition, split_by_group
from widemargin.doc_link import DocLinkMixin
from widemargin.kernel_arguments import check_kernel_range, check_nonnegative, resolve_kernel
from widemargin.kernels import Kernel, Points, Precomputed, is_precomputed, needs_nonnegative
from widemargin.memory import parse_bytes
from widemargin.parallel import Workers, open_workers
from widemargin.transaction import all_or_nothing
from widemargin.validation import validate_queries, validate_rows_alone


class KernelKMeans(DocLinkMixin, ClusterMixin, BaseEstimator):
    """Kernel k-means in two steps, for data of any size.

    Kernel k-means runs on a sample of the rows: it minimises the sum of the squared distances to the
    means of the clusters in the feature space of the kernel. Then every row joins the cluster with
    the nearest mean. This is the divide step of DC-SVM, and the partition of
    ``DCSVC(partition="kmeans")``.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters. There are fewer if fewer of the sampled rows are distinct.
    kernel, gamma, degree, coef0
        As in `KernelSVC`.
    sample_size : int, default=1000
        Number of rows on which k-means runs. It is raised to ``n_clusters``, and reduced if
        ``memory`` cannot hold their kernel matrix.
    n_init : int, default=3
        Number of starts with k-means++ seeds; the best one is kept.
    memory : int or str, default="auto"
        Bytes, or text such as "2 GB", that bound the kernel matrix of the sampled rows.
    n_jobs : int or None, default=None
        Number of threads; None stands for all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=0
        Seed of the sample and of the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of every training row.
    inertia_ : float
        Sum of the squared distances of all training rows to the means of their clusters.
    sample_ : ndarray of shape (n_sampled,)
        The sampled rows, by cluster.
    kernel_ : Kernel
        The kernel with its parameters.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon: A Divide-and-Conquer Solver for Kernel Support Vector
    Machines. ICML 2014, Section 3.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from widemargin.divide import KernelKMeans
    >>> X, _ = make_blobs(5000, centers=3, cluster_std=0.5, random_state=0)
    >>> model = KernelKMeans(3, gamma=0.1).fit(X)
    >>> len(set(model.labels_)), bool((model.predict(X) == model.labels_).all())
    (3, True)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        sample_size: int = 1000,
        n_init: int = N_STARTS,
        memory: int | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.sample_size = sample_size
        self.n_init = n_init
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; (n_samples, n_samples) with ``kernel="precomputed"``.
        y : ignored
            Not used, present for consistency.

        Returns
        -------
        self : KernelKMeans
            The fitted clusterer.
        """
        self._check_params()
        problem = validate_rows_alone(self, X, None, precomputed=is_precomputed(self.kernel))
        rows = problem.X
        if rows.shape[0] < self.n_clusters:
            raise ValueError(
                f"n_clusters: {self.n_clusters} clusters need as many rows, but n_samples="
                f"{rows.shape[0]}; ask for fewer clusters"
            )
        kernel = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        check_nonnegative(kernel, rows, getattr(self, "feature_names_in_", None))
        points = kernel.prepare(rows)
        check_kernel_range(kernel, kernel.diag(points))
        sampling = Sampling(
            np.arange(len(points)), self.sample_size, parse_bytes(self.memory),
            np.random.default_rng(draw_seed(self.random_state)), is_plain=True, n_starts=self.n_init,
        )  # fmt: skip
        with open_workers(self.n_jobs) as workers:
            partition, labels = divide_points(kernel, points, self.n_clusters, sampling, workers)
            self.inertia_ = sum_distances(kernel, points, partition, labels, workers)
        self.kernel_, self.labels_, self.sample_ = kernel, labels, partition.sample
        self._samples, self._partition = None, partition
        if not isinstance(kernel, Precomputed):
            self._samples = rows[partition.sample]
            self._partition = replace(partition, sample=np.arange(len(partition.sample)))
        return self

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Find the cluster with the nearest mean.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; the kernel with all training rows if the kernel is precomputed.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of every row.
        """
        check_is_fitted(self)
        X = validate_queries(self, X)
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))
        return assign_rows(self.kernel_, X, self._partition, self._samples, self.n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.positive_only = needs_nonnegative(self.kernel)
        return tags

    def _check_params(self) -> None:
        check_integer("n_clusters", self.n_clusters, low=1)
        check_integer("sample_size", self.sample_size, low=1)
        check_integer("n_init", self.n_init, low=1)


def sum_distances(
    kernel: Kernel,
    points: Points,
    partition: Partition,
    labels: NDArray[np.int32],
    workers: Workers,
) -> float:
    """Return the sum of the squared distances of all points to the means of their clusters.

    ``||phi(x) - m||^2 = k(x, x) - 2 <phi(x), m> + ||m||^2``, where ``<phi(x), m>`` is the mean of
    ``k(x, x_j)`` over the sampled points of the cluster.
    """
    total = float(kernel.diag(points).sum())
    for c, rows in enumerate(split_by_group(labels, partition.n_clusters)):
        sample = partition.sample[partition.bounds[c] : partition.bounds[c + 1]]
        products = np.zeros((len(rows), 1))
        share = np.full((len(sample), 1), 1.0 / len(sample))
        kernel.accumulate(points, rows, points, sample, share, products, workers)
        total += float(len(rows) * partition.squared_norms[c] - 2.0 * products.sum())
    return total
