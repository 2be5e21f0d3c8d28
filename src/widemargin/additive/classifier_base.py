"""Base classes of the additive classifiers and of other linear SVMs on a representation."""

import warnings
from abc import abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from widemargin.additive.coded_rows import Rows
from widemargin.additive.curves import BinModel, TableModel
from widemargin.additive.dual_descent import Descent, DualProblem, LinearResult, descend
from widemargin.additive.quantiser import Ranges, measure_ranges, row_chunks
from widemargin.base import OneVsRest, RestClassifier
from widemargin.deadline import start_deadline
from widemargin.kernels import is_small
from widemargin.majority import RunningVote, constant_intercept, judged_rows
from widemargin.parallel import open_workers
from widemargin.problem import Problem
from widemargin.progress import show_passes
from widemargin.validation import (
    check_choice,
    check_columns,
    check_flag,
    check_integer,
    check_norms,
    check_number,
    check_verbose,
    draw_seed,
    find_negative_columns,
    refuse_negative,
)

#: Part of the warning of a fit whose model was replaced by a constant one.
CONSTANT_ADVICE = (
    "the model predicts the largest class, which is more accurate than what it reached; "
)
LOSSES = ("hinge", "squared_hinge")
#: A smaller tolerance needs the precision of float64.
FLOAT32_TOL = 1e-3
#: Largest distance of a column's mean from zero in centred data, in standard deviations and in
#: standard errors. Markers of missing values, such as -999 among small numbers, exceed it.
CENTRED, CENTRED_ERRORS = 0.5, 4.0


class LinearClassifier(RestClassifier):
    """Base of classifiers that solve a linear SVM on a representation of the features.

    It checks the parameters of the solvers, runs dual coordinate descent, keeps the dual variables for
    a warm start, and warns of fits that did not converge.
    """

    loss: str
    tol: float
    max_iter: int
    max_time: float | None
    warm_start: bool
    random_state: Any
    verbose: int

    #: Whether the model predicts the largest class for every row, see `RunningVote`.
    _is_constant = False

    def _check_params(self) -> None:
        super()._check_params()
        check_number("tol", self.tol, above=0)
        check_number("max_time", self.max_time, above=0, optional=True)
        check_integer("max_iter", self.max_iter, low=1)
        check_choice("loss", self.loss, LOSSES)
        check_flag("warm_start", self.warm_start)
        check_verbose(self.verbose)

    def _dtype(self, problem: Problem) -> type:
        needs_digits = is_small(*problem.X.shape) or self.tol < FLOAT32_TOL
        return np.float64 if needs_digits else np.float32

    def _deadline(self) -> float | None:
        """Return the time at which a fit that begins now must end, by `time.perf_counter`."""
        return start_deadline(self.max_time)

    def _settings(self, problem: Problem, deadline: float | None) -> Descent:
        return Descent(
            tol=self.tol,
            max_iter=self.max_iter,
            deadline=deadline,
            seed=draw_seed(self.random_state),
            finish=is_small(*problem.X.shape),
        )

    def _descend(
        self, problem: Problem, rows: Rows, norms: NDArray[np.float64], deadline: float | None
    ) -> LinearResult:
        """Solve the dual of every one-vs-rest problem."""
        check_norms("X: kernel values", norms, "MinMaxScaler")
        costs = self.C * problem.weights
        squared = self.loss == "squared_hinge"
        dual = DualProblem(
            labels=problem.labels.astype(np.int64),
            positives=asked_classes(problem),
            upper=np.full(len(costs), np.inf) if squared else costs,
            ridge=0.5 / costs if squared else np.zeros(len(costs)),
            norms=norms,
        )
        start = self._warm_alpha(problem)
        with show_passes(self.verbose) as show, open_workers(self.n_jobs) as workers:
            settings = self._settings(problem, deadline)
            result = descend(rows, dual, settings, workers, start, show)
        self._keep_progress(problem, result)
        return result

    def _warm_alpha(self, problem: Problem) -> NDArray[np.float64] | None:
        state = getattr(self, "_warm_state", None) if self.warm_start else None
        if state is None or not np.array_equal(state[0], problem.labels):
            return None
        return state[1]

    def _keep_progress(self, problem: Problem, result: LinearResult) -> None:
        n_iter = result.n_iter
        self.n_iter_ = int(n_iter[0]) if len(n_iter) == 1 else n_iter
        self.stop_reason_ = result.stop_reason
        self.violation_ = float(result.violation.max())
        if self.warm_start:
            self._warm_state = (problem.labels, result.alpha)

    def _note_part(self, part: Problem, problem: Problem) -> None:
        """Set the stop reason to ``"max_time"`` if there was no time to represent all rows."""
        if len(part.labels) < len(problem.labels) and self.stop_reason_ != "diverged":
            self.stop_reason_ = "max_time"

    def _advise_late(self) -> str:
        """Return the advice of the warning after ``max_time``."""
        return f"{self._tell_constant()}allow more time for the optimum"

    def _tell_constant(self) -> str:
        """Return what a warning says about a model that predicts one class."""
        return CONSTANT_ADVICE if self._is_constant else ""

    def _advise_scaling(self) -> str:
        """Return advice on how to scale the features for faster convergence."""
        return "scale the features"

    def _warn_unless_converged(self) -> None:
        advice = {
            "max_iter": f"max_iter={self.max_iter} passes were made; {self._tell_constant()}raise "
            f"it, lower C, or {self._advise_scaling()}",
            "max_time": f"max_time={self.max_time} s has passed; {self._advise_late()}",
            "diverged": f"the approximate descent diverged, and the best of its solutions is kept "
            f"(violation {self.violation_:.3g}); lower C, use more anchors, features between 0 and 1, "
            "or AdditiveSVC, whose descent converges",
        }.get(self.stop_reason_)
        if advice:
            warnings.warn(
                f"{type(self).__name__} stopped before convergence: {advice}",
                ConvergenceWarning,
                stacklevel=4,
            )


