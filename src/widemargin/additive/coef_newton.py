"""Newton's method for SVMs with squared losses and few coefficients, or few rows with an error.

The primal objective is quadratic wherever the same rows have an error, so that Newton's method ends
after a few steps, for any C. Coordinate descent takes passes in proportion to C. The rows are written
out. For each number of a row with an error, a step costs the number of coefficients, or of rows with
an error if these are fewer.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from widemargin.additive import coded_rows_fast as fast
from widemargin.additive.coded_rows import (
    FloatArray,
    count_coefs,
    count_work,
    pass_time,
    weigh_bins,
)
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.codes import Codes
from widemargin.additive.dual_descent import Descent, LinearResult, OneVsRestDual
from widemargin.budget import StopReason, worst_reason
from widemargin.deadline import is_late
from widemargin.parallel import Workers

#: Most bytes of the rows written out.
MAX_BYTES = 2**28
#: Violation at which rounding errors end the method, in units of the targets.
ROUNDING = 1e-9
#: Most steps of a search along a line, and the share of the slope at which it ends.
LINE_STEPS, LINE_ACCURACY = 50, 1e-9
#: Newton's steps that are assumed when it is compared with coordinate descent, the nanoseconds of one
#: of its multiplications, and of writing out a number.
USUAL_STEPS, MULTIPLICATION, WRITING = 10.0, 0.07, 10.0
#: Fewest passes before Newton's method, and how many times ``max_iter`` passes it may cost.
LEAST_PASSES, MOST_COSTLY = 30, 3.0


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

    def step(self, gradient: FloatArray, pull: FloatArray) -> FloatArray:
        """Return Newton's step."""
        is_out = pull != 0.0
        weighted = self.A[is_out] * np.sqrt(2.0 * self.costs[is_out])[:, None]
        if len(weighted) < len(gradient):
            return _step_by_rows(weighted, gradient, self.penalty)
        hessian = weighted.T @ weighted
        hessian[np.diag_indices_from(hessian)] += self.penalty + 1e-14 * np.trace(hessian)
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


def _step_by_rows(weighted: FloatArray, gradient: FloatArray, penalty: FloatArray) -> FloatArray:
    """Return Newton's step from the products of rows with an error, if these are few.

    With the rows R of the coefficients that have a penalty, the inverse of ``I + R'R`` is
    ``I - R'(I + RR')^-1 R``.
    """
    is_free = penalty == 0.0
    R = weighted[:, ~is_free]
    products = R @ R.T
    products[np.diag_indices_from(products)] += 1.0
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
) -> tuple[int, float, StopReason]:
    """Change ``w`` by Newton's steps; returns their number, the violation and why they ended.

    They end when the optimality conditions of the dual are violated by no more than rounding errors,
    or after ``max_iter`` steps. The reason is ``CONVERGED`` if the violation is at most ``tol``.
    """
    residuals = objective.targets - objective.A @ w
    pull = objective.pull(residuals)
    value = objective.value(w, pull)
    reason = StopReason.MAX_ITER
    for number in range(settings.max_iter + 1):
        gradient = objective.gradient(w, pull)
        violation = objective.violation(gradient, pull)
        if callback is not None and number > 0:
            callback(number, violation)
        if violation <= ROUNDING or number == settings.max_iter:
            break
        if is_late(settings.deadline):
            reason = StopReason.MAX_TIME
            break
        step = objective.step(gradient, pull)
        change = objective.A @ step
        length = objective.search_line(w, residuals, step, change)
        tried, left = w + length * step, residuals - length * change
        found = objective.value(tried, objective.pull(left))
        if not found < value:
            break
        w[:], residuals, value = tried, left, found
        pull = objective.pull(residuals)
    is_optimal = violation <= settings.tol
    return number, violation, StopReason.CONVERGED if is_optimal else reason


class WrittenRows(NamedTuple):
    """Rows written out.

    Attributes
    ----------
    A : ndarray of shape (n, m)
        The numbers of all rows; their products are the kernel. The extra number is the last.
    roots : ndarray of shape (m - n_extra,)
        Roots of factors on the kernel, by which the numbers are multiplied.
    bins : ndarray of shape (2, m - n_extra)
        Of rows of bins, the bin of each number, and the bin below it among the codes that occur: a
        coefficient times its root is the rise of a curve between the two. Empty for other rows, whose
        coefficients are those of the numbers times their roots.
    """

    A: FloatArray
    roots: FloatArray
    bins: NDArray[np.int64]

    def penalty(self, *, is_free: bool) -> FloatArray:
        """Return one for every coefficient, but zero for an intercept without penalty."""
        penalty = np.ones(self.A.shape[1])
        if is_free:
            penalty[-1] = 0.0
        return penalty

    def start(self, coef: NDArray[Any], extra: NDArray[Any]) -> FloatArray:
        """Return the coefficients of the numbers from the coefficients of the rows."""
        rises = coef[self.bins[0]] - coef[self.bins[1]] if self.bins.size else coef
        w = np.divide(rises, self.roots, out=np.zeros(len(self.roots)), where=self.roots > 0.0)
        return np.concatenate([w, extra])


def can_write_out(rows: Rows) -> bool:
    """Return whether the numbers of all rows can be written out, and fit into memory."""
    kinds = (fast.DENSE, fast.SPARSE, fast.BINS, fast.PLAIN, fast.LISTS)
    if rows.kind not in kinds or not rows.is_symmetric or rows.n_extra > 1:
        return False
    return 8 * count_coefs(rows) * (len(rows.indptr) - 1) <= MAX_BYTES


