"""The part of the schema that all estimators share: parameters, kernel, labels and features."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.budget import StopReason
from widemargin.files.container import require
from widemargin.files.fields import (
    Context,
    Entry,
    finite,
    is_width,
    one_of,
    read_entries,
)
from widemargin.files.header_values import (
    build_estimator,
    read_kernel,
    write_kernel,
    write_labels,
    write_params,
)
from widemargin.kernels import Kernel

#: Values of the header and arrays of a model file.
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


@dataclass(frozen=True)
class Schema:
    """How the model file of an estimator is written and read.

    Attributes
    ----------
    estimator : type
        The class of the estimator.
    write : callable
        Returns the header values and arrays of a fitted estimator.
    read : callable
        Returns the fitted estimator of a class from header values and arrays.
    """

    estimator: type[Any]
    write: Callable[[Any], State]
    read: Callable[[type, dict[str, Any], Mapping[str, Any]], Any]


def write_common(model: Any) -> State:
    """Return the header values and arrays that every classifier stores."""
    meta, arrays = write_fitted(model)
    return meta, {"classes": write_labels(model.classes_)} | arrays


def write_fitted(model: Any) -> State:
    """Return the header values and arrays that every estimator stores, with or without classes."""
    meta: dict[str, Any] = {}
    if isinstance(getattr(model, "kernel_", None), Kernel):
        # First, because its error about callables says more than that about parameters.
        meta["kernel"] = write_kernel(model.kernel_)
    meta |= {
        "params": write_params(model),
        "n_features": model.n_features_in_,
        "stop_reason": model.stop_reason_,
    }
    arrays: dict[str, NDArray[Any]] = {}
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = model.feature_names_in_.astype(str)
    return meta, arrays


def read_common(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> Any:
    """Return a classifier with what `write_common` stored; only its model is missing."""
    classes = _read_classes(arrays)
    model = read_fitted(cls, meta, arrays, classes)
    model.classes_ = classes
    return model


def read_fitted(
    cls: type,
    meta: dict[str, Any],
    arrays: Mapping[str, Any],
    classes: NDArray[Any] | None = None,
) -> Any:
    """Return an estimator with what `write_fitted` stored; ``classes`` check its class weights."""
    reasons = one_of([reason.value for reason in StopReason])
    entries = (Entry("n_features", is_width), Entry("stop_reason", reasons))
    values = read_entries(entries, meta)
    model = build_estimator(cls, meta.get("params"), classes)
    model.stop_reason_ = values["stop_reason"]
    model.n_features_in_ = values["n_features"]
    names = arrays.get("feature_names")
    if names is not None:
        fits = names.dtype.kind == "U" and names.shape == (model.n_features_in_,)
        require(fits, "array 'feature_names' is wrong")
        model.feature_names_in_ = names.astype(object)
    return model


def read_model_kernel(model: Any, meta: dict[str, Any]) -> Kernel:
    """Set and return the kernel of a model."""
    kernel = model.kernel_ = read_kernel(meta.get("kernel"))
    return kernel


def count_functions(model: Any) -> int:
    """Return the number of decision functions of a one-vs-rest model, or of a regression."""
    n_classes = len(getattr(model, "classes_", ()))
    return n_classes if n_classes > 2 else 1


def _read_classes(arrays: Mapping[str, Any]) -> NDArray[Any]:
    """Return the labels of the classes, refusing fewer than two different ones."""
    classes: Any = arrays.get("classes")
    good = classes is not None and classes.ndim == 1 and len(classes) >= 2
    require(good, "array 'classes' is missing or wrong")
    if classes.dtype.kind == "f":
        problem = finite(classes, Context())
        require(not problem, f"array 'classes' {problem}")
    require(len(np.unique(classes)) == len(classes), "array 'classes' holds a label twice")
    return np.asarray(classes)
