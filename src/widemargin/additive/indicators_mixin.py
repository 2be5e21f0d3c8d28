"""Mixin of `AdditiveSVC` and `AdditiveSVR`: missing values and categories as codes of their own."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.indicator_columns import IndicatorColumns, plain_columns
from widemargin.additive.indicator_model import IndicatorModel
from widemargin.additive.pair_model import PairModel
from widemargin.additive.quantiser import (
    Ranges,
    choose_scaling,
    row_chunks,
    weighted_quantiles,
)
from widemargin.additive.tables_mixin import CodesMixin
from widemargin.category_codes import CategoryCoder, learn_categories
from widemargin.kernel_arguments import name_columns
from widemargin.parameters import Choices
from widemargin.problem import Problem
from widemargin.validation import ANY_BLOCKS, Layout


class IndicatorsMixin(CodesMixin):
    """Features with missing values, or with categories, each of which has a height of its own."""

    missing: str
    categorical_features: Any

    #: The columns of categories, None if there are none.
    _coder: CategoryCoder | None = None
    #: What the columns of the training data are, during a fit.
    _columns: IndicatorColumns

    _choices: ClassVar[Choices] = {"missing": ("error", "code")}

    @property
    def _layout(self) -> Layout:  # type: ignore[override]
        return replace(ANY_BLOCKS, allows_nan=self.missing == "code")

    @property
    def _query_layout(self) -> Layout:
        # The parameter may have changed since the fit.
        return ANY_BLOCKS if self._indicators is None else self._layout

    @property
    def _indicators(self) -> IndicatorModel | None:
        """The part of the model that has heights of missing values and categories."""
        model = self._model.base if isinstance(self._model, PairModel) else self._model
        return model if isinstance(model, IndicatorModel) else None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "code"
        return tags

    @property
    def missing_heights_(self) -> NDArray[np.float64]:
        """What a missing value of each feature adds, if ``missing="code"``.

        The shape is (n_features,) for two classes and for a regression, and (n_classes, n_features)
        for more classes. It is what the median of the feature adds if the feature had no missing value
        in training.
        """
        found = self._indicators
        if self.missing != "code" or found is None:
            raise AttributeError('missing_heights_: fit with missing="code" to have it')
        return found.missing[0] if len(found.missing) == 1 else found.missing

    @property
    def categories_(self) -> list[NDArray[Any] | None]:
        """The categories of every feature in training, sorted; None for features of numbers."""
        found: list[NDArray[Any] | None] = [None] * self.n_features_in_
        if self._coder is not None:
            for j, categories in zip(self._coder.columns, self._coder.categories, strict=True):
                found[j] = categories
        return found

    def _check_params(self) -> None:
        super()._check_params()
        for name, plain in (("missing", "error"), ("categorical_features", None)):
            given = getattr(self, name)
            if not self._is_homogeneous and not (isinstance(given, str | None) and given == plain):
                raise ValueError(f"{name}: not available with a callable kernel; use a named one")

    def _take_given(self, X: Any, *, is_first: bool) -> Any:
        if is_first:
            self._coder = learn_categories(X, self.categorical_features)
        return X if self._coder is None else self._coder.encode(X)

    def _draw_curve(self, feature: int, n_points: int) -> tuple[Any, NDArray[np.float64]]:
        categories = self.categories_[feature]
        if categories is None:
            return super()._draw_curve(feature, n_points)
        return categories, self._heights(feature, np.arange(len(categories), dtype=np.float64))

    def _fit_features(self, problem: Problem, deadline: float | None) -> Any:
        if self.missing == "error" and self._coder is None:
            return super()._fit_features(problem, deadline)
        columns, ranges = self._find_columns(problem.X, problem.sample_weights)
        origin, d = self.origin_, self.n_features_in_
        self._columns, wide = columns, problem
        if columns.n_indicators:
            wide = replace(problem, X=columns.expand(problem.X))
            self.origin_ = np.concatenate([origin, np.zeros(columns.n_indicators)])
        fitted = super()._fit_features(wide, deadline)
        del self._columns
        self.origin_, self.feature_ranges_ = origin, ranges + origin
        self.quantiser_ = self.quantiser_.narrow(d)
        return columns.make_model(fitted)

    def _pair_columns(self) -> IndicatorColumns:
        """Return what the columns of the training data are, during a fit."""
        return getattr(self, "_columns", None) or plain_columns(self.n_features_in_)

    def _measure(self, problem: Problem) -> Ranges:
        ranges = super()._measure(problem)
        # Indicators of categories are stored in CSR format, but the features are those of a table.
        return ranges if not hasattr(self, "_columns") else replace(ranges, is_sparse=False)

    def _choose_scaling(self, ranges: Ranges) -> str | None:
        if not hasattr(self, "_columns"):
            return super()._choose_scaling(ranges)
        sizes, n_missing = self._columns.sizes, len(self._columns.missing)
        is_number = np.pad(sizes == 0, (0, len(ranges.low) - len(sizes)))
        # Columns of missing values have the unit of their feature.
        has_unit = is_number.copy()
        has_unit[len(sizes) + n_missing :] = True
        return choose_scaling(self.scaling, ranges.take(has_unit), numbers=ranges.take(is_number))

    def _scales(self) -> NDArray[np.float64]:
        scales = super()._scales()
        return scales * self._columns.weights if hasattr(self, "_columns") else scales

    def _find_columns(
        self, X: Any, weights: NDArray[np.float64]
    ) -> tuple[IndicatorColumns, NDArray[np.float64]]:
        """Find the indicator columns, and the ranges of the values that are not missing."""
        d = X.shape[1]
        ranges = np.array([np.full(d, np.inf), np.full(d, -np.inf)])
        has_missing = np.zeros(d, bool)
        for part in row_chunks(X):
            if sparse.issparse(part):
                low, high = part.min(axis=0).toarray()[0], part.max(axis=0).toarray()[0]
            else:
                low, high = np.fmin.reduce(part, axis=0), np.fmax.reduce(part, axis=0)
                has_missing |= (part != part).any(axis=0)
            ranges = np.array([np.fmin(ranges[0], low), np.fmax(ranges[1], high)])
        self._refuse_empty(np.flatnonzero(ranges[0] > ranges[1]))
        units = np.where(ranges[1] > 0, ranges[1], 1.0)
        sizes, fills = np.zeros(d, np.int64), _find_medians(X, weights)
        if self._coder is not None:
            sizes[self._coder.columns] = [len(known) for known in self._coder.categories]
            units[sizes > 0], fills[sizes > 0] = 1.0, 0.0
        return IndicatorColumns(np.flatnonzero(has_missing), fills, units, sizes), ranges

    def _refuse_empty(self, columns: NDArray[np.intp]) -> None:
        if len(columns):
            names = name_columns(columns, getattr(self, "feature_names_in_", None))
            raise ValueError(
                f"X: all values are missing in {names}; leave out columns without any value"
            )


def _find_medians(X: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of every column, missing values left out; zeros for sparse data."""
    medians = np.zeros(X.shape[1])
    if sparse.issparse(X):
        return medians
    for j, column in enumerate(X.T):
        present = ~np.isnan(column)
        # A value of the column, so that whole numbers stay whole.
        medians[j] = weighted_quantiles(column[present], weights[present], np.array([0.5]))[0]
    return medians
