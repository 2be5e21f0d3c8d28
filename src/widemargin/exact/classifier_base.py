"""What the exact kernel classifiers share: input, one binary problem after another, prediction."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_callback, check_integer, check_number, check_verbose
from widemargin.budget import StopReason, worst_reason
from widemargin.callback_support import CallbackSupportMixin
from widemargin.deadline import start_deadline
from widemargin.doc_link import DocLinkMixin
from widemargin.exact.definiteness import warn_if_indefinite
from widemargin.exact.dual_problem import DualProblem, classification_dual
from widemargin.exact.expansion import Expansion, class_numbers, class_scores
from widemargin.exact.largest_class import name_largest_class
from widemargin.exact.solution import Solution
from widemargin.exact.svc_compatibility import DualCoefMixin, find_bound
from widemargin.kernel_arguments import check_kernel_range, check_nonnegative, resolve_kernel
from widemargin.kernels import (
    Index,
    Kernel,
    Points,
    Precomputed,
    is_precomputed,
    needs_nonnegative,
    wrap_items,
)
from widemargin.majority import judged_rows
from widemargin.memory import parse_bytes
from widemargin.parameters import Choices, check_choices
from widemargin.problem import (
    Problem,
    Subproblem,
    split_binary,
    split_one_vs_one,
    split_one_vs_rest,
)
from widemargin.transaction import all_or_nothing
from widemargin.validation import find_shape, validate_problem, validate_queries

#: From best to worst; a fit of several problems reports the worst. A model read from a file of
#: LIBSVM does not say.


#: Bytes of kernel values that every fit may hold.
LEAST_CACHE = 4 << 20


class ExactKernelClassifier(
    DualCoefMixin, CallbackSupportMixin, DocLinkMixin, ClassifierMixin, BaseEstimator
):
    """Base of `KernelSVC` and `DCSVC`, which differ in how they solve the binary problems."""

    C: float
    kernel: str | Kernel | Callable[[Any, Any], Any]
    gamma: float | str
    degree: int
    coef0: float
    fit_intercept: bool
    multi_class: str
    class_weight: dict[Any, float] | str | None
    tol: float
    memory: int | str
    max_iter: int
    max_time: float | None
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    verbose: int
    callback: Callable[[Any], object] | None

    _choices: ClassVar[Choices] = {"multi_class": ("ovo", "ovr")}
    #: Bytes of the variables that a solver holds for every row: coefficients, gradient, bounds, order.
    _bytes_per_row = 100

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; (n_samples, n_samples) with ``kernel="precomputed"``. With a callable
            kernel it may be a sequence of anything, such as texts.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out, and so are those of negative
            weight, with a warning.

        Returns
        -------
        self : estimator
            The fitted classifier.
        """
        self._check_params()
        deadline = start_deadline(self.max_time)
        X = wrap_items(self.kernel, X)
        precomputed = is_precomputed(self.kernel)
        problem = validate_problem(
            self, X, y, sample_weight, self.class_weight, precomputed=precomputed
        )
        kernel = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        check_nonnegative(kernel, problem.X, getattr(self, "feature_names_in_", None))
        self.shape_fit_ = find_shape(self, X)
        subproblems = self._split(problem)
        solved = self._solve(problem, kernel, subproblems, deadline)
        self._keep(problem, kernel, subproblems, solved)
        self.restore_model()
        if self.stop_reason_ == StopReason.MAX_TIME.value:
            self._outdo_largest_class(problem, kernel, subproblems, solved)
        self._warn_unless_converged()
        return self

    def _outdo_largest_class(
        self, problem: Problem, kernel: Kernel, subproblems: list[Subproblem], solved: Any
    ) -> None:
        """Replace a model that has fewer rows right than the largest class."""
        if isinstance(kernel, Precomputed):
            return
        judged = judged_rows(problem)
        largest = np.bincount(judged.labels, judged.weights).max()
        right = self._weigh_right(self._model, judged)
        if right >= largest:
            return
        bound = find_bound(self.C, kernel.diag(kernel.prepare(judged.X)))
        solutions = name_largest_class(
            kernel, problem, subproblems, bound, intercept=self.fit_intercept
        )
        support = collect_support(problem, kernel, subproblems, solutions)
        intercepts = np.array([found.intercept for found in solutions])
        constant = Expansion(kernel, support.vectors, support.rows, support.coef, intercepts)
        if self._weigh_right(constant, judged) > right:
            solved = self._replace_solutions(solved, solutions, len(support.rows))
            self._keep(problem, kernel, subproblems, solved)
            self.restore_model()

    def _weigh_right(self, model: Any, problem: Problem) -> float:
        """Weight of the rows that a model classifies right."""
        found = class_numbers(self._ask(model, problem.X), len(self.classes_), self._one_vs_one)
        return float(problem.weights[found == problem.labels].sum())

    def _replace_solutions(self, solved: Any, solutions: list[Solution], n_support: int) -> Any:
        """Return what `_solve` returned, with other solutions; ``n_support`` is for subclasses."""
        return [
            replace(found, n_iter=old.n_iter) for found, old in zip(solutions, solved, strict=True)
        ]

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
        return self._scores(self._decide(X))

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
        return self._labels(self._decide(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.positive_only = needs_nonnegative(self.kernel)
        return tags

    @abstractmethod
    def _solve(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        deadline: float | None,
    ) -> Any:
        """Solve the binary problems until the deadline; `_keep` takes what is returned."""

    def _check_params(self) -> None:
        check_choices(self)
        self._check_cost()
        check_number("tol", self.tol, above=0)
        check_number("max_time", self.max_time, above=0, optional=True)
        check_integer("max_iter", self.max_iter, low=-1)
        check_verbose(self.verbose)
        check_callback(self.callback)

    def _check_cost(self) -> None:
        check_number("C", self.C, above=0)

    def _split(self, problem: Problem) -> list[Subproblem]:
        if len(problem.classes) == 2:
            return split_binary(problem)
        return (
            split_one_vs_one(problem) if self.multi_class == "ovo" else split_one_vs_rest(problem)
        )

    def _prepare(
        self, problem: Problem, kernel: Kernel, subproblems: list[Subproblem]
    ) -> tuple[Points, list[DualProblem], int]:
        """Points, dual problems with their warm starts, and the bytes left for solving them."""
        points = kernel.prepare(problem.X)
        n_rows = max(len(s.y) for s in subproblems)
        taken = points.nbytes + self._bytes_per_row * n_rows
        cache_bytes = find_cache(parse_bytes(self.memory), n_rows, taken)
        diagonal = kernel.diag(points)
        check_kernel_range(kernel, diagonal)
        warn_if_indefinite(kernel, problem.X, diagonal, stacklevel=6)
        bound = find_bound(self.C, diagonal)
        starts = self._warm_starts(problem, len(subproblems))
        duals = [
            classification_dual(
                sub.index, sub.y, bound * problem.weights[sub.index],
                intercept=self.fit_intercept, start=start,
            )
            for sub, start in zip(subproblems, starts, strict=True)
        ]  # fmt: skip
        return points, duals, cache_bytes

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
        self, problem: Problem, kernel: Kernel, subproblems: list[Subproblem], solved: Any
    ) -> None:
        """Set the fitted attributes from what `_solve` returned, here a list of `Solution`."""
        support = collect_support(problem, kernel, subproblems, solved)
        self._keep_results(problem, kernel, subproblems, solved, support)

    def _keep_results(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        results: list[Solution],
        support: "SupportSet",
    ) -> None:
        """Set the fitted attributes that all exact kernel classifiers have."""
        rows = support.rows
        self.classes_ = problem.classes
        self.kernel_ = kernel
        self.support_ = problem.kept[rows].astype(np.int32)
        self.n_support_ = np.bincount(problem.labels[rows], minlength=len(problem.classes)).astype(
            np.int32
        )
        self.support_vectors_ = np.empty((0, 0)) if support.vectors is None else support.vectors
        self._dual_coef_ = support.coef
        self.intercept_ = np.array([r.intercept for r in results])
        self._one_vs_one = subproblems[0].negative >= 0
        self.objective_ = one_or_all([r.objective for r in results])
        self.duality_gap_ = one_or_all([r.duality_gap for r in results])
        self.violation_ = one_or_all([r.violation for r in results])
        self.violation_error_ = one_or_all([r.violation_error for r in results])
        self.n_iter_ = np.array([r.n_iter for r in results])
        self.stop_reason_ = worst_reason(r.stop_reason for r in results).value
        if self.warm_start:
            self._warm_state = (problem.labels, [r.coef for r in results])

    def restore_model(self) -> None:
        """Make the predictor from the fitted attributes; called after setting them by hand."""
        self._model: Any = Expansion(
            self.kernel_,
            None if isinstance(self.kernel_, Precomputed) else self.support_vectors_,
            self.support_.astype(np.intp),
            self._dual_coef_,
            self.intercept_,
        )

    def _checked_model(self) -> Any:
        check_is_fitted(self)
        return self._model

    def _check_queries(self, X: Any) -> Any:
        X = validate_queries(self, wrap_items(self.kernel, X))
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))
        return X

    def _decide(self, X: Any) -> NDArray[np.float64]:
        """Decisions of all binary problems."""
        return self._ask(self._checked_model(), self._check_queries(X))

    def _ask(self, model: Any, X: Any) -> NDArray[np.float64]:
        """Decisions of all binary problems by a model."""
        decisions: NDArray[np.float64] = model.decide(
            X, max_bytes=parse_bytes(self.memory), n_jobs=self.n_jobs
        )
        return decisions

    def _scores(self, decisions: NDArray[np.float64]) -> NDArray[np.float64]:
        return class_scores(decisions, len(self.classes_), self._one_vs_one)

    def _labels(self, decisions: NDArray[np.float64]) -> NDArray[Any]:
        return self.classes_[class_numbers(decisions, len(self.classes_), self._one_vs_one)]

    def _advise_late(self) -> str:
        """What a fit that ran out of time came to, and what to do."""
        return "allow more time for the optimum"

    def _warn_unless_converged(self) -> None:
        warn_unless_converged(self, self._advise_late())


