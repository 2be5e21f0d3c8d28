"""Base class of the classifiers with basis vectors: `ProjectedSVC`, `RSVC` and `SpSVC`."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from widemargin.base import OneVsRest
from widemargin.budget import worst_reason
from widemargin.exact.classifier_base import one_or_all
from widemargin.exact.expansion import Expansion
from widemargin.kernel_arguments import check_kernel_range, check_nonnegative, resolve_kernel
from widemargin.kernels import Kernel, is_precomputed, needs_nonnegative
from widemargin.memory import parse_bytes
from widemargin.parallel import Workers
from widemargin.problem import Problem, Subproblem, split_binary, split_one_vs_rest
from widemargin.projected.basis import KernelRows
from widemargin.projected.path import join_stages
from widemargin.projected.selection import Selection


class BasisClassifier(OneVsRest):
    """Base class of classifiers whose decision functions are kernel expansions on basis vectors."""

    kernel: str | Kernel | Callable[[Any, Any], Any]
    gamma: float | str
    degree: int
    coef0: float
    memory: int | str
    random_state: Any

    def _fit(self, problem: Problem) -> None:
        self.kernel_ = resolve_kernel(self.kernel, self.gamma, self.degree, self.coef0, problem)
        self._check_features(problem.X)
        self._keep(problem, self._select(problem, self.kernel_))

    def _decide(self, X: Any) -> NDArray[np.float64]:
        return self._model.decide(X, max_bytes=parse_bytes(self.memory), n_jobs=self.n_jobs)

    def _needs_nonnegative(self) -> bool:
        return needs_nonnegative(self.kernel)

    def _read_rows(self, problem: Problem, kernel: Kernel, workers: Workers) -> KernelRows:
        """Return the training rows prepared for kernel values, and check the range of these."""
        rows = KernelRows(kernel, problem.X, workers)
        check_kernel_range(kernel, rows.diag)
        return rows

    @abstractmethod
    def _select(self, problem: Problem, kernel: Kernel) -> list[Selection]:
        """Choose the basis of each binary problem, or one for all of them."""

    def _check_params(self) -> None:
        super()._check_params()
        parse_bytes(self.memory)
        if is_precomputed(self.kernel):
            raise ValueError(
                "kernel: basis vectors need a kernel that can be computed, not 'precomputed'; "
                "give the name of a kernel, a callable or a Kernel"
            )

    def _check_features(self, X: Any) -> None:
        check_nonnegative(self.kernel_, X, getattr(self, "feature_names_in_", None))

    def _keep(self, problem: Problem, selections: list[Selection]) -> None:
        """Set the fitted attributes."""
        stages = [selection.final for selection in selections]
        joined = join_stages(stages, problem.X)
        self.basis_indices_ = problem.kept[joined.rows].astype(np.int32)
        self.basis_vectors_ = joined.vectors
        self.coef_, self.intercept_ = joined.coef, joined.intercept
        self.n_basis_ = one_or_all([len(s.rows) for s in stages for _ in s.intercept])
        self.n_support_ = one_or_all([int(n) for stage in stages for n in stage.n_support])
        self.objective_ = one_or_all([float(value) for value in joined.objective])
        self.stop_reason_ = worst_reason(s.stop_reason for s in selections).value
        self.restore_model()

    def restore_model(self) -> None:
        """Build the predictor from the fitted attributes."""
        self._model = Expansion(
            self.kernel_,
            self.basis_vectors_,
            self.basis_indices_.astype(np.intp),
            self.coef_,
            self.intercept_,
        )

    def _advice(self) -> str | None:
        """Return the text of a warning about the stop reason, or None."""
        return None

    def _warn_unless_converged(self) -> None:
        advice = self._advice()
        if advice:
            warnings.warn(f"{type(self).__name__} {advice}", ConvergenceWarning, stacklevel=4)


def count_changes(selections: list[Selection]) -> int:
    """Return the value of ``n_iter_``: vectors added, exchanges and steps, of the largest problem."""
    return max(len(s.path) + s.n_exchanges for s in selections)


def is_count_or_share(value: Any) -> bool:
    """Whether a value is a positive integer, or a share between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return int(value) > 0 if isinstance(value, Integral) else 0 < float(value) < 1


def count_rows(value: Any, n: int) -> int:
    """Return a number of rows that is given as an integer or as a share of n."""
    return int(value) if isinstance(value, Integral) else max(1, round(float(value) * n))


def split_classes(problem: Problem) -> list[Subproblem]:
    """Return the binary problem of two classes, or the one-vs-rest problems of more."""
    return split_binary(problem) if len(problem.classes) == 2 else split_one_vs_rest(problem)
