"""Linear regression SVM: any kernel through its values at a few anchors."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from widemargin.additive.anchor_model import (
    KernelValues,
    RegressionModel,
    explain_rows,
    find_inverse_root,
)
from widemargin.additive.classifier_base import LinearClassifier
from widemargin.additive.coded_rows import plain_rows
from widemargin.deadline import is_late, seconds_left, share_time
from widemargin.kernels import CallableKernel, Index, Kernel, is_precomputed, needs_nonnegative
from widemargin.kernels.custom import check_matrix
from widemargin.majority import constant_intercept, judged_rows, weigh_right
from widemargin.parallel import Workers, open_workers, single_blas
from widemargin.problem import Problem, take_rows
from widemargin.validation import (
    check_choice,
    check_integer,
    check_nonnegative,
    draw_seed,
    resolve_kernel,
    validate_anchors,
)

#: Rows whose kernel values are computed between two looks at the clock, also a batch of k-means.
BLOCK_ROWS = 4096
#: Most batches of k-means if time is limited.
KMEANS_BATCHES = 100
#: Anchors for which there is time in any case; they are timed to find whether there is for more.
TIMED_ANCHORS = 100


class LRSVC(LinearClassifier):
    """Linear regression SVM (LR-SVM): any kernel through its values at a few anchors.

    Algorithm 2 of Wu and Yang, "Power Mean SVM": decision values are estimated by a regression on
    explanatory variables. With the kernel's values at the anchors as these (the default), this is
    a linear machine on Nystrom's features.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    kernel : str, callable or Kernel, default="rbf"
        As for `KernelSVC`, but ``"precomputed"``. A callable must be symmetric and positive
        semidefinite among the anchors.
    gamma, degree, coef0
        Parameters of the kernel, as for `KernelSVC`.
    n_anchors : int, default=100
        Anchors. With fewer rows, all rows are.
    anchors : {"kmeans", "random"} or array-like, default="kmeans"
        Centres of clusters, rows drawn at random, or the anchors themselves.
    explanatory : callable, default=None
        ``explanatory(X)`` gives the explanatory variables of the rows of ``X``, shape (n, m), dense
        or sparse; None for the kernel's values at the anchors. With another function the gradient is
        approximate, and the descent need not converge.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a point on the wrong side of its margin.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=1e-3
        Stop when the projected gradients of a problem differ by less.
    max_iter : int, default=1000
        Passes over the data.
    max_time : float or None, default=None
        Seconds after which to stop with the model reached so far. K-means then makes as many batches
        as fit into a quarter of them, and kernel values of as many rows are computed, in an order
        drawn by chance, as fit into half of what is left; the model is fitted to these rows. More
        than 100 anchors become fewer if there is no time for them. With kernels whose values are
        positive the model predicts the largest class if that is more accurate on a sample of the rows.
    warm_start : bool, default=False
        Start from the last solution if the labels are the same.
    n_jobs : int or None, default=None
        Threads; None for all cores.
    random_state : int, RandomState or None, default=None
        Choice of anchors and order of the rows.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    anchors_ : ndarray or csr_matrix of shape (n_anchors, n_features)
        The anchors.
    coef_ : ndarray of shape (n_functions, n_explanatory)
        A decision is the product with the explanatory variables.
    kernel_ : Kernel
        The kernel.
    n_iter_ : int or ndarray
        Passes for each function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, ``"max_time"`` or ``"diverged"``.
    violation_ : float
        Largest spread of projected gradients in the last pass.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import LRSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LRSVC(C=10, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_anchors: int = 100,
        anchors: Any = "kmeans",
        explanatory: Callable[[Any], Any] | None = None,
        loss: str = "hinge",
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_anchors = n_anchors
        self.anchors = anchors
        self.explanatory = explanatory
        self.loss = loss
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = needs_nonnegative(self.kernel)
        return tags

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("n_anchors", self.n_anchors, low=1)
        if isinstance(self.anchors, str):
            check_choice("anchors", self.anchors, ("kmeans", "random"))
        if self.explanatory is not None and not callable(self.explanatory):
            raise ValueError(
                f"explanatory: must be a function of X or None, got {self.explanatory!r}"
            )
        if is_precomputed(self.kernel):
            raise ValueError(
                "kernel: anchors need a kernel that can be computed, not 'precomputed'"
            )

    def _check_features(self, X: Any) -> None:
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))

    def _fit(self, problem: Problem) -> None:
        deadline = self._deadline()
        self.kernel_ = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        self._check_features(problem.X)
        seed = draw_seed(self.random_state)
        self.anchors_ = self._choose_anchors(problem, seed, deadline)
        with open_workers(self.n_jobs) as workers:
            reader = _Reader(self.kernel_, self.anchors_, self.explanatory, workers)
            order = np.random.default_rng(seed).permutation(len(problem.labels))
            # Half of the time is for the descent.
            found = reader.read(problem.X, order, share_time(deadline, 2))
        is_whole = len(found.rows) == len(problem.labels)
        part = problem if is_whole else take_rows(problem, found.rows)
        result = self._descend(part, plain_rows(found.read, found.write), found.norms, deadline)
        self._note_part(part, problem)
        self.coef_ = result.coef @ reader.root.T
        self._is_constant = False
        if self.stop_reason_ == "max_time" and self.explanatory is None:
            self._require_majority(judged_rows(problem))
        self._model = RegressionModel(self.kernel_, self.anchors_, self.explanatory, self.coef_)

    def _require_majority(self, sample: Problem) -> None:
        """Predict the largest class if a fit that was stopped has come to less than that.

        There is no intercept, but a sum of kernel values that are positive does not change its sign.
        """
        with open_workers(self.n_jobs) as workers:
            values = KernelValues(self.kernel_, self.anchors_).compute(sample.X, workers)
        constant = np.outer(constant_intercept(sample), np.ones(len(self.coef_.T)))
        rights = [weigh_right(sample, values @ coef.T) for coef in (self.coef_, constant)]
        self._is_constant = rights[1] > rights[0]
        if self._is_constant:
            self.coef_ = constant

    def _choose_anchors(self, problem: Problem, seed: int, deadline: float | None) -> Any:
        X = problem.X
        if not isinstance(self.anchors, str):
            names = getattr(self, "feature_names_in_", None)
            return validate_anchors(self.anchors, self.kernel_, X, names)
        n_anchors = min(self.n_anchors, X.shape[0])
        if deadline is not None and n_anchors > TIMED_ANCHORS:
            n_anchors = self._count_affordable(X, n_anchors, seconds_left(deadline))
        if self.anchors == "kmeans" and n_anchors < X.shape[0]:
            # It holds BLAS to one thread too, and restores what it found without counting.
            with single_blas:
                return _find_centres(problem, n_anchors, seed, share_time(deadline, 4))
        return X[np.sort(np.random.default_rng(seed).choice(X.shape[0], n_anchors, replace=False))]

    def _count_affordable(self, X: Any, n_anchors: int, seconds: float) -> int:
        """Anchors for which a first block of rows takes an eighth of the time."""
        with open_workers(self.n_jobs) as workers:
            began = perf_counter()
            reader = _Reader(self.kernel_, X[:TIMED_ANCHORS], None, workers)
            reader.make_numbers(X[:BLOCK_ROWS])
            taken = perf_counter() - began
        # The root of the matrix of anchors takes time like their cube.
        growth = np.cbrt(seconds / (8.0 * max(taken, 1e-9)))
        return min(n_anchors, int(TIMED_ANCHORS * max(growth, 1.0)))


