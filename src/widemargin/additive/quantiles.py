"""Exact quantiles of data that may be mapped from a file, and the bins of ICD that end at one."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.quantiser import MAX_COUNT, Quantiser, Ranges, weighted_quantiles
from widemargin.additive.quantiser_fast import weigh_digits

#: Number of values that are processed at a time.
BLOCK_VALUES = 2**18
#: Number of bits of the result that one pass over the data finds.
DIGIT_BITS = 16
#: Largest number of values that are copied.
COPIED_VALUES = 2**21

#: Returns the quantiles of some features, given by number, or that of all values together for None.
#: The second argument has a number for each quantile; values up to it are ignored.
FindQuantiles = Callable[[Sequence[int] | None, NDArray[np.float64]], NDArray[np.float64]]


def fit_clipped_bins(ranges: Ranges, n_bins: int, find: FindQuantiles) -> Quantiser:
    """Return the bins of ICD: one for each whole number of counts, else those of ICD Eq. 13.

    All features have the same bins. The last bin begins at the quantile of all values.
    """
    low, high = float(ranges.low.min()), float(ranges.high.max())
    d = len(ranges.low)
    if ranges.is_integer and low >= 0 and 1 <= high <= MAX_COUNT:
        return Quantiser(np.zeros(d), np.full(d, high), np.arange(high + 1) / high, "uniform")
    (top,) = _find_tops(find, None, np.array([low]), np.array([high]))
    # ICD Eq. 13, with v_min = low and v_max = top.
    span = top - low if top > low else 1.0
    grid = np.linspace(0.0, 1.0, n_bins + 1)
    return Quantiser(np.full(d, low), np.full(d, span), grid, "uniform", cut=True)


def fit_own_bins(ranges: Ranges, n_bins: int, find: FindQuantiles) -> Quantiser:
    """Return bins of ICD Eq. 13 for each feature, from its smallest value to its own quantile."""
    low = ranges.low
    top = _find_tops(find, list(range(len(low))), low, ranges.high)
    span = np.where(top > low, top - low, 1.0)
    return Quantiser(low, span, np.linspace(0.0, 1.0, n_bins + 1), "uniform", cut=True)


def _find_tops(
    find: FindQuantiles,
    columns: list[int] | None,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the quantiles where bins end; ``low`` and ``high`` are the ranges of the values."""
    top = find(columns, np.full(len(low), -np.inf))
    # Where most values are the smallest, or zero, the quantile of the other values is needed.
    again = np.flatnonzero(((top == low) | (top == 0.0)) & (high > top))
    if len(again):
        some = None if columns is None else [columns[k] for k in again]
        top[again] = find(some, top[again])
    return top


