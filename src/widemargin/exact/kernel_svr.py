"""Kernel support vector regression."""

from collections.abc import Callable
from typing import Any

from widemargin.callbacks import Progress
from widemargin.exact.regressor_base import KernelRegressor
from widemargin.kernels import Kernel


class KernelSVR(KernelRegressor):
    """Epsilon-insensitive kernel support vector regression.

    Solves the same problem as :class:`sklearn.svm.SVR` to the same tolerance, faster, and for several
    targets at once.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more. With ``inf`` no error beyond ``epsilon`` is
        allowed; if the kernel cannot keep to that, a `ConvergenceWarning` says so.
    epsilon : float, default=0.1
        Half the width of the tube around the prediction within which an error costs nothing.
    kernel, gamma, degree, coef0
        The kernel and its parameters, as in `KernelSVC`.
    fit_intercept : bool, default=True
        Whether the prediction has a constant term. Without, the dual loses its equality constraint.
    tol : float, default=1e-3
        Stop when no pair of dual variables violates the optimality conditions by more.
    memory : int or str, default="auto"
        Bound on working memory in bytes, or text such as ``"2 GB"``.
    max_iter : int, default=-1
        Largest number of pair updates for each target; -1 for no limit.
    max_time : float or None, default=None
        Seconds after which to stop with the model reached so far.
    warm_start : bool, default=False
        Begin a fit at the solution of the last one, if it had as many rows and targets.
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
    shrinking : bool, default=True
        Accepted for compatibility with ``SVR``, without effect.
    cache_size : float, default=200
        Accepted for compatibility with ``SVR``, without effect; ``memory`` bounds the memory.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Training rows that are support vectors.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        Support vectors; empty for a precomputed kernel.
    dual_coef_ : ndarray or csr_matrix of shape (n_targets, n_SV)
        ``prediction = k(x, support_vectors_) @ dual_coef_.T + intercept_``. Sparse if the data
        were, and so is ``coef_``.
    intercept_ : ndarray of shape (n_targets,)
        Constants.
    coef_ : ndarray of shape (n_targets, n_features)
        Weights of the features; only with ``kernel="linear"``.
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    objective_ : float or ndarray of shape (n_targets,)
        Dual objective ``0.5 b'Kb - y'b + epsilon |b|_1``; a float for one target.
    duality_gap_ : float or ndarray of shape (n_targets,)
        Primal plus dual objective, zero at the optimum.
    violation_ : float or ndarray of shape (n_targets,)
        Largest violation of the optimality conditions; below ``tol`` if the fit converged.
    violation_error_ : float or ndarray of shape (n_targets,)
        By how much float32 kernel values may have changed ``violation_``, estimated; zero where
        objective, gap and violation were computed from float64 kernel values.
    n_iter_ : int or ndarray of shape (n_targets,)
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
    The dual problem is, with ``b = alpha - alpha*``::

        minimise    0.5 b'Kb - y'b + epsilon |b|_1
        subject to  -C_i <= b_i <= C_i,  sum(b) = 0 unless fit_intercept=False

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
        fit_intercept: bool = True,
        tol: float = 1e-3,
        memory: int | str = "auto",
        max_iter: int = -1,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        callback: Callable[[Progress], object] | None = None,
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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.shrinking = shrinking
        self.cache_size = cache_size