class Numbers(NamedTuple):
    """Rows as the descent takes them.

    Attributes
    ----------
    rows : ndarray of shape (m,)
        The rows that were read, ascending.
    read, write : ndarray of shape (m, n_numbers)
        What decisions are products with, and what a row adds to the coefficients if that differs.
    norms : ndarray of shape (m,)
        Diagonal of the kernel matrix.
    """

    rows: Index
    read: NDArray[Any]
    write: NDArray[Any] | None
    norms: NDArray[np.float64]


class _Reader:
    """Makes numbers of rows: kernel values at the anchors, and what they explain."""

    def __init__(
        self,
        kernel: Kernel,
        anchors: Any,
        explanatory: Callable[[Any], Any] | None,
        workers: Workers,
    ) -> None:
        self.kernel, self.explanatory, self.workers = kernel, explanatory, workers
        self._values = KernelValues(kernel, anchors)
        among = self._values.compute(anchors, workers)
        if isinstance(kernel, CallableKernel):
            check_matrix(among, f"the {len(among)} anchors")
        if explanatory is None:
            self.root = find_inverse_root(among, is_float32=not self._values.is_exact)
        else:
            design = explain_rows(explanatory, anchors)
            self.root = np.eye(design.shape[1])
            self._inverse = np.linalg.pinv(design).T

    def make_numbers(self, X: Any) -> tuple[NDArray[Any], NDArray[Any] | None, Any]:
        """Numbers of some rows to read, to write if they differ, and norms."""
        similar = self._values.compute(X, self.workers)
        if self.explanatory is None:
            numbers = similar @ self.root
            return numbers, None, np.einsum("ij,ij->i", numbers, numbers)
        norms = self.kernel.diag(self.kernel.prepare(X))
        return explain_rows(self.explanatory, X), similar @ self._inverse, norms

    def read(self, X: Any, order: Index, deadline: float | None) -> Numbers:
        """Numbers of all rows, or of those that come first in an order until time is up."""
        if deadline is None:
            return Numbers(np.arange(len(order)), *self.make_numbers(X))
        parts: list[Any] = []
        n_read = 0
        for start in range(0, len(order), BLOCK_ROWS):
            if parts and is_late(deadline):
                break
            rows = order[start : start + BLOCK_ROWS]
            parts.append(self.make_numbers(X[rows]))
            n_read += len(rows)
        place = np.argsort(order[:n_read])
        read, write, norms = zip(*parts, strict=True)
        return Numbers(
            order[:n_read][place],
            np.concatenate(read)[place],
            None if self.explanatory is None else np.concatenate(write)[place],
            np.concatenate(norms)[place],
        )


def _find_centres(problem: Problem, n_anchors: int, seed: int, deadline: float | None) -> Any:
    """Centres of clusters; if time is limited, of as many batches as there is time for."""
    X, weights = problem.X, problem.sample_weights
    kmeans = MiniBatchKMeans(n_anchors, random_state=seed, n_init=1, batch_size=BLOCK_ROWS)
    if deadline is None:
        return kmeans.fit(X, sample_weight=weights).cluster_centers_
    rng = np.random.default_rng(seed)
    # The choice of the first centres by distances cannot be interrupted.
    kmeans.set_params(init="random")
    for _ in range(KMEANS_BATCHES):
        batch = rng.integers(X.shape[0], size=max(n_anchors, min(BLOCK_ROWS, X.shape[0])))
        kmeans.partial_fit(X[batch], sample_weight=weights[batch])
        if is_late(deadline):
            break
    return kmeans.cluster_centers_
