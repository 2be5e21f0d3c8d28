"""PmSVM's tables: a regression on powers of a logarithm stands in for the kernel.

``k(x, y)`` is approximated by ``e(x)' inv(X) s(y)`` (Eq. 39 of Wu and Yang): explanatory variables
``e(x) = (1, l, l^2, ...)`` with ``l = ln(x + offset)``, the kernel ``s(y)`` between y and some
anchors, and the design matrix X whose rows are the explanatory variables of the anchors.
"""

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.scalar_kernels import ScalarKernel

#: Share of the unit up to which a value counts as zero: so close to it, rounding decides what it is.
NEGLIGIBLE = 1e-6
#: The anchors of the paper, for three of them.
PAPER_ANCHORS = (0.01, 0.06, 0.75)


def chebyshev_anchors(n_anchors: int) -> NDArray[np.float64]:
    """Roots of a Chebyshev polynomial, moved to the unit interval (Eq. 41), ascending."""
    i = np.arange(n_anchors, 0, -1)
    return 0.5 + 0.5 * np.cos((2 * i - 1) * np.pi / (2 * n_anchors))


def explain_values(x: NDArray[np.float64], offset: float, n_anchors: int) -> NDArray[np.float64]:
    """Explanatory variables of some numbers, shape (n, n_anchors): Eq. 25."""
    return np.log(np.asarray(x, np.float64) + offset)[:, None] ** np.arange(n_anchors)


def regression_tables(
    kernel: ScalarKernel,
    values: NDArray[np.float64],
    anchors: NDArray[np.float64],
    offset: float,
    unit: float = 1.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Tables ``e(v / unit)`` and ``inv(X) s(v)`` of some numbers v, each of shape (n, n_anchors)."""
    design = explain_values(anchors / unit, offset, len(anchors))
    read = explain_values(values / unit, offset, len(anchors))
    write = np.linalg.solve(design, kernel(values, anchors).T).T
    return read, np.ascontiguousarray(write)
