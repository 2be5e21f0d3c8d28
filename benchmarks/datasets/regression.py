"""Regression: features and targets of mean zero and variance one, parameters by cross-validation."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import KFold
from sklearn.svm import SVR

from benchmarks.records import BenchmarkData
from benchmarks.settings import CACHE_MEGABYTES, THREADS, TOL
from widemargin.datasets import load as load_source

#: Test rows: one in five, at most so many.
MAX_TEST_ROWS = 10_000
#: Rows and folds of the cross-validation.
CHOICE_ROWS, CHOICE_FOLDS = 1500, 3
#: Powers of two for C and for gamma times the number of features; widths of the tube.
C_GRID = (-2, 0, 2, 4, 6)
GAMMA_GRID = (-4, -2, 0, 2)
EPSILON_GRID = (0.01, 0.05, 0.2)

Parts = tuple[Any, NDArray[np.float64]]


def read_dense(name: str) -> Parts:
    """All rows of a set, with the split of the loader undone, because none is published."""
    source = load_source(name)
    X = np.concatenate([source.X_train, source.X_test]).astype(np.float64)
    return X, np.concatenate([source.y_train, source.y_test]).astype(np.float64)


def read_elevation() -> Parts:
    """60,000 random rows of covtype: the first column, the elevation, from the 53 others."""
    X, _ = read_dense("covtype")
    rows = np.random.RandomState(0).permutation(len(X))[:60_000]
    return X[rows, 1:], X[rows, 0]


def read_posts() -> Parts:
    """Newsgroup posts: the logarithm of the number of words from tf-idf weights of unit length."""
    source = load_source("news20_bydate_counts")
    counts = sparse.vstack([source.X_train, source.X_test]).tocsr().astype(np.float64)
    n_words = np.asarray(counts.sum(axis=1)).ravel()
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts), np.log1p(n_words)


#: Name in the tables -> how its rows are read.
SETS: dict[str, Callable[[], Parts]] = {
    "kin40k": lambda: read_dense("reg_kin40k"),
    "protein": lambda: read_dense("reg_protein"),
    "california": lambda: read_dense("reg_california"),
    "bike": lambda: read_dense("reg_bike"),
    "elevators": lambda: read_dense("reg_elevators"),
    "covtype-elevation": read_elevation,
    "news20-length": read_posts,
}


#: Name in the tables -> the set of which it is a sample, and its training rows.
SAMPLES = {
    "kin40k-6k": ("kin40k", 6000),
    "protein-6k": ("protein", 6000),
    "california-6k": ("california", 6000),
    "bike-6k": ("bike", 6000),
    "elevators-6k": ("elevators", 6000),
    "covtype-elevation-6k": ("covtype-elevation", 6000),
    "news20-length-3k": ("news20-length", 3000),
}


def find_source(name: str) -> str:
    """Name the set of a sample; sets are their own."""
    return SAMPLES[name][0] if name in SAMPLES else name


def load(name: str) -> BenchmarkData:
    """Load a set with a random split of our own; the parameters are still to be chosen.

    The training rows are in random order, and a sample has the first of them.
    """
    X, y = SETS[find_source(name)]()
    order = np.random.RandomState(0).permutation(len(y))
    n_test = min(len(y) // 5, MAX_TEST_ROWS)
    train, test = order[n_test:], order[:n_test]
    if name in SAMPLES:
        train = train[: SAMPLES[name][1]]
    if not sparse.issparse(X):
        X = standardise(X, train)
    y = standardise(y, train)
    X = X.astype(np.float32)
    return BenchmarkData(name, X[train], y[train], X[test], y[test], {})


def standardise(values: NDArray[np.float64], train: NDArray[np.intp]) -> NDArray[np.float64]:
    """Mean zero and variance one on the training rows; what is constant becomes zero."""
    spread = values[train].std(axis=0)
    return (values - values[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def choose_parameters(dataset: str) -> Iterator[dict[str, Any]]:
    """Choose C, gamma and epsilon by cross-validation of scikit-learn's SVR on the first rows.

    The training rows are in random order. The peer chooses, so that the choice does not depend on the
    solver under test.
    """
    data = load(dataset)
    X, y = data.X_train[:CHOICE_ROWS], data.y_train[:CHOICE_ROWS]
    # Rows of unit length have distances of order one, whatever the number of features.
    width = 1.0 if sparse.issparse(X) else X.shape[1]
    grid = [
        {"C": 2.0**C, "gamma": 2.0**gamma / width, "epsilon": epsilon}
        for C, gamma, epsilon in product(C_GRID, GAMMA_GRID, EPSILON_GRID)
    ]
    # LIBSVM releases the interpreter, so threads are enough.
    fits = (delayed(cross_validate)(X, y, params) for params in grid)
    errors = Parallel(n_jobs=THREADS, prefer="threads")(fits)
    best = int(np.argmin(errors))
    yield {
        "params": grid[best],
        "cv_rmse": errors[best],
        "cv_rows": len(y),
        "cv_folds": CHOICE_FOLDS,
        "cv_settings": len(grid),
    }


def cross_validate(X: Any, y: NDArray[np.float64], params: dict[str, float]) -> float:
    """Root mean squared error of rows that are held out."""
    squares = 0.0
    for kept, held_out in KFold(CHOICE_FOLDS).split(y):
        model = SVR(tol=TOL, cache_size=CACHE_MEGABYTES / 10, **params).fit(X[kept], y[kept])
        squares += float(np.sum((model.predict(X[held_out]) - y[held_out]) ** 2))
    return float(np.sqrt(squares / len(y)))
