"""What all searches by cross-validation share: folds, the final fit, prediction and warnings."""

import time
import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_flag, check_integer, check_number, check_verbose, draw_seed
from widemargin.callback_support import CallbackSupportMixin
from widemargin.deadline import start_deadline, time_left
from widemargin.doc_link import DocLinkMixin
from widemargin.exact.search import Found
from widemargin.exact.search_results import list_cells, make_cv_results
from widemargin.exact.search_surface import Surface

#: Share of ``max_time`` after which no more cells are evaluated; the rest is for the final fit.
SEARCH_SHARE = 0.7


def is_refitted(estimator: Any) -> bool:
    """Whether there is a model to predict with; raises the error that says why not."""
    if not estimator.refit:
        raise AttributeError(
            f"{type(estimator).__name__} was made with refit=False, so it has no model to predict "
            "with; fit an estimator with best_params_"
        )
    return True


class FoldSearch(CallbackSupportMixin, DocLinkMixin):
    """Base of estimators that choose parameters by cross-validation."""

    Cs: Any
    cv: Any
    scoring: Any
    refit: bool
    max_time: float | None
    n_jobs: int | None
    random_state: Any
    verbose: int
    scorer_: Any
    best_estimator_: Any

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
        check_number("max_time", self.max_time, above=0, optional=True)
        check_flag("refit", self.refit)
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

    def _search_deadline(self, deadline: float | None) -> float | None:
        """The time after which no more cells are evaluated."""
        if deadline is None or self.max_time is None:
            return None
        return deadline - (1.0 - SEARCH_SHARE) * self.max_time

    def _keep_cell(self, found: Found) -> None:
        """Keep the results of all cells, and the chosen one."""
        surface = found.surface
        self.best_index_ = list_cells(surface).index(found.cell)
        self.best_params_ = surface.params(found.cell)
        self.cv_results_ = make_cv_results(surface)
        self.best_score_ = found.score
        self.C_, self.Cs_ = self.best_params_["C"], surface.grid.costs
        self.n_splits_ = surface.n_folds

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
                "after the range was extended; give arrays of values beyond it if that matters",
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


def report_cells(show: Callable[[int, int, float], object], surface: Surface, n_total: int) -> None:
    """Show how many folds of cells are evaluated, and the best score so far."""
    best = surface.choose()
    score = float("nan") if best is None else float(surface.means[best])
    show(int((surface.stop_reasons != "").sum()), n_total, score)


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=6)


def begin(estimator: Any) -> tuple[float | None, int]:
    """The deadline of a fit that begins now, and its seed."""
    return start_deadline(estimator.max_time), draw_seed(estimator.random_state)
