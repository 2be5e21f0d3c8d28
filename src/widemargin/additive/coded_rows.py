"""Rows that the solvers read: from codes and tables, bins, numbers or a kernel matrix."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import code_sums_fast as sums
from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.codes import Codes
from widemargin.additive.primal_newton_fast import combine_rows, sum_minima, to_curves
from widemargin.kernels import Intersection, is_small
from widemargin.parallel import Workers

#: Largest number of rows for which the kernel matrix is kept.
MAX_GRAM_ROWS = 16_384
#: Fewest classes for which lanes pay.
LEAST_LANES = 3
#: Most classes of which each makes a pass that they share cheaper.
MOST_SHARING = 8
#: Bytes that memory is read by.
CACHE_LINE = 64
#: Rows of the kernel matrix that are computed at a time.
GRAM_ROWS = 256
#: Rows whose decision values a thread computes at a time.
DECIDE_ROWS = 256
#: Parts of the rows whose sums are added in float64.
SUMMED_PARTS = 16

FloatArray = NDArray[np.float64]


def table_rows(
    codes: Codes,
    read: FloatArray,
    write: FloatArray | None,
    scale: FloatArray,
    extra: tuple[FloatArray, FloatArray] | None,
    dtype: type,
) -> Rows:
    """Make rows from codes and tables.

    Parameters
    ----------
    codes : Codes
        Codes of the data.
    read, write : ndarray of shape (n_codes, rank)
        Numbers of each code; None for ``write`` if it is the same.
    scale : ndarray of shape (n_features,)
        Factor on the kernel of each feature.
    extra : pair of ndarray of shape (n_rows, n_extra), or None
        Numbers of each row beside its features: those that are read, and those that an update adds.
    dtype : type
        float32, or float64 for small problems and small tolerances.
    """
    rank = -(-read.shape[1] // 4) * 4
    padding = ((0, 0), (0, rank - read.shape[1]))
    flat: NDArray[Any] = np.pad(read, padding).ravel().astype(dtype)
    return _rows(
        kind=fast.SPARSE if codes.is_sparse else fast.DENSE, codes=codes, rank=rank, read=flat,
        write=flat if write is None else np.pad(write, padding).ravel().astype(dtype),
        scale=np.repeat(scale, rank).astype(dtype), extra=extra, dtype=dtype,
        is_symmetric=write is None,
    )  # fmt: skip


def bin_rows(
    codes: Codes,
    offsets: NDArray[np.int64],
    levels: FloatArray,
    scale: FloatArray,
    extra: tuple[FloatArray, FloatArray] | None,
    dtype: type,
    *,
    is_indicator: NDArray[np.bool_] | None = None,
) -> Rows:
    """Make rows for the intersection kernel.

    Parameters
    ----------
    codes : Codes
        Codes of the data.
    offsets : ndarray of shape (n_features + 1,)
        Position of the first bin of each feature.
    levels : ndarray of shape (n_codes,)
        Value of each code, ascending.
    scale : ndarray of shape (n_features,)
        Factor on the kernel of each feature.
    extra, dtype
        As in `table_rows`.
    is_indicator : ndarray of shape (n_features,), optional
        Features whose last bin alone is updated; see `find_indicators` and `draw_indicators`.
    """
    given = {} if is_indicator is None else {"is_indicator": is_indicator}
    return _rows(
        kind=fast.BINS, codes=codes, rank=1, offsets=offsets, read=levels.astype(dtype),
        scale=scale.astype(dtype), extra=extra, dtype=dtype, is_symmetric=True, **given,
    )  # fmt: skip


def find_indicators(codes: Codes, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which features have a single code beside zero."""
    largest = np.diff(offsets) - 1
    least = largest.copy()
    sums.least_codes(codes.values, codes.gaps, not codes.is_sparse, codes.indptr, least)
    return (least == largest) & (largest > 0)


def draw_indicators(
    offsets: NDArray[np.int64], is_indicator: NDArray[np.bool_], coef: NDArray[Any]
) -> None:
    """Replace the curves of indicators by straight lines from zero to their last bin, in place."""
    feature = np.repeat(np.arange(len(is_indicator)), np.diff(offsets))
    bins = np.flatnonzero(is_indicator[feature])
    first, last = offsets[feature[bins]], offsets[feature[bins] + 1] - 1
    coef[:, bins] = coef[:, last] * ((bins - first) / (last - first))


