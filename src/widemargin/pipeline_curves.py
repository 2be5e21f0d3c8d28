"""Curves of pipelines: an additive model behind scalers, in the units of the given data."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from widemargin.additive.mixins import CurvesMixin
from widemargin.arguments import check_columns, check_integer

__all__ = ["PipelineCurves"]

FloatArray = NDArray[np.float64]


class PipelineCurves:
    """The curves of a fitted pipeline that ends in an additive model.

    Parameters
    ----------
    pipeline : Pipeline
        Steps that transform each column by itself, such as `MinMaxScaler`, and then an `AdditiveSVC`,
        `AdditiveSVR`, `IntersectionSVC` or `PowerMeanSVC`. The steps must have ``inverse_transform``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from widemargin import AdditiveSVC
    >>> from widemargin.pipeline_curves import PipelineCurves
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> pipeline = make_pipeline(MinMaxScaler(clip=True), AdditiveSVC()).fit(X, y)
    >>> ((values, heights),) = PipelineCurves(pipeline).shape_functions(features=["mean radius"])
    >>> [round(float(value), 2) for value in (values.min(), values.max())]
    [6.98, 28.11]
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._steps, self._last = pipeline[:-1], pipeline[-1]
        if hasattr(self._last, "classes_"):
            self.classes_ = self._last.classes_
        self.n_features_in_ = self._last.n_features_in_
        names = getattr(pipeline, "feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        self._model = self._last._model
        self._ranges = self._find_ranges()

    def shape_functions(self, n_points: int = 256, features: Any = None) -> list[tuple[Any, Any]]:
        """Compute the curve of every feature over its range in the training data.

        Parameters
        ----------
        n_points : int, default=256
            Points on each curve.
        features : array-like of int or str, optional
            Columns whose curves are returned, by number or by name; default all.

        Returns
        -------
        curves : list of (values, heights)
            As `AdditiveSVC.shape_functions`, with values in the units of the pipeline's input.
        """
        check_integer("n_points", n_points, low=2)
        names = getattr(self, "feature_names_in_", None)
        curves = []
        for j in check_columns("features", features, self.n_features_in_, names):
            low, high = self._ranges[:, j]
            values = np.linspace(low, high, n_points)
            heights = self._heights(j, values)
            curves.append((values, heights[0] if len(heights) == 1 else heights))
        return curves

    def _find_ranges(self) -> FloatArray:
        """Find the least and the largest value of every column, in the units of the input."""
        scaled = self._last.feature_ranges_
        try:
            ranges = np.asarray(self._steps.inverse_transform(scaled), np.float64)
        except AttributeError:
            raise ValueError(
                "model: a step of the pipeline has no inverse_transform, so that its curves have no "
                "units; use scalers such as MinMaxScaler"
            ) from None
        if ranges.shape != scaled.shape or not self._keeps_columns_apart(ranges):
            raise ValueError(
                "model: a step of the pipeline mixes columns, so that there are no curves of single "
                "columns; use scalers such as MinMaxScaler"
            )
        return np.sort(ranges, axis=0)

    def _keeps_columns_apart(self, ranges: FloatArray) -> bool:
        """Return whether a column of the transformed data depends on its own column only."""
        rng = np.random.default_rng(0)
        low, high = ranges
        picked = rng.random((8, ranges.shape[1])) < 0.5
        expected = np.where(picked, *self._scale(ranges)[::-1])
        return np.allclose(self._scale(np.where(picked, high, low)), expected, rtol=1e-6, atol=1e-9)

    def _scale(self, rows: FloatArray) -> FloatArray:
        with warnings.catch_warnings():
            # The columns are in the order of training, though they have no names here.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return np.asarray(self._steps.transform(rows), np.float64)

    def _heights(self, feature: int, values: FloatArray) -> FloatArray:
        rows = np.tile(self._ranges[0], (len(values), 1))
        rows[:, feature] = values
        return self._last._heights(feature, self._scale(rows)[:, feature])

    def _check_queries(self, X: Any) -> Any:
        return self._last._check_queries(self._steps.transform(X))


def has_curves(model: Any) -> bool:
    """Return whether a model is a sum of curves, alone or behind other steps of a pipeline."""
    if isinstance(model, Pipeline):
        return isinstance(model[-1], CurvesMixin)
    return isinstance(model, CurvesMixin)


def find_categories(curves: Any, feature: int) -> Any:
    """Return the categories of a feature, or None if it has numbers."""
    known = getattr(curves, "categories_", None)
    return None if known is None else known[feature]


def take_numbers(curves: Any, X: Any) -> Any:
    """Return data with the numbers of categories in place of their names."""
    return curves._take_given(X, is_first=False) if hasattr(curves, "_take_given") else X


def find_curves(model: Any) -> Any:
    """Return what has the curves of a fitted model, in the units of its input."""
    if not isinstance(model, Pipeline):
        return model
    return PipelineCurves(model) if len(model) > 1 else model[-1]
