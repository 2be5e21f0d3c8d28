"""The search for C, gamma and epsilon by cross-validation.

Every cell of a grid is evaluated on all folds (``"grid"``), or on growing samples of the rows of
which each leaves fewer cells (``"halving"``, see `search_halving`). Where the best cell is at the end
of a range that was found from the data, the range is extended.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.deadline import is_late
from widemargin.exact.search_folds import FloatArray, Fold
from widemargin.exact.search_grid import extend, with_gamma
from widemargin.exact.search_halving import (
    SAMPLE_TOL,
    find_next,
    find_survivors,
    order_rows,
    sample_sizes,
    take_sample,
)
from widemargin.exact.search_path import PathSettings
from widemargin.exact.search_run import Evaluation, HeldOut, Score, matrices_in_use
from widemargin.exact.search_surface import BoolArray, Cell, Grid, Surface
from widemargin.exact.stored_kernel import KernelSeries
from widemargin.kernels import Kernel
from widemargin.parallel import Workers

#: Share of the memory for stored kernel matrices; the rest is for solvers.
STORED_SHARE = 0.6
#: Most times that a range is extended, and the values that are added each time.
MAX_MOVES, ADDED_VALUES = 3, 2
#: Cells that are evaluated beside the best one when a range is extended during halving.
NEAR_CELLS = 2


@dataclass(frozen=True)
class SearchData:
    """The rows of a search, the kernel, the folds, and how decision values are scored.

    ``labels`` are the classes that samples hold in proportion; all equal in regression.
    """

    X: Any
    kernel: Kernel
    labels: NDArray[np.intp]
    folds: list[Fold]
    score: Score


@dataclass(frozen=True)
class SearchOptions:
    """How to search.

    Attributes
    ----------
    halving : bool
        Whether to evaluate cells on samples first.
    moves_gammas, moves_costs : bool
        Whether these ranges were found from the data, so that they may be extended.
    keeps_decisions : bool
        Whether the decision values of held-out rows are wanted.
    max_bytes : int
        Memory for kernel matrices and solvers.
    listener : callable or None
        Called with the surface after every fold of a cell.
    """

    halving: bool
    moves_gammas: bool
    moves_costs: bool
    keeps_decisions: bool
    max_bytes: int
    listener: Callable[[Surface, int], object] | None = None


@dataclass(frozen=True)
class Found:
    """What a search returns.

    ``cell`` is the chosen one, ``score`` its mean score, NaN if nothing could be evaluated in time.
    ``decisions`` are those of its held-out rows by fold, if they were wanted.
    """

    surface: Surface
    cell: Cell
    score: float
    decisions: dict[int, FloatArray]
    is_on_border: bool


def choose_cell(surface: Surface) -> tuple[Cell, float]:
    """Choose the best cell, and return it with its mean score.

    If no cell was evaluated on all rows and folds, it is the best one on the largest sample, then the
    best one on some folds, then the middle of the grid, which has no score.
    """
    cell = surface.choose() if surface.is_complete.any() else None
    if cell is not None:
        return cell, float(surface.means[cell])
    cell = surface.choose_by_samples() or surface.choose()
    if cell is None:
        g, e, c = ((size - 1) // 2 for size in surface.grid.shape)
        return (g, e, c), float("nan")
    if np.isnan(surface.sample_scores[cell]):
        return cell, float(np.nanmean(surface.scores[cell]))
    return cell, float(surface.sample_scores[cell])


def search(
    data: SearchData, grid: Grid, settings: PathSettings, options: SearchOptions, workers: Workers
) -> Found:
    """Find the cell with the best mean score over the folds.

    An interruption by the user carries a note of what was evaluated until then.
    """
    state = _Search(data, grid, settings, options, workers)
    try:
        return state.run()
    except KeyboardInterrupt as interruption:
        interruption.add_note(state.surface.describe())
        raise


class _Search:
    """The state of a search: the grid, the results so far, and the kernels of the grid."""

    def __init__(
        self, data: SearchData, grid: Grid, settings: PathSettings, options: SearchOptions,
        workers: Workers,
    ) -> None:  # fmt: skip
        self.data, self.options, self.workers = data, options, workers
        solver_bytes = int((1.0 - STORED_SHARE) * options.max_bytes) // workers.n_threads
        budget = replace(settings.budget, cache_bytes=solver_bytes)
        self.settings = replace(settings, budget=budget)
        self.n_moves, self.may_grow = 0, True
        self.surface = Surface(grid, len(data.folds))
        self.held_out: HeldOut | None = None
        self.series = self._make_series()

    def run(self) -> Found:
        n_rows = self.data.X.shape[0]
        wanted = np.ones(self.surface.grid.shape, bool)
        # Samples have nothing to choose where there is one cell.
        sizes = sample_sizes(n_rows) if self.options.halving and wanted.size > 1 else []
        order = order_rows(self.data.labels, self.settings.seed)
        settings, budget = self.settings, self.settings.budget
        for size in sizes:
            self.settings = replace(
                settings, budget=replace(budget, tol=max(SAMPLE_TOL, budget.tol))
            )
            # The best cell of the smallest sample is often at the end of a range by chance.
            self.may_grow = size > sizes[0]
            self._evaluate(take_sample(self.data.folds, order, size), wanted)
            wanted, notes = find_survivors(self.surface)
            self.surface.notes[notes != ""] = notes[notes != ""]
            self.surface = self.surface.next_stage()
            if is_late(self.settings.budget.deadline):
                return self._conclude()
        self.may_grow, self.settings = True, settings
        if self.options.keeps_decisions:
            self.held_out = HeldOut(self.surface)
        self._evaluate(self.data.folds, wanted)
        return self._conclude()

    def _evaluate(self, folds: list[Fold], wanted: BoolArray) -> None:
        """Evaluate cells; then more cells while the best is at the end of a range.

        With halving, also the neighbours of the best cell.
        """
        while wanted.any():
            self._evaluate_once(folds, wanted)
            if is_late(self.settings.budget.deadline):
                return
            before, grown = self.surface.grid, self._grow_grid()
            if grown is not None:
                self._extend(grown)
                wanted = self._new_cells(before)
            elif self.options.halving:
                wanted = find_next(self.surface)
            else:
                return

    def _extend(self, grown: Grid) -> None:
        """Change to a grid with more values."""
        before = self.surface.grid
        self.surface = self.surface.extended(grown)
        self.series = self._make_series()
        if self.held_out is not None:
            self.held_out.follow(self.surface, before)

    def _evaluate_once(self, folds: list[Fold], wanted: BoolArray) -> None:
        listener, n_cells = self.options.listener, int(wanted.sum()) * len(folds)
        n_before = int((self.surface.stop_reasons != "").sum())
        run = Evaluation(
            self.series, self.surface, self.settings, self.data.score, held_out=self.held_out,
            listener=None if listener is None else lambda s: listener(s, n_before + n_cells),
        )  # fmt: skip
        run.run(folds, wanted, self.workers)
        n_rows = max(len(np.unique(np.concatenate([p.index for p in f.problems]))) for f in folds)
        complete = wanted & self.surface.is_complete
        self.surface.n_rows[complete] = n_rows
        self.surface.notes[complete] = ""

    def _make_series(self) -> KernelSeries:
        gammas = self.surface.grid.gammas
        kernels = [with_gamma(self.data.kernel, float(gamma)) for gamma in gammas]
        return KernelSeries(
            kernels, self.data.X, int(STORED_SHARE * self.options.max_bytes),
            matrices_in_use(len(self.data.folds), self.workers.n_threads), self.workers,
        )  # fmt: skip

    def _grow_grid(self) -> Grid | None:
        """The grid with more values at the ends where the best cell is; None if it is at none."""
        grid = self.surface.grid
        if not self.may_grow or self.n_moves >= MAX_MOVES:
            return None
        gammas = self._grow(grid.gammas, 0, self.options.moves_gammas)
        costs = self._grow(grid.costs, 2, self.options.moves_costs)
        if gammas is grid.gammas and costs is grid.costs:
            return None
        self.n_moves += 1
        return replace(grid, gammas=gammas, costs=costs)

    def _grow(self, values: FloatArray, axis: int, is_movable: bool) -> FloatArray:
        end = self.surface.best_end(axis) if is_movable else 0
        return values if end == 0 else extend(values, upwards=end > 0, n_more=ADDED_VALUES)

    def _new_cells(self, before: Grid) -> BoolArray:
        """Cells that the grid did not have before; during halving those near the best one only."""
        grid, best = self.surface.grid, self.surface.choose()
        is_new = ~np.isin(grid.gammas, before.gammas)[:, None, None] | ~np.isin(
            grid.costs, before.costs
        )
        is_new = np.broadcast_to(is_new, grid.shape).copy()
        if self.options.halving and best is not None:
            near_gamma = np.abs(np.arange(grid.shape[0]) - best[0]) <= NEAR_CELLS
            near_cost = np.abs(np.arange(grid.shape[2]) - best[2]) <= NEAR_CELLS
            is_new &= near_gamma[:, None, None] & near_cost
        return is_new

    def _conclude(self) -> Found:
        cell, score = choose_cell(self.surface)
        decisions = {} if self.held_out is None else self.held_out.of(cell)
        return Found(self.surface, cell, score, decisions, self._is_on_border())

    def _is_on_border(self) -> bool:
        options = self.options
        return (options.moves_gammas and self.surface.best_end(0) != 0) or (
            options.moves_costs and self.surface.best_end(2) != 0
        )
