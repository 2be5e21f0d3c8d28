"""What `KernelSVCCV` and `KernelSVRCV` share: parameters, the search, its results, prediction."""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from widemargin.arguments import check_choice, check_flag, check_integer, check_number
from widemargin.budget import Budget
from widemargin.callback_support import report_rounds
from widemargin.deadline import share_time
from widemargin.exact.fold_search import FoldSearch, report_cells
from widemargin.exact.search import STORED_SHARE, Found, SearchData, SearchOptions, search
from widemargin.exact.search_folds import Fold
from widemargin.exact.search_grid import (
    Shape,
    check_values,
    find_costs,
    find_gammas,
    has_width,
    list_coef0,
    list_degrees,
    list_shapes,
    with_gamma,
)
from widemargin.exact.search_path import PathSettings
from widemargin.exact.search_results import join_results, make_cv_results
from widemargin.exact.search_surface import FloatArray, Grid
from widemargin.exact.stored_kernel import least_bytes
from widemargin.kernel_arguments import (
    check_kernel_range,
    check_nonnegative,
    resolve_gamma,
    resolve_kernel,
)
from widemargin.kernels import (
    CallableKernel,
    Index,
    Kernel,
    Precomputed,
    is_precomputed,
    needs_nonnegative,
)
from widemargin.memory import parse_bytes
from widemargin.parallel import open_workers
from widemargin.problem import Problem
from widemargin.progress import show_cells

#: Parameters that the final model has in common with the search.
_SHARED = (
    "kernel", "tol", "memory", "max_iter", "n_jobs", "random_state", "verbose",
)  # fmt: skip
#: Rows from which ``search="auto"`` means halving.
AUTO_ROWS = 2000
#: Rows from which ``search="auto"`` means regions, if memory does not hold the kernel matrix.
REGION_ROWS = 10_000


