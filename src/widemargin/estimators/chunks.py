"""Data that come in pieces: collected as codes, a byte or two for each value."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.problem import Problem
from widemargin.tables.quantiser import (
    Codes,
    Quantiser,
    Ranges,
    dense_codes,
    join_ranges,
    measure_ranges,
    row_chunks,
)
from widemargin.validation import validate_chunk, validate_labels


@dataclass(frozen=True)
class Collected:
    """All pieces together.

    Attributes
    ----------
    problem : Problem
        Labels and weights; its data are the codes, as a matrix.
    codes : Codes
        Of all values.
    ranges : ndarray of shape (2, n_features)
        Smallest and largest values.
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
) -> Collected:
    """Go through the pieces twice: for ranges and labels, then for codes.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_``; its class weights are used.
    chunks : iterable or callable
        Pieces, or a function that returns an iterator over them.
    check : callable
        Refuses features that will not do.
    codes_path : path-like or None
        File for the codes.
    fit_grid : callable
        Makes the quantiser from the ranges.
    """
    ranges, labels, weights = None, [], []
    for number, (X, y, weight) in enumerate(_pieces(chunks)):
        X, y, weight = validate_chunk(estimator, X, y, weight, is_first=number == 0)
        check(X)
        part = measure_ranges(row_chunks(X))
        ranges = part if ranges is None else join_ranges(ranges, part)
        labels.append(y)
        weights.append(weight)
    if ranges is None:
        raise ValueError("chunks: there are none; give at least one pair (X, y)")
    classes, indices, row_weights = validate_labels(
        np.concatenate(labels), np.concatenate(weights), estimator.class_weight
    )
    quantiser = fit_grid(ranges)
    codes = _encode_pieces(estimator, chunks, quantiser, len(indices), codes_path)
    problem = Problem(
        codes, indices, classes, np.concatenate(weights), row_weights, np.arange(len(indices))
    )
    return Collected(problem, dense_codes(codes), np.array([ranges.low, ranges.high]))


def _encode_pieces(
    estimator: Any,
    chunks: Any,
    quantiser: Quantiser,
    n_rows: int,
    codes_path: str | os.PathLike[str] | None,
) -> NDArray[Any]:
    shape = (n_rows, len(quantiser.low))
    codes: NDArray[Any]
    if codes_path is None:
        codes = np.empty(shape, quantiser.dtype)
    else:
        codes = np.lib.format.open_memmap(
            os.fspath(codes_path), mode="w+", dtype=quantiser.dtype, shape=shape
        )
    filled = 0
    for X, y, weight in _pieces(chunks):
        X, _, _ = validate_chunk(estimator, X, y, weight, is_first=False)
        dense = X.toarray() if sparse.issparse(X) else X
        if filled + len(dense) > n_rows:
            filled += len(dense)
            break
        codes[filled : filled + len(dense)] = quantiser.encode(dense).values.reshape(dense.shape)
        filled += len(dense)
    if filled != n_rows:
        raise ValueError(
            f"chunks: the first time through there were {n_rows} rows, the second time "
            f"{'more' if filled > n_rows else filled}; give a list, or a function that returns a new "
            "iterator over the same data"
        )
    return codes


def _pieces(chunks: Any) -> Iterator[tuple[Any, Any, Any]]:
    for piece in chunks() if callable(chunks) else chunks:
        if not isinstance(piece, tuple) or len(piece) not in (2, 3):
            raise ValueError("chunks: every piece must be (X, y) or (X, y, sample_weight)")
        yield piece if len(piece) == 3 else (*piece, None)
