"""Divide-and-conquer regression for scikit-learn."""

import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from widemargin.budget import Budget, StopReason
from widemargin.callbacks import LevelProgress
from widemargin.divide.level_parts import describe_level
from widemargin.divide.levels_mixin import LevelsMixin
from widemargin.divide.records import Level, replace_problems
from widemargin.exact.classifier_base import collect_support
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.regressor_base import KernelRegressor
from widemargin.exact.solution import predict_mean
from widemargin.kernels import Kernel, Points, Precomputed
from widemargin.majority import choose_judged
from widemargin.parallel import Workers
from widemargin.parameters import Choices, check_choices
from widemargin.problem import Problem, Subproblem


class DCSVR(LevelsMixin, KernelRegressor):
    """Divide-and-conquer kernel support vector regression.

    The method is that of `DCSVC` for the dual of `KernelSVR`: kernel k-means divides the data into
    clusters, and a regression is fitted to each; the next level has fewer and larger clusters and
    starts from the solution of the level before. The dual variables of a cluster add up to zero, so
    the solutions of the clusters together are feasible for the whole problem. If the fit stops at an
    earlier level, the clusters near a query predict it (early prediction).

    Parameters
    ----------
    C, epsilon, kernel, gamma, degree, coef0, fit_intercept, tol, memory, max_iter
        As in `KernelSVR`.
    max_time, n_clusters, n_levels, stop_level, sample_size, partition, skip_levels, adaptive, refine
        As in `DCSVC`.
    combine : {"early", "naive"}, default="early"
        How the clusters of a level above 0 predict: the clusters near the query, or the sum of all.
    overlap, n_nearest, keep_levels, n_jobs
        As in `DCSVC`. There is no ``background``: the changes that a cluster makes to a global model
        of regression are no problem of this form.
    warm_start : bool, default=False
        Whether to start from the solution of the previous fit, if that had the same number of rows
        and targets.
    random_state : int, RandomState or None, default=0
        Seed of the sampling of points.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 prints a progress line, 2 prints a line after every cluster.
    callback : callable or None, default=None
        Called with a `widemargin.callbacks.LevelProgress` after every cluster and after every round of
        the whole problem. An exception that it raises ends the fit.
    shrinking, cache_size
        Accepted for scripts written for `sklearn.svm.SVR`; without effect.

    Attributes
    ----------
    levels_, level_, support_clusters_, cluster_intercepts_
        As in `DCSVC`; ``cluster_intercepts_`` has a column for each target.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, objective_, duality_gap_, \
violation_, violation_error_, n_iter_, stop_reason_, kernel_, n_features_in_
        As in `KernelSVR`. Above level 0 the objective and the duality gap are sums over the clusters,
        and the intercept is the mean over the clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import DCSVR
    >>> X = np.linspace(0, 6, 2000)[:, None]
    >>> early = DCSVR(C=10, epsilon=0.01, n_levels=2, stop_level=2).fit(X, np.sin(X[:, 0]))
    >>> early.level_, bool(early.score(X, np.sin(X[:, 0])) > 0.99)
    (2, True)
    """

    _choices: ClassVar[Choices] = {
        "combine": ("early", "naive"),
        "partition": ("merged", "kmeans"),
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
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
        overlap: float = 0.2,
        n_nearest: int = 4,
        keep_levels: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        callback: Callable[[LevelProgress], object] | None = None,
        shrinking: bool = True,
        cache_size: float = 200,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
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
        self.overlap = overlap
        self.n_nearest = n_nearest
        self.keep_levels = keep_levels
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.shrinking = shrinking
        self.cache_size = cache_size

    def staged_predict(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Predict targets with every level, in the order they were solved.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Yields
        ------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            As `predict`, in the order of ``levels_``.
        """
        for values in self._staged_decisions(X):
            yield values[:, 0] if self._is_single else values

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features if the kernel is linear and the level is 0."""
        if self.level_ > 0:
            raise AttributeError(
                "coef_: an early model has weights for each cluster, not for all; fit with "
                "stop_level=0"
            )
        return super().coef_

    def to_libsvm(self, path: str | os.PathLike[str]) -> None:
        """Write a model of level 0 as a text file that LIBSVM's tools read.

        Parameters
        ----------
        path : path-like
            Where to write. Needs a linear, rbf, poly, sigmoid or precomputed kernel, and a single
            target.
        """
        check_is_fitted(self)
        if self.level_ > 0:
            raise ValueError("model: LIBSVM's files hold no clusters; fit with stop_level=0")
        super().to_libsvm(path)

    @classmethod
    def from_libsvm(cls, path: str | os.PathLike[str], n_features: int | None = None) -> Self:
        """Refuse to read a file of LIBSVM, which holds no levels; `KernelSVR` reads it."""
        raise TypeError("path: a model of LIBSVM has no levels; use KernelSVR.from_libsvm")

    def _check_params(self) -> None:
        super()._check_params()
        check_choices(self)
        self._check_levels()

    def _solve_duals(
        self, kernel: Kernel, X: Any, points: Points, duals: list[DualProblem], workers: Workers,
        budget: Budget,
    ) -> list[Level]:  # fmt: skip
        return self._solve_levels(kernel, X, points, duals, budget)

    def _keep(
        self, problem: Problem, kernel: Kernel, duals: list[DualProblem], solved: list[Level]
    ) -> None:
        """Set the fitted attributes from the levels that `_solve_duals` returned."""
        self._keep_solved(problem, kernel, duals, solved)
        if self.stop_reason_ == StopReason.MAX_TIME.value and not isinstance(kernel, Precomputed):
            self._outdo_means(problem, kernel, duals, solved)

    def _keep_solved(
        self, problem: Problem, kernel: Kernel, duals: list[DualProblem], solved: list[Level]
    ) -> None:
        kept = solved if self.keep_levels else solved[-1:]
        subproblems = [Subproblem(dual.index, -dual.linear, 0, 0) for dual in duals]
        supports = [collect_support(problem, kernel, subproblems, lv.solutions) for lv in kept]
        parts = [
            describe_level(problem, kernel, subproblems, level, support)
            for level, support in zip(kept, supports, strict=True)
        ]
        self.support_ = problem.kept[supports[-1].rows].astype(np.int32)
        self._keep_levels(solved, parts)
        super()._keep(problem, kernel, duals, solved[-1].solutions)

    def _outdo_means(
        self, problem: Problem, kernel: Kernel, duals: list[DualProblem], levels: list[Level]
    ) -> None:
        """Replace what a late model says of targets for which it is worse than their mean.

        The solver takes care of each cluster. The mean of several clusters, or their sum, may still be
        worse.
        """
        last, rows = levels[-1], choose_judged(len(problem.kept))
        if last.partition is None:
            return
        constants = [predict_mean(dual) for dual in duals]
        targets = np.column_stack([-dual.linear[rows] for dual in duals])
        weights = problem.weights[rows]
        errors = weights @ np.square(self._ask(self._model, problem.X[rows]) - targets)
        means = np.array([found.intercept for found in constants])
        is_worse = errors > weights @ np.square(means - targets)
        if is_worse.any():
            level = replace_problems(last, duals, constants, is_worse)
            self._keep_solved(problem, kernel, duals, [*levels[:-1], level])
