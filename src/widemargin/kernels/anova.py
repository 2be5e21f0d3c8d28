"""ANOVA kernels of degree two: a sum over features plus a weighted sum over all pairs of features.

With k_i the kernel of feature i, k1 = sum_i k_i and k2 = sum_{i<j} k_i k_j, the kernel is

    k(x, z) = k1(x, z) / m1 + weight k2(x, z) / m2

where m1 and m2 are the means of k1(x, x) and k2(x, x) over the training rows. A kernel value costs two
sums over features: feature after feature, k2 grows by k_i times the sum of those before it, so that
nothing is subtracted. Sums and products of positive semidefinite kernels are positive semidefinite.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from math import isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.anova_fast import sum_sparse_pairs
from widemargin.kernels.base import Points, TiledKernel, as_dense, check_width
from widemargin.kernels.summed import (
    DENSE_BYTES,
    LARGEST_QUERY,
    LARGEST_VALUE,
    LOG2_E,
    Form,
    combine,
    compress,
)

FloatArray = NDArray[np.float64]

#: Largest scaled value of a radial kernel for which differences in float32 are precise enough.
FLOAT32_VALUE = 64.0
#: Smallest mean of k1(x, x) whose square float64 holds with all digits.
SMALLEST_MEAN = 1e-150
#: Share of the square of that mean below which the mean of k2(x, x) is what rounding leaves of zero.
NO_PAIRS = 1e-13


@dataclass(frozen=True)
class AnovaKernel(TiledKernel):
    """Base of the ANOVA kernels, which differ in the kernel of one feature.

    Attributes
    ----------
    weight : float
        Weight of the pairs.
    curve_mean, pair_mean : float
        Means of k1(x, x) and k2(x, x) over the training rows. Zero, the default, has them measured
        when an estimator is fitted; a kernel that is used on its own then divides by one.
    """

    weight: float = 0.3
    curve_mean: float = 0.0
    pair_mean: float = 0.0

    # The operation of the compiled loop; without an annotation, so that it is no parameter.
    op = tiles.DOT

    def __post_init__(self) -> None:
        for name in ("weight", "curve_mean", "pair_mean"):
            value = getattr(self, name)
            if not (value >= 0 and isfinite(value)):
                raise ValueError(
                    f"{name}: give a finite number that is not negative, got {value!r}"
                )

    @property
    def curve_factor(self) -> float:
        """Factor on the kernel of a feature."""
        return 1.0 / (self.curve_mean or 1.0)

    @property
    def pair_factor(self) -> float:
        """Factor on the product of the kernels of two features."""
        return self.weight / (self.pair_mean or 1.0)

    @abstractmethod
    def feature_kernel(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """Return the kernel between some values and others of one feature, in float64."""

    @abstractmethod
    def _self_sums(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Sums of k_i(x, x) and of their squares over the features, of each row."""

    def params(self) -> dict[str, float]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def adapt(self, X: Any, weights: FloatArray) -> "AnovaKernel":
        if self.curve_mean and self.pair_mean:
            return self
        with np.errstate(over="ignore", invalid="ignore"):
            sums, squares = self._self_sums(X)
            curve_mean = float(np.average(sums, weights=weights))
            pair_mean = float(np.average(0.5 * (sums * sums - squares), weights=weights))
        if not (isfinite(curve_mean) and isfinite(pair_mean)):
            raise ValueError(
                f"X: the values are so large that products of the {self.name!r} kernel overflow; "
                "scale the features, for example with sklearn.preprocessing.MinMaxScaler"
            )
        if 0.0 < curve_mean < SMALLEST_MEAN:
            raise ValueError(
                f"X: the values are so small that products of the {self.name!r} kernel underflow; "
                "scale the features, for example with sklearn.preprocessing.MinMaxScaler"
            )
        curve_mean = self.curve_mean or max(curve_mean, 0.0) or 1.0
        if pair_mean < NO_PAIRS * curve_mean**2:
            # No row has two features: there are no pairs then, and any number will do.
            pair_mean = curve_mean**2
        return replace(self, curve_mean=curve_mean, pair_mean=self.pair_mean or pair_mean)

    def diag(self, points: Points) -> FloatArray:
        curve_factor, pair_factor = self._tile_factors()
        sums, squares = self._point_sums(points.values)
        pairs = np.maximum(0.5 * (sums * sums - squares), 0.0)
        return curve_factor * sums + pair_factor * pairs

    @abstractmethod
    def _tile_factors(self) -> tuple[float, float]:
        """Factors on the sums that the compiled loop computes of the prepared values."""

    @abstractmethod
    def _point_sums(self, values: Any) -> tuple[FloatArray, FloatArray]:
        """Sums of k_i(x, x) and of their squares, of prepared values."""

    def exact(self, X: Any, Z: Any) -> FloatArray:
        x, z = as_dense(X), as_dense(Z)
        sums, pairs = np.zeros((len(x), len(z))), np.zeros((len(x), len(z)))
        for j in range(x.shape[1]):
            values = self.feature_kernel(x[:, j], z[:, j])
            pairs += values * sums
            sums += values
        return self.curve_factor * sums + self.pair_factor * pairs

    def _bind(self, a: Points, b: Points) -> Callable[..., None]:
        x, z = a.values, b.values
        check_width(x.shape[1], z.shape[1])
        factors = self._tile_factors()
        return lambda rows, cols, coef, out, block: tiles.anova_tiles(
            self.op, *factors, x.shape[1], x.data, x.indices, x.indptr, rows,
            z.data, z.indices, z.indptr, cols, coef, out, block,
        )  # fmt: skip


