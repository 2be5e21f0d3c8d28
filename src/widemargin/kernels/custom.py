"""Kernels the library cannot see into: precomputed matrices and callables."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels.base import Index, Kernel, Points
from widemargin.parallel import Workers

#: Entries asked of a callable at a time.
TILE_ENTRIES = 1 << 22


class OpaqueKernel(Kernel):
    """Base of kernels that answer only "give me these rows against those"."""

    def params(self) -> dict[str, float]:
        return {}

    def values(self, a: Points, rows: Index, b: Points, cols: Index) -> NDArray[Any]:
        """``k(a[rows], b[cols])`` as an array."""
        raise NotImplementedError

    def block(
        self, a: Points, rows: Index, b: Points, cols: Index, out: NDArray[np.float32],
        workers: Workers,
    ) -> None:  # fmt: skip
        for i, j in row_tiles(len(rows), len(cols)):
            out[i:j] = self.values(a, rows[i:j], b, cols)

    def accumulate(
        self, a: Points, rows: Index, b: Points, cols: Index, coef: NDArray[np.float64],
        out: NDArray[np.float64], workers: Workers,
    ) -> None:  # fmt: skip
        for i, j in row_tiles(len(rows), len(cols)):
            out[i:j] += self.values(a, rows[i:j], b, cols) @ coef


def row_tiles(n_rows: int, n_cols: int) -> list[tuple[int, int]]:
    """Pieces of ``range(n_rows)`` whose tiles hold about `TILE_ENTRIES` entries."""
    step = max(1, TILE_ENTRIES // max(n_cols, 1))
    return [(i, min(i + step, n_rows)) for i in range(0, n_rows, step)]


@dataclass(frozen=True)
class Precomputed(OpaqueKernel):
    """The rows given are rows of the kernel matrix, the columns the training points in order.

    In ``k(a, b)`` the points ``b`` must be training points: they are known by their column alone.
    """

    name = "precomputed"

    def prepare(self, X: Any, like: Points | None = None) -> Points:
        return Points(X, np.zeros(X.shape[0]))

    def diag(self, points: Points) -> NDArray[np.float64]:
        return np.asarray(points.values.diagonal(), np.float64)

    def values(self, a: Points, rows: Index, b: Points, cols: Index) -> NDArray[Any]:
        return a.values[rows[:, None], cols]


@dataclass(frozen=True)
class CallableKernel(OpaqueKernel):
    """A function ``(X, Z) -> K`` on arrays of rows."""

    function: Callable[[Any, Any], Any]
    name = "callable"

    def prepare(self, X: Any, like: Points | None = None) -> Points:
        return Points(X, np.zeros(X.shape[0]))

    def diag(self, points: Points) -> NDArray[np.float64]:
        at = np.arange(len(points))
        return np.array([self.values(points, at[i : i + 1], points, at[i : i + 1])[0, 0] for i in at])

    def values(self, a: Points, rows: Index, b: Points, cols: Index) -> NDArray[Any]:
        K = np.asarray(self.function(a.values[rows], b.values[cols]))
        if K.shape != (len(rows), len(cols)):
            raise ValueError(
                f"kernel: the callable returned an array of shape {K.shape} for {len(rows)} rows "
                f"and {len(cols)} rows; return shape ({len(rows)}, {len(cols)})"
            )
        if not np.isfinite(K).all():
            raise ValueError("kernel: the callable returned NaN or infinity; check its domain")
        return K
