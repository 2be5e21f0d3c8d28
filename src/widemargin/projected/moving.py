"""Optimisation of the positions of basis vectors, beyond PSVM.

PSVM chooses basis vectors among the training rows. A vector that may be any point can replace several
rows, as in M. Wu, B. Schoelkopf, G. Bakir, "A direct method for building sparse kernel learning
algorithms" (2006). This module minimises J over the positions by L-BFGS. For each position the
machines are at their optimum, so the derivative of J by the positions is the partial derivative with
fixed coefficients.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from widemargin.budget import StopReason
from widemargin.deadline import OutOfTimeError
from widemargin.kernels import RBF, Kernel, Linear, Poly
from widemargin.projected.basis import Columns, FloatArray
from widemargin.projected.machine import Machine

#: L-BFGS stops at a step that lowers J by less than this share of the tolerance. One small step does
#: not mean that J is at its minimum: L-BFGS starts again from there, until a run lowers J by less than
#: the tolerance.
STEP_SHARE = 0.1


def can_move(kernel: Kernel) -> bool:
    """Whether vectors can move: the kernel must be a smooth function of scalar products."""
    return isinstance(kernel, RBF | Linear) or (isinstance(kernel, Poly) and kernel.degree > 0)


def slope_of(kernel: Kernel) -> tuple[Kernel, float]:
    """Return the derivative of a kernel by the scalar product ``x'z``, as a kernel and a factor."""
    if isinstance(kernel, RBF):
        return kernel, 2.0 * kernel.gamma
    if isinstance(kernel, Poly):
        degree, coef0 = kernel.degree, kernel.coef0
        return Poly(kernel.gamma, degree - 1, coef0), kernel.gamma * degree
    return Poly(1.0, 0), 1.0


@dataclass(frozen=True)
class Moved:
    """Result of `move_basis`.

    Attributes
    ----------
    vectors : ndarray of shape (n_basis, n_features)
        The basis vectors.
    n_steps : int
        Number of L-BFGS steps.
    stop_reason : StopReason
        ``"converged"``, ``"max_iter"`` or ``"max_time"``.
    """

    vectors: FloatArray
    n_steps: int
    stop_reason: StopReason


def move_basis(
    columns: Columns,
    machines: list[Machine],
    *,
    tol: float,
    max_steps: int,
    show: Callable[[FloatArray], object] | None = None,
    keep: Callable[[FloatArray], object] | None = None,
) -> Moved:
    """Move the basis vectors of some machines to a local minimum of the sum of their J.

    Minimises J over the positions without constraints. Returns a `Moved`. Stops when a run of L-BFGS
    lowers J by less than ``tol``, after ``max_steps`` steps, or at the deadline of the rows.

    Parameters
    ----------
    columns : Columns
        The basis; it changes.
    machines : list of Machine
        The machines on it. In the end they are at their optimum for the vectors returned, unless the
        deadline of the rows has passed.
    tol : float
        Relative decrease of J below which the search stops.
    max_steps : int
        Maximum number of steps.
    show : callable, optional
        Called with the best vectors so far after every step.
    keep : callable, optional
        Called with the vectors whenever they are the best so far, with the machines at their optimum.
    """
    descent = _Descent(columns, machines, show, keep)
    before, reason = np.inf, StopReason.CONVERGED
    try:
        # Not `objective < (1 - tol) * before`: J is negative with some kernels that are not positive
        # semidefinite, and then that is true without any progress.
        while reason == StopReason.CONVERGED and before - descent.objective > tol * abs(
            descent.objective
        ):
            before, left = descent.objective, max_steps - descent.n_steps
            found = minimize(
                descent.evaluate, descent.best.ravel(), jac=True, method="L-BFGS-B",
                callback=descent.count_step,
                options={
                    "maxiter": left, "maxfun": 10 * left, "ftol": STEP_SHARE * tol, "gtol": 0.0,
                },
            )  # fmt: skip
            reason = StopReason.MAX_ITER if found.status == 1 else StopReason.CONVERGED
        _put(descent.best, columns, machines)
    except OutOfTimeError:
        reason = StopReason.MAX_TIME
    return Moved(descent.best, descent.n_steps, reason)


class _Descent:
    """J as a function of the positions, with the best vectors so far.

    The parameters are those of `move_basis`.
    """

    def __init__(
        self,
        columns: Columns,
        machines: list[Machine],
        show: Callable[[FloatArray], object] | None,
        keep: Callable[[FloatArray], object] | None,
    ) -> None:
        self.columns, self.machines = columns, machines
        self.show, self.keep = show, keep
        self.best = columns.basis_vectors()
        self.objective = self._sum_objectives()
        self.n_steps = 0

    def evaluate(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Return J at some positions and its derivative by them."""
        self.columns.data.require_time()
        vectors = flat.reshape(self.best.shape)
        _put(vectors, self.columns, self.machines)
        objective = self._sum_objectives()
        if objective < self.objective:
            self.best, self.objective = vectors.copy(), objective
            if self.keep is not None:
                self.keep(self.best)
        return objective, _gradient(vectors, self.columns, self.machines).ravel()

    def count_step(self, _: Any) -> None:
        """Count a step of L-BFGS."""
        self.n_steps += 1
        if self.show is not None:
            self.show(self.best)

    def _sum_objectives(self) -> float:
        return sum(machine.solution.objective for machine in self.machines)


def _put(vectors: FloatArray, columns: Columns, machines: list[Machine]) -> None:
    columns.move(vectors)
    for machine in machines:
        machine.renew()


def _gradient(vectors: FloatArray, columns: Columns, machines: list[Machine]) -> FloatArray:
    """Return the derivative of the sum of the objectives by the vectors.

    With s the derivative of the kernel by the scalar product, k(x, z) has the derivative ``s x`` by z;
    the rbf kernel has ``s (x - z)``.
    """
    kernel = columns.data.kernel
    slope, factor = slope_of(kernel)
    W = np.array([machine.solution.u[1:] for machine in machines])
    pulls = np.array([-2.0 * m.cost * m.y * np.maximum(m.solution.errors, 0.0) for m in machines])
    # The penalty contains each pair of vectors twice.
    inner = 2.0 * factor * (W.T @ W) * slope.exact(vectors, vectors)
    gradient, weights = inner @ vectors, inner.sum(axis=1)
    used = np.flatnonzero(pulls.any(axis=0))
    for part in columns.split(len(used)):
        columns.data.require_time()
        rows = used[part]
        outer = factor * (pulls[:, rows].T @ W) * columns.slopes(slope, rows)
        gradient += np.asarray(outer.T @ columns.data.X[rows])
        weights += outer.sum(axis=0)
    return gradient - weights[:, None] * vectors if isinstance(kernel, RBF) else gradient
