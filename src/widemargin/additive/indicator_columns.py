"""Missing values and categories as further columns of data: indicators beside the numbers.

A missing value counts as the median of its feature, and an indicator column of the feature has its
unit there and zeros elsewhere. A category has an indicator column of its own. The kernel of an
indicator is positive if both rows have it, and zero otherwise: this delta kernel knows neither order
nor distance.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.coded_rows import FloatArray
from widemargin.additive.curves import BinModel, TableModel
from widemargin.additive.indicator_model import (
    IndicatorModel,
    find_missing,
    narrow_model,
)
from widemargin.additive.pair_model import PairModel

#: Kernel between two missing values, as a share of that of the largest value with itself. Chosen by
#: measurement: docs/glass-box.md.
MISSING_WEIGHT = 0.05


@dataclass(frozen=True)
class IndicatorColumns:
    """The indicator columns of some training data.

    Attributes
    ----------
    missing : ndarray
        Features with missing values in training, ascending.
    fills : ndarray of shape (n_features,)
        Number that a missing value counts as beside its indicator: the median of each feature; zero
        for categories.
    units : ndarray of shape (n_features,)
        Number that says "missing": the largest value of each feature; one for categories.
    sizes : ndarray of shape (n_features,)
        Number of categories of each feature; zero for features of numbers.
    """

    missing: NDArray[np.intp]
    fills: FloatArray
    units: FloatArray
    sizes: NDArray[np.int64]

    @property
    def n_indicators(self) -> int:
        """Number of indicator columns."""
        return len(self.missing) + int(self.sizes.sum())

    @property
    def sources(self) -> NDArray[np.intp]:
        """The feature of every column of the expanded data."""
        features = np.arange(len(self.sizes))
        return np.concatenate([features, self.missing, np.repeat(features, self.sizes)])

    def missing_column(self, feature: int) -> int | None:
        """Return the column that tells the missing values of a feature, if it has some."""
        found = np.flatnonzero(self.missing == feature)
        return len(self.sizes) + int(found[0]) if len(found) else None

    def category_columns(self, feature: int) -> slice:
        """Return the columns of the categories of a feature."""
        first = len(self.sizes) + len(self.missing) + int(self.sizes[:feature].sum())
        return slice(first, first + int(self.sizes[feature]))

    @property
    def weights(self) -> FloatArray:
        """Factors on the kernels of the expanded columns, by which they have their share."""
        weights = np.ones(len(self.sizes) + self.n_indicators)
        weights[len(self.sizes) :][: len(self.missing)] = MISSING_WEIGHT
        return weights

    def expand(self, X: NDArray[Any]) -> Any:
        """Return the data with the indicator columns behind the features.

        With categories the data become sparse: of the indicators of a feature one is not zero.
        """
        is_missing = find_missing(X)
        gaps = is_missing[:, self.missing] * self.units[self.missing]
        parts = [self._fill(X, is_missing), gaps]
        if not self.sizes.any():
            return np.hstack(parts).astype(np.result_type(X.dtype, np.float32))
        for j in np.flatnonzero(self.sizes):
            # Only missing values are none of the categories of training.
            has_one = ~is_missing[:, j]
            start = np.concatenate([[0], np.cumsum(has_one)])
            codes = X[has_one, j].astype(np.int32)
            parts.append(
                sparse.csr_matrix((np.ones(len(codes)), codes, start), (len(X), int(self.sizes[j])))
            )
        return sparse.hstack([sparse.csr_matrix(part) for part in parts], format="csr")

    def _fill(self, X: NDArray[Any], is_missing: NDArray[np.bool_]) -> NDArray[Any]:
        filled = np.where(is_missing, self.fills, X)
        filled[:, self.sizes > 0] = 0.0
        return filled

    def make_model(self, fitted: TableModel | BinModel | PairModel) -> IndicatorModel | PairModel:
        """Turn a model of the expanded data into one of the features.

        Pairs of features are as they were, with other curves.
        """
        if isinstance(fitted, PairModel):
            assert isinstance(fitted.base, BinModel)
            return replace(fitted, base=self._make_curves(fitted.base))
        return self._make_curves(fitted)

    def _make_curves(self, fitted: TableModel | BinModel) -> IndicatorModel:
        d = len(self.sizes)
        offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        units = np.concatenate([self.units[self.missing], np.ones(offsets[-1])])
        heights = np.column_stack(
            [np.empty((len(fitted.intercept), 0))]
            + [fitted.curve(d + k, units[[k]]) for k in range(len(units))]
        )
        # Curves may be of float32, in whose precision sums would not be those of `explain`.
        missing = np.column_stack([fitted.curve(j, self.fills[[j]]) for j in range(d)]).astype(
            float
        )
        n_missing = len(self.missing)
        missing[:, self.missing] += heights[:, :n_missing]
        of_categories = heights[:, n_missing:].astype(float)
        return IndicatorModel(narrow_model(fitted, d), missing, offsets, of_categories)


def plain_columns(n_features: int) -> IndicatorColumns:
    """Return the columns of data without missing values and categories."""
    zeros = np.zeros(n_features)
    return IndicatorColumns(
        np.zeros(0, np.intp), zeros, np.ones(n_features), zeros.astype(np.int64)
    )
