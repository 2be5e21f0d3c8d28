"""Data of ``benchmarks/early.py`` that are made: Gaussian features without clusters, and letters."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.sets import load_set
from benchmarks.records import BenchmarkData
from widemargin.datasets import load

#: Test rows of every set, at most.
TEST_ROWS = 20_000
#: Training rows of each set.
SETS = {
    "covtype": 50_000, "ijcnn1": 49_990, "census": 50_000, "mnist": 60_000, "cifar": 10_000,
    "gauss": 60_000, "letters": 30_000,
}  # fmt: skip
#: Classes of the letters and their number of features.
N_LETTERS, LETTER_FEATURES = 26, 16


def load_rows(name: str, n_rows: int | None = None) -> BenchmarkData:
    """Load a set with its number of training rows, or with fewer."""
    n_rows = SETS[name] if n_rows is None else n_rows
    if name == "gauss":
        return make_gauss(n_rows)
    return make_letters(n_rows) if name == "letters" else load_set(name, n_rows)


def make_gauss(n_rows: int) -> BenchmarkData:
    """Twenty Gaussian features without clusters, and a label that all of them decide with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows + TEST_ROWS, 20)).astype(np.float32)
    score = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + np.sin(2 * X[:, 4])
    score += 0.5 * X @ rng.normal(size=20) + 0.5 * rng.normal(size=len(X))
    y = np.where(score > 0, 1, -1)
    params = {"C": 1.0, "gamma": 0.05}
    return BenchmarkData("gauss", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], params)


def make_letters(n_rows: int) -> BenchmarkData:
    """Images of MNIST as 26 classes of 16 features: digits upright, mirrored, and six turned round.

    Images are drawn again and again, with noise in their principal components.
    """
    source, rng = load("mnist"), np.random.default_rng(0)
    pixels = source.X_train.reshape(-1, 28, 28).astype(np.float32) / 255.0
    of_digit = [np.flatnonzero(source.y_train == digit) for digit in range(10)]
    y = rng.integers(N_LETTERS, size=n_rows + TEST_ROWS // 2)
    images = np.stack([_draw_letter(pixels, of_digit, int(letter), rng) for letter in y])
    flat = images.reshape(len(y), -1)
    X = _project(flat) + 0.1 * rng.normal(size=(len(y), LETTER_FEATURES))
    X = X.astype(np.float32)
    params = {"C": 8.0, "gamma": 0.5}
    return BenchmarkData("letters", X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], params)


def _draw_letter(
    pixels: NDArray[np.float32], of_digit: list[NDArray[np.intp]], letter: int,
    rng: np.random.Generator,
) -> NDArray[np.float32]:  # fmt: skip
    image = pixels[rng.choice(of_digit[letter % 10])]
    if letter < 10:
        return image
    return image.T if letter < 20 else image[::-1, ::-1]


def _project(flat: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the leading principal components, the first of unit variance."""
    centred = (flat - flat.mean(axis=0)).astype(np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    scores = centred @ vectors[:, : -LETTER_FEATURES - 1 : -1]
    return scores / scores[:, 0].std()
