"""Compiled loops of the scores: weighted sums of rows of a kernel matrix, without copying rows."""

from numba import njit

#: Number of columns whose sums stay in the level-1 cache while the loop runs over all rows.
COLUMNS = 1024

jit = njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy",
    forceinline=True,
)  # fmt: skip


@jit
def add_multiple(factor, row, out):
    for j in range(row.size):
        out[j] += factor * row[j]


@jit
def add_multiples(factor0, factor1, factor2, factor3, row0, row1, row2, row3, out):
    for j in range(out.size):
        out[j] += (factor0 * row0[j] + factor1 * row1[j]) + (factor2 * row2[j] + factor3 * row3[j])


@jit
def add_square(factor, row, out):
    for j in range(row.size):
        out[j] += factor * row[j] * row[j]


@jit
def add_squares(K, rows, weights, out):
    """Add ``weights' K[rows]^2`` to ``out``; weights and out have the same dtype."""
    for start in range(0, K.shape[1], COLUMNS):
        stop = min(start + COLUMNS, K.shape[1])
        for r in range(rows.size):
            add_square(weights[r], K[rows[r], start:stop], out[start:stop])


@jit
def add_rows(K, rows, coef, out):
    """Add ``coef' K[rows]`` to ``out``; coef is (rows, m), out is (m, columns), same dtype."""
    for start in range(0, K.shape[1], COLUMNS):
        stop = min(start + COLUMNS, K.shape[1])
        r = 0
        while r + 4 <= rows.size:
            row0, row1 = K[rows[r], start:stop], K[rows[r + 1], start:stop]
            row2, row3 = K[rows[r + 2], start:stop], K[rows[r + 3], start:stop]
            for f in range(coef.shape[1]):
                add_multiples(
                    coef[r, f], coef[r + 1, f], coef[r + 2, f], coef[r + 3, f],
                    row0, row1, row2, row3, out[f, start:stop],
                )  # fmt: skip
            r += 4
        while r < rows.size:
            for f in range(coef.shape[1]):
                add_multiple(coef[r, f], K[rows[r], start:stop], out[f, start:stop])
            r += 1
