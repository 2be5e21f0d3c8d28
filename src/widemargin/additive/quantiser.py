"""One quantiser for all additive models: feature values to small integers, fitted once."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.codes import CHUNK_DENSE, Codes, chunk_rows, encode_matrix
from widemargin.additive.quantiser_fast import encode_rows, encode_values
from widemargin.kernels.base import check_width

#: Integer features with values up to this are used as they are.
MAX_COUNT = 4095

#: Features have different units if the widest range is more than ten times the lower quartile of the
#: ranges. Of many features in one unit, such as words, some are always narrow: then it must also be
#: more than so many times with the root of the number of features.
WIDE, WIDE_OF_MANY = 10.0, 5.0
#: Features begin far from zero if a quarter of them begin beyond this share of their own range.
FAR = 0.2
#: Largest value below which features are scaled: their kernel values would drown beside the constant
#: that makes the intercept.
TINY = 1e-6

SPACINGS = ("auto", "uniform", "sqrt", "quantile")


@dataclass(frozen=True)
class Quantiser:
    """Bins of feature values: one grid on the unit interval, moved and stretched for each feature.

    A value v of feature j has the position ``(v - low[j]) / span[j]``, clipped to the interval from
    zero to ``ends[j]``, and the code of the grid point it is rounded to (or, with ``cut``, of the last
    one not above).
    Values beyond the range seen in training count as its end.

    Attributes
    ----------
    low, span : ndarray of shape (n_features,)
        Range of each feature.
    grid : ndarray of shape (n_bins,)
        Positions of the bins, from 0 to 1.
    spacing : {"uniform", "sqrt", "quantile"}
        How the grid was made: ``"sqrt"`` is uniform in the square root, finer near zero.
    cut : bool
        Whether positions are cut off, not rounded.
    ends : ndarray of shape (n_features,) or None
        Position of the largest value of each feature in training; None if it is 1.
    """

    low: NDArray[np.float64]
    span: NDArray[np.float64]
    grid: NDArray[np.float64]
    spacing: str
    cut: bool = False
    ends: NDArray[np.float64] | None = None

    @property
    def n_bins(self) -> int:
        """Number of codes."""
        return len(self.grid)

    @property
    def dtype(self) -> type:
        """Smallest type that holds every code."""
        return np.min_scalar_type(self.n_bins - 1).type

    def values(self, feature: int) -> NDArray[np.float64]:
        """Feature values of all bins, in the feature's own unit."""
        return self.low[feature] + self.span[feature] * self.grid

    def narrow(self, n_features: int) -> "Quantiser":
        """Return the quantiser of the first features alone."""
        return self.take(np.arange(n_features))

    def take(self, features: NDArray[np.intp]) -> "Quantiser":
        """Return the quantiser of some features."""
        ends = None if self.ends is None else self.ends[features]
        return replace(self, low=self.low[features], span=self.span[features], ends=ends)

    def last_codes(self) -> NDArray[np.int64]:
        """Return the code of the largest value of each feature in training."""
        last = np.full(len(self.low), self.n_bins - 1)
        if self.ends is None:
            return last
        return np.asarray(np.rint(self.ends * last), np.int64)

    @property
    def zero_code(self) -> int:
        """Code of the value zero, which sparse data leave out, or -1 if features differ in it."""
        zeros = np.unique(self.encode(np.zeros((1, len(self.low)))).values)
        return int(zeros[0]) if len(zeros) == 1 else -1

    def encode(self, X: Any, *, is_whole: bool = False) -> Codes:
        """Codes of dense or CSR data; of the latter only the stored values, unless ``is_whole``."""
        check_width(X.shape[1], len(self.low))
        return encode_matrix(X, self, is_whole=is_whole)

    def encode_rows(self, X: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the codes of dense rows to ``out``."""
        if self.spacing == "quantile":
            out[:] = self._nearest((X - self.low) / self.span)
        else:
            rows = np.ascontiguousarray(X, np.result_type(X.dtype, np.float32))
            encode_rows(rows, *self._formula, out)

    def encode_stored(self, data: NDArray[Any], columns: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the codes of some values to ``out``; ``columns`` holds their features."""
        if self.spacing == "quantile":
            out[:] = self._nearest((data - self.low[columns]) / self.span[columns])
        else:
            encode_values(data, columns, *self._formula, out)

    @property
    def _formula(self) -> tuple[Any, ...]:
        shift, last = 0.0 if self.cut else 0.5, float(self.n_bins - 1)
        ends = np.ones(len(self.low)) if self.ends is None else self.ends
        return self.low, 1.0 / self.span, ends, self.spacing == "sqrt", shift, last

    def _nearest(self, positions: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.searchsorted(0.5 * (self.grid[1:] + self.grid[:-1]), positions)


@dataclass(frozen=True)
class Ranges:
    """What is known of the features after one pass over the data.

    Attributes
    ----------
    low, high : ndarray of shape (n_features,)
        Smallest and largest value of each feature; the zeros of sparse data count.
    is_integer : bool
        Whether all values are whole numbers.
    is_sparse : bool
        Whether zeros were left out.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    is_integer: bool
    is_sparse: bool = False

    def take(self, features: NDArray[Any]) -> "Ranges":
        """Return the ranges of some features, given by numbers or by a mask."""
        return replace(self, low=self.low[features], high=self.high[features])

    @property
    def are_counts(self) -> bool:
        """Whether every value may be its own code."""
        return self.is_integer and bool(self.low.min() >= 0.0) and self.high.max() <= MAX_COUNT

    def have_one_unit(self, *, of_many: float = WIDE_OF_MANY) -> bool:
        """Return whether the features may have one unit, as pixels and histograms have.

        Features of sparse data count as such. Constant features do not matter. ``of_many`` is the
        limit of many features.
        """
        widths = self.widths[self.widths > 0.0]
        if self.is_sparse or len(widths) == 0:
            return True
        limit = max(WIDE, of_many * len(widths) ** 0.5)
        return bool(widths.max() <= limit * np.quantile(widths, 0.25, method="lower"))

    def begin_far_from_zero(self) -> bool:
        """Return whether many features begin far above zero, as measurements may."""
        is_varied = self.widths > 0.0
        if self.is_sparse or not is_varied.any():
            return False
        begins = self.low[is_varied] / self.widths[is_varied]
        return bool(np.quantile(begins, 0.75, method="higher") > FAR)

    @property
    def widths(self) -> NDArray[np.float64]:
        """Difference of the largest and the smallest value of each feature."""
        return self.high - self.low


def choose_scaling(
    scaling: str | None, ranges: Ranges, *, numbers: Ranges | None = None, of_bins: bool = False
) -> str | None:
    """Return what ``scaling`` means for features of these ranges.

    ``"auto"`` means ``"range"``, None, or ``"max"`` for tiny features. If only bins are chosen
    (``of_bins``), which begin at the smallest value anyway, ``"max"`` is their own ranges. ``numbers``
    has the ranges of those features that may begin far from zero; default all.
    """
    if scaling != "auto":
        return scaling
    numbers = ranges if numbers is None else numbers
    if not of_bins and (not ranges.have_one_unit() or numbers.begin_far_from_zero()):
        return "range"
    # In bins of one range for all features, narrow ones would have few.
    is_one = ranges.have_one_unit(of_many=WIDE_OF_MANY if ranges.are_counts else 0.0)
    is_tiny = 0.0 < ranges.high.max() < TINY
    return "max" if is_tiny or (of_bins and not is_one) else None


def measure_ranges(chunks: Iterable[Any]) -> Ranges:
    """Ranges of the features over blocks of rows, dense or CSR."""
    return reduce(join_ranges, map(_measure, chunks))


def _measure(X: Any) -> Ranges:
    low, high = X.min(axis=0), X.max(axis=0)
    values = X
    if sparse.issparse(X):
        low, high, values = low.toarray().ravel(), high.toarray().ravel(), X.data
    is_integer = values.dtype.kind in "iu" or bool((values == np.floor(values)).all())
    return Ranges(low.astype(np.float64), high.astype(np.float64), is_integer, sparse.issparse(X))


def join_ranges(a: Ranges, b: Ranges) -> Ranges:
    """Ranges over the data of both."""
    return Ranges(
        np.minimum(a.low, b.low), np.maximum(a.high, b.high), a.is_integer and b.is_integer,
        a.is_sparse or b.is_sparse,
    )  # fmt: skip


def row_chunks(X: Any) -> Iterable[Any]:
    """Blocks of rows of a matrix."""
    step = chunk_rows(X.shape[1])
    return (X[start : start + step] for start in range(0, X.shape[0], step))


def measured_chunks(X: Any) -> Iterable[Any]:
    """Blocks of rows of a matrix whose ranges are measured at a time.

    The ranges of a block of sparse rows take time and memory in proportion to the features, so such
    blocks have several stored values for each feature.
    """
    if not sparse.issparse(X):
        return row_chunks(X)
    per_row = X.nnz / max(X.shape[0], 1)
    step = max(1, int(4 * max(CHUNK_DENSE, X.shape[1]) / max(per_row, 1.0)))
    return (X[start : start + step] for start in range(0, X.shape[0], step))


def fit_quantiser(
    ranges: Ranges,
    n_bins: int,
    spacing: str,
    *,
    per_feature: bool,
    from_lowest: bool = False,
    X: Any = None,
    weights: Any = None,
) -> Quantiser:
    """Bins for features within some ranges.

    Parameters
    ----------
    ranges : Ranges
        Of the training data.
    n_bins : int
        Bins wanted; whole numbers up to `MAX_COUNT` get one each with ``spacing="auto"``, if they
        are not negative.
    spacing : str
        One of `SPACINGS`; ``"auto"`` is counts if possible, else ``"sqrt"`` from zero or ``"uniform"``
        where values are negative.
    per_feature : bool
        Whether every feature has its own range; else all share the widest.
    from_lowest : bool
        Whether the bins of a feature begin at its smallest value; else they begin at zero.
    X, weights
        Data and weights of the rows, for quantiles.
    """
    low, high = ranges.low, ranges.high
    if not from_lowest:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    largest = float((high - low).max())
    if spacing == "auto" and ranges.is_integer and low.min() >= 0 and 1 <= largest <= MAX_COUNT:
        n_counts = int(largest) + 1
        spans, grid = np.full(len(low), largest), np.arange(n_counts) / largest
        return Quantiser(low, spans, grid, "uniform", ends=(high - low) / largest)
    if not per_feature:
        low, high = np.full_like(low, low.min()), np.full_like(high, high.max())
    span = np.where(high > low, high - low, 1.0)
    steps = np.linspace(0.0, 1.0, n_bins)
    if spacing == "quantile":
        return Quantiser(low, span, _quantile_grid(X, low, span, weights, n_bins), "quantile")
    if spacing == "sqrt" or (spacing == "auto" and low.min() >= 0):
        return Quantiser(low, span, steps**2, "sqrt")
    return Quantiser(low, span, steps, "uniform")


def _quantile_grid(
    X: Any, low: NDArray[np.float64], span: NDArray[np.float64], weights: Any, n_bins: int
) -> NDArray[np.float64]:
    """Grid with as many positive values, scaled by feature, in every bin; the ends are kept."""
    if sparse.issparse(X):
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        positions, weight = (X.data - low[X.indices]) / span[X.indices], weights[rows]
    else:
        positions = ((X - low) / span).ravel()
        weight = np.repeat(weights, X.shape[1])
    inside = (positions > 0) & (positions < 1)
    positions, weight = positions[inside], weight[inside]
    if len(positions) == 0:
        return np.linspace(0.0, 1.0, n_bins)
    middle = weighted_quantiles(positions, weight, np.linspace(0.0, 1.0, n_bins - 2))
    return np.unique(np.concatenate([[0.0], middle, [1.0]]))


def weighted_quantiles(
    values: NDArray[np.float64], weights: NDArray[np.float64] | None, levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Least values with at least the share ``levels`` of the weight at or below them.

    A weight of two equals a repeated value; None if all weigh the same.
    """
    if weights is None or (weights == weights[0]).all():
        # Values need not be sorted to find a few of them.
        at = np.ceil(levels * len(values) * (1.0 - 1e-12)).astype(np.intp) - 1
        at = np.clip(at, 0, len(values) - 1)
        return np.asarray(np.partition(values, np.unique(at))[at])
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    # Rounding of the sums must not push a level past the value it belongs to.
    at = np.searchsorted(below, levels * below[-1] * (1.0 - 1e-12))
    return np.asarray(values[order[np.minimum(at, len(order) - 1)]])
