"""The DC-SVM classifier for scikit-learn."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from widemargin.budget import Budget, StopReason, worst_reason
from widemargin.callbacks import LevelProgress
from widemargin.divide.background import count_rows
from widemargin.divide.cluster_models import make_model
from widemargin.divide.level_parts import add_committee, describe_level
from widemargin.divide.levels import solve_levels
from widemargin.divide.probe import is_easy, may_skip_levels
from widemargin.divide.records import MIN_POINTS, Level, Plan, count_levels
from widemargin.exact.classifier_base import (
    ExactKernelClassifier,
    collect_support,
)
from widemargin.kernels import Kernel
from widemargin.parameters import Choices
from widemargin.problem import Problem, Subproblem
from widemargin.progress import show_levels
from widemargin.validation import check_integer, check_number, draw_seed


class DCSVC(ExactKernelClassifier):
    """Divide-and-conquer kernel support vector classifier (DC-SVM).

    Kernel k-means divides the data into clusters, and an SVM is trained on each. The next level has
    fewer and larger clusters and starts from the solution of the level before. The last level is the
    whole problem, so the result is the optimum that `KernelSVC` finds. If the fit stops at an earlier
    level, the SVM of its own cluster predicts each query (early prediction). This takes a fraction of
    the time to fit and to predict and is often as accurate.

    Parameters
    ----------
    C, kernel, gamma, degree, coef0, multi_class, class_weight, tol, memory, max_iter
        As in `KernelSVC`.
    fit_intercept : bool, default=False
        Whether decision functions have an intercept. The paper's have none.
    max_time : float or None, default=None
        Seconds after which the fit stops. The model is the last complete level. If no level is
        complete, the first level is kept as it is, which takes somewhat longer than ``max_time``.
    warm_start : bool, default=False
        Whether to start from the solution of the previous fit, if that had the same number of rows
        and the same labels. Such a fit solves the whole problem without levels if ``stop_level`` is 0.
    n_clusters : int, default=4
        Ratio of the numbers of clusters of two successive levels: level l has ``n_clusters**l``.
    n_levels : int, default=4
        The first level to solve, which has the most clusters. Levels with fewer than 50 points per
        cluster on average are left out. On the way to the optimum of 10,000 points or more, the fit
        first solves small samples; if these have few support vectors, it solves the whole problem
        directly, which is then faster, unless ``keep_levels`` is True. So does a fit that stops early
        if the whole problem is estimated to cost no more than its clusters.
    stop_level : int, default=0
        The last level to solve. Level 0 is the whole problem.
    sample_size : int, default=1000
        Number of points on which kernel k-means runs. It is reduced if ``memory`` cannot hold their
        kernel matrix.
    partition : {"merged", "kmeans"}, default="merged"
        How the points are divided. "kmeans" is the two-step kernel k-means of the paper: the groups of
        k-means are the clusters, and every point joins the cluster with the nearest mean. "merged"
        merges smaller groups into clusters of similar sizes, divides clusters that are still too large
        again, and compares points with a radial kernel by the angle to the mean.
    skip_levels : bool, default=True
        Whether levels may be left out because their clusters would be tiny or because the problem is
        easy, as ``n_levels`` says. The algorithm of the paper solves all of them.
    adaptive : bool, default=True
        Whether to sample these points from the support vectors of the previous level.
    refine : bool, default=True
        Whether to solve the problem of the support vectors of level 1 before the whole problem.
    combine : {"early", "naive", "bcm"}, default="early"
        How the clusters of a level above 0 predict: the cluster of the query alone, the sum of all
        clusters, or the sum of their calibrated log-odds (Bayesian committee machine).
    background : int or "auto", default="auto"
        Number of rows of a random sample that a fit which stops early solves first. The models of the
        clusters then change this global model, which knows more than a cluster about points far from
        its centre, and early prediction adds the two. "auto" stands for a quarter of the rows, at most
        5,000. 0 is early prediction as in the paper.
    overlap : float, default=0.2
        Points of other clusters on which each cluster of a fit that stops early also trains, as a
        share of its own points. These are the points that are nearest to it. 0 for none, as in the
        paper.
    n_nearest : int, default=4
        Number of clusters that predict a query together in early prediction, with weights that fall
        smoothly with the distance. 1 for the nearest one alone, as in the paper.
    keep_levels : bool, default=False
        Whether to keep the models of all levels for `staged_predict` and `staged_decision_function`.
    n_jobs : int or None, default=None
        Number of clusters solved in parallel, as `joblib` counts. None stands for the setting of
        ``joblib.parallel_config``, and for all cores without one. Jobs share ``memory``. If it is
        ample, the result does not depend on ``n_jobs``; otherwise the last digits may.
    random_state : int, RandomState or None, default=0
        Seed of the sampling of points.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 prints a progress line, 2 prints a line after every cluster.
    callback : callable or None, default=None
        Called with a `widemargin.callbacks.LevelProgress` after every cluster and after every round of
        the whole problem. An exception that it raises ends the fit.

    Attributes
    ----------
    levels_ : list of LevelRecord
        Summary of each level in the order they were solved: ``level``, ``n_clusters``,
        ``largest_cluster``, ``n_support``, ``objective``, ``clustering_seconds``,
        ``solving_seconds``, and ``is_complete``, which is False if the first level ran out of time.
    level_ : int
        Level of the model.
    support_clusters_ : ndarray of shape (n_SV,)
        Cluster of each support vector.
    cluster_intercepts_ : ndarray of shape (n_clusters, n_problems)
        Intercepts of each cluster.
    classes_, support_, support_vectors_, n_support_, dual_coef_, intercept_, objective_, \
