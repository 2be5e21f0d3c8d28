"""Mixin: a C and an intercept that depend on the size of the kernel's values."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from widemargin.arguments import check_choice
from widemargin.base import FunctionsMixin
from widemargin.parameters import Choices
from widemargin.problem import Problem

#: C times the mean of k(x, x) with ``C="scale"``. Curves of fewer features than `MANY_FEATURES` need
#: to bend more, so that smooth kernels get a C up to ten times as large. Chosen by measurement:
#: docs/additive.md.
SCALED_COST, MANY_FEATURES, MOST_TIMES = 10.0, 64, 10.0


class KernelScaleMixin(FunctionsMixin):
    """``C="scale"``, and an intercept without penalty (``fit_intercept="free"``).

    The mean of k(x, x) over the training rows is the unit of both. It makes C independent of the
    number of features and of their units, and steps of the intercept as long as those of the curves.
    """

    fit_intercept: Any
    feature_ranges_: NDArray[np.float64]

    _choices: ClassVar[Choices] = {"fit_intercept": ("free", True, False)}

    def _check_cost(self) -> None:
        if isinstance(self.C, str):
            check_choice("C", self.C, ("scale",))
        else:
            super()._check_cost()

    @property
    def _is_smooth(self) -> bool:
        """Whether a small C leaves curves of the kernel nearly straight."""
        return False

    @property
    def _scaled_cost(self) -> float:
        """C times the mean of k(x, x) with ``C="scale"``."""
        if not self._is_smooth:
            return SCALED_COST
        # Constant columns do not bend.
        n_varied = int(np.count_nonzero(np.ptp(self.feature_ranges_, axis=0)))
        return SCALED_COST * min(max(MANY_FEATURES / max(n_varied, 1), 1.0) ** 2, MOST_TIMES)

    def _cost(self) -> float:
        self.C_ = self._scaled_cost / self.kernel_mean_ if self.C == "scale" else float(self.C)
        return self.C_

    def _has_intercept(self) -> bool:
        """Return whether the last extra number of every row is a constant."""
        return bool(self.fit_intercept)

    def _has_free_intercept(self) -> bool:
        return self._has_intercept() and self.fit_intercept == "free"

    def _measure_kernel(self, problem: Problem, norms: NDArray[np.float64]) -> None:
        mean = float(np.average(norms, weights=problem.sample_weights)) - self._has_intercept()
        self.kernel_mean_ = mean if mean > 0 else 1.0
