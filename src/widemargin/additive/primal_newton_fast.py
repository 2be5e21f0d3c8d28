"""Compiled loops on rows in the unary space of the intersection kernel.

A row is a code for each feature, a point in a space with one dimension for every bin: ones up to its
code. A vector w of that space and the curve of its running sums hold the same: the product of w and
a row is the sum of the curve's values at the row's codes. With other levels than whole numbers,
a dimension counts as much as its level rises.
"""

import numpy as np
from numba import njit

jit = njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy",
    forceinline=True,
)  # fmt: skip


@jit
def combine_rows(codes, gaps, is_whole, indptr, offsets, factors, out):
    """Sum of all rows, each times its factor. Bin zero of a feature is no dimension of the space."""
    out[:] = 0.0
    for i in range(factors.size):
        if factors[i] != 0.0:
            first, j = indptr[i], 0
            for e in range(first, indptr[i + 1]):
                j = e - first if is_whole else j + np.int64(gaps[e])
                out[offsets[j] + codes[e]] += factors[i]
    for j in range(offsets.size - 1):
        for k in range(offsets[j + 1] - 2, offsets[j], -1):
            out[k] += out[k + 1]
        out[offsets[j]] = 0.0


@jit
def to_curves(weights, offsets, levels, scale, curves):
    """Running sums of a vector, each dimension times the rise of its level and its feature's scale."""
    for j in range(offsets.size - 1):
        first = offsets[j]
        curves[first] = 0.0
        for k in range(first + 1, offsets[j + 1]):
            rise = levels[k - first] - levels[k - first - 1]
            curves[k] = curves[k - 1] + weights[k] * scale[j] * rise


@jit
def sum_minima(levels, out):
    """Intersection kernel between all rows of a dense matrix."""
    for i in range(levels.shape[0]):
        for j in range(i + 1):
            a, b, total = levels[i], levels[j], 0.0
            for k in range(a.size):
                total += min(a[k], b[k])
            out[i, j] = out[j, i] = total


@jit
def look_up(codes, gaps, is_whole, indptr, offsets, curves, out):
    """Products of all rows with the vector whose curves are given."""
    for i in range(out.size):
        first, total, j = indptr[i], 0.0, 0
        for e in range(first, indptr[i + 1]):
            j = e - first if is_whole else j + np.int64(gaps[e])
            total += curves[offsets[j] + codes[e]]
        out[i] = total
