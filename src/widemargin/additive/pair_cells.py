"""Pairs of features as further columns of codes: the cells of a grid, with a table of their kernel.

The kernel of a model with pairs P is ``sum_j k_j + c sum_{(i, j) in P} k_i k_j``. The values of each
feature of a pair are rounded to a few levels, so a pair has a few hundred cells. The leading
eigenvectors of the product of both kernels on the cells make a table, as those of one kernel do for
bins, and the pair becomes one more column of codes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import FloatArray
from widemargin.additive.codes import Codes, dense_codes
from widemargin.additive.curves import BinModel, TableModel
from widemargin.additive.pair_model import PairModel
from widemargin.additive.quantiser import Quantiser
from widemargin.additive.representations import TableRepresentation
from widemargin.additive.scalar_kernels import ScalarKernel
from widemargin.parallel import single_blas

#: Most levels of a feature of a pair.
N_LEVELS = 16
#: Share of the trace that the table of a pair leaves out at most, unless its rank would be larger.
TRACE_SHARE, MAX_RANK = 1e-3, 24
#: Share of the weight that all cells have, whether they occur or not.
EVEN_SHARE = 0.05


class FeatureLevels(NamedTuple):
    """Levels of one feature: the level of every code, and the position and share of every level."""

    of_code: NDArray[np.uint8]
    positions: FloatArray
    shares: FloatArray


@dataclass(frozen=True)
class PairCells:
    """The cells of some pairs.

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        Features of each pair.
    levels : list of (FeatureLevels, FeatureLevels)
        Levels of both features of each pair.
    tables : list of ndarray of shape (n_cells, rank)
        Numbers of each cell; products of these approximate the product of both kernels.
    means : ndarray of shape (n_pairs,)
        Mean of the product kernel k(x, x) over the rows, in units of the largest scale of a feature.
    """

    pairs: NDArray[np.int64]
    levels: list[tuple[FeatureLevels, FeatureLevels]]
    tables: list[FloatArray]
    means: FloatArray


def make_cells(
    kernel: ScalarKernel,
    grid: FloatArray,
    codes: NDArray[np.integer],
    weights: FloatArray,
    pairs: NDArray[np.int64],
    scales: FloatArray,
) -> PairCells:
    """Choose the levels of the features of some pairs, and make the tables of the pairs.

    Parameters
    ----------
    kernel : ScalarKernel
        The kernel of two numbers, homogeneous.
    grid : ndarray of shape (n_bins,)
        Positions of the bins.
    codes : ndarray of shape (n, n_features)
        Codes of the rows.
    weights : ndarray of shape (n,)
        Weights of the rows.
    pairs : ndarray of shape (n_pairs, 2)
        The pairs.
    scales : ndarray of shape (n_features,)
        Factor on the kernel of each feature, of which only the proportions matter.
    """
    # Products of tiny scales would vanish.
    relative = scales / scales.max()
    levels, tables, means = [], [], np.empty(len(pairs))
    for k, (i, j) in enumerate(pairs):
        first, second = (_merge_codes(grid, codes[:, f], weights) for f in (i, j))
        at = first.of_code[codes[:, i]].astype(np.intp) * len(second.shares)
        counts: Any = np.bincount(
            at + second.of_code[codes[:, j]], weights, len(first.shares) * len(second.shares)
        )
        kernels = [
            relative[f] * kernel(level.positions, level.positions)
            for f, level in ((i, first), (j, second))
        ]
        product = np.kron(*kernels)
        levels.append((first, second))
        tables.append(_make_table(product, counts))
        means[k] = np.diagonal(product) @ counts / counts.sum()
    return PairCells(pairs, levels, tables, means)


def _merge_codes(
    grid: FloatArray, codes: NDArray[np.integer], weights: FloatArray
) -> FeatureLevels:
    """Merge neighbouring codes of a feature to levels of similar weight."""
    share = np.bincount(codes, weights, len(grid)) / weights.sum()
    group = np.minimum((np.cumsum(share) - 0.5 * share) * N_LEVELS, N_LEVELS - 1).astype(np.intp)
    present = np.flatnonzero(share)
    if len(present) <= N_LEVELS:
        # Codes that do not occur belong to the next one that does.
        group = np.minimum(np.searchsorted(present, np.arange(len(grid))), len(present) - 1)
    else:
        known = np.unique(group[present])
        group = np.minimum(np.searchsorted(known, group), len(known) - 1)
    shares: Any = np.bincount(group, share)
    positions = np.bincount(group, share * grid) / shares
    return FeatureLevels(group.astype(np.uint8), positions, shares)


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
    """Return one table for the bins of all features and, after them, for the cells of every pair."""
    parts = [table, *cells.tables]
    joined = np.zeros((sum(map(len, parts)), max(part.shape[1] for part in parts)))
    start = 0
    for part in parts:
        joined[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return joined


def join_codes(codes: NDArray[np.integer], n_bins: int, cells: PairCells) -> Codes:
    """Return the codes of all features and, after them, of every pair, as rows of the joint table."""
    n_codes = n_bins + sum(map(len, cells.tables))
    joined = np.empty((len(codes), codes.shape[1] + len(cells.pairs)), np.min_scalar_type(n_codes))
    joined[:, : codes.shape[1]] = codes
    start = n_bins
    for k, ((i, j), (first, second)) in enumerate(zip(cells.pairs, cells.levels, strict=True)):
        at = first.of_code[codes[:, i]].astype(np.intp) * len(second.shares)
        joined[:, codes.shape[1] + k] = start + at + second.of_code[codes[:, j]]
        start += len(cells.tables[k])
    return dense_codes(joined)


def make_pair_model(fitted: TableModel, quantiser: Quantiser, cells: PairCells) -> PairModel:
    """Turn coefficients of the joint table into curves and surfaces, each surface with means of zero.

    What a surface has in common with a curve of one of its features is moved to the curve, and the
    mean of the surface to the intercept: the decisions at the positions of the levels stay the same.
    Between them the curve is a straight line and has no steps. Curves are zero at zero.
    """
    n_bins, d = quantiser.n_bins, len(quantiser.low)
    table = fitted.encoder.table  # type: ignore[union-attr]
    curves = fitted.coef[:, :d] @ table[:n_bins].T
    intercept = fitted.intercept.copy()
    shape = (len(curves), len(cells.pairs), N_LEVELS, N_LEVELS)
    heights, values = np.zeros(shape), np.zeros((len(cells.pairs), 2, N_LEVELS))
    start = n_bins
    for k, ((i, j), sides) in enumerate(zip(cells.pairs, cells.levels, strict=True)):
        first, second = sides
        rows = table[start : start + len(cells.tables[k])]
        surface = (fitted.coef[:, d + k] @ rows.T).reshape(len(curves), len(first.shares), -1)
        over_second, over_first = surface @ second.shares, first.shares @ surface
        mean = over_second @ first.shares
        surface += mean[:, None, None] - over_second[:, :, None] - over_first[:, None, :]
        curves[:, i] += _join_levels(over_second - mean[:, None], first, quantiser)
        curves[:, j] += _join_levels(over_first - mean[:, None], second, quantiser)
        intercept += mean
        heights[:, k] = np.pad(
            surface, [(0, 0), *((0, N_LEVELS - n) for n in surface.shape[1:])], mode="edge"
        )
        for side, (feature, level) in enumerate(zip((i, j), sides, strict=True)):
            own = quantiser.low[feature] + quantiser.span[feature] * level.positions
            values[k, side] = np.pad(own, (0, N_LEVELS - len(own)), mode="edge")
        start += len(rows)
    # Curves begin at zero, so that values which sparse data leave out add nothing.
    intercept += curves[:, :, 0].sum(axis=1)
    curves -= curves[:, :, :1].copy()
    offsets = np.arange(d + 1, dtype=np.int64) * n_bins
    base = BinModel(quantiser, offsets, curves.reshape(len(curves), -1), intercept)
    of_code = np.array([[level.of_code for level in sides] for sides in cells.levels])
    return PairModel(base, cells.pairs, of_code.reshape(-1, 2, n_bins), values, heights)


def _join_levels(heights: FloatArray, level: FeatureLevels, quantiser: Quantiser) -> FloatArray:
    """Return heights of levels (n_functions, n_levels) at all bins, on lines between the levels."""
    return np.array([np.interp(quantiser.grid, level.positions, row) for row in heights])


class PairRepresentation:
    """Features and pairs of features as codes of one table.

    Parameters
    ----------
    data : TableRepresentation
        The codes of features and pairs.
    cells : PairCells
        The pairs.
    """

    def __init__(self, data: TableRepresentation, quantiser: Quantiser, cells: PairCells) -> None:
        self.rows, self.norms = data.rows, data.norms
        self._data, self._quantiser, self._cells = data, quantiser, cells

    def make_model(self, coef: NDArray[Any], extra: NDArray[Any]) -> PairModel:
        """Make the model with these coefficients: curves and surfaces."""
        return make_pair_model(self._data.make_model(coef, extra), self._quantiser, self._cells)
