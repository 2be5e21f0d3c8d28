"""Rows without the direction of their mean: what makes descent fast without a free intercept.

Rows of features that are not negative have a large mean. It is the direction of by far the largest
eigenvalue of the kernel matrix, and coordinate descent needs passes in proportion to the diagonal,
most of which is due to this direction. With a free intercept the mean is subtracted, see `centring`.
Otherwise the penalty of the mean's direction matters, so the rows are split: with the unit vector e
of the mean and ``t_i = r_i'e``,

    k(r_i, r_j) = (r_i - t_i e)'(r_j - t_j e) + t_i t_j.

Coordinate descent works on the first part. The coefficient c of e, which the second part multiplies
with ``t_i``, changes slowly; see `multipliers`. Coefficients W are kept as they are for whole
rows: the two last extra numbers of a row subtract ``t_i e'W`` and add ``t_i c``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.centring import (
    BOUND_STEP,
    FLAT,
    INTERCEPT_STEP,
    LEAST_NORM,
    MEAN_ROWS,
    extend_extra,
    mean_row,
    multiply,
)
from widemargin.additive.coded_rows import FloatArray, Rows, float_type
from widemargin.additive.dual_descent import (
    Descent,
    LinearResult,
    OneVsRestDual,
    WarmStart,
    descend,
)
from widemargin.additive.multipliers import SlowCoefficient
from widemargin.parallel import Workers

#: The direction is left in the rows if it has a smaller share of the diagonal than this.
LEAST_SHARE = 0.25


class SplitRows(NamedTuple):
    """Rows without the direction of their mean.

    Attributes
    ----------
    rows : Rows
        Rows whose last two extra numbers belong to this direction.
    norms : ndarray of shape (n,)
        Diagonal of their kernel matrix, with the share of the slow coefficient.
    slow : SlowCoefficient
        The coefficient of the direction.
    along : ndarray of shape (n,)
        ``t_i``.
    direction : ndarray of shape (n_coefs,)
        Coefficients of e.
    direction_extra : ndarray of shape (n_extra,)
        Its extra numbers.
    """

    rows: Rows
    norms: FloatArray
    slow: SlowCoefficient
    along: FloatArray
    direction: NDArray[Any]
    direction_extra: NDArray[Any]

    def finish(self, result: LinearResult) -> LinearResult:
        """Return the solution in terms of whole rows."""
        extra = result.extra.astype(np.float64)
        gain = extra[:, -1:] - extra[:, -2:-1]
        return replace(
            result,
            coef=result.coef + (gain * self.direction).astype(result.coef.dtype),
            extra=extra[:, :-2] + gain * self.direction_extra,
        )

    def make_start(self, start: WarmStart | None, problem: OneVsRestDual) -> WarmStart | None:
        """Return the solution to start from with the coefficient of the direction."""
        if start is None:
            return None
        signed = problem.sign(np.minimum(start.alpha, problem.upper[:, None]))
        return WarmStart(start.alpha, (self.along @ signed)[:, None])


def descend_split(
    rows: Rows,
    problem: OneVsRestDual,
    settings: Descent,
    workers: Workers,
    start: WarmStart | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> LinearResult:
    """Solve the dual of every one-vs-rest problem, the coefficient of the mean's direction apart.

    It is updated between passes. Parameters and result are those of `descend`, which solves the
    problem itself if the direction has a small share of the diagonal, or if the kernel is approximated
    by products that are not symmetric (PmSVM).
    """
    split = split_rows(rows, problem, settings.seed, workers) if rows.is_symmetric else None
    if split is None:
        return descend(rows, problem, settings, workers, start, callback)
    apart = replace(problem, norms=split.norms, slow=split.slow)
    begin = split.make_start(start, problem)
    return split.finish(descend(split.rows, apart, settings, workers, begin, callback))


def split_rows(rows: Rows, problem: OneVsRestDual, seed: int, workers: Workers) -> SplitRows | None:
    """Return the rows without the direction of their mean.

    None if this direction has less than a quarter of the diagonal, or nearly all of it.
    """
    chosen = np.random.default_rng(seed).permutation(len(problem.norms))[:MEAN_ROWS]
    mean, mean_extra = mean_row(rows, chosen)
    products = multiply(rows, mean, mean_extra, workers)
    square = float(products[chosen].mean())
    if square <= 0.0:
        return None
    length = square**0.5
    along = products / length
    rest = problem.norms - along**2
    large, unit = float(np.mean(along**2)), float(np.abs(rest).mean())
    is_flat = unit <= FLAT * np.finfo(float_type(rows)).eps * large
    if is_flat or large < LEAST_SHARE * (large + unit):
        return None
    least = BOUND_STEP / float(problem.costs().sum())
    step = min(1.0, max(INTERCEPT_STEP * unit, least) / large)
    slow = SlowCoefficient(step, float(np.abs(along).mean()), is_free=False)
    new = rows._replace(
        n_extra=rows.n_extra + 2,
        extra_read=extend_extra(rows, rows.extra_read, rows.n_extra, (-along, along)),
        extra_write=extend_extra(rows, rows.extra_write, rows.n_extra, (along, step * along)),
    )
    norms = np.maximum(rest, LEAST_NORM * unit) + step * along**2
    return SplitRows(new, norms, slow, along, mean / length, mean_extra / length)
