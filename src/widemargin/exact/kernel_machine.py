"""What the kernel machines without classes share: parameters, solution, prediction."""

import os
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import (
    check_callback,
    check_integer,
    check_number,
    check_verbose,
    draw_seed,
)
from widemargin.budget import Budget, worst_reason
from widemargin.callback_support import CallbackSupportMixin, report_rounds
from widemargin.callbacks import Progress
from widemargin.doc_link import DocLinkMixin
from widemargin.exact.classifier_base import (
    find_cache,
    one_or_all,
    warn_unless_converged,
)
from widemargin.exact.definiteness import warn_if_indefinite
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.expansion import Expansion
from widemargin.exact.solve import solve_exactly
from widemargin.exact.svc_compatibility import (
    DualCoefMixin,
    FittedLikeSVCMixin,
    check_ignored_params,
)
from widemargin.files.libsvm_models import read_libsvm_attributes, to_libsvm_function
from widemargin.files.libsvm_text import write_libsvm_model
from widemargin.kernel_arguments import check_kernel_range, check_nonnegative, resolve_kernel
from widemargin.kernels import (
    Kernel,
    Points,
    Precomputed,
    is_precomputed,
    needs_nonnegative,
    wrap_items,
)
from widemargin.memory import parse_bytes
from widemargin.parallel import Workers, open_workers
from widemargin.problem import Problem
from widemargin.progress import show_problems
from widemargin.validation import validate_queries

#: Bytes that a solver holds for every dual variable: coefficients, gradient, bounds, order.
VARIABLE_BYTES = 100


