"""What `DCSVC` and `DCSVR` share: parameters of the levels, their solution, and staged models."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_integer, check_number, draw_seed
from widemargin.budget import Budget, StopReason, worst_reason
from widemargin.callback_support import report_rounds
from widemargin.callbacks import LevelProgress
from widemargin.divide.background import count_rows
from widemargin.divide.cluster_models import ClusterParts, make_model
from widemargin.divide.levels import solve_levels
from widemargin.divide.probe import adapt_plan, may_skip_levels
from widemargin.divide.records import MIN_POINTS, Level, LevelRecord, Plan, count_levels
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.solve import polish
from widemargin.kernels import Kernel, Points
from widemargin.progress import show_levels


class LevelsMixin:
    """Estimators that solve levels of clusters before, or instead of, the whole problem."""

    n_clusters: int
    n_levels: int
    stop_level: int
    sample_size: int
    partition: str
    skip_levels: bool
    adaptive: bool
    refine: bool
    combine: str
    overlap: float
    n_nearest: int
    keep_levels: bool
    n_jobs: int | None
    random_state: Any
    verbose: int
    callback: Callable[[Any], object] | None

    levels_: list[LevelRecord]
    support_: NDArray[np.int32]
    _parts: ClusterParts
    _stages: list[Any] | None
    _check_queries: Callable[[Any], Any]
    _ask: Callable[[Any, Any], NDArray[np.float64]]

    def _staged_decisions(self, X: Any) -> Iterator[NDArray[np.float64]]:
        check_is_fitted(self)
        if self._stages is None and self.keep_levels:
            raise ValueError(
                "this model was loaded from a file, and model files hold the last level only; fit "
                "again, or pickle the fitted model instead"
            )
        if self._stages is None:
            raise ValueError(
                "keep_levels: only the last level was kept; fit with keep_levels=True to predict with "
                "all levels"
            )
        X = self._check_queries(X)
        yield from (self._ask(model, X) for model in self._stages)

    def _check_levels(self) -> None:
        check_integer("n_clusters", self.n_clusters, low=1)
        check_integer("n_levels", self.n_levels, low=1)
        check_integer("stop_level", self.stop_level, low=0)
        check_integer("sample_size", self.sample_size, low=1)
        check_number("overlap", self.overlap)
        if self.overlap < 0:
            raise ValueError(f"overlap: must not be negative, got {self.overlap!r}")
        check_integer("n_nearest", self.n_nearest, low=1)
        if self.stop_level > self.n_levels:
            raise ValueError(
                f"stop_level: {self.stop_level} is below the lowest level, n_levels="
                f"{self.n_levels}; set stop_level to at most {self.n_levels}"
            )

    def _plan(self, n: int, is_warm: bool) -> Plan:
        whole_at_once = is_warm and self.stop_level == 0
        # There cannot be more clusters than points.
        min_points = MIN_POINTS if self.skip_levels else 1
        counted = count_levels(n, self.n_clusters, self.n_levels, min_points)
        n_levels = 0 if whole_at_once else max(counted, self.stop_level)
        is_early = self.stop_level > 0 and self.combine == "early"
        background = getattr(self, "background", 0)
        return Plan(
            n_clusters=self.n_clusters,
            n_levels=n_levels,
            stop_level=self.stop_level,
            sample_size=self.sample_size,
            adaptive=self.adaptive,
            refine=self.refine,
            n_jobs=self.n_jobs,
            seed=draw_seed(self.random_state),
            is_plain=self.partition == "kmeans",
            background=count_rows(background, n) if is_early else 0,
            overlap=float(self.overlap) if is_early else 0.0,
        )

    def _solve_levels(
        self, kernel: Kernel, X: Any, points: Points, duals: list[DualProblem], budget: Budget
    ) -> list[Level]:
        """Solve the levels; the solutions of the last one count the iterations of all levels."""
        plan = self._plan(len(points), is_warm=any(dual.start is not None for dual in duals))
        if self.skip_levels and not self.keep_levels and may_skip_levels(plan, len(points)):
            is_auto = getattr(self, "background", 0) == "auto"
            plan = replace(plan, is_measured=is_auto and plan.background > 0)
            plan = adapt_plan(kernel, points, duals, plan, budget.deadline)
        with show_levels(self.verbose, report_rounds(self)) as show:
            listener = self._level_listener(show)
            levels = list(
                solve_levels(kernel, points, duals, plan, budget=budget, callback=listener)
            )
        last = levels[-1]
        solutions, intercepts = last.solutions, last.intercepts
        before = [] if last.background is None else last.background.solutions
        earlier = [level.solutions for level in levels[:-1]] + ([before] if before else [])
        n_earlier = np.zeros(len(duals), int)
        for each in earlier:
            n_earlier += [found.n_iter for found in each]
        if last.record.level == 0:
            solutions = [
                polish(kernel, X, points, dual, found, budget)
                for dual, found in zip(duals, solutions, strict=True)
            ]
            intercepts = np.array([[found.intercept for found in solutions]])
        stop_reason = worst_reason(found.stop_reason for found in [*before, *solutions])
        if last.record.level > self.stop_level:
            stop_reason = StopReason.MAX_TIME
        solutions = [
            replace(found, n_iter=found.n_iter + int(n), stop_reason=stop_reason)
            for found, n in zip(solutions, n_earlier, strict=True)
        ]
        return [*levels[:-1], replace(last, solutions=solutions, intercepts=intercepts)]

    def _keep_levels(self, levels: list[Level], parts: list[ClusterParts]) -> None:
        """Set the attributes of the levels; ``parts`` are those of the levels that are kept."""
        self.levels_ = [level.record for level in levels]
        self.level_ = self.levels_[-1].level
        self._parts = parts[-1]
        self.support_clusters_ = self._parts.clusters[: len(self.support_)]
        self.cluster_intercepts_ = self._parts.intercept
        self._stages = None
        if self.keep_levels:
            self._stages = [make_model(part, self.combine, self.n_nearest) for part in parts]

    def _level_listener(
        self, show: Callable[[LevelProgress], object] | None
    ) -> Callable[[LevelProgress], object] | None:
        if show is None:
            return self.callback

        def listen(state: LevelProgress) -> None:
            show(state)
            if self.callback is not None:
                self.callback(state)

        return listen

    def _advise_late(self) -> str:
        kept = self.levels_[-1]
        goal = "the optimum" if self.stop_level == 0 else f"level {self.stop_level}"
        which = f"level {kept.level} of {kept.n_clusters:,} clusters"
        if kept.level == 0:
            return f"allow more time for {goal}"
        if kept.is_complete:
            return f"the model is that of {which}; allow more time for {goal}"
        return (
            f"the model is that of {which}, which is the lowest and not finished; allow more time, "
            "or raise n_clusters or n_levels for smaller clusters"
        )

    def restore_model(self) -> None:
        """Make the model that predicts from the fitted attributes."""
        self._model = make_model(self._parts, self.combine, self.n_nearest)
