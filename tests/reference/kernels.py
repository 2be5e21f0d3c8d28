"""Kernels by their formulas, in float64, one row of the matrix at a time."""

import itertools

import numpy as np
from scipy import sparse


def to_dense(X):
    return np.asarray(X.toarray() if sparse.issparse(X) else X, np.float64)


def by_rows(row_of):
    """Kernel matrix function for a function ``(x, Z, **params) -> row``."""

    def matrix(X, Z=None, **params):
        X = to_dense(X)
        Z = X if Z is None else to_dense(Z)
        return np.array([row_of(x, Z, **params) for x in X]).reshape(len(X), len(Z))

    return matrix


@by_rows
def linear(x, Z):
    return (Z * x).sum(axis=1)


@by_rows
def rbf(x, Z, gamma):
    return np.exp(-gamma * ((Z - x) ** 2).sum(axis=1))


@by_rows
def poly(x, Z, gamma, degree=3, coef0=0.0):
    return (gamma * (Z * x).sum(axis=1) + coef0) ** degree


@by_rows
def sigmoid(x, Z, gamma, coef0=0.0):
    return np.tanh(gamma * (Z * x).sum(axis=1) + coef0)


def sum_where_both_positive(x, Z, mean):
    """Sum over features of a mean that is zero when either number is zero."""
    total = np.zeros(len(Z))
    for k in np.flatnonzero(x > 0):
        rows = np.flatnonzero(Z[:, k] > 0)
        total[rows] += mean(x[k], Z[rows, k])
    return total


@by_rows
def chi2(x, Z):
    return sum_where_both_positive(x, Z, lambda a, b: 2 * a * b / (a + b))


@by_rows
def exp_chi2(x, Z, gamma):
    total = x + Z
    distance = np.where(total > 0, (x - Z) ** 2 / np.where(total > 0, total, 1.0), 0.0)
    return np.exp(-gamma * distance.sum(axis=1))


@by_rows
def intersection(x, Z):
    return np.minimum(x, Z).sum(axis=1)


@by_rows
def hellinger(x, Z):
    return np.sqrt(x * Z).sum(axis=1)


@by_rows
def jensen_shannon(x, Z):
    def mean(a, b):
        # log1p: the sum of a large and a small number is the large one.
        return (a * np.log1p(b / a) + b * np.log1p(a / b)) / (2 * np.log(2))

    return sum_where_both_positive(x, Z, mean)


def anova(of_feature, X, Z=None, weight=0.3, curve_mean=1.0, pair_mean=1.0):
    """Sum over features and over pairs, each pair of features by itself.

    ``of_feature`` is the kernel matrix of a single column.
    """
    X = to_dense(X)
    Z = X if Z is None else to_dense(Z)
    values = [of_feature(X[:, [j]], Z[:, [j]]) for j in range(X.shape[1])]
    pairs = [a * b for a, b in itertools.combinations(values, 2)]
    total = np.zeros((len(X), len(Z)))
    return sum(values, total) / curve_mean + weight * sum(pairs, total) / pair_mean


def anova_chi2(X, Z=None, **params):
    return anova(chi2, X, Z, **params)


def anova_intersection(X, Z=None, **params):
    return anova(intersection, X, Z, **params)


def anova_rbf(X, Z=None, gamma=1.0, **params):
    return anova(lambda x, z: rbf(x, z, gamma=gamma), X, Z, **params)


def power_mean(X, Z=None, p=-1.0):
    if p == 0:
        return hellinger(X, Z)
    if p == -np.inf:
        return intersection(X, Z)
    return finite_power_mean(X, Z, p=p)


@by_rows
def finite_power_mean(x, Z, p):
    def mean(a, b):
        # Powers of the ratio, not of the numbers, so that none overflows; expm1 and log1p so that
        # a power near zero loses no digits.
        low, high = np.minimum(a, b), np.maximum(a, b)
        return low * np.exp(np.log1p(np.expm1(p * np.log(high / low)) / 2) / p)

    return sum_where_both_positive(x, Z, mean)
