"""Schemas of the files of `KernelSVCCV` and `KernelSVRCV`: a model, its search, its probabilities."""

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.arguments import is_finite_number
from widemargin.divide.dc_svc import DCSVC
from widemargin.divide.kernel_svc_cv import KernelSVCCV
from widemargin.divide.local_classifiers import LocalClassifiers
from widemargin.exact.calibration import (
    Calibration,
    Curve,
    SigmoidCurve,
    StepCurve,
    count_curves,
    find_coupling,
)
from widemargin.exact.kernel_svc import KernelSVC
from widemargin.exact.kernel_svr import KernelSVR
from widemargin.exact.kernel_svr_cv import KernelSVRCV
from widemargin.exact.search_scoring import resolve_scorer
from widemargin.files.container import ModelFileError, require
from widemargin.files.divide_schema import read_divided, write_divided
from widemargin.files.estimator_schema import Schema, State
from widemargin.files.fields import (
    Context,
    Entry,
    Field,
    anything,
    at_least,
    is_positive_integer,
    one_of,
    read_entries,
    read_fields,
    set_attributes,
    write_fields,
)
from widemargin.files.header_values import build_estimator, write_params
from widemargin.files.kernel_schema import read_exact, read_svr, write_exact, write_svr
from widemargin.files.local_schema import (
    check_choices,
    read_choices,
    read_local,
    write_choice,
    write_local,
)

#: Values of parameters that files of earlier versions do not hold.
_EARLIER_PARAMS = {"n_clusters": None}
#: What the names of the arrays of the final model begin with.
_PREFIX = "model_"
_MODELS = {
    "KernelSVCCV": (
        Schema(KernelSVC, write_exact, read_exact),
        Schema(DCSVC, write_divided, read_divided),
        Schema(LocalClassifiers, write_local, read_local),
    ),
    "KernelSVRCV": (Schema(KernelSVR, write_svr, read_svr),),
}
#: Values of the grid; a kernel without gamma has NaN, and so has a score that was not computed.
_GRID = (Field("Cs", np.float64, ("n_Cs",)), Field("gammas", np.float64, ("n_gammas",), anything))
_FIELDS = {
    "KernelSVCCV": (
        *_GRID,
        Field("scores", np.float64, ("n_gammas", "n_Cs", "n_folds"), anything),
    ),
    "KernelSVRCV": (
        *_GRID,
        Field("epsilons", np.float64, ("n_epsilons",)),
        Field("scores", np.float64, ("n_gammas", "n_Cs", "n_epsilons", "n_folds"), anything),
    ),
}
_SIGMOIDS = (
    Field("curve_slopes", np.float64, ("n_curves",)),
    Field("curve_offsets", np.float64, ("n_curves",)),
)


def _is_probability(values: NDArray[Any], context: Context) -> str:
    """Allow numbers from zero to one."""
    return "" if ((values >= 0) & (values <= 1)).all() else "holds a number that is no probability"


#: The thresholds of all isotonic curves one after another.
_STEPS = (
    Field("curve_sizes", np.int64, ("n_curves",), at_least(1)),
    Field("curve_decisions", np.float64, ("n_thresholds",)),
    Field("curve_probabilities", np.float64, ("n_thresholds",), _is_probability),
)


def write_search(model: Any) -> State:
    """Return the header values and arrays of a search that was refitted."""
    if not model.refit:
        raise ModelFileError(
            "a search with refit=False has no model to save; fit with refit=True, or save an "
            "estimator that was fitted with best_params_"
        )
    kind = type(model).__name__
    schema = _find_model(kind, type(model.best_estimator_).__name__)
    inner_meta, inner_arrays = schema.write(model.best_estimator_)
    meta = {
        "params": write_params(model),
        "kind": schema.estimator.__name__,
        "model": inner_meta,
        "best_params": model.best_params_,
        "best_score": model.best_score_ if math.isfinite(model.best_score_) else None,
        "n_splits": model.n_splits_,
        "search": model.search_,
    }
    arrays = {f"{_PREFIX}{name}": array for name, array in inner_arrays.items()}
    arrays |= write_fields(_FIELDS[kind], model)
    if kind == "KernelSVCCV":
        meta["clusters"] = [write_choice(choice) for choice in model.clusters_]
    if hasattr(model, "calibration_"):
        arrays |= _write_curves(model.calibration_)
    return meta, arrays


def read_search(cls: Any, meta: dict[str, Any], arrays: Mapping[str, Any]) -> Any:
    """Return a fitted search, refusing arrays that do not fit together."""
    kind = cls.__name__
    inner = _read_model(kind, meta, arrays)
    params: Any = meta.get("params")
    if isinstance(params, dict) and cls is KernelSVCCV:
        params = {**_EARLIER_PARAMS, **params}
    model = build_estimator(cls, params, getattr(inner, "classes_", None))
    require(model.refit, "it holds a model, but says that there is none")
    first = _find_first(inner)
    is_same = getattr(model, "multi_class", None) == getattr(first, "multi_class", None)
    require(is_same, "its multi_class is not that of its final model")
    model.best_estimator_, model.n_iter_ = inner, inner.n_iter_
    for name in ("classes_", "n_features_in_", "feature_names_in_"):
        if hasattr(first, name):
            setattr(model, name, getattr(first, name))
    if cls is KernelSVCCV:
        # Files of earlier versions have no clusters.
        model.clusters_ = read_choices(meta.get("clusters", []))
        check_choices(model.clusters_, inner)
    entries = (
        Entry("n_splits", is_positive_integer), Entry("search", one_of(cls._searches[1:])),
    )  # fmt: skip
    model.n_splits_, model.search_ = read_entries(entries, meta).values()
    context = Context({"n_folds": model.n_splits_})
    set_attributes(model, _FIELDS[kind], read_fields(_FIELDS[kind], arrays, context))
    _set_choice(model, meta)
    model.scorer_ = resolve_scorer(model, model.scoring)
    if getattr(model, "calibration", None) is not None:
        model.calibration_ = _read_calibration(model, meta, arrays)
    return model


