"""Calls of the user's callback while a level is being solved."""

from collections.abc import Callable
from time import perf_counter

import numpy as np

from widemargin.callbacks import LevelProgress, Progress
from widemargin.divide.records import find_support
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.solution import Solution
from widemargin.kernels import Index

Listener = Callable[[LevelProgress], object]


class LevelReporter:
    """Passes the progress of one level to a callback.

    Parameters
    ----------
    level : int
        Number of the level.
    sizes : ndarray of shape (n_clusters,)
        Number of points in each cluster.
    began : float
        When the fit began, by `time.perf_counter`.
    callback : callable or None
        Called with a `LevelProgress` after every cluster and every round of the whole problem.
    """

    def __init__(self, level: int, sizes: Index, began: float, callback: Listener | None) -> None:
        self.level, self.sizes, self.callback = level, sizes, callback
        # The time to solve a cluster grows with the square of its number of points.
        self.work_left = self.work = int(np.square(sizes).sum())
        self.began, self.level_began = began, perf_counter()
        self.n_done = self.n_support = 0
        self.n_problems = 1
        self.objective = 0.0
        self.violation: float | None = None

    def finish_cluster(self, c: int, solutions: list[Solution], n_support: int) -> None:
        """Report that cluster ``c`` is solved; ``n_support`` counts all solved clusters."""
        self.n_done += 1
        self.work_left -= int(self.sizes[c]) ** 2
        self.n_support, self.violation = n_support, None
        self.objective += sum(found.objective for found in solutions)
        self._report()

    def begin_whole(self, duals: list[DualProblem], n_points: int) -> None:
        """Count the support vectors from which the whole problem starts."""
        self.n_problems = len(duals)
        starts = [np.zeros(len(d)) if d.start is None else d.start for d in duals]
        self.n_support = len(find_support(duals, starts, n_points))

    def finish_round(self, _: int, progress: Progress) -> None:
        """Report a round of the solver on the whole problem."""
        n_support = progress.n_support if self.n_problems == 1 else self.n_support
        self.report_round(n_support, progress.violation)

    def report_round(self, n_support: int, violation: float) -> None:
        """Report the support vectors and the violation of the whole problem after a round."""
        self.n_support, self.violation = n_support, violation
        self._report()

    def _report(self) -> None:
        if self.callback is None:
            return
        now = perf_counter()
        used, left = now - self.level_began, None
        if self.n_done:
            left = used * self.work_left / (self.work - self.work_left)
        self.callback(
            LevelProgress(
                level=self.level,
                n_clusters=len(self.sizes),
                n_done=self.n_done,
                n_support=self.n_support,
                objective=self.objective,
                seconds=now - self.began,
                seconds_left=left,
                violation=self.violation,
            )
        )
