"""The model of `IntersectionSVC` with sparse tables: curves given at the codes that occur."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.coded_rows import DECIDE_ROWS, FloatArray
from widemargin.additive.curves import BinModel, encode_feature, in_chunks
from widemargin.additive.knots_fast import sum_heights
from widemargin.additive.quantiser import Quantiser
from widemargin.kernels.base import check_width
from widemargin.parallel import open_workers


@dataclass(frozen=True)
class KnotModel:
    """Sum of curves that are straight lines between knots, for the intersection kernel.

    A curve is zero at code 0, and constant behind its last knot. A feature without knots adds nothing.

    Attributes
    ----------
    quantiser : Quantiser
        The bins.
    offsets : ndarray of shape (n_features + 1,)
        Position of the first knot of each feature.
    knots : ndarray of shape (n_knots,)
        Codes of the knots, above zero and ascending for each feature.
    heights : ndarray of shape (n_knots, n_functions)
        Values of the curves there, in the precision of the fit.
    intercept : ndarray of shape (n_functions,)
        Constants of the decision functions.
    """

    quantiser: Quantiser
    offsets: NDArray[np.int64]
    knots: NDArray[Any]
    heights: NDArray[Any]
    intercept: FloatArray

    def make_constant(self, intercept: FloatArray) -> "KnotModel":
        """Return a model with the same bins, zero curves and the given constants."""
        return replace(self, heights=np.zeros_like(self.heights), intercept=intercept)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.offsets) - 1

    @property
    def n_functions(self) -> int:
        """Number of decision functions."""
        return self.heights.shape[1]

    def decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Compute decision values, shape (n, n_functions)."""
        check_width(X.shape[1], self.n_features)
        return in_chunks(X, lambda part: self._decide(part, n_jobs), self.n_functions)

    def _decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        codes = self.quantiser.encode(X, is_whole=self.quantiser.zero_code != 0)
        out = np.tile(self.intercept, (len(codes), 1))

        def decide_piece(first: int, last: int) -> None:
            sum_heights(
                codes.values, codes.gaps, not codes.is_sparse, codes.indptr, self.offsets,
                self.knots, self.heights, first, last, out,
            )  # fmt: skip

        with open_workers(n_jobs) as workers:
            workers.run(len(out), decide_piece, grain=DECIDE_ROWS)
        return out

    def contributions(self, X: Any) -> FloatArray:
        """Compute the share of each feature in each decision, (n, n_functions, n_features)."""
        X = X.tocsc() if sparse.issparse(X) else X
        adds_nothing = self.quantiser.zero_code == 0
        out = np.zeros((X.shape[0], self.n_functions, self.n_features))
        for j in np.flatnonzero(np.diff(self.offsets)):
            values = X[:, [j]].toarray() if sparse.issparse(X) else X[:, [j]]
            if not adds_nothing or values.any():
                out[:, :, j] = self.curve(int(j), values[:, 0]).T
        return out

    def curve(self, feature: int, values: FloatArray) -> FloatArray:
        """Compute the curves of one feature at some values, shape (n_functions, n_values)."""
        some = slice(*self.offsets[feature : feature + 2])
        codes = encode_feature(self.quantiser, feature, values)
        knots = np.concatenate([[0], self.knots[some]])
        heights = np.vstack([np.zeros(self.n_functions), self.heights[some]])
        return np.array([np.interp(codes, knots, height) for height in heights.T])

    def to_bins(self) -> BinModel:
        """Return the same model with a value for every bin up to the largest knot of each feature."""
        n_knots = np.diff(self.offsets)
        feature = np.repeat(np.arange(self.n_features), n_knots)
        largest = np.zeros(self.n_features, np.int64)
        largest[n_knots > 0] = self.knots[self.offsets[1:][n_knots > 0] - 1]
        offsets = np.concatenate([[0], np.cumsum(largest + 1)])
        # The end of a curve and the zero of the next are neighbours: no line connects them.
        places = np.concatenate([offsets[:-1], offsets[feature] + self.knots])
        order = np.argsort(places)
        curves: NDArray[Any] = np.empty((self.n_functions, offsets[-1]), self.heights.dtype)
        for c in range(self.n_functions):
            heights = np.concatenate([np.zeros(self.n_features), self.heights[:, c]])
            curves[c] = np.interp(np.arange(offsets[-1]), places[order], heights[order])
        return BinModel(self.quantiser, offsets, curves, self.intercept)

    def full_curves(self) -> FloatArray:
        """Return all curves at all bins, shape (n_functions, n_features, n_bins)."""
        return self.to_bins().full_curves()