def warn_unless_converged(estimator: Any, late_advice: str) -> None:
    """Warn about a fit that was stopped; ``late_advice`` is what to do if time ran out."""
    hard = np.isinf(getattr(estimator, "C", 1.0))
    doubt = "; C=inf allows no errors, so give a finite C if there must be some" if hard else ""
    advice = {
        "max_iter": f"max_iter={estimator.max_iter} was reached; raise it, or scale the features"
        f"{doubt}",
        "max_time": f"max_time={estimator.max_time} s has passed; {late_advice}{doubt}",
        "stalled": f"tol={estimator.tol:g} is finer than the kernel values allow on these data; "
        "scale the features or raise tol",
    }.get(estimator.stop_reason_)
    if advice:
        warnings.warn(
            f"{type(estimator).__name__} stopped before convergence: {advice}",
            ConvergenceWarning,
            stacklevel=5,
        )


@dataclass(frozen=True)
class SupportSet:
    """Support vectors of all binary problems.

    Attributes
    ----------
    rows : ndarray of shape (n_SV,)
        Rows of the problem that are support vectors, grouped by class.
    vectors : ndarray or csr_matrix of shape (n_SV, n_features), or None
        The support vectors; None for a precomputed kernel.
    coef : ndarray of shape (n_problems, n_SV)
        Signed dual variables, zero where a row is no support vector of a problem.
    """

    rows: Index
    vectors: Any
    coef: NDArray[np.float64]


