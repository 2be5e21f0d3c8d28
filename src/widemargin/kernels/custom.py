"""Kernels that users compute themselves: precomputed matrices and callables."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.kernels.base import Index, Kernel, Points
from widemargin.kernels.tiles_fast import stored_tiles
from widemargin.parallel import Workers

#: Entries asked of a callable at a time.
TILE_ENTRIES = 1 << 22
#: Share of the largest value by which a callable may miss symmetry or definiteness; some of its
#: values are rounded to float32.
TOLERANCE = 1e-6
#: Rows per call for the diagonal: a call costs far more than an entry, and most entries are unused.
DIAGONAL_ROWS = 16


@dataclass(frozen=True)
class Precomputed(Kernel):
    """A precomputed kernel: rows of data are rows of the kernel matrix, columns are training points.

    In ``k(a, b)`` the points ``b`` must be training points: they are known by their column alone.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import KernelSVC
    >>> from widemargin.kernels import Precomputed
    >>> X = np.array([[0.0], [1.0], [4.0], [5.0]])
    >>> model = KernelSVC(kernel=Precomputed(), C=10).fit(X @ X.T, [0, 0, 1, 1])
    >>> model.predict(np.array([[0.5], [4.5]]) @ X.T)
    array([0, 1])
    """

    name = "precomputed"

    def params(self) -> dict[str, float]:
        return {}

    def prepare(self, X: Any, like: Points | None = None) -> Points:
        return Points(np.ascontiguousarray(X), np.zeros(X.shape[0]))

    def take(self, points: Points, rows: Index) -> Points:
        return Points(points.values[np.ix_(rows, rows)], points.norms[rows])

    def diag(self, points: Points) -> NDArray[np.float64]:
        return np.asarray(points.values.diagonal(), np.float64)

    def exact(self, X: Any, Z: Any) -> NDArray[np.float64]:
        raise TypeError(
            "kernel: a precomputed kernel cannot be evaluated on data; give its matrix as X"
        )

    def block(
        self, a: Points, rows: Index, b: Points, cols: Index, out: NDArray[np.float32],
        workers: Workers,
    ) -> None:  # fmt: skip
        _check_columns(a, cols)
        no_coef, no_out = np.empty((0, 0)), np.empty((0, 0))
        workers.run(
            len(rows),
            lambda i, j: stored_tiles(a.values, rows[i:j], cols, no_coef, no_out, out[i:j]),
        )

    def accumulate(
        self, a: Points, rows: Index, b: Points, cols: Index, coef: NDArray[np.float64],
        out: NDArray[np.float64], workers: Workers,
    ) -> None:  # fmt: skip
        _check_columns(a, cols)
        no_block = np.empty((0, 0), np.float32)
        workers.run(
            len(rows),
            lambda i, j: stored_tiles(a.values, rows[i:j], cols, coef, out[i:j], no_block),
        )


def _check_columns(points: Points, cols: Index) -> None:
    """Raise an error if a matrix lacks the columns of some training points."""
    n_columns = points.values.shape[1]
    if cols.max(initial=-1) >= n_columns:
        raise ValueError(
            f"X: the kernel matrix has {n_columns} columns, but {cols.max() + 1} training points "
            "are needed; give the kernel between queries and all training rows"
        )


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """A function ``(X, Z) -> K`` on arrays of rows; called for tiles, also from several threads.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import CallableKernel
    >>> kernel = CallableKernel(lambda X, Z: (1 + X @ Z.T) ** 2)
    >>> kernel.exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]]))
    array([[36.]])
    """

    function: Callable[[Any, Any], Any]
    name = "callable"

    def params(self) -> dict[str, float]:
        return {}

    def prepare(self, X: Any, like: Points | None = None) -> Points:
        return Points(X, np.zeros(X.shape[0]))

    def diag(self, points: Points) -> NDArray[np.float64]:
        # Once for all who ask in a fit: a callable may be slow.
        if "diag" not in points.known:
            starts = range(0, len(points), DIAGONAL_ROWS)
            parts = [points.values[i : i + DIAGONAL_ROWS] for i in starts]
            values = [self.exact(part, part).diagonal() for part in parts]
            points.known["diag"] = np.concatenate(values)
        diagonal: NDArray[np.float64] = points.known["diag"]
        return diagonal

    def block(
        self, a: Points, rows: Index, b: Points, cols: Index, out: NDArray[np.float32],
        workers: Workers,
    ) -> None:  # fmt: skip
        for i, j in row_tiles(len(rows), len(cols)):
            out[i:j, : len(cols)] = self.exact(a.values[rows[i:j]], b.values[cols])

    def accumulate(
        self, a: Points, rows: Index, b: Points, cols: Index, coef: NDArray[np.float64],
        out: NDArray[np.float64], workers: Workers,
    ) -> None:  # fmt: skip
        for i, j in row_tiles(len(rows), len(cols)):
            out[i:j] += self.exact(a.values[rows[i:j]], b.values[cols]) @ coef

    def exact(self, X: Any, Z: Any) -> NDArray[np.float64]:
        given = call_given("kernel", self.function, _unwrap(X), _unwrap(Z))
        if sparse.issparse(given):
            given = given.toarray()
        K = as_numbers("kernel", given, f"shape ({X.shape[0]}, {Z.shape[0]})")
        if K.shape != (X.shape[0], Z.shape[0]):
            raise ValueError(
                f"kernel: the callable returned an array of shape {K.shape} for {X.shape[0]} and "
                f"{Z.shape[0]} rows; return shape ({X.shape[0]}, {Z.shape[0]})"
            )
        if not np.isfinite(K).all():
            raise ValueError("kernel: the callable returned NaN or infinity; check its domain")
        return K


class Items(np.ndarray):
    """Things that are no rows of numbers, as an array of objects of shape (n, 1).

    Solvers take rows of them as they take rows of data; a callable kernel receives the things.
    """


def wrap_items(kernel: Any, X: Any) -> Any:
    """Return ``X`` as `Items` if the kernel is a callable and ``X`` is no table of numbers.

    Sequences of texts, of objects, of numbers and of rows of different lengths become `Items`.
    Everything else is returned as it is.
    """
    is_callable = isinstance(kernel, CallableKernel) or (
        callable(kernel) and not isinstance(kernel, Kernel)
    )
    if not is_callable or sparse.issparse(X) or _is_table(X):
        return X
    items = np.empty((len(X), 1), object)
    for i, item in enumerate(X):
        items[i, 0] = item
    return items.view(Items)


def _is_table(X: Any) -> bool:
    """Return whether data have two dimensions, or none at all; rows of texts in a list do not."""
    try:
        array = np.asarray(X)
    except ValueError:
        # numpy refuses rows of different lengths.
        return False
    has_texts = isinstance(X, list | tuple) and array.dtype.kind in "US"
    return array.ndim != 1 and not (has_texts and array.ndim > 1)


def _unwrap(X: Any) -> Any:
    """Return the things that `Items` hold; data that are numbers as they are."""
    # numpy may return an array of the base class, but validated numbers are never objects.
    return np.asarray(X)[:, 0] if X.dtype == object else X


def call_given(argument: str, function: Callable[..., Any], *arrays: Any, hint: str = "") -> Any:
    """Call a function that is a parameter and return its result; its exceptions get a note."""
    try:
        return function(*arrays)
    except Exception as error:
        shapes = " and ".join(str(array.shape) for array in arrays)
        error.add_note(
            f"{argument}: the callable raised this {type(error).__name__} when it was called with "
            f"arrays of shape {shapes}{hint}"
        )
        raise


def as_numbers(argument: str, given: Any, wanted: str) -> NDArray[np.float64]:
    """Return the result of a user's function in float64 if it is an array of real numbers.

    ``wanted`` says which shape it should have.
    """
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise ValueError(
            f"{argument}: the callable returned lists of different lengths; return real numbers of "
            f"{wanted}"
        ) from error
    is_real = values.dtype.kind in "biuf"
    if values.dtype.kind == "O":
        is_real = all(isinstance(value, Real) for value in values.flat)
    if not is_real:
        raise TypeError(
            f"{argument}: the callable returned {_describe(given, values)}; return real numbers of "
            f"{wanted}"
        )
    return values.astype(np.float64, copy=False)


def _describe(given: Any, values: NDArray[Any]) -> str:
    kinds = {"U": "text", "S": "text", "c": "complex numbers"}
    if values.dtype.kind in kinds:
        return kinds[values.dtype.kind]
    if given is None:
        return "None"
    if values.dtype.kind != "O":
        return f"values of type {values.dtype}"
    odd = next(value for value in values.flat if not isinstance(value, Real))
    inside = "" if odd is given else f" that holds {'None' if odd is None else type(odd).__name__}"
    return f"a {type(given).__name__}{inside}"


def check_matrix(K: NDArray[Any], where: str) -> None:
    """Refuse the values of a callable among some points, ``where``, that no kernel can have."""
    scale = float(np.abs(K).max())
    if scale == 0:
        raise ValueError(
            f"kernel: the callable is zero among {where}, so all rows are alike to it; check its "
            "formula"
        )
    asymmetry = float(np.abs(K - K.T).max())
    if asymmetry > TOLERANCE * scale:
        raise ValueError(
            f"kernel: the callable is not symmetric: k(x, y) and k(y, x) differ by up to "
            f"{asymmetry:.3g} among {where}, where it reaches {scale:.3g}; check its formula"
        )
    least = float(np.linalg.eigvalsh(np.asarray(K, np.float64))[0])
    if least < -TOLERANCE * scale * len(K):
        raise ValueError(
            f"kernel: the callable is not positive semidefinite: its matrix among {where} has the "
            f"eigenvalue {least:.3g}, where it reaches {scale:.3g}; check its formula"
        )


def row_tiles(n_rows: int, n_cols: int) -> list[tuple[int, int]]:
    """Return pieces of ``range(n_rows)`` whose blocks hold about `TILE_ENTRIES` entries."""
    if n_cols == 0:
        return []
    step = max(1, TILE_ENTRIES // n_cols)
    return [(i, min(i + step, n_rows)) for i in range(0, n_rows, step)]