class KernelSearch(FoldSearch):
    """Base of `KernelSVCCV` and `KernelSVRCV`."""

    #: Values of ``search``; the largest data are searched by the last one.
    _searches: tuple[str, ...] = ("auto", "grid", "halving")
    gammas: Any
    search: str
    kernel: str | Kernel | Callable[[Any, Any], Any]
    degree: Any
    coef0: Any
    tol: float
    memory: int | str
    max_iter: int
    keep_decisions: bool
    search_: str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.positive_only = needs_nonnegative(self.kernel)
        return tags

    def _check_params(self) -> None:
        super()._check_params()
        check_number("tol", self.tol, above=0)
        check_integer("max_iter", self.max_iter, low=-1)
        check_choice("search", self.search, self._searches)
        check_flag("keep_decisions", self.keep_decisions)

    def _find_kernel(self, problem: Problem) -> Kernel:
        degree, coef0 = list_degrees(self.degree)[0], list_coef0(self.coef0)[0]
        kernel = resolve_kernel(self.kernel, 1.0, degree, coef0, problem)
        check_nonnegative(kernel, problem.X, getattr(self, "feature_names_in_", None))
        return kernel

    def _find_gammas(self, kernel: Kernel, problem: Problem, seed: int) -> FloatArray:
        is_word = isinstance(self.gammas, str) and self.gammas in ("scale", "auto")
        given = 1 if is_word else check_values("gammas", self.gammas)
        if not has_width(kernel):
            if not isinstance(given, int):
                raise ValueError(
                    f"gammas: the {kernel.name!r} kernel has no gamma; leave gammas out"
                )
            return np.array([np.nan])
        if is_word:
            per_feature = kernel.has_feature_gamma
            return np.array([resolve_gamma(self.gammas, problem, per_feature=per_feature)])
        return find_gammas(kernel, problem, given, seed) if isinstance(given, int) else given

    def _find_costs(
        self,
        kernel: Kernel,
        gammas: FloatArray,
        problem: Problem,
        seed: int,
        target_scale: float = 1.0,
    ) -> FloatArray:
        given = check_values("Cs", self.Cs)
        if not isinstance(given, int):
            return given
        middle = with_gamma(kernel, float(gammas[len(gammas) // 2]))
        return find_costs(middle, problem, given, seed, target_scale)

    def _choose_search(self, kernel: Kernel, n_rows: int) -> str:
        """What ``search`` means for these data."""
        if self.search != "auto":
            return self.search
        n_bytes = STORED_SHARE * parse_bytes(self.memory)
        fits = isinstance(kernel, Precomputed) or least_bytes(n_rows) <= n_bytes
        if not fits and n_rows > REGION_ROWS and "regions" in self._searches:
            return "regions"
        return "halving" if n_rows > AUTO_ROWS else "grid"

    def _check_range(self, data: SearchData, grid: Grid) -> None:
        """Refuse kernel values that overflow at the largest gamma, if we compute them."""
        if isinstance(data.kernel, Precomputed | CallableKernel):
            return
        kernel = with_gamma(data.kernel, float(np.max(grid.gammas)))
        check_kernel_range(kernel, kernel.diag(kernel.prepare(data.X)))

    def _search(
        self, data: SearchData, grid: Grid, deadline: float | None, seed: int, *, intercept: bool,
        keeps_decisions: bool,
    ) -> dict[Shape, Found]:  # fmt: skip
        """Run the search of every shape of the kernel until its share of the time has passed."""
        shaped = {
            shape: replace(data, kernel=shape.apply(data.kernel))
            for shape in list_shapes(data.kernel, self.degree, self.coef0)
        }
        for each in shaped.values():
            self._check_range(each, grid)
        listen = report_rounds(self)
        with open_workers(self.n_jobs) as workers, show_cells(self.verbose, listen) as show:
            options = SearchOptions(
                halving=self.search_ == "halving",
                moves_gammas=isinstance(self.gammas, Integral),
                moves_costs=isinstance(self.Cs, Integral),
                keeps_decisions=keeps_decisions,
                max_bytes=parse_bytes(self.memory),
                listener=None if show is None else partial(report_cells, show),
            )
            found: dict[Shape, Found] = {}
            for shape, each in shaped.items():
                # Shapes share the time that is left, so that the last one has as much as the first.
                end = share_time(self._search_deadline(deadline), len(shaped) - len(found))
                budget = Budget(self.tol, self.max_iter, end, all_or_nothing=True)
                settings = PathSettings(budget, intercept, seed)
                found[shape] = search(each, grid, settings, options, workers)
            return found

    def _keep_results(self, by_shape: dict[Shape, Found]) -> Found:
        """Keep the results of all cells; returns those of the shape with the best cell."""
        shapes = list(by_shape)
        best = max(shapes, key=lambda shape: _merit(by_shape[shape]))
        self.degree_, self.coef0_ = best.degree, best.coef0
        found = by_shape[best]
        self._keep_cell(found)
        if len(shapes) > 1:
            names = [name for name in ("degree", "coef0") if np.ndim(getattr(self, name))]
            parts = {shape: make_cv_results(by_shape[shape].surface) for shape in shapes}
            before = shapes[: shapes.index(best)]
            self.best_index_ += sum(len(parts[shape]["params"]) for shape in before)
            self.best_params_ |= {name: getattr(best, name) for name in names}
            self.cv_results_ = join_results(parts, names)
        self.gamma_ = self.best_params_.get("gamma")
        self.gammas_ = found.surface.grid.gammas
        return found

    def _final_params(self, kernel: Kernel) -> dict[str, Any]:
        """Parameters of the model that is fitted to all rows."""
        shape = Shape(self.degree_, self.coef0_)
        params = {name: getattr(self, name) for name in _SHARED} | asdict(shape)
        if self.gamma_ is not None:
            params["gamma"] = self.gamma_
            if isinstance(self.kernel, Kernel):
                params["kernel"] = shape.apply(with_gamma(kernel, self.gamma_))
        return {"C": self.C_, **params}

    def _keep_decisions(self, found: Found, kept: Index, folds: list[Fold], n_given: int) -> None:
        """Keep the held-out decision values of the chosen cell if they are wanted."""
        if len(found.decisions) < len(folds):
            raise ValueError(
                f"max_time: {self.max_time} s have passed before the folds of any cell were evaluated "
                "on all rows, so that there are no held-out decision values; allow more time, or give "
                "calibration=None and keep_decisions=False"
            )
        if self.keep_decisions:
            self.decision_oof_ = _average(found.decisions, kept, folds, n_given)


def _merit(found: Found) -> tuple[bool, bool, float]:
    """What decides between the best cells of several degrees."""
    surface, score = found.surface, found.score
    is_known = (bool(surface.has_converged[found.cell]), bool(surface.is_complete[found.cell]))
    return (*is_known, -np.inf if np.isnan(score) else score)


def _average(
    decisions: dict[int, FloatArray], kept: Index, folds: list[Fold], n_given: int
) -> FloatArray:
    """Held-out decision values of the rows as they were given, their mean over the folds."""
    totals = np.zeros((n_given, decisions[0].shape[1]))
    counts = np.zeros((n_given, 1))
    for number, fold in enumerate(folds):
        rows = kept[fold.test]
        np.add.at(totals, rows, decisions[number])
        np.add.at(counts, rows, 1.0)
    return np.divide(totals, counts, out=np.full_like(totals, np.nan), where=counts > 0)
