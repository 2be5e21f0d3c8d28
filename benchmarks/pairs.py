"""Pairs of features: SVMs with an ANOVA kernel beside explainable boosting machines.

``python -m benchmarks pairs`` runs every experiment in a process of its own, on one thread, and keeps
its rows in ``benchmarks/results/pairs.jsonl``. The peer is ``ExplainableBoostingClassifier`` of the
package interpret-core (``pip install interpret-core``), with its default parameters.
"""

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer

from benchmarks.experiments import Experiments, Row
from benchmarks.timing import time_call
from widemargin import AdditiveSVC, KernelSVCCV
from widemargin.datasets import load
from widemargin.kernels import AnovaChi2, AnovaIntersection

TITLE = "Pairs of features: measurements"
RESULTS = Path("benchmarks", "results", "pairs.jsonl")

#: Small sets, and how often they are divided at random; sets of which so many rows are drawn.
SMALL, N_SPLITS = (
    ("breast_cancer", "diabetes", "german_numer_scale", "heart_scale", "ionosphere"),
    2,
)
LARGE, LARGE_ROWS = ("keel_banana", "ijcnn1", "census_income_kdd"), 6000
#: Pairs of `AdditiveSVC`.
N_PAIRS = 20
#: Share of the rows that are held out.
TEST_SHARE = 0.4
#: What cross-validation chooses among: scalings, kernels, weights of pairs, costs.
SCALERS: dict[str, Any] = {
    "min-max": MinMaxScaler(clip=True),
    "ranks": QuantileTransformer(n_quantiles=256, random_state=0),
}
KERNELS, WEIGHTS, COSTS = (AnovaChi2, AnovaIntersection), (0.03, 0.3, 1.0), (0.1, 1.0, 10.0, 100.0)


def run_small() -> Iterator[Row]:
    """Small tables, means of two random divisions; one thread, processor seconds, choices included."""
    for name in SMALL:
        X, y = _read(name)
        yield _compare(name, X, y, N_SPLITS)


def run_large() -> Iterator[Row]:
    """Samples of 6,000 rows (banana: 5,300), 60 % for training; one thread, choices included."""
    for name in LARGE:
        yield _compare(name, *_draw(*_read(name)), 1)


def _read(name: str) -> tuple[Any, Any]:
    """All rows of a set, dense, and two classes as 0 and 1."""
    source = load(name)
    parts = [part for part in (source.X_train, source.X_test) if part is not None]
    X = np.vstack([part.toarray() if sparse.issparse(part) else part for part in parts])
    y = np.concatenate([source.y_train, *([] if len(parts) == 1 else [source.y_test])])
    if name == "census_income_kdd":
        # Weights of rows, not a feature.
        X = np.delete(X, 24, axis=1)
    return X.astype(np.float64), np.unique(y, return_inverse=True)[1]


def _draw(X: Any, y: Any) -> tuple[Any, Any]:
    rows = np.random.default_rng(0).permutation(len(y))[:LARGE_ROWS]
    return X[rows], y[rows]


def _compare(name: str, X: Any, y: Any, n_splits: int) -> Row:
    """Means over random divisions of the rows."""
    rows: list[Row] = []
    splitter = StratifiedShuffleSplit(n_splits, test_size=TEST_SHARE, random_state=0)
    for train, test in splitter.split(X, y):
        parts = X[train], y[train], X[test], y[test]
        # Compiled before it is timed.
        PairsByValidation().fit(X[train[:200]], y[train[:200]]).predict(X[test[:200]])
        for n_pairs in (0, N_PAIRS):
            _tables_by_validation(n_pairs).fit(X[train[:200]], y[train[:200]])
        found: Row = {}
        found |= _judge("curves", _tables_by_validation(0), *parts)
        found |= _judge("few pairs", _tables_by_validation(N_PAIRS), *parts)
        found |= _judge("pairs", PairsByValidation(), *parts)
        found |= _judge("EBM curves", _boost(0), *parts)
        found |= _judge("EBM pairs", _boost("3x"), *parts)
        rows.append(found)
    row = {"data": name, "rows": len(train), "features": X.shape[1]}
    row |= {key: float(np.mean([found[key] for found in rows])) for key in rows[0]}
    return row | {"times EBM": row["EBM pairs (s)"] / row["pairs (s)"]}


def _judge(name: str, model: Any, X: Any, y: Any, Z: Any, z: Any) -> Row:
    """Accuracy on held-out rows, log loss if there are probabilities, and processor seconds."""
    warnings.simplefilter("ignore")
    seconds = time_call(lambda: model.fit(X, y)).cpu_seconds
    row: Row = {f"{name} (%)": 100.0 * float(np.mean(model.predict(Z) == z))}
    if hasattr(model, "predict_proba"):
        row[f"{name} log loss"] = float(log_loss(z, model.predict_proba(Z)))
    return row | {f"{name} (s)": seconds}


def _tables_by_validation(n_pairs: int) -> Any:
    """`AdditiveSVC` with scaling and kernel chosen by cross-validation."""
    choices = {
        "minmaxscaler": list(SCALERS.values()),
        "additivesvc__kernel": ["chi2", "intersection"],
    }
    model = AdditiveSVC(interactions=n_pairs, n_jobs=1, random_state=0)
    return GridSearchCV(make_pipeline(MinMaxScaler(), model), choices, cv=4)


def _search(kernel: Any, costs: Any = COSTS, **params: Any) -> KernelSVCCV:
    """Search for C; probabilities are calibrated by default."""
    given = {"calibration": "sigmoid", "cv": 4, "n_jobs": 1} | params
    return KernelSVCCV(kernel=kernel, Cs=costs, **given)


class PairsByValidation:
    """An ANOVA SVM with scaling, kernel, weight of pairs and C chosen by cross-validation."""

    def fit(self, X: Any, y: Any) -> "PairsByValidation":
        """Choose, then calibrate the choice."""
        best, chosen = -np.inf, None
        for scaler, kernel, weight in itertools.product(SCALERS.values(), KERNELS, WEIGHTS):
            search = _search(kernel(weight=weight), refit=False, calibration=None)
            search.fit(clone(scaler).fit_transform(X), y)
            if search.best_score_ > best:
                best, chosen = search.best_score_, (scaler, search.kernel, [search.C_])
        scaler, kernel, costs = chosen
        self.model = make_pipeline(clone(scaler), _search(kernel, costs)).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(X)


def _boost(interactions: Any) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(interactions=interactions, n_jobs=1, random_state=0)


EXPERIMENTS: Experiments = {"small": run_small, "large": run_large}
