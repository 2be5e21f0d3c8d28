"""Sizes beyond which features saturate, so that no sum of an exported model overflows."""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.export.description import ClusterSum, CurveSum, KernelSum, LogSum, known
from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.anova import AnovaKernel, AnovaRBF
from widemargin.kernels.base import Kernel

#: Largest number of type float32, for models whose sums cannot overflow.
FLOAT32_MAX = float(np.finfo(np.float32).max)
#: Bound on decisions and on the terms of their sums; float32 ends at 2^128.
TOP = 2.0**120
#: Largest feature where nothing grows faster than features do.
LARGEST = 2.0**100


def find_limit(functions: KernelSum | CurveSum | LogSum | ClusterSum) -> float:
    """Largest size of a feature, after scaling, for which decisions in float32 are finite.

    It is at least twice that of the model's vectors. Tables and logarithms have ends of their own.
    """
    if isinstance(functions, CurveSum | LogSum):
        return FLOAT32_MAX
    if isinstance(functions, KernelSum):
        return _limit_kernel(functions.kernel, functions.vectors, _weigh(functions))
    clusters, background = functions.clusters, functions.background
    vectors = np.vstack([functions.samples, *(each.vectors for each in functions.sums)])
    # The choice of a cluster compares sums of the kernel over samples.
    weight = max(float(len(functions.samples)), *(_weigh(cluster) for cluster in clusters))
    if background is not None:
        weight += _weigh(background)
    return _limit_kernel(clusters[0].kernel, vectors, weight)


def _weigh(functions: KernelSum) -> float:
    """Return the largest sum of absolute coefficients of a decision function."""
    return float(np.abs(functions.coef).sum(axis=1).max(initial=1.0))


def _limit_kernel(kernel: Kernel, vectors: NDArray[np.float64], weight: float) -> float:
    largest = 2.0 * float(np.abs(vectors).max(initial=0.0))
    if isinstance(kernel, AnovaKernel):
        # Squared differences must not overflow; means of two numbers cannot exceed twice the vector's.
        return max(sqrt(LARGEST) if isinstance(kernel, AnovaRBF) else LARGEST, largest)
    form, limit = known(kernel).form, LARGEST
    if form.finish == tiles.EXP2:
        # Squared distances must not overflow.
        limit = sqrt(LARGEST)
    elif form.op == tiles.DOT:
        size = float(np.abs(vectors).sum(axis=1).max(initial=0.0)) or 1.0
        degree = form.degree if form.finish == tiles.POLY else 1
        gamma = kernel.params().get("gamma", 1.0)
        product = (TOP / weight) ** (1.0 / max(degree, 1)) - abs(form.shift)
        slope = gamma * size
        # With gamma = 0 the kernel is constant, and only the dot product itself can overflow.
        limit = min(LARGEST, TOP / size, product / slope if slope > 0 else LARGEST)
    return max(limit, largest)
