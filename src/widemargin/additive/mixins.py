"""Mixins of the additive classifiers: curves, non-negative input, stochastic descent."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from widemargin.additive.classifier_base import asked_classes
from widemargin.additive.dual_descent import Descent, LinearResult
from widemargin.additive.quantiser import Ranges, measure_ranges, measured_chunks
from widemargin.additive.representations import Representation
from widemargin.additive.sgd import (
    PrimalProblem,
    set_stochastic,
    solve_stochastic,
    start_stochastic,
    stochastic_coefs,
    stochastic_pass,
)
from widemargin.arguments import (
    check_columns,
    check_flag,
    check_integer,
    check_number,
    draw_seed,
    find_user_level,
)
from widemargin.base import FunctionsMixin, OneVsRest, take_piece
from widemargin.callback_support import report_rounds
from widemargin.kernel_arguments import (
    check_norms,
    find_negative_columns,
    name_columns,
    refuse_negative,
)
from widemargin.problem import Problem
from widemargin.progress import show_passes
from widemargin.transaction import all_or_nothing

#: Largest distance of a column's mean from zero in centred data, in standard deviations and in
#: standard errors. Markers of missing values, such as -999 among small numbers, exceed it.
CENTRED, CENTRED_ERRORS = 0.5, 4.0
#: A column is signed if at least this share of its values is negative, and these are so many different
#: ones. Markers of missing values are few, and rounding errors are rare. As large a share must be
#: positive, too, unless the columns have different units, as those of raw tables have.
SIGNED_SHARE, SIGNED_VALUES = 0.02, 10
#: Negative values of a column among which different ones are counted.
COUNTED_VALUES = 4096


class Curves(Protocol):
    """Model whose decisions are sums of curves, one for each feature."""

    @property
    def intercept(self) -> NDArray[np.float64]:
        """Constants of the decision functions, shape (n_functions,)."""

    def decide(self, X: Any, n_jobs: int | None) -> NDArray[np.float64]:
        """Compute decision values, shape (n, n_functions)."""

    def contributions(self, X: Any) -> NDArray[np.float64]:
        """Compute the share of each feature in each decision, (n, n_functions, n_features)."""

    def curve(self, feature: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the curves of one feature at some values, shape (n_functions, n_values)."""


