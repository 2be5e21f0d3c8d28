"""Missing values and categories as further columns of data: indicators beside the numbers.

A missing value counts as zero, where additive kernels and the curves of their models are zero, and
an indicator column of its feature has its unit there and zeros elsewhere. A category has an indicator
column of its own. The kernel of an indicator is its unit if both rows have it, and zero otherwise:
this delta kernel knows neither order nor distance.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import FloatArray
from widemargin.additive.curves import BinModel, TableModel
from widemargin.additive.indicator_model import (
    IndicatorModel,
    fill_missing,
    find_missing,
    narrow_model,
)
from widemargin.additive.quantiser import row_chunks


@dataclass(frozen=True)
class IndicatorColumns:
    """The indicator columns of some training data.

    Attributes
    ----------
    missing : ndarray
        Features with missing values in training, ascending.
    units : ndarray of shape (n_features,)
        Number that says "missing": the largest value of each feature, so that a missing value is as
        similar to another as the largest value is to itself; one for categories.
    sizes : ndarray of shape (n_features,)
        Number of categories of each feature; zero for features of numbers.
    """

    missing: NDArray[np.intp]
    units: FloatArray
    sizes: NDArray[np.int64]

    @property
    def n_indicators(self) -> int:
        """Number of indicator columns."""
        return len(self.missing) + int(self.sizes.sum())

    def expand(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the data with the indicator columns behind the features."""
        n, d = X.shape
        is_missing = find_missing(X)
        wide = np.zeros((n, d + self.n_indicators), np.result_type(X.dtype, np.float32))
        wide[:, :d] = fill_missing(X, is_missing, np.flatnonzero(self.sizes))
        at = d + len(self.missing)
        wide[:, d:at] = is_missing[:, self.missing] * self.units[self.missing]
        for j in np.flatnonzero(self.sizes):
            rows = np.flatnonzero(X[:, j] < self.sizes[j])
            wide[rows, at + X[rows, j].astype(np.intp)] = 1.0
            at += self.sizes[j]
        return wide

    def make_model(
        self, fitted: TableModel | BinModel, X: NDArray[Any], weights: FloatArray
    ) -> IndicatorModel:
        """Turn a model of the expanded training data ``X`` into one of the features.

        A missing value of a feature that had none in training adds the mean of what the training rows
        add.
        """
        d = len(self.sizes)
        offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        first = d + len(self.missing)
        units = np.concatenate([self.units[self.missing], np.ones(offsets[-1])])
        heights = np.column_stack(
            [np.empty((len(fitted.intercept), 0))]
            + [fitted.curve(d + k, units[[k]]) for k in range(len(units))]
        )
        missing = np.zeros((len(heights), d))
        missing[:, self.missing] = heights[:, : first - d]
        base = narrow_model(fitted, d)
        found = IndicatorModel(base, missing, offsets, heights[:, first - d :])
        others = np.setdiff1d(np.arange(d), self.missing)
        missing[:, others] = average_shares(found, X, weights)[:, others]
        return found


def average_shares(model: IndicatorModel, X: Any, weights: FloatArray) -> FloatArray:
    """Return the mean of what each feature adds to decisions, shape (n_functions, n_features)."""
    total, start = np.zeros_like(model.missing), 0
    for part in row_chunks(X):
        stop = start + part.shape[0]
        total += np.einsum("n,nkj->kj", weights[start:stop], model.contributions(part))
        start = stop
    return total / weights.sum()
