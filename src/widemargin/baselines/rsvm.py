"""RSVM: a kernel SVM on a random basis."""

from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin.arguments import draw_seed
from widemargin.baselines.features import merge_rows
from widemargin.budget import StopReason
from widemargin.kernels import Index, Kernel
from widemargin.memory import parse_bytes
from widemargin.parallel import open_workers
from widemargin.problem import Problem
from widemargin.projected.basis import VALUE_BYTES, Columns
from widemargin.projected.classifier_base import (
    BasisClassifier,
    count_rows,
    is_count_or_share,
    split_classes,
)
from widemargin.projected.machine import Machine
from widemargin.projected.selection import Selection
from widemargin.projected.stages import describe_machines

#: Number of basis vectors whose kernel values are computed together.
COLUMNS_AT_ONCE = 64


class RSVC(BasisClassifier):
    """Kernel SVM on a random basis.

    RSVM of Lee and Mangasarian (2001) minimises ``w'w + b^2 + C sum max(0, error)^2`` over the
    coefficients w of a random sample of training rows and the intercept b. This implementation uses
    Newton's method. All classes share the sample.

    Parameters
    ----------
    n_basis : int or float, default=0.1
        Number of basis vectors, or their share of the distinct training rows.
    C : float, default=1.0
        Cost of a squared error; smaller values regularise more.
    kernel : str, callable or Kernel, default="rbf"
        Kernel as for `KernelSVC`, except ``"precomputed"``.
    gamma, degree, coef0
        Parameters of the kernel, as for `KernelSVC`.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    memory : int or str, default="auto"
        Limit of memory for kernel values, in bytes or as text such as ``"2 GB"``. Training holds the
        kernel values between all rows and the basis, with 8 bytes each; a fit is refused if they do
        not fit.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the draw of the basis. Repeated rows count once in the draw, so that a weight of two is
        the same as a row given twice.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    basis_indices_ : ndarray of shape (n_vectors,)
        Training rows that are basis vectors, sorted.
    basis_vectors_ : ndarray or csr_matrix of shape (n_vectors, n_features)
        These rows.
    coef_ : ndarray of shape (n_functions, n_vectors)
        ``decision = kernel(X, basis_vectors_) @ coef_.T + intercept_``.
    intercept_ : ndarray of shape (n_functions,)
        Intercepts.
    n_basis_ : int or ndarray of shape (n_functions,)
        Basis vectors of each problem.
    objective_ : float or ndarray of shape (n_functions,)
        The objective of each problem.
    n_support_ : int or ndarray of shape (n_functions,)
        Number of training rows with a positive error.
    kernel_ : Kernel
        The kernel, with its parameters.
    stop_reason_ : str
        ``"converged"``, or ``"rank"`` if there are fewer distinct rows than asked for.

    References
    ----------
    Y.-J. Lee, O. L. Mangasarian, "RSVM: Reduced support vector machines", SIAM International
    Conference on Data Mining, 2001.

    K.-M. Lin, C.-J. Lin, "A study on reduced support vector machines", IEEE Transactions on Neural
    Networks 14, 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from widemargin.baselines import RSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), RSVC(n_basis=20, random_state=0))
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    def __init__(
        self,
        *,
        n_basis: int | float = 0.1,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: dict[Any, float] | str | None = None,
        memory: int | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_basis = n_basis
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        if not is_count_or_share(self.n_basis):
            raise ValueError(
                f"n_basis: {self.n_basis!r} is not allowed; give a positive number of vectors, or a "
                "share of the rows between 0 and 1"
            )

    def _select(self, problem: Problem, kernel: Kernel) -> list[Selection]:
        rng = np.random.default_rng(draw_seed(self.random_state))
        distinct, _ = merge_rows(problem.X, problem.sample_weights, rng)
        asked = count_rows(self.n_basis, len(distinct))
        rows = np.sort(rng.choice(distinct, min(asked, len(distinct)), replace=False))
        stop_reason = StopReason.CONVERGED if asked <= len(distinct) else StopReason.RANK
        self._check_room(len(problem.labels), len(rows))
        with open_workers(self.n_jobs) as workers:
            data = self._read_rows(problem, kernel, workers)
            data.hold_copy()
            columns = Columns(data, is_ridge=True, n_expected=len(rows))
            fill_columns(columns, rows)
        cost = self.C * problem.weights
        machines = [Machine(columns, sub.y, cost) for sub in split_classes(problem)]
        stages = [describe_machines([machine]) for machine in machines]
        return [Selection(stage, [stage], stop_reason, 0, asked) for stage in stages]

    def _check_room(self, n_rows: int, n_basis: int) -> None:
        needed = VALUE_BYTES * n_rows * n_basis
        if needed > parse_bytes(self.memory):
            raise ValueError(
                f"memory: kernel values between {n_rows:,} rows and {n_basis:,} basis vectors take "
                f"{needed:,} bytes, more than {self.memory!r} allows; raise it or lower n_basis"
            )

    def _advice(self) -> str | None:
        if self.stop_reason_ != StopReason.RANK:
            return None
        return (
            f"found no more than {np.max(self.n_basis_)} distinct rows for the "
            f"n_basis={self.n_basis} basis vectors asked for; lower n_basis"
        )


def fill_columns(columns: Columns, rows: Index) -> None:
    """Add many basis vectors, with their kernel values computed in blocks."""
    data = columns.data
    for start in range(0, len(rows), COLUMNS_AT_ONCE):
        part = rows[start : start + COLUMNS_AT_ONCE]
        if data.is_exact:
            values = data.kernel.exact(data.X, data.X[part])
        else:
            values = data.block(part, data.workers)
        for row, column in zip(part, values.T, strict=True):
            columns.append(int(row), column)
