"""The choice among kernels by held-out rows of a sample."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from widemargin.problem import Problem, take_rows

#: Most rows of the sample, and the number of its parts, each of which is held out once.
SAMPLE_ROWS, N_FOLDS = 2000, 3


def choose_by_folds(
    problem: Problem,
    names: Sequence[str],
    predict: Callable[[str, Problem, Problem], NDArray[np.intp]],
    seed: int,
) -> str:
    """Return the name whose predictions for held-out rows are right most often, the first of equals.

    Parameters
    ----------
    problem : Problem
        The training data.
    names : sequence of str
        What is compared.
    predict : callable
        Called with a name, the rows to fit to and the rows held out; returns the classes of these.
    seed : int
        Seed of the sample and of its parts.

    Notes
    -----
    The sample has at most `SAMPLE_ROWS` rows, and the parts have equal shares of every class. Parts
    without which there is one class only are not held out; without any part the first name is chosen.
    """
    chosen = np.random.default_rng(seed).permutation(len(problem.labels))[:SAMPLE_ROWS]
    sample = take_rows(problem, np.sort(chosen))
    fold = deal_folds(sample.labels, seed)
    right = dict.fromkeys(names, 0.0)
    for number in range(N_FOLDS):
        inside, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        if len(held) == 0 or len(np.unique(sample.labels[inside])) < 2:
            continue
        train, test = take_rows(sample, inside), take_rows(sample, held)
        for name in names:
            is_right = predict(name, train, test) == test.labels
            right[name] += float(test.sample_weights @ is_right)
    return max(names, key=lambda name: right[name])


def deal_folds(labels: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """Return the part of every row; the rows of each class are dealt to all parts in turn."""
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), np.intp)
    fold[order] = np.arange(len(labels)) % N_FOLDS
    return fold
