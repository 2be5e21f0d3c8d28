"""The data of the quick guard.

The data are scikit-learn's digits and three generated sets, so that everyone can run the guard,
nothing is downloaded, and its figures do not depend on a folder. Each copies what makes a real set
easy or hard for its family:

- *terrain* is like covtype: ten smooth measurements of a place and the kind of ground there, a
  winding boundary that needs a narrow kernel, wrong labels, about a third of the rows support vectors;
- *histograms* are like bags of words and of colours: counts in many bins of which most are small or
  zero, classes that differ in the shape of all bins a little; short ones are sparse;
- *census* is like a1a: 14 answers as 126 zeros and ones, a quarter of the rows positive, noise.

They come from ``RandomState``, whose numbers NumPy promises to keep. The ratios are a guard and not
claims: those are measured on real sets by the other commands.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from benchmarks.records import BenchmarkData


def split(name: str, X: Any, y: NDArray[Any], n_train: int, **params: float) -> BenchmarkData:
    """The first rows to train with, the others to test."""
    name = f"{name} {n_train:,}"
    return BenchmarkData(name, X[:n_train], y[:n_train], X[n_train:], y[n_train:], params)


def make_terrain(n_train: int, n_test: int) -> BenchmarkData:
    """Places on a map: smooth measurements, kind of ground, and a winding boundary."""
    rng = np.random.RandomState(0)
    n = n_train + n_test
    place = rng.random_sample((n, 3))
    height = add_waves(rng, place, n_waves=40, frequency=10.0)
    is_wrong = rng.random_sample(n) < 0.05
    y = np.where((height > np.median(height)) ^ is_wrong, 1, -1)
    angle = place @ rng.normal(0.0, 1.5, (3, 10)) + rng.uniform(0.0, 2.0 * np.pi, 10)
    ground = cdist(place, rng.random_sample((20, 3))).argmin(axis=1)
    X = np.hstack([0.5 + 0.5 * np.cos(angle), np.eye(20)[ground]]).astype(np.float32)
    return split("terrain", X, y, n_train, C=32.0, gamma=32.0)


def add_waves(
    rng: np.random.RandomState, place: NDArray[np.float64], n_waves: int, frequency: float
) -> NDArray[np.float64]:
    """A random smooth function: waves of many directions and lengths."""
    direction = rng.normal(0.0, frequency, (place.shape[1], n_waves))
    return np.cos(place @ direction + rng.uniform(0.0, 2.0 * np.pi, n_waves)).sum(axis=1)


def make_digits(n_train: int) -> BenchmarkData:
    """Handwritten digits and their shifts by one pixel; all five of an image on the same side."""
    images, y = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) / 16.0
    wide = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    corners = ((1, 1), (0, 1), (2, 1), (1, 0), (1, 2))
    shifted = [wide[:, i : i + 8, j : j + 8] for i, j in corners]
    X = np.stack(shifted, axis=1).reshape(-1, 64).astype(np.float32)
    return split("digits", X, np.repeat(y, len(corners)), n_train, C=10.0, gamma=0.05)


def make_histograms(
    name: str,
    sizes: tuple[int, int],
    *,
    n_bins: int,
    n_classes: int,
    length: float,
    spread: float,
) -> BenchmarkData:
    """Counts, about ``length`` a row, divided by the largest count of their bin.

    ``sizes`` are the numbers of training and test rows.
    """
    n_train, n_test = sizes
    rng = np.random.RandomState(0)
    y = rng.randint(n_classes, size=n_train + n_test)
    shape = 0.3 * np.exp(spread * rng.normal(size=(n_classes, n_bins)))
    weight = rng.gamma(shape[y])
    counts = rng.poisson(length * weight / weight.sum(axis=1, keepdims=True))
    X = np.minimum(counts / np.maximum(counts[:n_train].max(axis=0), 1), 1.0)
    return split(name, X, y, n_train)


def make_words(n_train: int, n_test: int) -> BenchmarkData:
    """Short histograms with many bins, as sparse rows."""
    data = make_histograms(
        "words", (n_train, n_test), n_bins=2000, n_classes=10, length=100.0, spread=0.4
    )
    X_train, X_test = (sparse.csr_matrix(part) for part in (data.X_train, data.X_test))
    return BenchmarkData(data.name, X_train, data.y_train, X_test, data.y_test, {})


def make_census(n_train: int, n_test: int) -> BenchmarkData:
    """Answers to 14 questions with nine choices each, as sparse zeros and ones."""
    rng = np.random.RandomState(0)
    n, n_questions, n_choices = n_train + n_test, 14, 9
    odds = rng.dirichlet(np.full(n_choices, 0.7), n_questions)
    answers = np.stack([rng.choice(n_choices, n, p=p) for p in odds], axis=1)
    X = np.eye(n_choices)[answers].reshape(n, -1)
    n_columns = X.shape[1]
    alone = X @ rng.normal(size=n_columns)
    together = np.einsum("ij,ij->i", X @ rng.normal(size=(n_columns, n_columns)), X)
    score = alone + 0.2 * together
    score = (score - score.mean()) / score.std() + 0.45 * rng.normal(size=n)
    y = np.where(score > 0.7, 1, -1)
    return split("census", sparse.csr_matrix(X), y, n_train, C=4.0, gamma=0.04)