def plain_rows(read: NDArray[Any], write: NDArray[Any] | None) -> Rows:
    """Make rows of given numbers; None for ``write`` if it is the same as ``read``."""
    n, rank = read.shape
    return _rows(
        kind=fast.PLAIN, codes=_no_codes(n), rank=rank, plain_read=read.ravel(),
        plain_write=(read if write is None else write).ravel(), scale=np.ones(rank, read.dtype),
        dtype=read.dtype, is_symmetric=write is None,
    )  # fmt: skip


def number_rows(
    codes: Codes, numbers: FloatArray, extra: tuple[FloatArray, FloatArray], dtype: type
) -> Rows:
    """Make rows of one number for each code, for the linear kernel.

    Parameters
    ----------
    codes : Codes
        Codes of the data.
    numbers : ndarray of shape (n_codes,)
        Number of each code.
    extra, dtype
        As in `table_rows`.
    """
    if not codes.is_sparse:
        return _rows(
            kind=fast.PLAIN, codes=_no_codes(len(codes)), rank=codes.n_features, extra=extra,
            plain_read=(dense := numbers.astype(dtype)[codes.values]), plain_write=dense,
            scale=np.ones(codes.n_features, dtype), dtype=dtype, is_symmetric=True,
        )  # fmt: skip
    listed = codes.to_csr(numbers.astype(dtype))
    rows = _rows(
        kind=fast.LISTS, codes=_no_codes(len(codes)), rank=1, extra=extra, dtype=dtype,
        plain_read=listed.data, columns=listed.indices.astype(np.uint32), is_symmetric=True,
    )  # fmt: skip
    return rows._replace(
        indptr=listed.indptr.astype(np.int64), n_features=codes.n_features, is_whole=False
    )


def _no_codes(n_rows: int) -> Codes:
    return Codes(np.empty(0, np.uint8), np.empty(0, np.uint8), np.zeros(n_rows + 1, np.int64), 0)


def _rows(
    *, kind: int, codes: Codes, rank: int, dtype: Any, is_symmetric: bool, extra: Any = None,
    **arrays: Any,
) -> Rows:  # fmt: skip
    no_floats = np.empty(0, dtype)
    read, write = (np.empty((len(codes), 0)),) * 2 if extra is None else extra
    return Rows(
        kind=kind, codes=codes.values, gaps=codes.gaps, indptr=codes.indptr,
        n_features=codes.n_features, rank=rank,
        read=arrays.get("read", no_floats), write=arrays.get("write", no_floats),
        scale=arrays.get("scale", no_floats),
        plain_read=arrays.get("plain_read", no_floats),
        plain_write=arrays.get("plain_write", no_floats),
        columns=arrays.get("columns", np.empty(0, np.uint32)),
        n_extra=read.shape[1], extra_read=np.ascontiguousarray(read, dtype).ravel(),
        extra_write=np.ascontiguousarray(write, dtype).ravel(),
        offsets=arrays.get("offsets", np.empty(0, np.int64)),
        slopes=arrays.get("slopes", no_floats), shifts=np.empty(0, np.uint8),
        is_indicator=arrays.get("is_indicator", np.zeros(codes.n_features, bool)),
        is_whole=not codes.is_sparse, is_symmetric=is_symmetric,
    )  # fmt: skip


def count_coefs(rows: Rows) -> int:
    """Return the number of coefficients of one class."""
    if rows.kind in (fast.BINS, fast.HATS):
        return int(rows.offsets[-1])
    if rows.kind in (fast.PLAIN, fast.GRAM):
        return rows.rank
    return rows.n_features * rows.rank


def count_work(rows: Rows) -> float:
    """Return the multiplications of a pass for one class that updates every row.

    An update with a row of bins changes whole curves.
    """
    n = len(rows.indptr) - 1
    if rows.kind == fast.SPARSE:
        return 2.0 * len(rows.codes) * rows.rank
    if rows.kind == fast.HATS:
        return 2.0 * len(rows.codes) * (1.0 + rows.rank)
    if rows.kind == fast.LISTS:
        return 2.0 * len(rows.columns)
    if rows.kind == fast.BINS:
        mean_length = rows.offsets[-1] / max(rows.n_features, 1)
        return len(rows.codes) * (1.0 + mean_length)
    return 2.0 * n * count_coefs(rows)


def prefers_gram(rows: Rows, n_problems: int) -> bool:
    """Return whether rows are rows of bins, and so few that their kernel matrix saves time."""
    if rows.kind != fast.BINS:
        return False
    costs = costs_of_kinds(rows, n_problems)
    return fast.GRAM in costs and costs[fast.GRAM] < costs[fast.BINS]


