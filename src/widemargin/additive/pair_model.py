"""Prediction with curves of features and surfaces of some pairs of features."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.coded_rows import FloatArray
from widemargin.additive.curves import BinModel, encode_feature
from widemargin.additive.indicator_model import IndicatorModel
from widemargin.additive.quantiser import row_chunks

#: Stands between the names of the features of a pair.
TIMES = " \N{MULTIPLICATION SIGN} "


@dataclass(frozen=True)
class PairModel:
    """Sum of curves, one for each feature, and of surfaces, one for each of some pairs of features.

    Attributes
    ----------
    base : BinModel or IndicatorModel
        The curves and the intercept, and heights of missing values and of categories.
    pairs : ndarray of shape (n_pairs, 2)
        The features of each surface.
    levels : ndarray of uint8 of shape (n_pairs, 2, n_codes)
        Row or column of a surface for each code of its first and second feature: bins, or numbers of
        categories, then one for unknown categories; the last code of all stands for missing values.
    values : ndarray of shape (n_pairs, 2, n_levels)
        What the rows and columns stand for; the last is repeated if there are fewer. See
        `pair_levels.FeatureLevels`.
    heights : ndarray of shape (n_functions, n_pairs, n_levels, n_levels)
        The surfaces; the last row and column are zero.
    """

    base: BinModel | IndicatorModel
    pairs: NDArray[np.int64]
    levels: NDArray[np.uint8]
    values: FloatArray
    heights: FloatArray

    @property
    def intercept(self) -> FloatArray:
        """Constants of the decision functions, shape (n_functions,)."""
        return self.base.intercept

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.base.n_features

    def make_constant(self, intercept: FloatArray) -> "PairModel":
        """Return a model with the same bins, zero curves and surfaces, and the given constants."""
        return replace(
            self, base=self.base.make_constant(intercept), heights=np.zeros_like(self.heights)
        )

    def decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Compute decision values, shape (n, n_functions)."""
        return self.base.decide(X, n_jobs) + self.pair_contributions(X).sum(axis=2)

    def contributions(self, X: Any) -> FloatArray:
        """Compute the shares of features, then of pairs, (n, n_functions, n_features + n_pairs)."""
        return np.concatenate([self.base.contributions(X), self.pair_contributions(X)], axis=2)

    def curve(self, feature: int, values: FloatArray) -> FloatArray:
        """Compute the curves of one feature at some values, shape (n_functions, n_values)."""
        return self.base.curve(feature, values)

    def pair_contributions(self, X: Any) -> FloatArray:
        out = np.empty((X.shape[0], len(self.heights), len(self.pairs)))
        start = 0
        for part in row_chunks(X):
            rows = slice(start, start + part.shape[0])
            for k, pair in enumerate(self.pairs):
                at = [
                    self.levels[k, side][self._encode(part, int(feature))]
                    for side, feature in enumerate(pair)
                ]
                out[rows, :, k] = self.heights[:, k, at[0], at[1]].T
            start = rows.stop
        return out

    def _encode(self, X: Any, feature: int) -> NDArray[Any]:
        """Return the codes of the values of a feature."""
        column = X[:, [feature]].toarray()[:, 0] if sparse.issparse(X) else X[:, feature]
        base = self.base
        if isinstance(base, BinModel):
            return encode_feature(base.quantiser, feature, column)
        assert isinstance(base.base, BinModel)
        is_missing = np.isnan(column)
        filled = np.where(is_missing, 0.0, column)
        n_known = base.offsets[feature + 1] - base.offsets[feature]
        if n_known:
            codes: NDArray[Any] = np.minimum(filled, n_known).astype(np.intp)
        else:
            codes = encode_feature(base.base.quantiser, feature, filled).astype(np.intp)
        codes[is_missing] = self.levels.shape[2] - 1
        return codes
