"""A fitted exact classifier as plain values and arrays, and back."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.exact.classifier_base import STOP_REASONS, ExactKernelClassifier
from widemargin.files.container import ModelFileError, pack_csr, require, require_finite, unpack_csr
from widemargin.files.stored_params import check_params, shorten_values
from widemargin.kernels import KERNELS, CallableKernel, Kernel, Precomputed
from widemargin.validation import is_finite_number

State = tuple[dict[str, Any], dict[str, NDArray[Any]]]

#: Arrays every model has, with their dtype; support vectors and names come beside them.
_ARRAYS: dict[str, type] = {
    "dual_coef": np.float64,
    "intercept": np.float64,
    "support": np.int32,
    "n_support": np.int32,
    "objective": np.float64,
    "duality_gap": np.float64,
    "n_iter": np.int64,
}
#: Largest kernel parameter taken from a file: beyond it a prediction could run for years.
_MAX_DEGREE = 1000


def export_state(model: ExactKernelClassifier) -> State:
    """Everything needed to predict and to fit again, as JSON values and arrays."""
    meta = {
        "kernel": kernel_meta(model.kernel_),
        "params": {name: plain_value(name, value) for name, value in own_params(model).items()},
        "n_features": model.n_features_in_,
        "stop_reason": model.stop_reason_,
        "one_vs_one": model._one_vs_one,
    }
    arrays: dict[str, NDArray[Any]] = {
        name: np.atleast_1d(np.asarray(getattr(model, f"{name}_"), dtype))
        for name, dtype in _ARRAYS.items()
    }
    arrays["classes"] = storable_labels(model.classes_)
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = model.feature_names_in_.astype(str)
    if sparse.issparse(model.support_vectors_):
        arrays |= pack_csr("vectors", model.support_vectors_)
    else:
        arrays["vectors"] = model.support_vectors_
    return meta, arrays


def import_state(
    cls: type[ExactKernelClassifier], meta: dict[str, Any], arrays: Mapping[str, Any]
) -> ExactKernelClassifier:
    """Rebuild a fitted estimator but for its predictor, checking that all parts fit together."""
    entries = {"params", "kernel", "n_features", "stop_reason", "one_vs_one"}
    require(entries <= set(meta), "entries are missing")
    classes = get_classes(arrays)
    model = build_estimator(cls, meta["params"], classes)
    kernel = build_kernel(meta["kernel"])
    require(type(meta["n_features"]) is int and meta["n_features"] > 0, "n_features is wrong")
    require(meta["stop_reason"] in STOP_REASONS, "stop_reason is wrong")
    parts = {name: _get_array(arrays, name, dtype) for name, dtype in _ARRAYS.items()}
    vectors = unpack_csr("vectors", arrays) if "vectors_data" in arrays else arrays.get("vectors")
    require(isinstance(meta["one_vs_one"], bool), "one_vs_one is wrong")
    _check_problems(len(parts["intercept"]), classes, meta["one_vs_one"])
    _check_shapes(parts, len(classes), vectors, kernel, meta["n_features"])
    restore_features(model, meta["n_features"], arrays)
    model.classes_ = classes
    model.kernel_ = kernel
    model.support_vectors_ = vectors
    model.stop_reason_ = meta["stop_reason"]
    model._one_vs_one = meta["one_vs_one"]
    single = len(parts["intercept"]) == 1
    for name, array in parts.items():
        scalar = single and name in ("objective", "duality_gap", "n_iter")
        setattr(model, f"{name}_", array[0].item() if scalar else array)
    return model


def restore_features(model: Any, n_features: int, arrays: Mapping[str, Any]) -> None:
    """Set number and names of the features."""
    names = arrays.get("feature_names")
    if names is not None:
        require(names.dtype.kind == "U" and names.shape == (n_features,), "names are wrong")
        model.feature_names_in_ = names.astype(object)
    model.n_features_in_ = n_features


def own_params(model: Any) -> dict[str, Any]:
    """Parameters that a file keeps."""
    params: dict[str, Any] = model.get_params(deep=False)
    params.pop("callback", None)
    return params


def plain_value(name: str, value: Any) -> Any:
    """A parameter as JSON value; dictionaries become lists of pairs to keep their key types."""
    if isinstance(value, Kernel):
        return {"kernel": kernel_meta(value)}
    if isinstance(value, Mapping):
        return {"pairs": [[plain_value(name, k), plain_value(name, v)] for k, v in value.items()]}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, float) and math.isinf(value):
        # Has no place in JSON; texts do.
        return {"float": repr(value)}
    raise ModelFileError(
        f"{name}={value!r:.80} cannot be saved in a model file; before saving, set it to an allowed "
        "value that is a number, a text or None"
    )


def kernel_meta(kernel: Kernel) -> dict[str, Any]:
    """A kernel as JSON values."""
    if isinstance(kernel, CallableKernel):
        raise ModelFileError(
            "a model with a callable kernel cannot be saved without running code on load; use a "
            "named kernel, or kernel='precomputed'"
        )
    # Infinity (a power mean) has no place in JSON; texts do.
    params = {k: repr(float(v)) if isinstance(v, float) else v for k, v in kernel.params().items()}
    return {"name": kernel.name, "params": params}


def storable_labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels of a type that files can hold."""
    if classes.dtype != object:
        return classes
    if all(isinstance(label, str) for label in classes):
        return classes.astype(str)
    raise ModelFileError(
        "labels of mixed or unusual types cannot be saved; use texts or numbers as labels"
    )


