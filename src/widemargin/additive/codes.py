"""Codes of all values of dense data, or of the stored values of sparse data."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive import codes_fast as fast

#: Largest number of rows and values of dense data, and of values of sparse data, that are encoded at
#: a time.
CHUNK_ROWS, CHUNK_DENSE, CHUNK_VALUES = 4096, 2**20, 2**16
#: Types that gaps may have.
GAP_TYPES = tuple(np.dtype(kind) for kind in (np.uint8, np.uint16, np.uint32))


class Coder(Protocol):
    """Object that computes the code of a value."""

    @property
    def dtype(self) -> type:
        """Type of the codes."""

    def encode_rows(self, X: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the codes of dense rows to ``out``."""

    def encode_stored(self, data: NDArray[Any], columns: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the codes of some values to ``out``; ``columns`` holds their features."""


@dataclass(frozen=True)
class Codes:
    """Codes of the values of a matrix: of all values, or of the stored values of sparse data.

    Sparse data keep the gap between two features instead of the number of the feature. The feature of
    a code is the feature of the code before it in its row, or zero, plus its gap. A filler bridges a
    gap that is too large for its type: it has the largest gap of the type and the code of zero, and
    adds nothing to a decision value. The next gap is counted from the feature of the filler.

    Attributes
    ----------
    values : ndarray of uint8, uint16 or uint32, one-dimensional
        Codes, row after row.
    gaps : ndarray of uint8, uint16 or uint32
        Gap of each code; empty if every value has a code.
    indptr : ndarray of int64, shape (n_rows + 1,)
        Position of the first code of each row, and the number of codes.
    n_features : int
        Number of features.
    """

    values: NDArray[Any]
    gaps: NDArray[Any]
    indptr: NDArray[np.int64]
    n_features: int

    @property
    def is_sparse(self) -> bool:
        """Whether codes of zero are left out."""
        return len(self.gaps) > 0 or self.n_features * len(self) > len(self.values)

    @property
    def filler(self) -> int:
        """Gap of a filler."""
        return _filler(self.gaps.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return len(self), self.n_features

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def features(self) -> NDArray[np.int32]:
        """Return the feature of every code, fillers included."""
        if not self.is_sparse:
            return np.tile(np.arange(self.n_features, dtype=np.int32), len(self))
        features = np.empty(len(self.values), np.int32)
        fast.add_gaps(self.gaps, self.indptr, features)
        return features

    def to_csr(self, numbers: NDArray[Any]) -> Any:
        """Return the CSR matrix of ``numbers[code]``, without fillers."""
        values, features, indptr = numbers[self.values], self.features(), self.indptr
        if self.is_sparse:
            is_stored = self.gaps != self.filler
            values, features = values[is_stored], features[is_stored]
            indptr = np.concatenate([[0], np.cumsum(is_stored)])[indptr]
        return sparse.csr_matrix((values, features, indptr), self.shape)


def dense_codes(values: NDArray[Any]) -> Codes:
    """Return a dense matrix of codes as `Codes`."""
    n, d = values.shape
    return Codes(values.ravel(), np.empty(0, np.uint8), np.arange(n + 1, dtype=np.int64) * d, d)


def thin_codes(codes: Codes) -> Codes:
    """Leave out codes of zero, which must add nothing to a decision value, if most codes are zero."""
    if codes.is_sparse or 2 * np.count_nonzero(codes.values) > len(codes.values):
        return codes
    filler = _filler(GAP_TYPES[0])
    starts = np.empty(len(codes) + 1, np.int64)
    fast.count_stored(codes.values, codes.n_features, filler, starts)
    kept: NDArray[Any] = np.empty(starts[-1], codes.values.dtype)
    gaps: NDArray[Any] = np.empty(starts[-1], GAP_TYPES[0])
    fast.drop_zeros(codes.values, codes.n_features, filler, kept, gaps)
    return Codes(kept, gaps, starts, codes.n_features)


def encode_matrix(X: Any, coder: Coder, *, is_whole: bool = False) -> Codes:
    """Encode dense or CSR data; of CSR data the stored values only, unless ``is_whole`` is true."""
    if is_whole or not sparse.issparse(X):
        codes = allocate_codes(X.shape, coder.dtype, None)
        write_dense(X, coder, 0, codes)
        return codes
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    places = place_rows(X)
    codes = allocate_codes(X.shape, coder.dtype, places[:, -1])
    write_sparse(X, places, coder, 0, codes)
    return codes


def place_rows(X: Any) -> NDArray[np.int64]:
    """Return the positions of the codes of sorted CSR rows, fillers included, for each gap type."""
    # Gaps of four bytes need no fillers.
    places = np.repeat(X.indptr[None].astype(np.int64), len(GAP_TYPES), axis=0)
    fast.place_rows(X.indices, X.indptr, places[0], places[1])
    return places


def count_bytes(needed: NDArray[np.int64], dtype: type) -> NDArray[np.int64]:
    """Return the bytes of the needed codes and their gaps, for each of `GAP_TYPES`."""
    return needed * np.array([np.dtype(dtype).itemsize + kind.itemsize for kind in GAP_TYPES])


def allocate_codes(
    shape: tuple[int, int],
    dtype: type,
    needed: NDArray[np.int64] | None,
    path: str | os.PathLike[str] | None = None,
) -> Codes:
    """Allocate memory for codes, with the gap type that needs the fewest bytes.

    Parameters
    ----------
    shape : tuple
        Rows and features.
    dtype : type
        Type of the codes.
    needed : ndarray or None
        Number of codes for each of `GAP_TYPES`, fillers included; None for codes of all values.
    path : path-like, optional
        File that holds the codes, mapped into memory.
    """
    if needed is None:
        return dense_codes(_allocate(shape, dtype, path))
    best = int(np.argmin(count_bytes(needed, dtype)))
    n_codes, kind = int(needed[best]), GAP_TYPES[best]
    end = n_codes * np.dtype(dtype).itemsize
    # One array holds codes and gaps, so that one file can hold both. Gaps are aligned for any type.
    first = -(-end // 4) * 4
    room = _allocate((first + n_codes * kind.itemsize,), np.uint8, path)
    indptr = np.zeros(shape[0] + 1, np.int64)
    return Codes(room[:end].view(dtype), room[first:].view(kind), indptr, shape[1])


def _allocate(
    shape: tuple[int, ...], dtype: type, path: str | os.PathLike[str] | None
) -> NDArray[Any]:
    if path is None:
        return np.empty(shape, dtype)
    return np.asarray(
        np.lib.format.open_memmap(os.fspath(path), mode="w+", dtype=dtype, shape=shape)
    )


def write_dense(X: Any, coder: Coder, row: int, codes: Codes) -> None:
    """Write the codes of all values of some rows into ``codes``, beginning at ``row``."""
    out = codes.values.reshape(codes.shape)[row : row + X.shape[0]]
    step = chunk_rows(X.shape[1])
    for start in range(0, X.shape[0], step):
        rows = X[start : start + step]
        rows = rows.toarray() if sparse.issparse(rows) else rows
        coder.encode_rows(rows, out[start : start + step])


def chunk_rows(n_features: int) -> int:
    """Return the number of rows of dense data that are processed at a time."""
    return min(CHUNK_ROWS, max(1, CHUNK_DENSE // n_features))


def write_sparse(X: Any, places: NDArray[np.int64], coder: Coder, row: int, codes: Codes) -> None:
    """Write the codes of some CSR rows into ``codes``, beginning at ``row``.

    ``places`` is the result of `place_rows` for these rows.
    """
    starts = codes.indptr[row] + places[GAP_TYPES.index(codes.gaps.dtype)]
    codes.indptr[row : row + len(starts)] = starts
    zeros: NDArray[Any] = np.empty((1, codes.n_features), coder.dtype)
    coder.encode_rows(np.zeros(zeros.shape, X.dtype), zeros)
    for first, last in _row_blocks(starts):
        source, target = slice(*X.indptr[[first, last]]), slice(*starts[[first, last]])
        columns = X.indices[source]
        stored: NDArray[Any] = np.empty(len(columns), coder.dtype)
        coder.encode_stored(X.data[source], columns, stored)
        # The compiled loop is compiled for one type of gaps only.
        gaps = np.empty(starts[last] - starts[first], np.uint32)
        fast.bridge_gaps(
            stored, columns, X.indptr[first : last + 1], codes.filler, zeros[0],
            codes.values[target], gaps,
        )  # fmt: skip
        codes.gaps[target] = gaps


def _row_blocks(starts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with at most `CHUNK_VALUES` codes, or of one row with more."""
    first = 0
    while first < len(starts) - 1:
        end = np.searchsorted(starts, starts[first] + CHUNK_VALUES, side="right")
        last = max(first + 1, int(end) - 1)
        yield first, last
        first = last


def _filler(kind: np.dtype[Any]) -> int:
    return int(np.iinfo(kind).max)
