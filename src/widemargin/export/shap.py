"""Shares of features as an object of the package shap."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from widemargin.pipeline_curves import has_curves

__all__ = ["to_shap"]


def to_shap(model: Any, X: Any, background: Any = None) -> Any:
    """Return what each feature adds to each decision as a ``shap.Explanation``.

    The decision of an additive classifier, or the prediction of an additive regression, is a sum of
    curves, so that its Shapley values are exact and need no sampling: the height of a curve minus its
    mean over the background data.

    Parameters
    ----------
    model : AdditiveSVC, AdditiveSVR, IntersectionSVC, PowerMeanSVC or Pipeline
        A fitted estimator, or a pipeline that ends in one and transforms each column by itself.
    X : array-like of shape (n_samples, n_features)
        Rows to explain.
    background : array-like of shape (n_background, n_features), optional
        Rows that stand for the average, such as those of training. Without, values are the heights
        of the curves, as ``explain`` gives them, and base values are the intercepts.

    Returns
    -------
    explanation : shap.Explanation
        Values of shape (n_samples, n_features), or (n_samples, n_features, n_classes) for more than
        two classes. Values and base value of a row add up to its ``decision_function``, or to the
        prediction of a regression.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from widemargin import AdditiveSVC
    >>> from widemargin.export import to_shap
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = AdditiveSVC(scaling="max").fit(X, y)
    >>> explanation = to_shap(model, X[:5], background=X)  # doctest: +SKIP
    >>> shap.plots.waterfall(explanation[0])  # doctest: +SKIP
    """
    check_is_fitted(model)
    if not has_curves(model):
        raise TypeError(
            "model: its decision is no sum of curves; give an AdditiveSVC, AdditiveSVR, "
            "IntersectionSVC or PowerMeanSVC, or a pipeline that ends in one"
        )
    last = model[-1] if isinstance(model, Pipeline) else model
    if len(getattr(last, "interactions_", ())):
        raise ValueError(
            "model: surfaces of pairs of features are no shares of single features; fit it with "
            "interactions=0"
        )
    shap = _import_shap()
    shares = _share(model, X)
    means = np.zeros(shares.shape[1:])
    if background is not None:
        means = _share(model, background).mean(axis=0)
    base = last.intercept_ + means.sum(axis=1)
    values, bases = np.swapaxes(shares - means, 1, 2), np.tile(base, (len(shares), 1))
    several = shares.shape[1] > 1
    names = getattr(model, "feature_names_in_", None)
    return shap.Explanation(
        values=values if several else values[:, :, 0],
        base_values=bases if several else bases[:, 0],
        data=X.toarray() if sparse.issparse(X) else np.asarray(X),
        feature_names=None if names is None else [str(name) for name in names],
        output_names=[str(label) for label in last.classes_] if several else None,
    )


def _share(model: Any, X: Any) -> Any:
    """Compute what features add, of shape (n_samples, n_functions, n_features)."""
    if isinstance(model, Pipeline):
        X, model = (model[:-1].transform(X) if len(model) > 1 else X), model[-1]
    shares = model.explain(X)
    return shares[:, None] if shares.ndim == 2 else shares


def _import_shap() -> Any:
    try:
        import shap  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError("to_shap needs the package shap; install it: pip install shap") from error
    return shap
