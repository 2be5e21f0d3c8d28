"""Stochastic descent for the additive classifiers: whole fits, and fits in pieces."""

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
    BestPass,
    StochasticState,
    set_stochastic,
    start_stochastic,
    stochastic_coefs,
    stochastic_pass,
)
from widemargin.base import PieceClassifier
from widemargin.deadline import is_late
from widemargin.problem import Problem
from widemargin.progress import show_passes
from widemargin.transaction import all_or_nothing
from widemargin.validation import check_norms, check_number, draw_seed

#: Passes of stochastic descent before the change of the coefficients is looked at.
MIN_PASSES = 5


class OnlineClassifier(PieceClassifier, CurveClassifier):
    """Base of the classifiers with tables whose rows are learned one by one."""

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
        """Choose what does not change any more: bins, tables, anchors."""

    @abstractmethod
    def _represent(self, problem: Problem) -> Representation:
        """Rows of some data."""

    def _check_params(self) -> None:
        super()._check_params()
        check_number("alpha", self.alpha, above=0, optional=True)
        # At zero the first step would shrink all coefficients to nothing, and their scale with them.
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
            # Steps get shorter all the time: these must not undo what others have learned.
            state.n_steps = self.t_
            n_seen += self.n_seen_
        order = np.random.default_rng(draw_seed(self.random_state)).permutation(len(problem.labels))
        self._step(problem, data, state, order, n_seen)
        self._finish(data, state)
        self.n_seen_, self.n_iter_, self.stop_reason_ = n_seen, 1, "max_iter"

    def _step(
        self,
        problem: Problem,
        data: Representation,
        state: StochasticState,
        order: NDArray[np.intp],
        n_seen: int,
    ) -> None:
        stochastic_pass(
            data.rows, order, problem.labels.astype(np.int64), asked_classes(problem),
            problem.weights, data.norms, state,
            penalty=1.0 / (self.C * n_seen) if self.alpha is None else self.alpha,
            delay=self.eta0, is_squared=self.loss == "squared_hinge",
        )  # fmt: skip

    def _finish(self, data: Representation, state: StochasticState) -> None:
        self._model = data.make_model(stochastic_coefs(data.rows, state), state.extra)
        self.t_ = state.n_steps


class StochasticClassifier(OnlineClassifier, HistogramClassifier):
    """Base of those that have another solver, and weights of rows."""

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass of stochastic descent over some rows, going on from the solution there is.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data. Bins are those of the first call; later values beyond their range count as its end.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like, optional
            All labels there will be; needed in the first call.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on the loss of each row.

        Returns
        -------
        self : estimator
            The classifier, improved.
        """
        self._fit_piece(X, y, classes, sample_weight)
        if hasattr(self, "violation_"):
            del self.violation_  # That of a fit before.
        return self

    def _fit_stochastic(
        self, problem: Problem, data: Representation, deadline: float | None
    ) -> None:
        check_norms("X: kernel values", data.norms, "MinMaxScaler")
        rng = np.random.default_rng(draw_seed(self.random_state))
        state = start_stochastic(data.rows, len(asked_classes(problem)))
        before, best = state.coef.copy(), None if data.rows.is_symmetric else BestPass(state)
        self.stop_reason_, self.n_iter_, change = "max_iter", 0, np.inf
        with show_passes(self.verbose) as show:
            for number in range(self.max_iter):
                order = rng.permutation(len(problem.labels))
                self._step(problem, data, state, order, len(problem.labels))
                self.n_iter_ = number + 1
                if best is not None:
                    best.consider()
                    if best.has_diverged():
                        best.restore()
                        self.stop_reason_, change = "diverged", best.loss
                        break
                size = max(float(np.linalg.norm(state.coef)), 1e-300)
                change = float(np.linalg.norm(state.coef - before)) / size
                before = state.coef.copy()
                if show:
                    show(self.n_iter_, change)
                if self.n_iter_ >= MIN_PASSES and change < 0.1 * self.tol:
                    self.stop_reason_ = "converged"
                    break
                if is_late(deadline):
                    self.stop_reason_ = "max_time"
                    break
        self.violation_ = change
        self._finish(data, state)

    def _fit_dual(self, problem: Problem, data: Representation, deadline: float | None) -> None:
        result = self._descend(problem, data.rows, data.norms, deadline)
        self.t_ = int(result.n_iter.max()) * len(problem.labels)
        self._model = data.make_model(result.coef, result.extra)
