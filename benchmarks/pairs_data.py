"""Tables on which additive models are compared: small and larger ones, categories, words, wide."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_selection import chi2
from sklearn.model_selection import StratifiedShuffleSplit

from benchmarks.papers.sets import CENSUS_CATEGORIES, CENSUS_WEIGHT
from widemargin.datasets import load

#: Share of the rows of small tables that is held out, and how often they are divided at random.
TEST_SHARE, N_DIVISIONS = 0.4, 2
#: Training rows of larger tables and of the census, and test rows, at most.
TRAIN_ROWS, CENSUS_ROWS, TEST_ROWS = 5000, 10_000, 20_000
#: Groups of news20 whose posts are told apart by all words, and the group of advertisements.
WIDE_GROUPS, ADVERTISEMENTS = (1, 5), 6
#: Words whose frequencies make a table that is like one of spam, and the share of advertisements.
N_WORDS, ADVERTISED_SHARE = 54, 0.39


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows X, y and test rows Z, z of two classes, 0 and 1.

    Attributes
    ----------
    categories : tuple of int
        Columns that hold numbers of categories.
    """

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    Z: Any = field(repr=False)
    z: Any = field(repr=False)
    categories: tuple[int, ...] = ()


def divide(name: str) -> Iterator[Table]:
    """Random divisions of a small table."""
    source = load(name)
    X = np.concatenate([source.X_train, source.X_test]).astype(np.float64)
    y = _number_classes(np.concatenate([source.y_train, source.y_test]))
    splitter = StratifiedShuffleSplit(N_DIVISIONS, test_size=TEST_SHARE, random_state=0)
    for train, test in splitter.split(X, y):
        yield Table(X[train], y[train], X[test], y[test])


def draw(name: str, n_rows: int = TRAIN_ROWS, n_tests: int = TEST_ROWS) -> Iterator[Table]:
    """Random rows of both parts of a set."""
    source = load(name)
    rows = _draw_rows(len(source.y_train), n_rows)
    tests = _draw_rows(len(source.y_test), n_tests)
    parts = source.X_train[rows], source.X_test[tests]
    X, Z = (p.toarray() if sparse.issparse(p) else p for p in parts)
    y, z = _number_classes(source.y_train[rows]), _number_classes(source.y_test[tests])
    yield Table(X.astype(np.float64), y, Z.astype(np.float64), z)


def draw_census(n_rows: int = CENSUS_ROWS, n_tests: int = TEST_ROWS) -> Iterator[Table]:
    """The census without its column of weights."""
    (table,) = draw("census_income_kdd", n_rows, n_tests)
    kept = [j for j in range(table.X.shape[1]) if j != CENSUS_WEIGHT]
    categories = tuple(kept.index(j) for j in CENSUS_CATEGORIES)
    yield Table(table.X[:, kept], table.y, table.Z[:, kept], table.z, categories)


def draw_covtype() -> Iterator[Table]:
    """Class 2 of covtype against the others."""
    source = load("covtype")
    rows, tests = (
        _draw_rows(len(y), n) for y, n in ((source.y_train, TRAIN_ROWS), (source.y_test, TEST_ROWS))
    )
    X, Z = (p.astype(np.float64) for p in (source.X_train[rows], source.X_test[tests]))
    y, z = (np.asarray(p == 2, int) for p in (source.y_train[rows], source.y_test[tests]))
    yield Table(X, y, Z, z)


def count_words() -> Iterator[Table]:
    """Advertisements among posts of news20, as a table like those of spam: 57 columns.

    The columns are the frequencies (%) of the 54 words that tell most about the training rows, the
    number of words, the number of different words, and the largest count of a word.
    """
    source = load("news20_bydate_counts")
    parts = []
    for X, labels in ((source.X_train, source.y_train), (source.X_test, source.y_test)):
        advertised = np.flatnonzero(labels == ADVERTISEMENTS)
        n_others = round(len(advertised) * (1.0 / ADVERTISED_SHARE - 1.0))
        others = np.flatnonzero(labels != ADVERTISEMENTS)
        rows = np.concatenate([advertised, others[_draw_rows(len(others), n_others)]])
        rows = rows[_draw_rows(len(rows), len(rows))]
        parts.append((X[rows].astype(np.float64), (labels[rows] == ADVERTISEMENTS).astype(int)))
    (X, y), (Z, z) = parts
    words = np.sort(np.argsort(-np.nan_to_num(chi2(X, y)[0]), kind="stable")[:N_WORDS])
    yield Table(_describe_posts(X, words), y, _describe_posts(Z, words), z)


def read_wide() -> Iterator[Table]:
    """Posts of two groups of news20, comp.graphics and comp.windows.x: counts of all their words."""
    source = load("news20_bydate_counts")
    parts = []
    for X, labels in ((source.X_train, source.y_train), (source.X_test, source.y_test)):
        rows = np.flatnonzero(np.isin(labels, WIDE_GROUPS))
        rows = rows[_draw_rows(len(rows), len(rows))]
        parts.append((X[rows], labels[rows]))
    (X, y), (Z, z) = parts
    known = np.flatnonzero(X.getnnz(axis=0))
    X, Z = (part[:, known].astype(np.float64) for part in (X, Z))
    yield Table(X, _number_classes(y), Z, _number_classes(z))


def _describe_posts(X: Any, words: Any) -> Any:
    lengths = np.asarray(X.sum(axis=1)).ravel()
    shares = 100.0 * X[:, words].toarray() / np.maximum(lengths, 1.0)[:, None]
    return np.column_stack([shares, lengths, X.getnnz(axis=1), X.max(axis=1).toarray()])


def _draw_rows(n: int, n_drawn: int) -> Any:
    return np.random.default_rng(0).permutation(n)[:n_drawn]


def _number_classes(y: Any) -> Any:
    return np.unique(y, return_inverse=True)[1]


#: Name -> divisions into training and test rows.
SETS: dict[str, Callable[[], Iterator[Table]]] = {
    "breast_cancer": partial(divide, "breast_cancer"),
    "diabetes": partial(divide, "diabetes"),
    "german": partial(divide, "german_numer_scale"),
    "heart": partial(divide, "heart_scale"),
    "ionosphere": partial(divide, "ionosphere"),
    "posts": count_words,
    "a1a": partial(draw, "a1a"),
    "ijcnn1": partial(draw, "ijcnn1"),
    "covtype": draw_covtype,
    "census": draw_census,
    "news20": read_wide,
}
