"""Searches that evaluate every cell on a sample of the rows first, and few cells on all rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.exact.search_folds import Fold
from widemargin.exact.search_surface import BoolArray, FloatArray, Surface

#: Every sample has so many times the rows of the one before.
GROWTH = 4
#: Most samples before all rows, fewest rows of a sample, and fewest of each class for every fold.
MOST_SAMPLES, LEAST_ROWS, LEAST_OF_CLASS = 3, 100, 2
#: Most cells that remain after a sample, as a share of those that were evaluated on it.
KEPT_SHARE = 0.2
#: Most that a cell may gain by more rows, as a multiple of what good cells gained.
MOST_GAIN = 2.0
#: A cell is dropped if the score that it may reach is lower than that of the best one by more than so
#: many standard errors of their difference over the folds.
STANDARD_ERRORS = 2.0


def sample_sizes(n_rows: int) -> list[int]:
    """Sizes of the samples, ascending; empty if all rows are few enough."""
    sizes: list[int] = []
    size = n_rows // GROWTH
    while size >= LEAST_ROWS and len(sizes) < MOST_SAMPLES:
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

    More rows favour narrow kernels and large C. Two samples tell by how much: with the next four times
    as many rows a cell gains at most as much as with the last, and at most `MOST_GAIN` times what good
    cells gained. The first sample drops nothing. The rules, in this order:

    1. A cell is dropped if its score plus that gain is lower than the best score so far by more than
       `STANDARD_ERRORS` standard errors of the difference of their scores over the folds.
    2. Of the others, the best `KEPT_SHARE` of all evaluated cells remain, by score plus gain.
    3. The neighbours of the cell with the best score remain in any case.
    """
    means = surface.means
    notes = np.full(means.shape, "", object)
    kept = ~np.isnan(means)
    best = surface.choose()
    if np.isnan(surface.sample_scores).all() or best is None or not kept[best]:
        return kept, notes
    reached = means + estimate_gains(means, surface.sample_scores)
    lag = means[best] - reached
    is_worse = kept & (lag > STANDARD_ERRORS * difference_error(surface.scores, best))
    ranks = np.full(means.shape, np.inf)
    ranks[kept] = np.argsort(np.argsort(-reached[kept], kind="stable"), kind="stable")
    is_late = kept & (ranks >= max(1, round(KEPT_SHARE * np.count_nonzero(kept))))
    survivors = kept & (~(is_worse | is_late) | _neighbours(means.shape, best))
    notes[is_late & ~survivors] = f"dropped: not among the best {KEPT_SHARE:.0%} on a sample"
    notes[is_worse & ~survivors] = (
        f"dropped: worse than the best by {STANDARD_ERRORS:g} standard errors on a sample"
    )
    return survivors, notes


def estimate_gains(means: FloatArray, before: FloatArray) -> FloatArray:
    """By how much cells may improve with more rows, from their scores on two samples.

    Good cells are the best quarter: what a cell gains when it leaves chance level tells nothing.
    """
    gains = np.maximum(np.nan_to_num(means - before), 0.0)
    is_good = means >= np.nanquantile(means, 0.75)
    return np.minimum(gains, MOST_GAIN * float(np.median(gains[is_good])))


def difference_error(scores: FloatArray, best: tuple[Any, ...]) -> FloatArray:
    """The standard error of the difference between each cell and the best one.

    The difference is that of scores on the same folds, so that what makes a fold difficult for all
    cells does not count.
    """
    n_folds = scores.shape[-1]
    if n_folds < 2:
        return np.full(scores.shape[:-1], np.inf)
    error: FloatArray = (scores[best] - scores).std(axis=-1, ddof=1) / np.sqrt(n_folds)
    return error


def _neighbours(shape: tuple[int, ...], cell: tuple[Any, ...]) -> BoolArray:
    """Marks a cell and those next to it, diagonally too."""
    near = np.ones(shape, bool)
    for axis, (size, at) in enumerate(zip(shape, cell, strict=True)):
        is_close = np.abs(np.arange(size) - at) <= 1
        near &= np.expand_dims(is_close, [a for a in range(len(shape)) if a != axis])
    return near
