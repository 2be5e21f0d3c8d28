"""Curves and surfaces of models with an ANOVA kernel: what features and pairs of features add."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_columns, check_integer
from widemargin.exact.anova_terms import AnovaTerms, Levels, choose_levels, list_pairs
from widemargin.exact.expansion import Expansion
from widemargin.exact.search_base import KernelSearch
from widemargin.kernels.anova import AnovaKernel
from widemargin.problem import class_pairs

__all__ = ["Decomposition", "Explanation", "Surface", "Term", "decompose"]

FloatArray = NDArray[np.float64]

#: Features whose pairs are ranked, those with the largest curves, if there are more.
CANDIDATES = 200
#: Rows on which a pipeline shows that it scales every column by itself.
CHECKED_ROWS = 50


@dataclass(frozen=True)
class Term:
    """A curve or a surface, and its share in the variance of the decision function.

    Attributes
    ----------
    features : tuple of int
        The feature, or the two features.
    names : tuple of str
        Their names.
    share : float
        Share of the variance, between 0 and 1. The shares of all terms add up to one.
    """

    features: tuple[int, ...]
    names: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class Surface(Term):
    """The surface of a pair of features on the grid of their levels.

    Attributes
    ----------
    features, names, share
        As in `Term`.
    values : tuple of two ndarrays
        Values of the first and of the second feature, ascending.
    heights : ndarray of shape (n_first, n_second) or (n_functions, n_first, n_second)
        What the pair adds to the decision there, beyond the curves of its features.
    """

    values: tuple[FloatArray, FloatArray]
    heights: FloatArray


@dataclass(frozen=True)
class Explanation:
    """What features and pairs add to decisions. With the intercept it all adds up to the decision.

    For several decision functions all arrays have their number as second dimension.

    Attributes
    ----------
    intercept : float or ndarray of shape (n_functions,)
        The mean decision.
    curves : ndarray of shape (n_samples, n_features)
        What each feature adds.
    pairs : list of tuple of int
        The pairs that are shown by themselves.
    surfaces : ndarray of shape (n_samples, n_pairs)
        What each of them adds.
    rest : ndarray of shape (n_samples,)
        What all other pairs add together.
    """

    intercept: Any
    curves: FloatArray
    pairs: list[tuple[int, int]]
    surfaces: FloatArray
    rest: FloatArray


class Decomposition:
    """The terms of a model with an ANOVA kernel; made by `decompose`.

    The decision function is ``intercept + sum_j h_j(x_j) + sum_{i<j} h_ij(x_i, x_j)``. Every curve and
    every surface has mean zero over the values of each of its features, so a surface
    holds what two curves cannot (functional ANOVA).

    Attributes
    ----------
    intercept : float or ndarray of shape (n_functions,)
        The mean of the decision function over independent features.
    feature_names : list of str
        Names of the features.
    function_names : list of str
        What each decision function is positive for: the class, or the second class of a pair.
    """

    def __init__(
        self, model: Any, terms: AnovaTerms, levels: list[Levels], feature_names: list[str]
    ) -> None:
        self._model, self._terms, self._levels = model, terms, levels
        self.feature_names = feature_names
        self.function_names = _name_functions(last_estimator(model), len(terms.coef))
        self.intercept = _squeeze(terms.intercept)

    def rank_terms(self) -> list[Term]:
        """Return all curves and surfaces, those with the largest share of the variance first.

        Returns
        -------
        terms : list of Term
            With more than 200 features, pairs are those of the 200 features with the largest curves.
        """
        curves, surfaces, pairs = self._variances
        total = curves.sum() + surfaces.sum() or 1.0
        features = [(j,) for j in range(len(curves))] + [(int(i), int(j)) for i, j in pairs]
        shares = np.concatenate([curves, surfaces]) / total
        order = np.argsort(-shares, kind="stable")
        return [self._make_term(features[k], float(shares[k])) for k in order]

    def shape_functions(self, features: Any = None) -> list[tuple[FloatArray, FloatArray]]:
        """Compute the curves of features at their levels.

        Parameters
        ----------
        features : array-like of int, optional
            Columns whose curves are returned, in this order; default all.

        Returns
        -------
        curves : list of (values, heights)
            One pair for each feature: values in its own unit, and what the feature adds to the
            decision there, shape (n_values,), or (n_functions, n_values) for several functions.
        """
        if features is None:
            features = np.arange(self._terms.n_features)
        return [
            (self._levels[j].values, _squeeze(self._terms.curve(j, self._terms.levels[j].values)))
            for j in check_columns("features", features, self._terms.n_features)
        ]

    def interaction_functions(self, top: int = 10) -> list[Surface]:
        """Compute the surfaces with the largest share of the variance, on the levels of both features.

        Parameters
        ----------
        top : int, default=10
            Number of pairs.

        Returns
        -------
        surfaces : list of Surface
            The most important first.
        """
        check_integer("top", top, low=0)
        pairs = [term for term in self.rank_terms() if len(term.features) == 2]
        return [self._make_surface(term) for term in pairs[:top]]

    def explain(self, X: Any, top: int = 10) -> Explanation:
        """Compute what features and pairs add to the decisions of some rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data, as the model takes them.
        top : int, default=10
            Number of pairs that are shown by themselves, the most important first.

        Returns
        -------
        explanation : Explanation
            Its parts add up to the decision function of each row, computed in float64.
        """
        check_integer("top", top, low=0)
        _, surfaces, pairs = self._variances
        shown = pairs[np.argsort(-surfaces, kind="stable")[:top]]
        queries = last_estimator(self._model)._check_queries(_transform(self._model, X))
        n, n_functions = queries.shape[0], len(self._terms.coef)
        curves = np.empty((n, n_functions, self._terms.n_features))
        heights = np.empty((n, n_functions, len(shown)))
        for rows, of_features, of_pairs in self._terms.contributions(queries, shown):
            curves[rows], heights[rows] = of_features, of_pairs
        rest = self._decide(queries) - self._terms.intercept - curves.sum(2) - heights.sum(2)
        squeezed = [part[:, 0] if n_functions == 1 else part for part in (curves, heights, rest)]
        listed = [(int(i), int(j)) for i, j in shown]
        return Explanation(self.intercept, squeezed[0], listed, squeezed[1], squeezed[2])

    def _decide(self, queries: Any) -> FloatArray:
        """Decision values of all functions in float64."""
        model = find_expansion(self._model)
        values = [model.kernel.exact_product(queries, model.vectors, coef) for coef in model.coef]
        return np.stack(values, axis=1) + model.intercept

    @cached_property
    def _variances(self) -> tuple[FloatArray, FloatArray, NDArray[np.intp]]:
        """Variances of curves and of surfaces, over all functions, and the pairs of the surfaces."""
        curves = self._terms.curve_variances().sum(axis=0)
        candidates = np.sort(np.argsort(-curves, kind="stable")[:CANDIDATES])
        surfaces = self._terms.pair_variances(candidates).sum(axis=0)
        return curves, surfaces, list_pairs(candidates)

    def _make_term(self, features: tuple[int, ...], share: float) -> Term:
        return Term(features, tuple(self.feature_names[j] for j in features), share)

    def _make_surface(self, term: Term) -> Surface:
        i, j = term.features
        seen = self._terms.levels
        heights = self._terms.surface((i, j), seen[i].values, seen[j].values)
        values = (self._levels[i].values, self._levels[j].values)
        return Surface(term.features, term.names, term.share, values, _squeeze(heights))


def decompose(model: Any, X: Any, n_levels: int = 64) -> Decomposition:
    """Split a model with an ANOVA kernel into curves of features and surfaces of pairs of features.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted `KernelSVC`, `KernelSVR` or `KernelOneClassSVM`, a fitted `KernelSVCCV` or
        `KernelSVRCV`, or an exact `DCSVC`, with one of the kernels ``"anova_chi2"``,
        ``"anova_intersection"`` and ``"anova_rbf"``; or a pipeline of scalers that ends in one.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Data that show how the values of each feature are spread, such as those of training.
    n_levels : int, default=64
        Values that stand for all values of a feature: its distinct values, or as many ranks at equal
        steps. Means and variances are those over the levels.

    Returns
    -------
    decomposition : Decomposition
        The terms, with curves in the units of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import KernelSVC
    >>> from widemargin.interactions import decompose
    >>> X = np.random.default_rng(0).random((200, 3))
    >>> y = (X[:, 0] > 0.5) != (X[:, 2] > 0.5)
    >>> model = KernelSVC(kernel="anova_intersection", C=100).fit(X, y)
    >>> decompose(model, X).rank_terms()[0].features
    (0, 2)
    """
    check_is_fitted(model)
    check_integer("n_levels", n_levels, low=2)
    expansion = find_expansion(model)
    seen = last_estimator(model)._check_queries(_transform(model, X))
    given = X if isinstance(model, Pipeline) else seen
    given = given if sparse.issparse(given) else np.asarray(given, np.float64)
    if isinstance(model, Pipeline):
        _check_columns_apart(model, X, given, seen)
    own_levels, levels = [], []
    for j in range(seen.shape[1]):
        own = choose_levels(_take_column(given, j), n_levels)
        own_levels.append(own)
        levels.append(Levels(own.rows, _take_column(seen, j)[own.rows], own.shares))
    names = getattr(model, "feature_names_in_", [f"feature {j}" for j in range(seen.shape[1])])
    return Decomposition(
        model, AnovaTerms(expansion, levels), own_levels, [str(name) for name in names]
    )


def has_terms(model: Any) -> bool:
    """Return whether `decompose` takes a model."""
    return isinstance(getattr(last_estimator(model), "kernel_", None), AnovaKernel)


def find_expansion(model: Any) -> Expansion:
    """Return the weighted sum of kernels that a model computes; refuse other models."""
    last = last_estimator(model)
    expansion = getattr(last, "_model", None)
    if not (isinstance(expansion, Expansion) and isinstance(expansion.kernel, AnovaKernel)):
        raise TypeError(
            f"model: this {type(last).__name__} is no weighted sum of ANOVA kernels; fit KernelSVC or "
            'KernelSVR with kernel="anova_chi2", "anova_intersection" or "anova_rbf"'
        )
    return expansion


def last_estimator(model: Any) -> Any:
    """Return the estimator that predicts: the last step of a pipeline, the best model of a search."""
    last = model[-1] if isinstance(model, Pipeline) else model
    return getattr(last, "best_estimator_", last) if isinstance(last, KernelSearch) else last


def _transform(model: Any, X: Any) -> Any:
    return model[:-1].transform(X) if isinstance(model, Pipeline) and len(model) > 1 else X


def _take_column(X: Any, j: int) -> FloatArray:
    column = X[:, [j]].toarray()[:, 0] if sparse.issparse(X) else X[:, j]
    return np.asarray(column, np.float64)


def _check_columns_apart(model: Pipeline, X: Any, given: Any, seen: Any) -> None:
    """Refuse a pipeline that mixes columns: a curve of one column would not exist."""
    apart = given.shape[1] == seen.shape[1]
    if apart and len(model) > 1 and not sparse.issparse(given):
        rng = np.random.default_rng(0)
        rows = rng.integers(len(given), size=(min(CHECKED_ROWS, len(given)), given.shape[1]))
        mixed: Any = np.take_along_axis(given, rows, axis=0)
        if hasattr(X, "columns"):
            mixed = type(X)(mixed, columns=X.columns)
        expected = np.take_along_axis(np.asarray(seen), rows, axis=0)
        apart = np.allclose(_transform(model, mixed), expected, rtol=1e-6, atol=1e-9)
    if not apart:
        raise ValueError(
            "model: a step of the pipeline mixes columns, so that there are no curves of single "
            "columns; use scalers such as MinMaxScaler or QuantileTransformer"
        )


def _name_functions(model: Any, n_functions: int) -> list[str]:
    if not hasattr(model, "classes_"):
        return [f"target {k}" for k in range(n_functions)] if n_functions > 1 else ["prediction"]
    classes = model.classes_
    if n_functions == 1:
        return [str(classes[1])]
    if model._one_vs_one:
        return [f"{classes[b]}, not {classes[a]}" for a, b in class_pairs(len(classes))]
    return [str(label) for label in classes]


def _squeeze(values: Any) -> Any:
    """Return the values of a single function without the dimension of functions."""
    return values[0] if len(values) == 1 else values
