"""Newton's method for SVMs with squared losses and few coefficients, or few rows with an error.

The primal objective is quadratic wherever the same rows have an error, so that Newton's method ends
after a few steps, for any C. Coordinate descent takes passes in proportion to C. The rows are a dense
matrix of n rows and m numbers. With s rows that have an error, a step costs about s m min(s, m)
multiplications.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from widemargin.additive.coded_rows import FloatArray, count_coefs, count_work, pass_time
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.dense_rows import make_dense
from widemargin.additive.dual_descent import Descent, LinearResult, OneVsRestDual
from widemargin.budget import StopReason, worst_reason
from widemargin.deadline import is_late
from widemargin.parallel import Workers

#: Violation at which rounding errors end the method, in units of the targets.
ROUNDING = 1e-9
#: Share of the trace that is added to the diagonal of a matrix, so that it can be factorised.
RIDGE = 1e-14
#: Most steps of a search along a line, and the share of the slope at which it ends.
LINE_STEPS, LINE_ACCURACY = 50, 1e-9
#: Newton's steps that are assumed when it is compared with coordinate descent, the nanoseconds of one
#: of its multiplications, and of making a number of the matrix.
USUAL_STEPS, MULTIPLICATION, MAKING = 10.0, 0.07, 10.0
#: Fewest passes before Newton's method. For each pass of ``max_iter`` it may cost three passes, and in
#: any case so many nanoseconds: five seconds by default.
LEAST_PASSES, MOST_COSTLY, CHEAP = 30, 3.0, 5e6


class Objective(NamedTuple):
    """The primal objective ``0.5 sum(p_j w_j^2) + sum_i C_i e_i^2``, with errors ``e`` beyond a tube.

    Attributes
    ----------
    A : ndarray of shape (n, m)
        The rows; the last column is that of the intercept, if there is one.
    targets : ndarray of shape (n,)
        What the products of the rows should be: numbers, or 1 and -1.
    costs : ndarray of shape (n,)
        Cost C_i of an error of every row.
    epsilon : float
        Half the width of the tube.
    penalty : ndarray of shape (m,)
        One for each coefficient that has a penalty, zero for a free intercept.
    is_one_sided : bool
        Whether products beyond their target are no error, as for classes.
    """

    A: FloatArray
    targets: FloatArray
    costs: FloatArray
    epsilon: float
    penalty: FloatArray
    is_one_sided: bool

    def pull(self, residuals: FloatArray) -> FloatArray:
        """Return the signed dual variables of the residuals: ``2 C_i`` times the errors."""
        errors = np.sign(residuals) * np.maximum(np.abs(residuals) - self.epsilon, 0.0)
        if self.is_one_sided:
            errors[self.targets * residuals <= 0.0] = 0.0
        return 2.0 * self.costs * errors

    def value(self, w: FloatArray, pull: FloatArray) -> float:
        """Return the objective."""
        return float(0.5 * self.penalty @ w**2 + (0.25 * pull / self.costs) @ pull)

    def gradient(self, w: FloatArray, pull: FloatArray) -> FloatArray:
        """Return the derivative of the objective."""
        return np.asarray(self.penalty * w - pull @ self.A)

    def violation(self, gradient: FloatArray, pull: FloatArray) -> float:
        """Return how far the dual variables are from optimal: how much decisions would change.

        The coefficients that belong to the dual variables differ from ``w`` by the gradient. Of a free
        intercept the step counts that its own second derivative asks for.
        """
        is_free = self.penalty == 0.0
        change = self.A @ np.where(is_free, 0.0, gradient)
        curvature = max(float(2.0 * self.costs @ (pull != 0.0)), 1e-300)
        return float(max(np.abs(change).max(), np.abs(gradient[is_free]).sum() / curvature))

    def judge(self, w: FloatArray) -> "Point":
        """Return what Newton's method needs to know of some coefficients."""
        residuals = self.targets - self.A @ w
        pull = self.pull(residuals)
        gradient = self.gradient(w, pull)
        violation = self.violation(gradient, pull)
        return Point(w, residuals, pull, gradient, self.value(w, pull), violation)

    def improve(self, point: "Point") -> "Point | None":
        """Return the coefficients after a step; None if rounding errors allow no progress.

        Close to the optimum the objective is level to the last digit, while the violation still falls.
        """
        try:
            step = self.step(point.gradient, point.pull)
        except np.linalg.LinAlgError:
            return None
        length = self.search_line(point.w, point.residuals, step, self.A @ step)
        found = self.judge(point.w + length * step)
        is_better = found.value < point.value or found.violation < 0.5 * point.violation
        return found if is_better else None

    def step(self, gradient: FloatArray, pull: FloatArray) -> FloatArray:
        """Return Newton's step."""
        is_out = pull != 0.0
        weighted = self.A[is_out]
        weighted *= np.sqrt(2.0 * self.costs[is_out])[:, None]
        if len(weighted) < len(gradient):
            return _step_by_rows(weighted, gradient, self.penalty)
        hessian = weighted.T @ weighted
        hessian[np.diag_indices_from(hessian)] += self.penalty + RIDGE * np.trace(hessian)
        return np.asarray(-np.linalg.solve(hessian, gradient))

    def search_line(
        self, w: FloatArray, residuals: FloatArray, step: FloatArray, change: FloatArray
    ) -> float:
        """Return the length of least objective along a step, which changes the residuals by so much.

        The derivative is piecewise linear and never falls: Newton's method in one dimension, kept
        within the interval in which its zero must be.
        """
        begin, rise = float(self.penalty * w @ step), float(self.penalty * step @ step)
        low, high, length = 0.0, np.inf, 1.0
        first = abs(begin - float(self.pull(residuals) @ change))
        for _ in range(LINE_STEPS):
            pull = self.pull(residuals - length * change)
            slope = begin + length * rise - float(pull @ change)
            if abs(slope) <= LINE_ACCURACY * first:
                break
            low, high = (length, high) if slope < 0.0 else (low, length)
            curvature = rise + 2.0 * float(self.costs[pull != 0.0] @ change[pull != 0.0] ** 2)
            tried = length - slope / curvature if curvature > 0.0 else np.inf
            if not low < tried < high:
                tried = 0.5 * (low + high) if high < np.inf else 2.0 * length
            length = tried
        return length


