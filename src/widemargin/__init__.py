"""Large-scale kernel support vector machines with the scikit-learn interface.

Public names are resolved on first use, so ``import widemargin`` does no work.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AdditiveSVC": "widemargin.estimators.additive_svc",
    "DCSVC": "widemargin.estimators.dc_svc",
    "IntersectionSVC": "widemargin.estimators.intersection_svc",
    "KernelSVC": "widemargin.estimators.kernel_svc",
    "LRSVC": "widemargin.estimators.lr_svc",
    "PowerMeanSVC": "widemargin.estimators.power_mean_svc",
    "ProjectedSVC": "widemargin.estimators.projected_svc",
    "save": "widemargin.estimators.persistence",
    "load": "widemargin.estimators.persistence",
}
_MODULES = ("baselines", "datasets", "export", "kernels", "plotting")

__all__ = [
    "DCSVC",
    "LRSVC",
    "AdditiveSVC",
    "IntersectionSVC",
    "KernelSVC",
    "PowerMeanSVC",
    "ProjectedSVC",
    "__version__",
    "baselines",
    "datasets",
    "export",
    "kernels",
    "load",
    "plotting",
    "save",
]

if TYPE_CHECKING:
    from widemargin import baselines, datasets, export, kernels, plotting
    from widemargin.estimators.additive_svc import AdditiveSVC
    from widemargin.estimators.dc_svc import DCSVC
    from widemargin.estimators.intersection_svc import IntersectionSVC
    from widemargin.estimators.kernel_svc import KernelSVC
    from widemargin.estimators.lr_svc import LRSVC
    from widemargin.estimators.persistence import load, save
    from widemargin.estimators.power_mean_svc import PowerMeanSVC
    from widemargin.estimators.projected_svc import ProjectedSVC


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"widemargin.{name}")
    raise AttributeError(f"module 'widemargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
