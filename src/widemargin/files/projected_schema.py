"""A fitted sparse classifier as plain values and arrays, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.files.container import pack_csr, require, require_finite, unpack_csr
from widemargin.files.kernel_schema import (
    State,
    build_estimator,
    build_kernel,
    get_classes,
    kernel_meta,
    own_params,
    plain_value,
    require_vectors,
    restore_features,
    storable_labels,
)
from widemargin.kernels import Kernel, Precomputed
from widemargin.projected.path import BasisPath
from widemargin.projected.projected_svc import ProjectedSVC
from widemargin.projected.selection import STOP_REASONS, PathPoint


def export_projected(model: ProjectedSVC) -> State:
    """Everything needed to predict, at every size of the basis, as JSON values and arrays."""
    meta = {
        "kernel": kernel_meta(model.kernel_),
        "params": {name: plain_value(name, value) for name, value in own_params(model).items()},
        "n_features": model.n_features_in_,
        "stop_reason": model.stop_reason_,
        "n_iter": int(model.n_iter_),
    }
    path = model._path
    arrays: dict[str, NDArray[Any]] = {
        "classes": storable_labels(model.classes_),
        "basis_indices": model.basis_indices_,
        "coef": model.coef_,
        "intercept": model.intercept_,
        "objective": np.atleast_1d(np.asarray(model.objective_, np.float64)),
        "n_basis": np.atleast_1d(np.asarray(model.n_basis_, np.int64)),
        "n_support": np.atleast_1d(np.asarray(model.n_support_, np.int64)),
        "path_coef": path.coef,
        "path_intercept": path.intercept,
        "path_objective": path.objective,
    }
    if hasattr(model, "auto_path_"):
        arrays["auto_path"] = np.array([(p.objective, p.accuracy) for p in model.auto_path_])
        arrays["auto_sizes"] = np.array([p.n_basis for p in model.auto_path_], np.int64)
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = model.feature_names_in_.astype(str)
    for name, vectors in (("vectors", model.basis_vectors_), ("path_vectors", path.vectors)):
        arrays |= pack_csr(name, vectors) if sparse.issparse(vectors) else {name: vectors}
    return meta, arrays


def import_projected(meta: dict[str, Any], arrays: Mapping[str, Any]) -> ProjectedSVC:
    """Rebuild a fitted estimator, checking that all parts fit together."""
    entries = {"params", "kernel", "n_features", "stop_reason", "n_iter"}
    require(entries <= set(meta), "entries are missing")
    classes = get_classes(arrays)
    model: ProjectedSVC = build_estimator(ProjectedSVC, meta["params"], classes)
    d, n_iter = meta["n_features"], meta["n_iter"]
    require(type(d) is int and d > 0, "n_features is wrong")
    require(type(n_iter) is int and n_iter > 0, "n_iter is wrong")
    require(meta["stop_reason"] in STOP_REASONS, "stop_reason is wrong")
    restore_features(model, d, arrays)
    model.classes_ = classes
    model.kernel_ = kernel = build_kernel(meta["kernel"])
    require(not isinstance(kernel, Precomputed), "its kernel is precomputed")
    model.stop_reason_, model.n_iter_ = meta["stop_reason"], n_iter
    n_functions = 1 if len(model.classes_) == 2 else len(model.classes_)
    model.basis_vectors_ = _vectors(arrays, "vectors", d, kernel)
    n_vectors = model.basis_vectors_.shape[0]
    model.coef_ = _floats(arrays, "coef", (n_functions, n_vectors))
    model.intercept_ = _floats(arrays, "intercept", (n_functions,))
    model.basis_indices_ = _whole(arrays, "basis_indices", np.int32, n_vectors)
    objective = _floats(arrays, "objective", (n_functions,))
    model.objective_ = float(objective[0]) if n_functions == 1 else objective
    for name in ("n_basis", "n_support"):
        counts = _whole(arrays, name, np.int64, n_functions)
        setattr(model, f"{name}_", int(counts[0]) if n_functions == 1 else counts)
    model._path = _import_path(arrays, d, kernel, n_functions)
    if "auto_path" in arrays:
        points = _floats(arrays, "auto_path", (len(arrays["auto_path"]), 2))
        sizes = _whole(arrays, "auto_sizes", np.int64, len(points))
        model.auto_path_ = [
            PathPoint(int(size), *map(float, point))
            for size, point in zip(sizes, points, strict=True)
        ]
    model.restore_model()
    return model


def _import_path(
    arrays: Mapping[str, Any], n_features: int, kernel: Kernel, n_functions: int
) -> BasisPath:
    vectors = _vectors(arrays, "path_vectors", n_features, kernel)
    coef: Any = arrays.get("path_coef")
    require(coef is not None and coef.ndim == 3 and len(coef) > 0, "its path is wrong")
    n_sizes = len(coef)
    return BasisPath(
        kernel,
        vectors,
        _floats(arrays, "path_coef", (n_sizes, n_functions, vectors.shape[0])),
        _floats(arrays, "path_intercept", (n_sizes, n_functions)),
        _floats(arrays, "path_objective", (n_sizes, n_functions)),
    )


def _vectors(arrays: Mapping[str, Any], name: str, n_features: int, kernel: Kernel) -> Any:
    is_sparse = f"{name}_data" in arrays
    vectors: Any = unpack_csr(name, arrays) if is_sparse else arrays.get(name)
    good = vectors is not None and vectors.ndim == 2 and vectors.dtype in (np.float32, np.float64)
    require(good and vectors.shape[0] > 0, f"its {name} are wrong")
    require(vectors.shape[1] == n_features, f"its {name} are wrong")
    require_vectors(name, vectors, kernel)
    return vectors


def _floats(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array: Any = arrays.get(name)
    good = array is not None and array.dtype == np.float64 and array.shape == shape
    require(good, f"array {name!r} is wrong")
    require_finite(name, array)
    return np.asarray(array)


def _whole(arrays: Mapping[str, Any], name: str, dtype: type, size: int) -> NDArray[Any]:
    array: Any = arrays.get(name)
    good = array is not None and array.dtype == dtype and array.shape == (size,)
    require(good and (array >= 0).all(), f"array {name!r} is wrong")
    return np.asarray(array)
