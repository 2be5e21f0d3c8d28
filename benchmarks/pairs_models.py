"""Additive models with and without pairs of features, and their peers: how each one is fitted."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, QuantileTransformer

from benchmarks.pairs_data import Table
from widemargin import AdditiveSVC, AdditiveSVCCV, KernelSVCCV
from widemargin.kernels import AnovaChi2, AnovaIntersection

#: Folds of every search of ours, and of the held-out decisions that probabilities come from.
FOLDS = 4
#: What searches of ours maximise: it varies less from fold to fold than the accuracy.
SCORING = "roc_auc"
#: Scalar kernel -> kernel with all pairs. The weight of the pairs is one.
KERNELS = {"chi2": AnovaChi2(weight=1.0), "intersection": AnovaIntersection(weight=1.0)}
COSTS = (0.1, 1.0, 10.0, 100.0)
#: Values of C of the additive searches, in units of that of C="scale". None is smaller: a ranking
#: score prefers tiny values, at which all decisions are nearly equal and cannot be calibrated.
SCALED_COSTS = np.array([0.01, 0.1, 1.0, 10.0])
#: Pairs of `AdditiveSVC`, and rows on which scaling and kernel of models with pairs are chosen.
N_PAIRS, CHOICE_ROWS = 20, 2000


def list_scalers(table: Table) -> list[Any]:
    """Return what may come before a model of ours, the default first."""
    if sparse.issparse(table.X):
        return [MaxAbsScaler()]
    ranks = QuantileTransformer(n_quantiles=256, random_state=0)
    scalers = [MinMaxScaler(clip=True), ranks]
    if not table.categories:
        return scalers
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return [
        ColumnTransformer(
            [("categories", encoder, list(table.categories))], remainder=scaler
        )
        for scaler in scalers
    ]  # fmt: skip


def calibrate(model: Any, table: Table) -> Any:
    """Fit a model, with probabilities from its decisions about rows that were held out."""
    calibrated = CalibratedClassifierCV(model, method="sigmoid", cv=FOLDS, ensemble=False)
    return calibrated.fit(table.X, table.y)


def fit_default(table: Table) -> Any:
    model = make_pipeline(list_scalers(table)[0], AdditiveSVC(n_jobs=1))
    return calibrate(model, table)


def fit_curves(table: Table) -> Any:
    """`AdditiveSVC` with kernel and C by cross-validation."""
    scaler = list_scalers(table)[0]
    X = clone(scaler).fit_transform(table.X)
    searches = [_search_costs(kernel, 0, X, table.y) for kernel in KERNELS]
    best = max(searches, key=lambda search: search.best_score_)
    return calibrate(_make_additive(scaler, best), table)


def fit_few_pairs(table: Table) -> Any:
    """`AdditiveSVC` with 20 pairs, scaling and kernel as `choose_pairs_kernel` finds them."""
    scaler, name, _ = choose_pairs_kernel(table)
    search = _search_costs(name, N_PAIRS, clone(scaler).fit_transform(table.X), table.y)
    return calibrate(_make_additive(scaler, search), table)


def fit_all_pairs(table: Table) -> Any:
    """The exact SVM with an ANOVA kernel, calibrated by the held-out decisions of its search."""
    scaler, name, costs = choose_pairs_kernel(table)
    model = _search_exact(name, costs, calibration="sigmoid")
    return make_pipeline(clone(scaler), model).fit(table.X, table.y)


def choose_pairs_kernel(table: Table) -> tuple[Any, str, tuple[float, ...]]:
    """Choose a scaler and a kernel by cross-validation of the exact SVM with all pairs.

    Returns the scaler, the name of the kernel, and the values of C that are left to search: one if all
    rows took part.
    """
    rows = np.random.default_rng(0).permutation(len(table.y))[:CHOICE_ROWS]
    best, chosen = -np.inf, None
    for scaler, name in itertools.product(list_scalers(table), KERNELS):
        X = clone(scaler).fit_transform(table.X[rows])
        search = _search_exact(name, COSTS, refit=False).fit(X, table.y[rows])
        if search.best_score_ > best:
            costs = (search.C_,) if len(rows) == len(table.y) else COSTS
            best, chosen = search.best_score_, (scaler, name, costs)
    assert chosen is not None
    return chosen


def _search_exact(name: str, costs: tuple[float, ...], **more: Any) -> KernelSVCCV:
    return KernelSVCCV(
        kernel=KERNELS[name], Cs=costs, cv=FOLDS, scoring=SCORING, n_jobs=1, **more
    )  # fmt: skip


def _search_costs(kernel: str, n_pairs: int, X: Any, y: Any) -> AdditiveSVCCV:
    scaled = AdditiveSVC(kernel=kernel, n_jobs=1).fit(X, y).C_
    search = AdditiveSVCCV(
        kernel=kernel, interactions=n_pairs, Cs=scaled * SCALED_COSTS, cv=FOLDS, scoring=SCORING,
        refit=False, n_jobs=1,
    )  # fmt: skip
    return search.fit(X, y)


def _make_additive(scaler: Any, search: AdditiveSVCCV) -> Any:
    """Make the classifier that a search has found, behind its scaler."""
    model = AdditiveSVC(
        kernel=search.kernel, interactions=search.interactions, C=search.C_, n_jobs=1
    )
    return make_pipeline(clone(scaler), model)


def fit_ebm(interactions: int | str, table: Table) -> Any:
    """The explainable boosting machine with its default parameters; it takes dense data."""
    from interpret.glassbox import ExplainableBoostingClassifier

    X = as_dense(table.X)
    kinds = ["nominal" if j in table.categories else "continuous" for j in range(X.shape[1])]
    model = ExplainableBoostingClassifier(
        interactions=interactions, feature_types=kinds, n_jobs=1, random_state=0
    )
    return model.fit(X, table.y)


def fit_boosting(table: Table) -> Any:
    """Gradient boosting of deep trees, which nobody reads, as a reference."""
    model = HistGradientBoostingClassifier(
        categorical_features=list(table.categories) or None, random_state=0
    )
    return model.fit(as_dense(table.X), table.y)


def as_dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X


#: Models of ours; their names are those of the tables.
OURS: dict[str, Callable[[Table], Any]] = {
    "AdditiveSVC()": fit_default,
    "curves": fit_curves,
    "few pairs": fit_few_pairs,
    "all pairs": fit_all_pairs,
}
