"""The exact kernel SVM as a scikit-learn classifier."""

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from widemargin.estimators.libsvm_files import from_libsvm_model, to_libsvm_model
from widemargin.kernels import KERNELS, Index, Kernel, Precomputed, is_small
from widemargin.memory import parse_bytes
from widemargin.models.expansion import Expansion, score_classes, vote
from widemargin.models.libsvm_text import read_libsvm_model, write_libsvm_model
from widemargin.parallel import open_workers
from widemargin.problem import (
    Problem,
    Subproblem,
    split_binary,
    split_one_vs_one,
    split_one_vs_rest,
)
from widemargin.progress import ProgressLine
from widemargin.solvers.active_set import finish_exactly
from widemargin.solvers.box_qp import Limits, Progress, Result
from widemargin.solvers.many import Task, solve_tasks
from widemargin.validation import (
    check_choice,
    check_integer,
    check_kernel_range,
    check_nonnegative,
    check_number,
    resolve_kernel,
    validate_problem,
    validate_queries,
)

#: From best to worst; a fit of several problems reports the worst. A model read from a file of
#: LIBSVM does not say.
STOP_REASONS = ("unknown", "converged", "stalled", "max_iter", "max_time")


class KernelSVC(ClassifierMixin, BaseEstimator):
    """Kernel support vector classifier: the optimum of LIBSVM, found faster.

    Solves the same problem as :class:`sklearn.svm.SVC` to the same tolerance. Sparse data are used
    as they are; memory for training and prediction stays within ``memory``.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    kernel : str, callable or Kernel, default="rbf"
        ``"linear"``, ``"rbf"``, ``"poly"``, ``"sigmoid"``, ``"chi2"`` (additive), ``"exp_chi2"``,
        ``"intersection"``, ``"hellinger"``, ``"power_mean"``, ``"jensen_shannon"`` or
        ``"precomputed"``; a callable ``(X, Z) -> K``; or an object of `widemargin.kernels`.
    gamma : float, "scale" or "auto", default="scale"
        Width of the rbf, poly, sigmoid and exp_chi2 kernels. ``"scale"`` is
        ``1 / (n_features * X.var())``, ``"auto"`` is ``1 / n_features``. With sample weights the
        variance is weighted too, so that a weight of two equals a repeated row.
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
        Seeds the order in which points are sampled. It changes the route, not the answer.
    verbose : int, default=0
        1 for a progress line, 2 for a line every round.
    callback : callable or None, default=None
        Called after every round with a record of the progress; see
        `widemargin.solvers.box_qp.Progress`. Raise an exception in it to abandon the fit. When there
        are many binary problems several are under way, but one thread at a time calls.

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
    dual_coef_ : ndarray of shape (n_problems, n_SV)
        Signed dual coefficients: ``decision = k(x, support_vectors_) @ dual_coef_.T + intercept_``,
        positive for ``classes_[1]``. With one-vs-one a row is a pair of classes (0, 1), (0, 2), ...,
        (1, 2), ..., positive for the second; with one-vs-rest a row is a class.
    intercept_ : ndarray of shape (n_problems,)
        Constants of the decision functions.
    objective_ : float or ndarray of shape (n_problems,)
        Dual objective ``0.5 a'Qa - sum(a)``; a float for two classes.
    duality_gap_ : float or ndarray of shape (n_problems,)
        Primal plus dual objective, zero at the optimum.
    n_iter_ : int or ndarray of shape (n_problems,)
        Pair moves made.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, ``"max_time"``, or ``"stalled"`` when ``tol`` is finer than
        float32 kernel values allow. All but the first come with a `ConvergenceWarning`.
    kernel_ : Kernel
        The kernel with all its parameters resolved.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the training data had any.

    Notes
    -----
    For probabilities wrap the estimator in :class:`sklearn.calibration.CalibratedClassifierCV`.

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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "KernelSVC":
        """Fit the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; (n_samples, n_samples) with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.

        Returns
        -------
        self : KernelSVC
            The fitted classifier.
        """
        self._check_params()
        precomputed = self._is_precomputed()
        problem = validate_problem(
            self, X, y, sample_weight, self.class_weight, precomputed=precomputed
        )
        kernel = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        check_nonnegative(kernel, problem.X, getattr(self, "feature_names_in_", None))
        subproblems = self._split(problem)
        results = self._solve(problem, kernel, subproblems)
        self._keep(problem, kernel, subproblems, results)
        self._warn_unless_converged()
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distance-like scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; the kernel with all training rows if the kernel is precomputed.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes positive means ``classes_[1]``. One-vs-one problems are summed up as
            votes with ties broken by confidence.
        """
        decisions = self._decide(X)
        if len(self.classes_) == 2:
            return decisions.ravel()
        if self._one_vs_one:
            return score_classes(decisions, len(self.classes_))
        return decisions

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of every row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data, as for `decision_function`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Class labels. One-vs-one problems vote; the first class wins a tie, as in LIBSVM.
        """
        decisions = self._decide(X)
        if len(self.classes_) == 2:
            return self.classes_[(decisions.ravel() >= 0).astype(np.intp)]
        if self._one_vs_one:
            return self.classes_[vote(decisions, len(self.classes_))]
        return self.classes_[decisions.argmax(axis=1)]

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
        attributes = from_libsvm_model(read_libsvm_model(path))
        kernel, vectors = attributes["kernel_"], attributes["support_vectors_"]
        given = isinstance(kernel, Precomputed)
        least = int(attributes["support_"].max(initial=0)) + 1 if given else vectors.shape[1]
        width = max(least, 1) if n_features is None else n_features
        check_integer("n_features", width, low=max(least, 1))
        if not given:
            vectors.resize(vectors.shape[0], width)
        model = cls(kernel=kernel.name, **kernel.params())
        for name, value in attributes.items():
            setattr(model, name, value)
        n_problems = len(model.intercept_)
        model.n_features_in_ = width
        model.objective_ = _one_or_all([np.nan] * n_problems)
        model.duality_gap_ = _one_or_all([np.nan] * n_problems)
        model.n_iter_ = _one_or_all([0] * n_problems)
        model.stop_reason_ = "unknown"
        model._one_vs_one = True
        model.restore_model()
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._is_precomputed()
        tags.input_tags.positive_only = (
            self.kernel.needs_nonnegative
            if isinstance(self.kernel, Kernel)
            else isinstance(self.kernel, str)
            and self.kernel in KERNELS
            and KERNELS[self.kernel].needs_nonnegative
        )
        return tags

    def _check_params(self) -> None:
        check_number("C", self.C, above=0)
        check_number("tol", self.tol, above=0)
        check_number("max_time", self.max_time, above=0, optional=True)
        check_integer("max_iter", self.max_iter, low=-1)
        check_choice("multi_class", self.multi_class, ("ovo", "ovr"))

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, Precomputed) or (
            isinstance(self.kernel, str) and self.kernel == "precomputed"
        )

    def _split(self, problem: Problem) -> list[Subproblem]:
        if len(problem.classes) == 2:
            return split_binary(problem)
        return (
            split_one_vs_one(problem) if self.multi_class == "ovo" else split_one_vs_rest(problem)
        )

    def _solve(
        self, problem: Problem, kernel: Kernel, subproblems: list[Subproblem]
    ) -> list[Result]:
        points = kernel.prepare(problem.X)
        budget = parse_bytes(self.memory) - points.nbytes
        _require_two_rows(budget, max(len(s.y) for s in subproblems))
        check_kernel_range(kernel, kernel.diag(points))
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        starts = self._warm_starts(problem, len(subproblems))
        tasks = [
            Task(sub.index, sub.y, self.C * problem.weights[sub.index], start)
            for sub, start in zip(subproblems, starts, strict=True)
        ]
        display = ProgressLine(len(tasks), self.verbose) if self.verbose else None
        with open_workers(self.n_jobs) as workers:
            results = solve_tasks(
                kernel, points, tasks, workers, intercept=self.fit_intercept,
                limits=Limits(self.tol, self.max_iter, self.max_time, budget), seed=seed,
                callback=self._listener(display),
            )  # fmt: skip
        if display:
            display.close()
        return [
            self._polish(kernel, problem.X, task, result)
            for task, result in zip(tasks, results, strict=True)
        ]

    def _polish(self, kernel: Kernel, X: Any, task: Task, result: Result) -> Result:
        """Finish a small problem to the precision of float64."""
        ended = result.stop_reason in ("converged", "stalled")
        if not (ended and is_small(X[task.index])):
            return result
        return finish_exactly(
            _exact_matrix(kernel, X, task.index), task.y, task.upper,
            intercept=self.fit_intercept, tol=self.tol, result=result,
        )  # fmt: skip

    def _listener(self, display: ProgressLine | None) -> Callable[[int, Progress], object] | None:
        if display is None and self.callback is None:
            return None

        def listen(problem: int, state: Progress) -> None:
            if display is not None:
                display.show(problem, state)
            if self.callback is not None:
                self.callback(state)

        return listen

    def _warm_starts(
        self, problem: Problem, n_problems: int
    ) -> Sequence[NDArray[np.float64] | None]:
        state = getattr(self, "_warm_state", None) if self.warm_start else None
        cold = [None] * n_problems
        if state is None:
            return cold
        labels, coefs = state
        fits = np.array_equal(labels, problem.labels) and len(coefs) == n_problems
        return coefs if fits else cold

    def _keep(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        results: list[Result],
    ) -> None:
        """Set the fitted attributes."""
        coef = np.zeros((len(results), len(problem.labels)))
        for p, (sub, result) in enumerate(zip(subproblems, results, strict=True)):
            coef[p, sub.index] = result.coef
        by_class = np.argsort(problem.labels, kind="stable")
        rows = by_class[coef[:, by_class].any(axis=0)]
        self.classes_ = problem.classes
        self.kernel_ = kernel
        self.support_ = problem.kept[rows].astype(np.int32)
        self.n_support_ = np.bincount(problem.labels[rows], minlength=len(problem.classes)).astype(
            np.int32
        )
        given = isinstance(kernel, Precomputed)
        self.support_vectors_ = np.empty((0, 0)) if given else problem.X[rows]
        self.dual_coef_ = np.ascontiguousarray(coef[:, rows])
        self.intercept_ = np.array([r.intercept for r in results])
        self._one_vs_one = subproblems[0].negative >= 0
        self.objective_ = _one_or_all([r.objective for r in results])
        self.duality_gap_ = _one_or_all([r.duality_gap for r in results])
        self.n_iter_ = _one_or_all([r.n_iter for r in results])
        self.stop_reason_ = max((r.stop_reason for r in results), key=STOP_REASONS.index)
        if self.warm_start:
            self._warm_state = (problem.labels, [r.coef for r in results])
        self.restore_model()

    def restore_model(self) -> None:
        """Make the predictor from the fitted attributes; called after setting them by hand."""
        self._model = Expansion(
            self.kernel_,
            None if isinstance(self.kernel_, Precomputed) else self.support_vectors_,
            self.support_.astype(np.intp),
            self.dual_coef_,
            self.intercept_,
        )

    def _decide(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        X = validate_queries(self, X)
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))
        return self._model.decide(X, max_bytes=parse_bytes(self.memory), n_jobs=self.n_jobs)

    def _warn_unless_converged(self) -> None:
        advice = {
            "max_iter": f"max_iter={self.max_iter} was reached; raise it, or scale the features",
            "max_time": f"max_time={self.max_time} s has passed; allow more time for the optimum",
            "stalled": f"tol={self.tol:g} is finer than float32 kernel values allow on these data; "
            "scale the features or raise tol",
        }.get(self.stop_reason_)
        if advice:
            warnings.warn(
                f"{type(self).__name__} stopped before convergence: {advice}",
                ConvergenceWarning,
                stacklevel=3,
            )


def _exact_matrix(kernel: Kernel, X: Any, index: Index) -> NDArray[np.float64]:
    if isinstance(kernel, Precomputed):
        return np.asarray(X[np.ix_(index, index)], np.float64)
    return kernel.exact(X[index], X[index])


def _one_or_all(values: list[Any]) -> Any:
    """The value of a single problem as a number, those of several as an array."""
    return values[0] if len(values) == 1 else np.array(values)


def _require_two_rows(budget_bytes: int, n_rows: int) -> None:
    needed = 8 * n_rows
    if budget_bytes < needed:
        raise ValueError(
            f"memory: too small; beside the data, {needed:,} bytes are needed for two rows of the "
            f"kernel matrix and {max(budget_bytes, 0):,} are left. Raise memory"
        )
