"""Parameters, kernels and labels as values that the header of a model file can hold, and back."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.arguments import is_finite_number
from widemargin.files.container import ModelFileError, require
from widemargin.files.stored_params import SHOWN, check_params, shorten_values
from widemargin.kernels import KERNELS, CallableKernel, Kernel

#: Largest degree of a kernel in a file: with a larger one a prediction could run for years.
_MAX_DEGREE = 1000
#: Lists of other items than numbers.
_LISTS: dict[str, tuple[type, ...]] = {"texts": (str,), "flags": (bool, np.bool_)}
#: Parameters that came after the first model files, which lack them; their defaults hold there.
_LATER_PARAMS = frozenset(
    {
        "decision_function_shape",
        "break_ties",
        "shrinking",
        "cache_size",
        "probability",
        "interactions",
        "missing",
        "monotonic_cst",
        "categorical_features",
    }
)


def write_params(model: Any) -> dict[str, Any]:
    """Return the parameters of an estimator as JSON values, without its callback."""
    params: dict[str, Any] = model.get_params(deep=False)
    params.pop("callback", None)
    return {name: _plain_value(name, value) for name, value in params.items()}


def _plain_value(name: str, value: Any) -> Any:
    """Return a parameter as JSON value; a dictionary becomes pairs, to keep the types of its keys."""
    if isinstance(value, Kernel):
        return {"kernel": write_kernel(value)}
    if isinstance(value, Mapping):
        return {"pairs": [[_plain_value(name, k), _plain_value(name, v)] for k, v in value.items()]}
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value) == 1:
        for word, kind in _LISTS.items():
            if len(value) and all(isinstance(item, kind) for item in value):
                return {word: [_plain_value(name, item) for item in value]}
        return {"numbers": [_plain_value(name, number) for number in value]}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, float) and math.isinf(value):
        # JSON has no infinity.
        return {"float": repr(value)}
    raise ModelFileError(
        f"{name}={value!r:.{SHOWN}} cannot be saved in a model file; before saving, set it to an "
        "allowed value that is a number, a text or None"
    )


def build_estimator(cls: type, params: Any, classes: NDArray[Any] | None) -> Any:
    """Return an estimator with the parameters of a file, refusing those that a fit would refuse."""
    require(isinstance(params, dict), "its parameters are wrong")
    known = set(cls().get_params(deep=False)) - {"callback"}
    fits = known - _LATER_PARAMS <= set(params) <= known
    require(fits, "its parameters are not those of the estimator")
    model = cls(**{name: _read_value(value) for name, value in params.items()})
    try:
        check_params(model, classes)
    except ValueError as error:
        text = shorten_values(str(error), model.get_params(deep=False).values())
        raise ModelFileError(f"a parameter in its header is wrong, {text}") from error
    return model


def _read_value(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"float"}:
        require(value["float"] in ("inf", "-inf"), "a parameter is wrong")
        return float(value["float"])
    if isinstance(value, dict) and set(value) == {"kernel"}:
        return read_kernel(value["kernel"])
    if isinstance(value, dict) and set(value) == {"numbers"}:
        numbers = value["numbers"]
        fits = isinstance(numbers, list) and all(map(is_finite_number, numbers))
        require(fits, "a list of numbers is wrong")
        return numbers
    for word, kind in _LISTS.items():
        if isinstance(value, dict) and set(value) == {word}:
            items = value[word]
            fits = isinstance(items, list) and all(isinstance(item, kind) for item in items)
            require(fits, f"a list of {word} is wrong")
            return items
    if isinstance(value, dict) and set(value) == {"pairs"}:
        pairs = value["pairs"]
        fits = isinstance(pairs, list) and all(isinstance(p, list) and len(p) == 2 for p in pairs)
        require(fits and all(isinstance(k, str | int | float) for k, _ in pairs), "a dict is wrong")
        return dict(pairs)
    require(value is None or isinstance(value, str | int | float), "a parameter is wrong")
    return value


def write_kernel(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as JSON values."""
    if isinstance(kernel, CallableKernel):
        raise ModelFileError(
            "a model with a callable kernel cannot be saved without running code on load; use a "
            "named kernel, or kernel='precomputed'"
        )
    # A power mean may have the order -inf, and JSON has no infinity.
    params = {k: repr(float(v)) if isinstance(v, float) else v for k, v in kernel.params().items()}
    return {"name": kernel.name, "params": params}


def read_kernel(meta: Any) -> Kernel:
    """Return the kernel that `write_kernel` described."""
    require(isinstance(meta, dict) and set(meta) == {"name", "params"}, "its kernel is wrong")
    cls = KERNELS.get(meta["name"]) if isinstance(meta["name"], str) else None
    require(cls is not None and isinstance(meta["params"], dict), "its kernel is not known")
    assert cls is not None
    params = {name: _read_number(name, value) for name, value in meta["params"].items()}
    names = set(getattr(cls, "__dataclass_fields__", ()))
    require(set(params) == names, "its kernel's parameters are wrong")
    require(params.get("gamma", 0.0) >= 0, "its kernel's gamma is negative")
    require(params.get("p", -1.0) <= 0, "its kernel's p is positive")
    for name in ("weight", "curve_mean", "pair_mean"):
        require(params.get(name, 0.0) >= 0, f"its kernel's {name} is negative")
    degree = params.get("degree", 0)
    require(isinstance(degree, int) and 0 <= degree <= _MAX_DEGREE, "its kernel's degree is wrong")
    return cls(**params)


def _read_number(name: str, value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    # The power mean of order -inf is the intersection kernel.
    good = is_finite_number(value) or (name == "p" and value == -math.inf)
    require(good, f"its kernel's {name:.{SHOWN}} is not a finite number")
    return value


def write_labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the labels of the classes in a type that a file can hold."""
    if classes.dtype != object:
        return classes
    if all(isinstance(label, str) for label in classes):
        return classes.astype(str)
    raise ModelFileError(
        "labels of mixed or unusual types cannot be saved; use texts or numbers as labels"
    )
