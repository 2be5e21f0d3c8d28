"""Pipelines of scikit-learn's scalers and an estimator, as parts of a model file."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from widemargin.files.container import require
from widemargin.files.estimator_schema import State

#: What the header of such a file calls it.
KIND = "Pipeline"
#: Scalers with the fitted arrays that they need, and the parameters that change what they compute.
SCALERS: dict[str, tuple[type[Any], tuple[str, ...], tuple[str, ...]]] = {
    "StandardScaler": (StandardScaler, ("mean_", "var_", "scale_"), ("with_mean", "with_std")),
    "MinMaxScaler": (
        MinMaxScaler, ("min_", "scale_", "data_min_", "data_max_", "data_range_"),
        ("feature_range", "clip"),
    ),
    "MaxAbsScaler": (MaxAbsScaler, ("scale_", "max_abs_"), ()),
}  # fmt: skip


def check_pipeline(model: Pipeline) -> None:
    """Refuse steps that a model file cannot hold."""
    for name, step in model.steps[:-1]:
        known = SCALERS.get(type(step).__name__)
        if known is None or type(step) is not known[0]:
            raise TypeError(
                f"model: the step {name!r} is a {type(step).__name__}, which cannot be saved; a "
                f"pipeline may hold {', '.join(SCALERS)} before the estimator"
            )
        check_is_fitted(step)


def write_pipeline(model: Pipeline, kind: str, inner: State) -> State:
    """Return the header values and arrays of a pipeline; ``inner`` are those of its last step."""
    steps, arrays = [], {f"model_{name}": array for name, array in inner[1].items()}
    for number, (name, step) in enumerate(model.steps[:-1]):
        _, fitted, params = SCALERS[type(step).__name__]
        found = {a: getattr(step, a) for a in fitted if getattr(step, a, None) is not None}
        arrays |= {f"scaler{number}_{a.rstrip('_')}": np.asarray(v) for a, v in found.items()}
        values = {p: getattr(step, p) for p in params}
        steps.append({"name": name, "scaler": type(step).__name__, "params": values})
    names = getattr(model, "feature_names_in_", None)
    return {
        "steps": steps,
        "name": model.steps[-1][0],
        "kind": kind,
        "model": inner[0],
        "feature_names": None if names is None else [str(name) for name in names],
    }, arrays


def read_pipeline(
    meta: dict[str, Any], arrays: Mapping[str, Any], read_inner: Callable[..., Any]
) -> Pipeline:
    """Return the pipeline; ``read_inner`` reads the last step from its kind, header and arrays."""
    require(isinstance(meta.get("model"), dict), "the header has no model")
    parts = {n.removeprefix("model_"): a for n, a in arrays.items() if n.startswith("model_")}
    model = read_inner(meta.get("kind"), meta["model"], parts)
    require(isinstance(meta.get("steps"), list), "the steps of the pipeline are not a list")
    names = meta.get("feature_names")
    width = model.n_features_in_
    is_named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    require(names is None or (is_named and len(names) == width), "wrong names of features")
    steps = []
    for number, step in enumerate(meta["steps"]):
        require(isinstance(step, dict) and isinstance(step.get("name"), str), "a step has no name")
        scaler = _read_scaler(step, number, arrays, width)
        if names is not None:
            scaler.feature_names_in_ = np.array(names, object)
        steps.append((step["name"], scaler))
    last = meta.get("name")
    keys = [name for name, _ in steps]
    is_new = isinstance(last, str) and len({*keys, last}) == len(keys) + 1
    require(bool(steps) and is_new, "the steps of the pipeline have no names of their own")
    return Pipeline([*steps, (last, model)])


def _read_scaler(step: dict[str, Any], number: int, arrays: Mapping[str, Any], width: int) -> Any:
    kind = step.get("scaler")
    is_known = isinstance(kind, str) and kind in SCALERS
    require(is_known, f"the scaler of step {number} is not known")
    cls, fitted, names = SCALERS[step["scaler"]]
    params = step.get("params", {})
    require(isinstance(params, dict) and set(params) == set(names), "wrong parameters of a scaler")
    values = {n: tuple(v) if isinstance(v, list) else v for n, v in params.items()}
    for name, value in values.items():
        if name == "feature_range":
            require(_is_range(value), "the range of a scaler is none")
        else:
            require(isinstance(value, bool), f"{name} of a scaler is no switch")
    scaler = cls(**values)
    for attribute in fitted:
        array = arrays.get(f"scaler{number}_{attribute.rstrip('_')}")
        is_optional = step["scaler"] == "StandardScaler"
        require(array is not None or is_optional, f"a scaler has no {attribute}")
        if array is not None:
            # A scaler of float32 data has numbers of that type.
            is_right = array.shape == (width,) and array.dtype in (np.float32, np.float64)
            require(is_right and np.isfinite(array).all(), f"{attribute} of a scaler is damaged")
        setattr(scaler, attribute, array)
    needs_scale = values.get("with_std", True)
    require(not needs_scale or (scaler.scale_ is not None and scaler.scale_.all()), "no scale")
    require(not values.get("with_mean") or scaler.mean_ is not None, "a scaler has no mean")
    scaler.n_features_in_, scaler.n_samples_seen_ = width, 1
    return scaler


def _is_range(value: Any) -> bool:
    """Whether a value of a header is a pair of finite numbers in increasing order."""
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    are_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
    # Integers of a header may be larger than any float.
    largest = float(np.finfo(np.float64).max)
    return are_numbers and -largest <= value[0] < value[1] <= largest
