"""Searches that evaluate every cell on a sample of the rows first, and few cells on all rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.exact.search_folds import Fold
from widemargin.exact.search_path import ROUGH_TOL
from widemargin.exact.search_surface import BoolArray, Cell, Surface

#: Every sample has so many times the rows of the one before.
GROWTH = 4
#: Most rows of the sample on which all cells are evaluated, fewest rows of any sample, and fewest of
#: each class for every fold.
FIRST_ROWS, LEAST_ROWS, LEAST_OF_CLASS = 1500, 100, 2
#: Tolerance of the solver on samples, if it is larger than that of the search.
SAMPLE_TOL = ROUGH_TOL
#: Standard errors by which a peak of the scores may be lower than the best one to be explored.
RIVAL_ERRORS = 1.0
#: Why a cell was not evaluated on more rows.
POOR_GAMMA = "dropped: its gamma was poor for every C on a sample"
OTHER_COST = "dropped: another C was better for its gamma on a sample"


def sample_sizes(n_rows: int) -> list[int]:
    """Sizes of the samples, ascending; empty if all rows are few enough."""
    sizes: list[int] = []
    size = n_rows // GROWTH
    while size >= LEAST_ROWS:
        sizes.append(size)
        if size <= FIRST_ROWS:
            break
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

    More rows favour narrower kernels, and a sample does not tell by how much. So every gamma remains,
    with the C (and epsilon) that was best for it, unless even that was nearer to the worst score of
    the sample than to the best one. Where the search goes from there: see `find_next`.
    """
    means = surface.means
    notes = np.full(means.shape, "", object)
    kept = ~np.isnan(means)
    if not kept.any():
        return kept, notes
    by_gamma = np.where(kept, means, -np.inf).reshape(len(means), -1)
    best = by_gamma.max(axis=1)
    is_poor = best - means[kept].min() < 0.5 * (best.max() - means[kept].min())
    is_best = np.zeros(by_gamma.shape, bool)
    is_best[np.flatnonzero(~is_poor), by_gamma.argmax(axis=1)[~is_poor]] = True
    survivors: BoolArray = is_best.reshape(means.shape)
    notes[kept & ~survivors] = OTHER_COST
    notes[is_poor] = POOR_GAMMA
    return survivors, notes


def find_next(surface: Surface) -> BoolArray:
    """Neighbours of the best cell and of its rivals that were not evaluated on the rows of this stage.

    Evaluated until there are none, they lead from the best of the cells that a smaller sample left
    uphill to a cell that is at least as good as all cells around it. A rival is another cell that is
    better than all cells around it that are known, and worse than the best one by no more than the
    standard error of that difference over the folds. Without rivals a search ends at the first of
    several hills, where the scores of one held-out row decide.
    """
    best, wanted = surface.choose(), np.zeros(surface.grid.shape, bool)
    if best is None:
        return wanted
    for cell in (best, *_find_rivals(surface, best)):
        wanted |= _neighbours(surface.grid.shape, cell)
    return wanted & ~surface.is_complete


def _find_rivals(surface: Surface, best: Cell) -> list[Cell]:
    """Peaks among the evaluated cells that folds hardly tell from the best cell."""
    means = np.where(surface.is_complete, surface.means, -np.inf)
    differences = surface.scores - surface.scores[best]
    error = differences.std(axis=-1) / np.sqrt(max(surface.n_folds - 1, 1))
    is_close = surface.is_complete & (means >= means[best] - RIVAL_ERRORS * error)
    is_close[best] = False
    rivals = []
    for g, e, c in np.argwhere(is_close):
        around = means[_neighbours(means.shape, (g, e, c))]
        if np.count_nonzero(around >= means[g, e, c]) == 1:
            rivals.append((int(g), int(e), int(c)))
    return rivals


def _neighbours(shape: tuple[int, ...], cell: tuple[Any, ...]) -> BoolArray:
    """Marks a cell and those next to it, diagonally too."""
    near = np.ones(shape, bool)
    for axis, (size, at) in enumerate(zip(shape, cell, strict=True)):
        is_close = np.abs(np.arange(size) - at) <= 1
        near &= np.expand_dims(is_close, [a for a in range(len(shape)) if a != axis])
    return near
