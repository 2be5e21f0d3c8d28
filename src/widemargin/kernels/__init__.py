"""Kernels, by name or as objects."""

from collections.abc import Callable
from typing import Any

from widemargin.kernels.additive import (
    Chi2,
    ExpChi2,
    Hellinger,
    Intersection,
    JensenShannon,
    PowerMean,
)
from widemargin.kernels.anova import AnovaChi2, AnovaIntersection, AnovaRBF
from widemargin.kernels.base import Index as Index
from widemargin.kernels.base import Kernel
from widemargin.kernels.base import Points as Points
from widemargin.kernels.base import is_small as is_small
from widemargin.kernels.custom import CallableKernel, Precomputed
from widemargin.kernels.custom import Items as Items
from widemargin.kernels.custom import wrap_items as wrap_items
from widemargin.kernels.standard import RBF, Linear, Poly, Sigmoid

# The classes that users may construct. The package itself imports the other names too.
__all__ = [
    "RBF",
    "AnovaChi2",
    "AnovaIntersection",
    "AnovaRBF",
    "CallableKernel",
    "Chi2",
    "ExpChi2",
    "Hellinger",
    "Intersection",
    "JensenShannon",
    "Kernel",
    "Linear",
    "Poly",
    "PowerMean",
    "Precomputed",
    "Sigmoid",
]

#: Kernel classes by the name that estimators take.
KERNELS: dict[str, type[Kernel]] = {
    cls.name: cls
    for cls in (
        Linear, RBF, Poly, Sigmoid, Chi2, ExpChi2, Intersection, Hellinger, PowerMean,
        JensenShannon, AnovaChi2, AnovaIntersection, AnovaRBF, Precomputed,
    )
}  # fmt: skip


def needs_nonnegative(kernel: Any) -> bool:
    """Return whether the ``kernel`` parameter of an estimator names a kernel for histograms only."""
    return bool(getattr(_look_up(kernel), "needs_nonnegative", False))


def has_feature_gamma(kernel: Any) -> bool:
    """Return whether gamma of the ``kernel`` parameter belongs to one feature at a time."""
    return bool(getattr(_look_up(kernel), "has_feature_gamma", False))


def _look_up(kernel: Any) -> Any:
    """Return the class of a kernel that is given by its name; anything else as it is."""
    return KERNELS.get(kernel) if isinstance(kernel, str) else kernel


def is_precomputed(kernel: Any) -> bool:
    """Return whether the ``kernel`` parameter of an estimator means a precomputed matrix."""
    return isinstance(kernel, Precomputed) or (isinstance(kernel, str) and kernel == "precomputed")


def make_kernel(kernel: str | Kernel | Callable[[Any, Any], Any], **params: float) -> Kernel:
    """Return the kernel object for a name, a kernel object or a callable.

    ``params`` may hold more than the kernel takes (gamma, degree, coef0); the rest is ignored, as
    in scikit-learn.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel):
        return CallableKernel(kernel)
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(
            f"kernel: {kernel!r} is not known; use one of {', '.join(sorted(KERNELS))}, "
            "a callable (X, Z) -> K, or a kernel object of widemargin.kernels"
        )
    cls = KERNELS[kernel]
    accepted = getattr(cls, "__dataclass_fields__", {})
    return cls(**{name: value for name, value in params.items() if name in accepted})
