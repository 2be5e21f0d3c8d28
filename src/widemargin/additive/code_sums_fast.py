"""Compiled loops that count and add up over the codes of rows, dense or sparse."""

import numpy as np
from numba import njit

jit = njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy",
    forceinline=True,
)  # fmt: skip


@jit
def sum_codes(codes, gaps, is_whole, indptr, per_code, scale, out):
    """``out[i] = sum of scale[feature] * per_code[code]`` over the codes of every row."""
    for i in range(out.size):
        first, total, j = indptr[i], 0.0, 0
        for e in range(first, indptr[i + 1]):
            j = e - first if is_whole else j + np.int64(gaps[e])
            total += scale[j] * per_code[codes[e]]
        out[i] = total


@jit
def count_codes(codes, gaps, is_whole, filler, indptr, weights, counts):
    """How often every code occurs, rows weighted; fillers, whose gap is given, do not count."""
    for i in range(weights.size):
        for e in range(indptr[i], indptr[i + 1]):
            if is_whole or gaps[e] != filler:
                counts[codes[e]] += weights[i]


@jit
def least_codes(codes, gaps, is_whole, indptr, least):
    """Lower ``least`` to the smallest code of every feature beside zero."""
    for i in range(indptr.size - 1):
        first, j = indptr[i], 0
        for e in range(first, indptr[i + 1]):
            j = e - first if is_whole else j + np.int64(gaps[e])
            if 0 < codes[e] < least[j]:
                least[j] = codes[e]


@jit
def largest_codes(codes, gaps, indptr, largest):
    """Raise ``largest`` to the largest code of every feature of sparse rows."""
    for i in range(indptr.size - 1):
        j = 0
        for e in range(indptr[i], indptr[i + 1]):
            j += np.int64(gaps[e])
            largest[j] = max(largest[j], np.int64(codes[e]))


@jit
def count_bins(codes, gaps, is_whole, indptr, offsets, counts):
    """Count how often each code of each feature occurs."""
    for i in range(indptr.size - 1):
        first, j = indptr[i], 0
        for e in range(first, indptr[i + 1]):
            j = e - first if is_whole else j + np.int64(gaps[e])
            counts[offsets[j] + codes[e]] += 1
