"""Representations: training data as rows of numbers, and coefficients of these as a model.

A representation has ``rows``, which the solvers read, and ``norms``, the diagonal of the kernel
matrix. Its ``make_model`` turns the coefficients that a solver found into a model. Its ``take_apart``
turns a model into coefficients, from which a solver continues.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.anchor_model import (
    KernelValues,
    RegressionModel,
    explain_rows,
    find_inverse_root,
)
from widemargin.additive.coded_rows import (
    FloatArray,
    Rows,
    bin_rows,
    pad_rank,
    sum_over_codes,
    table_rows,
)
from widemargin.additive.codes import Codes, thin_codes
from widemargin.additive.curves import (
    BinEncoder,
    BinModel,
    LogEncoder,
    TableModel,
    number_values,
)
from widemargin.additive.power_mean_table import NEGLIGIBLE, regression_tables
from widemargin.additive.quantiser import Quantiser
from widemargin.additive.scalar_kernels import ScalarKernel, check_scalar_kernel
from widemargin.arguments import draw_seed
from widemargin.deadline import is_late, seconds_left
from widemargin.kernels import CallableKernel, Index, Kernel
from widemargin.kernels.custom import check_matrix
from widemargin.parallel import Workers
from widemargin.problem import Problem, take_rows

#: Rows whose kernel values are computed between two looks at the clock.
BLOCK_ROWS = 4096
#: Rows of the first sample if time is limited, and the least factor by which the next is larger.
FIRST_ROWS, MIN_GROWTH = 1000, 1.5
#: How much more time a row takes in a larger sample, whose values are sorted.
CODING_GROWTH = 1.5


class Representation(Protocol):
    """Training data as rows of numbers."""

    rows: Rows
    norms: FloatArray

    def make_model(self, coef: NDArray[Any], extra: NDArray[Any]) -> TableModel | BinModel:
        """Make the model with these coefficients of the rows and of their extra numbers."""

    def take_apart(self, model: Any) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of a model, and those of the extra numbers."""


