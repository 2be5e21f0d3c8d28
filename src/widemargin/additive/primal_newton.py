"""Newton's method for the primal problem of the intersection kernel (ICD Eq. 10)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from widemargin.additive import primal_newton_fast as fast
from widemargin.additive.coded_rows import FloatArray
from widemargin.additive.codes import Codes
from widemargin.additive.dual_descent import Descent, LinearResult
from widemargin.budget import StopReason
from widemargin.deadline import is_late

#: Steps of the conjugate gradient method for one Newton step, and the share of the residual at which
#: it ends: exact steps would not pay while the set of violated margins changes.
MAX_CG_STEPS, CG_ACCURACY = 100, 0.1
#: A step is shortened until it brings this share of what its slope promises.
SUFFICIENT = 0.01


@dataclass(frozen=True)
class UnaryRows:
    """Rows in the unary space, B(x) in the ICD paper, as operations on vectors of that space."""

    codes: Codes
    offsets: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Dimensions of the space."""
        return int(self.offsets[-1])

    def multiply(self, weights: FloatArray) -> FloatArray:
        """Multiply all rows with a vector (ICD Eq. 8)."""
        out = np.empty(len(self.codes))
        c, curves = self.codes, self.to_curves(weights)
        fast.look_up(c.values, c.gaps, not c.is_sparse, c.indptr, self.offsets, curves, out)
        return out

    def combine(self, factors: FloatArray) -> FloatArray:
        """Sum the rows, each times its factor."""
        out = np.empty(self.size)
        c = self.codes
        fast.combine_rows(c.values, c.gaps, not c.is_sparse, c.indptr, self.offsets, factors, out)
        return out

    def to_curves(self, weights: FloatArray) -> FloatArray:
        """Compute the running sums of a vector: the table T of ICD Eq. 9."""
        curves, levels = np.empty(self.size), np.arange(float(np.diff(self.offsets).max()))
        fast.to_curves(weights, self.offsets, levels, np.ones(self.codes.n_features), curves)
        return curves


def solve_primal(
    rows: UnaryRows, y: FloatArray, costs: FloatArray, settings: Descent
) -> LinearResult:
    """Solve the primal problem of the intersection kernel by truncated Newton steps.

    Minimise ``0.5 |w|^2 + sum_i costs_i max(0, 1 - y_i w'x_i)^2`` (ICD Eq. 10).

    Parameters
    ----------
    rows : UnaryRows
        The data.
    y : ndarray of shape (n,)
        Labels, 1 or -1.
    costs : ndarray of shape (n,)
        Cost of an error at each row.
    settings : Descent
        When to stop.

    Returns
    -------
    result : LinearResult
        The decision curves and the dual variables.

    Notes
    -----
    Stops when the norm of the gradient is at most ``0.01 tol`` times its norm at zero times the share
    of the rarer class, as LIBLINEAR does; after ``max_iter`` steps; at the deadline; or when no step
    lowers the objective. With ``settings.finish`` it continues from there while every step halves the
    gradient.

    References
    ----------
    ICD, Section 3.4, which solves the primal problem on the table T.
    """
    objective = _Objective(rows, y, costs)
    w, products = np.zeros(rows.size), np.zeros(len(y))
    reason, norm, target, n_steps = StopReason.MAX_ITER, np.inf, 0.0, 0
    for number in range(settings.max_iter):
        gradient = objective.gradient(w, products)
        before, norm = norm, float(np.linalg.norm(gradient))
        if number == 0:
            target = 0.01 * settings.tol * _rarer_share(y) * norm
        if norm <= target:
            reason = StopReason.CONVERGED
            has_stalled = before <= target and norm > 0.5 * before
            if not settings.finish or norm == 0.0 or has_stalled:
                break
        if is_late(settings.deadline):
            reason = StopReason.MAX_TIME if reason == StopReason.MAX_ITER else reason
            break
        size, step, change = objective.find_step(w, products, gradient, settings.deadline)
        if size == 0.0:  # No step lowers the objective in float64.
            reason = StopReason.CONVERGED
            break
        w += size * step
        products += size * change
        n_steps += 1
    return LinearResult(
        coef=rows.to_curves(w)[None, :], extra=np.empty((1, 0)),
        alpha=(2.0 * costs * objective.shortfall(products))[:, None],
        n_iter=np.array([n_steps]), violation=np.array([norm]), stop_reason=reason,
    )  # fmt: skip


@dataclass(frozen=True)
class _Objective:
    """The objective of `solve_primal`; ``products`` are the decision values ``w'x_i``."""

    rows: UnaryRows
    y: FloatArray
    costs: FloatArray

    def shortfall(self, products: FloatArray) -> FloatArray:
        """Return how far each row is inside its margin, or zero."""
        return np.maximum(1.0 - self.y * products, 0.0)

    def gradient(self, w: FloatArray, products: FloatArray) -> FloatArray:
        """Return the derivative by w."""
        return w - self.rows.combine(2.0 * self.costs * self.y * self.shortfall(products))

    def find_step(
        self, w: FloatArray, products: FloatArray, gradient: FloatArray, deadline: float | None
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the size of the next step, its direction, and how that changes the products."""
        # Second derivative of the loss of each row by its decision value.
        curvature = np.where(self.shortfall(products) > 0, 2.0 * self.costs, 0.0)
        step = _newton_step(self.rows, curvature, gradient, deadline)
        change = self.rows.multiply(step)
        return self._search_line(w, products, step, change, float(gradient @ step)), step, change

    def _search_line(
        self,
        w: FloatArray,
        products: FloatArray,
        step: FloatArray,
        change: FloatArray,
        slope: float,
    ) -> float:
        """Return the size of a step that lowers the objective enough; zero if there is none.

        ``change`` is what the whole step adds to the products, ``slope`` the derivative along it.
        """

        def loss(at: FloatArray) -> float:
            return float(self.costs @ np.square(self.shortfall(at)))

        before, along, squared = loss(products), float(w @ step), float(step @ step)
        size = 1.0
        while size > 1e-10:
            added = loss(products + size * change) - before + size * (along + 0.5 * size * squared)
            if added <= SUFFICIENT * size * slope:
                return size
            size *= 0.5
        return 0.0


def _rarer_share(y: FloatArray) -> float:
    """Return the share of the rarer class, at least that of one row."""
    n_positive = int(np.count_nonzero(y > 0))
    return max(min(n_positive, len(y) - n_positive), 1) / len(y)


def _newton_step(
    rows: UnaryRows, curvature: FloatArray, gradient: FloatArray, deadline: float | None
) -> FloatArray:
    """Solve ``(I + X' diag(curvature) X) step = -gradient`` roughly, by conjugate gradients.

    At the deadline the current step is returned; it is a direction of descent too.
    """
    step = np.zeros_like(gradient)
    residual = -gradient
    direction = residual.copy()
    squared = float(residual @ residual)
    goal = CG_ACCURACY**2 * squared
    for _ in range(MAX_CG_STEPS):
        if squared <= goal:
            break
        bent = direction + rows.combine(curvature * rows.multiply(direction))
        size = squared / float(direction @ bent)
        step += size * direction
        if is_late(deadline):
            break
        residual -= size * bent
        before, squared = squared, float(residual @ residual)
        direction = residual + (squared / before) * direction
    return step
