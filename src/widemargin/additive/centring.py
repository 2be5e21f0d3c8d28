"""Rows less their mean: what makes an intercept without penalty cheap.

A free intercept asks for ``sum(y a) = 0``. Under this condition decisions do not change if the same
vector is subtracted from all rows. Coordinate descent needs passes in proportion to the diagonal of
the kernel matrix, and the diagonal is smallest if this vector is the mean. Coefficients are kept as
they are without centring. The constant of the intercept and one more extra number of every row hold
the difference:

    (r_i - r)'(sum_j d_j (w_j - w)) = r_i'W - sum_j d_j r'w_j - (sum_j d_j) (r_i'w - r'w),

where row i is read as ``r_i`` and added as ``w_i``, ``r`` and ``w`` are means, and W is the sum of
``d_j w_j``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import (
    FloatArray,
    Rows,
    combine_coded,
    count_coefs,
    decide,
    float_type,
)
from widemargin.additive.dual_descent import (
    Descent,
    LinearResult,
    OneVsRestDual,
    WarmStart,
    descend,
)
from widemargin.additive.multipliers import SlowCoefficient
from widemargin.budget import StopReason
from widemargin.parallel import Workers

#: Most rows whose mean is subtracted: any vector near the mean will do.
MEAN_ROWS = 1000
#: What an update writes for the intercept, in units of the mean of the centred diagonal.
INTERCEPT_STEP = 0.1
#: The least that an update writes for the intercept, in units of the inverse sum of the costs: a pass
#: moves the intercept by some margins if all dual variables of one sign are at their bounds. With a
#: small C the other step would move it by so little that it would seem to have converged.
BOUND_STEP = 4.0
#: Mean of the centred diagonal below which rows are alike, in rounding errors of the mean's square.
FLAT = 64.0
#: Least centred diagonal, in units of its mean. The tables of PmSVM are approximate, and a smaller
#: diagonal would make steps too long.
LEAST_NORM = 0.05
#: Ratio of the largest cost of a row to the smallest beyond which the intercept is found by a search.
#: Updates change it in proportion to dual variables, which are tiny for rows of tiny cost.
WIDE_COSTS = 1e3
#: Steps of that search, each of which halves an interval.
HALVINGS = 60


class CentredRows(NamedTuple):
    """Rows less their mean, and what turns their coefficients into those of the rows themselves.

    Attributes
    ----------
    rows : Rows
        Rows whose last two extra numbers belong to the mean and the intercept.
    norms : ndarray of shape (n,)
        Diagonal of the centred kernel matrix, with the share of the constant.
    step : float
        What an update writes for the intercept, beside the share of the mean.
    is_flat : bool
        Whether the rows differ by rounding errors alone.
    mean : ndarray of shape (n_coefs,)
        Coefficients of the mean row.
    mean_extra : ndarray of shape (n_extra - 1,)
        Its extra numbers, without the constant.
    square : float
        Kernel of the mean row with itself.
    """

    rows: Rows
    norms: FloatArray
    step: float
    is_flat: bool
    mean: NDArray[Any]
    mean_extra: NDArray[Any]
    square: float

    def finish(self, result: LinearResult) -> LinearResult:
        """Return the solution in terms of the rows as they were before centring."""
        extra = result.extra.astype(np.float64)
        total = extra[:, -2:-1]
        kept = extra[:, :-2] - total * self.mean_extra
        intercept = extra[:, -1:] + total * self.square
        return replace(
            result,
            coef=result.coef - (total * self.mean).astype(result.coef.dtype),
            extra=np.hstack([kept, intercept]),
        )

    def shift_start(self, start: WarmStart | None, problem: OneVsRestDual) -> WarmStart | None:
        """Return the solution to start from with the intercept that it has beside centred rows."""
        if start is None:
            return None
        signed = problem.sign(np.minimum(start.alpha, problem.upper[:, None]))
        intercept = start.extra[:, -1] - signed.sum(axis=0) * self.square
        return WarmStart(start.alpha, intercept[:, None])


def descend_centred(
    rows: Rows,
    problem: OneVsRestDual,
    settings: Descent,
    workers: Workers,
    start: WarmStart | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> LinearResult:
    """Solve the dual of every one-vs-rest problem with an intercept without penalty.

    Minimise ``0.5 a'(Q + diag(ridge))a - sum(a)`` subject to ``0 <= a <= upper`` and ``sum(y a) = 0``.
    The last extra number of the rows must be one. Parameters and result are those of `descend`. The
    norms of the problem are changed in place.
    """
    costs = problem.costs()
    centred = centre_rows(rows, problem.norms, costs, settings.seed, workers)
    if centred.is_flat:
        flat = solve_flat(rows, len(problem.positives))
        return search_intercepts(rows, problem, costs, flat, workers)
    slow = SlowCoefficient(centred.step, 1.0, is_free=True)
    free = replace(problem, norms=centred.norms, slow=slow)
    begin = centred.shift_start(start, problem)
    result = centred.finish(descend(centred.rows, free, settings, workers, begin, callback))
    if costs.max() <= WIDE_COSTS * costs.min():
        return result
    return search_intercepts(rows, problem, costs, result, workers)


def solve_flat(rows: Rows, n_problems: int) -> LinearResult:
    """Return the solution on rows that are alike, whose intercept is still to be found.

    Only the intercept matters there, and all else is zero. A descent would divide by rounding errors.
    """
    n, kind = len(rows.indptr) - 1, float_type(rows)
    return LinearResult(
        coef=np.zeros((n_problems, count_coefs(rows)), kind),
        extra=np.zeros((n_problems, rows.n_extra), kind),
        alpha=np.zeros((n, n_problems)),
        n_iter=np.zeros(n_problems, np.int64),
        violation=np.zeros(n_problems),
        stop_reason=StopReason.CONVERGED,
    )


def search_intercepts(
    rows: Rows, problem: OneVsRestDual, costs: FloatArray, result: LinearResult, workers: Workers
) -> LinearResult:
    """Return the solution with the intercepts of least loss for its other coefficients.

    The derivative of ``sum_i C_i max(0, 1 - y_i (f_i + b))^q`` by b, with q = 1 or 2, never falls, so
    halving an interval finds its zero. A model with this intercept has no higher primal objective.
    """
    extra = result.extra.astype(np.float64)
    decisions = decide(rows, result.coef, extra.astype(result.extra.dtype), workers)
    y = problem.sign(np.ones(decisions.shape))
    edges = y - decisions
    low, high = edges.min(axis=0), edges.max(axis=0)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        # The slack of a row is positive where the margin is violated.
        slack = np.maximum(y * (edges - middle), 0.0)
        pull = (costs[:, None] * y * (slack if problem.is_squared else slack > 0.0)).sum(axis=0)
        low, high = np.where(pull > 0.0, middle, low), np.where(pull > 0.0, high, middle)
    extra[:, -1] += 0.5 * (low + high)
    return replace(result, extra=extra)


def centre_rows(
    rows: Rows, norms: FloatArray, costs: FloatArray, seed: int, workers: Workers
) -> CentredRows:
    """Centre rows whose last extra number is a constant, which makes the intercept.

    The norms are changed in place. ``costs`` are the costs of an error of every row.
    """
    chosen = np.random.default_rng(seed).permutation(len(norms))[:MEAN_ROWS]
    alone = _without_constant(rows)
    mean, mean_extra = mean_row(alone, chosen)
    read = multiply(alone, mean, mean_extra, workers)
    # The products of the mean as it is read with the rows as they are added.
    written = read
    if not rows.is_symmetric:
        swapped = _swap(alone)
        written = multiply(swapped, *mean_row(swapped, chosen), workers)
    square = float(read[chosen].mean())
    # In place: with many rows, memory is short at this moment.
    norms -= read
    norms -= written
    norms += square - 1.0
    # The diagonal of PmSVM's approximate kernel can be negative.
    unit = float(np.abs(norms).mean())
    step = max(INTERCEPT_STEP * unit, BOUND_STEP / float(costs.sum()))
    np.maximum(norms, LEAST_NORM * unit, out=norms)
    norms += step
    new = rows._replace(
        n_extra=rows.n_extra + 1,
        extra_read=extend_extra(rows, rows.extra_read, rows.n_extra - 1, (square - read, 1.0)),
        extra_write=extend_extra(rows, rows.extra_write, rows.n_extra - 1, (1.0, step - written)),
    )
    is_flat = unit <= FLAT * np.finfo(float_type(rows)).eps * abs(square)
    return CentredRows(new, norms, step, is_flat, mean, mean_extra[:-1], square)


def extend_extra(
    rows: Rows, extra: NDArray[Any], n_kept: int, last: tuple[Any, ...]
) -> NDArray[Any]:
    """Return the first extra numbers of every row, so many of them, and some more."""
    n = len(rows.indptr) - 1
    out = np.empty((n, n_kept + len(last)), extra.dtype)
    out[:, :n_kept] = extra.reshape(n, -1)[:, :n_kept]
    for column, numbers in enumerate(last, start=n_kept):
        out[:, column] = numbers
    return out.ravel()


def _swap(rows: Rows) -> Rows:
    """Return rows that are read as they were added, and added as they were read."""
    return rows._replace(
        read=rows.write, write=rows.read, plain_read=rows.plain_write,
        plain_write=rows.plain_read, extra_read=rows.extra_write, extra_write=rows.extra_read,
    )  # fmt: skip


def multiply(rows: Rows, coef: NDArray[Any], extra: NDArray[Any], workers: Workers) -> FloatArray:
    """Return the products of all rows with one row of coefficients."""
    return decide(rows, coef[None], extra[None], workers)[:, 0]


def _without_constant(rows: Rows) -> Rows:
    """Return the rows with zero in place of the constant."""
    return rows._replace(
        extra_read=extend_extra(rows, rows.extra_read, rows.n_extra - 1, (0.0,)),
        extra_write=extend_extra(rows, rows.extra_write, rows.n_extra - 1, (0.0,)),
    )


def mean_row(rows: Rows, chosen: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the coefficients and extra coefficients of the mean of some rows."""
    kind = float_type(rows)
    share = np.zeros((len(rows.indptr) - 1, 1))
    share[chosen] = 1.0 / len(chosen)
    label = np.zeros(len(share), np.int64)
    coef, extra = combine_coded(rows, label, label[:1], share)
    return coef[0].astype(kind), extra[0].astype(kind)
