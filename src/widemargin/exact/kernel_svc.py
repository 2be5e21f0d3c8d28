"""The exact kernel SVM as a scikit-learn classifier."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_choice, check_flag, draw_seed
from widemargin.budget import Budget
from widemargin.callback_support import report_rounds
from widemargin.callbacks import Progress
from widemargin.exact.classifier_base import ExactKernelClassifier
from widemargin.exact.solution import Solution
from widemargin.exact.solve import solve_exactly
from widemargin.exact.svc_compatibility import (
    FittedLikeSVCMixin,
    check_cost,
    check_ignored_params,
    warn_unless_feasible,
)
from widemargin.files.libsvm_models import read_libsvm_attributes, to_libsvm_model
from widemargin.files.libsvm_text import write_libsvm_model
from widemargin.kernels import Kernel
from widemargin.parallel import open_workers
from widemargin.problem import Problem, Subproblem
from widemargin.progress import show_problems


class KernelSVC(FittedLikeSVCMixin, ExactKernelClassifier):
    """Kernel support vector classifier: the optimum of LIBSVM, found faster.

    Solves the same problem as :class:`sklearn.svm.SVC` to the same tolerance. Sparse data are used
    as they are; memory for training and prediction stays within ``memory``. Code that uses ``SVC``
    works with this class in its place; the page *Coming from SVC* of the user guide lists the
    differences.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more. With ``inf`` errors are not allowed (hard
        margin); if the kernel cannot separate the classes, a `ConvergenceWarning` says so.
    kernel : str, callable or Kernel, default="rbf"
        ``"linear"``, ``"rbf"``, ``"poly"``, ``"sigmoid"``, ``"chi2"`` (additive), ``"exp_chi2"``,
        ``"intersection"``, ``"hellinger"``, ``"power_mean"``, ``"jensen_shannon"``, ``"anova_chi2"``,
        ``"anova_intersection"``, ``"anova_rbf"`` (all features and all pairs of features) or
        ``"precomputed"``; a callable ``(X, Z) -> K``, also on things that are no numbers; or an
        object of `widemargin.kernels`.
    gamma : float, "scale" or "auto", default="scale"
        Width of the rbf, poly, sigmoid and exp_chi2 kernels. ``"scale"`` is
        ``1 / (n_features * X.var())``, ``"auto"`` is ``1 / n_features``. With sample weights the
        variance is weighted too, so that a weight of two equals a repeated row. The anova_rbf kernel
        compares single features, so n_features counts as 1.
    degree : int, default=3
        Degree of the poly kernel.
    coef0 : float, default=0.0
        Constant of the poly and sigmoid kernels.
    fit_intercept : bool, default=True
        Whether the decision function has a constant term. Without, the dual loses its equality
        constraint (the problem of DC-SVM).
    multi_class : {"ovo", "ovr"}, default="ovo"
        With more than two classes: one problem for each pair of classes, or one for each class
        against the rest. The problems of one-vs-rest share kernel rows.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        With more than two classes, whether `decision_function` has a column for each class or for
        each pair of classes. It does not change the fit.
    break_ties : bool, default=False
        Whether `predict` breaks ties between votes by `decision_function` instead of taking the first
        class. Needs ``decision_function_shape="ovr"``.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=1e-3
        Stop when no pair of points violates the optimality conditions by more.
    memory : int or str, default="auto"
        Bound on working memory in bytes, or text such as ``"2 GB"``. ``"auto"`` takes half of what
        is free. Less memory means more time, never another answer.
    max_iter : int, default=-1
        Largest number of pair moves in each binary problem; -1 for no limit.
    max_time : float or None, default=None
        Seconds after which to stop with the model reached so far.
    warm_start : bool, default=False
        Begin a fit at the solution of the last one, if it had as many rows and the same classes.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the order in which rows are sampled. It changes the iterations, not the solution.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every round.
    callback : callable or None, default=None
        Called after every round with a `widemargin.callbacks.Progress`. An exception that it raises
        abandons the fit. Several binary problems may be under way, but one thread at a time calls.
    shrinking : bool, default=True
        Accepted for compatibility with ``SVC``, without effect.
    cache_size : float, default=200
        Accepted for compatibility with ``SVC``, without effect; ``memory`` bounds the memory.
    probability : bool, default=False
        Accepted for compatibility with ``SVC``; only False is possible. For probabilities, see Notes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    support_ : ndarray of shape (n_SV,)
        Training rows that are support vectors, grouped by class.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        Support vectors; empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray or csr_matrix of shape (n_problems, n_SV)
        Signed dual coefficients: ``decision = k(x, support_vectors_) @ dual_coef_.T + intercept_``,
        positive for ``classes_[1]``. With one-vs-one a row is a pair of classes (0, 1), (0, 2), ...,
        (1, 2), ..., positive for the second; with one-vs-rest a row is a class. Sparse if the data
        were, and so is ``coef_``.
    coef_ : ndarray or csr_matrix of shape (n_problems, n_features)
        Weights of the features; only with ``kernel="linear"``. Signs are those of ``dual_coef_``.
    intercept_ : ndarray of shape (n_problems,)
        Constants of the decision functions.
    objective_ : float or ndarray of shape (n_problems,)
        Dual objective ``0.5 a'Qa - sum(a)``; a float for two classes.
    duality_gap_ : float or ndarray of shape (n_problems,)
        Primal plus dual objective, zero at the optimum.
    violation_ : float or ndarray of shape (n_problems,)
        Largest violation of the optimality conditions; below ``tol`` if the fit converged.
    violation_error_ : float or ndarray of shape (n_problems,)
        By how much float32 kernel values may have changed ``violation_``, estimated; zero where
        objective, gap and violation were computed from float64 kernel values.
    n_iter_ : ndarray of shape (n_problems,)
        Pair updates of each binary problem.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, ``"max_time"``, or ``"stalled"`` when ``tol`` is finer than
        float32 kernel values allow. All but the first come with a `ConvergenceWarning`.
    fit_status_ : int
        0 if the fit converged, else 1.
    kernel_ : Kernel
        The kernel with all its parameters resolved.
    gamma_ : float
        The number that ``gamma`` stands for; 0 if the kernel has none.
    class_weight_ : ndarray of shape (n_classes,)
        Factor on C for each class. Model files do not hold it.
    shape_fit_ : tuple of int
        Shape of the training data. Model files do not hold it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the training data had any.

    Notes
    -----
    For probabilities wrap the estimator in :class:`sklearn.calibration.CalibratedClassifierCV`, for
    example ``CalibratedClassifierCV(KernelSVC(), ensemble=False)``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from widemargin import KernelSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), KernelSVC(C=10)).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
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
        fit_intercept: bool = True,
        multi_class: str = "ovo",
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        class_weight: dict[Any, float] | str | None = None,
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
        probability: bool | str = False,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.class_weight = class_weight
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
        self.probability = probability

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distance-like scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; the kernel with all training rows if the kernel is precomputed.

        Returns
        -------
        scores : ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            For two classes positive means ``classes_[1]``. With ``decision_function_shape="ovr"``
            one-vs-one problems are summed up as votes with ties broken by confidence. With ``"ovo"``
            there is a column for each pair of classes, positive for the first of the pair, as in
            scikit-learn and opposite to ``dual_coef_``.
        """
        self._check_shape()
        return super().decision_function(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of every row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data, as for `decision_function`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels. One-vs-one problems vote; the first class wins a tie, as in LIBSVM, unless
            ``break_ties`` is set.
        """
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "break_ties: ties are broken by the scores of classes, so break_ties must be False "
                "when decision_function_shape is 'ovo'"
            )
        return super().predict(X)

    def to_libsvm(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a text file that LIBSVM's tools read.

        Parameters
        ----------
        path : path-like
            Where to write. Needs integer labels, one-vs-one problems, and a linear, rbf, poly,
            sigmoid or precomputed kernel.
        """
        check_is_fitted(self)
        write_libsvm_model(path, to_libsvm_model(self, self._one_vs_one))

    @classmethod
    def from_libsvm(
        cls, path: str | os.PathLike[str], n_features: int | None = None
    ) -> "KernelSVC":
        """Read a classifier from a model file of LIBSVM (``svm-train``).

        Parameters
        ----------
        path : path-like
            The file; it need not be trusted.
        n_features : int, optional
            Width of the data, which the format does not hold; the largest feature that a support
            vector has if not given. For a precomputed kernel, the number of training rows.

        Returns
        -------
        model : KernelSVC
            A classifier that predicts as LIBSVM does. The file does not say which training rows
            the support vectors are, so ``support_`` counts them; ``C`` and the objective are
            unknown.
        """
        attributes = read_libsvm_attributes(path, "c_svc", n_features)
        kernel = attributes["kernel_"]
        model = cls(kernel=kernel.name, **kernel.params())
        for name, value in attributes.items():
            setattr(model, name, value)
        model._one_vs_one = True
        model.restore_model()
        return model

    def _solve(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        deadline: float | None,
    ) -> list[Solution]:
        points, duals, cache_bytes = self._prepare(problem, kernel, subproblems)
        listen = report_rounds(self)
        with (
            open_workers(self.n_jobs) as workers,
            show_problems(len(duals), self.verbose, listen) as show,
        ):
            solutions = solve_exactly(
                kernel, problem.X, points, duals, workers,
                budget=Budget(self.tol, self.max_iter, deadline, cache_bytes),
                seed=draw_seed(self.random_state), callback=self._listener(show),
            )  # fmt: skip
        warn_unless_feasible(self, duals, solutions, "the kernel does not separate the classes", 5)
        return solutions

    def _keep(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        solved: list[Solution],
    ) -> None:
        super()._keep(problem, kernel, subproblems, solved)
        first_rows = np.unique(problem.labels, return_index=True)[1]
        self.class_weight_ = (problem.weights / problem.sample_weights)[first_rows]

    def _check_params(self) -> None:
        super()._check_params()
        check_choice("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        check_flag("break_ties", self.break_ties)
        self._check_shape()
        check_ignored_params(self.shrinking, self.cache_size)
        if self.probability not in (False, "deprecated"):
            raise ValueError(
                f"probability: {self.probability!r} is not possible; use "
                "KernelSVCCV(Cs=[C], gammas=[gamma], calibration='sigmoid'), or wrap the classifier: "
                "sklearn.calibration.CalibratedClassifierCV(KernelSVC(...), ensemble=False)"
            )

    def _check_cost(self) -> None:
        check_cost(self.C)

    def _check_shape(self) -> None:
        if self.decision_function_shape == "ovo" and self.multi_class == "ovr":
            raise ValueError(
                "decision_function_shape: 'ovo' needs a decision for each pair of classes, but "
                "multi_class='ovr' fits one for each class; use multi_class='ovo'"
            )

    def _scores(self, decisions: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.decision_function_shape == "ovo" and len(self.classes_) > 2:
            # scikit-learn's pairs are positive for the first class, ours for the second.
            return -decisions
        return super()._scores(decisions)

    def _labels(self, decisions: NDArray[np.float64]) -> NDArray[Any]:
        if self.break_ties and len(self.classes_) > 2:
            return self.classes_[self._scores(decisions).argmax(axis=1)]
        return super()._labels(decisions)

    def _listener(
        self, show: Callable[[int, Progress], object] | None
    ) -> Callable[[int, Progress], object] | None:
        if show is None and self.callback is None:
            return None

        def listen(problem: int, state: Progress) -> None:
            if show is not None:
                show(problem, state)
            if self.callback is not None:
                self.callback(state)

        return listen
