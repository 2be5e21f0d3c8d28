"""Pairs of features as further columns of codes: the cells of a grid, with a table of their kernel.

The kernel of a model with pairs P is ``sum_j k_j + c sum_{(i, j) in P} k_i k_j``. The values of each
feature of a pair are rounded to a few levels, so a pair has a few hundred cells. The leading
eigenvectors of the product of both kernels on the cells make a table, as those of one kernel do for
bins, and the pair becomes one more column of codes.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.coded_rows import FloatArray
from widemargin.additive.codes import Codes, encode_matrix, thin_codes
from widemargin.additive.curves import BinModel
from widemargin.additive.pair_levels import N_LEVELS, LevelMaker
from widemargin.additive.pair_model import PairModel
from widemargin.additive.representations import TableRepresentation
from widemargin.parallel import single_blas

#: Share of the trace that the table of a pair leaves out at most, unless its rank would be larger.
TRACE_SHARE, MAX_RANK = 1e-3, 24
#: Share of the weight that all cells have, whether they occur or not.
EVEN_SHARE = 0.05


@dataclass(frozen=True)
class PairCells:
    """The cells of some pairs.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Features of each pair.
    maker : LevelMaker
        Has the levels of the features.
    rows : ndarray of uint8 of shape (n, n_pairs)
        Cells of the training rows.
    tables : list of ndarray of shape (n_cells, rank)
        Numbers of each cell; products of these approximate the product of both kernels.
    means : ndarray of shape (n_pairs,)
        Mean of the product kernel k(x, x) over the rows, in units of the largest scale of a feature.
    """

    pairs: NDArray[np.int64]
    maker: LevelMaker
    rows: NDArray[np.uint8]
    tables: list[FloatArray]
    means: FloatArray

    def starts(self) -> NDArray[np.int64]:
        """Return where the cells of every pair begin among the codes, and where the last end."""
        sizes = [self.maker.quantiser.n_bins, *map(len, self.tables)]
        return np.cumsum(sizes, dtype=np.int64)


def make_cells(maker: LevelMaker, pairs: NDArray[np.int64]) -> PairCells:
    """Make the cells of some pairs, shape (n_pairs, 2), and their tables."""
    weights = maker.weights
    rows = np.empty((len(weights), len(pairs)), np.uint8)
    tables, means = [], np.empty(len(pairs))
    for k, (i, j) in enumerate(pairs):
        first, second = maker.make(i), maker.make(j)
        rows[:, k] = first.rows.astype(np.intp) * len(second.shares) + second.rows
        product: Any = np.kron(first.kernel, second.kernel)
        counts: Any = np.bincount(rows[:, k], weights, len(product))
        tables.append(_make_table(product, counts))
        means[k] = np.diagonal(product) @ counts / weights.sum()
    return PairCells(pairs, maker, rows, tables, means)


def _make_table(K: FloatArray, counts: FloatArray) -> FloatArray:
    """Leading eigenvectors of a kernel matrix of cells, weighted by how often these occur."""
    share = (1.0 - EVEN_SHARE) * counts / counts.sum() + EVEN_SHARE / len(counts)
    root = np.sqrt(share)
    with single_blas():
        values, vectors = np.linalg.eigh(root[:, None] * K * root)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    tail = 1.0 - np.cumsum(values) / max(values.sum(), 1e-300)
    needed = int(np.searchsorted(-tail, -TRACE_SHARE)) + 1
    positive = int(np.count_nonzero(values > 1e-12 * values[0]))
    rank = max(1, min(needed, MAX_RANK, positive))
    return vectors[:, :rank] * np.sqrt(values[:rank]) / root[:, None]


def join_tables(table: FloatArray, cells: PairCells) -> FloatArray:
    """Return one table for the bins of all columns and, after them, for the cells of every pair."""
    parts = [table, *cells.tables]
    joined = np.zeros((sum(map(len, parts)), max(part.shape[1] for part in parts)))
    start = 0
    for part in parts:
        joined[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return joined


class _Given:
    """Coder of data that are codes already."""

    def __init__(self, n_codes: int) -> None:
        self.dtype = np.min_scalar_type(n_codes - 1).type

    def encode_rows(self, X: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the codes of dense rows to ``out``."""
        out[:] = X

    def encode_stored(self, data: NDArray[Any], columns: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the codes of some values to ``out``."""
        out[:] = data


def join_codes(cells: PairCells, firsts: NDArray[np.int64]) -> Codes:
    """Return the codes of all columns and, after them, of every pair.

    The cells of a pair have codes from a number of ``firsts`` on. Codes of zero, which add nothing,
    are left out if there are many.
    """
    codes, n_bins = cells.maker.codes, cells.maker.quantiser.n_bins
    sizes = [first + len(table) for first, table in zip(firsts, cells.tables, strict=True)]
    coder = _Given(max([n_bins, *sizes]))
    of_pairs = cells.rows + firsts.astype(coder.dtype)
    if codes.is_sparse:
        stored = codes.to_csr(np.arange(n_bins, dtype=coder.dtype))
        joined = sparse.hstack([stored, sparse.csr_matrix(of_pairs)], format="csr")
    else:
        joined = np.hstack([codes.values.reshape(codes.shape), of_pairs], dtype=coder.dtype)
    return thin_codes(encode_matrix(joined, coder))


def make_pair_model(
    curves: FloatArray, surfaces: list[FloatArray], intercept: FloatArray, cells: PairCells
) -> PairModel:
    """Return the model of some curves and surfaces, each surface with means of zero.

    What a surface has in common with a curve of one of its features is moved to the curve, and the
    mean of the surface to the intercept: the decisions at the levels stay the same. Curves are zero at
    zero.

    Parameters
    ----------
    curves : ndarray of shape (n_functions, n_columns, n_bins)
        Curves of all columns, which are changed in place.
    surfaces : list of ndarray of shape (n_functions, n_cells)
        Heights of the cells of every pair.
    intercept : ndarray of shape (n_functions,)
        Constants.
    cells : PairCells
        The pairs.
    """
    maker = cells.maker
    n_functions, d, n_bins = curves.shape
    intercept = intercept.copy()
    # Values beyond the levels add nothing.
    heights = np.zeros((n_functions, len(cells.pairs), N_LEVELS + 1, N_LEVELS + 1))
    values = np.zeros((len(cells.pairs), 2, N_LEVELS + 1))
    of_code = np.zeros((len(cells.pairs), 2, maker.n_codes), np.uint8)
    for k, (pair, flat) in enumerate(zip(cells.pairs, surfaces, strict=True)):
        first, second = (maker.make(feature) for feature in pair)
        n_first, n_second = len(first.shares), len(second.shares)
        surface = flat.reshape(n_functions, n_first, n_second)
        over_second, over_first = surface @ second.shares, first.shares @ surface
        mean = over_second @ first.shares
        heights[:, k, :n_first, :n_second] = (
            surface + mean[:, None, None] - over_second[:, :, None] - over_first[:, None, :]
        )
        maker.add_to_curves(curves, pair[0], over_second - mean[:, None])
        maker.add_to_curves(curves, pair[1], over_first - mean[:, None])
        intercept += mean
        for side, levels in enumerate((first, second)):
            values[k, side] = np.pad(
                levels.values, (0, N_LEVELS + 1 - len(levels.values)), mode="edge"
            )
            of_code[k, side] = levels.of_code
    # Curves begin at zero, so that values which sparse data leave out add nothing.
    intercept += curves[:, :, 0].sum(axis=1)
    curves -= curves[:, :, :1].copy()
    offsets = np.arange(d + 1, dtype=np.int64) * n_bins
    base = BinModel(maker.quantiser, offsets, curves.reshape(n_functions, -1), intercept)
    return PairModel(base, cells.pairs, of_code, values, heights)


class PairRepresentation:
    """Features and pairs of features as codes of one table.

    Parameters
    ----------
    data : TableRepresentation
        The codes of features and pairs.
    cells : PairCells
        The pairs.
    """

    def __init__(self, data: TableRepresentation, cells: PairCells) -> None:
        self.rows, self.norms = data.rows, data.norms
        self._data, self._cells = data, cells

    def make_model(self, coef: NDArray[Any], extra: NDArray[Any]) -> PairModel:
        """Make the model with these coefficients: curves and surfaces."""
        fitted, table = self._data.make_model(coef, extra), self._data.encoder.table
        starts, d = self._cells.starts(), fitted.coef.shape[1] - len(self._cells.pairs)
        surfaces = [
            fitted.coef[:, d + k] @ table[first:last].T
            for k, (first, last) in enumerate(pairwise(starts))
        ]
        curves = fitted.coef[:, :d] @ table[: starts[0]].T
        return make_pair_model(curves, surfaces, fitted.intercept, self._cells)
