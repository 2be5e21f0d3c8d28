"""Decrease of the objective for each candidate: added, or exchanged for a basis vector (PSVM Eq. 44).

With M, half of the Hessian of a machine (see `machine`), a candidate z has

    m = M's cross terms with z           (C times h of PSVM Eq. 39, bordered by the intercept),
    m_zz = M's diagonal entry of z       (C times the scalar h of Eq. 39),
    g = half the derivative of J by the coefficient of z, which is zero so far.

Adding z, with the same support vectors, lowers J by ``g^2 / (m_zz - m' inv(M) m)`` (Eq. 44). The
denominator is positive if and only if z is linearly independent of the basis (Eq. 48).

Exchanging basis vector i for z: with ``P = inv(M) m`` and v the diagonal of inv(M), removing i
changes g to ``g - w_i P_i / v_i`` and the denominator to ``m_zz - m' inv(M) m + P_i^2 / v_i`` (Eq. 54
to 57). The exchange lowers J by Eq. 44 with these two values, less the loss of Eq. 61 (Eq. 62). So one
product with inv(M) scores all exchanges, where the paper removes one basis vector after another and
scores all candidates each time (Procedure 4, step 3).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from widemargin.kernels import Index
from widemargin.projected.basis import FloatArray, solve_lower
from widemargin.projected.candidates import Candidates, Factors
from widemargin.projected.machine import Machine, inverse_diagonal


class Related(NamedTuple):
    """Quantities from which the scores of some candidates follow.

    Attributes
    ----------
    factor, inverse_diag : ndarray
        Lower triangle L with ``L L' = M``, and the diagonal of inv(M).
    half : ndarray of shape (n_basis + 1, n_candidates)
        ``inv(L) m`` for each candidate.
    remainder, least : ndarray of shape (n_candidates,)
        ``m_zz - m' inv(M) m``, and the value that it must exceed for the candidate to count as
        linearly independent of the basis (PSVM Eq. 48).
    gradient : ndarray of shape (n_candidates,)
        g of each candidate.
    """

    factor: FloatArray
    inverse_diag: FloatArray
    half: FloatArray
    remainder: FloatArray
    least: FloatArray
    gradient: FloatArray


class Scores:
    """Scores of all candidates for one machine.

    The sums over support vectors are kept, and updated when the machine's support vectors or basis
    have changed.

    Parameters
    ----------
    machine : Machine
        The machine.
    candidates : Candidates
        Rows that may join the basis.
    """

    def __init__(self, machine: Machine, candidates: Candidates) -> None:
        self.machine = machine
        self.candidates = candidates
        n = len(candidates.rows)
        self._support = np.zeros(len(machine.y), bool)
        # Cross terms with the intercept and with the vectors of `_basis`; sums over the support
        # vectors of kernel values times labels, and of squared kernel values.
        self._basis: list[int] = []
        self._cross = np.zeros((1, n))
        self._labels = np.zeros(n)
        self._squares = np.zeros(n)

    def gains(self) -> FloatArray:
        """Return the decrease of J if each candidate were added (PSVM Eq. 44).

        Shape (n_candidates,); zero for candidates that depend linearly on the basis (Eq. 48). Without
        basis vectors this is the score of Procedure 1 (Eq. 66).
        """
        out = np.empty(len(self.candidates.rows))

        def score(columns: slice, related: Related) -> None:
            good = related.remainder > related.least  # PSVM Eq. 48
            # PSVM Eq. 44.
            fall = related.gradient**2 / np.where(good, related.remainder, 1.0)
            out[columns] = np.where(good, fall, 0.0)

        self._visit(score)
        return out

    def exchanges(self) -> FloatArray:
        """Return the decrease of J if each basis vector were exchanged for each candidate.

        Shape (n_basis, n_candidates); -inf for candidates that depend linearly on the other basis
        vectors. PSVM Eq. 62, the comparison of Procedure 4, step 4.
        """
        u = self.machine.solution.u
        out = np.empty((len(u) - 1, len(self.candidates.rows)))

        def score(columns: slice, related: Related) -> None:
            P = solve_lower(related.factor, related.half, transposed=True)
            for i, v in enumerate(related.inverse_diag[1:], start=1):
                # PSVM Eq. 55 and 56: the gradient and the remainder without basis vector i.
                moved = related.gradient - (u[i] / v) * P[i]
                room = related.remainder + P[i] * P[i] / v
                good = room > related.least  # PSVM Eq. 48 without vector i
                # PSVM Eq. 62: Eq. 44 without vector i, less the loss of Eq. 61.
                fall = moved * moved / np.where(good, room, 1.0) - u[i] ** 2 / v
                out[i - 1, columns] = np.where(good, fall, -np.inf)

        self._visit(score)
        return out

    def _visit(self, score: Callable[[slice, Related], None]) -> None:
        """Call ``score`` with slices of the candidates and the quantities of their scores."""
        self._synchronise()
        factor, u = self.machine.factor, self.machine.solution.u
        inverse_diag = inverse_diagonal(factor)
        candidates, pieces = self.candidates, list(self.candidates.split())

        def work(first: int, last: int) -> None:
            for columns in pieces[first:last]:
                if candidates.data.is_late():
                    return
                cross = self._cross[:, columns]
                # PSVM Eq. 41: the Schur complement of the candidate, here with the intercept.
                half = solve_lower(factor, cross)
                whole = candidates.diag[columns] + self._squares[columns]
                remainder = whole - np.einsum("ij,ij->j", half, half)
                gradient = u @ cross - self._labels[columns]
                least = candidates.threshold * whole
                score(columns, Related(factor, inverse_diag, half, remainder, least, gradient))

        candidates.data.workers.run(len(pieces), work, grain=1)
        candidates.data.require_time()

    def _synchronise(self) -> None:
        """Update the sums with the machine's changes since the last call (PSVM Eq. 39)."""
        basis = self.machine.columns.rows
        self._keep([row for row in self._basis if row in basis])
        now, cost, y = self.machine.support, self.machine.cost, self.machine.y
        changed = self._support != now
        if changed.any():
            values = self._values_of(self._basis)
            sums, squares = self.candidates.sweep(
                np.where(changed, np.where(now, cost, -cost), 0.0),
                lambda some: np.column_stack([np.ones_like(y[some]), values(some), y[some]]),
                len(self._basis) + 2,
                squares=True,
            )
            self._cross += sums[:-1]
            self._labels += sums[-1]
            self._squares += squares
            self._support = now.copy()
        fresh = [row for row in basis if row not in self._basis]
        if fresh:
            self._cross = np.vstack([self._cross, self._cross_terms(fresh)])
            self._basis += fresh
        self._keep(basis)

    def _keep(self, basis: list[int]) -> None:
        """Keep the cross terms with the given basis vectors only, in their order."""
        if basis != self._basis:
            self._cross = self._cross[[0, *(1 + self._basis.index(row) for row in basis)]]
            self._basis = basis.copy()

    def _cross_terms(self, basis: list[int]) -> FloatArray:
        """Return the cross terms with new basis vectors (C times h of PSVM Eq. 39)."""
        values, means = self._values_of(basis), self.machine.columns.means[self._places_of(basis)]
        weights = np.where(self._support, self.machine.cost, 0.0)
        sums, _ = self.candidates.sweep(weights, values, len(basis), squares=False)
        return sums + (values(self.candidates.rows) + means).T

    def _values_of(self, basis: list[int]) -> Factors:
        """Return a function that gives centred kernel values between rows and these basis vectors."""
        columns = self.machine.columns
        places = self._places_of(basis)
        return lambda some: columns.values(some, places)

    def _places_of(self, basis: list[int]) -> Index | slice:
        """Return the places of these vectors in the machine's basis, as a slice if possible."""
        rows = self.machine.columns.rows
        first = rows.index(basis[0]) if basis else 0
        if rows[first : first + len(basis)] == basis:
            return slice(first, first + len(basis))
        return np.array([rows.index(row) for row in basis], np.intp)
