"""What a search found out: scores of all cells and folds, and the choice of a cell."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

#: A cell: the number of its gamma, of its epsilon and of its C.
Cell = tuple[int, int, int]

#: What is known of a cell that no solver has stopped in.
NOT_EVALUATED = "not evaluated"


@dataclass(frozen=True)
class Grid:
    """Values of the parameters that are searched; ``epsilons`` holds one NaN in classification."""

    gammas: FloatArray
    epsilons: FloatArray
    costs: FloatArray

    @property
    def shape(self) -> Cell:
        return len(self.gammas), len(self.epsilons), len(self.costs)


@dataclass
class Surface:
    """Results of all cells of a grid; arrays are indexed by gamma, epsilon, C and fold.

    Attributes
    ----------
    scores : ndarray of shape (n_gammas, n_epsilons, n_costs, n_folds)
        Scores on the held-out rows; NaN where a fold was not evaluated.
    fit_seconds, score_seconds : ndarray of the same shape
        Time for solutions, and for decision values and scores.
    stop_reasons : ndarray of object, of the same shape
        Why the solver stopped; empty text where it did not run.
    notes : ndarray of object of shape (n_gammas, n_epsilons, n_costs)
        Why a cell was not evaluated on all rows; empty text otherwise.
    n_rows : ndarray of int of shape (n_gammas, n_epsilons, n_costs)
        Training rows of the largest sample that the cell was evaluated on.
    sample_scores : ndarray of shape (n_gammas, n_epsilons, n_costs)
        Mean score on that sample, if it is not all rows.
    """

    grid: Grid
    n_folds: int
    scores: FloatArray = field(init=False)
    fit_seconds: FloatArray = field(init=False)
    score_seconds: FloatArray = field(init=False)
    stop_reasons: NDArray[Any] = field(init=False)
    notes: NDArray[Any] = field(init=False)
    n_rows: NDArray[np.intp] = field(init=False)
    sample_scores: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        shape = (*self.grid.shape, self.n_folds)
        self.scores = np.full(shape, np.nan)
        self.fit_seconds, self.score_seconds = np.zeros(shape), np.zeros(shape)
        self.stop_reasons = np.full(shape, "", object)
        self.notes = np.full(self.grid.shape, NOT_EVALUATED, object)
        self.n_rows = np.zeros(self.grid.shape, np.intp)
        self.sample_scores = np.full(self.grid.shape, np.nan)

    @property
    def is_complete(self) -> BoolArray:
        """Cells of which all folds were evaluated."""
        return (self.stop_reasons != "").all(axis=-1)

    @property
    def has_converged(self) -> BoolArray:
        """Cells in which the solver converged in all folds."""
        return (self.stop_reasons == "converged").all(axis=-1)

    @property
    def means(self) -> FloatArray:
        """Mean scores of the cells of which all folds were evaluated; NaN for the others."""
        return np.where(self.is_complete, self.scores.mean(axis=-1), np.nan)

    def record(
        self, cell: Cell, fold: int, score: float, reason: str, fit_seconds: float,
        score_seconds: float,
    ) -> None:  # fmt: skip
        """Keep the result of one fold of a cell; ``reason`` is why the solver stopped."""
        at = (*cell, fold)
        self.scores[at], self.stop_reasons[at] = score, reason
        self.fit_seconds[at], self.score_seconds[at] = fit_seconds, score_seconds

    def choose(self) -> Cell | None:
        """The cell with the highest mean score.

        Cells that converged come before cells that did not, and these before cells of which some
        folds are missing. Of equal cells the one with the smallest C is taken, then the one that
        comes first in the grid, as `GridSearchCV` does. None if nothing was evaluated.
        """
        partly = (self.stop_reasons != "").any(axis=-1)
        for candidates in (self.has_converged, self.is_complete, partly):
            values = np.where(candidates, _mean_of_known(self.scores), np.nan)
            if not np.isnan(values).all():
                order = np.moveaxis(values, 2, 0)
                c, g, e = np.unravel_index(np.nanargmax(order), order.shape)
                return int(g), int(e), int(c)
        return None

    def best_end(self, axis: int) -> int:
        """Whether the best cells are at the end of an axis: -1 for its start, 1 for its end, else 0.

        If a cell inside of the range is as good as the one at the end, zero is returned.
        """
        best, size = self.choose(), self.grid.shape[axis]
        if best is None or size < 2 or np.isnan(self.means[best]):
            return 0
        is_best = self.has_converged & (self.means == self.means[best])
        numbers = np.unique(np.nonzero(is_best)[axis])
        if len(numbers) == 1 and numbers[0] in (0, size - 1):
            return -1 if numbers[0] == 0 else 1
        return 0

    def next_stage(self) -> "Surface":
        """A surface without scores on the same grid, which remembers these as those of a sample."""
        after = Surface(self.grid, self.n_folds)
        after.notes, after.n_rows = self.notes.copy(), self.n_rows.copy()
        known = self.is_complete
        after.sample_scores = np.where(known, self.means, self.sample_scores)
        return after

    def extended(self, grid: Grid) -> "Surface":
        """The same results on a grid with more values at the ends."""
        after = Surface(grid, self.n_folds)
        inside = np.ix_(*(
            np.searchsorted(new, old)
            for new, old in (
                (grid.gammas, self.grid.gammas),
                (np.arange(len(grid.epsilons)), np.arange(len(grid.epsilons))),
                (grid.costs, self.grid.costs),
            )
        ))  # fmt: skip
        for name in (
            "scores", "fit_seconds", "score_seconds", "stop_reasons", "notes", "n_rows",
            "sample_scores",
        ):  # fmt: skip
            getattr(after, name)[inside] = getattr(self, name)
        return after

    def choose_by_samples(self) -> Cell | None:
        """The cell with the highest score on the largest sample; None if there was no sample."""
        if np.isnan(self.sample_scores).all():
            return None
        largest = self.n_rows[~np.isnan(self.sample_scores)].max()
        values = np.where(self.n_rows == largest, self.sample_scores, np.nan)
        g, e, c = np.unravel_index(np.nanargmax(values), values.shape)
        return int(g), int(e), int(c)

    def describe(self) -> str:
        """Say in a sentence what was evaluated, and what is the best so far."""
        n_done, n_cells = int(self.is_complete.sum()), self.is_complete.size
        done = f"{n_done} of {n_cells} cells were evaluated on all folds"
        if (self.n_rows > 0).sum() > n_done:
            done += f", and {int((self.n_rows > 0).sum()) - n_done} others on fewer rows"
        best = self.choose() if n_done else self.choose_by_samples()
        if best is None:
            return f"{done}."
        score = self.means[best] if n_done else self.sample_scores[best]
        values = ", ".join(f"{name} = {value:g}" for name, value in self.params(best).items())
        return f"{done}; the best of them, {values}, has the mean score {score:.4f}."

    def params(self, cell: Cell) -> dict[str, float]:
        """The parameters of a cell, with the names that estimators give them."""
        g, e, c = cell
        params = {"C": float(self.grid.costs[c]), "gamma": float(self.grid.gammas[g])}
        if not np.isnan(self.grid.epsilons[e]):
            params["epsilon"] = float(self.grid.epsilons[e])
        return {name: value for name, value in params.items() if not np.isnan(value)}


def _mean_of_known(scores: FloatArray) -> FloatArray:
    """Means over the folds that were evaluated; NaN where there is none."""
    is_known = ~np.isnan(scores)
    totals, counts = np.where(is_known, scores, 0.0).sum(axis=-1), is_known.sum(axis=-1)
    return np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)
