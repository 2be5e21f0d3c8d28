"""Schemas of the model files of the exact estimators: classifiers, regression, one class."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from widemargin.exact.classifier_base import ExactKernelClassifier, one_or_all
from widemargin.exact.kernel_machine import KernelMachine
from widemargin.exact.kernel_one_class import KernelOneClassSVM
from widemargin.exact.kernel_svr import KernelSVR
from widemargin.files.container import require
from widemargin.files.estimator_schema import (
    State,
    read_common,
    read_fitted,
    read_model_kernel,
    write_common,
    write_fitted,
)
from widemargin.files.fields import (
    FLOATS,
    Context,
    Entry,
    Field,
    anything,
    at_least,
    in_domain,
    is_flag,
    read_entries,
    read_fields,
    set_attributes,
    write_fields,
)
from widemargin.kernels import Precomputed

_ENTRIES = (Entry("one_vs_one", is_flag),)
#: Whether predictions are a vector, because the targets were one.
_SVR_ENTRIES = (Entry("is_single", is_flag),)
#: Estimators without classes count their support vectors as those of a single class.
_FIELDS = (
    Field(
        "dual_coef", np.float64, ("n_problems", "n_vectors"), attribute="_dual_coef_",
        may_be_empty=True,
    ),
    Field("intercept", np.float64, ("n_problems",)),
    Field("support", np.int32, ("n_vectors",), at_least(0), may_be_empty=True),
    Field("n_support", np.int32, ("n_classes",), at_least(0)),
    Field("objective", np.float64, ("n_problems",), anything, or_number=True),
    Field("duality_gap", np.float64, ("n_problems",), anything, or_number=True),
    Field("n_iter", np.int64, ("n_problems",), anything),
    # Files of earlier versions have neither.
    Field("violation", np.float64, ("n_problems",), anything, is_optional=True, or_number=True),
    Field(
        "violation_error", np.float64, ("n_problems",), anything, is_optional=True, or_number=True
    ),
)  # fmt: skip
_VECTORS = (
    Field(
        "vectors", FLOATS, ("n_vectors", "n_features"), in_domain, "support_vectors_",
        may_be_sparse=True, may_be_empty=True,
    ),
)  # fmt: skip


def write_exact(model: ExactKernelClassifier) -> State:
    """Return the header values and arrays of an exact classifier."""
    meta, arrays = write_common(model)
    meta["one_vs_one"] = model._one_vs_one
    return meta, arrays | write_fields(_FIELDS + _VECTORS, model)


def read_exact(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> ExactKernelClassifier:
    """Return a fitted exact classifier, refusing arrays that do not fit together."""
    model: ExactKernelClassifier = read_attributes(cls, meta, arrays)
    model.restore_model()
    return model


def read_attributes(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> Any:
    """Return an exact classifier with its fitted attributes, but without its predictor."""
    model = read_common(cls, meta, arrays)
    model._one_vs_one = read_entries(_ENTRIES, meta)["one_vs_one"]
    k = len(model.classes_)
    n_problems = k * (k - 1) // 2 if model._one_vs_one else k
    _read_expansion(model, meta, arrays, {"n_problems": n_problems, "n_classes": k})
    return model


def write_svr(model: KernelSVR) -> State:
    """Return the header values and arrays of a `KernelSVR`."""
    meta, arrays = write_one_class(model)
    return meta | {"is_single": model._is_single}, arrays


def read_svr(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> KernelSVR:
    """Return a fitted `KernelSVR`, refusing arrays that do not fit together."""
    model: KernelSVR = read_svr_attributes(cls, meta, arrays)
    model.restore_model()
    return model


def read_svr_attributes(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> Any:
    """Return a regression with its fitted attributes, but without its predictor."""
    model = read_fitted(cls, meta, arrays)
    model._is_single = read_entries(_SVR_ENTRIES, meta)["is_single"]
    # The arrays tell how many targets there are, unless the targets were a vector.
    _read_expansion(
        model, meta, arrays, {"n_classes": 1} | ({"n_problems": 1} if model._is_single else {})
    )
    model.n_iter_ = one_or_all(model.n_iter_.tolist())
    return model


def write_one_class(model: KernelMachine) -> State:
    """Return the header values and arrays of a `KernelOneClassSVM`."""
    meta, arrays = write_fitted(model)
    return meta, arrays | write_fields(_FIELDS + _VECTORS, model)


def read_one_class(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> KernelOneClassSVM:
    """Return a fitted `KernelOneClassSVM`, refusing arrays that do not fit together."""
    model: KernelOneClassSVM = read_fitted(cls, meta, arrays)
    _read_expansion(model, meta, arrays, {"n_problems": 1, "n_classes": 1})
    model.n_iter_ = int(model.n_iter_[0])
    model.restore_model()
    return model


def _read_expansion(
    model: Any, meta: dict[str, Any], arrays: Mapping[str, Any], sizes: dict[str, int]
) -> None:
    """Set the kernel, support vectors and coefficients of a model."""
    kernel = read_model_kernel(model, meta)
    d = model.n_features_in_
    context = Context(sizes | {"n_features": d}, kernel)
    found = read_fields(_FIELDS, arrays, context)
    set_attributes(model, _FIELDS, found)
    n_vectors = context.sizes["n_vectors"]
    require(found["n_support"].sum() == n_vectors, "array 'n_support' does not match its vectors")
    if isinstance(kernel, Precomputed):
        require((found["support"] < d).all(), "array 'support' is beyond the kernel matrix")
        model.support_vectors_ = np.empty((0, 0))
    else:
        set_attributes(model, _VECTORS, read_fields(_VECTORS, arrays, context))
