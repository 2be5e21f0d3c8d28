"""Additive SVMs whose curves may have to rise or to fall: a problem with bounds, in the primal.

    minimise    0.5 sum_j |w_j|^2 + sum_i C_i max(0, 1 - y_i f(x_i))^2
    where       f(x) = b + sum_j g_j(x_j)
    subject to  w_j >= 0 if g_j must not fall, and w_j <= 0 if it must not rise

A constrained feature has the intersection kernel. With codes k and levels t_k of its bins,

    g_j(k) = sum_{l <= k} w_jl sqrt(s_j (t_l - t_{l-1})),

where s_j is the factor on its kernel. The squared norm of w_j is the integral of the squared slope of
g_j, divided by s_j, and g_j is monotone if and only if no two steps have different signs. Other
features keep the table of their kernel: g_j(k) is the product of w_j and row k of the table, times the
root of s_j. If a kernel has no table, they have steps of either sign.

The bounds concern single variables, and L-BFGS-B (Byrd, Lu, Nocedal, Zhu 1995) solves the problem.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from widemargin.additive.coded_rows import FloatArray
from widemargin.additive.codes import Codes
from widemargin.additive.primal_newton_fast import combine_rows, look_up
from widemargin.budget import StopReason
from widemargin.deadline import is_late

#: Largest projected gradient at the end, as a share of the gradient at zero, if the tolerance is one.
GRADIENT_SHARE = 1e-2
#: Earlier steps from which L-BFGS-B estimates second derivatives.
N_CORRECTIONS = 20


class CurveBasis:
    """Variables of a fit, and the curves that they make.

    Parameters
    ----------
    offsets : ndarray of shape (n_features + 1,)
        Position of the first bin of each feature.
    levels : ndarray of shape (n_bins,)
        Level of each code of a feature with steps, from zero.
    scale : ndarray of shape (n_features,)
        Factor on the kernel of each feature.
    signs : ndarray of shape (n_features,)
        1 for curves that must not fall, -1 for curves that must not rise, 0 for others.
    table : ndarray of shape (n_rows, rank) or None
        Numbers of each code for features without constraint, zeros for code zero; None for steps.
    shifts : ndarray of shape (n_features,), optional
        Distance from a code of a feature, but zero, to its row of the table; default none.
    """

    def __init__(
        self,
        offsets: NDArray[np.int64],
        levels: FloatArray,
        scale: FloatArray,
        signs: NDArray[np.integer],
        table: FloatArray | None,
        shifts: NDArray[np.int64] | None = None,
    ) -> None:
        feature = np.repeat(np.arange(len(scale)), np.diff(offsets))
        code = np.arange(offsets[-1]) - offsets[feature]
        has_steps = signs != 0 if table is not None else np.ones(len(signs), bool)
        self.offsets = offsets
        self.table = np.empty((len(levels), 0)) if table is None else table
        #: Bins with steps, what a step of one adds there, and its sign.
        self.stepped = np.flatnonzero(has_steps[feature] & (code > 0))
        rises = np.diff(levels, prepend=0.0)[code[self.stepped]]
        self.roots = np.sqrt(rises * scale[feature[self.stepped]])
        self.step_signs = signs[feature[self.stepped]]
        #: Features with a table, and where their bins are.
        self.tabled = np.flatnonzero(~has_steps)
        self.table_roots = np.sqrt(scale[self.tabled])[:, None]
        self.table_bins = np.flatnonzero(~has_steps[feature])
        self.table_rows = np.searchsorted(self.tabled, feature[self.table_bins])
        rows = code if shifts is None else code + np.where(code > 0, shifts[feature], 0)
        self.table_codes = rows[self.table_bins]

    @property
    def n_numbers(self) -> int:
        """Number of coefficients of tables; those of steps follow them."""
        return len(self.tabled) * self.table.shape[1]

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.n_numbers + len(self.stepped)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest value of every variable."""
        low = np.full(self.n_variables, -np.inf)
        high = np.full(self.n_variables, np.inf)
        low[self.n_numbers :][self.step_signs > 0] = 0.0
        high[self.n_numbers :][self.step_signs < 0] = 0.0
        return low, high

    def make_curves(self, w: FloatArray) -> FloatArray:
        """Return the values of all curves at their bins."""
        rises = np.zeros(self.offsets[-1])
        rises[self.stepped] = w[self.n_numbers :] * self.roots
        curves = np.empty_like(rises)
        for first, last in zip(self.offsets, self.offsets[1:], strict=False):
            np.cumsum(rises[first:last], out=curves[first:last])
        numbers = w[: self.n_numbers].reshape(len(self.tabled), self.table.shape[1])
        tabled = (self.table_roots * numbers) @ self.table.T
        curves[self.table_bins] = tabled[self.table_rows, self.table_codes]
        return curves

    def differentiate(self, tails: FloatArray) -> FloatArray:
        """Return the derivative by the variables.

        ``tails`` has the sum of the derivatives by the values of a curve from each bin to its last.
        """
        dense = np.zeros((len(self.tabled), len(self.table)))
        by_value = tails - np.append(tails[1:], 0.0)
        by_value[self.offsets[1:] - 1] = tails[self.offsets[1:] - 1]
        dense[self.table_rows, self.table_codes] = by_value[self.table_bins]
        by_numbers = self.table_roots * (dense @ self.table)
        return np.concatenate([by_numbers.ravel(), tails[self.stepped] * self.roots])


