"""The base of the additive classifiers and of other linear SVMs on a representation."""

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from widemargin.additive.centring import descend_centred
from widemargin.additive.coded_rows import Rows
from widemargin.additive.dual_descent import (
    Descent,
    LinearResult,
    OneVsRestDual,
    WarmStart,
    descend,
)
from widemargin.arguments import check_flag, check_integer, check_number, check_verbose, draw_seed
from widemargin.base import OneVsRest
from widemargin.callback_support import report_rounds
from widemargin.deadline import start_deadline
from widemargin.kernel_arguments import check_norms
from widemargin.kernels import is_small
from widemargin.majority import RunningVote, constant_intercept, judged_rows
from widemargin.parallel import open_workers
from widemargin.parameters import Choices
from widemargin.problem import Problem
from widemargin.progress import show_passes

#: Part of the warning of a fit whose model was replaced by a constant one.
CONSTANT_ADVICE = (
    "the model predicts the largest class, which is more accurate than what it reached; "
)
#: A smaller tolerance needs the precision of float64.
FLOAT32_TOL = 1e-3


class LinearClassifier(OneVsRest):
    """Base of classifiers that solve a linear SVM on a representation of the features.

    It checks the parameters of the solvers, runs dual coordinate descent, keeps the dual variables for
    a warm start, and warns of fits that did not converge.
    """

    loss: str
    tol: float
    max_iter: int
    max_time: float | None
    warm_start: bool
    random_state: Any
    verbose: int

    _choices: ClassVar[Choices] = {"loss": ("hinge", "squared_hinge")}
    #: Whether the model predicts the largest class for every row, see `RunningVote`.
    _is_constant = False

    def _check_params(self) -> None:
        super()._check_params()
        check_number("tol", self.tol, above=0)
        check_number("max_time", self.max_time, above=0, optional=True)
        check_integer("max_iter", self.max_iter, low=1)
        check_flag("warm_start", self.warm_start)
        check_verbose(self.verbose)

    def _dtype(self, problem: Problem) -> type:
        needs_digits = is_small(*problem.X.shape) or self.tol < FLOAT32_TOL
        return np.float64 if needs_digits else np.float32

    def _deadline(self) -> float | None:
        """Return the time at which a fit that begins now must end, by `time.perf_counter`."""
        return start_deadline(self.max_time)

    def _settings(self, problem: Problem, deadline: float | None) -> Descent:
        return Descent(
            tol=self.tol,
            max_iter=self.max_iter,
            deadline=deadline,
            seed=draw_seed(self.random_state),
            finish=is_small(*problem.X.shape),
        )

    def _descend(
        self, problem: Problem, rows: Rows, norms: NDArray[np.float64], deadline: float | None
    ) -> LinearResult:
        """Solve the dual of every one-vs-rest problem."""
        check_norms("X: kernel values", norms, "MinMaxScaler")
        self._measure_kernel(problem, norms)
        costs = self._cost() * problem.weights
        squared = self.loss == "squared_hinge"
        dual = OneVsRestDual(
            labels=problem.labels.astype(np.int64),
            positives=asked_classes(problem),
            upper=np.broadcast_to(np.inf, len(costs)) if squared else costs,
            ridge=0.5 / costs if squared else np.broadcast_to(0.0, len(costs)),
            norms=norms,
        )
        start = self._warm_start_from(problem)
        with (
            show_passes(self.verbose, listen=report_rounds(self)) as show,
            open_workers(self.n_jobs) as workers,
        ):
            settings = self._settings(problem, deadline)
            solve = descend_centred if self._has_free_intercept() else descend
            result = solve(rows, dual, settings, workers, start, show)
        self._keep_progress(problem, result)
        return result

    def _has_free_intercept(self) -> bool:
        """Return whether the last extra number of the rows makes an intercept without penalty."""
        return False

    def _warm_start_from(self, problem: Problem) -> WarmStart | None:
        state = getattr(self, "_warm_state", None) if self.warm_start else None
        if state is None or not np.array_equal(state[0], problem.labels):
            return None
        start: WarmStart = state[1]
        return start

    def _keep_progress(self, problem: Problem, result: LinearResult) -> None:
        n_iter = result.n_iter
        self.n_iter_ = int(n_iter[0]) if len(n_iter) == 1 else n_iter
        self.stop_reason_ = result.stop_reason.value
        self.violation_ = float(result.violation.max())
        if self.warm_start:
            self._warm_state = (problem.labels, WarmStart(result.alpha, result.extra))

    def _note_part(self, part: Problem, problem: Problem) -> None:
        """Set the stop reason to ``"max_time"`` if there was no time to represent all rows."""
        if len(part.labels) < len(problem.labels) and self.stop_reason_ != "diverged":
            self.stop_reason_ = "max_time"

    def _prefer_majority(self, model: Any, problem: Problem) -> Any:
        """Return the model, or a constant one if a limit stopped the fit and that is more accurate.

        The constant model predicts the largest class of the problem.
        """
        self._is_constant = False
        if self.stop_reason_ not in ("max_iter", "max_time"):
            return model
        if self.stop_reason_ == "max_iter":
            # Some rows are enough: data that are mapped from a file should not be read once more.
            problem = judged_rows(problem)
        vote = RunningVote(problem)
        vote.add(model.decide(problem.X, self.n_jobs).T)
        if vote.beats_majority():
            return model
        self._is_constant = True
        return model.make_constant(constant_intercept(problem))

    def _advise_late(self) -> str:
        """Return the advice of the warning after ``max_time``."""
        return f"{self._tell_constant()}allow more time for the optimum"

    def _tell_constant(self) -> str:
        """Return what a warning says about a model that predicts one class."""
        return CONSTANT_ADVICE if self._is_constant else ""

    def _advise_scaling(self) -> str:
        """Return advice on how to scale the features for faster convergence."""
        return "scale the features"

    def _warn_unless_converged(self) -> None:
        advice = {
            "max_iter": f"max_iter={self.max_iter} passes were made; {self._tell_constant()}raise "
            f"it, lower C, or {self._advise_scaling()}",
            "max_time": f"max_time={self.max_time} s has passed; {self._advise_late()}",
            "stalled": "rounding errors allow no progress below violation "
            f"{self.violation_:.3g}; raise tol",
            "diverged": f"the approximate descent diverged, and the best of its solutions is kept "
            f"(violation {self.violation_:.3g}); lower C, use more anchors, features between 0 and 1, "
            "or AdditiveSVC, whose descent converges",
        }.get(self.stop_reason_)
        if advice:
            warnings.warn(
                f"{type(self).__name__} stopped before convergence: {advice}",
                ConvergenceWarning,
                stacklevel=4,
            )


def asked_classes(problem: Problem) -> NDArray[np.int64]:
    """Return the positive class of each one-vs-rest problem: the second of two, or every class."""
    n_classes = len(problem.classes)
    return np.array([1]) if n_classes == 2 else np.arange(n_classes)
