"""Base classes of the additive classifiers with stochastic descent: `partial_fit` and solvers."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.classifier_base import (
    CurveClassifier,
    HistogramClassifier,
    asked_classes,
)
from widemargin.additive.curves import BinModel, TableModel
from widemargin.additive.representations import Representation
from widemargin.additive.sgd import (
    PrimalProblem,
    set_stochastic,
    solve_stochastic,
    start_stochastic,
    stochastic_coefs,
    stochastic_pass,
)
from widemargin.base import PieceClassifier
from widemargin.problem import Problem
from widemargin.progress import show_passes
from widemargin.transaction import all_or_nothing
from widemargin.validation import check_norms, check_number, draw_seed


class OnlineClassifier(PieceClassifier, CurveClassifier):
    """Base of classifiers that learn in pieces by stochastic descent on a representation."""

    loss: str
    alpha: float | None
    eta0: float
    random_state: Any

    n_seen_: int
    t_: int
    n_iter_: Any
    stop_reason_: str

    _model: TableModel | BinModel

    @abstractmethod
    def _prepare(self, problem: Problem) -> None:
        """Choose what the first piece fixes for all later ones: bins, tables, anchors."""

    @abstractmethod
    def _represent(self, problem: Problem) -> Representation:
        """Represent some data as rows of numbers."""

    def _check_params(self) -> None:
        super()._check_params()
        check_number("alpha", self.alpha, above=0, optional=True)
        # With eta0 = 0 the first step would multiply all coefficients and their scale by zero.
        check_number("eta0", self.eta0, above=0)

    def _learn_piece(self, problem: Problem, *, is_first: bool) -> None:
        if is_first:
            self._prepare(problem)
        data, n_seen = self._represent(problem), len(problem.labels)
        check_norms("X: kernel values", data.norms, "MinMaxScaler")
        state = start_stochastic(data.rows, len(asked_classes(problem)))
        if not is_first:
            coef, state.extra[:] = data.take_apart(self._model)
            set_stochastic(data.rows, state, coef)
            # Steps get shorter all the time, so that this piece does not undo those before it.
            state.n_steps = self.t_
            n_seen += self.n_seen_
        order = np.random.default_rng(draw_seed(self.random_state)).permutation(len(problem.labels))
        stochastic_pass(data.rows, order, self._make_primal(problem, data, n_seen), state)
        self._model = data.make_model(stochastic_coefs(data.rows, state), state.extra)
        self.t_, self.n_seen_ = state.n_steps, n_seen
        self.n_iter_, self.stop_reason_ = 1, "max_iter"

    def _make_primal(self, problem: Problem, data: Representation, n_seen: int) -> PrimalProblem:
        """Make the primal problem of some rows, after ``n_seen`` rows in all."""
        return PrimalProblem(
            labels=problem.labels.astype(np.int64),
            positives=asked_classes(problem),
            weights=problem.weights,
            norms=data.norms,
            penalty=1.0 / (self.C * n_seen) if self.alpha is None else self.alpha,
            delay=self.eta0,
            is_squared=self.loss == "squared_hinge",
        )


class StochasticClassifier(OnlineClassifier, HistogramClassifier):
    """Base of additive classifiers with dual and stochastic solvers and with sample weights."""

    solver: str

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Make one pass of stochastic descent over some rows, starting from the current solution.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data. The first call fixes the bins; later values beyond their range count as the nearest
            end of it.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like, optional
            All labels of this and later calls; required in the first call.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on the loss of each row.

        Returns
        -------
        self : estimator
            The fitted classifier.
        """
        self._fit_piece(X, y, classes, sample_weight)
        if hasattr(self, "violation_"):
            del self.violation_  # It belongs to an earlier `fit`.
        return self

    def _solve(
        self, problem: Problem, data: Representation, deadline: float | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the coefficients of the represented rows, and those of their extra numbers."""
        self.n_seen_ = len(problem.labels)
        if self.solver == "sgd":
            return self._solve_primal(problem, data, deadline)
        result = self._descend(problem, data.rows, data.norms, deadline)
        self.t_ = int(result.n_iter.max()) * len(problem.labels)
        return result.coef, result.extra

    def _solve_primal(
        self, problem: Problem, data: Representation, deadline: float | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        check_norms("X: kernel values", data.norms, "MinMaxScaler")
        primal = self._make_primal(problem, data, len(problem.labels))
        settings = self._settings(problem, deadline)
        with show_passes(self.verbose) as show:
            result = solve_stochastic(data.rows, primal, settings, show)
        self.n_iter_, self.t_ = result.n_iter, result.n_steps
        self.stop_reason_, self.violation_ = result.stop_reason, result.violation
        return result.coef, result.extra
