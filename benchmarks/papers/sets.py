"""The data sets of the papers, prepared as there, at any number of training rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.additive import histograms, scaled
from benchmarks.datasets.covtype import load as load_covtype
from benchmarks.deformed_digits import ROUND_DIGITS, deform_digits
from benchmarks.records import BenchmarkData
from widemargin.datasets import load

#: The classes of CIFAR-10 that are animals.
ANIMALS = (2, 3, 4, 5, 6, 7)
#: Columns of the census that are categories, and one that says how many people a row stands for.
CENSUS_CATEGORIES = (
    1, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 21, 22, 23, 25, 26, 27, 28, 29, 31, 32, 33, 34,
    35, 37,
)  # fmt: skip
CENSUS_WEIGHT = 24
#: Columns of the KDD cup that are categories, and the label of connections that are no attacks.
KDDCUP_CATEGORIES = (1, 2, 3)
KDDCUP_NORMAL = 16
#: Test rows of covtype if not all training rows are used.
COVTYPE_TEST_ROWS = 20_000
#: Deformed digits that are made at a time, and number and seed of those for testing.
DEFORMED_AT_ONCE, DEFORMED_TEST_ROWS, DEFORMED_TEST_SEED = 20_000, 10_000, 10**6


@dataclass(frozen=True)
class PaperSet:
    """A data set of a paper.

    Attributes
    ----------
    rows : int
        Training rows in all.
    read : callable
        ``read(n_rows)`` returns the data.
    differs : str
        In what our data differ from the paper's, empty if in nothing.
    """

    rows: int
    read: Callable[[int], BenchmarkData]
    differs: str = ""


def load_set(name: str, n_rows: int) -> BenchmarkData:
    """Load a data set with at most so many training rows."""
    known = SETS[name]
    return known.read(min(n_rows, known.rows))


def thin(data: BenchmarkData, n_rows: int) -> BenchmarkData:
    """Keep so many random training rows."""
    n = len(data.y_train)
    if n_rows >= n:
        return data
    rows = np.sort(np.random.RandomState(0).permutation(n)[:n_rows])
    return BenchmarkData(
        data.name, data.X_train[rows], data.y_train[rows], data.X_test, data.y_test, data.params
    )


def read_ijcnn1(n_rows: int) -> BenchmarkData:
    source = load("ijcnn1")
    X, Z = (part.astype(np.float32) for part in (source.X_train, source.X_test))
    params = {"C": 32.0, "gamma": 2.0}
    return thin(BenchmarkData("ijcnn1", X, source.y_train, Z, source.y_test, params), n_rows)


def read_covtype(n_rows: int) -> BenchmarkData:
    n_test = 116_202 if n_rows == SETS["covtype"].rows else COVTYPE_TEST_ROWS
    return load_covtype("covtype", n_rows, n_test)


def read_census(n_rows: int) -> BenchmarkData:
    """Categories as indicators; the first fifth of a random order of the rows is for testing."""
    source = load("census_income_kdd")
    X = one_hot(source.X_train, CENSUS_CATEGORIES, left_out=CENSUS_WEIGHT)
    y = np.where(source.y_train == 1, 1, -1)
    order = np.random.RandomState(0).permutation(len(y))
    test, train = order[:39_904], order[39_904:]
    data = BenchmarkData(
        "census", X[train], y[train], X[test], y[test], {"C": 512.0, "gamma": 2.0**-9}
    )
    return thin(data, n_rows)


def read_kddcup(n_rows: int) -> BenchmarkData:
    """Attacks against normal connections; categories as indicators."""
    source = load("kddcup99_10pct")
    both = one_hot(np.concatenate([source.X_train, source.X_test]), KDDCUP_CATEGORIES)
    labels = [np.where(y == KDDCUP_NORMAL, -1, 1) for y in (source.y_train, source.y_test)]
    n = len(labels[0])
    params = {"C": 256.0, "gamma": 0.5}
    return thin(BenchmarkData("kddcup99", both[:n], labels[0], both[n:], labels[1], params), n_rows)


def read_mnist(n_rows: int) -> BenchmarkData:
    """Round digits against the others, pixels from 0 to 255."""
    source = load("mnist")
    X, Z = (
        part.reshape(len(part), -1).astype(np.float32) for part in (source.X_train, source.X_test)
    )
    y, z = (
        np.where(np.isin(part, ROUND_DIGITS), 1, -1) for part in (source.y_train, source.y_test)
    )
    return thin(BenchmarkData("mnist", X, y, Z, z, {"C": 1.0, "gamma": 2.0**-21}), n_rows)


def read_deformed(n_rows: int) -> BenchmarkData:
    """Digits deformed at random, of which those for testing are deformed in the same way."""
    X, y = np.empty((n_rows, 784), np.uint8), np.empty(n_rows, np.int64)
    for seed, start in enumerate(range(0, n_rows, DEFORMED_AT_ONCE)):
        some = slice(start, start + DEFORMED_AT_ONCE)
        X[some], y[some] = deform_digits(len(y[some]), seed)
    Z, z = deform_digits(DEFORMED_TEST_ROWS, DEFORMED_TEST_SEED)
    y, z = (np.where(part == 1, 1, -1) for part in (y, z))
    return BenchmarkData("mnist-deformed", X, y, Z, z, {"C": 1.0, "gamma": 2.0**-21})


def read_cifar(n_rows: int) -> BenchmarkData:
    """Animals against other things, pixels from 0 to 255."""
    source = load("cifar10_10k")
    X, Z = (
        part.reshape(len(part), -1).astype(np.float32) for part in (source.X_train, source.X_test)
    )
    y, z = (np.where(np.isin(part, ANIMALS), 1, -1) for part in (source.y_train, source.y_test))
    return thin(BenchmarkData("cifar", X, y, Z, z, {"C": 8.0, "gamma": 2.0**-22}), n_rows)


def read_words(name: str, n_rows: int) -> BenchmarkData:
    X, y, Z, z = histograms(f"{name}_bow")
    return thin(BenchmarkData(name, X, y, Z, z, {}), n_rows)


def read_original(name: str, n_rows: int) -> BenchmarkData:
    s = load(name)
    return thin(BenchmarkData(name, s.X_train, s.y_train, s.X_test, s.y_test, {}), n_rows)


def read_scaled(name: str, n_rows: int) -> BenchmarkData:
    X, y, Z, z = scaled(name)
    return thin(BenchmarkData(name, X, y, Z, z, {}), n_rows)


def one_hot(
    X: NDArray[Any], categories: tuple[int, ...], left_out: int | None = None
) -> NDArray[np.float32]:
    """Columns scaled to [0, 1], and those of categories as indicators, in their places."""
    parts = []
    for j in range(X.shape[1]):
        if j == left_out:
            continue
        column = np.asarray(X[:, j])
        if j in categories:
            parts.append((column[:, None] == np.unique(column)).astype(np.float32))
        else:
            low, high = float(column.min()), float(column.max())
            width = high - low if high > low else 1.0
            parts.append(((column[:, None] - low) / width).astype(np.float32))
    return np.concatenate(parts, axis=1)


SETS = {
    "ijcnn1": PaperSet(49_990, read_ijcnn1),
    "covtype": PaperSet(464_810, read_covtype),
    "census": PaperSet(159_619, read_census),
    "kddcup99": PaperSet(494_021, read_kddcup, "a tenth of the training rows"),
    "mnist": PaperSet(60_000, read_mnist, "MNIST itself, not the eight million distorted digits"),
    "mnist-deformed": PaperSet(
        1_000_000, read_deformed, "a million digits, shifted, scaled and turned, not the authors'"
    ),
    "cifar": PaperSet(10_000, read_cifar, "a fifth of the images"),
    "scene15": PaperSet(1_500, partial(read_words, "scene15"), "other visual words"),
    "caltech101": PaperSet(1_515, partial(read_words, "caltech101"), "other visual words"),
    "shuttle": PaperSet(43_500, partial(read_scaled, "shuttle")),
    "ijcnn1-scaled": PaperSet(49_990, partial(read_scaled, "ijcnn1")),
    "ijcnn1-original": PaperSet(49_990, partial(read_original, "ijcnn1")),
}
