"""Sparse machines: SVMs on a few basis vectors that change (PSVM).

A machine minimises ``J(w, b) = w' K_B w + sum_k c_k max(0, e_k)^2`` with the errors
``e_k = 1 - y_k (K(x_k, X_B) w + b)`` (Eq. 9 of Peng, Rafferty and Ferguson). Rows with positive
errors are its support vectors. For a fixed set of these J is quadratic, with the Hessian (halved)

    M = [sum c,  c' K_S; K_S' c,  K_B + K_S' diag(c) K_S],

the paper's H of Eq. 15 bordered by the bias, so that its l and q (Eq. 28) need no formulas of their
own. In the columns K_S each is less its mean over all rows, for which the bias makes up: kernels with
an offset, such as the linear one of features far from zero, would leave few digits otherwise.

M follows every row that enters or leaves the support set and every change of the basis; it is
factorised anew each time, which for a hundred basis vectors takes less than one look at the errors,
and carries no rounding errors along as a recursive inverse does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgetrf, dgetrs

from widemargin.kernels import Index
from widemargin.projected.basis import (
    EVERY,
    Columns,
    FloatArray,
    border,
    find_root,
    solve_lower,
)

#: Rounds of Newton's method for one basis; a few are the rule.
MAX_ROUNDS = 100
#: Largest gradient, as a share of its terms, that counts as zero.
GRADIENT_TOL = 1e-8


@dataclass(frozen=True)
class Solution:
    """A machine's state.

    Attributes
    ----------
    u : ndarray of shape (n_basis + 1,)
        Bias, for columns without their means, and coefficients.
    errors : ndarray of shape (n,)
        Of all rows.
    objective : float
        J.
    """

    u: FloatArray
    errors: FloatArray
    objective: float


class Machine:
    """The SVM of one binary problem on a basis that changes.

    Parameters
    ----------
    columns : Columns
        Kernel values of the basis; other machines may share them.
    y : ndarray of shape (n,)
        -1.0 or 1.0.
    cost : ndarray of shape (n,)
        C times the weight of each row.
    """

    def __init__(self, columns: Columns, y: FloatArray, cost: FloatArray) -> None:
        self.columns = columns
        self.y = y
        self.cost = cost
        self.support = np.ones(len(y), bool)
        self.n_rebuilt = 0
        bias = float(cost @ y / cost.sum()) if not columns.is_ridge else 0.0
        self._rebuild()
        self.solution = self._evaluate(np.append(bias, np.zeros(len(columns.rows))))
        self.settle()

    @property
    def intercept(self) -> float:
        """Constant of the decision function, for kernel values as they are."""
        u = self.solution.u
        return float(u[0] - u[1:] @ self.columns.means)

    @property
    def is_separated(self) -> bool:
        """Whether every row is on its side."""
        return bool((self.solution.errors < 1.0).all())

    @property
    def factor(self) -> FloatArray:
        """Lower triangle L with ``L L' = M``, but for rounding errors."""
        scaled, scale = self._scaled()
        return find_root(scaled) / scale[:, None]

    @property
    def losses(self) -> FloatArray:
        """How much J would rise if each basis vector were removed (Eq. 61)."""
        return (self.solution.u**2 / inverse_diagonal(self.factor))[1:]

    def save(self) -> tuple[Any, ...]:
        """Everything that changes, for `restore`."""
        return self._M.copy(), self._rhs.copy(), self.support.copy(), self.solution

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to a saved state; the columns must be those of then."""
        self._M, self._rhs, self.support, self.solution = state

    def append(self) -> None:
        """Take up the basis vector that was added last; `settle` afterwards."""
        self._border(len(self.columns.rows))
        before = self.solution
        self.solution = replace(before, u=np.append(before.u, 0.0))

    def exchange(self, at: int, old_column: FloatArray) -> None:
        """Take up the basis vector that replaced one; `settle` afterwards."""
        self._border(at + 1)
        before = self.solution
        u = before.u.copy()
        errors = before.errors + self.y * u[at + 1] * old_column
        u[at + 1] = 0.0
        self.solution = self._value(u, errors)

    def remove(self, at: int, old_column: FloatArray) -> None:
        """Forget a basis vector that was removed; `settle` afterwards."""
        before = self.solution
        kept = np.arange(len(before.u)) != at + 1
        self._M = self._M[np.ix_(kept, kept)]
        self._rhs = self._rhs[kept]
        errors = before.errors + self.y * before.u[at + 1] * old_column
        self.solution = self._value(before.u[kept], errors)

    def renew(self) -> None:
        """Find the optimum for columns all of which are others now."""
        self._rebuild()
        self.solution = self._evaluate(self.solution.u)
        self.settle()

    def settle(self) -> None:
        """Find the support set that belongs to the basis, and with it the optimum (Procedure 2).

        Newton's method: the optimum for the present support set gives the next one. A step that does
        not lower J is shortened to its lowest point; when the set stays, the optimum is found.
        """
        self._follow((self.solution.errors > 0) != self.support)
        n_rebuilt = self.n_rebuilt
        for _ in range(MAX_ROUNDS):
            self.columns.data.require_time()
            target = self._evaluate(self._solve())
            if target.objective > self.solution.objective:
                target = self._shorten(target)
            changed = (target.errors > 0) != self.support
            self.solution = target
            if not changed.any():
                if self._is_stationary() or self.n_rebuilt > n_rebuilt:
                    return
                # Rounding errors of many additions and removals: start from the data again.
                self._rebuild()
                continue
            self._follow(changed)

    def _border(self, at: int) -> None:
        """Put the row and column of a new basis vector at a place of M."""
        size = len(self.columns.rows) + 1
        if size > len(self._M):
            self._M = border(self._M, np.zeros(size - 1), 0.0)
            self._rhs = np.append(self._rhs, 0.0)
        line, right = self.columns.penalty[at].copy(), 0.0
        for rows, K in self._values_at(np.flatnonzero(self.support)):
            weighted = self.cost[rows] * K[:, at - 1]
            line[0] += weighted.sum()
            line[1:] += weighted @ K
            right += float(weighted @ self.y[rows])
        self._M[at, :] = self._M[:, at] = line
        self._rhs[at] = right

    def _follow(self, changed: NDArray[np.bool_]) -> None:
        """Let rows enter or leave the support set."""
        if not changed.any():
            return
        self.support ^= changed
        if 2 * np.count_nonzero(changed) > np.count_nonzero(self.support):
            self._rebuild()
            return
        signs = np.where(self.support, self.cost, -self.cost)
        self._add_rows(np.flatnonzero(changed), signs)

    def _rebuild(self) -> None:
        self.n_rebuilt += 1
        self._M = self.columns.penalty.copy()
        self._rhs = np.zeros(len(self._M))
        self._add_rows(np.flatnonzero(self.support), self.cost)

    def _add_rows(self, rows: Index, cost: FloatArray) -> None:
        """Add rows to M, at costs that are given for all rows."""
        for part, K in self._values_at(rows):
            weighted = cost[part, None] * K
            self._M[0, 0] += cost[part].sum()
            self._M[0, 1:] += weighted.sum(axis=0)
            self._M[1:, 1:] += K.T @ weighted
            signed = cost[part] * self.y[part]
            self._rhs[0] += signed.sum()
            self._rhs[1:] += K.T @ signed
        self._M[1:, 0] = self._M[0, 1:]

    def _values_at(self, rows: Index) -> Iterator[tuple[Index, FloatArray]]:
        """Some rows, part by part, and their values."""
        columns = self.columns
        for part in columns.split(len(rows)):
            columns.data.require_time()
            yield rows[part], columns.values(rows[part], EVERY, columns.data.workers)

    def _solve(self) -> FloatArray:
        scaled, scale = self._scaled()
        # Transposed, which is the same, it is in the order that LAPACK wants.
        factors, pivots, _ = dgetrf(scaled.T, overwrite_a=True)
        u = scale * dgetrs(factors, pivots, scale * self._rhs)[0]
        # Once more for what is left: the matrix is a slightly different one.
        rest = self._rhs - self._M @ u
        return np.asarray(u + scale * dgetrs(factors, pivots, scale * rest)[0])

    def _scaled(self) -> tuple[FloatArray, FloatArray]:
        """M with a diagonal of ones, as definite as rounding errors leave it, and the scale."""
        diag = self._M.diagonal()
        # Without support vectors the bias is free.
        scale = 1.0 / np.sqrt(np.where(diag > 0, diag, 1.0))
        scaled = self._M * scale
        scaled *= scale[:, None]
        floor = np.finfo(np.float64).eps + self.columns.noise * self._penalty_share(scale)
        scaled.flat[:: len(scaled) + 1] += len(scaled) * floor
        return scaled, scale

    def _penalty_share(self, scale: FloatArray) -> FloatArray:
        return self.columns.penalty.diagonal() * np.square(scale)

    def _evaluate(self, u: FloatArray) -> Solution:
        return self._value(u, 1.0 - self.y * (self.columns.multiply(u[1:]) + u[0]))

    def _value(self, u: FloatArray, errors: FloatArray) -> Solution:
        violations = np.maximum(errors, 0.0)
        penalty = float(u @ self.columns.penalty @ u)
        return Solution(u, errors, penalty + float(self.cost @ (violations * violations)))

    def _shorten(self, target: Solution) -> Solution:
        """Lowest point between the present solution and a step's end, by bisection of the slope."""
        start = self.solution
        step, moved = target.u - start.u, target.errors - start.errors
        penalty = self.columns.penalty
        level, rise = float(step @ penalty @ start.u), float(step @ penalty @ step)
        weighted = self.cost * moved
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            slope = level + middle * rise
            slope += float(weighted @ np.maximum(start.errors + middle * moved, 0.0))
            low, high = (middle, high) if slope < 0 else (low, middle)
        return self._evaluate(start.u + low * step)

    def _is_stationary(self) -> bool:
        violations = self.cost * np.maximum(self.solution.errors, 0.0)
        pull = self.y * violations
        penalty = self.columns.penalty @ self.solution.u
        gradient, terms = penalty.copy(), np.abs(penalty)
        gradient[0] -= pull.sum()
        terms[0] += violations.sum()
        for rows, K in self._values_at(np.flatnonzero(violations)):
            gradient[1:] -= K.T @ pull[rows]
            terms[1:] += np.abs(K).T @ violations[rows]
        return bool((np.abs(gradient) <= GRADIENT_TOL * terms.max() + 1e-300).all())


def inverse_diagonal(factor: FloatArray) -> FloatArray:
    """Diagonal of ``inv(L L')``."""
    inverse = solve_lower(factor, np.eye(len(factor)))
    return np.einsum("ij,ij->j", inverse, inverse)
