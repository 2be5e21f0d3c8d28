"""What `AdditiveSVCCV` and `AdditiveSVRCV` share: parameters, the search over C, its results."""

import time
import warnings
from abc import abstractmethod
from dataclasses import replace
from functools import partial
from numbers import Integral
from threading import Lock
from typing import Any, ClassVar

import numpy as np

from widemargin.additive.cost_path import CostPath
from widemargin.additive.kernel_scale import SCALED_COST
from widemargin.additive.scalar_kernels import is_homogeneous
from widemargin.arguments import draw_seed
from widemargin.callback_support import report_rounds
from widemargin.deadline import is_late
from widemargin.exact.fold_search import FoldSearch, report_cells
from widemargin.exact.search import ADDED_VALUES, MAX_MOVES, Found, choose_cell
from widemargin.exact.search_folds import Fold
from widemargin.exact.search_grid import check_values, extend, spread_values
from widemargin.exact.search_run import Score
from widemargin.exact.search_surface import FloatArray, Grid, Surface
from widemargin.kernel_arguments import check_norms
from widemargin.parallel import Workers, open_workers
from widemargin.problem import Problem, take_rows
from widemargin.progress import show_cells

#: Ends of the range of C that is found from the data, in units of `SCALED_COST` divided by the mean of
#: k(x, x).
COST_RANGE = (0.01, 10.0)
#: Differences of scores that do not matter, as a share of them.
LEVEL = 1e-5


class AdditiveSearch(FoldSearch):
    """Base of `AdditiveSVCCV` and `AdditiveSVRCV`."""

    kernel: Any

    #: The estimator that is fitted to all rows.
    _estimator: ClassVar[type[Any]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = is_homogeneous(self.kernel)
        return tags

    def _check_params(self) -> None:
        super()._check_params()
        check_values("Cs", self.Cs)
        self._make_model(1.0)._check_params()

    def _make_model(self, cost: float, **more: Any) -> Any:
        """Make the estimator with some C and the other parameters of the search."""
        names = self._estimator().get_params(deep=False)
        shared = {k: v for k, v in self.get_params(deep=False).items() if k in names}
        return self._estimator(**shared | {"C": cost} | more)

    @abstractmethod
    def _solve_fold(
        self, model: Any, part: Problem, fold: Fold, data: Any, deadline: float | None
    ) -> Any:
        """Solve the problem of the training rows of a fold, and return what predicts."""

    @abstractmethod
    def _settle_fold(self, model: Any, part: Problem, fold: Fold, fitted: Any) -> Any:
        """Return what a fit that stopped early predicts with: what it has found, or a constant."""

    def _search(
        self, problem: Problem, folds: list[Fold], score: Score, target_scale: float,
        deadline: float | None,
    ) -> Found:  # fmt: skip
        """Evaluate all C on all folds; extend a range that was found while scores rise at its end."""
        until = self._search_deadline(deadline)
        problem = self._move_centred(problem)
        with (
            open_workers(self.n_jobs) as workers,
            show_cells(self.verbose, report_rounds(self)) as show,
        ):
            costs = self._find_costs(problem, target_scale)
            paths = self._make_paths(problem, folds, until, workers)
            unknown = np.array([np.nan])
            surface = Surface(Grid(unknown, unknown, costs), len(folds))
            listener = None if show is None else partial(report_cells, show)
            run = _Evaluation(paths, score, until, listener)
            run.evaluate(surface, costs, workers)
            moves = isinstance(self.Cs, Integral)
            for _ in range(MAX_MOVES if moves else 0):
                end = _rising_end(surface)
                if end == 0 or is_late(until):
                    break
                before = surface.grid
                grown = extend(before.costs, upwards=end > 0, n_more=ADDED_VALUES)
                surface = surface.extended(replace(before, costs=grown))
                run.evaluate(surface, np.setdiff1d(grown, before.costs), workers)
        complete = surface.is_complete
        surface.notes[complete] = ""
        surface.n_rows[complete] = max(len(fold.problems[0].index) for fold in folds)
        return Found(surface, *choose_cell(surface), {}, moves and _rising_end(surface) != 0)

    def _move_centred(self, problem: Problem) -> Problem:
        """Subtract the least values of signed columns as a fit does; a fold may have others."""
        model = self._make_model(1.0)
        self._hand_over(model)
        with warnings.catch_warnings():
            # The final fit warns of it.
            warnings.simplefilter("ignore", UserWarning)
            return replace(problem, X=model._take_features(problem.X, problem.sample_weights))

    def _make_paths(
        self, problem: Problem, folds: list[Fold], deadline: float | None, workers: Workers
    ) -> list[CostPath]:
        """Make the codes and tables of every fold from its own training rows, as a fit does."""
        paths: dict[int, CostPath] = {}
        # Threads must not draw from one generator.
        given = self.random_state
        seed = given if isinstance(given, Integral) else draw_seed(given)

        def make(first: int, last: int) -> None:
            for number in range(first, last):
                paths[number] = self._make_path(problem, folds[number], deadline, seed)

        workers.run(len(folds), make, grain=1, one_by_one=True)
        return [paths[number] for number in range(len(folds))]

    def _make_path(
        self, problem: Problem, fold: Fold, deadline: float | None, seed: Any
    ) -> CostPath:
        model = self._make_model(1.0, warm_start=True, n_jobs=1, verbose=0, random_state=seed)
        self._hand_over(model)
        own = fold.problems[0]
        part = replace(take_rows(problem, own.index), weights=own.weights)
        part, codes = model._encode_training(part)
        data = model._represent_training(part, codes, deadline)
        # The rows themselves are rarely needed again, and all folds together have many.
        part = replace(part, X=codes)

        def settle(fitted: Any) -> Any:
            rows = model._take_features(problem.X[own.index])
            return self._settle_fold(model, replace(part, X=rows), fold, fitted)

        solve = partial(self._solve_fold, model, part, fold)
        return CostPath(model, data, solve, settle, model._take_features(problem.X[fold.test]))

    def _find_costs(self, problem: Problem, target_scale: float) -> FloatArray:
        """The values of C: as given, or around 10 divided by the mean of k(x, x), pairs left out."""
        given = check_values("Cs", self.Cs)
        if not isinstance(given, int):
            return given
        model = self._make_model(1.0)
        if hasattr(model, "interactions"):
            model.interactions = 0
        self._hand_over(model)
        rows, codes = model._encode_training(problem)
        data = model._represent_training(rows, codes, None)
        check_norms("X: kernel values", data.norms, "MinMaxScaler")
        model._measure_kernel(rows, data.norms)
        middle = SCALED_COST * target_scale / model.kernel_mean_
        low, high = (end * middle for end in COST_RANGE)
        return spread_values(low, high, given)

    def _hand_over(self, model: Any) -> None:
        """Give a model what validation has found out about the data."""
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))

    def _keep_search(self, found: Found) -> None:
        """Keep the results of all cells, and the chosen one."""
        self._keep_cell(found)
        self.scores_ = found.surface.scores[0, 0]

    def _warn(self, found: Found) -> None:
        """Say what makes the choice doubtful."""
        super()._warn(replace(found, is_on_border=False))
        costs, means = found.surface.grid.costs, found.surface.means[0, 0]
        is_alone = np.count_nonzero(means == found.score) == 1 < len(costs)
        if not is_alone or self.C_ not in (costs.min(), costs.max()):
            return
        if found.is_on_border:
            which = "largest" if costs.max() == self.C_ else "smallest"
            gain = found.score - float(np.max(means[means < found.score], initial=-np.inf))
            self._warn_of_end(
                f"the {which} that was tried; its score is {found.score:.4g}, {gain:.2g} more than "
                "any other. Give an array of Cs beyond it if that matters"
            )
        elif not isinstance(self.Cs, Integral):
            self._warn_of_end("at the end of Cs; give values beyond it, or an integer")

    def _warn_of_end(self, what: str) -> None:
        warnings.warn(
            f"{type(self).__name__}: the best C, {self.C_:g}, is {what}", UserWarning, stacklevel=5
        )


