"""Blocks, which are rows that lie together on a worker: checks, and what the client learns of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from widemargin.kernel_arguments import find_negative_columns
from widemargin.kernels import Index
from widemargin.problem import Problem
from widemargin.validation import (
    ANY_BLOCKS,
    FLOAT_ROWS,
    canonical,
    validate_class_weights,
    validate_sample_weights,
)

#: Rows looked at a time.
CHECKED_ROWS = 4096

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class RawBlock:
    """Rows of one partition that have passed the checks.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n, n_features)
        Finite numbers.
    y : ndarray of shape (n,)
        Labels as the user gave them.
    weights : ndarray of shape (n,)
        Sample weights, positive.
    kept : ndarray of shape (n,)
        Position of each row in its partition: rows of weight zero are left out.
    n_given : int
        Number of rows of the partition.
    """

    X: Any
    y: NDArray[Any]
    weights: FloatArray
    kept: Index
    n_given: int


@dataclass(frozen=True)
class Facts:
    """What the client learns of the rows of a block, or of all blocks.

    Attributes
    ----------
    n_rows, n_given : int
        Number of rows with a weight, and of all rows.
    labels, counts : ndarray
        The distinct labels, and how many rows each has.
    weight, mean, variance : float
        Sum of the sample weights, and weighted mean and variance of all values.
    negative : ndarray
        Columns with a negative value.
    extreme : ndarray or csr_matrix of shape (0 or more, n_features)
        The row of the largest norm of each block: the precision of kernel values depends on it.
    """

    n_rows: int
    n_given: int
    labels: NDArray[Any]
    counts: Index
    weight: float
    mean: float
    variance: float
    negative: Index
    extreme: Any


@dataclass(frozen=True)
class Block:
    """Rows that lie together on a worker, with what is known of them.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n, n_features)
        The rows.
    labels : ndarray of shape (n,)
        Class of each row.
    weights : ndarray of shape (n,)
        Factor on C of each row.
    ids : ndarray of shape (n,)
        Number of each row in the user's data.
    coef : ndarray of shape (n, n_slots) or None
        Signed dual variables in the binary problems of the row; see `slots`.
    """

    X: Any
    labels: NDArray[np.int32]
    weights: FloatArray
    ids: NDArray[np.int64]
    coef: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def of_rows(cls, X: Any) -> "Block":
        """Return a block of rows of the first class, with weights of one."""
        n = X.shape[0]
        return cls(X, np.zeros(n, np.int32), np.ones(n), np.arange(n))

    def take(self, rows: Index) -> "Block":
        """Return the block of some of the rows."""
        return Block(
            self.X[rows], self.labels[rows], self.weights[rows], self.ids[rows],
            None if self.coef is None else self.coef[rows],
        )  # fmt: skip

    def choose(self, is_chosen: Any) -> "Block":
        """Return the block of the rows that are marked."""
        return self.take(np.flatnonzero(is_chosen))

    def as_problem(self, classes: NDArray[Any]) -> Problem:
        """Return the rows as a problem, in which classes may be missing."""
        return Problem(
            self.X, self.labels.astype(np.intp), classes, self.weights, self.weights, self.ids
        )


def check_rows(number: int, n_features: int, X: Any, y: Any, weights: Any) -> RawBlock:
    """Check the rows of a partition; errors name it."""
    try:
        return _check_rows(n_features, X, y, weights)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{error} (in partition {number} of the training data)") from error


def _check_rows(n_features: int, X: Any, y: Any, weights: Any) -> RawBlock:
    n_given = X.shape[0]
    y = column_or_1d(np.asarray(y))
    if len(y) != n_given:
        raise ValueError(
            f"y: it has {len(y)} rows where X has {n_given}; partition them alike, or call "
            "compute_chunk_sizes() on Dask arrays whose chunk sizes are unknown"
        )
    if X.shape[1] != n_features:
        raise ValueError(f"X: the rows have {X.shape[1]} features, but {n_features} are expected")
    if n_given == 0:
        empty = sparse.csr_matrix(X) if sparse.issparse(X) else np.asarray(X, np.float32)
        return RawBlock(empty, y, np.empty(0), np.arange(0), 0)
    layout = FLOAT_ROWS if sparse.issparse(X) else ANY_BLOCKS
    X = check_array(
        X, accept_sparse="csr", dtype=layout.types_for(X), order="C", accept_large_sparse=True,
        input_name="X",
    )  # fmt: skip
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise ValueError("y: Input y contains NaN; drop these rows")
    check_classification_targets(np.unique(y))
    row_weights = np.ones(n_given)
    if weights is not None:
        row_weights = _check_weights(weights, X)
    kept = np.flatnonzero(row_weights)
    if len(kept) < n_given:
        X, y, row_weights = X[kept], y[kept], row_weights[kept]
    return RawBlock(canonical(X), y, row_weights, kept, n_given)


def _check_weights(weights: Any, X: Any) -> FloatArray:
    """Return the sample weights; a partition may have none that is positive."""
    given = np.asarray(weights, np.float64).ravel()
    if len(given) == X.shape[0] and np.isfinite(given).all() and (given <= 0).all():
        return np.zeros(len(given))
    return validate_sample_weights(given, X)


def describe_rows(block: RawBlock) -> Facts:
    """Describe the rows of a block."""
    labels, counts = np.unique(block.y, return_counts=True)
    weight, mean, variance = 0.0, 0.0, 0.0
    largest, extreme = -np.inf, block.X[:0]
    for X, weights in _walk_rows(block.X, block.weights):
        norms = measure_norms(X)
        if norms.max() > largest:
            largest, extreme = norms.max(), X[[int(norms.argmax())]]
        part = _measure_values(X, weights)
        weight, mean, variance = _join_moments((weight, mean, variance), part)
    return Facts(
        len(block.y), block.n_given, labels, counts, weight, mean, variance,
        find_negative_columns(block.X), as_floats(extreme),
    )  # fmt: skip


def measure_norms(X: Any) -> FloatArray:
    """Return the squared norms of a few rows; those of small integers would overflow."""
    X = X.astype(np.float64, copy=False)
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return np.asarray(squares).ravel()


def _walk_rows(X: Any, weights: FloatArray) -> Iterator[tuple[Any, FloatArray]]:
    """Yield a few rows at a time as floats; sums of small integers would overflow."""
    for start in range(0, X.shape[0], CHECKED_ROWS):
        some = slice(start, start + CHECKED_ROWS)
        yield X[some].astype(np.float64), weights[some]


def _measure_values(X: Any, weights: FloatArray) -> tuple[float, float, float]:
    """Return the weight of rows, and the weighted mean and variance of their values."""
    share = weights / (weights.sum() * X.shape[1])
    mean = float((share @ X).sum())
    if not sparse.issparse(X):
        return float(weights.sum()), mean, float((share @ np.square(X - mean)).sum())
    n_stored = np.diff(X.indptr)
    of_stored = float(np.repeat(share, n_stored) @ np.square(X.data - mean))
    of_zeros = float(share @ (X.shape[1] - n_stored)) * mean * mean
    return float(weights.sum()), mean, of_stored + of_zeros


def _join_moments(
    a: tuple[float, float, float], b: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Return weight, mean and variance of the values of both."""
    total = a[0] + b[0]
    if total == 0:
        return a
    share, apart = b[0] / total, b[1] - a[1]
    mean = a[1] + share * apart
    variance = a[2] + share * (b[2] - a[2]) + share * (1.0 - share) * apart * apart
    return total, mean, variance


