"""Methods that the papers compare with, as scikit-learn estimators.

The Bayesian committee machine of Tresp (2000) is ``DCSVC(combine="bcm")``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "CascadeSVC": "cascade",
    "FastfoodSVC": "fastfood",
    "FourierSVC": "fourier",
    "LLSVC": "llsvm",
    "LTPUSVC": "ltpu",
    "LaSVC": "lasvm",
    "PWLSGDSVC": "pwlsgd",
    "RSVC": "rsvm",
    "SIKMASVC": "sikma",
    "SpSVC": "spsvm",
    "SubsampleSVC": "subsample",
}

__all__ = [
    "LLSVC",
    "LTPUSVC",
    "PWLSGDSVC",
    "RSVC",
    "SIKMASVC",
    "CascadeSVC",
    "FastfoodSVC",
    "FourierSVC",
    "LaSVC",
    "SpSVC",
    "SubsampleSVC",
]

if TYPE_CHECKING:
    from widemargin.baselines.cascade import CascadeSVC
    from widemargin.baselines.fastfood import FastfoodSVC
    from widemargin.baselines.fourier import FourierSVC
    from widemargin.baselines.lasvm import LaSVC
    from widemargin.baselines.llsvm import LLSVC
    from widemargin.baselines.ltpu import LTPUSVC
    from widemargin.baselines.pwlsgd import PWLSGDSVC
    from widemargin.baselines.rsvm import RSVC
    from widemargin.baselines.sikma import SIKMASVC
    from widemargin.baselines.spsvm import SpSVC
    from widemargin.baselines.subsample import SubsampleSVC


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"widemargin.baselines.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'widemargin.baselines' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