class TableRepresentation:
    """Codes whose numbers stand in a spectral table, one row for each code.

    Parameters
    ----------
    encoder : BinEncoder
        The quantiser and the table.
    codes : Codes
        Codes of the training data.
    scale : ndarray of shape (n_features,)
        Factor on the kernel of each feature.
    extra : tuple of two ndarrays of shape (n, n_extra)
        Extra numbers of each row, see `constants`.
    dtype : type
        Type of the numbers.
    """

    def __init__(
        self, encoder: BinEncoder, codes: Codes, scale: FloatArray, extra: Any, dtype: type
    ) -> None:
        self.encoder = encoder
        self.rows = table_rows(codes, encoder.table, None, scale, extra, dtype)
        squares = np.square(encoder.table).sum(axis=1)
        self.norms = sum_over_codes(codes, squares, scale) + extra[0].shape[1]

    def make_model(self, coef: NDArray[Any], extra: NDArray[Any]) -> TableModel:
        """Make the model with these coefficients; the intercept is the sum of the extra ones."""
        shaped = coef.reshape(len(coef), -1, self.rows.rank)[:, :, : self.encoder.table.shape[1]]
        intercept = extra.sum(axis=1, dtype=np.float64)
        return TableModel(self.encoder, np.ascontiguousarray(shaped, np.float64), intercept)

    def take_apart(self, model: TableModel) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of a model, and its intercept if there is one."""
        extra = np.repeat(model.intercept[:, None], self.rows.n_extra, axis=1)
        return pad_rank(model.coef, self.rows.rank), extra


class BinRepresentation:
    """Codes for the intersection kernel: the coefficients are the decision curves at the bins.

    These curves are the table T of ICD (Eq. 8 and 9), which replaces the weights of the bins.

    Parameters
    ----------
    quantiser : Quantiser
        The bins.
    codes : Codes
        Codes of the training data.
    offsets : ndarray of shape (n_features + 1,)
        Where the curve of each feature begins.
    scale : ndarray of shape (n_features,)
        Factor on the kernel of each feature.
    extra : tuple of two ndarrays of shape (n, n_extra)
        Extra numbers of each row, see `constants`.
    dtype : type
        Type of the curves.
    """

    def __init__(
        self,
        quantiser: Quantiser,
        codes: Codes,
        offsets: NDArray[np.int64],
        scale: FloatArray,
        extra: Any,
        dtype: type,
    ) -> None:
        self.quantiser = quantiser
        self.rows = bin_rows(codes, offsets, quantiser.grid, scale, extra, dtype)
        self.norms = sum_over_codes(codes, quantiser.grid, scale) + extra[0].shape[1]

    def make_model(self, coef: NDArray[Any], extra: NDArray[Any]) -> BinModel:
        """Make the model with these curves; the intercept is the sum of the extra coefficients."""
        intercept = extra.sum(axis=1, dtype=np.float64)
        return BinModel(self.quantiser, self.rows.offsets, coef, intercept)

    def take_apart(self, model: BinModel) -> tuple[FloatArray, FloatArray]:
        """Return the curves of a model, and its intercept if there is one."""
        extra = np.repeat(model.intercept[:, None], self.rows.n_extra, axis=1)
        return model.full_curves().reshape(len(model.curves), -1), extra


def constants(n_rows: int, wanted: bool) -> tuple[FloatArray, FloatArray]:
    """Return the extra number of every row that makes an intercept, or none."""
    ones = np.broadcast_to(1.0, (n_rows, 1 if wanted else 0))
    return ones, ones


class Regression(NamedTuple):
    """Settings of PmSVM's regression.

    Attributes
    ----------
    anchors : ndarray of shape (n_anchors,)
        Values at which the kernel is computed: ``c`` in PmSVM Eq. 26.
    offset : float
        Number that is added to a value before its logarithm: ``b`` in PmSVM Eq. 25.
    unit : float
        Largest value; all values are divided by it before the offset is added.
    """

    anchors: FloatArray
    offset: float
    unit: float


class LogRepresentation:
    """Feature values with PmSVM's tables: ``e(x)`` to read and ``inv(X) s(x)`` to write (Eq. 39).

    The coefficients are ``a_j`` of PmSVM Eq. 31. A quantiser, if there is one, rounds the values to
    its grid (PmSVM-LUT); otherwise the tables have a row for every distinct value.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n, n_features)
        Training data, not negative.
    kernel : ScalarKernel
        The kernel of two numbers.
    quantiser : Quantiser or None
        Grid of the values.
    regression : Regression
        Anchors, offset and unit.
    constant : tuple of two ndarrays of shape (n, 0) or (n, 1)
        The extra number of each row that makes an intercept, see `constants`.
    dtype : type
        Type of the numbers.
    """

    def __init__(
        self,
        X: Any,
        kernel: ScalarKernel,
        quantiser: Quantiser | None,
        regression: Regression,
        constant: tuple[FloatArray, FloatArray],
        dtype: type,
    ) -> None:
        anchors, offset, unit = regression
        self.constant = constant
        self.n_anchors = len(anchors)
        if quantiser is None:
            codes, values = number_values(X)
            # Later pieces may have larger values than the first.
            values = np.minimum(values, unit)
        else:
            codes, values = quantiser.encode(X), quantiser.values(0)
        if not kernel.is_homogeneous:
            check_scalar_kernel(kernel, np.union1d(values, anchors))
        read, write = regression_tables(kernel, values, anchors, offset, unit)
        # A kernel that is zero at zero is zero there in the tables too: the regression is worst at
        # zero, and most features of histograms are zero.
        skips_zero = not kernel([0.0], anchors).any()
        if skips_zero:
            if codes.n_features and values[0] == 0.0:
                codes = thin_codes(codes)
            read[values <= NEGLIGIBLE * unit] = write[values <= NEGLIGIBLE * unit] = 0.0
        self.encoder: BinEncoder | LogEncoder = LogEncoder(unit, offset, len(anchors), skips_zero)
        if quantiser is not None:
            self.encoder = BinEncoder(quantiser, read)
        self._make_rows(
            codes, read, write, kernel.diag(values), np.searchsorted(values, 0.0), dtype
        )

    @property
    def n_constants(self) -> int:
        """Number of constants of a row: one if there is an intercept."""
        return self.constant[0].shape[1]

    def _make_rows(
        self, codes: Codes, read: FloatArray, write: FloatArray, diag: FloatArray, zero: Any,
        dtype: type,
    ) -> None:  # fmt: skip
        """Make the rows and norms; of sparse data, with the share of the zeros folded in."""
        ones = np.ones(codes.n_features)
        extra, base = self.constant, 0.0
        self.zero_read = read[zero]
        self.zero_write: FloatArray | None = None
        if codes.is_sparse:
            self.zero_write = write[zero]
            read, write = read - read[zero], write - write[zero]
            base, diag = codes.n_features * diag[zero], diag - diag[zero]
            folded = fold_zeros(codes, read, write, self.zero_read, self.zero_write)
            extra = np.hstack([folded[0], extra[0]]), np.hstack([folded[1], extra[1]])
        self.rows = table_rows(codes, read, write, ones, extra, dtype)
        self.norms = sum_over_codes(codes, diag, ones) + base + self.n_constants

    def make_model(self, coef: NDArray[Any], extra: NDArray[Any]) -> TableModel:
        """Make the model with these coefficients."""
        shaped = coef.reshape(len(coef), -1, self.rows.rank)[:, :, : self.n_anchors]
        shaped = shaped.astype(np.float64)
        if self.zero_write is not None:
            # Every row added this much to every feature, as if the feature were zero in that row.
            shaped += extra[:, :1, None] * self.zero_write
        intercept = extra[:, -1] if self.n_constants else np.zeros(len(coef))
        return TableModel(self.encoder, shaped, intercept.astype(np.float64))

    def take_apart(self, model: TableModel) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of a model, and the extra ones that stand for the zeros.

        The first extra coefficient counts what rows of this representation add; no row has yet.
        """
        extra = np.zeros((len(model.coef), self.rows.n_extra))
        if self.zero_write is not None:
            extra[:, 1] = (model.coef @ self.zero_read).sum(axis=1)
        if self.n_constants:
            extra[:, -1] = model.intercept
        return pad_rank(model.coef, self.rows.rank), extra


