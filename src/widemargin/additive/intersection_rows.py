"""Codes as rows for the intersection kernel: with a value for every bin, or for codes that occur.

And codes as numbers for the linear kernel, with which the intersection kernel is compared. All are
representations in the sense of `representations`, without the way back from a model.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import (
    FloatArray,
    Rows,
    bin_rows,
    costs_of_kinds,
    draw_indicators,
    find_indicators,
    number_rows,
    sum_over_codes,
)
from widemargin.additive.coded_rows_fast import MOST_LANES
from widemargin.additive.codes import Codes
from widemargin.additive.curves import BinModel
from widemargin.additive.knot_model import KnotModel
from widemargin.additive.knots import KnotTree, find_knots, grow_tree, list_rows
from widemargin.additive.quantiser import Quantiser

#: Most numbers for a stored value with which rows are listed to save time. A number takes eight bytes.
MOST_NUMBERS = 3.0
#: Nanoseconds of ten passes for each number: of one class, and of each group of classes.
ALONE_COST, GROUP_COST = 15.0, 50.0
#: Tables are sparse if dense ones have more values than this, and this many times as many as there are
#: knots.
DENSE_VALUES, SPARSE_SHARE = 2**20, 2.0


class BinTables:
    """Codes with a value of the decision curve for every bin: the table T of ICD (Eq. 8 and 9).

    Parameters
    ----------
    codes : Codes
        Codes of the training data.
    quantiser : Quantiser
        The bins.
    offsets : ndarray of shape (n_features + 1,)
        Where the curve of each feature begins.
    extra : tuple of two ndarrays of shape (n, n_extra)
        Extra numbers of each row, see `constants`.
    dtype : type
        Type of the curves.
    """

    def __init__(
        self,
        codes: Codes,
        quantiser: Quantiser,
        offsets: NDArray[np.int64],
        extra: tuple[FloatArray, FloatArray],
        dtype: type,
    ) -> None:
        levels = np.arange(quantiser.n_bins, dtype=np.float64)
        ones = np.ones(codes.n_features)
        self.quantiser, self.levels = quantiser, levels
        self.is_indicator = find_indicators(codes, offsets)
        self.rows = bin_rows(
            codes, offsets, levels, ones, extra, dtype, is_indicator=self.is_indicator
        )
        self.norms = sum_over_codes(codes, levels, ones) + self.rows.n_extra

    def make_model(self, coef: NDArray[Any], intercept: FloatArray) -> BinModel:
        """Make the model with these curves."""
        draw_indicators(self.rows.offsets, self.is_indicator, coef)
        return BinModel(self.quantiser, self.rows.offsets, coef, intercept)


class KnotTables:
    """Codes with a value of the decision curve for every distinct code of a feature: sparse tables.

    Parameters
    ----------
    bins : BinTables
        The same data with dense tables.
    tree : KnotTree
        The functions at the codes that occur.
    """

    def __init__(self, bins: BinTables, tree: KnotTree) -> None:
        self.quantiser, self.tree = bins.quantiser, tree
        self.rows, self.norms = list_rows(bins.rows, tree), bins.norms

    def make_model(self, coef: NDArray[Any], intercept: FloatArray) -> KnotModel:
        """Make the model with these coefficients of the functions."""
        knots, heights = self.tree.knots, self.tree.heights(coef)
        return KnotModel(self.quantiser, knots.offsets, knots.codes, heights, intercept)


class LinearTables:
    """Codes as numbers, for the linear kernel: the decision curves are straight lines.

    The numbers are codes divided by the root of the largest, so that the kernel of two codes is at
    most the intersection kernel, and equal to it at the largest code.

    Parameters
    ----------
    codes, quantiser, extra, dtype
        As in `BinTables`.
    """

    def __init__(
        self,
        codes: Codes,
        quantiser: Quantiser,
        extra: tuple[FloatArray, FloatArray],
        dtype: type,
    ) -> None:
        last = quantiser.n_bins - 1
        self.quantiser, self.largest = quantiser, np.sqrt(last)
        numbers = np.arange(quantiser.n_bins) / self.largest
        self.rows = number_rows(codes, numbers, extra, dtype)
        squares = codes.to_csr(np.square(numbers))
        self.norms = np.asarray(squares.sum(axis=1)).ravel() + self.rows.n_extra

    def make_model(self, coef: NDArray[Any], intercept: FloatArray) -> KnotModel:
        """Make the model with these slopes: each feature has one knot, at the largest code."""
        d, last = coef.shape[1], self.quantiser.n_bins - 1
        knots: NDArray[Any] = np.full(d, last, self.quantiser.dtype)
        heights = np.ascontiguousarray(coef.T * coef.dtype.type(self.largest))
        return KnotModel(self.quantiser, np.arange(d + 1), knots, heights, intercept)


def choose_tables(codes: Codes, bins: BinTables, n_problems: int) -> BinTables | KnotTables:
    """Return tables with values for all bins, or for codes that occur if that saves memory or time."""
    if not codes.is_sparse:
        return bins
    knots = find_knots(codes, len(bins.levels))
    n_values = int(bins.rows.offsets[-1]) * n_problems
    is_sparse = n_values > max(DENSE_VALUES, SPARSE_SHARE * len(knots.codes) * n_problems)
    tree = grow_tree(knots, bins.levels)
    if is_sparse or lists_pay(bins.rows, tree, n_problems):
        return KnotTables(bins, tree)
    return bins


def lists_pay(rows: Rows, tree: KnotTree, n_problems: int) -> bool:
    """Return whether a descent on listed numbers is expected to be the fastest."""
    per_value = tree.count_numbers() / max(len(rows.codes), 1)
    cost = per_value * (
        ALONE_COST if n_problems == 1 else GROUP_COST * -(-n_problems // MOST_LANES)
    )
    return per_value <= MOST_NUMBERS and cost < min(costs_of_kinds(rows, n_problems).values())
