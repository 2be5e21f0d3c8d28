"""Models for other places: C for devices, ONNX for servers, and shares of features for shap."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "to_c": "widemargin.export.c",
    "to_onnx": "widemargin.export.onnx",
    "to_shap": "widemargin.export.shap",
}

__all__ = ["to_c", "to_onnx", "to_shap"]

if TYPE_CHECKING:
    from widemargin.export.c import to_c
    from widemargin.export.onnx import to_onnx
    from widemargin.export.shap import to_shap


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'widemargin.export' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
