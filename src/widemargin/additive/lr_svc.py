"""LRSVC: the LR-SVM of Wu and Yang, "Power Mean SVM" (PmSVM Algorithm 2)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from widemargin.additive.anchor_model import KernelValues, RegressionModel
from widemargin.additive.anchors import count_affordable, find_centres
from widemargin.additive.classifier_base import LinearClassifier
from widemargin.additive.coded_rows import plain_rows
from widemargin.additive.representations import AnchorRepresentation, AnchorRows
from widemargin.arguments import check_choice, check_integer, draw_seed
from widemargin.deadline import share_time
from widemargin.kernel_arguments import (
    check_kernel_range,
    check_nonnegative,
    resolve_kernel,
    validate_anchors,
)
from widemargin.kernels import CallableKernel, Kernel, is_precomputed, needs_nonnegative
from widemargin.majority import RunningVote, constant_intercept, judged_rows
from widemargin.parallel import open_workers, single_blas
from widemargin.problem import Problem, take_rows


class LRSVC(LinearClassifier):
    """Linear regression SVM (LR-SVM): any kernel through its values at a few anchors.

    Algorithm 2 of Wu and Yang, "Power Mean SVM": decision values are estimated by a regression on
    explanatory variables. By default these are the kernel's values at the anchors, which makes the
    model a linear SVM on Nystrom's features.

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
        Number of anchors. If there are fewer rows, all rows are anchors.
    anchors : {"kmeans", "random"} or array-like, default="kmeans"
        Centres of k-means clusters, random rows, or given anchors.
    explanatory : callable, default=None
        ``explanatory(X)`` gives the explanatory variables of the rows of ``X``, shape (n, m), dense
        or sparse; None for the kernel's values at the anchors. With another function the gradient is
        approximate, and the descent need not converge.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a row on the wrong side of its margin.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=1e-3
        A fit stops when the projected gradients of a problem differ by less than this.
    max_iter : int, default=1000
        Maximum number of passes over the data.
    max_time : float or None, default=None
        Seconds after which a fit stops with its current model. K-means has a quarter of the time.
        Then kernel values of rows in random order are computed for half of the remaining time, and
        the model is fitted to these rows. More than 100 anchors are reduced if there is no time for
        them. With positive kernels, the model is replaced by one that predicts the largest class if
        that is more accurate on a sample of the rows.
    warm_start : bool, default=False
        Whether a fit starts from the last solution if the labels are the same.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the choice of anchors and of the order of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    anchors_ : ndarray or csr_matrix of shape (n_anchors, n_features)
        The anchors.
    coef_ : ndarray of shape (n_functions, n_explanatory)
        Coefficients of the explanatory variables.
    kernel_ : Kernel
        The kernel.
    n_iter_ : int or ndarray
        Number of passes for each decision function.
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
        random_state: Any = 0,
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

    def _needs_nonnegative(self) -> bool:
        return needs_nonnegative(self.kernel)

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
                "kernel: anchors need a kernel that can be computed, not 'precomputed'; give the name "
                "of a kernel, a callable or a Kernel"
            )

    def _check_features(self, X: Any) -> None:
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))

    def _fit(self, problem: Problem) -> None:
        """Fit to validated data: represent, solve, model."""
        deadline = self._deadline()
        seed = draw_seed(self.random_state)
        self._choose_kernel(problem)
        self.anchors_ = self._choose_anchors(problem, seed, deadline)
        data, found = self._represent(problem, seed, deadline)
        is_all = len(found.indices) == len(problem.labels)
        part = problem if is_all else take_rows(problem, found.indices)
        result = self._descend(part, plain_rows(found.read, found.write), found.norms, deadline)
        self._note_part(part, problem)
        self._model = self._prefer_majority(data.make_model(result.coef), problem)
        self.coef_ = self._model.coef

    def _choose_kernel(self, problem: Problem) -> None:
        self.kernel_ = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        self._check_features(problem.X)
        if not isinstance(self.kernel_, CallableKernel):
            check_kernel_range(self.kernel_, self.kernel_.diag(self.kernel_.prepare(problem.X)))

    def _represent(
        self, problem: Problem, seed: int, deadline: float | None
    ) -> tuple[AnchorRepresentation, AnchorRows]:
        """Represent the rows, or as many random rows as half of the time allows."""
        with open_workers(self.n_jobs) as workers:
            data = AnchorRepresentation(self.kernel_, self.anchors_, self.explanatory, workers)
            order = np.random.default_rng(seed).permutation(len(problem.labels))
            return data, data.make_rows(problem.X, order, share_time(deadline, 2))

    def _prefer_majority(self, model: RegressionModel, problem: Problem) -> RegressionModel:
        """Replace a model by one that predicts the largest class, if that is more accurate.

        This concerns fits that ran out of time. There is no intercept, but a sum of positive kernel
        values does not change its sign.
        """
        self._is_constant = False
        if self.stop_reason_ != "max_time" or self.explanatory is not None:
            return model
        sample = judged_rows(problem)
        with open_workers(self.n_jobs) as workers:
            values = KernelValues(self.kernel_, self.anchors_).compute(sample.X, workers)
        constant = np.outer(constant_intercept(problem), np.ones(model.coef.shape[1]))
        votes = [RunningVote(sample), RunningVote(sample)]
        for vote, coef in zip(votes, (model.coef, constant), strict=True):
            vote.add(coef @ values.T)
        of_sample = len(sample.labels) < len(problem.labels)
        is_good = votes[0].beats_majority(of_sample=of_sample)
        self._is_constant = not is_good and votes[1].beats_majority()
        return replace(model, coef=constant) if self._is_constant else model

    def _choose_anchors(self, problem: Problem, seed: int, deadline: float | None) -> Any:
        X = problem.X
        if not isinstance(self.anchors, str):
            names = getattr(self, "feature_names_in_", None)
            return validate_anchors(self.anchors, self.kernel_, X, names)
        n_anchors = min(self.n_anchors, X.shape[0])
        n_anchors = count_affordable(self.kernel_, X, n_anchors, deadline, self.n_jobs)
        if self.anchors == "kmeans" and n_anchors < X.shape[0]:
            # MiniBatchKMeans limits BLAS to one thread too, but restores the limit without counting
            # who else holds it.
            with single_blas():
                return find_centres(problem, n_anchors, seed, share_time(deadline, 4))
        return X[np.sort(np.random.default_rng(seed).choice(X.shape[0], n_anchors, replace=False))]
