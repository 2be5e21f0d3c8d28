"""Prediction with additive models: a decision is a sum of curves, one for each feature."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.coded_rows import FloatArray, bin_rows, decide, pad_rank, table_rows
from widemargin.additive.coded_rows_fast import largest_codes
from widemargin.additive.codes import Codes, encode_matrix
from widemargin.additive.power_mean_table import NEGLIGIBLE, explain_values
from widemargin.additive.quantiser import Quantiser
from widemargin.kernels.base import check_width
from widemargin.parallel import open_workers

#: Values turned into codes at a time when predicting.
DECIDE_VALUES = 2**22


@dataclass(frozen=True)
class BinEncoder:
    """Values become bins, and bins the rows of a table."""

    quantiser: Quantiser
    table: FloatArray

    def encode(self, X: Any) -> tuple[Codes, FloatArray]:
        """Codes of the values, and the numbers of each code."""
        return self.quantiser.encode(X), self.table

    def zero(self) -> FloatArray:
        """Numbers of the value zero."""
        return self.table[self.quantiser.zero_code]


@dataclass(frozen=True)
class LogEncoder:
    """Values become powers of their logarithm, computed for every distinct one.

    Values beyond the range from zero to ``unit`` count as its end. With ``skips_zero`` the value zero,
    or next to it, becomes zeros: it adds nothing, as in the kernel itself.
    """

    unit: float
    offset: float
    n_anchors: int
    skips_zero: bool

    def encode(self, X: Any) -> tuple[Codes, FloatArray]:
        """Codes that number the distinct values, and the numbers of each."""
        codes, values = number_values(X)
        return codes, self.explain(values)

    def zero(self) -> FloatArray:
        """Numbers of the value zero."""
        return self.explain(np.zeros(1))[0]

    def explain(self, values: FloatArray) -> FloatArray:
        """Explanatory variables of some values."""
        within = np.clip(values, 0.0, self.unit)
        read = explain_values(within / self.unit, self.offset, self.n_anchors)
        if self.skips_zero:
            read[np.asarray(values) <= NEGLIGIBLE * self.unit] = 0.0
        return read


@dataclass(frozen=True)
class _Numbering:
    """Distinct values, ascending; their places are the codes."""

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
    """Number the distinct values of a matrix, of sparse data the stored ones, and zero."""
    data = X.data if sparse.issparse(X) else X
    distinct = np.union1d(data, np.zeros(1, data.dtype))
    return encode_matrix(X, _Numbering(distinct)), distinct.astype(np.float64)


@dataclass(frozen=True)
class TableModel:
    """Curves that are combinations of a few functions.

    Attributes
    ----------
    encoder : BinEncoder or LogEncoder
        Turns values into the values of these functions.
    coef : ndarray of shape (n_functions, n_features, rank)
        Their coefficients.
    intercept : ndarray of shape (n_functions,)
        Constants.
    """

    encoder: BinEncoder | LogEncoder
    coef: FloatArray
    intercept: FloatArray

    def make_constant(self, intercept: FloatArray) -> "TableModel":
        """Model like this with flat curves and other constants."""
        return replace(self, coef=np.zeros_like(self.coef), intercept=intercept)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.coef.shape[1]

    def decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Decision values, shape (n, n_functions)."""
        check_width(X.shape[1], self.n_features)
        return _in_chunks(X, lambda part: self._decide(part, n_jobs), len(self.coef))

    def _decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        codes, table = self.encoder.encode(X)
        base = self.intercept
        if sparse.issparse(X):
            # What is not stored is zero: its share is the same for every row.
            zero = self.encoder.zero()
            table = table - zero
            base = base + (self.coef @ zero).sum(axis=1)
        rows = table_rows(codes, table, None, np.ones(self.n_features), None, np.float64)
        no_extra = np.empty((len(self.coef), 0))
        with open_workers(n_jobs) as workers:
            return base + decide(rows, pad_rank(self.coef, rows.rank), no_extra, workers)

    def contributions(self, X: Any) -> FloatArray:
        """Share of every feature in every decision, shape (n, n_functions, n_features)."""
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
        """The curves of one feature at some values, shape (n_functions, n_values)."""
        if isinstance(self.encoder, LogEncoder):
            numbers = self.encoder.explain(values)
        else:
            quantiser = self.encoder.quantiser
            numbers = self.encoder.table[encode_feature(quantiser, feature, values)]
        return self.coef[:, feature] @ numbers.T


