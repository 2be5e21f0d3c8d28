"""Levels of a feature that takes part in pairs: merged numbers, a missing value, categories.

A feature has at most 16 levels in all its pairs. Neighbouring numbers share a level, and so do the
categories beyond the most frequent ones. A missing value has a level of its own if the feature has
missing values in training. Categories that were not seen in training have none, and add nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import FloatArray
from widemargin.additive.codes import Codes
from widemargin.additive.curves import encode_feature
from widemargin.additive.indicator_columns import IndicatorColumns
from widemargin.additive.quantiser import Quantiser
from widemargin.additive.scalar_kernels import ScalarKernel

#: Most levels of a feature of a pair; this number itself stands for values that add nothing.
N_LEVELS = 16


@dataclass(frozen=True)
class FeatureLevels:
    """Levels of one feature.

    Attributes
    ----------
    of_code : ndarray of uint8 of shape (n_codes,)
        The level of every code: of a bin, or of a category by its number. The code behind the last
        category stands for unknown ones, and the last code of all for missing values.
    values : ndarray of shape (n_levels,)
        What the levels stand for: numbers as the model sees them or numbers of categories; infinite
        for the categories that share a level, and NaN for missing values.
    shares : ndarray of shape (n_levels,)
        Share of the weight of each level.
    kernel : ndarray of shape (n_levels, n_levels)
        Kernel between the levels.
    rows : ndarray of uint8 of shape (n,)
        Levels of the training rows.
    """

    of_code: NDArray[np.uint8]
    values: FloatArray
    shares: FloatArray
    kernel: FloatArray
    rows: NDArray[np.uint8]


class LevelMaker:
    """Chooses the levels of features.

    Parameters
    ----------
    kernel : ScalarKernel
        The kernel of two numbers, homogeneous.
    quantiser : Quantiser
        The bins of all columns: of features, and of the indicators behind them.
    codes : Codes
        Codes of the rows; those that are left out are zero.
    weights : ndarray of shape (n,)
        Weights of the rows.
    scales : ndarray of shape (n_columns,)
        Factor on the kernel of each column, of which only the proportions matter.
    columns : IndicatorColumns
        What the columns behind the features are.
    """

    def __init__(
        self,
        kernel: ScalarKernel,
        quantiser: Quantiser,
        codes: Codes,
        weights: FloatArray,
        scales: FloatArray,
        columns: IndicatorColumns,
    ) -> None:
        self.kernel, self.quantiser, self.columns = kernel, quantiser, columns
        self.codes, self.weights = codes, weights
        # Products of tiny scales would vanish.
        self.scales = scales / scales.max()
        self.n_codes = max(quantiser.n_bins, int(columns.sizes.max(initial=0)) + 1) + 1
        self._made: dict[int, FeatureLevels] = {}
        #: Codes that are stored, by columns.
        self._stored: Any = None
        if codes.is_sparse:
            self._stored = codes.to_csr(np.arange(quantiser.n_bins, dtype=np.int32)).tocsc()

    def make(self, feature: int) -> FeatureLevels:
        """Return the levels of a feature."""
        if feature not in self._made:
            has_categories = self.columns.sizes[feature] > 0
            make = self._make_categories if has_categories else self._make_numbers
            self._made[feature] = self._add_missing(feature, make(feature))
        return self._made[feature]

    def fill_code(self, feature: int) -> int:
        """Return the code that a missing value of a feature of numbers counts as."""
        fill = self.columns.fills[[feature]]
        return int(encode_feature(self.quantiser, feature, fill)[0])

    def _read_codes(self, columns: Any) -> NDArray[Any]:
        """Return the codes of a column, or of several."""
        if self._stored is None:
            return self.codes.values.reshape(self.codes.shape)[:, columns]
        found = self._stored[:, columns].toarray()
        return found if isinstance(columns, slice) else found[:, 0]

    def _is_missing(self, feature: int) -> NDArray[np.bool_]:
        column = self.columns.missing_column(feature)
        if column is None:
            return np.zeros(len(self.codes), bool)
        return self._read_codes(column) > 0

    def _unit_kernel(self, column: int) -> float:
        """Return the kernel of an indicator with itself."""
        code = int(self._read_codes(column).max())
        at = self.quantiser.grid[[code]]
        return float(self.scales[column] * self.kernel(at, at)[0, 0])

    def _room(self, feature: int) -> int:
        """Return how many levels are left beside that of missing values."""
        return N_LEVELS - (self.columns.missing_column(feature) is not None)

    def _make_numbers(self, feature: int) -> FeatureLevels:
        grid, codes, present = (
            self.quantiser.grid,
            self._read_codes(feature),
            ~self._is_missing(feature),
        )
        of_bin, positions, shares = merge_codes(
            grid, codes[present], self.weights[present], self._room(feature)
        )
        of_code = np.full(self.n_codes, N_LEVELS, np.uint8)
        of_code[: len(grid)] = of_bin
        # Without missing values in training, one counts as the median.
        of_code[-1] = of_bin[self.fill_code(feature)]
        values = self.quantiser.low[feature] + self.quantiser.span[feature] * positions
        kernel = self.scales[feature] * self.kernel(positions, positions)
        return FeatureLevels(of_code, values, shares, kernel, of_bin[codes])

    def _make_categories(self, feature: int) -> FeatureLevels:
        own, room = self.columns.category_columns(feature), self._room(feature)
        n_known = own.stop - own.start
        is_one = self._read_codes(own) > 0
        sums: FloatArray = self.weights @ is_one
        level = np.arange(n_known)
        if n_known > room:
            kept = np.sort(np.argsort(-sums, kind="stable")[: room - 1])
            level[:] = room - 1
            level[kept] = np.arange(len(kept))
        shares: Any = np.bincount(level, sums / max(sums.sum(), 1e-300))
        sizes, firsts = np.bincount(level), np.unique(level, return_index=True)[1]
        values = np.where(sizes > 1, np.inf, firsts.astype(np.float64))
        own_kernels = np.array([self._unit_kernel(k) for k in range(own.start, own.stop)])
        kernels: Any = np.bincount(level, own_kernels) / sizes
        of_code = np.full(self.n_codes, N_LEVELS, np.uint8)
        of_code[:n_known] = level
        rows = level[is_one.argmax(axis=1)].astype(np.uint8)
        return FeatureLevels(of_code, values, shares, np.diag(kernels), rows)

    def _add_missing(self, feature: int, known: FeatureLevels) -> FeatureLevels:
        """Add a level of missing values, if the feature has some in training."""
        column = self.columns.missing_column(feature)
        if column is None:
            return known
        is_missing, n = self._is_missing(feature), len(known.values)
        share = float(self.weights[is_missing].sum() / self.weights.sum())
        # A missing number counts as the median, and has an indicator besides.
        beside = known.of_code[-1]
        kernel = np.zeros((n + 1, n + 1))
        kernel[:n, :n] = known.kernel
        if beside < n:
            kernel[n, :n] = kernel[:n, n] = known.kernel[beside]
            kernel[n, n] = known.kernel[beside, beside]
        kernel[n, n] += self._unit_kernel(column)
        of_code = known.of_code.copy()
        of_code[-1] = n
        return FeatureLevels(
            of_code, np.append(known.values, np.nan),
            np.append((1.0 - share) * known.shares, share), kernel,
            np.where(is_missing, n, known.rows).astype(np.uint8),
        )  # fmt: skip

    def add_to_curves(self, curves: FloatArray, feature: int, heights: FloatArray) -> None:
        """Add heights of the levels of a feature, (n_functions, n_levels), to curves, in place.

        The curves of all columns have the shape (n_functions, n_columns, n_bins). Between levels of
        numbers the curve is a straight line and has no steps.
        """
        levels, grid = self.make(feature), self.quantiser.grid
        column = self.columns.missing_column(feature)
        of_missing = np.zeros(len(heights))
        if column is not None:
            of_missing, heights = heights[:, -1], heights[:, :-1]
        if self.columns.sizes[feature]:
            own = self.columns.category_columns(feature)
            level = levels.of_code[: own.stop - own.start]
            curves[:, own, 1:] += heights[:, level, None]
        else:
            known = levels.values[: heights.shape[1]]
            positions = (known - self.quantiser.low[feature]) / self.quantiser.span[feature]
            lines = np.array([np.interp(grid, positions, row) for row in heights])
            curves[:, feature] += lines
            of_missing = of_missing - lines[:, self.fill_code(feature)]
        if column is not None:
            curves[:, column, 1:] += of_missing[:, None]


def merge_codes(
    grid: FloatArray, codes: NDArray[np.integer], weights: FloatArray, n_levels: int
) -> tuple[NDArray[np.uint8], FloatArray, FloatArray]:
    """Merge neighbouring codes to levels of similar weight: these, their positions and shares."""
    share = np.bincount(codes, weights, len(grid)) / weights.sum()
    group = np.minimum((np.cumsum(share) - 0.5 * share) * n_levels, n_levels - 1).astype(np.intp)
    present = np.flatnonzero(share)
    if len(present) <= n_levels:
        # Codes that do not occur belong to the next one that does.
        group = np.minimum(np.searchsorted(present, np.arange(len(grid))), len(present) - 1)
    else:
        known = np.unique(group[present])
        group = np.minimum(np.searchsorted(known, group), len(known) - 1)
    shares: Any = np.bincount(group, share)
    return group.astype(np.uint8), np.bincount(group, share * grid) / shares, shares
