"""Compiled loops on rows in the unary space of the intersection kernel: B(x) in the ICD paper.

A row has a code for each feature. In the unary space, which has one dimension for every bin, it is a
vector of ones up to its code. A weight vector w and the curves of its running sums are equivalent
(ICD Eq. 8 and 9): the product of w and a row is the sum of the curves' values at the row's codes.
With levels that are not whole numbers, a dimension is weighted by the rise of its level.
"""

import numpy as np
from numba import njit

jit = njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy",
    forceinline=True,
)  # fmt: skip


@jit
def combine_rows(codes, gaps, is_whole, indptr, offsets, factors, out):
    """Sum all rows, each times its factor. Bin zero of a feature is no dimension of the space."""
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
    """Compute the running sums of a vector, times the rises of the levels and the feature's scale."""
    # ICD Eq. 9.
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
    """Compute the products of all rows with the vector whose curves are given."""
    # ICD Eq. 8, summed over the features as in Eq. 7.
    for i in range(out.size):
        first, total, j = indptr[i], 0.0, 0
        for e in range(first, indptr[i + 1]):
            j = e - first if is_whole else j + np.int64(gaps[e])
            total += curves[offsets[j] + codes[e]]
        out[i] = total