def find_quantiles(
    X: Any,
    weights: NDArray[np.float64],
    share: float,
    columns: Sequence[int] | None,
    above: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the quantiles of some columns, or of all values; see `find_quantile`."""
    chosen = [X] if columns is None else (X[:, [j]] for j in columns)
    return np.array(
        [
            find_quantile(some, weights, share, least)
            for some, least in zip(chosen, above, strict=True)
        ]
    )


def find_quantile(
    X: Any, weights: NDArray[np.float64], share: float, above: float = -np.inf
) -> float:
    """Return the least value with at least the given share of all weight at or below it.

    Zeros of sparse data count. This is a radix selection: values are mapped to integers in the same
    order, and each pass over the data finds one digit of the result. Few values are copied and
    partitioned instead, which is faster.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n_samples, n_features)
        Data.
    weights : ndarray of shape (n_samples,)
        Weights of the rows; a weight of two is the same as a row given twice.
    share : float
        Share of the weight, above 0.
    above : float
        Values up to this one are ignored. There must be larger ones.
    """
    if X.shape[0] * X.shape[1] <= COPIED_VALUES:
        return _select_copied(X, weights, share, above)
    kind = _float_type(X)

    def weigh(prefixes: list[int], shift: int) -> NDArray[np.float64]:
        return weigh_digits_of(X, weights, kind, above, prefixes[0], shift)[None]

    return float(select_quantiles(weigh, 1, kind, share)[0])


def select_quantiles(
    weigh: Callable[[list[int], int], NDArray[np.float64]],
    n_quantiles: int,
    kind: np.dtype[Any],
    share: float,
) -> NDArray[np.float64]:
    """Return the least values with at least the given share of the weight at or below them.

    Parameters
    ----------
    weigh : callable
        Given the first digits of the keys, one number for each quantile, and the bit at which the next
        digit begins, returns the weight of every next digit, an array of shape (n_quantiles,
        2**DIGIT_BITS).
    n_quantiles : int
        Number of quantiles that are found together.
    kind : dtype
        float32 or float64, the type of the values.
    share : float
        Share of the weight, above 0.
    """
    n_bits = 8 * kind.itemsize
    prefixes, wanted = [0] * n_quantiles, np.full(n_quantiles, np.nan)
    for shift in range(n_bits - DIGIT_BITS, -1, -DIGIT_BITS):
        for k, found in enumerate(weigh(prefixes, shift)):
            below = np.cumsum(found)
            if np.isnan(wanted[k]):
                # Rounding errors of the sums must not lead to the next larger value.
                wanted[k] = share * below[-1] * (1.0 - 1e-12)
            digit = min(np.searchsorted(below, wanted[k]), np.flatnonzero(found)[-1])
            wanted[k] -= below[digit] - found[digit]
            prefixes[k] = prefixes[k] << DIGIT_BITS | int(digit)
    return np.array([_value_of_key(prefix, n_bits) for prefix in prefixes])


def _select_copied(X: Any, weights: NDArray[np.float64], share: float, above: float) -> float:
    blocks = list(_value_blocks(X, weights, _float_type(X)))
    values = np.concatenate([values for values, _, _ in blocks]).astype(np.float64)
    are_equal = not sparse.issparse(X) and bool((weights == weights[0]).all())
    weight = None
    if not are_equal:
        weight = np.concatenate([np.repeat(w, np.diff(ends, prepend=0)) for _, ends, w in blocks])
    if above > -np.inf:
        counted = values > above
        values, weight = values[counted], None if weight is None else weight[counted]
    return float(weighted_quantiles(values, weight, np.array([share]))[0])


def weigh_digits_of(
    X: Any,
    weights: NDArray[np.float64],
    float_type: np.dtype[Any],
    above: float,
    prefix: int,
    shift: int,
) -> NDArray[np.float64]:
    """Return the weight of every digit at bit ``shift``, among keys that begin with ``prefix``.

    The keys are those of the values of X above a number, as ``float_type``.
    """
    found = np.zeros(2**DIGIT_BITS)
    kind = np.dtype(f"u{float_type.itemsize}").type
    every = np.iinfo(kind).max
    sign = every // 2 + 1
    lowest = _key_of_value(above, kind, sign, every)
    for values, ends, weight in _value_blocks(X, weights, float_type):
        weigh_digits(
            values.view(kind), ends, weight, kind(sign), kind(every), kind(lowest), kind(prefix),
            kind(shift), kind(2**DIGIT_BITS - 1), kind(DIGIT_BITS), found,
        )  # fmt: skip
    return found


def _value_blocks(
    X: Any, weights: NDArray[np.float64], float_type: np.dtype[Any]
) -> Iterator[tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64]]]:
    """Yield values, the ends of their rows, and weights; all zeros of sparse data are one value."""
    n_rows, n_features = X.shape
    per_row = -(-X.nnz // max(n_rows, 1)) if sparse.issparse(X) else n_features
    step = max(1, BLOCK_VALUES // max(per_row, 1))
    n_zeros = 0.0
    for start in range(0, n_rows, step):
        rows, weight = X[start : start + step], weights[start : start + step]
        n_values = np.diff(rows.indptr) if sparse.issparse(X) else np.full(len(rows), n_features)
        values = rows.data if sparse.issparse(X) else rows.ravel()
        n_zeros += float(weight @ (n_features - n_values))
        yield values.astype(float_type, copy=False), np.cumsum(n_values), weight
    if n_zeros:
        yield np.zeros(1, float_type), np.ones(1, np.int64), np.array([n_zeros])


def _float_type(X: Any) -> np.dtype[Any]:
    return np.result_type(X.dtype, np.float32)


def _key_of_value(value: float, kind: type, sign: int, every: int) -> int:
    """Return the unsigned integer of a value in the order of the values.

    The sign bit of positive values is inverted, and all bits of negative ones.
    """
    bits = int(np.array(value + 0.0, f"f{np.dtype(kind).itemsize}").view(kind))
    return bits ^ every if bits & sign else bits ^ sign


def _value_of_key(key: int, n_bits: int) -> float:
    sign = 1 << (n_bits - 1)
    bits = key ^ sign if key & sign else key ^ (2 * sign - 1)
    return float(np.array(bits, f"u{n_bits // 8}").view(f"f{n_bits // 8}"))