class _HistogramAnova(AnovaKernel):
    """ANOVA kernels of means of two numbers, which are zero where one of the numbers is.

    Features that are zero cost nothing. The kernel of a feature is homogeneous, so the rows are
    divided by ``curve_mean``, which keeps all sums near one.
    """

    needs_nonnegative = True

    @property
    def largest_query(self) -> float:
        return LARGEST_QUERY

    def feature_kernel(self, x: FloatArray, z: FloatArray) -> FloatArray:
        return combine(Form(op=self.op), x[:, None], z[None, :])

    def prepare(self, X: Any, like: Points | None = None) -> Points:
        rows = X if sparse.issparse(X) else compress(X)
        data = (rows.data * self.curve_factor).astype(np.float32)
        values = sparse.csr_matrix((data, rows.indices, rows.indptr), shape=X.shape, copy=True)
        # The loops divide by stored values, and a tiny one becomes zero in float32.
        values.eliminate_zeros()
        return Points(_fix_indices(values), np.zeros(X.shape[0], np.float32))

    def exact(self, X: Any, Z: Any) -> FloatArray:
        if not (sparse.issparse(X) and sparse.issparse(Z)):
            return super().exact(X, Z)
        check_width(X.shape[1], Z.shape[1])
        # Most features of two sparse rows are zero.
        stored = [
            array
            for rows in (_fix_indices(sparse.csr_matrix(rows)) for rows in (X, Z))
            for array in (rows.data.astype(np.float64), rows.indices, rows.indptr)
        ]
        sums, pairs = np.empty((2, X.shape[0], Z.shape[0]))
        sum_sparse_pairs(self.op == tiles.MIN, X.shape[1], *stored, sums, pairs)
        return self.curve_factor * sums + self.pair_factor * pairs

    def _self_sums(self, X: Any) -> tuple[FloatArray, FloatArray]:
        if sparse.issparse(X):
            return self._point_sums(X.astype(np.float64))
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        return X.sum(axis=1, dtype=np.float64), squares

    def _tile_factors(self) -> tuple[float, float]:
        mean = self.curve_mean or 1.0
        return 1.0, self.pair_factor * mean * mean

    def _point_sums(self, values: Any) -> tuple[FloatArray, FloatArray]:
        ones = np.ones(values.shape[1])
        wide = values.astype(np.float64)
        return wide @ ones, wide.multiply(wide) @ ones


