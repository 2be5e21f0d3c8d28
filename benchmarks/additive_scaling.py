"""What the default scaling of the additive classifiers gains on tables as they come."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning

from benchmarks.experiments import Row
from widemargin import AdditiveSVC, IntersectionSVC
from widemargin.datasets import load

#: Tables as published: small integers, measurements in different units, signed columns, expressions of
#: genes, symbols, pixels.
TABLES = (
    "keel_vehicle", "segment", "diabetes", "australian", "breast_cancer", "keel_sonar", "covtype",
    "shuttle", "splice", "colon",
)  # fmt: skip
#: Words of scenes as dense histograms, and the most frequent words of posts as dense counts.
N_WORDS, N_POST_WORDS = 1000, 500
MOST_TRAINING, MOST_TEST, N_SPLITS = 2500, 5000, 5


def run_scaling() -> Iterator[Row]:
    """Accuracy (%) without scaling and by default, on data as they come; means of five splits.

    At most 2,500 rows for training, two thirds of the rows. *Refused* are data in which a column has
    negative values of one sign only, or few. ``scaling_`` is what the default chose.
    """
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    for name, (X, y) in _sets():
        row: Row = {"data": name, "rows": len(y), "features": X.shape[1]}
        for kind, model in _models().items():
            for scaling in (None, "auto"):
                model.set_params(scaling=scaling)
                column = f"{kind}: {'default' if scaling else 'none'}"
                row[f"{column} (%)"] = _judge(model, X, y)
            row[f"{kind}: scaling_"] = str(getattr(model, "scaling_", "-"))
        yield row


def _models() -> dict[str, Any]:
    return {
        "chi2": AdditiveSVC(n_jobs=1),
        "intersection": AdditiveSVC(kernel="intersection", n_jobs=1),
        "IntersectionSVC": IntersectionSVC(n_jobs=1),
    }


def _judge(model: Any, X: Any, y: Any) -> float | str:
    """Return the mean accuracy over the splits, or that the data are refused."""
    scores = []
    for seed in range(N_SPLITS):
        train, test = _split(len(y), seed)
        try:
            model.fit(X[train], y[train])
        except ValueError as error:
            if "Negative values" in str(error):
                return "refused"
            raise
        # A negative value below all in training would be refused.
        queries = np.maximum(X[test], X[train].min(axis=0))
        scores.append(model.score(queries, y[test]))
    return 100.0 * float(np.mean(scores))


def _split(n: int, seed: int) -> tuple[Any, Any]:
    rows = np.random.default_rng(seed).permutation(n)
    n_train = min(2 * n // 3, MOST_TRAINING)
    return rows[:n_train], rows[n_train : n_train + MOST_TEST]


def _sets() -> Iterator[tuple[str, tuple[Any, Any]]]:
    yield "breast cancer, 30", load_breast_cancer(return_X_y=True)
    yield "wine", load_wine(return_X_y=True)
    yield "digits", load_digits(return_X_y=True)
    for name in TABLES:
        yield name, _join(load(name))
    X, y = _join(load("scene15_bow"), N_WORDS)
    yield "scene15, a level", (X / X.sum(axis=1, keepdims=True), y)
    posts = load("news20_bydate_counts")
    frequent = np.argsort(-np.asarray((posts.X_train > 0).sum(axis=0)).ravel(), kind="stable")
    yield "posts", (posts.X_train[:, frequent[:N_POST_WORDS]].toarray() * 1.0, posts.y_train)


def _join(source: Any, n_columns: int | None = None) -> tuple[Any, Any]:
    parts = (source.X_train, source.X_test)
    X, y = [_densify(part[:, :n_columns]) for part in parts], [source.y_train, source.y_test]
    return np.concatenate(X), np.concatenate(y)


def _densify(X: Any) -> Any:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