class Curves(Protocol):
    """Model whose decisions are sums of curves, one for each feature."""

    def decide(self, X: Any, n_jobs: int | None) -> NDArray[np.float64]:
        """Compute decision values, shape (n, n_functions)."""

    def contributions(self, X: Any) -> NDArray[np.float64]:
        """Compute the share of each feature in each decision, (n, n_functions, n_features)."""

    def curve(self, feature: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the curves of one feature at some values, shape (n_functions, n_values)."""


class CurveClassifier(OneVsRest):
    """Base of classifiers whose decisions are sums of curves, one for each feature.

    It adds `explain` and `shape_functions`.
    """

    _model: Curves

    def explain(self, X: Any) -> NDArray[np.float64]:
        """Compute the share of each feature in each decision.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        shares : ndarray of shape (n_samples, n_features) or (n_samples, n_classes, n_features)
            With the intercept they add up to `decision_function`.
        """
        X = self._check_queries(X)
        shares = self._model.contributions(X)
        return shares[:, 0] if len(self.classes_) == 2 else shares

    def shape_functions(self, n_points: int = 256, features: Any = None) -> list[tuple[Any, Any]]:
        """Compute the curve of every feature over its range in the training data.

        Parameters
        ----------
        n_points : int, default=256
            Points on each curve.
        features : array-like of int, optional
            Columns whose curves are returned, in this order; default all.

        Returns
        -------
        curves : list of (values, heights)
            One pair for each feature: values in its own unit, shape (n_points,), and the
            contribution of the feature to the decision at these values, shape (n_points,) for two
            classes and (n_classes, n_points) for more.
        """
        check_is_fitted(self)
        check_integer("n_points", n_points, low=2)
        if features is None:
            features = np.arange(self.n_features_in_)
        curves = []
        for j in check_columns("features", features, self.n_features_in_):
            low, high = self.feature_ranges_[:, j]
            values = np.linspace(low, high, n_points)
            heights = self._heights(j, values)
            curves.append((values, heights[0] if len(self.classes_) == 2 else heights))
        return curves

    def _heights(self, feature: int, values: NDArray[Any]) -> NDArray[np.float64]:
        """Compute the contribution of a feature at some values, shape (n_functions, n_values)."""
        return self._model.curve(feature, values - self._origin[feature])

    def _measure(self, problem: Problem) -> Ranges:
        """Measure the ranges of the features; `shape_functions` and plots need them too."""
        ranges = measure_ranges(row_chunks(problem.X))
        self.feature_ranges_ = np.array([ranges.low, ranges.high]) + self._origin
        return ranges

    @property
    def _origin(self) -> NDArray[np.float64]:
        """Numbers that the model subtracts from the features."""
        return np.zeros(self.n_features_in_)


class AdditiveClassifier(CurveClassifier, LinearClassifier):
    """Base of additive classifiers: curves found by a linear SVM on tables or bins.

    It replaces a model whose fit a limit stopped by a constant one if that is more accurate.
    """

    _model: TableModel | BinModel

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Constants of the decision functions, zero where a fit has no intercept."""
        return self._model.intercept

    def _require_majority(self, problem: Problem) -> None:
        """Predict the largest class if a limit stopped the fit and its model is less accurate."""
        self._is_constant = False
        if self.stop_reason_ not in ("max_iter", "max_time"):
            return
        if self.stop_reason_ == "max_iter":
            # Some rows are enough: data that are mapped from a file should not be read once more.
            problem = judged_rows(problem)
        vote = RunningVote(problem)
        vote.add(self._model.decide(problem.X, self.n_jobs).T)
        if not vote.beats_majority():
            self._model = self._model.make_constant(constant_intercept(problem))
            self._is_constant = True


class HistogramClassifier(AdditiveClassifier):
    """Base of additive classifiers whose kernel needs non-negative features.

    It refuses negative features, except that it subtracts the column minima of centred data.
    """

    origin_: NDArray[np.float64]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self._needs_nonnegative()
        return tags

    @abstractmethod
    def _needs_nonnegative(self) -> bool: ...

    @property
    def _origin(self) -> NDArray[np.float64]:
        return self.origin_

    def _take_features(self, X: Any, weights: NDArray[np.float64] | None = None) -> Any:
        if weights is not None:
            self.origin_ = np.zeros(X.shape[1])
        if not self.origin_.any():
            columns = self._find_negative(X)
            if len(columns) == 0:
                return X
            if weights is None or sparse.issparse(X) or not _is_centred(X, weights):
                self._refuse(columns)
            warnings.warn(
                f"X: the data are centred; {type(self).__name__} subtracts the least value of every "
                "column, since its kernel needs features >= 0. To choose the range yourself, put "
                "sklearn.preprocessing.MinMaxScaler(clip=True) before it",
                stacklevel=6,
            )
            self.origin_ = np.asarray(X.min(axis=0), np.float64)
        kind = np.result_type(X.dtype, np.float32)
        moved = (X.toarray() if sparse.issparse(X) else X) - self.origin_.astype(kind)
        return np.maximum(moved, 0.0, out=moved)

    def _check_features(self, X: Any) -> None:
        columns = self._find_negative(X)
        if len(columns):
            self._refuse(columns)

    def _find_negative(self, X: Any) -> NDArray[np.intp]:
        """Find the columns with values for which the kernel is not defined."""
        return find_negative_columns(X) if self._needs_nonnegative() else np.empty(0, np.intp)

    def _refuse(self, columns: NDArray[np.intp]) -> None:
        refuse_negative(
            columns, getattr(self, "feature_names_in_", None), type(self).__name__,
            "IntersectionSVC, whose bins take negative values",
        )  # fmt: skip


def _is_centred(X: NDArray[Any], weights: NDArray[np.float64]) -> bool:
    """Return whether the mean of every column is zero within the error of so many rows.

    A column without negative values has a mean of zero only if all its values are zero.
    """
    n = weights.sum()
    mean = weights @ X / n
    # `np.std` would make a copy of the data.
    variance = np.einsum("i,ij,ij->j", weights, X, X, dtype=np.float64) / n - mean**2
    limit = min(CENTRED, CENTRED_ERRORS / np.sqrt(n)) * np.sqrt(np.maximum(variance, 0.0))
    limit[X.min(axis=0) >= 0] = 0.0
    return bool((np.abs(mean) <= limit).all())


def asked_classes(problem: Problem) -> NDArray[np.int64]:
    """Return the positive class of each one-vs-rest problem: the second of two, or every class."""
    n_classes = len(problem.classes)
    return np.array([1]) if n_classes == 2 else np.arange(n_classes)
