"""PmSVM's tables: a regression on powers of a logarithm replaces the kernel.

PmSVM is Wu and Yang, "Power Mean SVM". It approximates ``k(x, y)`` by ``e(x)' inv(X) s(y)`` (Eq. 39).

- e(x), Eq. 25: explanatory variables ``(1, l, l^2, ...)``, ``l = ln(x + offset)``; `explain_values`.
- X, Eq. 26: design matrix, whose row i is e of anchor i; ``design``.
- s(x), Eq. 27: kernel between x and the anchors; ``kernel(values, anchors)``.
- t_j, Eq. 28 to 30: decision curve of feature j at the anchors, ``sum_i alpha_i y_i s(x_ij)``; it is
  never computed.
- a_j, Eq. 31: coefficients of feature j, ``inv(X) t_j = sum_i alpha_i y_i inv(X) s(x_ij)``; ``coef``.

A row that is added to the coefficients therefore adds ``inv(X) s(x_ij)``, the table ``write``; a row
that is read multiplies them with ``e(x_ij)``, the table ``read``.
"""

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.scalar_kernels import ScalarKernel

#: Share of the unit up to which a value counts as zero: closer to zero, rounding decides its value.
NEGLIGIBLE = 1e-6
#: The anchors of the paper, for three of them.
PAPER_ANCHORS = (0.01, 0.06, 0.75)


def chebyshev_anchors(n_anchors: int) -> NDArray[np.float64]:
    """Return the roots of a Chebyshev polynomial, scaled to the unit interval (PmSVM Eq. 41)."""
    i = np.arange(n_anchors, 0, -1)
    return 0.5 + 0.5 * np.cos((2 * i - 1) * np.pi / (2 * n_anchors))


def explain_values(x: NDArray[np.float64], offset: float, n_anchors: int) -> NDArray[np.float64]:
    """Return the explanatory variables of some numbers, shape (n, n_anchors): PmSVM Eq. 25."""
    return np.log(np.asarray(x, np.float64) + offset)[:, None] ** np.arange(n_anchors)


def regression_tables(
    kernel: ScalarKernel,
    values: NDArray[np.float64],
    anchors: NDArray[np.float64],
    offset: float,
    unit: float = 1.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the tables ``e(v / unit)`` and ``inv(X) s(v)`` of numbers v, each (n, n_anchors)."""
    with np.errstate(over="ignore", invalid="ignore"):
        # PmSVM Eq. 26.
        design = explain_values(anchors / unit, offset, len(anchors))
        read = explain_values(values / unit, offset, len(anchors))
        # PmSVM Eq. 27, and inv(X) s(v) of Eq. 31.
        write = _solve_design(design, kernel(values, anchors).T).T
        # Values of later queries are between zero and the unit.
        ends = explain_values(np.array([0.0, 1.0]), offset, len(anchors))
    if not all(np.isfinite(table).all() for table in (read, write, ends)):
        raise ValueError(
            f"anchors: powers of the logarithms of these {len(anchors)} anchors overflow, or cannot "
            "be told apart; use fewer anchors, or anchors further apart"
        )
    return read, np.ascontiguousarray(write)


def _solve_design(design: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the solution of a linear system, full of NaN if the matrix is singular."""
    try:
        return np.linalg.solve(design, right).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return np.full(right.shape, np.nan)
