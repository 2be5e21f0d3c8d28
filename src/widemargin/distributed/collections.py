"""Dask collections and plain arrays as aligned lists of blocks of rows."""

import sys
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from widemargin.distributed.tasks import NEEDS_DASK

#: Rows of a block into which plain arrays are cut, at least.
LEAST_ROWS = 1000


@dataclass(frozen=True)
class Pieces:
    """Training data in pieces that lie on the workers, or will be computed there.

    Attributes
    ----------
    X, y, weights : list
        Delayed objects or arrays, one for each piece; None in ``weights`` if there are none.
    n_features : int
        Number of columns.
    feature_names : ndarray or None
        Names of the columns of a DataFrame, if all are text.
    """

    X: list[Any]
    y: list[Any]
    weights: list[Any]
    n_features: int
    feature_names: Any


def is_collection(X: Any) -> bool:
    """Return whether X is a Dask collection; Dask is not imported if nobody has."""
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(X))


def cut_collections(X: Any, y: Any, sample_weight: Any) -> Pieces:
    """Return the pieces of a Dask collection and what belongs to them of y and the weights."""
    if not is_collection(X):
        raise TypeError(
            "X: y or sample_weight is a Dask collection but X is not; give all of them as Dask "
            "collections, or none"
        )
    if y is None:
        raise ValueError("y: requires y to be passed, but the target y is None")
    is_frame = hasattr(X, "npartitions") and hasattr(X, "columns")
    X, names = (X, _check_frame(X)) if is_frame else (_check_array(X), None)
    n_features = len(X.columns) if is_frame else X.shape[1]
    lengths = None if is_frame else X.chunks[0]
    parts = list(X.to_delayed()) if is_frame else X.to_delayed()[:, 0].tolist()
    targets = _align("y", y, lengths, len(parts))
    weights = [None] * len(parts)
    if sample_weight is not None:
        weights = _align("sample_weight", sample_weight, lengths, len(parts))
    return Pieces(parts, targets, weights, n_features, names)


def cut_arrays(X: Any, y: Any, weights: Any, n_blocks: int) -> Pieces:
    """Return pieces of arrays that have been checked, at most ``n_blocks`` of similar sizes."""
    n_rows = X.shape[0]
    n_blocks = max(1, min(n_blocks, n_rows // LEAST_ROWS))
    bounds = [n_rows * k // n_blocks for k in range(n_blocks + 1)]
    at = [slice(a, b) for a, b in pairwise(bounds)]
    return Pieces(
        [X[rows] for rows in at], [y[rows] for rows in at], [weights[rows] for rows in at],
        X.shape[1], None,
    )  # fmt: skip


def _check_frame(frame: Any) -> Any:
    """Refuse columns that are no numbers; return the names of the columns."""
    kinds = frame.dtypes
    bad = [
        f"{name!r} ({kind})"
        for name, kind in kinds.items()
        if getattr(kind, "kind", "O") not in "biuf" or str(kind) == "category"
    ]
    if bad:
        raise ValueError(
            f"X: the columns {', '.join(bad)} of the DataFrame are no numbers; encode them, for "
            "example with one column for each category, or drop them"
        )
    names = np.asarray(frame.columns, dtype=object)
    return names if all(isinstance(name, str) for name in names) else None


def _check_array(X: Any) -> Any:
    """Refuse arrays that are no matrix of numbers; return the array in one chunk across columns."""
    if not hasattr(X, "chunks") or not hasattr(X, "to_delayed"):
        raise TypeError(
            f"X: a Dask collection of type {type(X).__name__} is not supported; give a dask.array "
            "or a dask.dataframe"
        )
    if X.ndim != 2:
        raise ValueError(
            f"X: expected a 2D array, got a Dask array of {X.ndim} dimensions; reshape it to rows and "
            "columns"
        )
    if np.dtype(X.dtype).kind not in "biuf":
        raise ValueError(f"X: a Dask array of dtype {X.dtype} holds no real numbers; use X.astype")
    if np.isnan(X.shape[1]):
        raise ValueError("X: the number of columns of the Dask array is unknown; give it a shape")
    if X.numblocks[1] > 1:
        warnings.warn(
            f"X: the Dask array has {X.numblocks[1]} chunks across columns; they are merged. Use "
            "X.rechunk({1: -1}) to avoid this in every fit",
            UserWarning,
            stacklevel=6,
        )
    return merge_columns(X)


def merge_columns(X: Any) -> Any:
    """Return a Dask array in one chunk across columns."""
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _align(name: str, values: Any, lengths: Any, n_parts: int) -> list[Any]:
    """Return y or the weights in pieces like those of X; ``lengths`` are the rows of these."""
    knows_lengths = lengths is not None and not np.isnan(lengths).any()
    if not is_collection(values):
        if not knows_lengths:
            raise ValueError(
                f"{name}: it is no Dask collection, and the chunk sizes of X are unknown; call "
                f"X.compute_chunk_sizes() first, or give {name} as a Dask collection"
            )
        return _cut_like(name, np.asarray(values), lengths)
    if hasattr(values, "chunks"):
        if values.ndim > 1 and values.numblocks[1] > 1:
            raise ValueError(
                f"{name}: expected one column, got {values.shape[1]}; give one number for each row"
            )
        own = values.chunks[0]
        if knows_lengths and not np.isnan(own).any() and own != lengths:
            _check_total(name, sum(own), sum(lengths))
            values = values.rechunk({0: lengths})
        parts = values.to_delayed().ravel().tolist()
    else:
        parts = list(values.to_delayed())
    if len(parts) != n_parts:
        raise ValueError(
            f"{name}: it has {len(parts)} partitions but X has {n_parts}, and the chunk sizes of one "
            "of them are unknown; call compute_chunk_sizes() on Dask arrays, or repartition "
            "DataFrames alike"
        )
    return parts


def _cut_like(name: str, values: Any, lengths: Any) -> list[Any]:
    _check_total(name, len(values), sum(lengths))
    return np.split(values, np.cumsum(lengths)[:-1])


def _check_total(name: str, n_given: int, n_rows: int) -> None:
    if n_given != n_rows:
        raise ValueError(
            f"{name}: it has {n_given} rows, but X has {n_rows}; give one value for each row"
        )


def delay(function: Any, *args: Any, name: str) -> Any:
    """Return a delayed call of a function, with a name for its task."""
    return import_delayed()(function, pure=False)(*args, dask_key_name=name)


def delay_value(value: Any, name: str) -> Any:
    """Return an object that Dask sends to the workers that need it."""
    return import_delayed()(value, name=name, traverse=False)


def import_delayed() -> Any:
    """Return `dask.delayed`; raise an error that says what to install."""
    try:
        from dask import delayed
    except ImportError as error:
        raise ImportError(NEEDS_DASK) from error
    return delayed


def compute_all(delayed: list[Any], client: Any) -> list[Any]:
    """Return the results of delayed calls, from a client or from the scheduler that Dask prefers."""
    import dask

    if client is None:
        return list(dask.compute(*delayed))
    return list(client.gather(client.compute(delayed)))