class Point(NamedTuple):
    """Coefficients, and what follows from them.

    Attributes
    ----------
    w : ndarray of shape (m,)
        The coefficients.
    residuals : ndarray of shape (n,)
        Targets less the products of the rows with ``w``.
    pull : ndarray of shape (n,)
        Signed dual variables of the residuals.
    gradient : ndarray of shape (m,)
        Derivative of the objective.
    value : float
        The objective.
    violation : float
        How far the dual variables are from optimal.
    """

    w: FloatArray
    residuals: FloatArray
    pull: FloatArray
    gradient: FloatArray
    value: float
    violation: float


def _step_by_rows(weighted: FloatArray, gradient: FloatArray, penalty: FloatArray) -> FloatArray:
    """Return Newton's step from the products of rows with an error, if these are few.

    With the rows R of the coefficients that have a penalty, the inverse of ``I + R'R`` is
    ``I - R'(I + RR')^-1 R``.
    """
    is_free = penalty == 0.0
    R = weighted[:, ~is_free]
    products = R @ R.T
    products[np.diag_indices_from(products)] += 1.0 + RIDGE * np.trace(products)
    factor = cho_factor(products, lower=True, overwrite_a=True, check_finite=False)

    def invert(vector: FloatArray) -> FloatArray:
        return np.asarray(vector - R.T @ cho_solve(factor, R @ vector, check_finite=False))

    step = np.zeros_like(gradient)
    step[~is_free] = -invert(gradient[~is_free])
    for column in np.flatnonzero(is_free):
        c = weighted[:, column]
        solved = cho_solve(factor, c, check_finite=False)
        curvature = float(c @ solved)
        if curvature > 0.0:
            move = -(gradient[column] + c @ (R @ step[~is_free])) / curvature
            step[~is_free] -= move * (R.T @ solved)
            step[column] = move
    return step


