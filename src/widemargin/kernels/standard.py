"""The kernels of every SVM library: linear, radial, polynomial and sigmoid."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.base import Points
from widemargin.kernels.summed import LOG2_E, Form, SummedKernel

#: Largest scalar product of a sigmoid kernel: float32 holds no sums of much larger terms.
LARGEST_PRODUCT = 1e37


@dataclass(frozen=True)
class Linear(SummedKernel):
    """``x'z``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Linear
    >>> Linear().exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[5.]])
    """

    name = "linear"

    @property
    def form(self) -> Form:
        return Form()

    def exact_product(self, X: Any, Z: Any, coef: NDArray[np.float64]) -> NDArray[np.float64]:
        weights = Z.astype(np.float64).T @ coef
        return np.asarray(X.astype(np.float64) @ weights)


@dataclass(frozen=True)
class RBF(SummedKernel):
    """``exp(-gamma |x - z|^2)``, computed as 2 to the power ``u'v - |u|^2/2 - |v|^2/2``.

    Here ``u = sqrt(2 gamma log2(e)) x``, and v the same of z.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import RBF
    >>> RBF(gamma=0.5).exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[0.0821]])
    """

    gamma: float
    name = "rbf"

    @property
    def form(self) -> Form:
        return Form(finish=tiles.EXP2, scale=sqrt(2.0 * self.gamma * LOG2_E))


@dataclass(frozen=True)
class Poly(SummedKernel):
    """``(gamma x'z + coef0)^degree``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Poly
    >>> kernel = Poly(gamma=1.0, degree=2, coef0=1.0)
    >>> kernel.exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[36.]])
    """

    gamma: float
    degree: int = 3
    coef0: float = 0.0
    name = "poly"

    @property
    def form(self) -> Form:
        return Form(
            finish=tiles.POLY,
            scale=sqrt(self.gamma),
            shift=float(self.coef0),
            degree=int(self.degree),
        )


@dataclass(frozen=True)
class Sigmoid(SummedKernel):
    """``tanh(gamma x'z + coef0)``; not positive semidefinite in general.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.kernels import Sigmoid
    >>> Sigmoid(gamma=0.1).exact(np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]])).round(4)
    array([[0.4621]])
    """

    gamma: float
    coef0: float = 0.0
    name = "sigmoid"

    @property
    def form(self) -> Form:
        return Form(finish=tiles.TANH, scale=sqrt(self.gamma), shift=float(self.coef0))

    def prepare(self, X: Any, like: Points | None = None) -> Points:
        points = super().prepare(X, like)
        if like is None:
            # The diagonal cannot tell: tanh of an overflow is one. Other pairs add up infinities of
            # both signs. No scalar product is larger than the largest of a row with itself.
            with np.errstate(over="ignore"):
                largest = self._self_sums(points.values).max(initial=0.0)
            if not largest <= LARGEST_PRODUCT:
                raise ValueError(
                    "X: the values are so large that scalar products of the 'sigmoid' kernel "
                    "overflow; scale the features, for example with "
                    "sklearn.preprocessing.StandardScaler"
                )
        return points
