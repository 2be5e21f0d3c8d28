"""Additive kernels and the methods built on them, by their formulas."""

import numpy as np


def chi2(x, y):
    return np.where(x + y > 0, 2 * x * y / np.where(x + y > 0, x + y, 1), 0.0)


def power_mean(x, y, p):
    """Eq. 32 of Wu and Yang for two numbers, zeros replaced by 0.001 where they have no power."""
    if p == -np.inf:
        return np.minimum(x, y)
    if p == 0:
        return np.sqrt(x * y)
    x, y = np.maximum(x, 0.001), np.maximum(y, 0.001)
    return ((x**p + y**p) / 2) ** (1 / p)


def sum_over_features(scalar, X, Z):
    """Matrix of an additive kernel."""
    return sum(scalar(X[:, j, None], Z[None, :, j]) for j in range(X.shape[1]))


def regression_kernel(x, y, anchors, offset, p):
    """Eq. 40 of Wu and Yang: the kernel that PmSVM works with."""
    design = np.array([[np.log(c + offset) ** t for t in range(len(anchors))] for c in anchors])
    e = np.array([np.log(x + offset) ** t for t in range(len(anchors))])
    s = np.array([power_mean(y, c, p) for c in anchors])
    return np.einsum("t...,tu,u...->...", e, np.linalg.inv(design), s)


def unary(codes, n_bins):
    """Eq. 4 of Wu: as many ones as the code says, for every feature."""
    return (codes[:, :, None] > np.arange(n_bins)).reshape(len(codes), -1).astype(float)


def quantise(X, n_bins, share):
    """Eq. 13 of Wu with values clipped to the range."""
    low, high = X.min(), np.quantile(X, share, method="inverted_cdf")
    return np.clip(n_bins * (X - low) / (high - low), 0, n_bins).astype(int)
