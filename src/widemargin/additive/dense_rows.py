"""Rows of codes as a dense matrix of numbers, whose products are the kernel."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.coded_rows import FloatArray, count_coefs
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.codes import Codes
from widemargin.memory import free_bytes

#: Most bytes of the matrix, and how many times as many must be free.
MAX_BYTES, TIMES_FREE = 2**28, 4


class DenseRows(NamedTuple):
    """Rows as a dense matrix.

    Attributes
    ----------
    A : ndarray of shape (n, m)
        The numbers of all rows; their products are the kernel. The extra number is the last.
    roots : ndarray of shape (m - n_extra,)
        Roots of factors on the kernel, by which the numbers are multiplied.
    bins : ndarray of shape (2, m - n_extra)
        Of rows of bins, the bin of each number, and the bin below it among the codes that occur: a
        coefficient times its root is the rise of a curve between the two. Empty for other rows, whose
        coefficients are those of the numbers times their roots.
    """

    A: FloatArray
    roots: FloatArray
    bins: NDArray[np.int64]

    def penalty(self, *, is_free: bool) -> FloatArray:
        """Return one for every coefficient, but zero for an intercept without penalty."""
        penalty = np.ones(self.A.shape[1])
        if is_free:
            penalty[-1] = 0.0
        return penalty

    def start(self, coef: NDArray[Any], extra: NDArray[Any]) -> FloatArray:
        """Return the coefficients of the numbers from the coefficients of the rows."""
        rises = coef[self.bins[0]] - coef[self.bins[1]] if self.bins.size else coef
        w = np.divide(rises, self.roots, out=np.zeros(len(self.roots)), where=self.roots > 0.0)
        return np.concatenate([w, extra])

    def make_coef(self, rows: Rows, w: FloatArray) -> FloatArray:
        """Return the coefficients of the rows from those of the numbers.

        Curves are straight lines between the codes that occur, as products with the kernel are.
        """
        rises = w[: len(self.roots)] * self.roots
        if rows.kind != fast.BINS:
            return rises
        curves, levels = np.zeros(rows.offsets[-1]), rows.read.astype(np.float64)
        feature = np.searchsorted(rows.offsets, self.bins[0], side="right") - 1
        starts = np.searchsorted(feature, np.arange(rows.n_features + 1))
        for j in range(rows.n_features):
            first, own = rows.offsets[j], slice(starts[j], starts[j + 1])
            codes = np.concatenate([[0], self.bins[0][own] - first])
            heights = np.concatenate([[0.0], np.cumsum(rises[own])])
            size = rows.offsets[j + 1] - first
            curves[first : first + size] = np.interp(levels[:size], levels[codes], heights)
        return curves


def can_be_dense(rows: Rows) -> bool:
    """Return whether there is a matrix of the numbers of all rows, and memory for it."""
    kinds = (fast.DENSE, fast.SPARSE, fast.BINS, fast.PLAIN, fast.LISTS)
    if rows.kind not in kinds or not rows.is_symmetric or rows.n_extra > 1:
        return False
    n_bytes = 8 * count_coefs(rows) * (len(rows.indptr) - 1)
    return n_bytes <= MAX_BYTES and TIMES_FREE * n_bytes <= free_bytes()


def make_dense(rows: Rows) -> DenseRows:
    """Return the numbers of all rows as a matrix."""
    n, bins = len(rows.indptr) - 1, np.empty((2, 0), np.int64)
    if rows.kind == fast.BINS:
        numbers, roots, bins = _unfold_bins(rows)
    elif rows.kind == fast.LISTS:
        stored = (rows.plain_read.astype(np.float64), rows.columns, rows.indptr)
        numbers = sparse.csr_matrix(stored, (n, rows.n_features)).toarray()
        roots = np.ones(rows.n_features)
    else:
        is_plain = rows.kind == fast.PLAIN
        numbers = rows.plain_read.reshape(n, -1) if is_plain else _look_up(rows)
        roots = np.sqrt(rows.scale.astype(np.float64))
    A = np.empty((n, len(roots) + rows.n_extra))
    np.multiply(numbers, roots, out=A[:, : len(roots)])
    A[:, len(roots) :] = rows.extra_read.reshape(n, -1)
    return DenseRows(A, roots, bins)


def _look_up(rows: Rows) -> FloatArray:
    """Return the numbers that a table has for the codes of all rows."""
    codes = Codes(rows.codes, rows.gaps, rows.indptr, rows.n_features)
    table = rows.read.reshape(-1, rows.rank).astype(np.float64)
    if not codes.is_sparse:
        return table[codes.values.reshape(codes.shape)].reshape(len(codes), -1)
    columns = [codes.to_csr(table[:, t]).toarray() for t in range(rows.rank)]
    return np.stack(columns, axis=2).reshape(len(codes), -1)


def _unfold_bins(rows: Rows) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Return numbers whose products are the intersection kernel, their roots and their bins.

    There is a number for each code that occurs: one in the rows that reach this code, times the root
    of the distance to the code below.
    """
    codes = Codes(rows.codes, rows.gaps, rows.indptr, rows.n_features)
    levels = rows.read.astype(np.float64)
    columns = codes.to_csr(np.arange(len(levels))).toarray().T
    numbers, roots = [np.empty((len(codes), 0))], [np.empty(0)]
    bins = [np.empty((2, 0), np.int64)]
    for j, column in enumerate(columns):
        reached = np.unique(column[column > 0])
        below = np.concatenate([[0], reached])[:-1]
        numbers.append(column[:, None] >= reached)
        roots.append(np.sqrt(rows.scale[j] * (levels[reached] - levels[below])))
        bins.append(rows.offsets[j] + np.array([reached, below], np.int64))
    return np.hstack(numbers), np.concatenate(roots), np.hstack(bins)
