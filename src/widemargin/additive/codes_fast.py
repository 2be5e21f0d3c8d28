"""Compiled loops on the gaps between the features of codes."""

import numpy as np
from numba import njit

jit = njit(cache=True, nogil=True, error_model="numpy")

U = np.uint64
# Gaps that stand for fillers, if gaps have one byte or two. Divisors that are constants are cheap.
BYTE, WORD = U(2**8 - 1), U(2**16 - 1)


@jit
def place_rows(columns, indptr, with_bytes, with_words):
    """Where the codes of sparse rows begin, fillers included, if gaps have one byte or two."""
    n_bytes, n_words = U(0), U(0)
    with_bytes[0] = with_words[0] = 0
    for i in range(indptr.size - 1):
        feature = U(0)
        for e in range(indptr[i], indptr[i + 1]):
            gap = U(columns[e]) - feature
            n_bytes += gap // BYTE
            n_words += gap // WORD
            feature = U(columns[e])
        with_bytes[i + 1] = indptr[i + 1] + np.int64(n_bytes)
        with_words[i + 1] = indptr[i + 1] + np.int64(n_words)


@jit
def bridge_gaps(stored, columns, indptr, filler, zeros, codes, gaps):
    """Codes of sparse rows with fillers between them, and the gaps of all.

    ``stored`` and ``columns`` hold codes and features from the first entry of ``indptr`` on, and
    ``zeros`` the code of zero for every feature.
    """
    at = 0
    for i in range(indptr.size - 1):
        feature = 0
        for e in range(indptr[i] - indptr[0], indptr[i + 1] - indptr[0]):
            gap = columns[e] - feature
            while gap >= filler:
                feature += filler
                gap -= filler
                codes[at] = zeros[feature]
                gaps[at] = filler
                at += 1
            feature = columns[e]
            codes[at] = stored[e]
            gaps[at] = gap
            at += 1


@jit
def add_gaps(gaps, indptr, features):
    """Features of the codes of every row."""
    for i in range(indptr.size - 1):
        feature = 0
        for e in range(indptr[i], indptr[i + 1]):
            feature += np.int64(gaps[e])
            features[e] = feature


@jit
def count_stored(codes, n_features, filler, starts):
    """Where the codes of dense rows begin without codes of zero, but with fillers."""
    starts[0] = 0
    for i in range(starts.size - 1):
        stored, before = 0, 0
        for j in range(n_features):
            if codes[i * n_features + j] != 0:
                stored += 1 + (j - before) // filler
                before = j
        starts[i + 1] = starts[i] + stored


@jit
def drop_zeros(codes, n_features, filler, kept, gaps):
    """Copy the codes of dense rows that are not zero, with fillers between them, and their gaps."""
    at = 0
    for i in range(codes.size // n_features):
        before = 0
        for j in range(n_features):
            code = codes[i * n_features + j]
            if code != 0:
                gap = j - before
                while gap >= filler:
                    kept[at] = 0
                    gaps[at] = filler
                    gap -= filler
                    at += 1
                kept[at] = code
                gaps[at] = gap
                at += 1
                before = j
