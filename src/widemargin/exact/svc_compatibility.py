"""What lets the exact estimators stand in for scikit-learn's `SVC`, `SVR` and `OneClassSVM`."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_flag, check_number
from widemargin.budget import StopReason
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.solution import Solution
from widemargin.kernels import Kernel, Linear

#: Bound on the dual variables where C is infinite, for kernel values of at least one. The dual
#: variables of a hard margin grow as the kernel values shrink.
HARD_MARGIN_COST = 1e10
#: Share of its bound from which a dual variable counts as being there.
AT_BOUND = 1.0 - 1e-9


class DualCoefMixin:
    """Dual coefficients in the format of the training data, as scikit-learn has them."""

    support_vectors_: Any
    #: The coefficients that the model predicts with, dense whatever the data are.
    _dual_coef_: NDArray[np.float64]

    @property
    def dual_coef_(self) -> Any:
        """Signed dual coefficients, shape (n_problems, n_SV); a CSR matrix if the data were sparse."""
        check_is_fitted(self)
        is_sparse = sparse.issparse(self.support_vectors_)
        return sparse.csr_matrix(self._dual_coef_) if is_sparse else self._dual_coef_


class FittedLikeSVCMixin:
    """Attributes of scikit-learn's kernel machines that follow from those of ours.

    They are computed when they are asked for, so a model that was read from a file has them too.
    """

    kernel_: Kernel
    dual_coef_: Any
    support_vectors_: Any
    stop_reason_: str

    @property
    def coef_(self) -> Any:
        """Weights of the features if the kernel is linear, shape (n_problems, n_features).

        ``decision = X @ coef_.T + intercept_``. It is read-only, and a CSR matrix if the data were
        sparse.
        """
        if not isinstance(self.kernel_, Linear):
            raise AttributeError(
                f"coef_ exists for a linear kernel only, and this kernel is {self.kernel_.name!r}"
            )
        coef = (self.dual_coef_ @ self.support_vectors_).astype(np.float64, copy=False)
        values = coef.data if sparse.issparse(coef) else coef
        values.flags.writeable = False
        return coef

    @property
    def gamma_(self) -> float:
        """The number that ``gamma`` stands for; zero if the kernel has none."""
        return float(self.kernel_.params().get("gamma", 0.0))

    @property
    def _gamma(self) -> float:
        return self.gamma_

    @property
    def fit_status_(self) -> int:
        """0 if the fit converged, else 1."""
        return 0 if self.stop_reason_ == "converged" else 1


def check_ignored_params(shrinking: Any, cache_size: Any) -> None:
    """Refuse values that scikit-learn would refuse of parameters that have no effect here."""
    check_flag("shrinking", shrinking)
    check_number("cache_size", cache_size, above=0)


def check_cost(C: Any) -> None:
    """Refuse anything but a positive number or infinity, which allows no errors."""
    if not (isinstance(C, float | np.floating) and np.isposinf(C)):
        check_number("C", C, above=0)


def find_bound(C: float, diagonal: NDArray[np.float64]) -> float:
    """The largest dual variable of a row of weight one; C itself unless that is infinite."""
    if np.isfinite(C):
        return C
    largest = float(np.abs(diagonal).max())
    return HARD_MARGIN_COST / min(largest, 1.0) if largest > 0 else HARD_MARGIN_COST


def warn_unless_feasible(
    estimator: Any, duals: list[DualProblem], solutions: list[Solution], cause: str, stacklevel: int
) -> None:
    """Warn if ``C=inf`` has no solution: then some dual variables grow up to any bound.

    ``stacklevel`` counts the functions from here to the line that called ``fit``.
    """
    if np.isfinite(estimator.C):
        return
    reached = sum(
        int(np.count_nonzero(np.abs(found.coef) >= AT_BOUND * np.maximum(dual.upper, -dual.lower)))
        for dual, found in zip(duals, solutions, strict=True)
        if found.stop_reason == StopReason.CONVERGED
    )
    if reached:
        warnings.warn(
            f"{type(estimator).__name__} found no solution for C=inf: {cause}, and {reached} dual "
            "variables are at a bound that stands for infinity; give a finite C",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
