"""Prediction with additive models: a decision is a sum of curves, one for each feature."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.code_sums_fast import largest_codes
from widemargin.additive.coded_rows import FloatArray, bin_rows, decide, pad_rank, table_rows
from widemargin.additive.codes import Codes, encode_matrix
from widemargin.additive.power_mean_table import NEGLIGIBLE, explain_values
from widemargin.additive.quantiser import Quantiser
from widemargin.kernels.base import check_width
from widemargin.parallel import open_workers

#: Number of values that are encoded at a time in predictions.
DECIDE_VALUES = 2**22


@dataclass(frozen=True)
class BinEncoder:
    """Encoder of values as bins, with one row of a table for each bin."""

    quantiser: Quantiser
    table: FloatArray

    def encode(self, X: Any) -> tuple[Codes, FloatArray]:
        """Return the codes of the values, and the numbers of each code."""
        return self.quantiser.encode(X), self.table

    def zero(self) -> FloatArray:
        """Return the numbers of the value zero."""
        return self.table[self.quantiser.zero_code]


@dataclass(frozen=True)
class LogEncoder:
    """Encoder of values as powers of their logarithm, computed once for each distinct value.

    Values outside of the range from zero to ``unit`` count as the nearest end of it. With
    ``skips_zero`` the numbers of the value zero, and of negligible values, are zeros: such a value
    adds nothing to a decision value, as in the kernel itself.
    """

    unit: float
    offset: float
    n_anchors: int
    skips_zero: bool

    def encode(self, X: Any) -> tuple[Codes, FloatArray]:
        """Return codes that number the distinct values, and the numbers of each code."""
        codes, values = number_values(X)
        return codes, self.explain(values)

    def zero(self) -> FloatArray:
        """Return the numbers of the value zero."""
        return self.explain(np.zeros(1))[0]

    def explain(self, values: FloatArray) -> FloatArray:
        """Compute the explanatory variables of some values (PmSVM Eq. 25)."""
        within = np.clip(values, 0.0, self.unit)
        read = explain_values(within / self.unit, self.offset, self.n_anchors)
        if self.skips_zero:
            read[np.asarray(values) <= NEGLIGIBLE * self.unit] = 0.0
        return read


@dataclass(frozen=True)
class _Numbering:
    """Coder whose codes are the positions of values among the sorted distinct values."""

    distinct: NDArray[Any]

    @property
    def dtype(self) -> type:
        """Smallest type that holds every code."""
        return np.min_scalar_type(len(self.distinct) - 1).type

    def encode_rows(self, X: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the codes of dense rows to ``out``."""
        out[:] = np.searchsorted(self.distinct, X)

    def encode_stored(self, data: NDArray[Any], columns: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the codes of some values to ``out``."""
        out[:] = np.searchsorted(self.distinct, data)


def number_values(X: Any) -> tuple[Codes, FloatArray]:
    """Return codes that number the distinct values of a matrix, and these values, zero included."""
    data = X.data if sparse.issparse(X) else X
    distinct = np.union1d(data, np.zeros(1, data.dtype))
    return encode_matrix(X, _Numbering(distinct)), distinct.astype(np.float64)


@dataclass(frozen=True)
class TableModel:
    """Sum of curves that are linear combinations of a few functions.

    Attributes
    ----------
    encoder : BinEncoder or LogEncoder
        Computes these functions of a feature value.
    coef : ndarray of shape (n_functions, n_features, rank)
        Coefficients of the functions.
    intercept : ndarray of shape (n_functions,)
        Constants of the decision functions.
    """

    encoder: BinEncoder | LogEncoder
    coef: FloatArray
    intercept: FloatArray

    def make_constant(self, intercept: FloatArray) -> "TableModel":
        """Return a model with the same encoder or bins, zero curves and the given constants."""
        return replace(self, coef=np.zeros_like(self.coef), intercept=intercept)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.coef.shape[1]

    def decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Compute decision values, shape (n, n_functions)."""
        check_width(X.shape[1], self.n_features)
        return in_chunks(X, lambda part: self._decide(part, n_jobs), len(self.coef))

    def _decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        codes, table = self.encoder.encode(X)
        base = self.intercept
        if sparse.issparse(X):
            # All values are zero but the stored ones. The part of the zeros is the same for every row.
            zero = self.encoder.zero()
            table = table - zero
            base = base + (self.coef @ zero).sum(axis=1)
        rows = table_rows(codes, table, None, np.ones(self.n_features), None, np.float64)
        no_extra = np.empty((len(self.coef), 0))
        with open_workers(n_jobs) as workers:
            return base + decide(rows, pad_rank(self.coef, rows.rank), no_extra, workers)

    def contributions(self, X: Any) -> FloatArray:
        """Compute the share of each feature in each decision, (n, n_functions, n_features)."""
        out = np.empty((X.shape[0], *self.coef.shape[:2]))
        step = max(1, DECIDE_VALUES // (self.n_features * self.coef.shape[2]))
        for start in range(0, X.shape[0], step):
            part = X[start : start + step]
            dense = part.toarray() if sparse.issparse(part) else part
            codes, table = self.encoder.encode(dense)
            numbers = table[codes.values.reshape(dense.shape)]
            np.einsum("njr,kjr->nkj", numbers, self.coef, out=out[start : start + step])
        return out

    def curve(self, feature: int, values: FloatArray) -> FloatArray:
        """Compute the curves of one feature at some values, shape (n_functions, n_values)."""
        if isinstance(self.encoder, LogEncoder):
            numbers = self.encoder.explain(values)
        else:
            quantiser = self.encoder.quantiser
            numbers = self.encoder.table[encode_feature(quantiser, feature, values)]
        return self.coef[:, feature] @ numbers.T


@dataclass(frozen=True)
class BinModel:
    """Sum of curves that are given by their values at the bins, for the intersection kernel.

    Attributes
    ----------
    quantiser : Quantiser
        The bins.
    offsets : ndarray of shape (n_features + 1,)
        Position of the first value of each curve; a curve ends at the largest code in training.
    curves : ndarray of shape (n_functions, offsets[-1])
        Values of the curves, in the precision of the fit.
    intercept : ndarray of shape (n_functions,)
        Constants of the decision functions.
    """

    quantiser: Quantiser
    offsets: NDArray[np.int64]
    curves: NDArray[Any]
    intercept: FloatArray

    def make_constant(self, intercept: FloatArray) -> "BinModel":
        """Return a model with the same encoder or bins, zero curves and the given constants."""
        return replace(self, curves=np.zeros_like(self.curves), intercept=intercept)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.offsets) - 1

    def decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Compute decision values, shape (n, n_functions)."""
        check_width(X.shape[1], self.n_features)
        return in_chunks(X, lambda part: self._decide(part, n_jobs), len(self.curves))

    def _decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        codes = self.quantiser.encode(X, is_whole=self.quantiser.zero_code != 0)
        codes = clip_codes(codes, self.offsets)
        nothing = np.empty(0)
        rows = bin_rows(codes, self.offsets, nothing, nothing, None, self.curves.dtype.type)
        with open_workers(n_jobs) as workers:
            no_extra = np.empty((len(self.curves), 0))
            return self.intercept + decide(rows, self.curves, no_extra, workers)

    def contributions(self, X: Any) -> FloatArray:
        """Compute the share of each feature in each decision, (n, n_functions, n_features)."""
        dense = X.toarray() if sparse.issparse(X) else X
        codes = clip_codes(self.quantiser.encode(dense), self.offsets)
        at = self.offsets[:-1] + codes.values.reshape(dense.shape)
        return self.curves[:, at].transpose(1, 0, 2).astype(np.float64)

    def curve(self, feature: int, values: FloatArray) -> FloatArray:
        """Compute the curves of one feature at some values, shape (n_functions, n_values)."""
        first, last = self.offsets[feature], self.offsets[feature + 1]
        codes = encode_feature(self.quantiser, feature, values).astype(np.int64)
        return self.curves[:, first + np.minimum(codes, last - first - 1)]

    def full_curves(self) -> FloatArray:
        """Return all curves at all bins, shape (n_functions, n_features, n_bins)."""
        bins = np.arange(self.quantiser.n_bins)
        last = np.diff(self.offsets)[:, None] - 1
        return self.curves[:, self.offsets[:-1, None] + np.minimum(bins, last)]


def encode_feature(quantiser: Quantiser, feature: int, values: FloatArray) -> NDArray[Any]:
    """Encode some values of one feature."""
    alone = quantiser.take(np.array([feature]))
    return alone.encode(np.asarray(values)[:, None]).values


def bin_offsets(codes: Codes) -> NDArray[np.int64]:
    """Return the position of the first bin of each feature, with bins up to its largest code."""
    largest = np.zeros(codes.n_features, np.int64)
    if codes.is_sparse:
        largest_codes(codes.values, codes.gaps, codes.indptr, largest)
    elif len(codes):
        largest[:] = codes.values.reshape(len(codes), -1).max(axis=0)
    return np.concatenate([[0], np.cumsum(largest + 1)])


def clip_codes(codes: Codes, offsets: NDArray[np.int64]) -> Codes:
    """Limit codes to the largest code of their feature in training, where the curve ends."""
    largest = np.diff(offsets) - 1
    if codes.is_sparse:
        clipped = np.minimum(codes.values, largest[codes.features()])
    else:
        clipped = np.minimum(codes.values.reshape(len(codes), -1), largest).ravel()
    return replace(codes, values=clipped.astype(codes.values.dtype))


def in_chunks(X: Any, function: Any, n_functions: int) -> FloatArray:
    """Apply a function that returns decision values to some rows at a time."""
    out = np.empty((X.shape[0], n_functions))
    per_row = X.nnz / max(X.shape[0], 1) if sparse.issparse(X) else X.shape[1]
    step = max(1, DECIDE_VALUES // (int(per_row) + 1))
    for start in range(0, X.shape[0], step):
        out[start : start + step] = function(X[start : start + step])
    return out
