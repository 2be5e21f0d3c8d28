"""Basis vectors that move: not training rows any more, but points where J is lower.

PSVM chooses among the training rows. A vector that may be any point does the work of several: the
idea is that of Wu, Schoelkopf and Bakir, "A direct method for building sparse kernel learning
algorithms" (2006). Here J is minimised over the vectors alone (L-BFGS): for each position the machines
are at their optimum, so the derivative of J is that of its kernel values, with everything else held.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from widemargin.deadline import OutOfTimeError
from widemargin.kernels import RBF, Kernel, Linear, Poly
from widemargin.projected.basis import Columns, FloatArray
from widemargin.projected.machine import Machine

#: Share of the tolerance that a step must lower J by. A single small step does not mean that there is
#: nowhere to go: the search begins anew where it ended, as long as that lowers J by the tolerance.
STEP_SHARE = 0.01


def can_move(kernel: Kernel) -> bool:
    """Whether basis vectors can move: the kernel is a smooth function of scalar products."""
    return isinstance(kernel, RBF | Linear) or (isinstance(kernel, Poly) and kernel.degree > 0)


def slope_of(kernel: Kernel) -> tuple[Kernel, float]:
    """The derivative of a kernel by the scalar product ``x'z``: another kernel times a number."""
    if isinstance(kernel, RBF):
        return kernel, 2.0 * kernel.gamma
    if isinstance(kernel, Poly):
        degree, coef0 = kernel.degree, kernel.coef0
        return Poly(kernel.gamma, degree - 1, coef0), kernel.gamma * degree
    return Poly(1.0, 0), 1.0


@dataclass(frozen=True)
class Moved:
    """Where basis vectors have moved.

    Attributes
    ----------
    vectors : ndarray of shape (n_basis, n_features)
        The basis vectors.
    n_steps : int
        Steps made.
    stop_reason : str
        ``"converged"``, ``"max_iter"`` or ``"max_time"``.
    """

    vectors: FloatArray
    n_steps: int
    stop_reason: str


def move_basis(
    columns: Columns,
    machines: list[Machine],
    *,
    tol: float,
    max_steps: int,
    show: Callable[[FloatArray], object] | None = None,
    keep: Callable[[FloatArray], object] | None = None,
) -> Moved:
    """Move the basis vectors of some machines to where the sum of their J is lowest nearby.

    Parameters
    ----------
    columns : Columns
        The basis, which moves.
    machines : list of Machine
        The machines on it, which end at their optimum for the vectors returned, unless the deadline
        of the rows has passed.
    tol : float
        Least share by which J must fall for the search to go on.
    max_steps : int
        Most steps.
    show : callable, optional
        Called with the vectors after every step.
    keep : callable, optional
        Called with the vectors when they are the best so far and the machines at their optimum.
    """
    start = columns.basis_vectors()
    best, best_value = start, sum(machine.solution.objective for machine in machines)

    def value(flat: FloatArray) -> tuple[float, FloatArray]:
        nonlocal best, best_value
        columns.data.require_time()
        vectors = flat.reshape(start.shape)
        _put(vectors, columns, machines)
        objective = sum(machine.solution.objective for machine in machines)
        if objective < best_value:
            best, best_value = vectors.copy(), objective
            if keep is not None:
                keep(best)
        return objective, _gradient(vectors, columns, machines).ravel()

    n_steps, reason = 0, "converged"

    def count(_: Any) -> None:
        nonlocal n_steps
        n_steps += 1
        if show is not None:
            show(best)

    before = np.inf
    try:
        while reason == "converged" and best_value < (1.0 - tol) * before:
            before, left = best_value, max_steps - n_steps
            found = minimize(
                value, best.ravel(), jac=True, method="L-BFGS-B", callback=count,
                options={
                    "maxiter": left, "maxfun": 10 * left, "ftol": STEP_SHARE * tol, "gtol": 0.0,
                },
            )  # fmt: skip
            reason = "max_iter" if found.status == 1 else "converged"
        _put(best, columns, machines)
    except OutOfTimeError:
        reason = "max_time"
    return Moved(best, n_steps, reason)


def _put(vectors: FloatArray, columns: Columns, machines: list[Machine]) -> None:
    columns.move(vectors)
    for machine in machines:
        machine.renew()


def _gradient(vectors: FloatArray, columns: Columns, machines: list[Machine]) -> FloatArray:
    """Derivative of the sum of the objectives by the vectors, by all their kernel values.

    A kernel k(x, z) with the slope s has the derivative ``s x`` by z, a radial one ``s (x - z)``.
    """
    kernel = columns.data.kernel
    slope, factor = slope_of(kernel)
    W = np.array([machine.solution.u[1:] for machine in machines])
    pulls = np.array([-2.0 * m.cost * m.y * np.maximum(m.solution.errors, 0.0) for m in machines])
    # Among the vectors each pair meets twice.
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
