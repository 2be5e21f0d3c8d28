"""The DC-SVM classifier for scikit-learn."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from widemargin.arguments import check_integer, draw_seed
from widemargin.budget import Budget
from widemargin.callbacks import LevelProgress
from widemargin.divide.level_parts import add_committee, describe_level
from widemargin.divide.levels_mixin import LevelsMixin
from widemargin.divide.records import Level, LevelRecord
from widemargin.exact.classifier_base import (
    ExactKernelClassifier,
    collect_support,
)
from widemargin.exact.solution import Solution
from widemargin.kernels import Kernel
from widemargin.parameters import Choices
from widemargin.problem import Problem, Subproblem


class DCSVC(LevelsMixin, ExactKernelClassifier):
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
        again, compares points with a radial kernel by the angle to the mean, and takes the mean of
        the four most central points of each group.
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
        its centre, and early prediction adds the two. 0 is early prediction as in the paper. With
        "auto", fits of 10,000 rows or more train some clusters without a fifth of their rows, and
        compare the hinge loss at these rows: of the clusters alone, of a sample of ``100 sqrt(n)``
        rows, and of both, which must be much smaller. What has the smallest loss predicts. If the
        sample alone does, ``levels_[-1].n_clusters`` is 1; if it would cost nearly as much as the
        whole problem, that is solved (``level_`` is 0). The sample is solved to a tolerance of 0.1,
        unless ``tol`` is larger. Fits of fewer rows, and those with ``skip_levels=False`` or
        ``keep_levels=True``, have a background of a quarter of the rows, at most 5,000.
    overlap : float, default=0.2
        Points of other clusters on which each cluster of a fit that stops early also trains, as a
        share of its own points. These are the points that are nearest to it. 0 for none, as in the
        paper.
    n_nearest : int, default=4
        Number of clusters that predict a query together in early prediction, with weights that fall
        smoothly with the distance; at most a quarter of the clusters do. 1 for the nearest one alone,
        as in the paper.
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

    def _check_params(self) -> None:
        super()._check_params()
        self._check_levels()
        if self.background != "auto":
            check_integer("background", self.background, low=0)

    def _solve(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        deadline: float | None,
    ) -> list[Level]:
        points, duals, cache_bytes = self._prepare(problem, kernel, subproblems)
        budget = Budget(self.tol, self.max_iter, deadline, cache_bytes)
        return self._solve_levels(kernel, problem.X, points, duals, budget)

    def _replace_solutions(
        self, levels: list[Level], solutions: list[Solution], n_support: int
    ) -> list[Level]:
        """Return the levels and one more, of the whole problem, that is not finished."""
        last = levels[-1]
        solutions = super()._replace_solutions(last.solutions, solutions, n_support)
        clusters = np.zeros_like(last.clusters)
        objective = sum(found.objective for found in solutions)
        record = LevelRecord(0, 1, len(clusters), n_support, objective, 0.0, 0.0, is_complete=False)
        intercepts = np.array([[found.intercept for found in solutions]])
        return [*levels, Level(record, None, clusters, solutions, intercepts)]

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
        self._keep_levels(levels, parts)