def join_facts(facts: Sequence[Facts]) -> Facts:
    """Return what is known of the rows of all blocks."""
    return reduce(_join_two, facts)


def _join_two(a: Facts, b: Facts) -> Facts:
    weight, mean, variance = _join_moments(
        (a.weight, a.mean, a.variance), (b.weight, b.mean, b.variance)
    )
    labels = np.union1d(a.labels, b.labels) if len(b.labels) else a.labels
    labels = labels if len(a.labels) else b.labels
    counts = np.zeros(len(labels), np.intp)
    counts[np.searchsorted(labels, a.labels)] += a.counts
    counts[np.searchsorted(labels, b.labels)] += b.counts
    return Facts(
        a.n_rows + b.n_rows, a.n_given + b.n_given, labels, counts, weight, mean, variance,
        np.union1d(a.negative, b.negative), stack([a.extreme, b.extreme]),
    )  # fmt: skip


def weigh_classes(class_weight: Any, classes: NDArray[Any], counts: Index) -> FloatArray:
    """Return the weight of every class from the number of its rows."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        return counts.sum() / (len(counts) * counts)
    return validate_class_weights(class_weight, classes, classes)


def encode_rows(
    raw: RawBlock, classes: NDArray[Any], class_weights: FloatArray, first: int
) -> Block:
    """Return the rows with classes instead of labels; ``first`` is the number of the first row."""
    labels = np.searchsorted(classes, raw.y).astype(np.int32) if len(raw.y) else raw.kept
    weights = raw.weights * class_weights[labels]
    return Block(raw.X, labels.astype(np.int32), weights, first + raw.kept.astype(np.int64))


def as_floats(X: Any) -> Any:
    """Return rows as float32 or float64, as estimators keep them; texts as they are."""
    if X.dtype.kind == "O":
        return X
    kinds = FLOAT_ROWS.types_for(X)
    return X if X.dtype.type in kinds else X.astype(kinds[0])


def stack(parts: Sequence[Any]) -> Any:
    """Return the rows of matrices of one kind, dense or sparse, as one matrix."""
    filled = [part for part in parts if part.shape[0]] or list(parts[:1])
    if len(filled) == 1:
        return filled[0]
    if any(sparse.issparse(part) for part in filled):
        return sparse.vstack(filled, "csr")
    return np.concatenate(filled)


def concatenate_blocks(blocks: Sequence[Block]) -> Block:
    """Return the rows of several blocks as one block, in the order of the blocks."""
    coefs = [block.coef for block in blocks if block.coef is not None]
    return Block(
        stack([block.X for block in blocks]),
        np.concatenate([block.labels for block in blocks]),
        np.concatenate([block.weights for block in blocks]),
        np.concatenate([block.ids for block in blocks]),
        np.concatenate(coefs) if len(coefs) == len(blocks) else None,
    )


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Return the rows of several blocks as one block, in the order of their numbers."""
    joined = concatenate_blocks(blocks)
    if (np.diff(joined.ids) > 0).all():
        return joined
    return joined.take(np.argsort(joined.ids))


def with_coef(block: Block, coef: FloatArray) -> Block:
    """Return the block with other dual variables."""
    return replace(block, coef=coef)
