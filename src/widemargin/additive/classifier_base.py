"""The base of the additive classifiers and of other linear SVMs on a representation."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import Rows
from widemargin.additive.descent_mixin import DescentMixin
from widemargin.additive.dual_descent import LinearResult, OneVsRestDual, WarmStart
from widemargin.additive.one_vs_rest import solve_one_vs_rest
from widemargin.base import OneVsRest
from widemargin.callback_support import report_rounds
from widemargin.kernel_arguments import check_norms
from widemargin.majority import RunningVote, constant_intercept, judged_rows
from widemargin.parallel import open_workers
from widemargin.parameters import Choices
from widemargin.problem import Problem
from widemargin.progress import show_passes

#: Part of the warning of a fit whose model was replaced by a constant one.
CONSTANT_ADVICE = (
    "the model predicts the largest class, which is more accurate than what it reached; "
)


class LinearClassifier(DescentMixin, OneVsRest):
    """Base of classifiers that solve a linear SVM on a representation of the features.

    It runs dual coordinate descent and keeps the dual variables for a warm start.
    """

    _choices: ClassVar[Choices] = {"loss": ("hinge", "squared_hinge")}
    #: Whether the model predicts the largest class for every row, see `RunningVote`.
    _is_constant = False
    #: Whether decisions of all rows take little time beside a fit.
    _decides_fast = True

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
            result = solve_one_vs_rest(
                rows, dual, self._settings(problem, deadline), workers,
                is_free=self._has_free_intercept(), start=start, callback=show,
            )  # fmt: skip
        self._keep_progress(problem, result)
        return result

    def _warm_start_from(self, problem: Problem) -> WarmStart | None:
        state = getattr(self, "_warm_state", None) if self.warm_start else None
        if state is None or not np.array_equal(state[0], problem.labels):
            return None
        start: WarmStart = state[1]
        return start

    def _keep_progress(self, problem: Problem, result: LinearResult) -> None:
        self._keep_result(result)
        if self.warm_start:
            self._warm_state = (problem.labels, WarmStart(result.alpha, result.extra))

    def _note_part(self, part: Problem, problem: Problem) -> None:
        """Set the stop reason to ``"max_time"`` if there was no time to represent all rows."""
        if len(part.labels) < len(problem.labels) and self.stop_reason_ != "diverged":
            self.stop_reason_ = "max_time"

    def _prefer_majority(self, model: Any, problem: Problem) -> Any:
        """Return the model, or a constant one if the fit stopped early and that is more accurate.

        The constant model predicts the largest class of the problem.
        """
        self._is_constant = False
        if self.stop_reason_ not in ("max_iter", "max_time", "diverged"):
            return model
        judged = problem
        if self.stop_reason_ != "max_time" or not self._decides_fast:
            # Some rows are enough: data that are mapped from a file should not be read once more.
            judged = judged_rows(problem)
        vote = RunningVote(judged)
        vote.add(model.decide(judged.X, self.n_jobs).T)
        if vote.beats_majority(of_sample=len(judged.labels) < len(problem.labels)):
            return model
        self._is_constant = True
        return model.make_constant(constant_intercept(problem))

    def _tell_constant(self) -> str:
        return CONSTANT_ADVICE if self._is_constant else ""

    def _find_advice(self) -> dict[str, str]:
        return super()._find_advice() | {
            "stalled": "rounding errors allow no progress below violation "
            f"{self.violation_:.3g}; raise tol",
            "diverged": f"the approximate descent diverged, and the best of its solutions is kept "
            f"(violation {self.violation_:.3g}); {self._tell_constant()}lower C, use more anchors, "
            "features between 0 and 1, or AdditiveSVC, whose descent converges",
        }


def asked_classes(problem: Problem) -> NDArray[np.int64]:
    """Return the positive class of each one-vs-rest problem: the second of two, or every class."""
    n_classes = len(problem.classes)
    return np.array([1]) if n_classes == 2 else np.arange(n_classes)
