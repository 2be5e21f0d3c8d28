"""The choice among kernels by held-out rows of a sample."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from widemargin.problem import Problem, take_rows

#: Most rows of the sample, and the number of its parts, each of which is held out once.
SAMPLE_ROWS, N_FOLDS = 2000, 3
#: Most times that few rows are dealt into parts, which makes as many predictions as a full sample.
MOST_DEALS = 5


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
    The sample has at most `SAMPLE_ROWS` rows, and the parts have equal shares of every class. Fewer
    rows are dealt into parts several times. Parts without which there is one class only are not held
    out; without any part the first name is chosen.
    """
    chosen = np.random.default_rng(seed).permutation(len(problem.labels))[:SAMPLE_ROWS]
    sample = take_rows(problem, np.sort(chosen))
    right = dict.fromkeys(names, 0.0)
    for train, test in split_sample(sample, seed):
        for name in names:
            is_right = predict(name, train, test) == test.labels
            right[name] += float(test.sample_weights @ is_right)
    return max(names, key=lambda name: right[name])


def split_sample(sample: Problem, seed: int) -> Iterator[tuple[Problem, Problem]]:
    """Yield rows to fit to and rows held out, for every part of every deal."""
    for deal in range(count_deals(len(sample.labels))):
        fold = deal_folds(sample.labels, seed + deal)
        for number in range(N_FOLDS):
            inside, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            if len(held) > 0 and len(np.unique(sample.labels[inside])) >= 2:
                yield take_rows(sample, inside), take_rows(sample, held)


def count_deals(n_rows: int) -> int:
    """Return how often so many rows are dealt into parts; few rows more than once."""
    return min(MOST_DEALS, max(1, SAMPLE_ROWS // n_rows))


def deal_folds(labels: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """Return the part of every row; the rows of each class are dealt to all parts in turn."""
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), np.intp)
    fold[order] = np.arange(len(labels)) % N_FOLDS
    return fold
