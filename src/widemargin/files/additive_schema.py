"""Schema of the model files of the additive estimators and of `LRSVC`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from widemargin.additive.additive_svc import AdditiveSVC
from widemargin.additive.additive_svr import AdditiveSVR
from widemargin.additive.anchor_model import RegressionModel
from widemargin.additive.curves import BinEncoder, BinModel, LogEncoder, TableModel
from widemargin.additive.indicator_model import IndicatorModel
from widemargin.additive.indicators_mixin import IndicatorsMixin
from widemargin.additive.intersection_svc import KERNELS, IntersectionSVC
from widemargin.additive.kernel_scale import KernelScaleMixin
from widemargin.additive.knot_model import KnotModel
from widemargin.additive.lr_svc import LRSVC
from widemargin.additive.mixins import CurvesMixin, NonnegativeMixin
from widemargin.additive.pair_levels import N_LEVELS
from widemargin.additive.pair_model import PairModel
from widemargin.additive.power_mean_svc import OLD_DUAL, PowerMeanSVC
from widemargin.additive.quantiser import SPACINGS, Quantiser
from widemargin.arguments import is_finite_number
from widemargin.category_codes import CategoryCoder
from widemargin.files.container import ModelFileError, require
from widemargin.files.estimator_schema import (
    State,
    count_functions,
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
    below,
    in_domain,
    in_unit_interval,
    is_flag,
    is_positive_integer,
    one_of,
    positive,
    read_entries,
    read_fields,
    set_attributes,
    write_fields,
)
from widemargin.files.header_values import write_labels

#: Models of additive estimators.
AnyModel = TableModel | BinModel | KnotModel | PairModel | IndicatorModel
#: Numbers that some additive estimators keep beside their model.
_NUMBERS = ("rank_", "left_out_", "unit_", "n_seen_", "t_", "violation_", "C_", "kernel_mean_")
_N_ITER = (Field("n_iter", np.int64, ("n_solved",), or_number=True),)
_REGRESSION = (
    Field("anchors", FLOATS, ("n_anchors", "n_features"), in_domain, may_be_sparse=True),
    Field("coef", np.float64, ("n_functions", "n_anchors")),
)
_ATTRIBUTES = (
    Field("feature_ranges", np.float64, (2, "n_features")),
    Field("origin", np.float64, ("n_features",), is_optional=True),
    Field("anchors", np.float64, ("n_values",), is_optional=True),
)
_COEF = Field("coef", np.float64, ("n_functions", "n_features", "n_terms"), attribute="coef")
_INTERCEPT = Field("intercept", np.float64, ("n_functions",), attribute="intercept")
_QUANTISER_ENTRIES = (Entry("spacing", one_of(SPACINGS[1:])), Entry("cut", is_flag))
_QUANTISER = (
    Field("low", np.float64, ("n_features",), attribute="low"),
    Field("span", np.float64, ("n_features",), positive, "span"),
    Field("grid", np.float64, ("n_grid",), attribute="grid"),
    Field("ends", np.float64, ("n_features",), in_unit_interval, "ends", is_optional=True),
)
_BINS = (
    Field("offsets", np.int64, ("n_bounds",), at_least(0), "offsets"),
    Field("curves", FLOATS, ("n_functions", "n_codes"), attribute="curves"),
    _INTERCEPT,
)
#: The sparse tables of an `IntersectionSVC`.
_KNOTS = (
    Field("offsets", np.int64, ("n_bounds",), at_least(0), "offsets"),
    Field(
        "knots", (np.uint8, np.uint16), ("n_knots",), below("n_bins"), "knots", may_be_empty=True
    ),
    Field("heights", FLOATS, ("n_knots", "n_functions"), attribute="heights", may_be_empty=True),
    _INTERCEPT,
)
#: The surfaces of an `AdditiveSVC` with interactions; one feature has no pairs.
_PAIRS = (
    Field("pairs", np.int64, ("n_pairs", 2), below("n_features"), "pairs", may_be_empty=True),
    Field(
        "pair_levels", np.uint8, ("n_pairs", 2, "n_pair_codes"), below("n_levels"), "levels",
        may_be_empty=True,
    ),
    Field(
        "pair_values", np.float64, ("n_pairs", 2, "n_levels"), anything, "values",
        may_be_empty=True,
    ),
    Field(
        "heights", np.float64, ("n_functions", "n_pairs", "n_levels", "n_levels"),
        attribute="heights", may_be_empty=True,
    ),
)  # fmt: skip
#: Heights of missing values and of categories.
_INDICATORS = (
    Field("missing", np.float64, ("n_functions", "n_features"), attribute="missing"),
    Field("category_offsets", np.int64, ("n_bounds",), at_least(0), "offsets"),
    Field(
        "category_heights", np.float64, ("n_functions", "n_categories"), attribute="heights",
        may_be_empty=True,
    ),
)  # fmt: skip
_LOG_ENTRIES = (
    Entry("unit", lambda value: is_finite_number(value) and value > 0),
    Entry("offset", lambda value: is_finite_number(value) and value > 0),
    Entry("n_anchors", is_positive_integer),
    Entry("skips_zero", is_flag),
)
_LOG = (_COEF, _INTERCEPT)
_TABLE = (
    _COEF,
    _INTERCEPT,
    Field("table", np.float64, ("n_bins", "n_terms"), attribute="encoder.table"),
)


def write_regression(model: LRSVC) -> State:
    """Return the header values and arrays of an `LRSVC`."""
    if model.explanatory is not None:
        raise ModelFileError(
            "a model with an explanatory function cannot be saved, because it is code; fit with "
            "explanatory=None, or pickle the model"
        )
    meta, arrays = _write_linear(model)
    return meta, arrays | write_fields(_REGRESSION, model)


def read_regression(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> LRSVC:
    """Return a fitted `LRSVC`, refusing arrays that do not fit together."""
    model: LRSVC = _read_linear(cls, meta, arrays)
    kernel = read_model_kernel(model, meta)
    sizes = {"n_functions": count_functions(model), "n_features": model.n_features_in_}
    set_attributes(model, _REGRESSION, read_fields(_REGRESSION, arrays, Context(sizes, kernel)))
    model._model = RegressionModel(kernel, model.anchors_, None, model.coef_)
    return model


def write_additive(model: AdditiveSVC | AdditiveSVR | IntersectionSVC | PowerMeanSVC) -> State:
    """Return the header values and arrays of an additive estimator."""
    meta, arrays = _write_linear(model)
    meta["model"], curves = _write_model(model._model)
    if isinstance(model, IndicatorsMixin) and model._coder is not None:
        arrays |= _write_categories(model._coder)
    if hasattr(model, "scaling_"):
        meta["scaling"] = model.scaling_
    if isinstance(model, IntersectionSVC):
        meta["chosen_kernel"] = model.kernel_
    return meta, arrays | write_fields(_ATTRIBUTES, model) | curves


def read_additive(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> CurvesMixin:
    """Return a fitted additive estimator, refusing arrays that do not fit together."""
    model: Any = _read_linear(cls, meta, arrays)
    d = model.n_features_in_
    context = Context({"n_functions": count_functions(model), "n_features": d, "n_bounds": d + 1})
    found = read_fields(_ATTRIBUTES, arrays, context)
    if isinstance(model, NonnegativeMixin):
        # Files of earlier versions have no origin. Only now is d known to be the width of an array.
        found.setdefault("origin", np.zeros(d))
    set_attributes(model, _ATTRIBUTES, found)
    model._model = _read_model(meta.get("model"), arrays, context)
    if meta["model"].get("has_indicators") is True:
        model._model = _read_indicators(model, arrays, context)
    else:
        require(
            getattr(model, "missing", "error") == "error", "it has no heights of missing values"
        )
    if not isinstance(model, PowerMeanSVC):
        # Files of earlier versions have the parameter only, and no "auto".
        model.scaling_ = meta.get("scaling", model.scaling)
        if model.scaling_ not in ("range", "max", None):
            raise ModelFileError(
                f"scaling: must be 'range', 'max' or None, got {model.scaling_!r:.80}"
            )
        model.quantiser_ = _find_quantiser(model._model)
    if isinstance(model, IntersectionSVC):
        model.kernel_ = meta.get("chosen_kernel", "intersection")
        require(model.kernel_ in KERNELS, "entry 'chosen_kernel' is wrong")
    if isinstance(model._model, PairModel):
        require(cls is AdditiveSVC, "its model is of another classifier")
        _check_levels(model._model)
        model.interactions_ = model._model.pairs
    if isinstance(model, AdditiveSVC) and isinstance(model._model, TableModel):
        # partial_fit continues with this table.
        model._table = model.tables_
    fitted: CurvesMixin = model
    return fitted


def _write_linear(model: Any) -> State:
    meta, arrays = write_fitted(model) if isinstance(model, AdditiveSVR) else write_common(model)
    meta["numbers"] = {name: getattr(model, name) for name in _NUMBERS if hasattr(model, name)}
    return meta, arrays | write_fields(_N_ITER, model)


def _read_linear(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> Any:
    params = meta.get("params")
    if cls is PowerMeanSVC and isinstance(params, dict) and params.get("solver") == OLD_DUAL:
        meta = meta | {"params": params | {"solver": "dual"}}
    if cls in (IntersectionSVC, PowerMeanSVC) and isinstance(meta.get("params"), dict):
        # Earlier versions of these classes had no intercept, and one range of bins for all features.
        before: dict[str, Any] = {"fit_intercept": False}
        if cls is IntersectionSVC:
            before |= {"scaling": None, "kernel": "intersection"}
        meta = meta | {"params": before | meta["params"]}
    read = read_fitted if issubclass(cls, AdditiveSVR) else read_common
    model = read(cls, meta, arrays)
    set_attributes(model, _N_ITER, read_fields(_N_ITER, arrays, Context()))
    numbers = meta.get("numbers")
    require(isinstance(numbers, dict), "entry 'numbers' is missing or wrong")
    for name, value in meta["numbers"].items():
        require(name in _NUMBERS and is_finite_number(value), "a number is wrong")
        setattr(model, name, value)
    if isinstance(model, KernelScaleMixin) and not hasattr(model, "C_"):
        require(model.C != "scale", "entry 'C_' is missing")
        model.C_ = float(model.C)
    return model


def _find_quantiser(model: AnyModel) -> Quantiser:
    if isinstance(model, PairModel | IndicatorModel):
        return _find_quantiser(model.base)
    if isinstance(model, BinModel | KnotModel):
        return model.quantiser
    require(isinstance(model.encoder, BinEncoder), "its model is of another classifier")
    assert isinstance(model.encoder, BinEncoder)
    return model.encoder.quantiser


def _write_model(model: AnyModel) -> State:
    if isinstance(model, IndicatorModel):
        meta, arrays = _write_model(model.base)
        return meta | {"has_indicators": True}, arrays | write_fields(_INDICATORS, model)
    if isinstance(model, PairModel):
        meta, arrays = _write_model(model.base)
        return meta | {"kind": "pairs"}, arrays | write_fields(_PAIRS, model)
    if isinstance(model, BinModel):
        meta, arrays = _write_quantiser(model.quantiser)
        return {"kind": "bins", **meta}, arrays | write_fields(_BINS, model)
    if isinstance(model, KnotModel):
        meta, arrays = _write_quantiser(model.quantiser)
        return {"kind": "knots", **meta}, arrays | write_fields(_KNOTS, model)
    encoder = model.encoder
    if isinstance(encoder, LogEncoder):
        numbers = {entry.name: getattr(encoder, entry.name) for entry in _LOG_ENTRIES}
        return {"kind": "log", **numbers}, write_fields(_LOG, model)
    meta, arrays = _write_quantiser(encoder.quantiser)
    return {"kind": "table", **meta}, arrays | write_fields(_TABLE, model)


def _read_model(meta: Any, arrays: Mapping[str, Any], context: Context) -> AnyModel:
    require(isinstance(meta, dict), "entry 'model' is missing or wrong")
    kind = meta.get("kind")
    if kind == "log":
        numbers = read_entries(_LOG_ENTRIES, meta)
        found = read_fields(_LOG, arrays, context)
        fits = numbers["n_anchors"] == context.sizes["n_terms"]
        require(fits, "entry 'n_anchors' does not match array 'coef'")
        return TableModel(LogEncoder(**numbers), found["coef"], found["intercept"])
    require(kind in ("bins", "knots", "pairs", "table"), "the kind of its model is not known")
    quantiser = _read_quantiser(meta, arrays, context)
    if kind == "knots":
        return _read_knots(quantiser, arrays, context)
    if kind in ("bins", "pairs"):
        found = read_fields(_BINS, arrays, context)
        offsets = found["offsets"]
        good = offsets[0] == 0 and (np.diff(offsets) >= 1).all()
        require(good and offsets[-1] == context.sizes["n_codes"], "array 'offsets' is wrong")
        base = BinModel(quantiser, offsets, found["curves"], found["intercept"])
        return base if kind == "bins" else _read_pairs(base, arrays, context)
    context.sizes["n_bins"] = quantiser.n_bins
    found = read_fields(_TABLE, arrays, context)
    return TableModel(BinEncoder(quantiser, found["table"]), found["coef"], found["intercept"])


def _read_indicators(
    model: Any, arrays: Mapping[str, Any], context: Context
) -> IndicatorModel | PairModel:
    fitted = model._model
    base: Any = fitted.base if isinstance(fitted, PairModel) else fitted
    good = isinstance(model, IndicatorsMixin) and isinstance(base, TableModel | BinModel)
    require(good, "its model is of another classifier")
    found = read_fields(_INDICATORS, arrays, context)
    offsets = found["category_offsets"]
    good = offsets[0] == 0 and (np.diff(offsets) >= 0).all()
    good = good and offsets[-1] == context.sizes["n_categories"]
    require(good, "array 'category_offsets' is wrong")
    model._coder = _read_categories(np.diff(offsets), arrays)
    with_heights = IndicatorModel(base, found["missing"], offsets, found["category_heights"])
    return replace(fitted, base=with_heights) if isinstance(fitted, PairModel) else with_heights


def _check_levels(model: PairModel) -> None:
    """Refuse levels of pairs that belong to other bins or categories."""
    sizes = np.zeros(model.n_features, np.int64)
    if isinstance(model.base, IndicatorModel):
        sizes = np.diff(model.base.offsets)
    n_bins = _find_quantiser(model).n_bins
    good = model.levels.shape[2] > max(n_bins, int(sizes.max()) + 1)
    require(good or not len(model.pairs), "array 'pair_levels' is wrong")
    of_sides = model.values.reshape(-1, N_LEVELS + 1)
    for values, size in zip(of_sides, sizes[model.pairs.ravel()], strict=True):
        numbers = values[np.isfinite(values)]
        good = size == 0 or bool(np.isin(numbers, np.arange(size)).all())
        require(good, "array 'pair_values' is wrong")


def _read_knots(quantiser: Quantiser, arrays: Mapping[str, Any], context: Context) -> KnotModel:
    context.sizes["n_bins"] = quantiser.n_bins
    found = read_fields(_KNOTS, arrays, context)
    offsets, knots = found["offsets"], found["knots"].astype(np.int64)
    good = offsets[0] == 0 and (np.diff(offsets) >= 0).all() and offsets[-1] == len(knots)
    require(good, "array 'offsets' is wrong")
    # Within a feature knots rise from above zero.
    rises = np.diff(knots, prepend=0)
    firsts = offsets[:-1][np.diff(offsets) > 0]
    rises[firsts] = knots[firsts]
    require(bool((rises > 0).all()), "array 'knots' does not rise within a feature")
    return KnotModel(quantiser, **found)


def _write_categories(coder: CategoryCoder) -> dict[str, Any]:
    return {
        f"categories_{j}": write_labels(categories)
        for j, categories in zip(coder.columns, coder.categories, strict=True)
    }


def _read_categories(sizes: Any, arrays: Mapping[str, Any]) -> CategoryCoder | None:
    """Return the categories of every column that has some."""
    columns, categories = np.flatnonzero(sizes), []
    for j in columns:
        known: Any = arrays.get(f"categories_{j}")
        good = known is not None and known.shape == (sizes[j],) and known.dtype.kind in "biufU"
        good = good and len(np.unique(known)) == len(known)
        require(good, f"array 'categories_{j}' is missing or wrong")
        categories.append(known)
    return CategoryCoder(columns, categories) if len(columns) else None


def _read_pairs(base: BinModel, arrays: Mapping[str, Any], context: Context) -> PairModel:
    context.sizes["n_levels"] = N_LEVELS + 1
    found = read_fields(_PAIRS, arrays, context)
    # The last level adds nothing.
    is_padded = not found["heights"][:, :, -1].any() and not found["heights"][..., -1].any()
    require(is_padded, "array 'heights' is wrong")
    return PairModel(
        base, found["pairs"], found["pair_levels"], found["pair_values"], found["heights"]
    )


def _write_quantiser(quantiser: Quantiser) -> State:
    meta = {entry.name: getattr(quantiser, entry.name) for entry in _QUANTISER_ENTRIES}
    return meta, write_fields(_QUANTISER, quantiser)


def _read_quantiser(meta: dict[str, Any], arrays: Mapping[str, Any], context: Context) -> Quantiser:
    values = read_entries(_QUANTISER_ENTRIES, meta)
    found = read_fields(_QUANTISER, arrays, context)
    grid = found["grid"]
    good = 2 <= len(grid) <= 2**16 and grid[0] >= 0 and grid[-1] <= 1 and (np.diff(grid) > 0).all()
    require(good, "array 'grid' does not rise from 0 to 1 in 2 to 65,536 steps")
    return Quantiser(**found, **values)
