"""Whether a kernel is positive semidefinite on the data at hand."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin.exact.dual_problem import FloatArray
from widemargin.exact.solve import exact_matrix
from widemargin.kernel_arguments import INDEFINITE
from widemargin.kernels import CallableKernel, Kernel, Poly, Precomputed, Sigmoid

#: Rows whose kernel matrix is looked at; an eigenvalue counts as negative below this share of the
#: largest value, for each row.
SAMPLE_ROWS, SHARE = 100, 1e-6


def warn_if_indefinite(kernel: Kernel, X: Any, diagonal: FloatArray, stacklevel: int) -> None:
    """Warn if the kernel matrix of some rows has a negative eigenvalue.

    Then the kernel is not positive semidefinite. The opposite does not follow. `check_kernel_range`
    warns of a negative diagonal. ``stacklevel`` counts the functions from here to the user's line.
    """
    if not may_be_indefinite(kernel) or diagonal.min() < 0:
        return
    n = len(diagonal)
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLE_ROWS)).astype(np.intp))
    K = exact_matrix(kernel, X, rows)
    least = float(np.linalg.eigvalsh(0.5 * (K + K.T))[0])
    if least < -SHARE * len(rows) * float(np.abs(K).max()):
        warnings.warn(
            f"The {kernel.name!r} kernel has the eigenvalue {least:.3g} among {len(rows)} rows, "
            f"{INDEFINITE}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def may_be_indefinite(kernel: Kernel) -> bool:
    """Whether the formula of a kernel does not make it positive semidefinite."""
    if isinstance(kernel, Poly):
        return kernel.coef0 < 0
    return isinstance(kernel, Sigmoid | Precomputed | CallableKernel)
