"""The interface of kernels: blocks of the kernel matrix, products with it, and its diagonal."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.kernels.tiles_fast import RowSource
from widemargin.parallel import Workers

Index = NDArray[np.intp]

#: Kernel values of float64 that are computed at a time for products, unless a row has more.
EXACT_VALUES = 50_000


@dataclass(frozen=True)
class Points:
    """Rows of data in the form that the compiled loops of a kernel read.

    Attributes
    ----------
    values : ndarray or csr_matrix of shape (n, n_features)
        Scaled or transformed features.
    norms : ndarray of shape (n,)
        What the kernel subtracts from the sum over features, of the dtype of ``values``.
    center : ndarray of shape (n_features,) or None
        What was subtracted from every row before anything else.
    by_difference : bool
        True when norms are so large that rows must be compared feature by feature.
    known : dict
        What has been computed of the points and takes long, as the diagonal of a callable kernel.
    """

    values: Any
    norms: NDArray[Any]
    center: NDArray[np.float64] | None = None
    by_difference: bool = False
    known: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def entries_per_row(self) -> float:
        """Number of stored values per point, to which the time for a kernel value is proportional."""
        stored = self.values.nnz if sparse.issparse(self.values) else self.values.size
        return stored / max(len(self), 1)

    @property
    def nbytes(self) -> int:
        """Number of bytes that the arrays hold."""
        if sparse.issparse(self.values):
            v = self.values
            return int(v.data.nbytes + v.indices.nbytes + v.indptr.nbytes + self.norms.nbytes)
        return int(self.values.nbytes + self.norms.nbytes)


#: Sizes up to which problems and models are treated with float64 kernel values throughout.
SMALL_ROWS, SMALL_VALUES = 200, 10**6


def is_small(n_rows: int, n_features: int) -> bool:
    """Return whether there are so few rows that float64 kernel values cost little."""
    return n_rows <= SMALL_ROWS and n_rows * n_features <= SMALL_VALUES


def check_width(n_features: int, expected: int) -> None:
    """Raise an error if rows do not have the number of features that the compiled loops read."""
    if n_features != expected:
        raise ValueError(f"X: the rows have {n_features} features, but {expected} are expected")


def as_dense(X: Any) -> NDArray[np.float64]:
    """Return a dense or sparse matrix as a float64 array."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, np.float64)


