"""Tables as they come: missing values and categories in `AdditiveSVC` and `AdditiveSVR`.

``python -m benchmarks glass-box`` runs every experiment in a process of its own, on one thread, and
keeps its rows in ``benchmarks/results/glass-box.jsonl``.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from threadpoolctl import threadpool_limits

from benchmarks.experiments import Experiments, Row
from benchmarks.pairs_data import draw_census
from benchmarks.timing import time_call
from widemargin import AdditiveSVC, AdditiveSVR
from widemargin.datasets import load

TITLE = "A glass box: measurements"
RESULTS = Path("benchmarks", "results", "glass-box.jsonl")

#: Sets of which values are removed, beside the breast cancer data of scikit-learn.
GAP_SETS = ("diabetes", "australian", "heart_scale", "ionosphere", "segment", "german_numer_scale")
#: Share of values removed at random; shares removed in the first class and in the others.
AT_RANDOM, BY_CLASS = 0.15, (0.05, 0.3)
FOLDS = 5
#: Share of values removed from the houses.
GAPS_OF_HOUSES = 0.2
#: Rows of the census: for training and for testing.
CENSUS_ROWS = 20_000, 40_000
#: Capital gains, dividends and weeks worked in the census, without its column of weights.
RISING = (16, 18, 38)
#: Fits of fewer seconds are repeated, and the least time counts.
SHORT_SECONDS, REPEATS = 2.0, 3


def run_gaps() -> Iterator[Row]:
    """Accuracy (%, five folds, default parameters) on data of which values were removed.

    15 % of the values are removed at random, or 5 % in the first class and 30 % in the others.
    ``imputer`` has medians in the gaps, ``code`` is `AdditiveSVC(missing="code")`.
    """
    warnings.simplefilter("ignore")
    imputer = make_pipeline(SimpleImputer(strategy="median"), AdditiveSVC(n_jobs=1))
    models = {"imputer": imputer, "code": AdditiveSVC(missing="code", n_jobs=1)}
    for name, X, y in _list_gap_sets():
        rng = np.random.default_rng(0)
        shares = {
            "at random": np.full((len(y), 1), AT_RANDOM),
            "by class": np.where(y == y.min(), *BY_CLASS)[:, None],
        }
        row: Row = {"data": name, "rows": len(y), "features": X.shape[1]}
        for kind, share in shares.items():
            with_gaps = np.where(rng.random(X.shape) < share, np.nan, X)
            for title, model in models.items():
                scaled = make_pipeline(MinMaxScaler(clip=True), model)
                folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
                scores = cross_val_score(scaled, with_gaps, y, cv=folds)
                row[f"{kind}: {title}"] = 100.0 * float(scores.mean())
        yield row


def _list_gap_sets() -> Iterator[tuple[str, Any, Any]]:
    yield "breast cancer", *load_breast_cancer(return_X_y=True)
    for name in GAP_SETS:
        source = load(name)
        X = np.concatenate([source.X_train, source.X_test]).astype(np.float64)
        yield name, X, np.concatenate([source.y_train, source.y_test])


def run_categories() -> Iterator[Row]:
    """A census: 20,000 rows for training, 40,000 for testing; 28 of 40 columns are categories.

    Processor seconds of a fit on one thread; the area is that under the ROC curve.
    """
    warnings.simplefilter("ignore")
    (table,) = draw_census(*CENSUS_ROWS)
    categories = list(table.categories)
    constraints = np.isin(np.arange(table.X.shape[1]), RISING).astype(int)
    own: dict[str, Any] = {"n_jobs": 1, "categorical_features": categories}
    theirs: dict[str, Any] = {"random_state": 0, "categorical_features": categories}
    models = {
        "`AdditiveSVC`, numbers of categories as if they were counts": AdditiveSVC(n_jobs=1),
        "`AdditiveSVC`, categories": AdditiveSVC(**own),
        "`AdditiveSVC`, categories, three columns monotone": AdditiveSVC(
            monotonic_cst=constraints, **own
        ),
        "`HistGradientBoostingClassifier`, trees of one split, 300 iterations": (
            HistGradientBoostingClassifier(max_leaf_nodes=2, max_iter=300, **theirs)
        ),
        "`HistGradientBoostingClassifier`, default parameters": (
            HistGradientBoostingClassifier(**theirs)
        ),
    }
    with threadpool_limits(1):
        for name, model in models.items():
            # Compiled before it is timed.
            model.fit(table.X[:2000], table.y[:2000])
            fit = time_call(lambda: model.fit(table.X, table.y), REPEATS, SHORT_SECONDS)  # noqa: B023
            yield {
                "model": name,
                "fit (s)": fit.cpu_seconds,
                "accuracy (%)": 100.0 * float(model.score(table.Z, table.z)),
                "area (%)": 100.0 * float(roc_auc_score(table.z, model.decision_function(table.Z))),
            }


def run_regression() -> Iterator[Row]:
    """House prices (california, 20,433 districts): R2 on a third of the rows, means of three splits.

    The last of nine columns is a category, the proximity of the ocean, and longitudes are negative.
    ``with gaps`` has a fifth of all values removed at random. Prices are in units of 100,000 dollars,
    and epsilon is 0.1. Processor seconds of a fit to the complete rows on one thread.
    """
    warnings.simplefilter("ignore")
    source = load("reg_california")
    X = np.concatenate([source.X_train, source.X_test]).astype(np.float64)
    y = np.concatenate([source.y_train, source.y_test]).astype(np.float64) / 1e5
    gaps = np.where(np.random.default_rng(0).random(X.shape) < GAPS_OF_HOUSES, np.nan, X)
    place: dict[str, Any] = {"categorical_features": [X.shape[1] - 1]}
    numbers = AdditiveSVR(kernel="intersection", scaling="range", n_jobs=1)
    stumps = HistGradientBoostingRegressor(max_leaf_nodes=2, max_iter=300, random_state=0, **place)
    models: dict[str, tuple[Any, Any]] = {
        "`AdditiveSVR`, category as a number, medians in the gaps": (
            numbers, make_pipeline(SimpleImputer(strategy="median"), numbers)
        ),
        "`AdditiveSVR`, category and missing values": (
            clone(numbers).set_params(**place),
            clone(numbers).set_params(missing="code", **place),
        ),
        "`HistGradientBoostingRegressor`, trees of one split, 300 iterations": (stumps, stumps),
    }  # fmt: skip
    with threadpool_limits(1):
        for name, (model, with_gaps) in models.items():
            scores, seconds = [], []
            for seed in range(3):
                order = np.random.default_rng(seed).permutation(len(y))
                test, train = np.split(order, [len(y) // 3])
                # Compiled before it is timed.
                model.fit(X[train[:2000]], y[train[:2000]])
                fit = time_call(lambda m=model, t=train: m.fit(X[t], y[t]), REPEATS, SHORT_SECONDS)
                seconds.append(fit.cpu_seconds)
                whole = model.score(X[test], y[test])
                with_gaps.fit(gaps[train], y[train])
                scores.append((whole, with_gaps.score(gaps[test], y[test])))
            complete, missing = np.mean(scores, axis=0)
            yield {
                "model": name, "fit (s)": float(np.mean(seconds)), "R2": float(complete),
                "with gaps: R2": float(missing),
            }  # fmt: skip


EXPERIMENTS: Experiments = {
    "gaps": run_gaps,
    "categories": run_categories,
    "regression": run_regression,
}
