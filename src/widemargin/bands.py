"""Bands of curves: how much the curves of a model vary between samples of the data."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_consistent_length, check_random_state, resample
from sklearn.utils.validation import check_is_fitted

from widemargin.additive.quantiser import row_chunks
from widemargin.arguments import check_columns, check_integer, check_number
from widemargin.pipeline_curves import find_categories, find_curves, has_curves

__all__ = ["CurveBands", "curve_bands"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class CurveBands:
    """Bands of the curves of a model.

    Heights are relative to the mean of a curve over the data, since a constant can move from a curve
    to the intercept without any effect.

    Attributes
    ----------
    features : ndarray of int
        The features that have bands.
    values : list of ndarray of shape (n_points,)
        Values of each of these features, as in `shape_functions`; categories by their number.
    lower, upper : list of ndarray of shape (n_functions, n_points)
        Ends of the bands.
    centres : ndarray of shape (n_functions, n_features)
        Means of the curves of the model over the data, for all features. A curve of `shape_functions`
        less its mean lies, as a rule, inside of its band.
    """

    features: NDArray[np.intp]
    values: list[FloatArray]
    lower: list[FloatArray]
    upper: list[FloatArray]
    centres: FloatArray

    def at(self, feature: int, values: Any) -> tuple[FloatArray, FloatArray] | None:
        """Return both ends of the band of a feature at some values, or None if it has no band.

        Parameters
        ----------
        feature : int
            Number of the feature.
        values : array-like of shape (n_values,)
            Values of the feature.

        Returns
        -------
        lower, upper : ndarray of shape (n_functions, n_values)
            Ends of the band, interpolated.
        """
        found = np.flatnonzero(self.features == feature)
        if len(found) == 0:
            return None
        k = int(found[0])
        lower, upper = (
            np.array([np.interp(values, self.values[k], row) for row in end[k]])
            for end in (self.lower, self.upper)
        )
        return lower, upper


def curve_bands(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_boot: int = 20,
    level: float = 0.9,
    features: Any = None,
    random_state: Any = 0,
) -> CurveBands:
    """Fit a model again to samples of the data, and return how far its curves reach.

    Each sample has as many rows as the data, drawn with replacement, and as many of each class. The
    band at a value is the interval between two quantiles of the heights of all curves there. It shows
    how much the curve depends on the rows at hand. It does not show errors that all samples share,
    such as those of strong regularisation.

    Parameters
    ----------
    model : AdditiveSVC, AdditiveSVR, IntersectionSVC, PowerMeanSVC or Pipeline
        A fitted estimator, or a pipeline that ends in one after scalers. It is not changed.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The training data.
    y : array-like of shape (n_samples,)
        The labels or targets.
    n_boot : int, default=20
        Number of samples, and of fits.
    level : float, default=0.9
        Share of the curves that the band holds at each value, between 0 and 1.
    features : array-like of int or str, optional
        Features by number or by name; default all.
    random_state : int, RandomState or None, default=0
        Seed of the samples.

    Returns
    -------
    bands : CurveBands
        The bands, for `widemargin.plotting.plot_shapes` and `widemargin.plotting.show_model`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from widemargin import AdditiveSVC
    >>> from widemargin.bands import curve_bands
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdditiveSVC().fit(X, y)
    >>> bands = curve_bands(model, X, y, n_boot=10, features=[0])
    >>> bands.lower[0].shape
    (1, 256)
    >>> bool((bands.lower[0] <= bands.upper[0]).all())
    True
    """
    if not has_curves(model):
        raise TypeError(
            f"model: a {type(model).__name__} has no curves; give an AdditiveSVC, AdditiveSVR, "
            "IntersectionSVC or PowerMeanSVC"
        )
    check_is_fitted(model)
    check_integer("n_boot", n_boot, low=2)
    check_number("level", level, above=0)
    if level >= 1:
        raise ValueError(f"level: must be below 1, got {level!r}")
    check_consistent_length(X, y)
    X = X if hasattr(X, "shape") else np.asarray(X)
    curves = find_curves(model)
    names = getattr(curves, "feature_names_in_", None)
    chosen = check_columns("features", features, curves.n_features_in_, names)
    grids = [_find_grid(curves, int(j)) for j in chosen]
    rng = check_random_state(random_state)
    # Samples need not have the negative values of all rows: they take the origin of the model.
    origin = getattr(model, "origin_", np.zeros(curves.n_features_in_))
    rows = _subtract_origin(X, origin) if origin.any() else X
    moved = [values - origin[j] for j, values in zip(chosen, grids, strict=True)]
    categories = [find_categories(curves, int(j)) for j in chosen]
    drawn = [_draw_curves(model, rows, y, rng, chosen, moved, categories) for _ in range(n_boot)]
    tail = 0.5 * (1.0 - level)
    ends = [
        np.quantile([sample[k] for sample in drawn], [tail, 1.0 - tail], axis=0)
        for k in range(len(chosen))
    ]
    lower, upper = [end[0] for end in ends], [end[1] for end in ends]
    return CurveBands(chosen, grids, lower, upper, _find_centres(curves, X))


def _subtract_origin(X: Any, origin: FloatArray) -> Any:
    """Return rows less the origin, which is zero for columns of categories."""
    moved = X.toarray() if sparse.issparse(X) else X.copy()
    for j in np.flatnonzero(origin):
        if hasattr(X, "iloc"):
            moved.isetitem(j, np.maximum(X.iloc[:, j] - origin[j], 0.0))
        else:
            moved[:, j] = np.maximum(moved[:, j] - origin[j], 0.0)
    return moved


def _draw_curves(
    model: Any, X: Any, y: Any, rng: Any, chosen: NDArray[np.intp], grids: list[FloatArray],
    categories: list[Any],
) -> list[FloatArray]:  # fmt: skip
    """Fit to one sample; returns the heights of some curves, less their means over all data."""
    classes = y if hasattr(model, "classes_") else None
    rows, labels = resample(X, y, stratify=classes, random_state=rng)
    with warnings.catch_warnings():
        # The fit of a pipeline itself has said so.
        warnings.filterwarnings("ignore", "X: .* subtracts the least value")
        sample = clone(model)
        if hasattr(model, "scaling_"):
            sample.set_params(scaling=model.scaling_)
        curves = find_curves(sample.fit(rows, labels))
    centres = _find_centres(curves, X)
    return [
        curves._heights(int(j), _translate(curves, int(j), values, names)) - centres[:, [j]]
        for j, values, names in zip(chosen, grids, categories, strict=True)
    ]


def _find_grid(curves: Any, feature: int) -> FloatArray:
    """Return the values at which a band is computed: numbers of categories for those."""
    categories = find_categories(curves, feature)
    if categories is not None:
        return np.arange(len(categories), dtype=np.float64)
    values: FloatArray = curves.shape_functions(features=[feature])[0][0]
    return values


def _translate(curves: Any, feature: int, values: FloatArray, names: Any) -> FloatArray:
    """Return the numbers that categories have in a sample, which may lack some of them."""
    if names is None:
        return values
    known = find_categories(curves, feature)
    numbers = {name: code for code, name in enumerate(known.tolist())}
    return np.array([numbers.get(name, len(known)) for name in names.tolist()], np.float64)


def _find_centres(curves: Any, X: Any) -> FloatArray:
    """Return the means of all curves over the data, shape (n_functions, n_features)."""
    queries, d = curves._check_queries(X), curves.n_features_in_
    sums = [curves._model.contributions(part)[:, :, :d].sum(axis=0) for part in row_chunks(queries)]
    centres: FloatArray = sum(sums) / queries.shape[0]
    return centres
