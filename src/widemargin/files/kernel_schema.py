"""Schema of the model files of the exact classifiers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from widemargin.exact.classifier_base import STOP_REASONS, ExactKernelClassifier
from widemargin.files.container import require
from widemargin.files.estimator_schema import State, read_common, read_model_kernel, write_common
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
_FIELDS = (
    Field("dual_coef", np.float64, ("n_problems", "n_vectors"), may_be_empty=True),
    Field("intercept", np.float64, ("n_problems",)),
    Field("support", np.int32, ("n_vectors",), at_least(0), may_be_empty=True),
    Field("n_support", np.int32, ("n_classes",), at_least(0)),
    Field("objective", np.float64, ("n_problems",), anything, or_number=True),
    Field("duality_gap", np.float64, ("n_problems",), anything, or_number=True),
    Field("n_iter", np.int64, ("n_problems",), anything),
)
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
    model = read_common(cls, meta, arrays, STOP_REASONS)
    kernel = read_model_kernel(model, meta)
    model._one_vs_one = read_entries(_ENTRIES, meta)["one_vs_one"]
    k, d = len(model.classes_), model.n_features_in_
    n_problems = k * (k - 1) // 2 if model._one_vs_one else k
    context = Context({"n_problems": n_problems, "n_classes": k, "n_features": d}, kernel)
    found = read_fields(_FIELDS, arrays, context)
    set_attributes(model, _FIELDS, found)
    n_vectors = context.sizes["n_vectors"]
    require(found["n_support"].sum() == n_vectors, "array 'n_support' does not match its vectors")
    if isinstance(kernel, Precomputed):
        require((found["support"] < d).all(), "array 'support' is beyond the kernel matrix")
        model.support_vectors_ = np.empty((0, 0))
    else:
        set_attributes(model, _VECTORS, read_fields(_VECTORS, arrays, context))
    return model