@dataclass(frozen=True)
class AnovaChi2(_HistogramAnova):
    """Chi-square kernels of features and of pairs of features: k_i = ``2 x_i z_i / (x_i + z_i)``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import AnovaChi2
    >>> AnovaChi2(weight=0.5).exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[3.8333]])
    """

    name = "anova_chi2"
    op = tiles.CHI2


@dataclass(frozen=True)
class AnovaIntersection(_HistogramAnova):
    """Intersection kernels of features and of pairs of features: k_i = ``min(x_i, z_i)``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import AnovaIntersection
    >>> AnovaIntersection(weight=0.5).exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]]))
    array([[2.5]])
    """

    name = "anova_intersection"
    op = tiles.MIN


@dataclass(frozen=True)
class AnovaRBF(AnovaKernel):
    """Radial kernels of features and of pairs of features: k_i = ``exp(-gamma (x_i - z_i)^2)``.

    Rows are compared feature by feature, zeros included, so sparse data are made dense.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import AnovaRBF
    >>> kernel = AnovaRBF(gamma=0.5, weight=0.5)
    >>> kernel.exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[0.7829]])
    """

    gamma: float = 1.0
    name = "anova_rbf"
    op = tiles.RADIAL
    has_feature_gamma = True

    def feature_kernel(self, x: FloatArray, z: FloatArray) -> FloatArray:
        values = np.square(x[:, None] - z[None, :])
        values *= -self.gamma
        return np.exp(values, out=values)

    def prepare(self, X: Any, like: Points | None = None) -> Points:
        n_bytes = 8 * X.shape[0] * X.shape[1]
        if sparse.issparse(X) and n_bytes > DENSE_BYTES:
            raise ValueError(
                f"X: the {self.name!r} kernel compares rows feature by feature, for which the sparse "
                f"data would take {n_bytes / 2**30:.1f} GiB as dense rows; use 'anova_chi2' or "
                "'anova_intersection', to which zeros cost nothing"
            )
        rows = as_dense(X)
        center: Any = np.median(rows, axis=0) if like is None else like.center
        rows = (rows - center) * sqrt(self.gamma * LOG2_E)
        if like is None:
            largest = np.abs(rows).max(initial=0.0)
            if not largest <= LARGEST_VALUE[np.dtype(np.float64)]:
                raise ValueError(
                    f"X: the values are so far apart that squares of the {self.name!r} kernel "
                    "overflow; scale the features, for example with "
                    "sklearn.preprocessing.StandardScaler"
                )
            is_near = largest <= FLOAT32_VALUE
            dtype: Any = np.dtype(np.float32 if is_near else np.float64)
        else:
            dtype = like.values.dtype
        # Queries so far away have the kernel value zero with all training rows.
        rows = np.clip(rows, -LARGEST_VALUE[dtype], LARGEST_VALUE[dtype]).astype(dtype)
        return Points(_store_all(rows), np.zeros(len(rows), dtype), center)

    def _self_sums(self, X: Any) -> tuple[FloatArray, FloatArray]:
        ones = np.full(X.shape[0], float(X.shape[1]))
        return ones, ones

    def _tile_factors(self) -> tuple[float, float]:
        return self.curve_factor, self.pair_factor

    def _point_sums(self, values: Any) -> tuple[FloatArray, FloatArray]:
        return self._self_sums(values)


def _fix_indices(values: Any) -> Any:
    """Give a sparse matrix the only types of indices that the loops know."""
    values.indices = values.indices.astype(np.int32, copy=False)
    values.indptr = values.indptr.astype(np.int64, copy=False)
    return values


def _store_all(rows: NDArray[Any]) -> Any:
    """Return dense rows as a sparse matrix that stores zeros too."""
    n, d = rows.shape
    indices = np.tile(np.arange(d, dtype=np.int32), n)
    indptr = np.arange(n + 1, dtype=np.int64) * d
    return _fix_indices(sparse.csr_matrix((rows.ravel(), indices, indptr), shape=rows.shape))