def _rising_end(surface: Surface) -> int:
    """Return the end of the range at which scores rise: -1 for the first, 1 for the last, else 0.

    The best value of C must be there, and better than the next one by more than the standard error of
    their difference over the folds, and by more than a hundred-thousandth. Otherwise a ranking score,
    which hardly depends on a small C, or chance would lead to a C at which all decisions are nearly
    equal.
    """
    end = surface.best_end(2)
    if end == 0:
        return 0
    last, before = (0, 1) if end < 0 else (-1, -2)
    gains = surface.scores[0, 0, last] - surface.scores[0, 0, before]
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    level = LEVEL * abs(float(surface.scores[0, 0, before].mean()))
    return end if gains.mean() > max(error, level) else 0


class _Evaluation:
    """Evaluates values of C on all folds, which run beside each other."""

    def __init__(
        self, paths: list[CostPath], score: Score, deadline: float | None, listener: Any
    ) -> None:
        self.paths, self.score, self.deadline = paths, score, deadline
        self.listener, self.lock = listener, Lock()

    def evaluate(self, surface: Surface, costs: FloatArray, workers: Workers) -> None:
        """Write the results of some values of C into a surface, until the deadline."""
        n_total = int((surface.stop_reasons != "").sum()) + len(costs) * len(self.paths)

        def walk(first: int, last: int) -> None:
            for fold in range(first, last):
                self._walk(fold, surface, np.sort(costs), n_total, workers)

        workers.run(len(self.paths), walk, grain=1, one_by_one=True)

    def _walk(
        self, fold: int, surface: Surface, costs: FloatArray, n_total: int, workers: Workers
    ) -> None:
        """Evaluate growing values of C on one fold."""
        for cost in costs:
            if workers.failed or is_late(self.deadline):
                return
            step = self.paths[fold].step(float(cost), self.deadline)
            if step is None:
                return
            began = time.perf_counter()
            score = self.score(fold, step.decisions)
            seconds = step.score_seconds + time.perf_counter() - began
            at = (0, 0, int(np.flatnonzero(surface.grid.costs == cost)[0]))
            with self.lock:
                surface.record(at, fold, score, step.stop_reason, step.fit_seconds, seconds)
                if self.listener is not None:
                    self.listener(surface, n_total)
