"""Kernels of two numbers, of which additive kernels are sums over features."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import (
    Chi2,
    Hellinger,
    Intersection,
    JensenShannon,
    Kernel,
    PowerMean,
)
from widemargin.kernels.custom import as_numbers, call_given, check_matrix

#: Additive kernels by name.
ADDITIVE: dict[str, type[Kernel]] = {
    cls.name: cls for cls in (Chi2, Intersection, Hellinger, JensenShannon, PowerMean)
}
#: Smallest number that is raised to a negative power: epsilon in the PmSVM paper.
SMALL = 0.001
#: Numbers on which a callable kernel is checked.
MAX_CHECKED = 64
#: Advice in the error for a callable that takes single numbers only.
ARRAYS_HINT = "; k(x, y) must take arrays: use functions of NumPy, or wrap it in numpy.vectorize"


@dataclass(frozen=True)
class ScalarKernel:
    """A kernel of two numbers.

    Attributes
    ----------
    name : str
        Name of the kernel.
    matrix : callable
        ``matrix(x, y)`` gives the values between two vectors of numbers.
    diag : callable
        ``diag(x)`` gives ``k(x, x)`` for every number of a vector.
    is_homogeneous : bool
        Whether ``k(c x, c y) = c k(x, y)``, so that features may be scaled before and their
        contributions after.
    """

    name: str
    matrix: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
    diag: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    is_homogeneous: bool

    def __call__(self, x: Any, y: Any) -> NDArray[np.float64]:
        return self.matrix(np.asarray(x, np.float64), np.asarray(y, np.float64))


def make_scalar_kernel(kernel: Any, p: float = -1.0) -> ScalarKernel:
    """Scalar kernel for a name, an additive kernel object, or a callable ``k(x, y)``."""
    if isinstance(kernel, str) and kernel in ADDITIVE:
        kernel = PowerMean(p) if kernel == "power_mean" else ADDITIVE[kernel]()
    if isinstance(kernel, Kernel) and type(kernel) in ADDITIVE.values():
        # All of them are means, and the mean of x and x is x.
        return ScalarKernel(
            kernel.name, lambda x, y: kernel.exact(x[:, None], y[:, None]), np.asarray, True
        )
    if callable(kernel) and not isinstance(kernel, Kernel):
        return ScalarKernel(
            "callable", lambda x, y: _call(kernel, x[:, None], y[None, :]),
            lambda x: _call(kernel, x, x), False,
        )  # fmt: skip
    raise ValueError(
        f"kernel: {kernel!r} is not additive; use one of {', '.join(sorted(ADDITIVE))}, or a callable "
        "k(x, y) of two arrays of numbers"
    )


def is_homogeneous(kernel: Any) -> bool:
    """Return whether `make_scalar_kernel` makes a homogeneous kernel; it does of all but callables."""
    return not callable(kernel) or isinstance(kernel, Kernel)


def paper_power_mean(p: float) -> ScalarKernel:
    """Make the power mean kernel of the PmSVM paper, which is zero where x is zero.

    Where p is negative, numbers below `SMALL` count as `SMALL`, since zero has no negative power
    (PmSVM, Section IV-B).
    """

    def compute(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        K = power_mean(x, y, p, SMALL)
        K[np.asarray(x) == 0.0] = 0.0
        return K

    return ScalarKernel("power_mean", compute, np.asarray, True)


def power_mean(x: Any, y: Any, p: float, floor: float = 0.0) -> NDArray[np.float64]:
    """Compute power means between two vectors; if p < 0, numbers below ``floor`` count as it."""
    if -inf < p < 0:
        x, y = np.maximum(x, floor), np.maximum(y, floor)
    return make_scalar_kernel("power_mean", p)(x, y)


def _call(
    function: Callable[[Any, Any], Any], x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Values of a callable at arrays that are broadcast against each other, checked."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    given = call_given("kernel", function, x, y, hint=ARRAYS_HINT)
    K = as_numbers("kernel", given, f"shape {shape}")
    if K.shape != shape:
        raise ValueError(
            f"kernel: the callable returned an array of shape {K.shape} for arrays of shape "
            f"{x.shape} and {y.shape}; return shape {shape}"
        )
    bad = ~np.isfinite(K)
    if bad.any():
        a, b = (np.broadcast_to(values, shape)[bad][0] for values in (x, y))
        raise ValueError(
            f"kernel: the callable returned NaN or infinity at k({a:.6g}, {b:.6g}); check its domain"
        )
    return K


def check_scalar_kernel(kernel: ScalarKernel, values: NDArray[np.float64]) -> None:
    """Refuse a callable that is zero, not symmetric or not positive semidefinite on some numbers.

    `MAX_CHECKED` of them are looked at.
    """
    chosen = np.linspace(0, len(values) - 1, min(len(values), MAX_CHECKED)).astype(np.intp)
    check_matrix(kernel(values[chosen], values[chosen]), f"{len(chosen)} values of the features")
