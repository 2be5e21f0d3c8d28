"""Mixin: a C and an intercept that depend on the size of the kernel's values."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from widemargin.arguments import check_choice
from widemargin.base import FunctionsMixin
from widemargin.parameters import Choices
from widemargin.problem import Problem

#: C times the mean of k(x, x) with ``C="scale"``. Curves of fewer features than `MANY_FEATURES` need
#: to bend more, so that smooth kernels get a C up to ten times as large, if there are enough rows: so
#: many for each unit of the factor. Chosen by measurement: docs/additive.md.
SCALED_COST, MANY_FEATURES, MOST_TIMES, ROWS_EACH = 10.0, 64, 10.0, 150


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

    def _scale_cost(self, n_rows: float) -> float:
        """Return C times the mean of k(x, x) with ``C="scale"``, for so many rows."""
        if not self._is_smooth:
            return SCALED_COST
        # Constant columns do not bend.
        n_varied = int(np.count_nonzero(np.ptp(self.feature_ranges_, axis=0)))
        times = min((MANY_FEATURES / max(n_varied, 1)) ** 2, MOST_TIMES, n_rows / ROWS_EACH)
        return SCALED_COST * max(times, 1.0)

    def _cost(self) -> float:
        """Return C, which follows from the mean of k(x, x) with ``C="scale"``."""
        if self.C != "scale":
            self.C_ = float(self.C)
        return self.C_

    def _has_intercept(self) -> bool:
        """Return whether the last extra number of every row is a constant."""
        return bool(self.fit_intercept)

    def _has_free_intercept(self) -> bool:
        return self._has_intercept() and self.fit_intercept == "free"

    def _measure_kernel(self, problem: Problem, norms: NDArray[np.float64]) -> None:
        mean = float(np.average(norms, weights=problem.sample_weights)) - self._has_intercept()
        self._keep_kernel_mean(mean, float(problem.sample_weights.sum()))

    def _keep_kernel_mean(self, mean: float, n_rows: float) -> None:
        """Keep the mean of k(x, x) over so many rows, and the C that follows from it."""
        self.kernel_mean_ = mean if mean > 0 else 1.0
        if self.C == "scale":
            self.C_ = self._scale_cost(n_rows) / self.kernel_mean_
