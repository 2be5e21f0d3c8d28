"""The solutions of a fold along growing C: its codes and tables are made once for all of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.representations import Representation
from widemargin.budget import StopReason
from widemargin.exact.search_path import Step


@dataclass
class CostPath:
    """The training rows of a fold as codes, and the last solution of their problem.

    Attributes
    ----------
    model : AdditiveSVC or AdditiveSVR
        Has the bins and the table of the training rows, and keeps the dual variables between two
        solutions.
    data : Representation
        The training rows.
    solve : callable
        Solves the problem of the represented rows until a deadline, and returns what predicts.
    settle : callable
        Returns what predicts after a fit that stopped early: the same, or a constant.
    queries : ndarray or csr_matrix
        The held-out rows.
    """

    model: Any
    data: Representation
    solve: Callable[[Representation, float | None], Any]
    settle: Callable[[Any], Any]
    queries: Any
    norms: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        # Solvers change the norms in place.
        self.norms = self.data.norms.copy()

    def step(self, cost: float, deadline: float | None) -> Step | None:
        """Solve for one C, from the last solution if C grows; None if time is up before."""
        model = self.model
        if cost < model.C:
            # The solution of a larger C is further away than zero.
            vars(model).pop("_warm_state", None)
        model.C = cost
        self.data.norms = self.norms.copy()
        began = time.perf_counter()
        fitted = self.solve(self.data, deadline)
        reason = StopReason(model.stop_reason_)
        if reason is StopReason.MAX_TIME:
            return None
        if reason is not StopReason.CONVERGED:
            fitted = self.settle(fitted)
        solved = time.perf_counter()
        decisions = fitted.decide(self.queries, n_jobs=1)
        return Step(cost, decisions, reason, solved - began, time.perf_counter() - solved)
