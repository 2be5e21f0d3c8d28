"""Kernels that are a function of a sum over features: every kernel that has a formula."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.base import (
    EXACT_VALUES,
    ExactRows,
    Index,
    Points,
    TiledKernel,
    check_width,
)

#: Share of non-zero values below which the sparse loops beat BLAS on dense rows. Measured: 12 of
#: 54 features 1.5 times faster, 150 of 784 features 1.7 times. Where exactly it turns was not.
SPARSE_DENSITY = 0.25
#: Share of stored values above which dense float32 rows take less memory than sparse ones.
DENSE_AS_SMALL = 0.5
#: Largest norm (in powers of two) for which float32 sums keep a radial kernel's relative error to a
#: few millionths: the sum and the norms cancel, and what remains carries their rounding error.
FLOAT32_NORM = 46.0
#: Largest norm for which float64 sums keep that error to a millionth, and to 1e-10. Rows further
#: from the mean than that are compared feature by feature.
FLOAT64_NORM, EXACT_NORM = 2.0**32, 2.0**20
#: Largest norm at all: squares of larger values are not finite.
LARGEST_NORM = 1e290
#: Queries are cut at these values, in float32 and in float64, so that their squares are finite. A
#: radial kernel is zero between such a query and every training row.
LARGEST_VALUE = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e150}
#: Largest value of a query for which sums of other kernels are finite in float32.
LARGEST_QUERY = 1e12
#: Most bytes of sparse data that are made dense in order to compare rows feature by feature.
DENSE_BYTES = 2**30
#: Largest norm at which float32 keeps the error to a thousandth.
NARROW_NORM = 8192.0
#: Kernels with an exponential put this into their scale: powers of two are cheaper to compute.
LOG2_E = 1.4426950408889634
#: Largest bytes of points whose kernel rows are computed one by one: they must fit the cache.
ROW_SOURCE_BYTES = 2**19
#: Values converted at a time: little memory beyond the result, and in cache.
CHUNK_VALUES = 2**16


class Form(NamedTuple):
    """The formula of a kernel: codes of operations in `tiles_fast` and their parameters."""

    op: int = tiles.DOT
    finish: int = tiles.IDENTITY
    scale: float = 1.0
    shift: float = 0.0
    degree: int = 0
    power: float = 0.0

    @property
    def is_radial(self) -> bool:
        """True when the kernel depends on ``x - z`` alone, so that data may be centred."""
        return self.op == tiles.DOT and self.finish == tiles.EXP2


@dataclass(frozen=True)
class SummedKernel(TiledKernel):
    """Base of the kernels ``finish(sum_k op(a_k, b_k) - norm_a - norm_b)``; see `tiles_fast`."""

    @property
    @abstractmethod
    def form(self) -> Form:
        """The formula of this kernel."""

    @property
    def floor(self) -> float:
        return float(2.0**-126) if self.has_exponential else 0.0

    @property
    def largest_query(self) -> float:
        return float("inf") if self.has_exponential else LARGEST_QUERY

    @property
    def is_product(self) -> bool:
        return self.form.op == tiles.DOT

    def params(self) -> dict[str, float]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def transform(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Features as the operation sees them. Must map zero to zero."""
        return values * self.form.scale

    def prepare(self, X: Any, like: Points | None = None) -> Points:
        as_sparse = self._prefers_sparse(X) if like is None else sparse.issparse(like.values)
        if as_sparse and not sparse.issparse(X):
            X = compress(X)
        # Values whose squares overflow are refused below, or cut if they are queries.
        with np.errstate(over="ignore", invalid="ignore"):
            if like is not None:
                points = self._make_points(X, like.center, like.values.dtype, as_sparse=as_sparse)
                return _compare_features(points) if like.by_difference else points
            center = self._center(X, as_sparse)
            points = self._make_points(X, center, np.float32, as_sparse=as_sparse)
            if self._exceeds(points, FLOAT32_NORM):
                points = self._make_points(X, center, np.float64, as_sparse=as_sparse)
            return self._spread(X, points) if self._exceeds(points, FLOAT64_NORM) else points

    def _exceeds(self, points: Points, norm: float) -> bool:
        """Whether an exponential would lose digits because norms are larger, or not finite."""
        return self.has_exponential and not points.norms.max(initial=0.0) <= norm

    def _spread(self, X: Any, points: Points) -> Points:
        """Return points whose distances are summed feature by feature, without cancelling norms."""
        stored = points.values.data if sparse.issparse(points.values) else points.values
        is_cut = np.abs(stored).max(initial=0.0) >= LARGEST_VALUE[stored.dtype]
        if is_cut or self._exceeds(points, LARGEST_NORM):
            raise ValueError(
                f"X: the values are so large that the {self.name!r} kernel's distances overflow; "
                "scale the features, for example with sklearn.preprocessing.StandardScaler"
            )
        if sparse.issparse(points.values) and 8 * X.shape[0] * X.shape[1] > DENSE_BYTES:
            raise ValueError(
                f"X: the sparse rows are so far apart that the {self.name!r} kernel would have "
                "to compare them feature by feature; scale the features, for example with "
                "sklearn.preprocessing.MaxAbsScaler"
            )
        points = self._make_points(X, self._middle(X), np.float64, as_sparse=False)
        return _compare_features(points)

    def _middle(self, X: Any) -> NDArray[np.float64] | None:
        """Median of dense rows for a radial kernel; a few wild values do not move it."""
        if not self.form.is_radial or sparse.issparse(X):
            return None
        return np.median(X, axis=0).astype(np.float64)

    @property
    def has_exponential(self) -> bool:
        """Whether kernel values are exponentials of what sums and norms leave of each other."""
        return self.form.finish == tiles.EXP2

    def _make_points(
        self, X: Any, center: NDArray[np.float64] | None, dtype: Any, *, as_sparse: bool
    ) -> Points:
        values: Any = (
            self._sparse_values(X, dtype) if as_sparse else self._dense_values(X, center, dtype)
        )
        norms = self._norms(values) if self.has_exponential else np.zeros(X.shape[0])
        return Points(values, norms.astype(dtype), center)

    def narrow(self, points: Points, like: Points | None = None) -> Points:
        if points.by_difference:
            return points
        fits = points.norms.max(initial=0.0) <= NARROW_NORM
        dtype = (np.float32 if fits else points.norms.dtype) if like is None else like.norms.dtype
        if dtype == points.norms.dtype:
            return points
        return Points(points.values.astype(dtype), points.norms.astype(dtype), points.center)

    def widen(self, points: Points) -> Points:
        # Loops over stored entries add in the order of the features.
        if sparse.issparse(points.values) or points.values.dtype == np.float64:
            return points
        values, norms = points.values.astype(np.float64), points.norms.astype(np.float64)
        return Points(values, norms, points.center)

    def diag(self, points: Points) -> NDArray[np.float64]:
        if self.has_exponential:
            return np.ones(len(points))
        sums = self._self_sums(points.values) + self.form.shift
        if self.form.finish == tiles.POLY:
            return sums**self.form.degree
        return np.tanh(sums) if self.form.finish == tiles.TANH else sums

    def exact(self, X: Any, Z: Any) -> NDArray[np.float64]:
        z, spread = self._prepare_exactly(Z)
        return self._exact(self._exact_points(X, z.center), z, by_difference=spread)

    def _prepare_exactly(self, Z: Any) -> tuple[Points, bool]:
        """Return rows in float64, and whether they must be compared feature by feature.

        By these rows alone, so that a query's kernel values do not depend on other queries.
        """
        z = self._exact_points(Z, self._exact_center(Z))
        spread = self._exceeds(z, EXACT_NORM)
        return (self._exact_points(Z, self._middle(Z)) if spread else z), spread

    def exact_product(self, X: Any, Z: Any, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        (z, spread), out = self._prepare_exactly(Z), np.empty(X.shape[0])
        # Few values at a time, so that they stay in cache between the steps of the computation.
        step = max(1, EXACT_VALUES // max(len(z), 1))
        for start in range(0, len(out), step):
            x = self._exact_points(X[start : start + step], z.center)
            out[start : start + step] = self._exact(x, z, by_difference=spread) @ coef
        return out

    def hold_exactly(self, X: Any) -> ExactRows:
        return _PreparedRows(self, X)

    def _exact_center(self, X: Any) -> NDArray[np.float64] | None:
        return self._center(X, as_sparse=False)

    def _exact_points(self, X: Any, center: NDArray[np.float64] | None) -> Points:
        with np.errstate(over="ignore"):
            return self._make_points(X, center, np.float64, as_sparse=False)

    def _exact(self, a: Points, b: Points, *, by_difference: bool) -> NDArray[np.float64]:
        """Kernel between rows in float64."""
        form, x, z = self.form, a.values, b.values
        if by_difference:
            return np.exp2(_sum_differences(form, x, z))
        if form.op == tiles.DOT:
            sums = x @ z.T
        else:
            sums = np.zeros((len(x), len(z)))
            for k in range(x.shape[1]):
                sums += combine(form, x[:, k, None], z[None, :, k])
        if self.has_exponential:
            sums -= a.norms[:, None]
            sums -= b.norms
            return np.exp2(np.minimum(sums, 0.0, out=sums), out=sums)
        if form.finish == tiles.POLY:
            return (sums + form.shift) ** form.degree
        return np.tanh(sums + form.shift) if form.finish == tiles.TANH else sums

    def row_source(self, points: Points, rows: Index) -> tiles.RowSource | None:
        values, form = points.values, self.form
        is_large = 4 * len(rows) * values.shape[1] > ROW_SOURCE_BYTES
        if is_large or sparse.issparse(values) or values.dtype != np.float32:
            return None
        width = -(-len(rows) // tiles.VECTOR) * tiles.VECTOR
        features = np.zeros((values.shape[1], width), np.float32)
        features[:, : len(rows)] = values.take(rows, axis=0).T
        return tiles.RowSource(
            form.finish, form.shift, form.degree, features.ravel(), points.norms[rows]
        )

    def _bind(self, a: Points, b: Points) -> Callable[..., None]:
        x, z = a.values, b.values
        check_width(x.shape[1], z.shape[1])
        form = self.form
        finish = (form.finish, form.shift, form.degree)
        if b.by_difference:
            is_chi2 = form.op == tiles.CHI2
            return lambda rows, cols, coef, out, block: tiles.difference_tiles(
                is_chi2, x, a.norms, rows, z, cols, coef, out, block
            )
        if not sparse.issparse(x):
            return lambda rows, cols, coef, out, block: tiles.dense_tiles(
                *finish, x, a.norms, rows, z, b.norms, cols, coef, out, block
            )
        return lambda rows, cols, coef, out, block: tiles.sparse_tiles(
            form.op, form.power, *finish, x.shape[1],
            x.data, x.indices, x.indptr, a.norms, rows,
            z.data, z.indices, z.indptr, b.norms, cols, coef, out, block,
        )  # fmt: skip

    def _prefers_sparse(self, X: Any) -> bool:
        if self.form.op != tiles.DOT:
            return True
        if sparse.issparse(X):
            return bool(X.nnz <= DENSE_AS_SMALL * X.shape[0] * X.shape[1])
        return bool(np.count_nonzero(X) <= SPARSE_DENSITY * X.size)

    def _center(self, X: Any, as_sparse: bool) -> NDArray[np.float64] | None:
        """Mean of dense rows for a radial kernel: smaller norms, less cancellation."""
        if not self.form.is_radial or as_sparse:
            return None
        return np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()

    def _transformed_chunks(self, X: Any, center: NDArray[np.float64] | None) -> Iterator[Any]:
        step = max(1, CHUNK_VALUES // max(X.shape[1], 1))
        for start in range(0, X.shape[0], step):
            chunk = X[start : start + step]
            if sparse.issparse(chunk) and center is None:
                yield self._sparse_values(chunk, np.float64)
            else:
                chunk = chunk.toarray() if sparse.issparse(chunk) else chunk
                shifted = np.asarray(chunk, np.float64) - (0.0 if center is None else center)
                yield self.transform(shifted)

    def _dense_values(self, X: Any, center: NDArray[np.float64] | None, dtype: type) -> Any:
        values = np.empty(X.shape, dtype)
        start = 0
        for chunk in self._transformed_chunks(X, center):
            rows = chunk.toarray() if sparse.issparse(chunk) else chunk
            if self.has_exponential:
                rows = _cut(rows, dtype)
            values[start : start + len(rows)] = rows
            start += len(rows)
        return values

    def _sparse_values(self, X: Any, dtype: type) -> Any:
        data: NDArray[Any] = self.transform(X.data.astype(np.float64))
        data = (_cut(data, dtype) if self.has_exponential else data).astype(dtype)
        values = sparse.csr_matrix((data, X.indices, X.indptr), shape=X.shape, copy=True)
        # The loops divide by stored values, and a tiny one becomes zero in float32.
        values.eliminate_zeros()
        # They know one type of index only, whatever SciPy chose.
        values.indices = values.indices.astype(np.int32, copy=False)
        values.indptr = values.indptr.astype(np.int64, copy=False)
        return values

    def _norms(self, values: Any) -> NDArray[np.float64]:
        """Half of ``op(x, x)``, so that the argument of the exponential is zero at ``x = z``."""
        return 0.5 * self._self_sums(values)

    def _self_sums(self, values: Any) -> NDArray[np.float64]:
        """Sum of ``op(x, x)``: squares for dot products, x itself for means of x and x."""
        squared = self.form.op == tiles.DOT
        if sparse.issparse(values):
            data = values.data.astype(np.float64)
            data = data * data if squared else data
            part = sparse.csr_matrix((data, values.indices, values.indptr), shape=values.shape)
            return part @ np.ones(values.shape[1])
        if squared:
            return np.einsum("ij,ij->i", values, values, dtype=np.float64)
        return values.sum(axis=1, dtype=np.float64)


class _PreparedRows(ExactRows):
    """Rows that are transformed once, not for all kernel values again."""

    kernel: SummedKernel

    def __init__(self, kernel: SummedKernel, X: Any) -> None:
        super().__init__(kernel, X)
        self._points, self._spread = kernel._prepare_exactly(X)

    def column(self, row: int) -> NDArray[np.float64]:
        other = self.kernel.take(self._points, np.array([row]))
        return self.kernel._exact(self._points, other, by_difference=self._spread)[:, 0]

    def between(self, rows: Index | slice, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        points = self._points
        some = replace(points, values=points.values[rows], norms=points.norms[rows], known={})
        others = self.kernel._exact_points(Z, points.center)
        return self.kernel._exact(some, others, by_difference=self._spread)


def _cut(values: NDArray[np.float64], dtype: Any) -> NDArray[np.float64]:
    """Return the values, clipped so that their squares are finite in ``dtype``."""
    largest = LARGEST_VALUE[np.dtype(dtype)]
    return np.clip(values, -largest, largest)


def _compare_features(points: Points) -> Points:
    """The same points for `tiles.difference_tiles`, which adds norms to what it finds itself."""
    return replace(points, norms=np.zeros_like(points.norms), by_difference=True)


def _sum_differences(
    form: Form, x: NDArray[np.float64], z: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Exponents of radial and exponential chi-square kernels, summed feature by feature."""
    sums = np.zeros((len(x), len(z)))
    for k in range(x.shape[1]):
        squares = np.square(x[:, k, None] - z[None, :, k])
        if form.op == tiles.CHI2:
            total = x[:, k, None] + z[None, :, k]
            squares = np.divide(squares, total, out=squares, where=total > 0)
        sums -= 0.5 * squares
    return sums


def compress(X: NDArray[Any]) -> Any:
    """Return a dense matrix of mostly zeros as CSR, without SciPy's copy in coordinate format."""
    X = np.ascontiguousarray(X)
    indptr = np.empty(X.shape[0] + 1, np.int64)
    tiles.count_stored(X, indptr)
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
    tiles.copy_stored(X, indptr, indices, data)
    return sparse.csr_matrix((data, indices, indptr), shape=X.shape)


def combine(form: Form, x: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the operation of an additive kernel on one feature of all pairs."""
    if form.op == tiles.MIN:
        return np.minimum(x, z)
    low, high = np.minimum(x, z), np.maximum(x, z)
    # Every mean is zero where the smaller number is; any ratio will do there.
    ratio = np.divide(high, low, out=np.ones_like(low), where=low > 0)
    if form.op == tiles.CHI2:
        return 2.0 * low * ratio / (1.0 + ratio)
    if form.op == tiles.JENSEN_SHANNON:
        # log1p: one plus the inverse of a large ratio would be one.
        return 0.5 * LOG2_E * low * (np.log1p(ratio) + ratio * np.log1p(1.0 / ratio))
    # By logarithms: for p near zero the power of the mean would lose all digits.
    log_mean = np.log1p(0.5 * np.expm1(form.power * np.log(ratio))) / form.power
    return low * np.exp(log_mean)
