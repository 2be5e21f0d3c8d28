"""The evaluation of cells: folds and kernels beside each other in threads."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from widemargin.exact.search_folds import FloatArray, Fold
from widemargin.exact.search_path import PathSettings, Step, walk_costs
from widemargin.exact.search_surface import BoolArray, Cell, Grid, Surface
from widemargin.exact.stored_kernel import KernelSeries, Rows
from widemargin.parallel import Workers

#: Score of the decision values of a fold's held-out rows: ``score(fold number, decisions)``.
Score = Callable[[int, FloatArray], float]


@dataclass(frozen=True)
class Path:
    """The cells of one gamma, one epsilon and one fold."""

    gamma: int
    epsilon: int
    fold: int


class HeldOut:
    """Decision values of held-out rows of the cell that is the best so far, for every fold."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._held: dict[Cell, dict[int, FloatArray]] = {}

    def add(self, cell: Cell, fold: int, decisions: FloatArray) -> None:
        """Keep the decision values of a fold until the cell is known not to be the best."""
        self._held.setdefault(cell, {})[fold] = decisions
        if len(self._held[cell]) == self._surface.n_folds:
            best, complete = self._surface.choose(), self._surface.is_complete
            self._held = {c: d for c, d in self._held.items() if c == best or not complete[c]}

    def follow(self, surface: Surface, before: Grid) -> None:
        """Change to the surface of a grid that has grown from another."""
        offset = [
            int(np.searchsorted(new, old[0]))
            for new, old in (
                (surface.grid.gammas, before.gammas), (surface.grid.costs, before.costs)
            )
        ]  # fmt: skip
        self._surface = surface
        self._held = {(g + offset[0], e, c + offset[1]): d for (g, e, c), d in self._held.items()}

    def of(self, cell: Cell) -> dict[int, FloatArray]:
        """Decision values of a cell by fold; empty if they were not kept."""
        return self._held.get(cell, {})


class _Matrices:
    """Kernel matrices in use by several threads; the last user of one gives it up."""

    def __init__(self, series: KernelSeries, paths: list[Path]) -> None:
        self._series = series
        self._n_users = {
            g: sum(path.gamma == g for path in paths) for g in {p.gamma for p in paths}
        }
        self._locks = {g: Lock() for g in self._n_users}
        self._held: dict[int, Rows] = {}

    def take(self, gamma: int, alone: Workers) -> Rows:
        with self._locks[gamma]:
            if gamma not in self._held:
                self._held[gamma] = self._series.rows(gamma, alone)
            return self._held[gamma]

    def give_back(self, gamma: int) -> None:
        with self._locks[gamma]:
            self._n_users[gamma] -= 1
            if self._n_users[gamma] == 0:
                del self._held[gamma]


class Evaluation:
    """Evaluates cells of a grid and writes the results into a surface.

    Parameters
    ----------
    series : KernelSeries
        The kernel of every gamma.
    surface : Surface
        Where results go.
    settings : PathSettings
        What all solutions have in common; ``epsilon`` is replaced by those of the grid.
    score : callable
        Score of the decision values of a fold.
    listener : callable or None
        Called with the surface, by one thread at a time, when a fold of a cell is evaluated.
    held_out : HeldOut or None
        Where decision values go, if they are wanted.
    """

    def __init__(
        self, series: KernelSeries, surface: Surface, settings: PathSettings, score: Score, *,
        listener: Callable[[Surface], object] | None = None, held_out: HeldOut | None = None,
    ) -> None:  # fmt: skip
        self.series, self.surface, self.settings, self.score = series, surface, settings, score
        self.listener, self.held_out = listener, held_out
        self._lock = Lock()

    def run(self, folds: list[Fold], wanted: BoolArray, workers: Workers) -> None:
        """Evaluate the cells that ``wanted`` marks, on all folds, until the deadline."""
        paths = _list_paths(wanted, len(folds))
        # A batch shares the matrices that memory holds; with room for few, one gamma at a time.
        batches = [paths]
        if self.series.n_stored < matrices_in_use(len(folds), workers.n_threads):
            batches = [
                [p for p in paths if p.gamma == g] for g in dict.fromkeys(p.gamma for p in paths)
            ]
        for batch in batches:
            matrices = _Matrices(self.series, batch)

            def walk_some(
                first: int, last: int, batch: list[Path] = batch, matrices: _Matrices = matrices
            ) -> None:
                alone = workers.alone()
                for path in batch[first:last]:
                    self._walk(path, folds, wanted, matrices, alone)

            workers.run(len(batch), walk_some, grain=1, one_by_one=True)

    def _walk(
        self, path: Path, folds: list[Fold], wanted: BoolArray, matrices: _Matrices, alone: Workers
    ) -> None:
        grid = self.surface.grid
        numbers = np.flatnonzero(wanted[path.gamma, path.epsilon])
        numbers = numbers[np.argsort(grid.costs[numbers], kind="stable")]
        epsilon = grid.epsilons[path.epsilon]
        settings = replace(self.settings, epsilon=None if np.isnan(epsilon) else float(epsilon))
        rows = matrices.take(path.gamma, alone)
        try:
            steps = walk_costs(rows, folds[path.fold], grid.costs[numbers], settings, alone)
            for c, step in zip(numbers, steps, strict=False):
                self._record((path.gamma, path.epsilon, int(c)), path.fold, step)
        finally:
            matrices.give_back(path.gamma)

    def _record(self, cell: Cell, fold: int, step: Step) -> None:
        began = time.perf_counter()
        score = self.score(fold, step.decisions)
        seconds = step.score_seconds + time.perf_counter() - began
        with self._lock:
            surface = self.surface
            surface.record(cell, fold, score, step.stop_reason, step.fit_seconds, seconds)
            if self.held_out is not None:
                self.held_out.add(cell, fold, step.decisions)
            if self.listener is not None:
                self.listener(surface)


def matrices_in_use(n_folds: int, n_threads: int) -> int:
    """Kernel matrices that threads use at the same time, at most."""
    return 1 + -(-(n_threads - 1) // n_folds)


def _list_paths(wanted: BoolArray, n_folds: int) -> list[Path]:
    """All paths with a wanted cell, those of the middle of the grid first."""
    n_gammas, n_epsilons, _ = wanted.shape
    from_middle = np.argsort(np.abs(np.arange(n_gammas) - (n_gammas - 1) / 2), kind="stable")
    return [
        Path(int(g), e, f)
        for g in from_middle
        for e in range(n_epsilons)
        for f in range(n_folds)
        if wanted[g, e].any()
    ]
