"""Prediction with curves of numbers, and heights of missing values and of categories."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.coded_rows import FloatArray
from widemargin.additive.curves import BinEncoder, BinModel, TableModel
from widemargin.additive.quantiser import row_chunks


@dataclass(frozen=True)
class IndicatorModel:
    """Sum of curves, of one height for each missing value, and of one for each category.

    A category is given by its number among those of its feature. Numbers beyond them stand for
    categories that were not seen in training, and add nothing.

    Attributes
    ----------
    base : TableModel or BinModel
        The curves and the intercept. Curves of features with categories are not used.
    missing : ndarray of shape (n_functions, n_features)
        What a missing value of each feature adds.
    offsets : ndarray of shape (n_features + 1,)
        Position of the first category of each feature; features of numbers have none.
    heights : ndarray of shape (n_functions, offsets[-1])
        What the categories add.
    """

    base: TableModel | BinModel
    missing: FloatArray
    offsets: NDArray[np.int64]
    heights: FloatArray

    @property
    def intercept(self) -> FloatArray:
        """Constants of the decision functions, shape (n_functions,)."""
        return self.base.intercept

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.base.n_features

    @property
    def categorical(self) -> NDArray[np.intp]:
        """Features with categories."""
        return np.flatnonzero(np.diff(self.offsets))

    def make_constant(self, intercept: FloatArray) -> "IndicatorModel":
        """Return a model with the same bins, in which all values add nothing."""
        return replace(
            self, base=self.base.make_constant(intercept), missing=np.zeros_like(self.missing),
            heights=np.zeros_like(self.heights),
        )  # fmt: skip

    def decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Compute decision values, shape (n, n_functions)."""
        if sparse.issparse(X):
            return self.base.decide(X, n_jobs)
        out = np.empty((X.shape[0], len(self.missing)))
        start = 0
        for part in row_chunks(X):
            rows = slice(start, start + len(part))
            is_missing = find_missing(part)
            out[rows] = self.base.decide(self._fill(part, is_missing), n_jobs)
            out[rows] += is_missing @ self.missing.T
            for j in self.categorical:
                out[rows] += self._look_up(j, part[:, j]).T
            start = rows.stop
        return out

    def contributions(self, X: Any) -> FloatArray:
        """Compute the share of each feature in each decision, (n, n_functions, n_features)."""
        if sparse.issparse(X):
            return self.base.contributions(X)
        is_missing = find_missing(X)
        out = self.base.contributions(self._fill(X, is_missing))
        for j in self.categorical:
            out[:, :, j] = self._look_up(j, X[:, j]).T
        return np.where(is_missing[:, None, :], self.missing, out)

    def curve(self, feature: int, values: FloatArray) -> FloatArray:
        """Compute the curves of one feature at some values, NaN for a missing one.

        The values of a feature with categories are their numbers.
        """
        values = np.asarray(values, np.float64)
        is_missing = np.isnan(values)
        if self.offsets[feature] < self.offsets[feature + 1]:
            found = self._look_up(feature, values)
        else:
            found = self.base.curve(feature, np.where(is_missing, 0.0, values))
        return np.where(is_missing, self.missing[:, [feature]], found)

    def _fill(self, X: NDArray[Any], is_missing: NDArray[np.bool_]) -> NDArray[Any]:
        """Replace missing values by zero, at which all curves are zero, and categories too."""
        filled = np.where(is_missing, X.dtype.type(0), X)
        filled[:, self.categorical] = 0
        return filled

    def _look_up(self, feature: int, values: NDArray[Any]) -> FloatArray:
        """Return the heights of categories, zero for unknown and missing ones."""
        first, last = self.offsets[feature], self.offsets[feature + 1]
        padded = np.pad(self.heights[:, first:last], ((0, 0), (0, 1)))
        n_known = last - first
        return padded[:, np.nan_to_num(np.minimum(values, n_known), nan=n_known).astype(np.intp)]


def find_missing(X: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are NaN; integers never are."""
    return np.isnan(X) if X.dtype.kind == "f" else np.zeros(X.shape, bool)


def narrow_model(model: TableModel | BinModel, n_features: int) -> TableModel | BinModel:
    """Return the model of the first features alone."""
    if isinstance(model, BinModel):
        offsets = model.offsets[: n_features + 1]
        quantiser = model.quantiser.narrow(n_features)
        return replace(
            model, quantiser=quantiser, offsets=offsets, curves=model.curves[:, : offsets[-1]]
        )
    assert isinstance(model.encoder, BinEncoder)
    encoder = replace(model.encoder, quantiser=model.encoder.quantiser.narrow(n_features))
    return replace(model, encoder=encoder, coef=np.ascontiguousarray(model.coef[:, :n_features]))
