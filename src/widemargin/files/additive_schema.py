"""A fitted additive or regression classifier as plain values and arrays, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.additive_svc import AdditiveSVC
from widemargin.additive.anchor_model import RegressionModel
from widemargin.additive.classifier_base import (
    AdditiveClassifier,
    HistogramClassifier,
    LinearClassifier,
)
from widemargin.additive.curves import BinEncoder, BinModel, LogEncoder, TableModel
from widemargin.additive.dual_descent import STOP_REASONS
from widemargin.additive.intersection_svc import IntersectionSVC
from widemargin.additive.lr_svc import LRSVC
from widemargin.additive.power_mean_svc import PowerMeanSVC
from widemargin.additive.quantiser import SPACINGS, Quantiser
from widemargin.files.container import ModelFileError, pack_csr, require, require_finite, unpack_csr
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
from widemargin.validation import is_finite_number

#: Numbers that some classifiers keep beside their model.
_NUMBERS = ("rank_", "left_out_", "unit_", "n_seen_", "t_", "violation_")
#: Arrays that some keep.
_EXTRAS = ("feature_ranges_", "anchors_", "origin_")


def export_linear(model: LinearClassifier) -> State:
    """Everything needed to predict and to explain, as JSON values and arrays."""
    if isinstance(model, LRSVC) and model.explanatory is not None:
        raise ModelFileError("a model with an explanatory function cannot be saved; it is code")
    meta: dict[str, Any] = {
        "params": {name: plain_value(name, value) for name, value in own_params(model).items()},
        "n_features": model.n_features_in_,
        "stop_reason": model.stop_reason_,
        "numbers": {name: getattr(model, name) for name in _NUMBERS if hasattr(model, name)},
    }
    arrays: dict[str, NDArray[Any]] = {
        "classes": storable_labels(model.classes_),
        "n_iter": np.atleast_1d(np.asarray(model.n_iter_, np.int64)),
    }
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = model.feature_names_in_.astype(str)
    if isinstance(model, LRSVC):
        meta["kernel"] = kernel_meta(model.kernel_)
        arrays["coef"] = model.coef_
        is_sparse = sparse.issparse(model.anchors_)
        anchors = model.anchors_
        return meta, arrays | (pack_csr("anchors", anchors) if is_sparse else {"anchors": anchors})
    for name in _EXTRAS:
        if hasattr(model, name):
            arrays[name.rstrip("_")] = np.asarray(getattr(model, name), np.float64)
    parts = _export_model(model._model)
    return meta | {"model": parts[0]}, arrays | parts[1]


def _export_model(model: TableModel | BinModel) -> State:
    if isinstance(model, BinModel):
        meta, arrays = _export_quantiser(model.quantiser)
        arrays |= {"offsets": model.offsets, "curves": model.curves, "intercept": model.intercept}
        return {"kind": "bins", **meta}, arrays
    arrays = {"coef": model.coef, "intercept": model.intercept}
    encoder = model.encoder
    if isinstance(encoder, LogEncoder):
        numbers = {"unit": encoder.unit, "offset": encoder.offset, "n_anchors": encoder.n_anchors}
        return {"kind": "log", "skips_zero": encoder.skips_zero, **numbers}, arrays
    meta, more = _export_quantiser(encoder.quantiser)
    return {"kind": "table", **meta}, arrays | more | {"table": encoder.table}


def _export_quantiser(quantiser: Quantiser) -> State:
    arrays = {"low": quantiser.low, "span": quantiser.span, "grid": quantiser.grid}
    return {"spacing": quantiser.spacing, "cut": quantiser.cut}, arrays


def import_linear(
    cls: type[LinearClassifier], meta: dict[str, Any], arrays: Mapping[str, Any]
) -> LinearClassifier:
    """Rebuild a fitted estimator, checking that all parts fit together."""
    entries = {"params", "n_features", "stop_reason", "numbers"}
    require(entries <= set(meta) and isinstance(meta["numbers"], dict), "entries are missing")
    classes = get_classes(arrays)
    model = build_estimator(cls, meta["params"], classes)
    d = meta["n_features"]
    require(type(d) is int and d > 0, "n_features is wrong")
    require(meta["stop_reason"] in STOP_REASONS, "stop_reason is wrong")
    restore_features(model, d, arrays)
    model.classes_ = classes
    model.stop_reason_ = meta["stop_reason"]
    for name, value in meta["numbers"].items():
        require(name in _NUMBERS and is_finite_number(value), "a number is wrong")
        setattr(model, name, value)
    n_iter = _array(arrays, "n_iter", np.int64, ndim=1)
    model.n_iter_ = int(n_iter[0]) if len(n_iter) == 1 else n_iter
    n_functions = 1 if len(model.classes_) == 2 else len(model.classes_)
    if issubclass(cls, LRSVC):
        _import_regression(model, meta, arrays, n_functions)
        return model
    for name in _EXTRAS:
        if name.rstrip("_") in arrays:
            setattr(model, name, _array(arrays, name.rstrip("_"), np.float64))
    require(isinstance(model, AdditiveClassifier), "its kind is wrong")
    ranges = getattr(model, "feature_ranges_", None)
    require(ranges is not None and ranges.shape == (2, d), "its ranges are wrong")
    if isinstance(model, HistogramClassifier):
        model.origin_ = getattr(model, "origin_", np.zeros(d))
        require(model.origin_.shape == (d,), "its origin is wrong")
    model._model = _import_model(meta.get("model"), arrays, n_functions, d)
    if not isinstance(model, PowerMeanSVC):
        model.quantiser_ = _find_quantiser(model._model)
    if isinstance(model, AdditiveSVC) and isinstance(model._model, TableModel):
        # For partial_fit to go on with.
        model._table = model.tables_
    return model


def _find_quantiser(model: TableModel | BinModel) -> Quantiser:
    if isinstance(model, BinModel):
        return model.quantiser
    require(isinstance(model.encoder, BinEncoder), "its model is of another classifier")
    assert isinstance(model.encoder, BinEncoder)
    return model.encoder.quantiser


def _import_regression(
    model: LRSVC, meta: dict[str, Any], arrays: Mapping[str, Any], n_functions: int
) -> None:
    model.kernel_ = build_kernel(meta.get("kernel"))
    anchors: Any = arrays.get("anchors")
    if "anchors_data" in arrays:
        anchors = unpack_csr("anchors", arrays)
    good = anchors is not None and anchors.ndim == 2 and anchors.dtype in (np.float32, np.float64)
    require(good and anchors.shape[1] == model.n_features_in_, "its anchors are wrong")
    require_vectors("anchors", anchors, model.kernel_)
    model.anchors_ = anchors
    model.coef_ = _array(arrays, "coef", np.float64)
    require(model.coef_.shape == (n_functions, anchors.shape[0]), "coef has the wrong shape")
    model._model = RegressionModel(model.kernel_, anchors, None, model.coef_)


def _import_model(
    meta: Any, arrays: Mapping[str, Any], n_functions: int, d: int
) -> TableModel | BinModel:
    require(isinstance(meta, dict) and meta.get("kind") in ("bins", "table", "log"), "its model")
    intercept = _array(arrays, "intercept", np.float64)
    require(intercept.shape == (n_functions,), "intercept has the wrong shape")
    if meta["kind"] == "bins":
        offsets = _array(arrays, "offsets", np.int64, ndim=1)
        curves: Any = arrays.get("curves")
        good = len(offsets) == d + 1 and offsets[0] == 0 and (np.diff(offsets) >= 1).all()
        require(good, "offsets are wrong")
        good = curves is not None and curves.dtype in (np.float32, np.float64)
        require(good and curves.shape == (n_functions, offsets[-1]), "curves are wrong")
        require_finite("curves", curves)
        return BinModel(_import_quantiser(meta, arrays, d), offsets, curves, intercept)
    coef = _array(arrays, "coef", np.float64, ndim=3)
    require(coef.shape[:2] == (n_functions, d), "coef has the wrong shape")
    if meta["kind"] == "log":
        numbers = [meta.get(name) for name in ("unit", "offset", "n_anchors")]
        good = all(is_finite_number(v) and v > 0 for v in numbers)
        good = good and type(meta.get("skips_zero")) is bool
        require(good and numbers[2] == coef.shape[2], "its logarithms are wrong")
        encoder = LogEncoder(meta["unit"], meta["offset"], coef.shape[2], meta["skips_zero"])
        return TableModel(encoder, coef, intercept)
    quantiser = _import_quantiser(meta, arrays, d)
    table = _array(arrays, "table", np.float64, ndim=2)
    require(table.shape == (quantiser.n_bins, coef.shape[2]), "table has the wrong shape")
    return TableModel(BinEncoder(quantiser, table), coef, intercept)


def _import_quantiser(meta: dict[str, Any], arrays: Mapping[str, Any], d: int) -> Quantiser:
    low, span = _array(arrays, "low", np.float64), _array(arrays, "span", np.float64)
    grid = _array(arrays, "grid", np.float64, ndim=1)
    require(low.shape == (d,) and span.shape == (d,) and (span > 0).all(), "ranges are wrong")
    good = 2 <= len(grid) <= 2**16 and grid[0] >= 0 and grid[-1] <= 1 and (np.diff(grid) > 0).all()
    require(good, "the grid is wrong")
    require(meta.get("spacing") in SPACINGS[1:] and type(meta.get("cut")) is bool, "its bins")
    return Quantiser(low, span, grid, meta["spacing"], meta["cut"])


def _array(
    arrays: Mapping[str, Any], name: str, dtype: type, ndim: int | None = None
) -> NDArray[Any]:
    array: Any = arrays.get(name)
    good = array is not None and array.dtype == dtype and ndim in (None, array.ndim)
    require(good and array.size > 0, f"array {name!r} is wrong")
    require_finite(name, array)
    return array


#: Estimators of this module by the name their files carry.
LINEAR: dict[str, type[LinearClassifier]] = {
    cls.__name__: cls for cls in (AdditiveSVC, IntersectionSVC, PowerMeanSVC, LRSVC)
}
