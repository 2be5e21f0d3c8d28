"""What the one-vs-rest classifiers share: input, and decisions of one function or one a class."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from widemargin.problem import Problem
from widemargin.validation import validate_problem, validate_queries


class RestClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers with one function for two classes, and one for each of more."""

    class_weight: dict[Any, float] | str | None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Class labels: numbers, texts or booleans.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.

        Returns
        -------
        self : estimator
            The fitted classifier.
        """
        self._check_params()
        problem = validate_problem(self, X, y, sample_weight, self.class_weight, precomputed=False)
        self.classes_ = problem.classes
        self._fit(problem)
        self._warn_unless_converged()
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes positive means ``classes_[1]``.
        """
        return self._scores(self._decide(self._check_queries(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of every row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels.
        """
        return self._labels(self.decision_function(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _check_params(self) -> None: ...

    @abstractmethod
    def _fit(self, problem: Problem) -> None:
        """Fit to validated data."""

    @abstractmethod
    def _decide(self, X: Any) -> NDArray[np.float64]:
        """Decision values of checked data, shape (n, n_functions)."""

    @abstractmethod
    def _check_features(self, X: Any) -> None:
        """Refuse features that the kernel is not defined for."""

    @abstractmethod
    def _warn_unless_converged(self) -> None: ...

    def _check_queries(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_queries(self, X)
        self._check_features(X)
        return X

    def _scores(self, decisions: NDArray[np.float64]) -> NDArray[np.float64]:
        return decisions.ravel() if len(self.classes_) == 2 else decisions

    def _labels(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        if scores.ndim == 1:
            return self.classes_[(scores >= 0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]
