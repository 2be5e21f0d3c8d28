"""Training data given in pieces, collected as codes of one or two bytes a value."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import _num_samples

from widemargin.additive.codes import (
    GAP_TYPES,
    Codes,
    allocate_codes,
    count_bytes,
    place_rows,
    write_dense,
    write_sparse,
)
from widemargin.additive.quantiser import (
    Quantiser,
    Ranges,
    join_ranges,
    measure_ranges,
    measured_chunks,
)
from widemargin.problem import Problem
from widemargin.validation import validate_chunk, validate_labels

#: Advice for pieces that can be iterated over once only.
_TWICE = "give a list, or a function that returns a new iterator over the same data"
_OTHERS = f"chunks: the second iteration gave other values than the first; {_TWICE}"


@dataclass(frozen=True)
class Collected:
    """All pieces as one training set.

    Attributes
    ----------
    problem : Problem
        Labels and weights; its ``X`` are the codes.
    codes : Codes
        Codes of all pieces.
    ranges : ndarray of shape (2, n_features)
        Smallest and largest value of each feature.
    """

    problem: Problem
    codes: Codes
    ranges: NDArray[np.float64]


def collect_chunks(
    estimator: Any,
    chunks: Any,
    check: Callable[[Any], None],
    codes_path: str | os.PathLike[str] | None,
    fit_grid: Callable[[Ranges], Quantiser],
    *,
    may_be_sparse: bool,
) -> Collected:
    """Iterate over the pieces twice: for ranges and labels, then for codes.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted; ``n_features_in_`` is set, and its class weights are used.
    chunks : iterable or callable
        Pieces, or a function that returns an iterator over them.
    check : callable
        Raises ValueError for features that the kernel is not defined for.
    codes_path : path-like or None
        File for the codes.
    fit_grid : callable
        Returns the quantiser for the ranges of the features.
    may_be_sparse : bool
        Whether the codes of zeros may be left out if all pieces are sparse and this saves memory.
    """
    ranges, labels, weights = None, [], []
    needed: NDArray[np.int64] | None = np.zeros(len(GAP_TYPES), np.int64)
    for number, (X, y, weight) in enumerate(_pieces(chunks)):
        X, y, weight = validate_chunk(estimator, X, y, weight, is_first=number == 0)
        check(X)
        part = measure_ranges(measured_chunks(X))
        ranges = part if ranges is None else join_ranges(ranges, part)
        needed = None if needed is None or not sparse.issparse(X) else needed + place_rows(X)[:, -1]
        labels.append(y)
        weights.append(weight)
    if ranges is None:
        raise ValueError("chunks: there are none; give at least one pair (X, y)")
    classes, indices, row_weights = validate_labels(
        np.concatenate(labels), np.concatenate(weights), estimator.class_weight
    )
    quantiser = fit_grid(ranges)
    shape = (len(indices), len(ranges.low))
    if not may_be_sparse or not _saves_bytes(needed, shape, quantiser):
        needed = None
    codes = allocate_codes(shape, quantiser.dtype, needed, codes_path)
    _encode_pieces(estimator, chunks, quantiser, needed, codes)
    problem = Problem(
        codes, indices, classes, np.concatenate(weights), row_weights, np.arange(len(indices))
    )
    return Collected(problem, codes, np.array([ranges.low, ranges.high]))


def _saves_bytes(
    needed: NDArray[np.int64] | None, shape: tuple[int, int], quantiser: Quantiser
) -> bool:
    """Return whether codes of the stored values need fewer bytes than codes of all values."""
    whole = prod(shape) * np.dtype(quantiser.dtype).itemsize
    return needed is not None and bool(count_bytes(needed, quantiser.dtype).min() < whole)


def _encode_pieces(
    estimator: Any,
    chunks: Any,
    quantiser: Quantiser,
    needed: NDArray[np.int64] | None,
    codes: Codes,
) -> None:
    """Write the codes of all pieces; ``needed`` is None if every value has a code."""
    n_rows, filled, seen = len(codes), 0, np.zeros(len(GAP_TYPES), np.int64)
    for X, y, weight in _pieces(chunks):
        X, _, _ = validate_chunk(estimator, X, y, weight, is_first=False)
        first, filled = filled, filled + X.shape[0]
        if filled > n_rows:
            break
        if needed is None:
            write_dense(X, quantiser, first, codes)
            continue
        X = sparse.csr_matrix(X)
        places = place_rows(X)
        seen += places[:, -1]
        if (seen > needed).any():
            raise ValueError(_OTHERS)
        write_sparse(X, places, quantiser, first, codes)
    if filled != n_rows:
        raise ValueError(
            f"chunks: the first iteration gave {n_rows} rows, the second "
            f"{'more' if filled > n_rows else filled}; {_TWICE}"
        )
    if needed is not None and (seen != needed).any():
        raise ValueError(_OTHERS)


def _pieces(chunks: Any) -> Iterator[tuple[Any, Any, Any]]:
    for piece in chunks() if callable(chunks) else chunks:
        if not isinstance(piece, tuple | list) or len(piece) not in (2, 3):
            raise ValueError(
                f"chunks: a piece is a {type(piece).__name__}; give tuples (X, y), or "
                "(X, y, sample_weight)"
            )
        X, y, weight = piece if len(piece) == 3 else (*piece, None)
        if _num_samples(X) or _num_samples(y):
            yield X, y, weight
