"""What `KernelSVR` and `DCSVR` share: the dual of a regression, `fit` and `predict`."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from widemargin.arguments import check_flag, check_number
from widemargin.deadline import start_deadline
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.kernel_machine import KernelMachine
from widemargin.exact.svc_compatibility import check_cost, find_bound, warn_unless_feasible
from widemargin.kernels import Kernel, is_precomputed, wrap_items
from widemargin.problem import Problem
from widemargin.transaction import all_or_nothing
from widemargin.validation import find_shape, validate_regression


class KernelRegressor(RegressorMixin, KernelMachine):
    """Base of the regressions."""

    C: float
    epsilon: float
    fit_intercept: bool
    warm_start: bool

    _svm_type = "epsilon_svr"
    #: Whether predictions are a vector; a model of LIBSVM has a single target.
    _is_single = True

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the SVM model according to the given training data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; (n_samples, n_samples) with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out, and so are those of negative
            weight, with a warning.

        Returns
        -------
        self : estimator
            The fitted model.
        """
        self._check_params()
        deadline = start_deadline(self.max_time)
        X = wrap_items(self.kernel, X)
        problem, targets = validate_regression(
            self, X, y, sample_weight, precomputed=is_precomputed(self.kernel)
        )
        self.shape_fit_ = find_shape(self, X)
        self._is_single = targets.ndim == 1
        self._fit_problem(problem, deadline, targets.reshape(len(targets), -1))
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; the kernel with all training rows if the kernel is precomputed.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions.
        """
        values = self._decide(X)
        return values[:, 0] if self._is_single else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_params(self) -> None:
        super()._check_params()
        check_cost(self.C)
        check_flag("fit_intercept", self.fit_intercept)
        check_flag("warm_start", self.warm_start)
        check_number("epsilon", self.epsilon)
        if self.epsilon < 0:
            raise ValueError(f"epsilon: must not be negative, got {self.epsilon!r}")

    def _make_duals(
        self,
        problem: Problem,
        score: Callable[..., FloatArray],
        diagonal: FloatArray,
        targets: FloatArray | None,
    ) -> list[DualProblem]:
        assert targets is not None
        n = len(problem.labels)
        cost = find_bound(self.C, diagonal) * problem.weights
        starts = self._warm_starts(n, targets.shape[1])
        return [
            DualProblem(
                np.arange(n), -target, -cost, cost, epsilon=float(self.epsilon),
                total=0.0 if self.fit_intercept else None, start=start,
            )
            for target, start in zip(targets.T, starts, strict=True)
        ]  # fmt: skip

    def _warm_starts(self, n_rows: int, n_targets: int) -> list[FloatArray | None]:
        state = getattr(self, "_warm_state", None) if self.warm_start else None
        if state is None or state.shape != (n_targets, n_rows):
            return [None] * n_targets
        return list(state)

    def _keep(
        self, problem: Problem, kernel: Kernel, duals: list[DualProblem], solved: Any
    ) -> None:
        super()._keep(problem, kernel, duals, solved)
        if self.warm_start:
            self._warm_state = np.array([found.coef for found in solved])
        warn_unless_feasible(self, duals, solved, "the kernel does not reach the targets", 6)