def _find_model(kind: str, inner: Any) -> Schema:
    """Return the schema of the final model of a search."""
    known = {schema.estimator.__name__: schema for schema in _MODELS[kind]}
    is_known = isinstance(inner, str) and inner in known
    require(is_known, f"its final model is a {inner!r:.80}")
    return known[inner]


def _read_model(kind: str, meta: dict[str, Any], arrays: Mapping[str, Any]) -> Any:
    require(isinstance(meta.get("model"), dict), "the header has no final model")
    schema = _find_model(kind, meta.get("kind"))
    parts = {n.removeprefix(_PREFIX): a for n, a in arrays.items() if n.startswith(_PREFIX)}
    return schema.read(schema.estimator, meta["model"], parts)


def _find_first(inner: Any) -> Any:
    """Return the final model of a search, of the models of clusters the first: they are alike."""
    return inner.models[0] if isinstance(inner, LocalClassifiers) else inner


def _set_choice(model: Any, meta: dict[str, Any]) -> None:
    """Set the chosen parameters and their score."""
    chosen: Any = meta.get("best_params")
    score = meta.get("best_score", "missing")
    needed = {"C", "epsilon"} if isinstance(model, KernelSVRCV) else {"C"}
    searched = {name for name in ("degree", "coef0") if np.ndim(getattr(model, name))}
    needed |= searched
    fits = isinstance(chosen, dict) and needed <= set(chosen) <= needed | {"gamma"}
    fits = fits and all(
        is_finite_number(value) and (value >= 0 or name == "coef0")
        for name, value in chosen.items()
    )
    require(fits and chosen["C"] > 0, "its chosen parameters are wrong")
    require(score is None or is_finite_number(score), "its best score is no number")
    model.best_params_ = {name: float(value) for name, value in chosen.items()}
    for name in ("degree", "coef0"):
        value = getattr(_find_first(model.best_estimator_), name)
        setattr(model, f"{name}_", value)
        if name in searched:
            model.best_params_[name] = value
            require(chosen[name] == value, f"its chosen {name} is not that of its model")
    model.best_score_ = math.nan if score is None else float(score)
    model.C_, model.gamma_ = model.best_params_["C"], model.best_params_.get("gamma")
    if "epsilon" in needed:
        model.epsilon_ = model.best_params_["epsilon"]


def _write_curves(calibration: Calibration) -> dict[str, NDArray[Any]]:
    sigmoids = [curve for curve in calibration.curves if isinstance(curve, SigmoidCurve)]
    if sigmoids:
        source = SimpleNamespace(
            curve_slopes_=[curve.slope for curve in sigmoids],
            curve_offsets_=[curve.offset for curve in sigmoids],
        )
        return write_fields(_SIGMOIDS, source)
    steps = [curve for curve in calibration.curves if isinstance(curve, StepCurve)]
    source = SimpleNamespace(
        curve_sizes_=[len(curve.decisions) for curve in steps],
        curve_decisions_=np.concatenate([curve.decisions for curve in steps]),
        curve_probabilities_=np.concatenate([curve.probabilities for curve in steps]),
    )
    return write_fields(_STEPS, source)


def _read_calibration(
    model: KernelSVCCV, meta: dict[str, Any], arrays: Mapping[str, Any]
) -> Calibration:
    """Return the probabilities; how they are coupled follows from parameters and classes."""
    assert model.calibration is not None
    n_classes = len(model.classes_)
    coupling = find_coupling(model.calibration, n_classes, model.multi_class == "ovo")
    context = Context({"n_curves": count_curves(n_classes, coupling)})
    curves: tuple[Curve, ...]
    if model.calibration == "isotonic":
        found = read_fields(_STEPS, arrays, context)
        curves = _restore_steps(found)
    else:
        found = read_fields(_SIGMOIDS, arrays, context)
        curves = tuple(map(SigmoidCurve, *(found[f.name].tolist() for f in _SIGMOIDS)))
    return Calibration(curves, n_classes, coupling)


def _restore_steps(found: Mapping[str, Any]) -> tuple[StepCurve, ...]:
    """Return the isotonic curves, refusing curves that fall."""
    sizes, decisions, probabilities = found.values()
    # The first condition keeps the sum from overflowing.
    fits = (sizes <= len(decisions)).all() and sizes.sum() == len(decisions)
    require(fits, "the thresholds of its curves do not add up")
    ends = np.cumsum(sizes)
    curves = []
    for first, last in zip(ends - sizes, ends, strict=True):
        part = slice(int(first), int(last))
        rises = (np.diff(decisions[part]) >= 0).all() and (np.diff(probabilities[part]) >= 0).all()
        require(rises, "the thresholds of a curve are not in ascending order")
        curves.append(StepCurve(decisions[part], probabilities[part]))
    return tuple(curves)
