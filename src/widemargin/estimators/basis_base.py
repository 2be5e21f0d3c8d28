"""What the classifiers on a few basis vectors share."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from widemargin.estimators.base import one_or_all
from widemargin.kernels import KERNELS, Kernel, Precomputed
from widemargin.memory import parse_bytes
from widemargin.models.basis_path import join_stages
from widemargin.models.expansion import Expansion
from widemargin.problem import Problem, Subproblem, split_binary, split_one_vs_rest
from widemargin.solvers.sparse_search import Selection
from widemargin.validation import (
    check_kernel_range,
    check_nonnegative,
    check_number,
    resolve_kernel,
    validate_problem,
    validate_queries,
)

#: From best to worst; a fit of several problems reports the worst.
STOP_REASONS = ("converged", "separated", "rank", "max_iter", "max_time")


class BasisClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers whose decisions are kernel expansions on a few basis vectors."""

    C: float
    kernel: str | Kernel | Callable[[Any, Any], Any]
    gamma: float | str
    degree: int
    coef0: float
    class_weight: dict[Any, float] | str | None
    memory: int | str
    n_jobs: int | None
    random_state: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.

        Returns
        -------
        self : estimator
            The fitted classifier.
        """
        self._check_params()
        problem = validate_problem(self, X, y, sample_weight, self.class_weight, precomputed=False)
        kernel = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        check_nonnegative(kernel, problem.X, getattr(self, "feature_names_in_", None))
        check_kernel_range(kernel, kernel.diag(kernel.prepare(problem.X)))
        self._keep(problem, kernel, self._select(problem, kernel))
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
        X = self._check_queries(X)
        return self._scores(
            self._model.decide(X, max_bytes=parse_bytes(self.memory), n_jobs=self.n_jobs)
        )

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
        cls = KERNELS.get(self.kernel) if isinstance(self.kernel, str) else type(self.kernel)
        tags.input_tags.positive_only = bool(getattr(cls, "needs_nonnegative", False))
        return tags

    @abstractmethod
    def _select(self, problem: Problem, kernel: Kernel) -> list[Selection]:
        """Bases of the binary problems: one for each, or one for all."""

    def _check_params(self) -> None:
        check_number("C", self.C, above=0)
        if isinstance(self.kernel, Precomputed) or self.kernel == "precomputed":
            raise ValueError(
                "kernel: basis vectors need a kernel that can be computed, not 'precomputed'"
            )

    def _check_queries(self, X: Any) -> Any:
        check_is_fitted(self)
        X = validate_queries(self, X)
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))
        return X

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _keep(self, problem: Problem, kernel: Kernel, selections: list[Selection]) -> None:
        """Set the fitted attributes."""
        stages = [selection.final for selection in selections]
        rows = np.unique(np.concatenate([stage.rows for stage in stages])).astype(np.intp)
        self.classes_ = problem.classes
        self.kernel_ = kernel
        self.coef_, self.intercept_, objective = join_stages(stages, rows)
        self.basis_indices_ = problem.kept[rows].astype(np.int32)
        self.basis_vectors_ = problem.X[rows]
        self.n_basis_ = one_or_all([len(s.rows) for s in stages for _ in s.intercept])
        self.n_support_ = one_or_all([int(n) for stage in stages for n in stage.n_support])
        self.objective_ = one_or_all([float(value) for value in objective])
        self.n_iter_ = max(len(s.path) + s.n_exchanges for s in selections)
        self.stop_reason_ = max((s.stop_reason for s in selections), key=STOP_REASONS.index)
        self.restore_model()

    def restore_model(self) -> None:
        """Make the predictor from the fitted attributes; called after setting them by hand."""
        self._model = Expansion(
            self.kernel_,
            self.basis_vectors_,
            self.basis_indices_.astype(np.intp),
            self.coef_,
            self.intercept_,
        )

    def _scores(self, decisions: NDArray[np.float64]) -> NDArray[np.float64]:
        return decisions.ravel() if len(self.classes_) == 2 else decisions

    def _labels(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        if scores.ndim == 1:
            return self.classes_[(scores >= 0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]

    def _advice(self) -> str | None:
        """What to tell the user about why the fit ended, if anything."""
        return None

    def _warn_unless_converged(self) -> None:
        advice = self._advice()
        if advice:
            warnings.warn(f"{type(self).__name__} {advice}", ConvergenceWarning, stacklevel=3)


def split_classes(problem: Problem) -> list[Subproblem]:
    """The binary problems: one for two classes, one for each of more against the rest."""
    return split_binary(problem) if len(problem.classes) == 2 else split_one_vs_rest(problem)
