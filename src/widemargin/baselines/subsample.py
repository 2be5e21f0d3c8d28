"""LIBSVM trained on a random sample of the rows."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import draw_seed
from widemargin.doc_link import DocLinkMixin
from widemargin.kernels import Index
from widemargin.projected.classifier_base import count_rows, is_count_or_share
from widemargin.transaction import all_or_nothing
from widemargin.validation import validate_problem, validate_queries


class SubsampleSVC(DocLinkMixin, ClassifierMixin, BaseEstimator):
    """Kernel SVM trained by LIBSVM on a random sample of the training rows.

    The sample is stratified: every class has its share of the sample, and at least one row. There
    are no sample weights, because a row is in the sample once or not at all.

    Parameters
    ----------
    n_rows : int or float, default=0.1
        Number of rows of the sample, or its share of all rows. The sample has all rows if there are
        fewer.
    C, kernel, gamma, degree, coef0, class_weight, tol, cache_size, max_iter
        As for :class:`sklearn.svm.SVC`. ``gamma="scale"`` and ``class_weight="balanced"`` are computed
        from the sample. ``"precomputed"`` kernels are refused.
    random_state : int, RandomState or None, default=0
        Seed of the draw of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    indices_ : ndarray of shape (n_drawn,)
        Training rows that were drawn, sorted.
    svc_ : SVC
        The classifier that was fitted to these rows.
    n_iter_ : ndarray of shape (n_problems,)
        Number of iterations for each binary problem.

    References
    ----------
    C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", ACM Transactions on
    Intelligent Systems and Technology 2, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.baselines import SubsampleSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SubsampleSVC(n_rows=0.3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.85
    True
    """

    def __init__(
        self,
        *,
        n_rows: int | float = 0.1,
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-3,
        cache_size: float = 200.0,
        max_iter: int = -1,
        random_state: Any = 0,
    ) -> None:
        self.n_rows = n_rows
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the SVM model according to the given training data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Class labels: numbers, texts or booleans.

        Returns
        -------
        self : estimator
            The fitted classifier.
        """
        self._check_params()
        problem = validate_problem(self, X, y, None, self.class_weight, precomputed=False)
        n_drawn = min(count_rows(self.n_rows, len(problem.labels)), len(problem.labels))
        self.indices_ = draw_stratified(problem.labels, n_drawn, draw_seed(self.random_state))
        self.svc_ = SVC(
            C=self.C, kernel=self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0,
            class_weight=self.class_weight, tol=self.tol, cache_size=self.cache_size,
            max_iter=self.max_iter,
        )  # fmt: skip
        self._is_sparse = sparse.issparse(problem.X)
        drawn = self._convert(problem.X[self.indices_])
        self.svc_.fit(drawn, problem.classes[problem.labels[self.indices_]])
        self.classes_ = problem.classes
        self.n_iter_ = self.svc_.n_iter_
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Compute the decision values, as :class:`sklearn.svm.SVC` does.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes positive means ``classes_[1]``.
        """
        check_is_fitted(self)
        return np.asarray(self.svc_.decision_function(self._convert(validate_queries(self, X))))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of every row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels.
        """
        check_is_fitted(self)
        return np.asarray(self.svc_.predict(self._convert(validate_queries(self, X))))

    def _convert(self, X: Any) -> Any:
        """Return rows in the format of the training data, with indices that LIBSVM accepts."""
        if not self._is_sparse:
            return X.toarray() if sparse.issparse(X) else X
        X = sparse.csr_matrix(X)
        # This constructor chooses the smallest index type that fits.
        return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)

    def _check_params(self) -> None:
        if not is_count_or_share(self.n_rows):
            raise ValueError(
                f"n_rows: {self.n_rows!r} is not allowed; give a positive number of rows, or a share "
                "of them between 0 and 1"
            )
        if self.kernel == "precomputed":
            raise ValueError(
                "kernel: a sample of the rows needs a kernel that can be computed, not 'precomputed'; "
                "give the name of a kernel or a callable"
            )


def draw_stratified(labels: NDArray[np.intp], n_drawn: int, seed: int) -> Index:
    """Draw rows from every class in proportion to its size, at least one; sorted.

    Shares that are not whole are rounded down, and the rows left go to those with most cut off.
    With classes of less than one row there are more than ``n_drawn``.
    """
    counts = np.bincount(labels)
    quotas = counts * (n_drawn / len(labels))
    sizes = np.maximum(np.floor(quotas + 1e-9).astype(np.intp), 1)
    n_left = max(n_drawn - int(sizes.sum()), 0)
    sizes[np.argsort(sizes - quotas, kind="stable")[:n_left]] += 1
    rng = np.random.default_rng(seed)
    drawn = [
        rng.choice(np.flatnonzero(labels == c), size, replace=False) for c, size in enumerate(sizes)
    ]
    return np.sort(np.concatenate(drawn))