class KernelMachine(
    FittedLikeSVCMixin, DualCoefMixin, CallbackSupportMixin, DocLinkMixin, BaseEstimator
):
    """Base of `KernelSVR` and `KernelOneClassSVM`; their dual problems differ in numbers only."""

    kernel: str | Kernel | Callable[[Any, Any], Any]
    gamma: float | str
    degree: int
    coef0: float
    tol: float
    memory: int | str
    max_iter: int
    max_time: float | None
    n_jobs: int | None
    random_state: Any
    verbose: int
    callback: Callable[[Progress], object] | None
    shrinking: bool
    cache_size: float
    #: Type of the model in LIBSVM's files.
    _svm_type: ClassVar[str]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.positive_only = needs_nonnegative(self.kernel)
        return tags

    def _check_params(self) -> None:
        check_number("tol", self.tol, above=0)
        check_number("max_time", self.max_time, above=0, optional=True)
        check_integer("max_iter", self.max_iter, low=-1)
        check_verbose(self.verbose)
        check_callback(self.callback)
        check_ignored_params(self.shrinking, self.cache_size)

    @abstractmethod
    def _make_duals(
        self,
        problem: Problem,
        score: Callable[..., FloatArray],
        diagonal: FloatArray,
        targets: FloatArray | None,
    ) -> list[DualProblem]:
        """The dual problems, from the diagonal of the kernel matrix and the targets of a regression.

        ``score(rows, coef)`` multiplies the kernel with some rows by numbers.
        """

    def _fit_problem(
        self, problem: Problem, deadline: float | None, targets: FloatArray | None = None
    ) -> None:
        """Solve the dual problems of checked data and set the fitted attributes."""
        n_rows = len(problem.labels)
        kernel = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        check_nonnegative(kernel, problem.X, getattr(self, "feature_names_in_", None))
        points = kernel.prepare(problem.X)
        taken = points.nbytes + VARIABLE_BYTES * n_rows
        cache_bytes = find_cache(parse_bytes(self.memory), n_rows, taken)
        diagonal = kernel.diag(points)
        check_kernel_range(kernel, diagonal)
        warn_if_indefinite(kernel, problem.X, diagonal, stacklevel=5)
        with open_workers(self.n_jobs) as workers:
            score = _scorer(kernel, points, workers)
            duals = self._make_duals(problem, score, diagonal, targets)
            budget = Budget(self.tol, self.max_iter, deadline, cache_bytes)
            solved = self._solve_duals(kernel, problem.X, points, duals, workers, budget)
        self._keep(problem, kernel, duals, solved)
        warn_unless_converged(self, self._advise_late())

    def _solve_duals(
        self, kernel: Kernel, X: Any, points: Points, duals: list[DualProblem], workers: Workers,
        budget: Budget,
    ) -> Any:  # fmt: skip
        """Solve the dual problems; `_keep` takes what is returned, here a list of `Solution`."""
        with show_problems(len(duals), self.verbose, report_rounds(self)) as show:
            return solve_exactly(
                kernel, X, points, duals, workers, budget=budget,
                seed=draw_seed(self.random_state), callback=self._listener(show),
            )  # fmt: skip

    def _advise_late(self) -> str:
        """Return what to do if time ran out."""
        return "allow more time for the optimum"

    def _listener(
        self, show: Callable[[int, Progress], object] | None
    ) -> Callable[[int, Progress], object]:
        def listen(number: int, state: Progress) -> None:
            if show is not None:
                show(number, state)
            if self.callback is not None:
                self.callback(state)

        return listen

    def _keep(
        self, problem: Problem, kernel: Kernel, duals: list[DualProblem], solved: Any
    ) -> None:
        """Set the fitted attributes."""
        coef = np.array([found.coef for found in solved])
        rows = np.flatnonzero(coef.any(axis=0))
        given = isinstance(kernel, Precomputed)
        self.kernel_ = kernel
        self.support_ = problem.kept[rows].astype(np.int32)
        self.support_vectors_ = np.empty((0, 0)) if given else problem.X[rows]
        self.n_support_ = np.array([len(rows)], np.int32)
        self._dual_coef_ = np.ascontiguousarray(coef[:, rows])
        self.intercept_ = np.array([found.intercept for found in solved])
        self.objective_ = one_or_all([found.objective for found in solved])
        self.duality_gap_ = one_or_all([found.duality_gap for found in solved])
        self.violation_ = one_or_all([found.violation for found in solved])
        self.violation_error_ = one_or_all([found.violation_error for found in solved])
        self.n_iter_ = one_or_all([found.n_iter for found in solved])
        self.stop_reason_ = worst_reason(found.stop_reason for found in solved).value
        self.restore_model()

    def restore_model(self) -> None:
        """Make the predictor from the fitted attributes; called after setting them by hand."""
        self._model: Any = Expansion(
            self.kernel_,
            None if isinstance(self.kernel_, Precomputed) else self.support_vectors_,
            self.support_.astype(np.intp),
            self._dual_coef_,
            self.intercept_,
        )

    def to_libsvm(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a text file that LIBSVM's tools read.

        Parameters
        ----------
        path : path-like
            Where to write. Needs a linear, rbf, poly, sigmoid or precomputed kernel, and a single
            target.
        """
        check_is_fitted(self)
        write_libsvm_model(path, to_libsvm_function(self, self._svm_type))

    @classmethod
    def from_libsvm(cls, path: str | os.PathLike[str], n_features: int | None = None) -> Self:
        """Read a model file of LIBSVM (``svm-train``).

        Parameters
        ----------
        path : path-like
            The file; it need not be trusted.
        n_features : int, optional
            Width of the data, which the format does not hold; the largest feature that a support
            vector has if not given. For a precomputed kernel, the number of training rows.

        Returns
        -------
        model : estimator
            An estimator that predicts as LIBSVM does. The file does not say which training rows the
            support vectors are, so ``support_`` counts them; parameters of the fit other than those
            of the kernel, and the objective, are unknown.
        """
        attributes = read_libsvm_attributes(path, cls._svm_type, n_features)
        kernel = attributes["kernel_"]
        model = cls(kernel=kernel.name, **kernel.params())
        for name, value in attributes.items():
            setattr(model, name, value)
        model.restore_model()
        return model

    def _decide(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        return self._ask(self._model, self._check_queries(X))

    def _check_queries(self, X: Any) -> Any:
        X = validate_queries(self, wrap_items(self.kernel, X))
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))
        return X

    def _ask(self, model: Any, X: Any) -> NDArray[np.float64]:
        """Decision values of all problems by a model."""
        decisions: NDArray[np.float64] = model.decide(
            X, max_bytes=parse_bytes(self.memory), n_jobs=self.n_jobs
        )
        return decisions


def _scorer(kernel: Kernel, points: Points, workers: Workers) -> Callable[..., FloatArray]:
    """Function that multiplies the kernel between all points and some by coefficients."""

    def score(rows: Any, coef: FloatArray) -> FloatArray:
        out = np.zeros((len(points), 1))
        everyone = np.arange(len(points))
        kernel.accumulate(points, everyone, points, rows, coef.reshape(-1, 1), out, workers)
        return out[:, 0]

    return score
