"""Random estimators on random data: no error but clear ones, and answers that hold."""

import time
import warnings
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import widemargin
from tests.fuzz import oracles
from tests.fuzz.cases import Refused, Wrong, answers, is_regressor, refusable
from tests.fuzz.problems import (
    draw_data,
    draw_estimator,
    kernel_rows,
    needs_histograms,
    suit_targets,
)
from widemargin.memory import Buffers

#: A fit of fewer rows is slow beyond so many times LIBSVM's seconds, and beyond so many seconds.
SLOW_ROWS, SLOW_FACTOR, SLOW_SECONDS = 1000, 10.0, 2.0


class Abandoned(Exception):  # noqa: N818
    """Raised by a callback."""


def run(case):
    """Fit, compare with LIBSVM where the problem is the same, and refit."""
    with patch.object(Buffers, "take", _take_poisoned):
        return _run(case)


def _take_poisoned(self, name, *shape, _take=Buffers.take):
    """Fresh memory in which a value that is read before it is written does the most harm."""
    array = _take(self, name, *shape)
    array[...] = np.nan
    return array


def _run(case):
    model = draw_estimator(case)
    data = draw_data(case, n_rows=_draw_size(case), nonnegative=needs_histograms(model))
    data = suit_targets(case, model, replace(data, X=kernel_rows(model, data.X)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seconds = _fit(model, data)
    has_warned = any(not issubclass(w.category, RuntimeWarning) for w in caught)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        oracles.check_answers(model, data.X, case.folder)
        if case.happens(0.1):
            _check_pipeline(case, model, data)
        if _is_exact(model):
            oracles.check_decisions(model, data.X)
            if not has_warned and model.stop_reason_ == "converged":
                _check_optimum(model, data)
        if seconds > SLOW_SECONDS and _is_slow(case, model, data):
            return "slow"
        REFITS[case.choose(*REFITS)](case, model, data)
    return "right"


def _draw_size(case):
    """A number of rows: up to 200 rows are solved in float64, more in float32."""
    return int(case.power(0.4, 2.3) if case.happens(0.6) else case.power(2.3, 2.9))


def _check_pipeline(case, model, data):
    """A pipeline with a scaler is the model on scaled rows, and so it is after saving it."""
    if sparse.issparse(data.X) or getattr(model, "kernel", None) == "precomputed":
        return
    scaler = MinMaxScaler(clip=True) if needs_histograms(model) else StandardScaler()
    try:
        rows = scaler.fit_transform(data.X)
    except ValueError:
        return
    if not np.isfinite(rows).all():
        return
    alone = clone(model)
    try:
        _fit(alone, replace(data, X=rows))
    except Refused:
        return
    pipeline = Pipeline([("scale", scaler), ("model", alone)])
    widemargin.save(pipeline, case.folder / "pipeline.wm")
    loaded = widemargin.load(case.folder / "pipeline.wm")
    oracles.check_same("pipeline", answers(loaded, data.X), answers(alone, rows))


def _is_slow(case, model, data):
    """Whether a second fit, which need not compile, is slow too."""
    stopped = getattr(model, "stop_reason_", "") in ("max_iter", "max_time")
    if np.shape(data.X)[0] >= SLOW_ROWS or stopped:
        return False
    seconds, peer = _fit(clone(model), data), oracles.libsvm_seconds(model, data)
    case.note("slow", f"{seconds:.1f} s, LIBSVM {peer:.2f} s")
    return seconds > max(SLOW_FACTOR * peer, SLOW_SECONDS)


def _fit(model, data):
    """Fit, and return the seconds that took; those of other work on the machine do not count."""
    began, spent = time.perf_counter(), time.process_time()
    refusable(model.fit, data.X, data.y, data.sample_weight)
    return min(time.perf_counter() - began, time.process_time() - spent)


def _is_exact(model):
    """Whether the model is one kernel expansion, not one for each cluster."""
    return hasattr(model, "duality_gap_") and getattr(model, "level_", 0) == 0


def _check_optimum(model, data):
    """Check the problems of an exact model that says it has converged."""
    if not hasattr(model, "classes_"):
        # What weights mean for novelty detection, LIBSVM defines in another way.
        if data.y is None and data.sample_weight is not None:
            return
        for dual in oracles.general_duals(model, data):
            if np.isfinite(dual.K).all() and oracles.is_convex(model, dual.K):
                oracles.check_general_dual(model, dual)
        return
    for dual in oracles.duals_of(model, data):
        # A formula that overflows tells nothing.
        if np.isfinite(dual.K).all() and oracles.is_convex(model, dual.K):
            oracles.check_dual(model, dual)
            oracles.check_against_libsvm(model, dual)


def _narrower(model, data):
    """The same rows with half of the columns; of a kernel matrix, half of the rows too."""
    X = data.X if sparse.issparse(data.X) else np.asarray(data.X)
    width = X.shape[1] // 2
    X = X.tocsr()[:, :width] if sparse.issparse(X) else X[:, :width]
    if getattr(model, "kernel", None) != "precomputed":
        return replace(data, X=X)
    weights = None if data.sample_weight is None else data.sample_weight[:width]
    y = None if data.y is None else data.y[:width]
    return replace(data, X=X[:width], y=y, sample_weight=weights)


def _refit_narrower(case, model, data):
    """A second fit, at another width, equals the fit of a fresh estimator."""
    other = _narrower(model, data)
    fresh = clone(model)
    try:
        _fit(fresh, other)
    except Refused:
        return
    _fit(model, other)
    found, expected = answers(model, other.X), answers(fresh, other.X)
    oracles.check_same("second fit", found, expected)


def _refuse_refit(case, model, data):
    """A refused fit at another width leaves the old model or none."""
    decisions = answers(model, data.X)
    other = _narrower(model, data)
    if other.X.shape[1] == 0 or data.y is None:
        return
    # One class only, or targets that are no numbers.
    y = np.full(other.X.shape[0], np.nan if is_regressor(model) else 0.0)
    try:
        model.fit(other.X, y)
    except ValueError:
        oracles.check_untouched(model, data.X, decisions, other.X)
        return
    raise Wrong("one class", "a fit of one class, or to NaN, is not refused")


def _abandon_refit(case, model, data):
    """A callback that raises ends the fit, and leaves the old model or none."""
    if "callback" not in model.get_params():
        return
    decisions = answers(model, data.X)
    other = _narrower(model, data)
    left = int(case.power(0, 1))

    def count(state):
        nonlocal left
        left -= 1
        if left == 0:
            raise Abandoned

    model.set_params(callback=count)
    try:
        _fit(model, other)
    except Abandoned:
        oracles.check_untouched(model, data.X, decisions, other.X)
    except Refused:
        return


REFITS = {
    "none": lambda case, model, data: None,
    "narrower": _refit_narrower,
    "refused": _refuse_refit,
    "abandoned": _abandon_refit,
}
