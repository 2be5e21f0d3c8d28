"""The SVM of one binary problem on a basis that changes (PSVM Eq. 9 to 59, and Procedure 2).

Minimise, over the coefficients w and the intercept b,

    J(w, b) = w' K_B w + sum_k c_k max(0, e_k)^2,    e_k = 1 - y_k (K(x_k, X_B) w + b)

which is PSVM Eq. 9 with a cost c_k for each row in place of one C. The support vectors S are the rows
with e_k > 0 (Eq. 25). For a fixed S, J is quadratic in ``u = (b, w)``, and half of its Hessian is

    M = [sum c,  c' K_S; K_S' c,  K_B + K_S' diag(c) K_S].

========================  ==========================================  ===========
PSVM                      here                                        shape
========================  ==========================================  ===========
X_B, basis vectors        ``columns.rows``                            B
K_B                       ``columns.penalty[1:, 1:]``                 (B, B)
K_{B,S}                   ``columns.values(support)``, centred        (S, B)
H_{B,S} (Eq. 15)          ``_M[1:, 1:] / C``                          (B, B)
w, b (Eq. 14)             ``solution.u``, the solution of M u = rhs   B + 1
q (Eq. 28)                ``1 / inv(M)[0, 0]``                        scalar
l (Eq. 28)                ``-inv(M)[1:, 0] / inv(M)[0, 0]``           B
e (Eq. 11)                ``solution.errors``                         N
========================  ==========================================  ===========

M is C times the paper's H, bordered by the intercept. Eliminating the intercept from ``M u = rhs``
gives Eq. 14, and q and l of Eq. 28 are parts of inv(M), so that they need no code of their own. (The
entries of the table hold for columns that are not centred.)

The paper updates inv(H), w, b, q and l recursively (Eq. 27 to 35 for the support vectors, Eq. 36 to 46
and 54 to 59 for the basis). This module updates M by the same rules, and factorises it for each
solution: for a hundred basis vectors that costs less than one evaluation of the errors, and rounding
errors do not accumulate as they do in a recursive inverse.

Each column of kernel values is centred: its mean over all rows is subtracted, and the intercept makes
up for it. Without centring, kernels with an offset, such as the linear kernel of features far from
zero, would leave few significant digits.
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

#: Most Newton iterations for one basis. Usually a few are enough.
MAX_ROUNDS = 100
#: A gradient component counts as zero up to this share of the largest sum of absolute terms.
GRADIENT_TOL = 1e-8


@dataclass(frozen=True)
class BasisSolution:
    """Coefficients of a machine, with the errors and the objective that belong to them.

    Attributes
    ----------
    u : ndarray of shape (n_basis + 1,)
        Intercept for centred columns, then the coefficients w.
    errors : ndarray of shape (n,)
        Error of each row, ``1 - y f(x)`` (PSVM Eq. 11).
    objective : float
        J (PSVM Eq. 9).
    """

    u: FloatArray
    errors: FloatArray
    objective: float


class Machine:
    """SVM of one binary problem on a basis that changes.

    Minimises J (see the module) over intercept and coefficients, without constraints. Given the
    kernel values of the basis, labels and costs, ``solution`` holds the minimum. After each change of
    the basis, the caller announces the change (`append`, `exchange`, `remove`) and calls `settle`,
    which stops when the support vectors no longer change and the gradient of J is zero up to
    rounding errors. Reference: PSVM, Procedure 2.

    Parameters
    ----------
    columns : Columns
        Kernel values of the basis. Several machines may share them.
    y : ndarray of shape (n,)
        Labels, -1.0 or 1.0.
    cost : ndarray of shape (n,)
        C times the weight of each row.
    """

    def __init__(self, columns: Columns, y: FloatArray, cost: FloatArray) -> None:
        self.columns = columns
        self.y = y
        self.cost = cost
        # PSVM Procedure 1, step 1: at first all rows are support vectors.
        self.support = np.ones(len(y), bool)
        self.n_rebuilt = 0
        bias = float(cost @ y / cost.sum()) if not columns.is_ridge else 0.0
        self._rebuild()
        self.solution = self._evaluate(np.append(bias, np.zeros(len(columns.rows))))
        self.settle()

    @property
    def intercept(self) -> float:
        """Intercept b of the decision function, for kernel values without centring (PSVM Eq. 16)."""
        u = self.solution.u
        return float(u[0] - u[1:] @ self.columns.means)

    @property
    def is_separated(self) -> bool:
        """Whether all rows are classified correctly (PSVM section 4.3: every error is below 1)."""
        return bool((self.solution.errors < 1.0).all())

    @property
    def factor(self) -> FloatArray:
        """Lower triangle L with ``L L' = M``, up to rounding errors."""
        scaled, scale = self._scaled()
        return find_root(scaled) / scale[:, None]

    @property
    def losses(self) -> FloatArray:
        """Increase of J if each basis vector were removed (PSVM Eq. 61).

        Shape (n_basis,): ``w_i^2 / inv(M)[i, i]``, for the present support vectors.
        """
        # PSVM Eq. 61 prints w_i^2 / ([H]_ii + l_i^2 / q). Its first term must be [inv(H)]_ii: Eq. 61
        # rewrites Eq. 58, where the term is v, and Eq. 54 defines v as an entry of inv(H).
        # The scale is C: J rises by C w_i^2 / ([inv(H)]_ii + C l_i^2 / q) with q as printed in Eq. 28,
        # because Eq. 31, 45 and 59 update a q without the factor C that Q has in Eq. 23.
        # By block inversion inv(M)[i, i] = [inv(H)]_ii / C + l_i^2 / q, which gives the line below.
        return (self.solution.u**2 / inverse_diagonal(self.factor))[1:]

    def save(self) -> tuple[Any, ...]:
        """Return everything that changes, for `restore`."""
        return self._M.copy(), self._rhs.copy(), self.support.copy(), self.solution

    def restore(self, state: tuple[Any, ...]) -> None:
        """Return to a saved state. The basis must be the one at the time of `save`."""
        self._M, self._rhs, self.support, self.solution = state

    def append(self) -> None:
        """Extend M by the basis vector that was added last; call `settle` afterwards.

        The new coefficient is zero until then. PSVM Eq. 36 to 39 and Procedure 3, step 3.
        """
        self._border(len(self.columns.rows))
        before = self.solution
        self.solution = replace(before, u=np.append(before.u, 0.0))

    def exchange(self, at: int, old_column: FloatArray) -> None:
        """Replace a row and column of M after an exchange of basis vectors; call `settle` afterwards.

        ``old_column`` are the centred kernel values of the removed vector. The new coefficient is zero
        until `settle`. PSVM Procedure 4, step 6.
        """
        self._border(at + 1)
        before = self.solution
        u = before.u.copy()
        errors = before.errors + self.y * u[at + 1] * old_column
        u[at + 1] = 0.0
        self.solution = self._value(u, errors)

    def remove(self, at: int, old_column: FloatArray) -> None:
        """Delete a row and column of M after the removal of a basis vector; call `settle` afterwards.

        ``old_column`` are the centred kernel values of the removed vector. H itself loses one row and
        column, where the paper downdates its inverse (PSVM Eq. 55). Procedure 4, step 5.
        """
        before = self.solution
        kept = np.arange(len(before.u)) != at + 1
        self._M = self._M[np.ix_(kept, kept)]
        self._rhs = self._rhs[kept]
        errors = before.errors + self.y * before.u[at + 1] * old_column
        self.solution = self._value(before.u[kept], errors)

    def renew(self) -> None:
        """Find the optimum after all basis vectors have changed."""
        self._rebuild()
        self.solution = self._evaluate(self.solution.u)
        self.settle()

    def settle(self) -> None:
        """Find the support vectors and the optimum for the present basis (PSVM Procedure 2).

        Each iteration is a Newton step: it solves Eq. 14 for the present support vectors, and the
        errors of that solution give the next support vectors. The paper exchanges one support vector
        at a time; here all rows that violate Eq. 25 change together, and if J does not fall, a line
        search shortens the step, so that J never rises.
        """
        # Steps 1 and 2: the rows that violate PSVM Eq. 25 are the index set I of Eq. 70.
        self._follow((self.solution.errors > 0) != self.support)
        n_rebuilt = self.n_rebuilt
        for _ in range(MAX_ROUNDS):
            self.columns.data.require_time()
            # PSVM Eq. 14, then the errors of all rows (Eq. 11).
            target = self._evaluate(self._solve())
            if target.objective > self.solution.objective:
                target = self._shorten(target)
            # Step 2: the index set I of PSVM Eq. 70. The procedure ends when I is empty.
            changed = (target.errors > 0) != self.support
            self.solution = target
            if not changed.any():
                if self._is_stationary() or self.n_rebuilt > n_rebuilt:
                    return
                # Rounding errors of many updates have accumulated in M: compute M from the data.
                self._rebuild()
                continue
            # Steps 3 to 6: add and remove support vectors.
            self._follow(changed)

    def _border(self, at: int) -> None:
        """Compute the row and column of M for the basis vector at a place (PSVM Eq. 38 and 39)."""
        size = len(self.columns.rows) + 1
        if size > len(self._M):
            self._M = border(self._M, np.zeros(size - 1), 0.0)
            self._rhs = np.append(self._rhs, 0.0)
        line, right = self.columns.penalty[at].copy(), 0.0
        # PSVM Eq. 39, times C: the penalty's entries plus products over the support vectors.
        for rows, K in self._values_at(np.flatnonzero(self.support)):
            weighted = self.cost[rows] * K[:, at - 1]
            line[0] += weighted.sum()
            line[1:] += weighted @ K
            right += float(weighted @ self.y[rows])
        self._M[at, :] = self._M[:, at] = line
        self._rhs[at] = right

    def _follow(self, changed: NDArray[np.bool_]) -> None:
        """Add rows to the support vectors, or remove them (PSVM Procedure 2, steps 4 and 5)."""
        if not changed.any():
            return
        self.support ^= changed
        if 2 * np.count_nonzero(changed) > np.count_nonzero(self.support):
            self._rebuild()
            return
        signs = np.where(self.support, self.cost, -self.cost)
        self._add_rows(np.flatnonzero(changed), signs)

    def _rebuild(self) -> None:
        """Compute M and the right-hand side from the data (PSVM Eq. 15)."""
        self.n_rebuilt += 1
        self._M = self.columns.penalty.copy()
        self._rhs = np.zeros(len(self._M))
        self._add_rows(np.flatnonzero(self.support), self.cost)

    def _add_rows(self, rows: Index, cost: FloatArray) -> None:
        """Add rows to M and to the right-hand side; a negative cost removes a row.

        A row with kernel values k adds ``k' k`` to H (PSVM, before Eq. 27; before Eq. 32 for a
        removal). ``cost`` has an entry for every row of the data.
        """
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
        """Yield given rows in parts, with their centred kernel values."""
        columns = self.columns
        for part in columns.split(len(rows)):
            columns.data.require_time()
            yield rows[part], columns.values(rows[part], EVERY, columns.data.workers)

    def _solve(self) -> FloatArray:
        """Solve ``M u = rhs`` for intercept and coefficients (PSVM Eq. 14)."""
        scaled, scale = self._scaled()
        # The matrix is symmetric; its transpose has the column order that LAPACK expects.
        factors, pivots, _ = dgetrf(scaled.T, overwrite_a=True)
        u = scale * dgetrs(factors, pivots, scale * self._rhs)[0]
        # One step of iterative refinement, because `_scaled` has changed the diagonal slightly.
        rest = self._rhs - self._M @ u
        return np.asarray(u + scale * dgetrs(factors, pivots, scale * rest)[0])

    def _scaled(self) -> tuple[FloatArray, FloatArray]:
        """Return M scaled to a unit diagonal, positive definite despite rounding, and the scale."""
        diag = self._M.diagonal()
        # Without support vectors the entry of the intercept is zero.
        scale = 1.0 / np.sqrt(np.where(diag > 0, diag, 1.0))
        scaled = self._M * scale
        scaled *= scale[:, None]
        floor = np.finfo(np.float64).eps + self.columns.noise * self._penalty_share(scale)
        scaled.flat[:: len(scaled) + 1] += len(scaled) * floor
        return scaled, scale

    def _penalty_share(self, scale: FloatArray) -> FloatArray:
        return self.columns.penalty.diagonal() * np.square(scale)

    def _evaluate(self, u: FloatArray) -> BasisSolution:
        """Return the errors (PSVM Eq. 11) and the objective of given coefficients."""
        return self._value(u, 1.0 - self.y * (self.columns.multiply(u[1:]) + u[0]))

    def _value(self, u: FloatArray, errors: FloatArray) -> BasisSolution:
        """Return the solution with its objective (PSVM Eq. 9)."""
        violations = np.maximum(errors, 0.0)
        penalty = float(u @ self.columns.penalty @ u)
        return BasisSolution(u, errors, penalty + float(self.cost @ (violations * violations)))

    def _shorten(self, target: BasisSolution) -> BasisSolution:
        """Minimise J between the present solution and the target, by bisection of its slope."""
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
        """Whether the gradient of J (PSVM Eq. 13) is zero up to rounding errors."""
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
    """Return the diagonal of ``inv(L L')``."""
    inverse = solve_lower(factor, np.eye(len(factor)))
    return np.einsum("ij,ij->j", inverse, inverse)
