"""Kernel one-class support vector machine: novelty detection."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from widemargin.arguments import check_number, draw_seed
from widemargin.callbacks import Progress
from widemargin.deadline import start_deadline
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.kernel_machine import KernelMachine
from widemargin.exact.solution import Solution
from widemargin.kernels import Kernel, is_precomputed, wrap_items
from widemargin.problem import Problem
from widemargin.transaction import all_or_nothing
from widemargin.validation import find_shape, validate_rows_alone

#: Rows whose mean similarity tells which rows probably lie outside.
START_ROWS = 500
#: Rows whose decision is this close to zero, relative to the offset, count as inside.
EDGE = 1e-6


class KernelOneClassSVM(OutlierMixin, KernelMachine):
    """Unsupervised novelty detection by a kernel one-class support vector machine.

    Solves the same problem as :class:`sklearn.svm.OneClassSVM` to the same tolerance, faster.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the share of training rows outside, and lower bound on the share of support
        vectors; in (0, 1].
    kernel, gamma, degree, coef0
        The kernel and its parameters, as in `KernelSVC`.
    tol : float, default=1e-3
        Stop when no pair of dual variables violates the optimality conditions by more.
    memory : int or str, default="auto"
        Bound on working memory in bytes, or text such as ``"2 GB"``.
    max_iter : int, default=-1
        Largest number of pair updates; -1 for no limit.
    max_time : float or None, default=None
        Seconds after which to stop with the model reached so far. If they are too few for the kernel
        values of the first solution, objective, duality gap, violation and offset are estimates.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the rows from which the start is computed. It changes the iterations, not the solution.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every round.
    callback : callable or None, default=None
        Called after every round with a `widemargin.callbacks.Progress`. An exception that it raises
        abandons the fit.
    shrinking : bool, default=True
        Accepted for compatibility with ``OneClassSVM``, without effect.
    cache_size : float, default=200
        Accepted for compatibility with ``OneClassSVM``, without effect; ``memory`` bounds the memory.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Training rows that are support vectors.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        Support vectors; empty for a precomputed kernel.
    dual_coef_ : ndarray or csr_matrix of shape (1, n_SV)
        ``decision = k(x, support_vectors_) @ dual_coef_.T + intercept_``; the coefficients add up to
        nu times the number of rows. Sparse if the data were, and so is ``coef_``.
    intercept_ : ndarray of shape (1,)
        Constant of the decision function.
    offset_ : float
        ``decision_function = score_samples - offset_``.
    coef_ : ndarray of shape (1, n_features)
        Weights of the features; only with ``kernel="linear"``.
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    objective_ : float
        Dual objective ``0.5 b'Kb``.
    duality_gap_ : float
        Primal plus dual objective, zero at the optimum.
    violation_ : float
        Largest violation of the optimality conditions; below ``tol`` if the fit converged.
    violation_error_ : float
        By how much float32 kernel values may have changed ``violation_``, estimated; zero where
        objective, gap and violation were computed from float64 kernel values.
    n_iter_ : int
        Pair updates.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, ``"max_time"`` or ``"stalled"``.
    kernel_ : Kernel
        The kernel with all its parameters resolved.
    gamma_, fit_status_, shape_fit_
        As in `KernelSVC`.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    The dual problem, with weights ``w_i``, is::

        minimise    0.5 b'Kb
        subject to  0 <= b_i <= w_i,  sum(b) = nu sum(w)

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import KernelOneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = KernelOneClassSVM(nu=0.1).fit(X)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _svm_type = "one_class"

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        memory: int | str = "auto",
        max_iter: int = -1,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        callback: Callable[[Progress], object] | None = None,
        shrinking: bool = True,
        cache_size: float = 200,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.memory = memory
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.shrinking = shrinking
        self.cache_size = cache_size

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Detect the boundary of the training data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; (n_samples, n_samples) with ``kernel="precomputed"``.
        y : ignored
            Not used, present for consistency.
        sample_weight : array-like of shape (n_samples,), optional
            Largest dual variable of each row; rows of weight zero are left out, and so are those of
            negative weight, with a warning.

        Returns
        -------
        self : KernelOneClassSVM
            The fitted model.
        """
        self._check_params()
        deadline = start_deadline(self.max_time)
        X = wrap_items(self.kernel, X)
        problem = validate_rows_alone(
            self, X, sample_weight, precomputed=is_precomputed(self.kernel)
        )
        self.shape_fit_ = find_shape(self, X)
        self._fit_problem(problem, deadline)
        return self

    def restore_model(self) -> None:
        """Make the predictor and the offset from the fitted attributes."""
        super().restore_model()
        self.offset_ = -float(self.intercept_[0])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distance-like scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Positive for inliers, negative for outliers.
        """
        return self._decide(X)[:, 0]

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Scores without the offset.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Weighted sums of kernel values, larger for rows in denser regions.
        """
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Classify rows as inliers or outliers.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            1 for inliers, -1 for outliers.
        """
        scores = self.decision_function(X)
        return np.where(scores >= self._threshold, 1, -1).astype(np.intp)

    @property
    def _threshold(self) -> float:
        """Least decision value of an inlier: zero, less what rounding may take.

        Free support vectors lie on the boundary, and rounding must not put them outside.
        """
        return -EDGE * max(1.0, abs(self.offset_))

    def _keep(
        self, problem: Problem, kernel: Kernel, duals: list[DualProblem], solved: Any
    ) -> None:
        lowered = [lower_offset(*pair) for pair in zip(duals, solved, strict=True)]
        super()._keep(problem, kernel, duals, lowered)

    def _check_params(self) -> None:
        super()._check_params()
        check_number("nu", self.nu, above=0)
        if self.nu > 1:
            raise ValueError(f"nu: must be in (0, 1], got {self.nu!r}")

    def _make_duals(
        self,
        problem: Problem,
        score: Callable[..., FloatArray],
        diagonal: FloatArray,
        targets: FloatArray | None,
    ) -> list[DualProblem]:
        weights, n = problem.weights, len(problem.labels)
        rng = np.random.default_rng(draw_seed(self.random_state))
        drawn = np.sort(rng.permutation(n)[:START_ROWS])
        similarity = score(drawn, np.full(len(drawn), 1.0 / len(drawn)))
        total = self.nu * float(weights.sum())
        start = fill_up(weights, total, np.argsort(similarity))
        return [
            DualProblem(np.arange(n), np.zeros(n), np.zeros(n), weights, total=total, start=start)
        ]


def lower_offset(dual: DualProblem, found: Solution) -> Solution:
    """Return the solution with the largest offset that leaves rows below their bound inside.

    Within the tolerance any offset between the free support vectors will do. Where many rows are
    alike, the mean of these would put all of them outside, and more rows than ``nu`` allows.
    """
    rise, _ = dual.slopes(found.gradient, found.coef)
    offset = float(rise.min())
    if not np.isfinite(offset):
        return found
    # The optimal price of the sum is between the slopes, so the gap grows by little.
    loss = dual.upper @ np.maximum(offset - found.gradient, 0.0)
    gap = 2.0 * found.objective + float(loss) - offset * float(found.coef.sum())
    return replace(found, intercept=-offset, duality_gap=gap)


def fill_up(upper: FloatArray, total: float, order: NDArray[np.intp]) -> FloatArray:
    """Variables at their upper bound, one after another in some order, until their sum is reached."""
    before = np.concatenate([[0.0], np.cumsum(upper[order])[:-1]])
    out = np.empty(len(upper))
    out[order] = np.clip(total - before, 0.0, upper[order])
    return out
