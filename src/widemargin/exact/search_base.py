"""What `KernelSVCCV` and `KernelSVRCV` share: parameters, the search, its results, prediction."""

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import (
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_verbose,
    draw_seed,
)
from widemargin.budget import Budget
from widemargin.callback_support import CallbackSupportMixin, report_rounds
from widemargin.deadline import start_deadline, time_left
from widemargin.doc_link import DocLinkMixin
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
from widemargin.exact.search_results import join_results, list_cells, make_cv_results
from widemargin.exact.search_surface import FloatArray, Grid, Surface
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
#: Share of ``max_time`` after which no more cells are evaluated; the rest is for the final fit.
SEARCH_SHARE = 0.7


def is_refitted(estimator: Any) -> bool:
    """Whether there is a model to predict with; raises the error that says why not."""
    if not estimator.refit:
        raise AttributeError(
            f"{type(estimator).__name__} was made with refit=False, so it has no model to predict "
            "with; fit an estimator with C_ and gamma_"
        )
    return True


class KernelSearch(CallbackSupportMixin, DocLinkMixin):
    """Base of `KernelSVCCV` and `KernelSVRCV`."""

    #: Values of ``search``; the largest data are searched by the last one.
    _searches: tuple[str, ...] = ("auto", "grid", "halving")
    Cs: Any
    gammas: Any
    cv: Any
    scoring: Any
    refit: bool
    search: str
    kernel: str | Kernel | Callable[[Any, Any], Any]
    degree: Any
    coef0: Any
    tol: float
    memory: int | str
    max_iter: int
    max_time: float | None
    keep_decisions: bool
    n_jobs: int | None
    random_state: Any
    verbose: int
    search_: str
    scorer_: Any
    best_estimator_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.positive_only = needs_nonnegative(self.kernel)
        return tags

    @available_if(is_refitted)
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the model that was fitted to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; the kernel with all training rows if the kernel is precomputed.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predictions.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(is_refitted)
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score the predictions by ``scoring``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            True labels or targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        score : float
            The score; accuracy or R2 if ``scoring`` is None.
        """
        check_is_fitted(self)
        more = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.scorer_(self, X, y, **more))

    def _check_params(self) -> None:
        check_number("tol", self.tol, above=0)
        check_number("max_time", self.max_time, above=0, optional=True)
        check_integer("max_iter", self.max_iter, low=-1)
        check_choice("search", self.search, self._searches)
        check_flag("refit", self.refit)
        check_flag("keep_decisions", self.keep_decisions)
        check_verbose(self.verbose)

    def _split(self, X: Any, y: Any, groups: Any, *, is_classifier: bool) -> list[Any]:
        """Folds of the rows as they were given."""
        if isinstance(self.cv, Integral):
            check_integer("cv", self.cv, low=2)
        if is_classifier and isinstance(self.cv, Integral):
            labels, counts = np.unique(y, return_counts=True)
            if counts.min() < self.cv:
                raise ValueError(
                    f"cv: class {labels[counts.argmin()]} has {counts.min()} rows, fewer than the "
                    f"{self.cv} folds; use fewer folds, or leave the class out of the data"
                )
        splitter = check_cv(self.cv, y, classifier=is_classifier)
        return list(splitter.split(X, y, groups))

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
        until = None if deadline is None or self.max_time is None else (
            deadline - (1.0 - SEARCH_SHARE) * self.max_time
        )  # fmt: skip
        budget = Budget(self.tol, self.max_iter, until, all_or_nothing=True)
        settings = PathSettings(budget, intercept, seed, is_interrupted=lambda: False)
        listen = report_rounds(self)
        with open_workers(self.n_jobs) as workers, show_cells(self.verbose, listen) as show:
            options = SearchOptions(
                halving=self.search_ == "halving",
                moves_gammas=isinstance(self.gammas, Integral),
                moves_costs=isinstance(self.Cs, Integral),
                keeps_decisions=keeps_decisions,
                max_bytes=parse_bytes(self.memory),
                listener=None if show is None else partial(_report, show),
            )
            return {
                shape: search(each, grid, settings, options, workers)
                for shape, each in shaped.items()
            }

    def _keep_results(self, by_shape: dict[Shape, Found]) -> Found:
        """Keep the results of all cells; returns those of the shape with the best cell."""
        shapes = list(by_shape)
        best = max(shapes, key=lambda shape: _merit(by_shape[shape]))
        self.degree_, self.coef0_ = best.degree, best.coef0
        found = by_shape[best]
        surface = found.surface
        self.best_index_ = list_cells(surface).index(found.cell)
        self.best_params_ = surface.params(found.cell)
        self.cv_results_ = make_cv_results(surface)
        if len(shapes) > 1:
            names = [name for name in ("degree", "coef0") if np.ndim(getattr(self, name))]
            parts = {shape: make_cv_results(by_shape[shape].surface) for shape in shapes}
            before = shapes[: shapes.index(best)]
            self.best_index_ += sum(len(parts[shape]["params"]) for shape in before)
            self.best_params_ |= {name: getattr(best, name) for name in names}
            self.cv_results_ = join_results(parts, names)
        self.best_score_ = found.score
        self.C_ = self.best_params_["C"]
        self.gamma_ = self.best_params_.get("gamma")
        self.Cs_, self.gammas_ = surface.grid.costs, surface.grid.gammas
        self.n_splits_ = surface.n_folds
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
                "on all rows, so that there are no held-out decision values; allow more time"
            )
        if self.keep_decisions:
            self.decision_oof_ = _average(found.decisions, kept, folds, n_given)

    def _refit(
        self, model: Any, X: Any, y: Any, sample_weight: Any, deadline: float | None
    ) -> None:
        began = time.perf_counter()
        left = time_left(deadline)
        model.set_params(max_time=None if left is None else max(left, 1e-3))
        self.best_estimator_ = model.fit(X, y, sample_weight)
        self.best_estimator_.set_params(max_time=None)
        self.n_iter_ = self.best_estimator_.n_iter_
        self.refit_time_ = time.perf_counter() - began

    def _warn(self, found: Found) -> None:
        """Say what makes the choice doubtful."""
        surface = found.surface
        name = type(self).__name__
        if not surface.is_complete[found.cell]:
            n_rows = int(surface.n_rows[found.cell])
            by = f"samples of {n_rows:,} rows" if n_rows else "no or few folds"
            _warn(
                f"{name}: max_time={self.max_time} s has passed before any cell was evaluated on all "
                f"rows; the choice was made by {by}. Allow more time, or give fewer values or folds"
            )
            return
        if self.max_time is not None and (surface.notes == "not evaluated").any():
            n_left = int((surface.notes == "not evaluated").sum())
            _warn(
                f"{name}: max_time={self.max_time} s has passed before all cells were evaluated; "
                f"{n_left} of {surface.notes.size} are missing, see cv_results_['note']"
            )
        if not surface.has_converged[found.cell]:
            _warn(
                f"{name}: the solver converged in no cell; see cv_results_['stop_reason']. Raise "
                "max_iter or tol, or scale the features"
            )
        else:
            self._warn_of_stopped(found)
        if found.is_on_border:
            warnings.warn(
                f"{name}: the best cell {surface.params(found.cell)} is still at the end of its range "
                "after the range was extended; scale the features or give an array of values",
                UserWarning,
                stacklevel=5,
            )

    def _warn_of_stopped(self, found: Found) -> None:
        surface = found.surface
        stopped = surface.is_complete & ~surface.has_converged
        is_better = stopped & (np.nan_to_num(surface.means, nan=-np.inf) > found.score)
        if is_better.any():
            _warn(
                f"{type(self).__name__}: {int(is_better.sum())} cells in which the solver did not "
                "converge have a higher score than the chosen one; see cv_results_['stop_reason']. "
                "Raise max_iter or tol, or scale the features"
            )


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


def _report(show: Callable[[int, int, float], object], surface: Surface, n_total: int) -> None:
    """Show how many folds of cells are evaluated, and the best score so far."""
    best = surface.choose()
    score = float("nan") if best is None else float(surface.means[best])
    show(int((surface.stop_reasons != "").sum()), n_total, score)


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=6)


def begin(estimator: Any) -> tuple[float | None, int]:
    """The deadline of a fit that begins now, and its seed."""
    return start_deadline(estimator.max_time), draw_seed(estimator.random_state)