def collect_support(
    problem: Problem, kernel: Kernel, subproblems: list[Subproblem], results: list[Solution]
) -> SupportSet:
    """Collect the support vectors of all binary problems."""
    used = [np.flatnonzero(result.coef) for result in results]
    is_support = np.zeros(len(problem.labels), bool)
    for sub, at in zip(subproblems, used, strict=True):
        is_support[sub.index[at]] = True
    by_class = np.argsort(problem.labels, kind="stable")
    rows = by_class[is_support[by_class]]
    column = np.empty(len(is_support), np.intp)
    column[rows] = np.arange(len(rows))
    coef = np.zeros((len(results), len(rows)))
    for p, (sub, at, result) in enumerate(zip(subproblems, used, results, strict=True)):
        coef[p, column[sub.index[at]]] = result.coef[at]
    vectors = None if isinstance(kernel, Precomputed) else problem.X[rows]
    return SupportSet(rows, vectors, coef)


def one_or_all(values: list[Any]) -> Any:
    """The value of a single problem as a number, those of several as an array."""
    return values[0] if len(values) == 1 else np.array(values)


def find_cache(memory_bytes: int, n_rows: int, taken_bytes: int) -> int:
    """Return the memory for kernel values, refusing too little for two rows of the kernel matrix.

    A small matrix is held in any case: without it a fit of a few hundred rows would take minutes to
    save a megabyte.
    """
    needed, cache_bytes = 8 * n_rows, memory_bytes - taken_bytes
    if cache_bytes < needed:
        raise ValueError(
            f"memory: too small; give at least {taken_bytes + needed:,} bytes: {taken_bytes:,} for "
            f"the rows and what is known of them, {needed:,} for two rows of the kernel matrix"
        )
    return max(cache_bytes, LEAST_CACHE)
