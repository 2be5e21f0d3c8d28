"""Searches that evaluate every cell on a sample of the rows first, and few cells on all rows."""

import numpy as np
from numpy.typing import NDArray

from widemargin.exact.search_folds import Fold
from widemargin.exact.search_surface import BoolArray, FloatArray, Surface

#: Every sample has so many times the rows of the one before.
GROWTH = 4
#: Fewest rows of a sample, and fewest of each class for every fold.
LEAST_ROWS, LEAST_OF_CLASS = 500, 2
#: Most cells that remain after a sample, as a share of those that were evaluated on it.
KEPT_SHARE = 0.25
#: A cell is dropped if its mean score is lower than the best one by more than so many standard errors
#: of their difference over the folds.
STANDARD_ERRORS = 2.0


def sample_sizes(n_rows: int) -> list[int]:
    """Sizes of the samples, ascending; empty if all rows are few enough."""
    sizes = []
    size = n_rows // GROWTH
    while size >= LEAST_ROWS:
        sizes.append(size)
        size //= GROWTH
    return sizes[::-1]


def order_rows(labels: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """Random order in which every prefix holds the classes nearly in proportion."""
    rng = np.random.default_rng(seed)
    rank = np.empty(len(labels))
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        rank[rows] = (rng.permutation(len(rows)) + 1e-3 * rng.random(len(rows))) / len(rows)
    return np.argsort(rank)


def take_sample(folds: list[Fold], order: NDArray[np.intp], size: int) -> list[Fold]:
    """The folds with the training rows of a sample, and at least some of every class."""
    is_sampled = np.zeros(len(order), bool)
    is_sampled[order[:size]] = True
    for fold in folds:
        for problem in fold.problems:
            for side in (problem.target > 0, problem.target <= 0):
                rows = problem.index[side]
                # In the order of the sample, so that a larger sample contains a smaller one.
                is_sampled[rows[np.argsort(_positions(order)[rows])[:LEAST_OF_CLASS]]] = True
    return [fold.among(is_sampled) for fold in folds]


def _positions(order: NDArray[np.intp]) -> NDArray[np.intp]:
    positions = np.empty(len(order), np.intp)
    positions[order] = np.arange(len(order))
    return positions


def find_survivors(surface: Surface) -> tuple[BoolArray, NDArray[np.object_]]:
    """Cells to evaluate on more rows, and for the others why not.

    The rules, in this order:

    1. A cell that is worse than the best one by more than `STANDARD_ERRORS` standard errors of their
       difference over the folds is dropped.
    2. Of the others, the best `KEPT_SHARE` of all evaluated cells remain.
    3. The neighbours of the best cell remain in any case: more rows move the optimum, most often to
       larger C and gamma.
    """
    means = surface.means
    best = surface.choose()
    notes = np.full(means.shape, "", object)
    kept = ~np.isnan(means)
    if best is None:
        return kept, notes
    lag, error = compare_to_best(surface.scores, best)
    is_worse = kept & (lag > STANDARD_ERRORS * error)
    ranks = np.full(means.shape, np.inf)
    ranks[kept] = np.argsort(np.argsort(-means[kept], kind="stable"), kind="stable")
    is_late = kept & (ranks >= max(1, round(KEPT_SHARE * np.count_nonzero(kept))))
    near = kept & _neighbours(means.shape, best)
    survivors = kept & ~is_worse & ~is_late | near
    notes[is_late & ~survivors] = "dropped: not among the best quarter on a sample"
    notes[is_worse & ~survivors] = "dropped: worse than the best by two standard errors on a sample"
    return survivors, notes


def compare_to_best(
    scores: FloatArray, best: tuple[int, int, int]
) -> tuple[FloatArray, FloatArray]:
    """By how much each cell is worse than the best one, and the standard error of that.

    The difference is that of scores on the same folds, so that what makes a fold difficult for all
    cells does not count.
    """
    lag = scores[best] - scores
    n_folds = scores.shape[-1]
    if n_folds < 2:
        return lag[..., 0], np.full(lag.shape[:-1], np.inf)
    return lag.mean(axis=-1), lag.std(axis=-1, ddof=1) / np.sqrt(n_folds)


def _neighbours(shape: tuple[int, ...], cell: tuple[int, ...]) -> BoolArray:
    """Marks a cell and those next to it, diagonally too."""
    near = np.ones(shape, bool)
    for axis, (size, at) in enumerate(zip(shape, cell, strict=True)):
        is_close = np.abs(np.arange(size) - at) <= 1
        near &= np.expand_dims(is_close, [a for a in range(len(shape)) if a != axis])
    return near