@dataclass(frozen=True)
class MonotoneProblem:
    """Two classes, and the curves that may tell them apart.

    Attributes
    ----------
    codes : Codes
        Codes of the rows; of sparse data without codes of zero, which add nothing.
    basis : CurveBasis
        The curves.
    y : ndarray of shape (n,)
        1 or -1 for every row.
    costs : ndarray of shape (n,)
        Cost of an error in every row.
    intercept_penalty : float or None
        Penalty of the intercept, zero for a free one; None for no intercept.
    """

    codes: Codes
    basis: CurveBasis
    y: FloatArray
    costs: FloatArray
    intercept_penalty: float | None

    def evaluate(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its derivative; the last variable is the intercept."""
        coef, intercept = w[:-1], w[-1]
        penalty = self.intercept_penalty or 0.0
        missing = np.maximum(
            1.0 - self.y * (self.decide(self.basis.make_curves(coef)) + intercept), 0
        )
        pulls = -2.0 * self.costs * self.y * missing
        tails = self._add_up(pulls)
        objective = 0.5 * (coef @ coef + penalty * intercept**2)
        slope = np.append(coef + self.basis.differentiate(tails), penalty * intercept + pulls.sum())
        if self.intercept_penalty is None:
            slope[-1] = 0.0
        return float(objective + self.costs @ np.square(missing)), slope

    def decide(self, curves: FloatArray) -> FloatArray:
        """Return the sum of the curves at every row."""
        codes, out = self.codes, np.empty(len(self.codes))
        look_up(
            codes.values, codes.gaps, not codes.is_sparse, codes.indptr, self.basis.offsets, curves,
            out,
        )  # fmt: skip
        return out

    def _add_up(self, factors: FloatArray) -> FloatArray:
        """Return the sums of the factors of all rows whose codes are no less than each bin."""
        codes, out = self.codes, np.empty(self.basis.offsets[-1])
        combine_rows(
            codes.values, codes.gaps, not codes.is_sparse, codes.indptr, self.basis.offsets, factors,
            out,
        )  # fmt: skip
        return out


@dataclass(frozen=True)
class MonotoneResult:
    """Curves of a fit with constraints.

    Attributes
    ----------
    curves : ndarray
        Values of all curves at their bins.
    intercept : float
        The constant.
    n_iter : int
        Steps of L-BFGS-B.
    violation : float
        Largest projected gradient, as a share of that at zero, divided by `GRADIENT_SHARE`.
    stop_reason : StopReason
        Why the fit ended.
    """

    curves: FloatArray
    intercept: float
    n_iter: int
    violation: float
    stop_reason: StopReason


def solve_monotone(
    problem: MonotoneProblem,
    tol: float,
    max_iter: int,
    deadline: float | None,
    show: Callable[[int, float], None] | None = None,
) -> MonotoneResult:
    """Minimise the objective within the bounds.

    The solver stops when the largest projected gradient is at most ``tol * GRADIENT_SHARE`` times that
    at zero.
    """
    low, high = (np.append(bound, 0.0) for bound in problem.basis.bounds())
    if problem.intercept_penalty is not None:
        low[-1], high[-1] = -np.inf, np.inf
    start = np.zeros(len(low))
    unit = GRADIENT_SHARE * _largest_slope(start, problem.evaluate(start)[1], low, high)
    n_iter, slope = 0, start

    def evaluate(w: FloatArray) -> tuple[float, FloatArray]:
        nonlocal slope
        objective, slope = problem.evaluate(w)
        return objective, slope

    def look(intermediate_result: Any) -> None:
        nonlocal n_iter
        n_iter += 1
        if show is not None:
            # The step ends where the objective was evaluated last.
            show(n_iter, _largest_slope(intermediate_result.x, slope, low, high) / unit)
        if is_late(deadline):
            raise StopIteration

    found = minimize(
        evaluate, start, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True)),
        callback=look,
        options={
            "maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0.0, "gtol": tol * unit,
            "maxcor": N_CORRECTIONS,
        },
    )  # fmt: skip
    left = _largest_slope(found.x, problem.evaluate(found.x)[1], low, high)
    violation = left / unit if unit > 0 else 0.0
    return MonotoneResult(
        problem.basis.make_curves(found.x[:-1]), float(found.x[-1]), n_iter, violation,
        _find_reason(violation <= tol, n_iter >= max_iter, is_late(deadline)),
    )  # fmt: skip


def _largest_slope(w: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> float:
    """Return the largest component of the projected gradient, as L-BFGS-B defines it."""
    return float(np.abs(np.clip(w - slope, low, high) - w).max())


def _find_reason(is_converged: bool, is_long: bool, is_over: bool) -> StopReason:
    if is_converged:
        return StopReason.CONVERGED
    if is_long:
        return StopReason.MAX_ITER
    # Without either, rounding errors keep the line search from any further progress.
    return StopReason.MAX_TIME if is_over else StopReason.STALLED