duality_gap_, n_iter_, stop_reason_, kernel_, n_features_in_, feature_names_in_
        As in `KernelSVC`. Above level 0 the objective and the duality gap are sums over the clusters,
        and the intercept is the mean over the clusters. With a background, the dual coefficients and
        the objective are the changes that the clusters make to it.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon: A Divide-and-Conquer Solver for Kernel Support Vector
    Machines. ICML 2014.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import DCSVC
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> early = DCSVC(C=10, n_levels=2, stop_level=2).fit(X, y)
    >>> early.level_, bool(early.score(X, y) > 0.98)
    (2, True)
    """

    # The base's variables, and those of the levels: clusters, concatenated solutions, queued jobs.
    _bytes_per_row = 300

    _choices: ClassVar[Choices] = {
        "combine": ("early", "naive", "bcm"),
        "partition": ("merged", "kmeans"),
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        fit_intercept: bool = False,
        multi_class: str = "ovo",
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-3,
        memory: int | str = "auto",
        max_iter: int = -1,
        max_time: float | None = None,
        warm_start: bool = False,
        n_clusters: int = 4,
        n_levels: int = 4,
        stop_level: int = 0,
        sample_size: int = 1000,
        partition: str = "merged",
        skip_levels: bool = True,
        adaptive: bool = True,
        refine: bool = True,
        combine: str = "early",
        background: int | str = "auto",
        overlap: float = 0.2,
        n_nearest: int = 4,
        keep_levels: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        callback: Callable[[LevelProgress], object] | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.tol = tol
        self.memory = memory
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.n_clusters = n_clusters
        self.n_levels = n_levels
        self.stop_level = stop_level
        self.sample_size = sample_size
        self.partition = partition
        self.skip_levels = skip_levels
        self.adaptive = adaptive
        self.refine = refine
        self.combine = combine
        self.background = background
        self.overlap = overlap
        self.n_nearest = n_nearest
        self.keep_levels = keep_levels
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Compute the decision function of every level, in the order they were solved.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Yields
        ------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            As `decision_function`, in the order of ``levels_``.
        """
        yield from (self._scores(decisions) for decisions in self._staged_decisions(X))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Predict class labels with every level, in the order they were solved.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Yields
        ------
        labels : ndarray of shape (n_samples,)
            As `predict`, in the order of ``levels_``.
        """
        yield from (self._labels(decisions) for decisions in self._staged_decisions(X))

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

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("n_clusters", self.n_clusters, low=1)
        check_integer("n_levels", self.n_levels, low=1)
        check_integer("stop_level", self.stop_level, low=0)
        check_integer("sample_size", self.sample_size, low=1)
        if self.background != "auto":
            check_integer("background", self.background, low=0)
        check_number("overlap", self.overlap)
        if self.overlap < 0:
            raise ValueError(f"overlap: must not be negative, got {self.overlap!r}")
        check_integer("n_nearest", self.n_nearest, low=1)
        if self.stop_level > self.n_levels:
            raise ValueError(
                f"stop_level: {self.stop_level} is below the lowest level, n_levels="
                f"{self.n_levels}; set stop_level to at most {self.n_levels}"
            )

    def _solve(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        deadline: float | None,
    ) -> list[Level]:
        """Solve the levels; the solutions of the last one count the iterations of all levels."""
        points, duals, cache_bytes = self._prepare(problem, kernel, subproblems)
        plan = self._plan(len(points), is_warm=any(dual.start is not None for dual in duals))
        if (
            self.skip_levels
            and not self.keep_levels
            and may_skip_levels(plan, len(points))
            and is_easy(kernel, points, duals, plan, deadline)
        ):
            plan = replace(plan, n_levels=0, stop_level=0, background=0)
        budget = Budget(self.tol, self.max_iter, deadline, cache_bytes)
        with show_levels(self.verbose) as show:
            levels = list(
                solve_levels(
                    kernel, points, duals, plan, budget=budget, callback=self._listener(show)
                )
            )
        last = levels[-1]
        solutions, intercepts = last.solutions, last.intercepts
        before = [] if last.background is None else last.background.solutions
        stop_reason = worst_reason(found.stop_reason for found in [*before, *solutions])
        if last.record.level > self.stop_level:
            stop_reason = StopReason.MAX_TIME
        if last.partition is None:
            solutions = [
                self._polish(kernel, problem.X, points, dual, found, budget)
                for dual, found in zip(duals, solutions, strict=True)
            ]
            intercepts = np.array([[found.intercept for found in solutions]])
        solved = [level.solutions for level in levels] + ([before] if before else [])
        n_iter = np.sum([[found.n_iter for found in each] for each in solved], axis=0)
        solutions = [
            replace(found, n_iter=int(n), stop_reason=stop_reason)
            for found, n in zip(solutions, n_iter, strict=True)
        ]
        return [*levels[:-1], replace(last, solutions=solutions, intercepts=intercepts)]

    def _plan(self, n: int, is_warm: bool) -> Plan:
        whole_at_once = is_warm and self.stop_level == 0
        # There cannot be more clusters than points.
        min_points = MIN_POINTS if self.skip_levels else 1
        counted = count_levels(n, self.n_clusters, self.n_levels, min_points)
        n_levels = 0 if whole_at_once else max(counted, self.stop_level)
        is_early = self.stop_level > 0 and self.combine == "early"
        return Plan(
            n_clusters=self.n_clusters,
            n_levels=n_levels,
            stop_level=self.stop_level,
            sample_size=self.sample_size,
            adaptive=self.adaptive,
            refine=self.refine,
            fit_intercept=self.fit_intercept,
            n_jobs=self.n_jobs,
            seed=draw_seed(self.random_state),
            is_plain=self.partition == "kmeans",
            background=count_rows(self.background, n) if is_early else 0,
            overlap=float(self.overlap) if is_early else 0.0,
        )

    def _listener(
        self, show: Callable[[LevelProgress], object] | None
    ) -> Callable[[LevelProgress], object] | None:
        if show is None:
            return self.callback

        def listen(state: LevelProgress) -> None:
            show(state)
            if self.callback is not None:
                self.callback(state)

        return listen

    def _keep(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        levels: list[Level],
    ) -> None:
        """Set the fitted attributes from the levels that `_solve` returned."""
        kept = levels if self.keep_levels else levels[-1:]
        supports = [collect_support(problem, kernel, subproblems, lv.solutions) for lv in kept]
        self._keep_results(problem, kernel, subproblems, levels[-1].solutions, supports[-1])
        parts = [
            describe_level(problem, kernel, subproblems, level, support)
            for level, support in zip(kept, supports, strict=True)
        ]
        if self.combine == "bcm":
            seed = draw_seed(self.random_state)
            parts = [add_committee(problem, subproblems, p, self.n_jobs, seed) for p in parts]
        self.levels_ = [level.record for level in levels]
        self.level_ = self.levels_[-1].level
        self._parts = parts[-1]
        self.support_clusters_ = self._parts.clusters[: len(self.support_)]
        self.cluster_intercepts_ = self._parts.intercept
        self._stages = (
            [make_model(part, self.combine, self.n_nearest) for part in parts]
            if self.keep_levels
            else None
        )

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
