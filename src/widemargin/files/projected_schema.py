"""Schema of the model files of `ProjectedSVC`."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from widemargin.files.container import require
from widemargin.files.estimator_schema import (
    State,
    count_functions,
    read_common,
    read_model_kernel,
    write_common,
)
from widemargin.files.fields import (
    FLOATS,
    Context,
    Entry,
    Field,
    at_least,
    in_domain,
    is_positive_integer,
    read_entries,
    read_fields,
    set_attributes,
    write_fields,
)
from widemargin.kernels import Precomputed
from widemargin.projected.path import BasisPath
from widemargin.projected.projected_svc import ProjectedSVC
from widemargin.projected.selection import PathPoint

_ENTRIES = (Entry("n_iter", is_positive_integer),)
_FIELDS = (
    Field(
        "vectors", FLOATS, ("n_vectors", "n_features"), in_domain, "basis_vectors_",
        may_be_sparse=True,
    ),
    Field("coef", np.float64, ("n_functions", "n_vectors")),
    Field("intercept", np.float64, ("n_functions",)),
    Field("basis_indices", np.int32, ("n_vectors",), at_least(0)),
    Field("objective", np.float64, ("n_functions",), or_number=True),
    Field("n_basis", np.int64, ("n_functions",), at_least(0), or_number=True),
    Field("n_support", np.int64, ("n_functions",), at_least(0), or_number=True),
)  # fmt: skip
#: Models of all sizes of the basis.
_PATH = (
    Field(
        "path_vectors", FLOATS, ("n_path_vectors", "n_features"), in_domain, "vectors",
        may_be_sparse=True,
    ),
    Field("path_coef", np.float64, ("n_sizes", "n_functions", "n_path_vectors"), attribute="coef"),
    Field("path_intercept", np.float64, ("n_sizes", "n_functions"), attribute="intercept"),
    Field("path_objective", np.float64, ("n_sizes", "n_functions"), attribute="objective"),
)  # fmt: skip
#: Sizes that n_basis="auto" compared, with objective and accuracy of each.
_AUTO_PATH = (
    Field("auto_path", np.float64, ("n_compared", 2), may_be_empty=True),
    Field("auto_sizes", np.int64, ("n_compared",), at_least(0), may_be_empty=True),
)


def write_projected(model: ProjectedSVC) -> State:
    """Return the header values and arrays of a `ProjectedSVC`."""
    meta, arrays = write_common(model)
    meta["n_iter"] = int(model.n_iter_)
    arrays |= write_fields(_FIELDS, model) | write_fields(_PATH, model._path)
    if hasattr(model, "auto_path_"):
        points = [(point.objective, point.accuracy) for point in model.auto_path_]
        sizes = [point.n_basis for point in model.auto_path_]
        arrays |= write_fields(_AUTO_PATH, SimpleNamespace(auto_path_=points, auto_sizes_=sizes))
    return meta, arrays


def read_projected(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> ProjectedSVC:
    """Return a fitted `ProjectedSVC`, refusing arrays that do not fit together."""
    model: ProjectedSVC = read_common(cls, meta, arrays)
    model.n_iter_ = read_entries(_ENTRIES, meta)["n_iter"]
    kernel = read_model_kernel(model, meta)
    require(not isinstance(kernel, Precomputed), "its kernel is precomputed")
    sizes = {"n_functions": count_functions(model), "n_features": model.n_features_in_}
    context = Context(sizes, kernel)
    set_attributes(model, _FIELDS, read_fields(_FIELDS, arrays, context))
    path = read_fields(_PATH, arrays, context)
    model._path = BasisPath(kernel, *(path[field.name] for field in _PATH))
    if "auto_path" in arrays:
        found = read_fields(_AUTO_PATH, arrays, context)
        model.auto_path_ = [
            PathPoint(int(size), *map(float, point))
            for size, point in zip(found["auto_sizes"], found["auto_path"], strict=True)
        ]
    model.restore_model()
    return model
