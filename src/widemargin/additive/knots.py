"""Knots: the codes that a feature has in the training data, and the functions between them.

ICD's table of a feature has a value for every bin. The decision curve bends only where there are
training values, and is a straight line between two of their codes. So its values at the codes that
occur determine the curve, and tables need memory in proportion to the distinct pairs of a feature and
a code: the sparse tables of the ICD paper.

For the descent, the intersection kernel is a sum of products of few numbers, as in `hat_basis`. But
Brownian motion may be refined at its knots in any order, not by halves only. The first knot of a
feature brings a ramp from zero that is constant behind the knot. Each later knot brings a hat between
its neighbours that are already there, or a ramp that begins at the last. A code has a number for each
knot on the way to its own in this tree. Here the frequent codes come first. A word that mostly occurs
once has one number in most rows, and costs what it costs in a linear SVM.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import coded_rows_fast as rows_fast
from widemargin.additive import knots_fast as fast
from widemargin.additive.coded_rows import FloatArray, Rows, float_type
from widemargin.additive.codes import Codes


@dataclass(frozen=True)
class Knots:
    """The distinct codes of every feature, zero left out.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_features + 1,)
        Position of the first knot of each feature.
    codes : ndarray of shape (n_knots,)
        Their codes, ascending for each feature.
    counts : ndarray of int64, shape (n_knots,)
        How often each occurs.
    """

    offsets: NDArray[np.int64]
    codes: NDArray[Any]
    counts: NDArray[np.int64]


def find_knots(codes: Codes, n_bins: int) -> Knots:
    """Return the distinct codes of every feature of sparse data."""
    d, n_values = codes.n_features, len(codes.values)
    ends, found = np.zeros(d + 1, np.int64), np.empty(n_values, codes.values.dtype)
    fast.sort_by_feature(codes.values, codes.gaps, codes.indptr, ends, found)
    most = min(n_values, d * (n_bins - 1))
    knots, counts = np.empty(most, codes.values.dtype), np.empty(most, np.int64)
    offsets = np.empty(d + 1, np.int64)
    n = fast.count_distinct(found, ends, np.zeros(n_bins, np.int64), knots, counts, offsets)
    return Knots(offsets, knots[:n].copy(), counts[:n].copy())


@dataclass(frozen=True)
class KnotTree:
    """The functions that are not zero at each knot.

    A function has the position of the knot that brought it.

    Attributes
    ----------
    knots : Knots
        The knots.
    starts : ndarray of int64, shape (n_knots + 1,)
        Position of the first function of each knot.
    functions : ndarray of uint32
        Functions that are not zero there.
    numbers : ndarray of float64
        Their values there.
    """

    knots: Knots
    starts: NDArray[np.int64]
    functions: NDArray[np.uint32]
    numbers: FloatArray

    def count_numbers(self) -> int:
        """Return the numbers that all training rows have together."""
        return int(np.diff(self.starts) @ self.knots.counts)

    def heights(self, coef: NDArray[Any]) -> NDArray[Any]:
        """Return the decision curves at the knots, shape (n_knots, n_functions).

        ``coef`` has the coefficients that a solver found for the rows of `list_rows`.
        """
        heights: NDArray[Any] = np.empty(coef.shape[::-1], coef.dtype)
        fast.add_functions(self.starts, self.functions, self.numbers, coef, heights)
        return heights


def grow_tree(knots: Knots, levels: FloatArray) -> KnotTree:
    """Return the functions at each knot; ``levels`` are the values of the codes."""
    values, n_knots = levels[knots.codes], len(knots.codes)
    stack = np.empty((2 * n_knots + 2, 2), np.int64)
    starts = np.zeros(n_knots + 1, np.int64)
    nothing, no_numbers = np.empty(0, np.uint32), np.empty(0)
    fast.grow_trees(knots.offsets, values, knots.counts, stack, starts, nothing, no_numbers)
    starts = np.cumsum(starts)
    functions, numbers = np.empty(starts[-1], np.uint32), np.empty(starts[-1])
    fast.grow_trees(
        knots.offsets, values, knots.counts, stack, starts[:-1].copy(), functions, numbers
    )
    return KnotTree(knots, starts, functions, numbers)


def list_rows(rows: Rows, tree: KnotTree) -> Rows:
    """Return sparse rows of bins as rows of listed numbers, whose products are the same."""
    total = tree.count_numbers()
    bounds, columns = np.zeros(len(rows.indptr), np.int64), np.empty(total, np.uint32)
    values = np.empty(total, float_type(rows))
    fast.list_rows(
        rows.codes, rows.gaps, rows.indptr, tree.knots.offsets, tree.knots.codes, tree.starts,
        tree.functions, tree.numbers, bounds, columns, values,
    )  # fmt: skip
    # Arrays of fixed types, so that loops are compiled once for all codes.
    nothing = np.empty(0, np.uint8)
    return rows._replace(
        kind=rows_fast.LISTS, codes=nothing, gaps=nothing, indptr=bounds,
        n_features=len(tree.knots.codes), rank=1, columns=columns, plain_read=values,
    )  # fmt: skip
