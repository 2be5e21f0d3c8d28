"""Compiled loops of Fastfood: the Walsh-Hadamard transform of many rows at once.

A tile holds a few rows, with the rows along the contiguous axis. Every step of the transform is the
same for all rows of a tile, so that one instruction serves several rows, however short these are.
"""

import numpy as np
from numba import njit

#: Number of values of a tile, which should fit into the first-level cache, and least and largest
#: number of its rows, which are multiples of the width of a register.
TILE_VALUES, MIN_TILE_ROWS, MAX_TILE_ROWS = 4096, 16, 64

jit = njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy",
    forceinline=True,
)  # fmt: skip

U = np.uint64


@jit
def transform_tile(tile, size, n_rows):
    """Multiply a flat tile of shape (size, n_rows) by the Hadamard matrix of plus and minus ones."""
    half = 1
    while half < size:
        for start in range(0, size, 2 * half):
            for k in range(start, start + half):
                here, there = U(k * n_rows), U((k + half) * n_rows)
                for r in range(n_rows):
                    first, second = tile[here + U(r)], tile[there + U(r)]
                    tile[here + U(r)] = first + second
                    tile[there + U(r)] = first - second
        half *= 2


@jit
def load_tile(X, first, last, signs, n_rows, tile):
    """Write rows of X, times ``signs``, as columns of the tile; fill the rest with zeros."""
    tile[:] = 0.0
    for k in range(X.shape[1]):
        at = U(k * n_rows)
        for r in range(last - first):
            tile[at + U(r)] = signs[k] * X[first + r, k]


@jit
def shuffle_tile(tile, order, factors, n_rows, out):
    """Write line ``order[k]`` times ``factors[k]`` to line k."""
    for k in range(order.size):
        source, target, factor = U(order[k] * n_rows), U(k * n_rows), factors[k]
        for r in range(n_rows):
            out[target + U(r)] = factor * tile[source + U(r)]


@jit
def store_tile(tile, scale, n_rows, out, first, last, column):
    """Write a tile, times a factor for each line, to the rows ``first`` to ``last`` of out."""
    for r in range(last - first):
        for k in range(scale.size):
            out[first + r, column + k] = scale[k] * tile[U(k * n_rows + r)]


@jit
def project(X, signs, order, factors, scale, out):
    """Write ``scale H factors P H signs x`` for every row x of X and every block, end to end.

    H is the Hadamard matrix and P the permutation ``order``; ``signs``, ``order`` and ``factors``
    are (n_blocks, size). Rows of X that are shorter than ``size`` are filled up with zeros.
    ``scale`` has one number for each column of ``out``; columns of the last block beyond these are
    not written.
    """
    n_blocks, size = signs.shape
    n_rows = min(max(TILE_VALUES // size, MIN_TILE_ROWS), MAX_TILE_ROWS)
    tile, other = np.empty(size * n_rows, X.dtype), np.empty(size * n_rows, X.dtype)
    for first in range(0, X.shape[0], n_rows):
        last = min(first + n_rows, X.shape[0])
        for b in range(n_blocks):
            load_tile(X, first, last, signs[b], n_rows, tile)
            transform_tile(tile, size, n_rows)
            shuffle_tile(tile, order[b], factors[b], n_rows, other)
            transform_tile(other, size, n_rows)
            kept = scale[b * size : (b + 1) * size]
            store_tile(other, kept, n_rows, out, first, last, b * size)
