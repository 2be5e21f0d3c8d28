"""Methods of others that ours are measured against, as estimators like the rest."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {"RSVC": "widemargin.baselines.rsvm", "SpSVC": "widemargin.baselines.spsvm"}

__all__ = ["RSVC", "SpSVC"]

if TYPE_CHECKING:
    from widemargin.baselines.rsvm import RSVC
    from widemargin.baselines.spsvm import SpSVC


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'widemargin.baselines' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