def cheapest_kind(rows: Rows, n_problems: int) -> int:
    """Return the kind of rows on which a descent is fastest; rows of bins can become others."""
    if rows.kind != fast.BINS:
        return int(rows.kind)
    costs = costs_of_kinds(rows, n_problems)
    return min(costs, key=lambda kind: costs[kind])


def costs_of_kinds(rows: Rows, n_problems: int) -> dict[int, float]:
    """Estimate the nanoseconds for each code that a descent on rows of bins takes.

    Ten passes are assumed. The constants were measured on scene15, pixels and 16 columns. The kernel
    matrix has a value for each pair of rows, of which half are computed, and every pass reads it. In
    float64 the rows are made dense for it, so that it is for small problems only.
    """
    n, length = len(rows.indptr) - 1, rows.offsets[-1] / max(len(rows.offsets) - 1, 1)
    costs = {fast.BINS: 10 * n_problems * (1.0 + 0.1 * length)}
    if n_problems >= LEAST_LANES:
        costs[fast.HATS] = 20 * (2.0 + np.log2(length)) * -(-n_problems // fast.MOST_LANES)
    fits = n <= MAX_GRAM_ROWS if float_type(rows) == np.float32 else is_small(n, rows.n_features)
    if fits:
        a_row = max(len(rows.codes) / max(n, 1), 1.0)
        costs[fast.GRAM] = n * (0.05 + (1.5 + 0.2 * n_problems) / a_row)
    return costs


def pass_time(rows: Rows, n_problems: int) -> float:
    """Estimate the nanoseconds of a pass for one of several classes, on the cheapest kind of rows.

    The constants were measured on ten datasets, where they are right within a factor of five.
    """
    n, kind = len(rows.indptr) - 1, cheapest_kind(rows, n_problems)
    if kind == fast.GRAM:
        nanoseconds = 0.1 * n * n
    elif kind in (fast.BINS, fast.HATS):
        nanoseconds = (4.0 if kind == fast.BINS else 8.0) * len(rows.codes)
    else:
        nanoseconds = 0.5 * count_work(rows)
    return nanoseconds / min(n_problems, MOST_SHARING)


def gram_rows(rows: Rows, workers: Workers) -> Rows:
    """Return the rows of the kernel matrix of rows of bins."""
    n = len(rows.indptr) - 1
    levels = Codes(rows.codes, rows.gaps, rows.indptr, rows.n_features).to_csr(rows.read)
    levels.data *= rows.scale[levels.indices]
    K = np.empty((n, n), float_type(rows))
    if K.dtype == np.float32:
        _fill_symmetric(levels, K, workers)
    else:
        sum_minima(levels.toarray(), K)
    extra = rows.extra_read.reshape(n, -1), rows.extra_write.reshape(n, -1)
    return _rows(
        kind=fast.GRAM, codes=_no_codes(n), rank=n, plain_write=K.ravel(), dtype=K.dtype,
        scale=np.ones(n, K.dtype), is_symmetric=True, extra=extra,
    )  # fmt: skip


def _fill_symmetric(levels: Any, K: NDArray[Any], workers: Workers) -> None:
    """Compute the intersection kernel of all pairs of rows, each pair once."""
    kernel, n = Intersection(), len(K)
    points = kernel.prepare(levels)
    for first in range(0, n, GRAM_ROWS):
        last = min(first + GRAM_ROWS, n)
        block = np.empty((last - first, n - first), K.dtype)
        kernel.block(points, np.arange(first, last), points, np.arange(first, n), block, workers)
        K[first:last, first:] = block
        K[first:, first:last] = block.T


def weigh_bins(rows: Rows, signed: FloatArray) -> NDArray[Any]:
    """Return the curves of every class for its signed dual variables."""
    coef = np.empty((signed.shape[1], count_coefs(rows)), float_type(rows))
    weights, curves = np.empty(coef.shape[1]), np.empty(coef.shape[1])
    for k, factors in enumerate(np.ascontiguousarray(signed.T)):
        combine_rows(
            rows.codes, rows.gaps, rows.is_whole, rows.indptr, rows.offsets, factors, weights
        )
        to_curves(weights, rows.offsets, rows.read, rows.scale, curves)
        coef[k] = curves
    return coef


def pad_rank(coef: FloatArray, rank: int) -> FloatArray:
    """Fill coefficients (n_functions, n_features, few) up to the rank with zeros; a row a function."""
    padded = np.zeros((*coef.shape[:2], rank))
    padded[:, :, : coef.shape[2]] = coef
    return padded.reshape(len(coef), -1)


def decide(rows: Rows, coef: NDArray[Any], extra: NDArray[Any], workers: Workers) -> FloatArray:
    """Compute all decision functions at all rows, shape (n, n_problems)."""
    n_problems = len(coef)
    flat = np.ascontiguousarray(coefs_in_order(rows, coef), float_type(rows))
    extra = np.ascontiguousarray(extra, float_type(rows))
    out = np.empty((len(rows.indptr) - 1, n_problems))

    def decide_piece(first: int, last: int) -> None:
        room = fast.make_room(rows, n_problems, np.float64)
        fast.decide_rows(rows, first, last, flat, extra, room, out)

    workers.run(len(out), decide_piece, grain=DECIDE_ROWS)
    return out


def zero_coefs(rows: Rows, n_problems: int) -> NDArray[Any]:
    """Return coefficients of zero in the order of the compiled loops."""
    size, kind = count_coefs(rows) * fast.lane_width(rows.kind, n_problems), float_type(rows)
    room = np.zeros(size + CACHE_LINE // kind.itemsize, kind)
    # Lanes should not extend over two lines of the cache.
    first = -room.ctypes.data % CACHE_LINE // kind.itemsize
    return room[first : first + size]


def combine_coded(
    rows: Rows, labels: NDArray[np.int64], positives: NDArray[np.int64], alpha: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Add every row times its signed dual variables, and return coefficients and extra ones.

    Rows of float32 are added in parts, whose sums are added in float64.
    """
    n, k = alpha.shape
    if rows.kind == fast.BINS:
        signed = np.where(labels[:, None] == positives, alpha, -alpha)
        extra = signed.T @ rows.extra_write.reshape(n, -1)
        return weigh_bins(rows, signed).astype(np.float64), extra
    coef, extra = np.zeros((k, count_coefs(rows))), np.zeros((k, rows.n_extra))
    part = np.zeros_like(alpha)
    for start in range(0, n, max(1, -(-n // SUMMED_PARTS))):
        some = slice(start, start + max(1, -(-n // SUMMED_PARTS)))
        part[some] = alpha[some]
        flat = zero_coefs(rows, k)
        more = np.zeros(extra.shape, float_type(rows))
        room = fast.make_room(rows, k, float_type(rows))
        fast.add_rows(rows, labels, positives, part, room, flat, more)
        coef += coefs_by_class(rows, flat, k)
        extra += more
        part[some] = 0.0
    return coef, extra


def coefs_by_class(rows: Rows, flat: NDArray[Any], n_problems: int) -> NDArray[Any]:
    """Return a copy of coefficients in the order of the compiled loops, as one row for each class."""
    if not _interleaves(rows):
        return flat.reshape(n_problems, -1).copy()
    width = fast.lane_width(rows.kind, n_problems)
    return np.ascontiguousarray(flat.reshape(-1, width)[:, :n_problems].T)


def coefs_in_order(rows: Rows, by_class: NDArray[Any]) -> NDArray[Any]:
    """Return coefficients, one row for each class, in the order of the compiled loops."""
    if not _interleaves(rows):
        return by_class.ravel()
    spare = fast.lane_width(rows.kind, len(by_class)) - len(by_class)
    return np.pad(by_class, ((0, spare), (0, 0))).T.ravel()


def _interleaves(rows: Rows) -> bool:
    """Return whether the coefficients of all classes for one number of a row are contiguous."""
    return rows.kind in (fast.SPARSE, fast.HATS, fast.LISTS)


def float_type(rows: Rows) -> Any:
    """Return the type of the numbers of rows."""
    return rows.extra_read.dtype


def sum_over_codes(codes: Codes, per_code: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the sum of ``scale[feature] * per_code[code]`` over the features of each row."""
    out = np.empty(len(codes))
    sums.sum_codes(
        codes.values, codes.gaps, not codes.is_sparse, codes.indptr, per_code, scale, out
    )
    return out


def count_bins(codes: Codes, n_bins: int, weights: FloatArray) -> FloatArray:
    """Return how often each bin occurs among the codes, with rows weighted."""
    counts = np.zeros(n_bins)
    sums.count_codes(
        codes.values, codes.gaps, not codes.is_sparse, codes.filler, codes.indptr, weights, counts
    )
    return counts
