"""The kernel matrix of one problem, computed or kept in rows."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from widemargin.exact.pair_moves_fast import make_known
from widemargin.kernels import Index, Kernel, Points
from widemargin.kernels.tiles_fast import (
    RowSource,
    add_stored_rows,
    copy_stored_rows,
    store_columns,
    write_rows,
)
from widemargin.memory import Buffers
from widemargin.parallel import Workers

FloatArray = NDArray[np.float64]

#: Stored values per row of data from which kernel rows are cached. With 12 to 22 values computing a
#: kernel value again was faster, with 150 reading it from memory; nothing between was measured.
CACHE_ENTRIES = 64
#: Row source of a matrix whose rows have all been computed.
NO_SOURCE = RowSource(0, 0.0, 0, np.empty(0, np.float32), np.empty(0, np.float32))
#: Columns of a cached row that are computed at a time.
PART = 1024


class Gram:
    """Kernel matrix of one problem. Its entries are computed when they are needed and not stored.

    A problem uses some of the prepared points: ``index`` names them, and the methods number them from
    zero. ``diag`` is the diagonal of the kernel matrix of all prepared points, if it is known.
    """

    def __init__(
        self, kernel: Kernel, points: Points, workers: Workers, index: Index | None = None,
        buffers: Buffers | None = None, diag: FloatArray | None = None,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.points = points
        self.workers = workers
        self.buffers = Buffers() if buffers is None else buffers
        self.index = np.arange(len(points)) if index is None else index
        self.diag = (kernel.diag(points) if diag is None else diag)[self.index]
        self._whole: LazyMatrix | None = None

    def __len__(self) -> int:
        return len(self.index)

    def block(self, rows: Index, cols: Index, out: NDArray[np.float32], workers: Workers) -> None:
        """Write ``K[rows, cols]`` to the first columns of ``out``."""
        self.kernel.block(
            self.points, self.index[rows], self.points, self.index[cols], out, workers
        )

    def accumulate(self, rows: Index, cols: Index, coef: FloatArray, out: FloatArray) -> None:
        """Add ``K[rows, cols] @ coef`` to ``out``."""
        self.kernel.accumulate(
            self.points, self.index[rows], self.points, self.index[cols], coef.reshape(-1, 1),
            out.reshape(-1, 1), self.workers,
        )  # fmt: skip

    @cached_property
    def row_source(self) -> RowSource | None:
        """What rows are computed from one by one; None where all at once are faster."""
        return self.kernel.row_source(self.points, self.index)

    def fill_whole(self, out: NDArray[np.float32]) -> None:
        """Write the full matrix of a small problem to ``out``."""
        everyone = np.arange(len(self))
        self.block(everyone, everyone, out, self.workers)
        out[everyone, everyone] = self.diag

    def whole(self) -> "LazyMatrix":
        """The full matrix of a small problem; every call returns the same object."""
        if self._whole is None:
            self._whole = LazyMatrix(self)
        return self._whole


class LazyMatrix:
    """The kernel matrix of a small problem, whose rows are computed when they are first needed.

    Most dual variables of a small problem never change, so most rows are never needed. Where BLAS
    computes all rows faster than compiled loops compute some, the matrix is filled at once.

    Attributes
    ----------
    tiles : ndarray of shape (1, n, n)
        The matrix, as the only one of the tiles that `optimise_pairs` takes.
    is_known : ndarray of shape (n,)
        Marks the rows that have been computed.
    source : RowSource
        What the other rows are computed from.
    diag : ndarray of shape (n,)
        The diagonal.
    """

    def __init__(self, gram: Gram) -> None:
        n, source = len(gram), gram.row_source
        self.tiles = gram.buffers.take("working", 1, n, n)
        self.source = NO_SOURCE if source is None else source
        self.is_known = np.full(n, source is None)
        self.diag = gram.diag.astype(np.float32)
        if source is None:
            gram.fill_whole(self.tiles[0])

    def fill(self, rows: Index) -> None:
        """Compute the given rows, unless they have been computed before."""
        for row in rows[~self.is_known[rows]]:
            make_known(row, self.source, self.diag, self.is_known, self.tiles)


class KeptGram(Gram):
    """A `Gram` whose full matrix stays in memory from one call of the solver to the next.

    Problems that differ in their bounds alone, as those of growing costs, share it.
    """


class CachedGram(Gram):
    """A `Gram` with a cache of rows that were multiplied by a coefficient.

    The cache pays when kernel values are expensive, or when several problems share the same points.
    The least recently used rows are replaced first.
    """

    def __init__(
        self, kernel: Kernel, points: Points, workers: Workers, max_bytes: int,
        index: Index | None = None, buffers: Buffers | None = None, diag: FloatArray | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel, points, workers, index, buffers, diag)
        n = len(self)
        capacity = int(min(n, max(1, max_bytes // (4 * n))))
        self._store = self.buffers.take("rows", capacity, n)
        self._slot_of = np.full(n, -1, np.intp)
        self._owner_of = np.full(capacity, -1, np.intp)
        self._last_use = np.zeros(capacity, np.int64)
        self._clock = 0

    def block(self, rows: Index, cols: Index, out: NDArray[np.float32], workers: Workers) -> None:
        """Write ``K[rows, cols]`` to the first columns of ``out``, copying rows that are cached."""
        slots = self._slot_of[rows]
        copy_stored_rows(self._store, slots, cols, out)
        others = np.flatnonzero(slots < 0)
        values = np.empty((len(others), len(cols)), np.float32)
        super().block(rows[others], cols, values, workers)
        write_rows(values, others, out)

    def accumulate(self, rows: Index, cols: Index, coef: FloatArray, out: FloatArray) -> None:
        """Add ``K[rows, cols] @ coef`` to ``out``."""
        step = len(self._store)
        for at in range(0, len(cols), step):
            slots = self._fetch(cols[at : at + step])
            self._add_rows(slots, coef[at : at + step], rows, out)

    def _add_rows(self, slots: Index, coef: FloatArray, rows: Index, out: FloatArray) -> None:
        self.workers.run(
            len(rows),
            lambda i, j: add_stored_rows(self._store, slots, coef, rows[i:j], out[i:j]),
            grain=2048,
        )

    def _fetch(self, wanted: Index) -> Index:
        """Cache slots of the wanted rows; missing rows are computed."""
        self._clock += 1
        held = self._slot_of[wanted]
        self._last_use[held[held >= 0]] = self._clock
        missing = wanted[held < 0]
        if len(missing):
            slots = np.argsort(self._last_use, kind="stable")[: len(missing)]
            evicted = self._owner_of[slots]
            self._slot_of[evicted[evicted >= 0]] = -1
            self._compute(missing, slots)
            self._slot_of[missing], self._owner_of[slots] = slots, missing
            self._last_use[slots] = self._clock
        return self._slot_of[wanted]

    def _compute(self, missing: Index, slots: Index) -> None:
        """Fill slots with rows; threads share the columns, because rows come in small numbers."""
        everyone, alone = np.arange(len(self)), Workers(1, None)

        def fill_columns(first: int, last: int) -> None:
            # The long side is given as rows: the sparse loops prepare every tile's columns. By fixed
            # parts, so that rounding does not depend on the number of threads.
            for start in range(first, last, PART):
                part = np.empty((min(PART, last - start), len(missing)), np.float32)
                self.block(everyone[start : start + len(part)], missing, part, alone)
                store_columns(part, slots, start, self._store)

        self.workers.run(len(self), fill_columns, grain=PART)


def make_grams(
    kernel: Kernel, points: Points, workers: Workers, indices: list[Index], max_bytes: int,
    buffers: Buffers | None = None,
) -> Iterator[Gram]:  # fmt: skip
    """Kernel matrices of several problems, one at a time, because they share buffers.

    Problems on all points, as in one-vs-rest, share one cache of rows. Any other problem has a cache
    of its own if kernel values are expensive, and computes them again if they are cheap.
    """
    n = len(points)
    buffers = Buffers() if buffers is None else buffers
    # Once for all: a callable kernel may be slow.
    diag = kernel.diag(points)
    shared = None
    if len(indices) > 1 and all(len(index) == n for index in indices):
        shared = CachedGram(kernel, points, workers, max_bytes, diag=diag)
    for index in indices:
        if shared is not None:
            yield shared
        elif points.entries_per_row >= CACHE_ENTRIES:
            yield CachedGram(kernel, points, workers, max_bytes, index, buffers, diag)
        else:
            yield Gram(kernel, points, workers, index, buffers, diag)