def write_out(rows: Rows) -> WrittenRows:
    """Write out the numbers of all rows."""
    n, bins = len(rows.indptr) - 1, np.empty((2, 0), np.int64)
    if rows.kind == fast.BINS:
        numbers, roots, bins = _write_bins(rows)
    elif rows.kind == fast.LISTS:
        stored = (rows.plain_read.astype(np.float64), rows.columns, rows.indptr)
        numbers = sparse.csr_matrix(stored, (n, rows.n_features)).toarray()
        roots = np.ones(rows.n_features)
    else:
        is_plain = rows.kind == fast.PLAIN
        numbers = rows.plain_read.reshape(n, -1) if is_plain else _write_tables(rows)
        roots = np.sqrt(rows.scale.astype(np.float64))
    extra = rows.extra_read.reshape(n, -1).astype(np.float64)
    return WrittenRows(np.hstack([numbers * roots, extra]), roots, bins)


def _write_tables(rows: Rows) -> FloatArray:
    """Return the numbers that a table has for the codes of all rows."""
    codes = Codes(rows.codes, rows.gaps, rows.indptr, rows.n_features)
    table = rows.read.reshape(-1, rows.rank).astype(np.float64)
    if not codes.is_sparse:
        return table[codes.values.reshape(codes.shape)].reshape(len(codes), -1)
    columns = [codes.to_csr(table[:, t]).toarray() for t in range(rows.rank)]
    return np.stack(columns, axis=2).reshape(len(codes), -1)


def _write_bins(rows: Rows) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Return numbers whose products are the intersection kernel, their roots and their bins.

    There is a number for each code that occurs: one in the rows that reach this code, times the root
    of the distance to the code below.
    """
    codes = Codes(rows.codes, rows.gaps, rows.indptr, rows.n_features)
    levels = rows.read.astype(np.float64)
    columns = codes.to_csr(np.arange(len(levels))).toarray().T
    numbers, roots = [np.empty((len(codes), 0))], [np.empty(0)]
    bins = [np.empty((2, 0), np.int64)]
    for j, column in enumerate(columns):
        reached = np.unique(column[column > 0])
        below = np.concatenate([[0], reached])[:-1]
        numbers.append(column[:, None] >= reached)
        roots.append(np.sqrt(rows.scale[j] * (levels[reached] - levels[below])))
        bins.append(rows.offsets[j] + np.array([reached, below], np.int64))
    return np.hstack(numbers), np.concatenate(roots), np.hstack(bins)


def count_patience(rows: Rows, n_problems: int, max_iter: int) -> Callable[[float], float]:
    """Return a function from the support vectors of a class to the passes that Newton's method costs.

    Who changes to Newton's method after so many passes takes at most twice the time of the better one.
    At least half of ``max_iter`` is left for its steps.
    """
    n, m = len(rows.indptr) - 1, count_coefs(rows) + rows.n_extra
    one_pass = max(pass_time(rows, n_problems), 1.0)

    def count_passes(n_support: float) -> float:
        step = MULTIPLICATION * (4.0 * n * m + n_support * m * min(n_support, m))
        passes = (USUAL_STEPS * step + WRITING * n * m / n_problems) / one_pass
        if min(LEAST_PASSES, passes / MOST_COSTLY) > max_iter / 2:
            return np.inf
        return max(LEAST_PASSES, min(passes, max_iter / 2))

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
    without penalty. A class that is not solved keeps what the descent has found. Small problems that
    are solved are solved again, to the precision of float64.
    """
    written, costs = write_out(rows), problem.costs()
    penalty = written.penalty(is_free=is_free)
    coef, extra, alpha = result.coef.copy(), result.extra.astype(np.float64), result.alpha.copy()
    n_iter, violation = result.n_iter.copy(), result.violation.copy()
    work = count_work(rows) * len(problem.positives)
    finishes = settings.count_finishing(int(n_iter.max()), work) > 0
    members = np.flatnonzero(violation > (ROUNDING if finishes else settings.tol))
    reasons = [StopReason.CONVERGED] * len(members)

    def solve(first: int, last: int) -> None:
        for number in range(first, last):
            k = members[number]
            y = np.where(problem.labels == problem.positives[k], 1.0, -1.0)
            objective = Objective(written.A, y, costs, 0.0, penalty, is_one_sided=True)
            w = written.start(coef[k], extra[k])
            left = replace(settings, max_iter=settings.max_iter - int(n_iter[k]))
            show = count_on(callback, int(n_iter[k]))
            n_steps, reached, reasons[number] = minimise(objective, w, left, show)
            n_iter[k] += n_steps
            if reasons[number] is StopReason.CONVERGED:
                signed = objective.pull(y - written.A @ w)
                alpha[:, k], violation[k] = y * signed, reached
                coef[k], extra[k] = coefs_of(rows, written, w, signed), w[len(written.roots) :]

    workers.run(len(members), solve, grain=1)
    return LinearResult(coef, extra, alpha, n_iter, violation, worst_reason(reasons))


def count_on(
    callback: Callable[[int, float], object] | None, n_made: int
) -> Callable[[int, float], object] | None:
    """Return a callback for steps that follow so many passes."""
    if callback is None:
        return None
    return lambda number, violation: callback(n_made + number, violation)


def coefs_of(rows: Rows, written: WrittenRows, w: FloatArray, signed: FloatArray) -> NDArray[Any]:
    """Return the coefficients of rows from those of their written numbers and the dual variables."""
    if rows.kind == fast.BINS:
        return weigh_bins(rows, signed[:, None])[0]
    return w[: len(written.roots)] * written.roots
