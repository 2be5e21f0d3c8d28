"""The terms of a model with an ANOVA kernel: a constant, curves of features, surfaces of pairs.

With signed dual variables a_s of the support vectors, factors c on features and w on pairs,

    f(x) = b + sum_s a_s (c sum_j k_j(x_j, s_j) + w sum_{i<j} k_i(x_i, s_i) k_j(x_j, s_j)).

The mean m_j(s) of k_j(., s_j) over the values of feature j is subtracted from each k_j, which leaves
kernels q_j of mean zero. Since k_i k_j = q_i q_j + m_i q_j + m_j q_i + m_i m_j, the same function is

    f(x) = b' + sum_j h_j(x_j) + sum_{i<j} h_ij(x_i, x_j)
    h_j  = sum_s a_s (c + w sum_{i != j} m_i(s)) q_j(x_j, s)
    h_ij = w sum_s a_s q_i(x_i, s) q_j(x_j, s).

Every term has mean zero over each of its features, so the terms are uncorrelated if the features are
independent: this is the functional ANOVA of f, and the variances of the terms add up to that of f.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.exact.expansion import Expansion
from widemargin.kernels.anova import AnovaKernel
from widemargin.kernels.base import as_dense

FloatArray = NDArray[np.float64]

#: Multiplications that the variances of all pairs may take; with more there are fewer levels.
PAIR_PRODUCTS = 2e10
#: Fewest levels of a feature for the variances of pairs.
LEAST_LEVELS = 8
#: Kernel values of a block of rows that are explained together.
BLOCK_VALUES = 2**22


@dataclass(frozen=True)
class Levels:
    """Some values of a feature that stand for all of its values.

    Attributes
    ----------
    rows : ndarray of int of shape (n_levels,)
        Rows of the data that have these values, ascending by value.
    values : ndarray of shape (n_levels,)
        The values, ascending.
    shares : ndarray of shape (n_levels,)
        Share of the data that each stands for; their sum is one.
    """

    rows: NDArray[np.intp]
    values: FloatArray
    shares: FloatArray


def choose_levels(column: FloatArray, n_levels: int) -> Levels:
    """Return the distinct values of a column, or some at equal steps of its ranks."""
    order = np.argsort(column, kind="stable")
    values, first, counts = np.unique(column[order], return_index=True, return_counts=True)
    if len(values) > n_levels:
        at = ((np.arange(n_levels) + 0.5) / n_levels * len(column)).astype(np.intp)
        values, first, counts = np.unique(column[order[at]], return_index=True, return_counts=True)
        first = at[first]
    return Levels(order[first], values, counts / counts.sum())


class AnovaTerms:
    """Curves and surfaces of the decision functions of an expansion.

    Parameters
    ----------
    model : Expansion
        The model, with an ANOVA kernel.
    levels : list of Levels
        Values of every feature, as the model sees them, whose mean is zero in every term.

    Attributes
    ----------
    intercept : ndarray of shape (n_functions,)
        The constants b'.
    """

    def __init__(self, model: Expansion, levels: list[Levels]) -> None:
        kernel = model.kernel
        assert isinstance(kernel, AnovaKernel)
        self.kernel, self.levels, self.coef = kernel, levels, model.coef
        self._columns = np.ascontiguousarray(as_dense(model.vectors).T)
        self._means = np.array([
            level.shares @ kernel.feature_kernel(level.values, column)
            for level, column in zip(levels, self._columns, strict=True)
        ])  # fmt: skip
        self._mean_sum = self._means.sum(axis=0)
        pairs = 0.5 * (self._mean_sum**2 - np.square(self._means).sum(axis=0))
        constant = kernel.curve_factor * self._mean_sum + kernel.pair_factor * pairs
        self.intercept = model.intercept + self.coef @ constant

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self._columns)

    def curve(self, feature: int, values: FloatArray) -> FloatArray:
        """Compute the curves of a feature at some values, shape (n_functions, n_values)."""
        return self._curve_coef(feature) @ self._centred(feature, values).T

    def surface(self, pair: tuple[int, int], x: FloatArray, z: FloatArray) -> FloatArray:
        """Compute the surfaces of two features on a grid, shape (n_functions, n_x, n_z)."""
        first, second = self._centred(pair[0], x), self._centred(pair[1], z)
        factor = self.kernel.pair_factor
        return np.array([factor * (first * coef) @ second.T for coef in self.coef])

    def curve_variances(self) -> FloatArray:
        """Compute the variance of every curve, shape (n_functions, n_features)."""
        found = np.empty((len(self.coef), self.n_features))
        for j, level in enumerate(self.levels):
            found[:, j] = np.square(self.curve(j, level.values)) @ level.shares
        return found

    def pair_variances(self, features: NDArray[np.intp]) -> FloatArray:
        """Compute the variance of the surface of every pair among some features.

        The result has shape (n_functions, n_pairs); the pairs are in the order of `list_pairs`.
        """
        parts = [self._weighted_levels(int(j), len(features)) for j in features]
        sizes = np.cumsum([0, *(len(part) for part in parts)])
        stacked = np.vstack(parts)
        found = []
        for coef in self.coef:
            row = []
            for i, part in enumerate(parts):
                squares = np.square((part * coef) @ stacked[sizes[i + 1] :].T).sum(axis=0)
                begins = sizes[i + 1 : -1] - sizes[i + 1]
                row.append(np.add.reduceat(squares, begins) if len(begins) else np.empty(0))
            found.append(np.concatenate(row))
        return np.array(found)

    def contributions(
        self, X: Any, pairs: NDArray[np.intp]
    ) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Compute the curves, and the surfaces of some pairs, at the rows of ``X``, in blocks.

        Yields the rows of a block, shares of shape (n, n_functions, n_features) and shares of shape
        (n, n_functions, n_pairs).
        """
        n_vectors = self._columns.shape[1]
        step = max(1, BLOCK_VALUES // max(n_vectors * self.n_features, 1))
        weights = np.stack([self._curve_coef(j) for j in range(self.n_features)])
        for start in range(0, X.shape[0], step):
            part = as_dense(X[start : start + step])
            kernels = np.stack([self._centred(j, part[:, j]) for j in range(self.n_features)])
            curves = np.einsum("jns,jfs->nfj", kernels, weights, optimize=True)
            surfaces = np.empty((len(part), len(self.coef), len(pairs)))
            for k, (i, j) in enumerate(pairs):
                surfaces[:, :, k] = (kernels[i] * kernels[j]) @ self.coef.T
            surfaces *= self.kernel.pair_factor
            yield slice(start, start + len(part)), curves, surfaces

    def _centred(self, feature: int, values: FloatArray) -> FloatArray:
        """Kernels q between values of a feature and the support vectors, (n_values, n_vectors)."""
        return self.kernel.feature_kernel(values, self._columns[feature]) - self._means[feature]

    def _curve_coef(self, feature: int) -> FloatArray:
        """Coefficients of the kernels of a feature, shape (n_functions, n_vectors)."""
        others = self._mean_sum - self._means[feature]
        return self.coef * (self.kernel.curve_factor + self.kernel.pair_factor * others)

    def _weighted_levels(self, feature: int, n_features: int) -> FloatArray:
        """Kernels at the levels of a feature, times the roots of their shares and of the pair factor.

        Of tiny values that factor is as large as their products are small: its square overflows.
        """
        n_vectors = self._columns.shape[1]
        most = int((PAIR_PRODUCTS / max(n_vectors, 1)) ** 0.5 / n_features)
        level = self.levels[feature]
        if len(level.values) > max(most, LEAST_LEVELS):
            level = _merge(level, max(most, LEAST_LEVELS))
        roots = np.sqrt(self.kernel.pair_factor * level.shares)
        return roots[:, None] * self._centred(feature, level.values)


def _merge(level: Levels, n_levels: int) -> Levels:
    """Return fewer levels, each with the share of some neighbours."""
    ends = np.cumsum(level.shares)
    group = np.minimum((ends - 0.5 * level.shares) * n_levels, n_levels - 1).astype(np.intp)
    shares: FloatArray = np.bincount(group, level.shares, n_levels).astype(np.float64)
    middle = np.searchsorted(group, np.flatnonzero(shares))
    last = np.searchsorted(group, np.flatnonzero(shares), side="right") - 1
    at = (middle + last) // 2
    return Levels(level.rows[at], level.values[at], shares[shares > 0])


def list_pairs(features: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return all pairs of some features, shape (n_pairs, 2)."""
    first, second = np.triu_indices(len(features), 1)
    return np.stack([features[first], features[second]], axis=1)
