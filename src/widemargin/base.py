"""The base of the one-vs-rest classifiers: validation of input, `fit`, and decisions.

`FunctionsMixin` is the part that regressions on the same representations have too.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_number
from widemargin.callback_support import CallbackSupportMixin
from widemargin.doc_link import DocLinkMixin
from widemargin.parallel import count_threads
from widemargin.parameters import check_choices
from widemargin.problem import Problem
from widemargin.transaction import all_or_nothing
from widemargin.validation import (
    FLOAT_ROWS,
    Layout,
    validate_partial,
    validate_problem,
    validate_queries,
)


class FunctionsMixin(CallbackSupportMixin, DocLinkMixin):
    """A model of a few functions of the features: parameters, features and values of the functions."""

    #: A number, or a word where a class takes one.
    C: Any
    n_jobs: int | None
    n_features_in_: int

    _model: Any
    _layout = FLOAT_ROWS

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self._needs_nonnegative()
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_model")

    def _check_params(self) -> None:
        check_choices(self)
        self._check_cost()
        count_threads(self.n_jobs)

    def _check_cost(self) -> None:
        check_number("C", self.C, above=0)

    def _cost(self) -> float:
        """Return the cost of an error: C, unless a class has another meaning for it."""
        return float(self.C)

    def _measure_kernel(self, problem: Problem, norms: NDArray[np.float64]) -> None:
        """Note the mean of k(x, x), for classes whose C or intercept depends on it."""

    def _decide(self, X: Any) -> NDArray[np.float64]:
        """Compute decision values of validated data, shape (n, n_functions)."""
        decisions: NDArray[np.float64] = self._model.decide(X, n_jobs=self.n_jobs)
        return decisions

    def _needs_nonnegative(self) -> bool:
        """Return whether the kernel is defined for non-negative features only."""
        return False

    def _check_features(self, X: Any) -> None:
        """Accept all features; classes whose kernel is not defined for all override this."""

    def _take_given(self, X: Any, *, is_first: bool) -> Any:
        """Return data as validation takes them, for classes that take more than numbers."""
        return X

    def _take_features(self, X: Any, weights: NDArray[np.float64] | None = None) -> Any:
        """Return features as the model needs them; ``weights`` are given at the start of a fit."""
        self._check_features(X)
        return X

    @property
    def _query_layout(self) -> Layout:
        """How data to predict on may be stored."""
        return self._layout

    def _check_queries(self, X: Any) -> Any:
        check_is_fitted(self)
        X = self._take_given(X, is_first=False)
        return self._take_features(validate_queries(self, X, self._query_layout))


class OneVsRest(FunctionsMixin, ClassifierMixin, BaseEstimator, ABC):
    """Base of classifiers with one decision function for two classes, else one for each class."""

    class_weight: dict[Any, float] | str | None

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the SVM model according to the given training data.

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
        self._fit_rows(X, y, sample_weight)
        self._warn_unless_converged()
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Compute the decision function of the given data.

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
        return self._labels(self.decision_function(X))

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Validate the input and fit; `fit` adds the convergence warning."""
        self._check_params()
        X = self._take_given(X, is_first=True)
        problem = validate_problem(
            self, X, y, sample_weight, self.class_weight, precomputed=False, layout=self._layout
        )
        self.classes_ = problem.classes
        self._fit(problem)

    @abstractmethod
    def _fit(self, problem: Problem) -> None:
        """Fit to validated data."""

    @abstractmethod
    def _warn_unless_converged(self) -> None: ...

    def _scores(self, decisions: NDArray[np.float64]) -> NDArray[np.float64]:
        return decisions.ravel() if len(self.classes_) == 2 else decisions

    def _labels(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        if scores.ndim == 1:
            return self.classes_[(scores >= 0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]


class UnweightedMixin(OneVsRest):
    """`fit` and `partial_fit` without sample weights.

    It is for online methods: a step with a row of weight two is not two steps with that row.
    """

    #: Continues from the current model, if there is one, with some rows.
    _learn_piece: Callable[..., None]

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
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
        self._fit_rows(X, y)
        self._warn_unless_converged()
        return self

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Make one pass over some rows, starting from the current solution.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data. The first call fixes the knots or levels of the curves; values beyond their range
            count as the nearest end of it.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like, optional
            All labels of this and later calls; required in the first call.

        Returns
        -------
        self : estimator
            The fitted classifier.
        """
        problem, is_first = take_piece(self, X, y, classes)
        self._learn_piece(problem, is_first=is_first)
        return self


def take_piece(
    estimator: OneVsRest, X: Any, y: Any, classes: Any, sample_weight: Any = None
) -> tuple[Problem, bool]:
    """Validate a piece of the training data for `partial_fit`.

    Returns
    -------
    problem : Problem
        The rows, as the model needs them.
    is_first : bool
        Whether there is no model yet that the piece could continue.
    """
    estimator._check_params()
    is_first = not estimator.__sklearn_is_fitted__()
    problem = validate_partial(estimator, X, y, classes, sample_weight, is_first=is_first)
    weights = problem.sample_weights if is_first else None
    problem = replace(problem, X=estimator._take_features(problem.X, weights))
    estimator.classes_ = problem.classes
    return problem, is_first
