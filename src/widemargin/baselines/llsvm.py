"""LLSVM: low-rank linearisation, a linear SVM on Nystrom features."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.anchor_model import find_inverse_root
from widemargin.arguments import check_integer
from widemargin.baselines.features import FeatureMap, FeaturesMixin, KernelMap, choose_centres
from widemargin.exact.expansion import Expansion
from widemargin.kernel_arguments import check_kernel_range, check_nonnegative, resolve_kernel
from widemargin.kernels import Kernel, is_precomputed, needs_nonnegative
from widemargin.parallel import Workers
from widemargin.problem import Problem

#: Number of rows that are multiplied with the inverse root at a time.
STEP_ROWS = 256


class LLSVC(FeaturesMixin):
    """Linear SVM on a low-rank approximation of the kernel matrix.

    LLSVM of Zhang, Lan, Wang and Moerchen (2012): landmarks are centres of clusters, and the features
    are kernel values at the landmarks times the inverse root of the landmarks' kernel matrix. Scalar
    products of features are Nystrom's approximation of the kernel. It differs from `LRSVC` by its
    intercept and by how its landmarks are found.

    Parameters
    ----------
    n_landmarks : int, default=300
        Number of landmarks. If there are fewer distinct rows, all of them are landmarks.
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    kernel : str, callable or Kernel, default="rbf"
        As for `KernelSVC`, but ``"precomputed"``.
    gamma, degree, coef0
        Parameters of the kernel, as for `KernelSVC`.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a row on the wrong side of its margin.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=0.1
        A fit stops when the projected gradients of a problem differ by less than this.
    max_iter : int, default=1000
        Maximum number of passes over the data.
    max_time : float or None, default=None
        Seconds after which a fit stops with its current model. They include the time for landmarks and
        features, which are always computed; one pass is always made.
    warm_start : bool, default=False
        Whether a fit starts from the last solution if the labels are the same.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the choice of landmarks and of the order of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    landmarks_ : ndarray or csr_matrix of shape (n_landmarks, n_features)
        The landmarks.
    coef_ : ndarray of shape (n_functions, rank)
        ``decision = expand(X) @ coef_.T + intercept_``.
    intercept_ : ndarray of shape (n_functions,)
        Constants of the decision functions. They are regularised like the coefficients.
    kernel_ : Kernel
        The kernel, with its parameters.
    n_iter_ : int or ndarray
        Number of passes for each decision function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"`` or ``"max_time"``.
    violation_ : float
        Largest spread of projected gradients in the last pass.

    References
    ----------
    K. Zhang, L. Lan, Z. Wang, F. Moerchen, "Scaling up kernel SVM on limited resources: a low-rank
    linearization approach", International Conference on Artificial Intelligence and Statistics, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.baselines import LLSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LLSVC(C=10, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    def __init__(
        self,
        *,
        n_landmarks: int = 300,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        loss: str = "hinge",
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 0.1,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _needs_nonnegative(self) -> bool:
        return needs_nonnegative(self.kernel)

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("n_landmarks", self.n_landmarks, low=1)
        if is_precomputed(self.kernel):
            raise ValueError(
                "kernel: landmarks need a kernel that can be computed, not 'precomputed'; give the "
                "name of a kernel, a callable or a Kernel"
            )

    def _check_features(self, X: Any) -> None:
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))

    def _choose_map(self, problem: Problem, seed: int) -> FeatureMap:
        self.kernel_ = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        self._check_features(problem.X)
        self.landmarks_ = choose_centres(problem, self.n_landmarks, seed)
        similar = KernelMap(self.kernel_, self.landmarks_)
        K = self.kernel_.exact(self.landmarks_, self.landmarks_)
        check_kernel_range(self.kernel_, K.diagonal())
        return NystromMap(similar, find_inverse_root(K, is_float32=not similar.is_exact))


@dataclass(frozen=True)
class NystromMap(FeatureMap):
    """Nystrom feature map.

    Attributes
    ----------
    similar : KernelMap
        Kernel with the landmarks.
    root : ndarray of shape (n_landmarks, width)
        Inverse root of the landmarks' kernel matrix.
    """

    similar: KernelMap
    root: NDArray[np.float64]

    @property
    def width(self) -> int:
        return self.root.shape[1]

    def fill(self, X: Any, out: NDArray[Any], workers: Workers) -> None:
        values = self.similar.compute(X, workers)
        root = self.root.astype(values.dtype)

        def multiply(first: int, last: int) -> None:
            # The rounding of BLAS depends on the block size, which must not depend on the threads.
            for start in range(first, last, STEP_ROWS):
                rows = slice(start, min(start + STEP_ROWS, last))
                out[rows] = values[rows] @ root

        workers.run(len(values), multiply, grain=STEP_ROWS)

    def make_model(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> Expansion:
        # The coefficients absorb the root, because the product with it would take most of the time.
        return self.similar.make_model(coef @ self.root.T, intercept)
