"""Rows at the client: held once, and known by their numbers until a model is made of them.

A model may have so many support vectors that a second copy of them does not fit the client's memory.
Rows that arrive therefore go to one matrix. What the client computes with their blocks, it computes
with blocks that hold numbers of rows instead of rows.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from widemargin.distributed.blocks import Block, stack
from widemargin.kernels import Index

#: Room for more rows that is added when the matrix is full, as a share of the rows, and at least.
GROWTH, LEAST_ROOM = 0.125, 1024
#: Bytes that are moved at a time when rows change places.
MOVED_BYTES = 2**24


class RowStore:
    """One matrix of rows, dense or sparse, that grows."""

    def __init__(self) -> None:
        self._dense: Any = None
        self._sparse: list[Any] = []
        self._n_rows = 0

    def keep(self, block: Block) -> Block:
        """Keep the rows of a block; returns the block with their numbers as its only column."""
        numbers = np.arange(self._n_rows, self._n_rows + len(block))
        if sparse.issparse(block.X) and self._dense is not None:
            # Blocks of both kinds become sparse.
            self._sparse, self._dense = [sparse.csr_matrix(self._dense[: self._n_rows])], None
        if sparse.issparse(block.X) or self._sparse:
            self._sparse.append(sparse.csr_matrix(block.X))
        else:
            self._append(block.X)
        self._n_rows += len(block)
        return replace(block, X=numbers[:, None])

    def fetch(self, numbers: Index) -> Any:
        """Return a copy of some rows."""
        return self._join()[numbers]

    def take_in_order(self, numbers: Index) -> Any:
        """Return rows in this order; the store forgets all of them.

        Dense rows change places within the matrix, a few columns at a time.
        """
        rows, n_rows = self._join(), len(numbers)
        self._dense, self._sparse = None, []
        if sparse.issparse(rows):
            return rows[numbers]
        if n_rows > len(rows):
            _resize(rows, n_rows)
        step = max(1, MOVED_BYTES // (rows.itemsize * max(n_rows, 1)))
        for first in range(0, rows.shape[1], step):
            some = slice(first, first + step)
            rows[:n_rows, some] = rows[numbers, some]
        _resize(rows, n_rows)
        return rows

    def _append(self, X: Any) -> None:
        if self._dense is None:
            self._dense = np.empty((0, X.shape[1]), X.dtype)
        kind = np.result_type(self._dense, X)
        if kind != self._dense.dtype:
            self._dense = self._dense.astype(kind)
        last = self._n_rows + len(X)
        if last > len(self._dense):
            _resize(self._dense, last + max(LEAST_ROOM, int(GROWTH * last)))
        self._dense[self._n_rows : last] = X

    def _join(self) -> Any:
        if self._sparse:
            self._sparse = [stack(self._sparse)]
            return self._sparse[0]
        return self._dense


def _resize(rows: Any, n_rows: int) -> None:
    """Change the number of rows in place, which moves no memory of large matrices.

    Nobody else has a view of the rows.
    """
    rows.resize((n_rows, rows.shape[1]), refcheck=False)