class Kernel(ABC):
    """A kernel function with its parameters.

    A kernel is used in two steps: `prepare` turns rows of data into `Points` once, then `block` and
    `accumulate` visit any part of the kernel matrix between two sets of points. Neither allocates
    more than a tile besides its output.
    """

    name: ClassVar[str]
    #: True when every feature must be non-negative.
    needs_nonnegative: ClassVar[bool] = False
    #: True when gamma belongs to differences of one feature, not to distances of whole rows.
    has_feature_gamma: ClassVar[bool] = False

    @property
    def floor(self) -> float:
        """Smallest kernel value that blocks can hold; smaller ones become it. Zero for none."""
        return 0.0

    @property
    def largest_query(self) -> float:
        """Largest feature for which blocks are computed without overflow."""
        return float("inf")

    @property
    def is_product(self) -> bool:
        """Whether the kernel is a function of the scalar product, which BLAS computes."""
        return False

    @abstractmethod
    def params(self) -> dict[str, float]:
        """Parameters as plain numbers, for display and model files."""

    def adapt(self, X: Any, weights: NDArray[np.float64]) -> "Kernel":
        """Return the kernel with its constants that depend on the weighted training rows, if any."""
        return self

    @abstractmethod
    def prepare(self, X: Any, like: Points | None = None) -> Points:
        """Rows of ``X`` (dense or CSR, validated) in the form `block` and `accumulate` take.

        Points that meet in one call must be alike: give the training points as ``like`` when
        preparing queries.
        """

    def narrow(self, points: Points, like: Points | None = None) -> Points:
        """Return the same points in lower precision, for kernel values with errors up to a thousandth.

        Which cluster is nearest, say. As in `prepare`, points that meet must be alike.
        """
        return points

    def widen(self, points: Points) -> Points:
        """Return the same points such that kernel values do not depend on the points beside them.

        Sums of float64 are rounded to float32 values. BLAS adds in an order that depends on the place
        of a point, which shows in sums of float32.
        """
        return points

    def take(self, points: Points, rows: Index) -> Points:
        """Return a copy of some of the points."""
        values = points.values
        # Several times as fast as an index in brackets, which sparse matrices want.
        taken = values[rows] if sparse.issparse(values) else values.take(rows, axis=0)
        return replace(points, values=taken, norms=points.norms[rows], known={})

    @abstractmethod
    def diag(self, points: Points) -> NDArray[np.float64]:
        """``k(x, x)`` for every point."""

    @abstractmethod
    def block(
        self, a: Points, rows: Index, b: Points, cols: Index, out: NDArray[np.float32],
        workers: Workers,
    ) -> None:  # fmt: skip
        """Write ``k(a[rows], b[cols])`` to the first columns of ``out``."""

    def row_source(self, points: Points, rows: Index) -> RowSource | None:
        """Return what a compiled loop needs to compute rows of the kernel matrix of some points.

        None where it cannot, or not as fast as `block` computes many.
        """
        return None

    @abstractmethod
    def accumulate(
        self, a: Points, rows: Index, b: Points, cols: Index, coef: NDArray[np.float64],
        out: NDArray[np.float64], workers: Workers,
    ) -> None:  # fmt: skip
        """Add ``k(a[rows], b[cols]) @ coef`` to ``out``; coef is (cols, m), out (rows, m)."""

    @abstractmethod
    def exact(self, X: Any, Z: Any) -> NDArray[np.float64]:
        """Return the kernel matrix in float64; an entry does not depend on the other rows.

        For small problems only: no tiles, no threads, dense copies.
        """

    def exact_product(self, X: Any, Z: Any, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``exact(X, Z) @ coef``, a block of rows at a time."""
        step = max(1, EXACT_VALUES // max(Z.shape[0], 1))
        parts = [self.exact(X[i : i + step], Z) @ coef for i in range(0, X.shape[0], step)]
        return np.concatenate(parts) if parts else np.empty(0)

    def hold_exactly(self, X: Any) -> "ExactRows":
        """Return rows that are ready for many kernel values, computed as by `exact`."""
        return ExactRows(self, X)

    def __call__(self, X: Any, Z: Any | None = None) -> NDArray[np.float32]:
        """Return the kernel matrix between the rows of ``X`` and ``Z``, or ``X`` itself."""
        a = self.prepare(X)
        b = a if Z is None else self.prepare(Z, like=a)
        out = np.empty((len(a), len(b)), np.float32)
        self.block(a, np.arange(len(a)), b, np.arange(len(b)), out, Workers(1, None))
        return out


class ExactRows:
    """Rows whose kernel values in float64 are asked for many times."""

    def __init__(self, kernel: Kernel, X: Any) -> None:
        self.kernel, self.X = kernel, X

    def column(self, row: int) -> NDArray[np.float64]:
        """Kernel values between all rows and one of them."""
        return self.kernel.exact(self.X, self.X[[row]])[:, 0]

    def between(self, rows: Index | slice, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Kernel values between some rows and vectors that need not be rows."""
        return self.kernel.exact(self.X[rows], Z)


class TiledKernel(Kernel):
    """Base of kernels whose blocks and products are computed by the same compiled loop."""

    @abstractmethod
    def _bind(self, a: Points, b: Points) -> Callable[..., None]:
        """Return the compiled loop of these points, a function of ``rows, cols, coef, out, block``."""

    def block(
        self, a: Points, rows: Index, b: Points, cols: Index, out: NDArray[np.float32],
        workers: Workers,
    ) -> None:  # fmt: skip
        no_coef, no_out = np.empty((0, 0)), np.empty((0, 0))
        fill = self._bind(a, b)
        workers.run(len(rows), lambda i, j: fill(rows[i:j], cols, no_coef, no_out, out[i:j]))

    def accumulate(
        self, a: Points, rows: Index, b: Points, cols: Index, coef: NDArray[np.float64],
        out: NDArray[np.float64], workers: Workers,
    ) -> None:  # fmt: skip
        no_block = np.empty((0, 0), np.float32)
        fill = self._bind(a, b)
        workers.run(len(rows), lambda i, j: fill(rows[i:j], cols, coef, out[i:j], no_block))
