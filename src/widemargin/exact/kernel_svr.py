"""Kernel support vector regression."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from widemargin.callbacks import Progress
from widemargin.deadline import start_deadline
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.kernel_machine import KernelMachine
from widemargin.kernels import Kernel, is_precomputed
from widemargin.problem import Problem
from widemargin.transaction import all_or_nothing
from widemargin.validation import check_number, validate_regression


class KernelSVR(RegressorMixin, KernelMachine):
    """Epsilon-insensitive kernel support vector regression.

    Solves the same problem as :class:`sklearn.svm.SVR` to the same tolerance, faster, and for several
    targets at once.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    epsilon : float, default=0.1
        Half the width of the tube around the prediction within which an error costs nothing.
    kernel, gamma, degree, coef0
        The kernel and its parameters, as in `KernelSVC`.
    tol : float, default=1e-3
        Stop when no pair of dual variables violates the optimality conditions by more.
    memory : int or str, default="auto"
        Bound on working memory in bytes, or text such as ``"2 GB"``.
    max_iter : int, default=-1
        Largest number of pair updates for each target; -1 for no limit.
    max_time : float or None, default=None
        Seconds after which to stop with the model reached so far.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the order in which rows are sampled. It changes the iterations, not the solution.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every round.
    callback : callable or None, default=None
        Called after every round with a `widemargin.callbacks.Progress`. An exception that it raises
        abandons the fit.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Training rows that are support vectors.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        Support vectors; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_targets, n_SV)
        ``prediction = k(x, support_vectors_) @ dual_coef_.T + intercept_``.
    intercept_ : ndarray of shape (n_targets,)
        Constants.
    objective_ : float or ndarray of shape (n_targets,)
        Dual objective ``0.5 b'Kb - y'b + epsilon |b|_1``; a float for one target.
    duality_gap_ : float or ndarray of shape (n_targets,)
        Primal plus dual objective, zero at the optimum.
    n_iter_ : int or ndarray of shape (n_targets,)
        Pair updates.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, ``"max_time"`` or ``"stalled"``.
    kernel_ : Kernel
        The kernel with all its parameters resolved.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    The dual problem is, with ``b = alpha - alpha*``::

        minimise    0.5 b'Kb - y'b + epsilon |b|_1
        subject to  -C_i <= b_i <= C_i,  sum(b) = 0

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import KernelSVR
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KernelSVR(C=10, epsilon=0.01).fit(X, np.sin(X[:, 0]))
    >>> bool(np.abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.02)
    True
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
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
    ) -> None:
        self.C = C
        self.epsilon = epsilon
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

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the SVM model according to the given training data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; (n_samples, n_samples) with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.

        Returns
        -------
        self : KernelSVR
            The fitted model.
        """
        self._check_params()
        deadline = start_deadline(self.max_time)
        problem, targets = validate_regression(
            self, X, y, sample_weight, precomputed=is_precomputed(self.kernel)
        )
        self._is_single = targets.ndim == 1
        self._fit_problem(problem, deadline, targets.reshape(len(targets), -1))
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; the kernel with all training rows if the kernel is precomputed.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions.
        """
        values = self._decide(X)
        return values[:, 0] if self._is_single else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _check_params(self) -> None:
        super()._check_params()
        check_number("C", self.C, above=0)
        check_number("epsilon", self.epsilon)
        if self.epsilon < 0:
            raise ValueError(f"epsilon: must not be negative, got {self.epsilon!r}")

    def _make_duals(
        self, problem: Problem, score: Callable[..., FloatArray], targets: FloatArray | None
    ) -> list[DualProblem]:
        assert targets is not None
        cost, everyone = self.C * problem.weights, np.arange(len(problem.labels))
        return [
            DualProblem(everyone, -target, -cost, cost, epsilon=float(self.epsilon), total=0.0)
            for target in targets.T
        ]