@dataclass(frozen=True)
class BinModel:
    """Curves that are given by their values at the bins: the intersection kernel.

    Attributes
    ----------
    quantiser : Quantiser
        The bins.
    offsets : ndarray of shape (n_features + 1,)
        Where the curve of each feature begins; it ends at the largest code in training.
    curves : ndarray of shape (n_functions, offsets[-1])
        Values of the curves; of float32 if the fit was.
    intercept : ndarray of shape (n_functions,)
        Constants.
    """

    quantiser: Quantiser
    offsets: NDArray[np.int64]
    curves: NDArray[Any]
    intercept: FloatArray

    def make_constant(self, intercept: FloatArray) -> "BinModel":
        """Model like this with flat curves and other constants."""
        return replace(self, curves=np.zeros_like(self.curves), intercept=intercept)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.offsets) - 1

    def decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Decision values, shape (n, n_functions)."""
        check_width(X.shape[1], self.n_features)
        return _in_chunks(X, lambda part: self._decide(part, n_jobs), len(self.curves))

    def _decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        codes = self.quantiser.encode(X, is_whole=self.quantiser.zero_code != 0)
        codes = clip_codes(codes, self.offsets)
        nothing = np.empty(0)
        rows = bin_rows(codes, self.offsets, nothing, nothing, None, self.curves.dtype.type)
        with open_workers(n_jobs) as workers:
            no_extra = np.empty((len(self.curves), 0))
            return self.intercept + decide(rows, self.curves, no_extra, workers)

    def contributions(self, X: Any) -> FloatArray:
        """Share of every feature in every decision, shape (n, n_functions, n_features)."""
        dense = X.toarray() if sparse.issparse(X) else X
        codes = clip_codes(self.quantiser.encode(dense), self.offsets)
        at = self.offsets[:-1] + codes.values.reshape(dense.shape)
        return self.curves[:, at].transpose(1, 0, 2).astype(np.float64)

    def curve(self, feature: int, values: FloatArray) -> FloatArray:
        """The curves of one feature at some values, shape (n_functions, n_values)."""
        first, last = self.offsets[feature], self.offsets[feature + 1]
        codes = encode_feature(self.quantiser, feature, values).astype(np.int64)
        return self.curves[:, first + np.minimum(codes, last - first - 1)]

    def full_curves(self) -> FloatArray:
        """All curves at all bins, shape (n_functions, n_features, n_bins)."""
        bins = np.arange(self.quantiser.n_bins)
        last = np.diff(self.offsets)[:, None] - 1
        return self.curves[:, self.offsets[:-1, None] + np.minimum(bins, last)]


def encode_feature(quantiser: Quantiser, feature: int, values: FloatArray) -> NDArray[Any]:
    """Codes of some values of one feature."""
    alone = replace(quantiser, low=quantiser.low[[feature]], span=quantiser.span[[feature]])
    return alone.encode(np.asarray(values)[:, None]).values


def bin_offsets(codes: Codes) -> NDArray[np.int64]:
    """Where the bins of each feature begin, counting those up to the largest code that occurs."""
    largest = np.zeros(codes.n_features, np.int64)
    if codes.is_sparse:
        largest_codes(codes.values, codes.gaps, codes.indptr, largest)
    elif len(codes):
        largest[:] = codes.values.reshape(len(codes), -1).max(axis=0)
    return np.concatenate([[0], np.cumsum(largest + 1)])


def clip_codes(codes: Codes, offsets: NDArray[np.int64]) -> Codes:
    """Codes no larger than the largest in training: beyond it curves are flat."""
    largest = np.diff(offsets) - 1
    if codes.is_sparse:
        clipped = np.minimum(codes.values, largest[codes.features()])
    else:
        clipped = np.minimum(codes.values.reshape(len(codes), -1), largest).ravel()
    return replace(codes, values=clipped.astype(codes.values.dtype))


def _in_chunks(X: Any, function: Any, n_functions: int) -> FloatArray:
    out = np.empty((X.shape[0], n_functions))
    per_row = X.nnz / max(X.shape[0], 1) if sparse.issparse(X) else X.shape[1]
    step = max(1, DECIDE_VALUES // (int(per_row) + 1))
    for start in range(0, X.shape[0], step):
        out[start : start + step] = function(X[start : start + step])
    return out