def minimise(
    objective: Objective,
    w: FloatArray,
    settings: Descent,
    callback: Callable[[int, float], object] | None,
) -> tuple[Point, int, StopReason]:
    """Improve ``w`` by Newton's steps; returns where they end, their number and why they ended.

    They end when the optimality conditions of the dual are violated by no more than rounding errors,
    when these allow no progress, or after ``max_iter`` steps. The reason is ``CONVERGED`` if the
    violation is at most ``tol``.
    """
    point, number, reason = objective.judge(w), 0, StopReason.CONVERGED
    while point.violation > ROUNDING:
        if number == settings.max_iter:
            reason = StopReason.MAX_ITER
        elif is_late(settings.deadline):
            reason = StopReason.MAX_TIME
        elif (found := objective.improve(point)) is None:
            reason = StopReason.STALLED
        else:
            point, number = found, number + 1
            if callback is not None:
                callback(number, point.violation)
            continue
        break
    return point, number, StopReason.CONVERGED if point.violation <= settings.tol else reason


def count_patience(rows: Rows, n_problems: int, max_iter: int) -> Callable[[float], float]:
    """Return a function that says after how many passes Newton's method should take over.

    The function takes the mean number of support vectors of a class. It returns the number of passes
    that take as long as Newton's method, or infinity if that would cost too much. A descent that
    changes method after so many passes takes at most twice the time of the better method. At most half
    of ``max_iter`` are passes, since Newton's steps need the rest: then the change may come early.
    """
    n, m = len(rows.indptr) - 1, count_coefs(rows) + rows.n_extra
    one_pass = max(pass_time(rows, n_problems), 1.0)

    def count_passes(n_support: float) -> float:
        step = MULTIPLICATION * (4.0 * n * m + n_support * m * min(n_support, m))
        cost = USUAL_STEPS * step + MAKING * n * m / n_problems
        most = max_iter * max(MOST_COSTLY * one_pass, CHEAP)
        if cost > most or max_iter / 2 < LEAST_PASSES:
            return np.inf
        return max(LEAST_PASSES, min(cost / one_pass, max_iter / 2))

    return count_passes


def finish_classes(
    rows: Rows,
    problem: OneVsRestDual,
    result: LinearResult,
    settings: Descent,
    workers: Workers,
    *,
    is_free: bool,
    callback: Callable[[int, float], object] | None,
) -> LinearResult:
    """Return the optimum of the one-vs-rest problems that a descent has not solved.

    Minimise ``0.5 |w|^2 + sum_i C_i max(0, 1 - y_i (w'x_i + b))^2`` for every class. Parameters are
    those of `descend`, with ``result`` as what it has found, and ``is_free`` for an intercept b
    without penalty. The objective of a class is never higher than before. Small problems that are
    solved are solved again, to the precision of float64.
    """
    dense, costs = make_dense(rows), problem.costs()
    penalty, n_numbers = dense.penalty(is_free=is_free), len(dense.roots)
    coef, extra = result.coef.astype(np.float64), result.extra.astype(np.float64)
    alpha, n_iter, violation = result.alpha.copy(), result.n_iter.copy(), result.violation.copy()
    work = count_work(rows) * len(problem.positives)
    finishes = settings.count_finishing(int(n_iter.max()), work) > 0
    members = np.flatnonzero(violation > (ROUNDING if finishes else settings.tol))
    reasons = [StopReason.CONVERGED] * len(members)

    def solve(first: int, last: int) -> None:
        for number in range(first, last):
            k = members[number]
            y = np.where(problem.labels == problem.positives[k], 1.0, -1.0)
            objective = Objective(dense.A, y, costs, 0.0, penalty, is_one_sided=True)
            w = dense.start(coef[k], extra[k])
            left = replace(settings, max_iter=settings.max_iter - int(n_iter[k]))
            point, n_steps, reasons[number] = minimise(
                objective, w, left, count_on(callback, int(n_iter[k]))
            )
            n_iter[k] += n_steps
            alpha[:, k], violation[k] = y * point.pull, point.violation
            coef[k], extra[k] = dense.make_coef(rows, point.w), point.w[n_numbers:]

    workers.run(len(members), solve, grain=1)
    return LinearResult(coef, extra, alpha, n_iter, violation, worst_reason(reasons))


def count_on(
    callback: Callable[[int, float], object] | None, n_made: int
) -> Callable[[int, float], object] | None:
    """Return a callback for steps that follow so many passes."""
    if callback is None:
        return None
    return lambda number, violation: callback(n_made + number, violation)
