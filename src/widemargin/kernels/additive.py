"""Kernels for histograms: sums over features of a mean of two non-negative numbers.

Each is zero when either number is zero and equals x at x = z, so the loops visit stored entries
only. The power mean contains chi-square (p = -1), intersection (p = -inf) and Hellinger (p = 0).
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.summed import LOG2_E, Form, SummedKernel


@dataclass(frozen=True)
class Chi2(SummedKernel):
    """``sum_k 2 x_k z_k / (x_k + z_k)``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Chi2
    >>> Chi2().exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[2.8333]])
    """

    name = "chi2"
    needs_nonnegative = True

    @property
    def form(self) -> Form:
        return Form(op=tiles.CHI2)


@dataclass(frozen=True)
class ExpChi2(SummedKernel):
    """``exp(-gamma sum_k (x_k - z_k)^2 / (x_k + z_k))``, scikit-learn's ``chi2_kernel``.

    The sum in the exponent is ``|x|_1 + |z|_1 - 2 chi2(x, z)``: a function of the additive kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import ExpChi2
    >>> ExpChi2(gamma=0.5).exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[0.5134]])
    """

    gamma: float
    name = "exp_chi2"
    needs_nonnegative = True

    @property
    def form(self) -> Form:
        return Form(op=tiles.CHI2, finish=tiles.EXP2, scale=2.0 * self.gamma * LOG2_E)


@dataclass(frozen=True)
class Intersection(SummedKernel):
    """``sum_k min(x_k, z_k)``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Intersection
    >>> Intersection().exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[2.]])
    """

    name = "intersection"
    needs_nonnegative = True

    @property
    def form(self) -> Form:
        return Form(op=tiles.MIN)


@dataclass(frozen=True)
class Hellinger(SummedKernel):
    """``sum_k sqrt(x_k z_k)``: a dot product of square roots.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Hellinger
    >>> Hellinger().exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[3.1463]])
    """

    name = "hellinger"
    needs_nonnegative = True

    @property
    def form(self) -> Form:
        return Form()

    def transform(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sqrt(values)


@dataclass(frozen=True)
class JensenShannon(SummedKernel):
    """``sum_k (x_k log2((x_k + z_k) / x_k) + z_k log2((x_k + z_k) / z_k)) / 2``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import JensenShannon
    >>> JensenShannon().exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[3.]])
    """

    name = "jensen_shannon"
    needs_nonnegative = True

    @property
    def form(self) -> Form:
        return Form(op=tiles.JENSEN_SHANNON)


@dataclass(frozen=True)
class PowerMean(SummedKernel):
    """``sum_k ((x_k^p + z_k^p) / 2)^(1/p)`` with -inf <= p <= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import PowerMean
    >>> PowerMean(p=-1.0).exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[2.8333]])
    """

    p: float = -1.0
    name = "power_mean"
    needs_nonnegative = True

    def __post_init__(self) -> None:
        if not self.p <= 0:
            raise ValueError(f"p: a power mean is a kernel for p <= 0 only, got {self.p!r}")

    @property
    def form(self) -> Form:
        if self.p == 0.0:
            return Form()
        if self.p == -1.0:
            return Form(op=tiles.CHI2)
        if self.p == -inf:
            return Form(op=tiles.MIN)
        return Form(op=tiles.POWER_MEAN, power=float(self.p))

    def transform(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sqrt(values) if self.p == 0.0 else values
