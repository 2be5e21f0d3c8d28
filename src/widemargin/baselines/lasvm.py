"""`LaSVC`, the scikit-learn classifier of LASVM, an online SVM."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from widemargin.arguments import check_flag, check_integer, check_number, check_verbose, draw_seed
from widemargin.base import OneVsRest
from widemargin.baselines.lasvm_machine import Machine, Outcome, Plan
from widemargin.budget import Budget, worst_reason
from widemargin.deadline import start_deadline
from widemargin.exact.active_set import solve_small
from widemargin.exact.classifier_base import one_or_all
from widemargin.exact.dual_problem import FloatArray, classification_dual
from widemargin.exact.expansion import Expansion
from widemargin.kernel_arguments import check_kernel_range, check_nonnegative, resolve_kernel
from widemargin.kernels import Index, Kernel, is_precomputed, is_small, needs_nonnegative
from widemargin.memory import parse_bytes
from widemargin.parallel import open_workers
from widemargin.problem import Problem, Subproblem, split_binary, split_one_vs_rest
from widemargin.progress import show_passes
from widemargin.transaction import all_or_nothing
from widemargin.validation import validate_partial


class LaSVC(OneVsRest):
    """Online kernel SVM (LASVM).

    LASVM keeps a working set of support vectors and of rows that may become support vectors. Each
    row is inserted into the working set, and its dual variable is updated together with that of the
    row which violates the optimality conditions most with it (process). Then the most violating
    pair of the working set is updated, and rows that are in no violating pair are removed
    (reprocess). A finishing step solves the problem of the working set. More than two classes are
    solved one-vs-rest.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    kernel : str, callable or Kernel, default="rbf"
        As for `KernelSVC`, but ``"precomputed"``.
    gamma, degree, coef0
        Parameters of the kernel, as for `KernelSVC`. In `partial_fit`, ``gamma="scale"`` is found
        from the data of the first call.
    n_epochs : int, default=1
        Number of passes of `fit` over the data.
    finish : bool, default=True
        Whether `fit` ends with the finishing step, which updates pairs of the working set until none
        violates the optimality conditions. A problem of up to 200 rows is then solved with all rows.
    tol : float, default=1e-3
        Violation of the optimality conditions up to which a pair is not updated.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    memory : int or str, default="auto"
        Limit of memory for kernel values, in bytes or as text such as ``"2 GB"``. Kernel rows of the
        working set that do not fit are computed again when they are needed.
    max_time : float or None, default=None
        Seconds after which `fit` stops with its current model. Several classes have equal shares of
        the time. `partial_fit` has no limit.
    n_jobs : int or None, default=None
        Number of threads that compute kernel values; None or -1 for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the order of the rows in `fit`; `partial_fit` visits them as they are given.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every block of rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    support_ : ndarray of shape (n_SV,)
        Training rows that are support vectors; after `fit` only.
    support_vectors_ : ndarray or csr_matrix of shape (n_SV, n_features)
        These rows.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : ndarray of shape (n_functions, n_SV)
        Signed dual variables: ``decision = k(x, support_vectors_) @ dual_coef_.T + intercept_``.
    intercept_ : ndarray of shape (n_functions,)
        Constants.
    objective_ : float or ndarray of shape (n_functions,)
        Dual objective ``0.5 a'Qa - sum(a)``.
    n_iter_ : int or ndarray of shape (n_functions,)
        Number of updates of pairs, in all calls.
    stop_reason_ : str
        ``"converged"`` if the problem of the working set is solved to ``tol``; ``"n_epochs"`` if it is
        not, without a finishing step; ``"max_time"``; or ``"stalled"`` if ``tol`` is finer than kernel
        values of float32 allow.
    kernel_ : Kernel
        The kernel with all its parameters resolved.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the training data had any.

    Notes
    -----
    In the paper, rows are removed from the working set only after an update of a pair. Here they are
    removed without an update too; otherwise the working set would grow while no pair violates the
    optimality conditions. The working set is empty at the start.

    With m examples in the set and d features, a call of `partial_fit` copies the set, O(m d), and
    computes one row of m kernel values for each example it is given, and one for each member that
    moves for the first time in this call: the kernel matrix of the set is not kept between calls.

    References
    ----------
    A. Bordes, S. Ertekin, J. Weston, L. Bottou, "Fast kernel classifiers with online and active
    learning", Journal of Machine Learning Research 6, 2005.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.baselines import LaSVC
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = LaSVC(C=10, random_state=0).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.98)
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
        n_epochs: int = 1,
        finish: bool = True,
        tol: float = 1e-3,
        class_weight: dict[Any, float] | str | None = None,
        memory: int | str = "auto",
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_epochs = n_epochs
        self.finish = finish
        self.tol = tol
        self.class_weight = class_weight
        self.memory = memory
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Process more examples in the given order, without the finishing step.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like, optional
            All labels there will be; needed in the first call.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.

        Returns
        -------
        self : estimator
            The classifier, improved.
        """
        self._check_params()
        is_first = not self.__sklearn_is_fitted__()
        problem = validate_partial(self, X, y, classes, sample_weight, is_first=is_first)
        if is_first:
            self.kernel_ = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        self._check_features(problem.X)
        before = _State.empty(problem) if is_first else self._state
        joined = before.join(_drop_weightless(problem), self.C)
        order = np.arange(len(before.labels), len(joined.labels))
        self._learn(joined, Plan([order], self.tol, finish=False, deadline=None))
        if hasattr(self, "support_"):
            del self.support_
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = needs_nonnegative(self.kernel)
        return tags

    def _check_params(self) -> None:
        super()._check_params()
        check_number("tol", self.tol, above=0)
        check_number("max_time", self.max_time, above=0, optional=True)
        check_integer("n_epochs", self.n_epochs, low=1)
        check_flag("finish", self.finish)
        check_verbose(self.verbose)
        if is_precomputed(self.kernel):
            raise ValueError(
                "kernel: an online machine needs a kernel that can be computed, not 'precomputed'; "
                "give the name of a kernel, a callable or a Kernel"
            )

    def _check_features(self, X: Any) -> None:
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))

    def _fit(self, problem: Problem) -> None:
        deadline = None if self.max_time is None else time.perf_counter() + self.max_time
        self.kernel_ = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        self._check_features(problem.X)
        rng = np.random.default_rng(draw_seed(self.random_state))
        orders = [rng.permutation(len(problem.labels)) for _ in range(self.n_epochs)]
        joined = _State.empty(problem).join(problem, self.C)
        self._learn(joined, Plan(orders, self.tol, self.finish, deadline))
        self.support_ = problem.kept[self._state.rows[self._state.has_coef]].astype(np.int32)

    def _decide(self, X: Any) -> NDArray[np.float64]:
        return self._model.decide(X, max_bytes=parse_bytes(self.memory), n_jobs=self.n_jobs)

    def _learn(self, joined: "_State", plan: Plan) -> None:
        """Process the examples as planned, and set the fitted attributes."""
        budget = parse_bytes(self.memory)
        points = self.kernel_.prepare(joined.X)
        check_kernel_range(self.kernel_, self.kernel_.diag(points))
        questions, learned = _split_classes(joined), []
        with open_workers(self.n_jobs) as workers, show_passes(self.verbose, "example") as show:
            for p, sub in enumerate(questions):
                own_plan = plan.share_time(len(questions) - p)
                machine = Machine(self.kernel_, points, sub.y, joined.upper, budget, workers)
                machine.recall(joined.coef[p], joined.gradient[p])
                outcome = machine.run(own_plan, show)
                if plan.finish and is_small(*joined.X.shape):
                    outcome = self._solve_exactly(joined, sub, outcome, own_plan.seconds_left)
                learned.append(outcome)
        self._keep(joined.keep_members(learned), learned)

    def _solve_exactly(
        self, joined: "_State", sub: Subproblem, outcome: Outcome, max_time: float | None
    ) -> Outcome:
        """Return the optimum of a small problem on all its rows, in float64."""
        dual = classification_dual(
            sub.index, sub.y, joined.upper, intercept=True, start=np.nan_to_num(outcome.coef)
        )
        budget = Budget(self.tol, deadline=start_deadline(max_time))
        result = solve_small(self.kernel_.exact(joined.X, joined.X), dual, budget)
        coef = np.where((result.coef == 0) & np.isnan(outcome.coef), np.nan, result.coef)
        gradient = np.where(np.isnan(coef), np.nan, -result.gradient)
        return Outcome(
            coef, gradient, result.intercept, result.objective, outcome.n_iter + result.n_iter,
            result.stop_reason,
        )  # fmt: skip

    def _keep(self, state: "_State", learned: list[Outcome]) -> None:
        """Set the fitted attributes."""
        used = state.has_coef
        self._state, self.classes_ = state, state.classes
        self.support_vectors_ = state.X[used]
        self.dual_coef_ = np.ascontiguousarray(np.nan_to_num(state.coef[:, used]))
        self.intercept_ = np.array([outcome.intercept for outcome in learned])
        self.n_support_ = np.bincount(state.labels[used], minlength=len(self.classes_)).astype(
            np.int32
        )
        self.objective_ = one_or_all([outcome.objective for outcome in learned])
        self.n_iter_ = one_or_all([int(n) for n in state.n_iter])
        self.stop_reason_ = worst_reason(o.stop_reason for o in learned).value
        self.restore_model()

    def restore_model(self) -> None:
        """Build the predictor from the fitted attributes."""
        self._model = Expansion(
            self.kernel_,
            self.support_vectors_,
            np.arange(self.support_vectors_.shape[0]),
            self.dual_coef_,
            self.intercept_,
        )

    def _warn_unless_converged(self) -> None:
        advice = {
            "max_time": f"max_time={self.max_time} s has passed; allow more time",
            "stalled": f"tol={self.tol:g} is finer than float32 kernel values allow on these data; "
            "scale the features or raise tol",
        }.get(self.stop_reason_)
        if advice:
            warnings.warn(
                f"LaSVC stopped before convergence: {advice}", ConvergenceWarning, stacklevel=4
            )


@dataclass(frozen=True)
class _State:
    """Examples with their coefficients; NaN where an example is not in the set of a problem.

    Attributes
    ----------
    X, labels, upper
        Data, classes and C times weight of the examples.
    classes : ndarray
        All labels.
    rows : ndarray of shape (n,)
        Row of each example in the data that were joined last.
    coef : ndarray of shape (n_functions, n)
        Signed dual variables.
    gradient : ndarray of shape (n_functions, n)
        Gradient as in `Outcome`.
    n_iter : ndarray of shape (n_functions,)
        Number of direction searches so far.
    """

    X: Any
    labels: NDArray[np.intp]
    upper: FloatArray
    classes: NDArray[Any]
    rows: Index
    coef: FloatArray
    gradient: FloatArray
    n_iter: NDArray[np.intp]

    @classmethod
    def empty(cls, problem: Problem) -> "_State":
        """Return a state without examples."""
        none, n_classes = np.zeros(0, np.intp), len(problem.classes)
        n_functions = 1 if n_classes == 2 else n_classes
        nothing = np.zeros((n_functions, 0))
        return cls(
            problem.X[:0], none, np.zeros(0), problem.classes, none, nothing, nothing,
            np.zeros(n_functions, np.intp),
        )  # fmt: skip

    @property
    def has_coef(self) -> NDArray[np.bool_]:
        """Whether each example is a support vector of any problem."""
        return np.asarray((np.nan_to_num(self.coef) != 0).any(axis=0))

    def join(self, problem: Problem, C: float) -> "_State":
        """Return the state with the examples of a problem appended."""
        n = len(problem.labels)
        outside = np.full((len(self.coef), n), np.nan)
        return replace(
            self,
            X=_stack(self.X, problem.X),
            labels=np.append(self.labels, problem.labels),
            upper=np.append(self.upper, C * problem.weights),
            rows=np.arange(len(self.labels) + n),
            coef=np.hstack([self.coef, outside]),
            gradient=np.hstack([self.gradient, outside]),
        )

    def keep_members(self, learned: list[Outcome]) -> "_State":
        """Return the state with only the examples that are in the set of any problem."""
        coef = np.array([outcome.coef for outcome in learned])
        gradient = np.array([outcome.gradient for outcome in learned])
        inside = np.flatnonzero(~np.isnan(coef).all(axis=0))
        return replace(
            self, X=self.X[inside], labels=self.labels[inside], upper=self.upper[inside],
            rows=self.rows[inside], coef=coef[:, inside], gradient=gradient[:, inside],
            n_iter=self.n_iter + np.array([outcome.n_iter for outcome in learned], np.intp),
        )  # fmt: skip


def _split_classes(state: _State) -> list[Subproblem]:
    """Return the binary problem of two classes, or the one-vs-rest problems of more."""
    problem = Problem(state.X, state.labels, state.classes, state.upper, state.upper, state.rows)
    return split_binary(problem) if len(state.classes) == 2 else split_one_vs_rest(problem)


def _drop_weightless(problem: Problem) -> Problem:
    """Return the problem without rows of weight zero."""
    kept = np.flatnonzero(problem.weights)
    return Problem(
        problem.X[kept], problem.labels[kept], problem.classes, problem.sample_weights[kept],
        problem.weights[kept], kept,
    )  # fmt: skip


def _stack(A: Any, B: Any) -> Any:
    """Return the rows of both, sparse if B is."""
    if sparse.issparse(B):
        return sparse.csr_matrix(sparse.vstack([sparse.csr_matrix(A), B]))
    return np.vstack([A.toarray() if sparse.issparse(A) else A, B])