def represent_in_time(
    problem: Problem,
    represent: Callable[[Problem], LogRepresentation],
    deadline: float | None,
    random_state: Any,
) -> tuple[Problem, LogRepresentation]:
    """Represent all rows, or as many random rows as half of the time allows.

    Larger and larger samples are represented until there is no time for the next one.
    """
    n, n_rows = len(problem.labels), FIRST_ROWS
    if deadline is None or n <= n_rows:
        return problem, represent(problem)
    order = np.random.default_rng(draw_seed(random_state)).permutation(n)
    end = deadline - 0.5 * seconds_left(deadline)
    while True:
        part = problem if n_rows == n else take_rows(problem, np.sort(order[:n_rows]))
        began = perf_counter()
        data = represent(part)
        taken = CODING_GROWTH * max(perf_counter() - began, 1e-6)
        affordable = seconds_left(end) / taken
        if n_rows == n or affordable < MIN_GROWTH:
            return part, data
        n_rows = min(n, int(n_rows * affordable))


def fold_zeros(
    codes: Codes, read: FloatArray, write: FloatArray, read0: FloatArray, write0: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return two extra numbers for each row that add the share of zeros in sparse data.

    With ``r``, ``w`` the tables less their values ``r0``, ``w0`` at zero, the kernel between rows is
    the sum over features of ``(r + r0)'(w + w0)``: beside ``r'w``, which needs stored values only,
    ``r'w0`` depends on one row, ``r0'w`` on the other, and ``r0'w0`` on none.
    """
    ones = np.ones(len(codes))
    all_features = np.ones(codes.n_features)
    of_reader = sum_over_codes(codes, read @ write0, all_features)
    of_writer = sum_over_codes(codes, write @ read0, all_features)
    of_reader += codes.n_features * float(read0 @ write0)
    return np.column_stack([of_reader, ones]), np.column_stack([ones, of_writer])


class AnchorRows(NamedTuple):
    """Rows of numbers made by an `AnchorRepresentation`.

    Attributes
    ----------
    indices : ndarray of shape (m,)
        The training rows that were represented, ascending.
    read, write : ndarray of shape (m, n_numbers)
        Numbers whose products with the coefficients are decisions, and numbers that a row adds to
        the coefficients; None for ``write`` if they are the same.
    norms : ndarray of shape (m,)
        Diagonal of the kernel matrix.
    """

    indices: Index
    read: NDArray[Any]
    write: NDArray[Any] | None
    norms: FloatArray


class AnchorRepresentation:
    """Kernel values at anchors, with the least squares of LR-SVM (PmSVM Algorithm 2).

    With explanatory variables ``e`` of the user, rows are read as ``e(x)`` and written as
    ``pinv(X) s(x)`` (PmSVM Eq. 15), where row i of X is e of anchor i and ``s(x)`` are the kernel
    values at the anchors (Eq. 14). Without, ``e = s``: rows are ``s(x)`` times an inverse root of the
    kernel matrix of the anchors (Eq. 16), which makes them Nystrom's features.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    anchors : ndarray or csr_matrix of shape (n_anchors, n_features)
        The anchors.
    explanatory : callable or None
        Returns e for the rows of a matrix.
    workers : Workers
        Threads that compute kernel values.
    """

    def __init__(
        self,
        kernel: Kernel,
        anchors: Any,
        explanatory: Callable[[Any], Any] | None,
        workers: Workers,
    ) -> None:
        self.kernel, self.anchors = kernel, anchors
        self.explanatory, self.workers = explanatory, workers
        self._values = KernelValues(kernel, anchors)
        among = self._values.compute(anchors, workers)
        if isinstance(kernel, CallableKernel):
            check_matrix(among, f"the {len(among)} anchors")
        if explanatory is None:
            self.root = find_inverse_root(among, is_float32=not self._values.is_exact)
        else:
            design = explain_rows(explanatory, anchors)
            self.root = np.eye(design.shape[1])
            self._inverse = np.linalg.pinv(design).T

    def make_numbers(self, X: Any) -> tuple[NDArray[Any], NDArray[Any] | None, Any]:
        """Return numbers of some rows to read, numbers to write if they differ, and norms."""
        similar = self._values.compute(X, self.workers)
        if self.explanatory is None:
            numbers = similar @ self.root
            return numbers, None, np.einsum("ij,ij->i", numbers, numbers)
        norms = self.kernel.diag(self.kernel.prepare(X))
        return explain_rows(self.explanatory, X), similar @ self._inverse, norms

    def make_rows(self, X: Any, order: Index, deadline: float | None) -> AnchorRows:
        """Represent all rows, or those that come first in an order until the deadline."""
        if deadline is None:
            return AnchorRows(np.arange(len(order)), *self.make_numbers(X))
        parts: list[Any] = []
        n_read = 0
        for start in range(0, len(order), BLOCK_ROWS):
            if parts and is_late(deadline):
                break
            rows = order[start : start + BLOCK_ROWS]
            parts.append(self.make_numbers(X[rows]))
            n_read += len(rows)
        place = np.argsort(order[:n_read])
        read, write, norms = zip(*parts, strict=True)
        return AnchorRows(
            order[:n_read][place],
            np.concatenate(read)[place],
            None if self.explanatory is None else np.concatenate(write)[place],
            np.concatenate(norms)[place],
        )

    def make_model(self, coef: NDArray[Any]) -> RegressionModel:
        """Make the model with these coefficients, which become coefficients of e."""
        return RegressionModel(self.kernel, self.anchors, self.explanatory, coef @ self.root.T)
