"""Scalers of a pipeline as plain arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """Features as the model sees them: ``clip((x - before) / divisor * factor + after, low, high)``.

    Scalers divide or multiply; the other is by one, so that results are the same to the last bit.
    """

    before: FloatArray
    divisor: FloatArray
    factor: FloatArray
    after: FloatArray
    low: float
    high: float


def describe_scalers(step: Any) -> list[Scaling]:
    """Return the scalings of a step of a pipeline, which may be a pipeline itself."""
    if step is None or isinstance(step, str):
        return []
    if isinstance(step, Pipeline):
        return [scaling for _, inner in step.steps for scaling in describe_scalers(inner)]
    return [_describe_scaler(step)]


def _describe_scaler(step: Any) -> Scaling:
    check_is_fitted(step)
    d = step.n_features_in_
    before, divisor, factor, after = np.zeros(d), np.ones(d), np.ones(d), np.zeros(d)
    low, high = -np.inf, np.inf
    if type(step) is StandardScaler:
        before = before if step.mean_ is None or not step.with_mean else step.mean_
        divisor = divisor if step.scale_ is None else step.scale_
    elif type(step) is MinMaxScaler:
        factor, after = step.scale_, step.min_
        if step.clip:
            low, high = (float(bound) for bound in step.feature_range)
    elif type(step) is MaxAbsScaler:
        divisor = step.scale_
        if getattr(step, "clip", False):
            low, high = -1.0, 1.0
    else:
        raise TypeError(
            f"model: the pipeline's {type(step).__name__} cannot be exported; StandardScaler, "
            "MinMaxScaler and MaxAbsScaler can"
        )
    before, divisor, factor, after = np.asarray([before, divisor, factor, after], np.float64)
    return Scaling(before, divisor, factor, after, low, high)
