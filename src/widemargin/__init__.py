"""Large-scale kernel support vector machines with the scikit-learn interface.

Public names are resolved on first use, so ``import widemargin`` does no work.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AdditiveSVC": "widemargin.additive.additive_svc",
    "AdditiveSVCCV": "widemargin.additive.additive_svc_cv",
    "AdditiveSVR": "widemargin.additive.additive_svr",
    "AdditiveSVRCV": "widemargin.additive.additive_svr_cv",
    "DCSVC": "widemargin.divide.dc_svc",
    "DCSVR": "widemargin.divide.dc_svr",
    "IntersectionSVC": "widemargin.additive.intersection_svc",
    "KernelOneClassSVM": "widemargin.exact.kernel_one_class",
    "KernelSVC": "widemargin.exact.kernel_svc",
    "KernelSVCCV": "widemargin.divide.kernel_svc_cv",
    "KernelSVR": "widemargin.exact.kernel_svr",
    "KernelSVRCV": "widemargin.exact.kernel_svr_cv",
    "LRSVC": "widemargin.additive.lr_svc",
    "PowerMeanSVC": "widemargin.additive.power_mean_svc",
    "ProjectedSVC": "widemargin.projected.projected_svc",
    "save": "widemargin.files.persistence",
    "load": "widemargin.files.persistence",
}
_MODULES = (
    "baselines", "callbacks", "datasets", "distributed", "divide", "export", "interactions", "kernels",
    "plotting",
)  # fmt: skip

__all__ = [
    "DCSVC",
    "DCSVR",
    "LRSVC",
    "AdditiveSVC",
    "AdditiveSVCCV",
    "AdditiveSVR",
    "AdditiveSVRCV",
    "IntersectionSVC",
    "KernelOneClassSVM",
    "KernelSVC",
    "KernelSVCCV",
    "KernelSVR",
    "KernelSVRCV",
    "PowerMeanSVC",
    "ProjectedSVC",
    "__version__",
    "baselines",
    "callbacks",
    "datasets",
    "distributed",
    "divide",
    "export",
    "interactions",
    "kernels",
    "load",
    "plotting",
    "save",
]

if TYPE_CHECKING:
    from widemargin import (
        baselines,
        callbacks,
        datasets,
        distributed,
        divide,
        export,
        interactions,
        kernels,
        plotting,
    )
    from widemargin.additive.additive_svc import AdditiveSVC
    from widemargin.additive.additive_svc_cv import AdditiveSVCCV
    from widemargin.additive.additive_svr import AdditiveSVR
    from widemargin.additive.additive_svr_cv import AdditiveSVRCV
    from widemargin.additive.intersection_svc import IntersectionSVC
    from widemargin.additive.lr_svc import LRSVC
    from widemargin.additive.power_mean_svc import PowerMeanSVC
    from widemargin.divide.dc_svc import DCSVC
    from widemargin.divide.dc_svr import DCSVR
    from widemargin.divide.kernel_svc_cv import KernelSVCCV
    from widemargin.exact.kernel_one_class import KernelOneClassSVM
    from widemargin.exact.kernel_svc import KernelSVC
    from widemargin.exact.kernel_svr import KernelSVR
    from widemargin.exact.kernel_svr_cv import KernelSVRCV
    from widemargin.files.persistence import load, save
    from widemargin.projected.projected_svc import ProjectedSVC


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"widemargin.{name}")
    raise AttributeError(f"module 'widemargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
