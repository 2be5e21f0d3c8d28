"""Mixin: parameters of the solvers on a representation, and the warning of fits that stopped early."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin.additive.dual_descent import Descent, LinearResult
from widemargin.arguments import check_flag, check_integer, check_number, check_verbose, draw_seed
from widemargin.base import FunctionsMixin
from widemargin.deadline import start_deadline
from widemargin.kernels import is_small
from widemargin.problem import Problem

#: A smaller tolerance needs the precision of float64.
FLOAT32_TOL = 1e-3


class DescentMixin(FunctionsMixin):
    """Settings of a solver: tolerance, limits, seed; and what it reports."""

    loss: str
    tol: float
    max_iter: int
    max_time: float | None
    warm_start: bool
    random_state: Any
    verbose: int

    n_iter_: Any
    stop_reason_: str
    violation_: float

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

    def _has_free_intercept(self) -> bool:
        """Return whether the last extra number of the rows makes an intercept without penalty."""
        return False

    def _keep_result(self, result: LinearResult) -> None:
        """Keep the number of passes, and why and where the solver stopped."""
        n_iter = result.n_iter
        self.n_iter_ = int(n_iter[0]) if len(n_iter) == 1 else n_iter
        self.stop_reason_ = result.stop_reason.value
        self.violation_ = float(result.violation.max())

    def _advise_late(self) -> str:
        """Return the advice of the warning after ``max_time``."""
        return f"{self._tell_constant()}allow more time for the optimum"

    def _tell_constant(self) -> str:
        """Return what a warning says about a model that is constant."""
        return ""

    def _advise_scaling(self) -> str:
        """Return advice on how to scale the features for faster convergence."""
        return "scale the features"

    def _find_advice(self) -> dict[str, str]:
        """Return what a warning says, by stop reason."""
        return {
            "max_iter": f"max_iter={self.max_iter} passes were made; {self._tell_constant()}raise "
            f"it, lower C, or {self._advise_scaling()}",
            "stalled": f"rounding errors allow no progress to tol={self.tol:g}; "
            f"{self._tell_constant()}lower C, or {self._advise_scaling()}",
            "max_time": f"max_time={self.max_time} s has passed; {self._advise_late()}",
        }

    def _warn_unless_converged(self) -> None:
        advice = self._find_advice().get(self.stop_reason_)
        if advice:
            warnings.warn(
                f"{type(self).__name__} stopped before convergence: {advice}",
                ConvergenceWarning,
                stacklevel=4,
            )