def build_estimator(cls: type, params: Any, classes: NDArray[Any]) -> Any:
    """Estimator with the parameters of a file, which must be such that a fit takes them."""
    require(isinstance(params, dict), "its parameters are wrong")
    known = set(cls().get_params(deep=False)) - {"callback"}
    require(set(params) == known, "its parameters are not those of the estimator")
    model = cls(**{name: _revive(value) for name, value in params.items()})
    try:
        check_params(model, classes)
    except ValueError as error:
        text = shorten_values(str(error), model.get_params(deep=False).values())
        raise ModelFileError(f"a parameter in its header is wrong, {text}") from error
    return model


def _revive(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"float"}:
        require(value["float"] in ("inf", "-inf"), "a parameter is wrong")
        return float(value["float"])
    if isinstance(value, dict) and set(value) == {"kernel"}:
        return build_kernel(value["kernel"])
    if isinstance(value, dict) and set(value) == {"pairs"}:
        pairs = value["pairs"]
        fits = isinstance(pairs, list) and all(isinstance(p, list) and len(p) == 2 for p in pairs)
        require(fits and all(isinstance(k, str | int | float) for k, _ in pairs), "a dict is wrong")
        return dict(pairs)
    require(value is None or isinstance(value, str | int | float), "a parameter is wrong")
    return value


def build_kernel(meta: Any) -> Kernel:
    """Kernel that `kernel_meta` described."""
    require(isinstance(meta, dict) and set(meta) == {"name", "params"}, "its kernel is wrong")
    cls = KERNELS.get(meta["name"]) if isinstance(meta["name"], str) else None
    require(cls is not None and isinstance(meta["params"], dict), "its kernel is not known")
    assert cls is not None
    params = {name: _number(name, value) for name, value in meta["params"].items()}
    names = set(getattr(cls, "__dataclass_fields__", ()))
    require(set(params) == names, "its kernel's parameters are wrong")
    require(params.get("gamma", 0.0) >= 0, "its kernel's gamma is negative")
    require(params.get("p", -1.0) <= 0, "its kernel's p is positive")
    degree = params.get("degree", 0)
    require(isinstance(degree, int) and 0 <= degree <= _MAX_DEGREE, "its kernel's degree is wrong")
    return cls(**params)


def _number(name: str, value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    # The power mean of order -inf is the intersection kernel.
    good = is_finite_number(value) or (name == "p" and value == -math.inf)
    require(good, f"its kernel's {name:.80} is not a finite number")
    return value


def _get_array(arrays: Mapping[str, Any], name: str, dtype: type) -> NDArray[Any]:
    require(name in arrays, f"array {name!r} is missing")
    array = arrays[name]
    require(array.dtype == dtype, f"array {name!r} has the wrong type")
    if name in ("dual_coef", "intercept"):
        require_finite(name, array)
    return array


def get_classes(arrays: Mapping[str, Any]) -> NDArray[Any]:
    """Labels of the classes; anything but at least two different ones is refused."""
    classes: Any = arrays.get("classes")
    require(classes is not None and classes.ndim == 1 and len(classes) >= 2, "classes are wrong")
    if classes.dtype.kind == "f":
        require_finite("classes", classes)
    require(len(np.unique(classes)) == len(classes), "a class comes twice")
    return np.asarray(classes)


def _check_problems(n_problems: int, classes: Any, one_vs_one: bool) -> None:
    k = len(classes)
    expected = k * (k - 1) // 2 if one_vs_one else k
    require(n_problems == expected, "its problems do not match its classes")


def _check_shapes(
    parts: dict[str, NDArray[Any]], k: int, vectors: Any, kernel: Kernel, n_features: int
) -> None:
    n_problems, n_vectors = len(parts["intercept"]), len(parts["support"])
    shapes = {
        "dual_coef": (n_problems, n_vectors), "intercept": (n_problems,), "support": (n_vectors,),
        "n_support": (k,), "objective": (n_problems,), "duality_gap": (n_problems,),
        "n_iter": (n_problems,),
    }  # fmt: skip
    for name, shape in shapes.items():
        require(parts[name].shape == shape, f"array {name!r} has the wrong shape")
    counts = parts["n_support"]
    require((counts >= 0).all() and counts.sum() == n_vectors, "n_support is wrong")
    require((parts["support"] >= 0).all(), "support is wrong")
    if isinstance(kernel, Precomputed):
        require((parts["support"] < n_features).all(), "support is beyond the kernel matrix")
        return
    good = vectors is not None and vectors.dtype in (np.float32, np.float64) and vectors.ndim == 2
    require(good and vectors.shape == (n_vectors, n_features), "support vectors are wrong")
    require_vectors("vectors", vectors, kernel)


def require_vectors(name: str, vectors: Any, kernel: Kernel) -> None:
    """Refuse vectors of a file that are not finite or not in the domain of the kernel."""
    require_finite(name, vectors)
    values = vectors.data if sparse.issparse(vectors) else vectors
    good = not kernel.needs_nonnegative or (values >= 0).all()
    require(good, f"array {name!r} holds negative values, which the {kernel.name!r} kernel refuses")
