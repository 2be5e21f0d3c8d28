"""Newton's method for regressions with the squared loss and few coefficients.

The primal objective is quadratic wherever the same rows are outside of the tube, so that Newton's
method ends after a few steps, for any C. Coordinate descent takes passes in proportion to C. A step
costs the square of the number of coefficients for each row, which is little if there are few.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.coded_rows import FloatArray, count_coefs
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.codes import Codes
from widemargin.additive.dual_descent import Descent, LinearResult, WarmStart
from widemargin.budget import StopReason
from widemargin.deadline import is_late

#: Most coefficients for which Newton's method is used, and most bytes of the rows written out.
MAX_COEFS, MAX_BYTES = 128, 2**28
#: Violation at which rounding errors end the method, in units of the targets.
ROUNDING = 1e-9
#: Most times that a step is halved.
MAX_HALVINGS = 30


def prefers_newton(rows: Rows, is_squared: bool) -> bool:
    """Return whether Newton's method suits a regression on these rows."""
    if not is_squared or rows.kind not in (fast.DENSE, fast.SPARSE) or rows.n_extra > 1:
        return False
    n_coefs = count_coefs(rows)
    return n_coefs <= MAX_COEFS and 8 * n_coefs * (len(rows.indptr) - 1) <= MAX_BYTES


def solve_newton(
    rows: Rows,
    targets: FloatArray,
    costs: FloatArray,
    epsilon: float,
    settings: Descent,
    *,
    is_free: bool,
    start: WarmStart | None,
    callback: Callable[[int, float], object] | None,
) -> LinearResult:
    """Minimise ``0.5 |w|^2 + sum_i C_i max(0, |y_i - w'x_i - b| - epsilon)^2``.

    Parameters and result are those of `descend_targets`. Stops when the optimality conditions of the
    dual are violated by no more than rounding errors, or after ``max_iter`` steps with the reason
    ``CONVERGED`` if the violation is at most ``tol``.
    """
    roots = np.sqrt(rows.scale.astype(np.float64))
    A = np.hstack([write_out(rows) * roots, np.ones((len(targets), rows.n_extra))])
    penalty = np.ones(A.shape[1])
    if is_free:
        penalty[-1] = 0.0
    theta = np.zeros(A.shape[1])
    if start is not None:
        theta = A.T @ start.alpha[:, 0]
        theta[len(roots) :] = start.extra[0]
    problem = _Primal(A, targets, costs, epsilon, penalty)
    n_iter, violation, reason = _iterate(problem, theta, settings, callback)
    coef = (theta[: len(roots)] * roots)[None]
    return LinearResult(
        coef, theta[None, len(roots) :], problem.pull(theta)[:, None], np.array([n_iter]),
        np.array([violation]), reason,
    )  # fmt: skip


def write_out(rows: Rows) -> FloatArray:
    """Return the numbers of all rows, shape (n, n_features * rank)."""
    codes = Codes(rows.codes, rows.gaps, rows.indptr, rows.n_features)
    table = rows.read.reshape(-1, rows.rank).astype(np.float64)
    if not codes.is_sparse:
        return table[codes.values.reshape(codes.shape)].reshape(len(codes), -1)
    columns = [codes.to_csr(table[:, t]).toarray() for t in range(rows.rank)]
    return np.stack(columns, axis=2).reshape(len(codes), -1)


class _Primal:
    """The primal objective, as a function of the coefficients and the intercept together."""

    def __init__(
        self, A: FloatArray, targets: FloatArray, costs: FloatArray, epsilon: float,
        penalty: FloatArray,
    ) -> None:  # fmt: skip
        self.A, self.targets, self.costs = A, targets, costs
        self.epsilon, self.penalty = epsilon, penalty

    def pull(self, theta: FloatArray) -> FloatArray:
        """Return the dual variables that belong to the coefficients: ``2 C_i`` times the excess."""
        errors = self.targets - self.A @ theta
        excess = np.sign(errors) * np.maximum(np.abs(errors) - self.epsilon, 0.0)
        return 2.0 * self.costs * excess

    def value(self, theta: FloatArray, pull: FloatArray) -> float:
        """Return the objective; ``pull`` is that of ``theta``."""
        return float(0.5 * self.penalty @ theta**2 + (0.25 * pull / self.costs) @ pull)

    def gradient(self, theta: FloatArray, pull: FloatArray) -> FloatArray:
        """Return the derivative of the objective."""
        return np.asarray(self.penalty * theta - self.A.T @ pull)

    def violation(self, gradient: FloatArray, pull: FloatArray) -> float:
        """Return how far the dual variables are from optimal: how much decisions would change.

        The coefficients that belong to the dual variables differ from ``theta`` by the gradient. Of a
        free intercept the step counts that its own second derivative asks for.
        """
        is_free = self.penalty == 0.0
        change = self.A[:, ~is_free] @ gradient[~is_free]
        curvature = max(float(2.0 * self.costs @ (pull != 0.0)), 1e-300)
        return float(max(np.abs(change).max(), np.abs(gradient[is_free]).sum() / curvature))

    def step(self, gradient: FloatArray, pull: FloatArray) -> FloatArray:
        """Return Newton's step."""
        is_out = pull != 0.0
        weighted = self.A[is_out] * np.sqrt(2.0 * self.costs[is_out])[:, None]
        hessian = weighted.T @ weighted + np.diag(self.penalty)
        # No row is outside of the tube if a free intercept has no second derivative.
        hessian[np.diag_indices_from(hessian)] += 1e-14 * max(np.trace(hessian), 1e-300)
        return np.asarray(-np.linalg.solve(hessian, gradient))


def _iterate(
    problem: _Primal,
    theta: FloatArray,
    settings: Descent,
    callback: Callable[[int, float], object] | None,
) -> tuple[int, float, StopReason]:
    """Change ``theta`` by Newton's steps; returns their number, the violation and why they ended."""
    pull = problem.pull(theta)
    value = problem.value(theta, pull)
    reason = StopReason.MAX_ITER
    for number in range(settings.max_iter + 1):
        gradient = problem.gradient(theta, pull)
        violation = problem.violation(gradient, pull)
        if callback is not None and number > 0:
            callback(number, violation)
        if violation <= ROUNDING or number == settings.max_iter:
            break
        if is_late(settings.deadline):
            reason = StopReason.MAX_TIME
            break
        moved = _search_line(problem, theta, problem.step(gradient, pull), value)
        if moved is None:
            break
        value, pull = moved
    is_optimal = violation <= settings.tol
    return number, violation, StopReason.CONVERGED if is_optimal else reason


def _search_line(
    problem: _Primal, theta: FloatArray, step: FloatArray, value: float
) -> tuple[float, NDArray[Any]] | None:
    """Move ``theta`` along a step, halved until the objective falls; None if it never does."""
    for halving in range(MAX_HALVINGS):
        tried = theta + step * 0.5**halving
        pull = problem.pull(tried)
        found = problem.value(tried, pull)
        if found < value:
            theta[:] = tried
            return found, pull
    return None
