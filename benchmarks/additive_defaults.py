"""The default C of the additive classifiers, and whether their intercept is free, by measurement."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from benchmarks.additive_models import Parts, counts, judge, scaled
from benchmarks.experiments import Row
from widemargin import AdditiveSVC, IntersectionSVC, PowerMeanSVC
from widemargin.datasets import load

#: Numbers that the mean of k(x, x) divides to give C.
COSTS = (3.0, 10.0, 30.0, 100.0)
#: Tables, scaled to [0, 1].
TABLES = ("segment", "keel_vowel", "diabetes", "keel_vehicle", "german_numer_scale")


def run_defaults() -> Iterator[Row]:
    """Accuracy (%) and seconds with C = number / mean of k(x, x), by kind of intercept; one thread."""
    for name, parts in _sets():
        X, y, _, _ = parts
        for model in _models():
            warnings.simplefilter("ignore", ConvergenceWarning)
            mean = model.fit(X[:300], y[:300]).fit(X, y).kernel_mean_
            for intercept in ("free", True):
                row: Row = {
                    "data": name, "model": type(model).__name__, "intercept": str(intercept)
                }  # fmt: skip
                for cost in COSTS:
                    model.set_params(C=cost / mean, fit_intercept=intercept)
                    judged = judge("", model, parts)
                    row |= {f"{cost:g} (%)": judged["accuracy (%)"]}
                    row |= {f"{cost:g} (s)": judged["fit (s)"]}
                yield row


def _models() -> tuple[Any, ...]:
    one = {"n_jobs": 1, "random_state": 0}
    return AdditiveSVC(**one), IntersectionSVC(**one), PowerMeanSVC(lut=True, **one)


def _sets() -> Iterator[tuple[str, Parts]]:
    X, y = load_digits(return_X_y=True)
    X, Z, y, z = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    yield "digits", (X, y, Z, z)
    for name in TABLES:
        yield name, scaled(name)
    yield "mnist", _few_pixels()
    yield "scene15", counts("scene15_bow")


def _few_pixels() -> Parts:
    """5,000 random digits of mnist, with 196 means of four pixels each."""
    source = load("mnist")
    rows = np.random.RandomState(0).permutation(len(source.y_train))[:5000]

    def shrink(X: Any) -> Any:
        squares = X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
        return squares.reshape(len(X), -1) / 255.0

    return (
        shrink(source.X_train[rows]), source.y_train[rows], shrink(source.X_test[:5000]),
        source.y_test[:5000],
    )  # fmt: skip
