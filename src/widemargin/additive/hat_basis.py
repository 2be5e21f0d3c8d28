"""The intersection kernel of two numbers as a product of few numbers: a basis of hat functions.

On a grid ``0 = g_0 < g_1 < ...`` the kernel ``min(g_c, g_d)`` is the covariance of Brownian motion,
which is a straight line and a sum of independent hat functions (Schauder, 1927; Ciesielski, 1961).
The hats of half width h have their middles at the odd multiples of h, for h = 1, 2, 4, and so on. At
each grid point only one hat of each width is not zero, so a feature of n bins has log2(n) + 1 numbers
where an update of ICD's table changes n values. The products of these numbers are exact.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.code_sums_fast import count_bins
from widemargin.additive.coded_rows import FloatArray, Rows, float_type

#: Share of the variance of a feature's kernel that the narrowest hats may hold to be left out, for
#: each unit of ``tol``. With the default ``tol`` the curves of most pixels of 256 grey values have 32
#: knots, and fit into the cache.
LEFT_OUT = 0.3
#: Binary logarithm of the fewest knots that are left, and the most widths that are left out.
MIN_DEPTH, MOST_LEFT_OUT = 5, 4


def hat_heights(grid: FloatArray, codes: NDArray[np.int64], t: int) -> tuple[Any, FloatArray]:
    """Return the middles and the heights of the hats of half width ``2**t`` at some codes.

    Parameters
    ----------
    grid : ndarray of shape (n,)
        Values of the codes, ascending from zero, up to the ends of all hats.
    codes : ndarray of int64
        Codes.
    t : int
        Binary logarithm of the half width.
    """
    half = 2**t
    middle = codes // (2 * half) * (2 * half) + half
    left, right = grid[middle] - grid[middle - half], grid[middle + half] - grid[middle]
    rise = (grid[codes] - grid[middle - half]) / left
    fall = (grid[middle + half] - grid[codes]) / right
    # The variance of a Brownian bridge between the ends of the hat, at its middle.
    return middle, np.minimum(rise, fall) * np.sqrt(left * right / (left + right))


def extend_grid(levels: FloatArray, depth: int) -> FloatArray:
    """Continue the grid to the end of the widest hats; the kernel does not depend on how."""
    n_more = max(0, 2 ** (depth + 1) + 1 - len(levels))
    return np.concatenate([levels, levels[-1] + np.arange(1.0, n_more + 1.0)])


def hat_rows(rows: Rows, tol: float) -> Rows:
    """Return rows of bins as rows of hats.

    The narrowest hats are left out if they hold so little that a fit to ``tol`` does not show it.
    """
    kind, levels = float_type(rows), rows.read.astype(np.float64)
    largest = np.diff(rows.offsets) - 1
    # An indicator, or a feature of one bin beside zero, needs a straight line only.
    depths = np.where(rows.is_indicator, 0, np.ceil(np.log2(np.maximum(largest, 1)))).astype(int)
    deepest = int(depths.max(initial=0))
    grid, codes = extend_grid(levels, deepest), np.arange(len(levels))
    heights = np.empty((len(levels), deepest))
    for t in range(deepest):
        heights[:, t] = hat_heights(grid, codes, t)[1]
    negligible = count_negligible(rows, levels, heights, LEFT_OUT * tol)
    shifts = np.clip(depths - MIN_DEPTH, 0, negligible)
    ends = grid[np.where(rows.is_indicator, largest, 2**depths)]
    roots = np.sqrt(rows.scale.astype(np.float64))
    return rows._replace(
        kind=fast.HATS, rank=deepest, read=heights.ravel().astype(kind), write=levels.astype(kind),
        slopes=(roots / np.sqrt(ends)).astype(kind), scale=roots.astype(kind),
        shifts=shifts.astype(np.uint8),
        offsets=np.concatenate([[0], np.cumsum(2 ** (depths - shifts))]),
    )  # fmt: skip


def count_negligible(
    rows: Rows, levels: FloatArray, heights: FloatArray, share: float
) -> NDArray[np.int64]:
    """Return how many widths, from the narrowest, hold at most this share of a feature's variance.

    The variance is the mean kernel of a row with itself less that of two rows. Where this is small
    beside the kernel, narrow hats tell the rows apart; and kernels of rows less their mean, see
    `centring`, would not be positive semidefinite without them.
    """
    n, first = len(rows.indptr) - 1, rows.offsets[:-1]
    counts = np.zeros(rows.offsets[-1], np.int64)
    count_bins(rows.codes, rows.gaps, rows.is_whole, rows.indptr, rows.offsets, counts)
    feature = np.repeat(np.arange(rows.n_features), np.diff(rows.offsets))
    code = np.arange(len(counts)) - first[feature]
    n_widths = min(MOST_LEFT_OUT, heights.shape[1])
    narrow = np.cumsum(np.square(heights[:, :n_widths]), axis=1)
    total = np.cumsum(counts)
    above = total[rows.offsets[1:] - 1][feature] - total + counts
    # The mean of min(x, z) is the integral of the squared share of rows above each level.
    steps = np.diff(levels, prepend=0.0)[code]
    variances = np.add.reduceat(steps * above * (1.0 - above / n), first)
    held = np.add.reduceat(counts[:, None] * narrow[code], first, axis=0)
    return np.asarray((held <= share * variances[:, None]).sum(axis=1))


def hats_to_curves(hats: Rows, coef: NDArray[Any], bins: Rows) -> NDArray[Any]:
    """Return the values at all bins of the curves with some coefficients, a row for each class."""
    length = np.diff(bins.offsets)
    feature = np.repeat(np.arange(len(length)), length)
    code = np.arange(len(feature)) - bins.offsets[feature]
    start, shift = hats.offsets[feature], hats.shifts[feature].astype(int)
    end = np.diff(hats.offsets)[feature] << shift
    curves = coef[:, start] * (hats.slopes[feature] * hats.write[code])
    grid = extend_grid(hats.write.astype(np.float64), hats.rank)
    for t in range(hats.rank):
        # At the end of a feature's grid its hats are zero.
        has = np.flatnonzero((shift <= t) & (2**t < end) & (code < end))
        middle, height = hat_heights(grid, code[has], t)
        height = (height * hats.scale[feature[has]]).astype(coef.dtype)
        curves[:, has] += coef[:, start[has] + (middle >> shift[has])] * height
    return curves