class CurvesMixin(FunctionsMixin):
    """Decisions that are sums of curves, one for each feature: `explain` and `shape_functions`."""

    _model: Curves
    feature_ranges_: NDArray[np.float64]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Constants of the decision functions, zero where a fit has no intercept."""
        return self._model.intercept

    def explain(self, X: Any, *, as_frame: bool = False) -> Any:
        """Compute the share of each feature in each decision, or in each prediction of a regression.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        as_frame : bool, default=False
            Whether to return a pandas DataFrame, whose columns have the names of the features, and
            whose rows are those of ``X``; for more than two classes a column has the name of its
            class before that of its feature.

        Returns
        -------
        shares : ndarray of shape (n_samples, n_features) or (n_samples, n_classes, n_features)
            With the intercept they add up to `decision_function`, or to what a regression predicts.
            Pairs of features, if a model has them, follow the features.
        """
        check_flag("as_frame", as_frame)
        index = X.index if hasattr(X, "iloc") else None
        X = self._check_queries(X)
        shares = self._model.contributions(X)
        if as_frame:
            return self._make_frame(shares, index)
        return shares[:, 0] if shares.shape[1] == 1 else shares

    def _make_frame(self, shares: NDArray[np.float64], index: Any) -> Any:
        """Return shares, (n_samples, n_functions, n_terms), as a table with the names of the terms."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "as_frame: True needs the package pandas; install it: pip install pandas"
            ) from error
        names = self._term_names()
        several = shares.shape[1] > 1
        columns = pd.MultiIndex.from_product([self.classes_, names]) if several else names
        return pd.DataFrame(shares.reshape(len(shares), -1), index=index, columns=columns)

    def _term_names(self) -> list[str]:
        """Return the names of the terms of the sum, as pages and pictures have them."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"feature {j}" for j in range(self.n_features_in_)]
        return [str(name) for name in names]

    def shape_functions(self, n_points: int = 256, features: Any = None) -> list[tuple[Any, Any]]:
        """Compute the curve of every feature over its range in the training data.

        Parameters
        ----------
        n_points : int, default=256
            Points on each curve.
        features : array-like of int or str, optional
            Columns whose curves are returned, by number or by name, in this order; default all.

        Returns
        -------
        curves : list of (values, heights)
            One pair for each feature: values in its own unit, shape (n_points,), and the
            contribution of the feature to the decision at these values, shape (n_points,) for two
            classes or a regression, and (n_classes, n_points) for more classes.
        """
        check_is_fitted(self)
        check_integer("n_points", n_points, low=2)
        names = getattr(self, "feature_names_in_", None)
        curves = []
        for j in check_columns("features", features, self.n_features_in_, names):
            values, heights = self._draw_curve(int(j), n_points)
            curves.append((values, heights[0] if len(heights) == 1 else heights))
        return curves

    def _draw_curve(self, feature: int, n_points: int) -> tuple[Any, NDArray[np.float64]]:
        """Return values over the range of a feature, and what they add to all functions."""
        low, high = self.feature_ranges_[:, feature]
        values = np.linspace(low, high, n_points)
        return values, self._heights(feature, values)

    def _heights(self, feature: int, values: NDArray[Any]) -> NDArray[np.float64]:
        """Compute the contribution of a feature at some values, shape (n_functions, n_values)."""
        return self._model.curve(feature, values - self._origin[feature])

    def _measure(self, problem: Problem) -> Ranges:
        """Measure the ranges of the features; `shape_functions` and plots need them too."""
        ranges = measure_ranges(measured_chunks(problem.X))
        self.feature_ranges_ = np.array([ranges.low, ranges.high]) + self._origin
        return ranges

    @property
    def _origin(self) -> NDArray[np.float64]:
        """Numbers that the model subtracts from the features."""
        return np.zeros(self.n_features_in_)


class NonnegativeMixin(FunctionsMixin):
    """Input for kernels that need non-negative features.

    Negative features are refused, except where negative values are those of a measurement: the least
    values of such columns are subtracted.
    """

    origin_: NDArray[np.float64]
    scaling: str | None = None

    #: Estimator that an error recommends for negative features.
    _takes_negative = "IntersectionSVC, whose bins take negative values"
    #: Whether scaling="range" is an option, which moves every feature to begin at zero.
    _has_range_scaling = False

    @property
    def _origin(self) -> NDArray[np.float64]:
        return self.origin_

    def _take_features(self, X: Any, weights: NDArray[np.float64] | None = None) -> Any:
        if weights is not None:
            self.origin_ = np.zeros(X.shape[1])
            columns = self._find_negative(X)
            if len(columns):
                known = None if sparse.issparse(X) else measure_columns(X, weights)
                self._choose_origin(columns, known)
        elif getattr(self, "scaling_", None) != "range":
            columns = self._find_negative(X)
            self._check_columns(columns[self.origin_[columns] == 0.0])
        # Values below all in training count as the smallest.
        return subtract_origin(X, self.origin_) if self.origin_.any() else X

    def _choose_origin(self, columns: NDArray[np.intp], known: "Columns | None") -> None:
        """Choose the least values of columns with negative values as origin, or refuse these.

        ``known`` is None if nothing is known of the columns but that they have negative values.
        """
        if known is None:
            self._refuse(columns)
        is_asked, odd = self.scaling == "range", columns[~known.are_signed()]
        if len(odd) and not (is_asked or known.is_centred()):
            self._refuse(odd, can_move=True)
        self.origin_ = np.minimum(known.low, 0.0)
        if not is_asked:
            self._warn_of_origin(columns, is_centred=known.is_centred())

    def _warn_of_origin(self, columns: NDArray[np.intp], *, is_centred: bool) -> None:
        names = name_columns(columns, getattr(self, "feature_names_in_", None))
        verb = "has" if len(columns) == 1 else "have"
        what = "the data are centred" if is_centred else f"{names} {verb} negative values"
        way = 'Set scaling="range" to confirm this, or put' if self._has_range_scaling else "Put"
        warnings.warn(
            f"X: {what}; {type(self).__name__} subtracts the least value of every such column, since "
            f"its kernel needs features >= 0. {way} sklearn.preprocessing.MinMaxScaler(clip=True) "
            "before the model to choose the ranges yourself",
            stacklevel=find_user_level(),
        )

    def _check_features(self, X: Any) -> None:
        self._check_columns(self._find_negative(X))

    def _check_columns(self, columns: NDArray[np.intp]) -> None:
        if len(columns):
            self._refuse(columns)

    def _find_negative(self, X: Any) -> NDArray[np.intp]:
        """Find the columns with values for which the kernel is not defined."""
        return find_negative_columns(X) if self._needs_nonnegative() else np.empty(0, np.intp)

    def _refuse(self, columns: NDArray[np.intp], *, can_move: bool = False) -> NoReturn:
        """Refuse columns with negative values; ``can_move`` if scaling="range" would help."""
        way = 'scaling="range", if zero is a number like others there, or '
        refuse_negative(
            columns, getattr(self, "feature_names_in_", None), type(self).__name__,
            (way if can_move and self._has_range_scaling else "") + self._takes_negative,
        )  # fmt: skip


class Columns(NamedTuple):
    """What tells whether negative values mean something; of several blocks of rows they add up.

    Attributes
    ----------
    weight : float
        Sum of the weights of the rows.
    sums, squares : ndarray of shape (n_features,)
        Weighted sums of the values and of their squares.
    low, high : ndarray of shape (n_features,)
        Smallest and largest values.
    below, above, present : ndarray of shape (n_features,)
        Sums of the weights of the rows with a negative, a positive, and with any value.
    negatives : tuple of ndarray
        A few different negative values of each column.
    """

    weight: float
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    below: NDArray[np.float64]
    above: NDArray[np.float64]
    present: NDArray[np.float64]
    negatives: tuple[NDArray[np.float64], ...]

    def join(self, other: "Columns") -> "Columns":
        """Return what is known of the rows of both."""
        return Columns(
            self.weight + other.weight,
            self.sums + other.sums,
            self.squares + other.squares,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.below + other.below,
            self.above + other.above,
            self.present + other.present,
            tuple(
                np.union1d(mine, theirs)[:SIGNED_VALUES]
                for mine, theirs in zip(self.negatives, other.negatives, strict=True)
            ),
        )

    def is_centred(self) -> bool:
        """Return whether the mean of every column is zero within the error of so many rows.

        A column without negative values has a mean of zero only if all its values are zero.
        """
        mean = self.sums / self.weight
        variance = self.squares / self.weight - mean**2
        share = min(CENTRED, CENTRED_ERRORS / np.sqrt(self.weight))
        limit = share * np.sqrt(np.maximum(variance, 0.0))
        limit[self.low >= 0] = 0.0
        return bool((np.abs(mean) <= limit).all())

    def are_signed(self) -> NDArray[np.bool_]:
        """Return for each column with negative values whether zero is a number like others there."""
        chosen = np.flatnonzero(self.low < 0.0)
        sides = self.below
        if Ranges(self.low, self.high, is_integer=False).have_one_unit():
            sides = np.minimum(self.below, self.above)
        are_many = sides[chosen] >= SIGNED_SHARE * self.present[chosen]
        return are_many & np.array([len(self.negatives[j]) >= SIGNED_VALUES for j in chosen], bool)


def measure_columns(X: NDArray[Any], weights: NDArray[np.float64]) -> Columns:
    """Measure what tells whether negative values of some columns are those of a measurement."""
    total = float(weights.sum())
    present = np.full(X.shape[1], total)
    if np.isnan(X).any():
        present = weights @ ~np.isnan(X)
        # Missing values count as zero, which is the mean of the others if they are centred.
        X = np.nan_to_num(X)
    # `np.std` would make a copy of the data.
    squares = np.einsum("i,ij,ij->j", weights, X, X, dtype=np.float64)
    low, high = (np.asarray(end, np.float64) for end in (X.min(axis=0), X.max(axis=0)))
    below, above = (
        np.einsum("i,ij->j", weights, side, dtype=np.float64) for side in (X < 0.0, X > 0.0)
    )
    negatives = [np.empty(0)] * len(low)
    for j in np.flatnonzero(low < 0.0):
        is_negative = X[:, j] < 0.0
        different = np.unique(X[is_negative, j][:COUNTED_VALUES])
        negatives[j] = different[:SIGNED_VALUES].astype(np.float64)
    return Columns(total, weights @ X, squares, low, high, below, above, present, tuple(negatives))


def subtract_origin(X: Any, origin: NDArray[np.float64]) -> NDArray[Any]:
    """Return rows less the origin, and zero where they are smaller."""
    kind = np.result_type(X.dtype, np.float32)
    moved = (X.toarray() if sparse.issparse(X) else X) - origin.astype(kind)
    return np.maximum(moved, 0.0, out=moved)


class StochasticMixin(OneVsRest):
    """Fitting by stochastic descent on a representation, as a whole or in pieces (`partial_fit`)."""

    loss: str
    alpha: float | None
    eta0: float
    random_state: Any

    n_seen_: int
    t_: int
    n_iter_: Any
    stop_reason_: str

    # Classes with a choice of solvers have these from `LinearClassifier`.
    solver: str
    verbose: int
    _descend: Callable[..., LinearResult]
    _settings: Callable[..., Descent]

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Make one pass of stochastic descent over some rows, starting from the current solution.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data. The first call fixes the bins; later values beyond their range count as the nearest
            end of it.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like, optional
            All labels of this and later calls; required in the first call.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on the loss of each row.

        Returns
        -------
        self : estimator
            The fitted classifier.
        """
        problem, is_first = take_piece(self, X, y, classes, sample_weight)
        self._learn_piece(problem, is_first=is_first)
        if hasattr(self, "violation_"):
            del self.violation_  # It belongs to an earlier `fit`.
        return self

    @abstractmethod
    def _prepare(self, problem: Problem) -> None:
        """Choose what the first piece fixes for all later ones: bins, tables, anchors."""

    @abstractmethod
    def _represent(self, problem: Problem) -> Representation:
        """Represent some data as rows of numbers."""

    def _check_params(self) -> None:
        super()._check_params()
        check_number("alpha", self.alpha, above=0, optional=True)
        # With eta0 = 0 the first step would multiply all coefficients and their scale by zero.
        check_number("eta0", self.eta0, above=0)

    def _learn_piece(self, problem: Problem, *, is_first: bool) -> None:
        """Make one pass over some rows, from the current model if they are not the first."""
        if is_first:
            self._prepare(problem)
        data, n_seen = self._represent(problem), len(problem.labels)
        check_norms("X: kernel values", data.norms, "MinMaxScaler")
        if is_first or not hasattr(self, "kernel_mean_"):
            self._measure_kernel(problem, data.norms)
        state = start_stochastic(data.rows, len(asked_classes(problem)))
        if not is_first:
            coef, state.extra[:] = data.take_apart(self._model)
            set_stochastic(data.rows, state, coef)
            # Steps get shorter all the time, so that this piece does not undo those before it.
            state.n_steps = self.t_
            n_seen += self.n_seen_
        order = np.random.default_rng(draw_seed(self.random_state)).permutation(len(problem.labels))
        stochastic_pass(data.rows, order, self._make_primal(problem, data, n_seen), state)
        if not state.is_finite():
            raise ValueError(
                "X: stochastic descent on these rows diverges beyond the largest number; scale the "
                "features, for example with sklearn.preprocessing.MinMaxScaler, or lower C"
            )
        self._model = data.make_model(stochastic_coefs(data.rows, state), state.extra)
        self.t_, self.n_seen_ = state.n_steps, n_seen
        self.n_iter_, self.stop_reason_ = 1, "max_iter"

    def _make_primal(self, problem: Problem, data: Representation, n_seen: int) -> PrimalProblem:
        """Make the primal problem of some rows, after ``n_seen`` rows in all."""
        return PrimalProblem(
            labels=problem.labels.astype(np.int64),
            positives=asked_classes(problem),
            weights=problem.weights,
            norms=data.norms,
            penalty=1.0 / (self._cost() * n_seen) if self.alpha is None else self.alpha,
            delay=self.eta0,
            is_squared=self.loss == "squared_hinge",
        )

    def _solve(
        self, problem: Problem, data: Representation, deadline: float | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the coefficients of the represented rows, and those of their extra numbers."""
        self.n_seen_ = len(problem.labels)
        if self.solver == "sgd":
            return self._solve_primal(problem, data, deadline)
        result = self._descend(problem, data.rows, data.norms, deadline)
        self.t_ = int(result.n_iter.max()) * len(problem.labels)
        return result.coef, result.extra

    def _solve_primal(
        self, problem: Problem, data: Representation, deadline: float | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        check_norms("X: kernel values", data.norms, "MinMaxScaler")
        self._measure_kernel(problem, data.norms)
        primal = self._make_primal(problem, data, len(problem.labels))
        settings = self._settings(problem, deadline)
        with show_passes(self.verbose, listen=report_rounds(self)) as show:
            result = solve_stochastic(data.rows, primal, settings, show)
        self.n_iter_, self.t_ = result.n_iter, result.n_steps
        self.stop_reason_, self.violation_ = result.stop_reason.value, result.violation
        return result.coef, result.extra
