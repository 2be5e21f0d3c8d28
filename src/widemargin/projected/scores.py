"""What candidates for a basis are worth (PSVM).

A candidate z would enter a machine's Hessian M with a cross term m, a diagonal entry and a gradient
g. Adding it lowers J by ``g^2 / (m_zz - m' inv(M) m)`` (Eq. 44). With ``P = inv(M) m``, exchanging
basis vector i for z has the gradient ``g - w_i P_i / v_i`` and the denominator
``m_zz - m' inv(M) m + P_i^2 / v_i``, where v is the diagonal of inv(M): all exchanges are scored at
once for the price of a product with inv(M), where the paper removes one basis vector after another
and scores all candidates again.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from widemargin.kernels import Index
from widemargin.projected.basis import FloatArray, solve_lower
from widemargin.projected.candidates import Candidates, Factors
from widemargin.projected.machine import Machine, inverse_diagonal


class Related(NamedTuple):
    """Some candidates in relation to a machine.

    Attributes
    ----------
    factor, inverse_diag : ndarray
        Lower triangle L with ``L L' = M``, and the diagonal of inv(M).
    half : ndarray of shape (n_basis + 1, n_candidates)
        Cross terms m, as ``inv(L) m``.
    left, least : ndarray of shape (n_candidates,)
        ``m_zz - m' inv(M) m``, and the least of it that counts as independent (Eq. 48).
    gradient : ndarray of shape (n_candidates,)
        Gradients g.
    """

    factor: FloatArray
    inverse_diag: FloatArray
    half: FloatArray
    left: FloatArray
    least: FloatArray
    gradient: FloatArray


class Scores:
    """What each candidate would do for one machine; sums over rows follow the machine's changes.

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
        # Cross terms of the bias and of these basis vectors; sums over the support vectors of the
        # kernel with labels, and of its squares.
        self._basis: list[int] = []
        self._cross = np.zeros((1, n))
        self._labels = np.zeros(n)
        self._squares = np.zeros(n)

    def gains(self) -> FloatArray:
        """How much J would fall if a candidate were added; zero for dependent ones (Eq. 44)."""
        out = np.empty(len(self.candidates.rows))

        def score(columns: slice, related: Related) -> None:
            good = related.left > related.least
            fall = related.gradient**2 / np.where(good, related.left, 1.0)
            out[columns] = np.where(good, fall, 0.0)

        self._visit(score)
        return out

    def exchanges(self) -> FloatArray:
        """How much J would fall if a basis vector made way for a candidate.

        Shape (n_basis, n_candidates); -inf for candidates that depend on the others.
        """
        u = self.machine.solution.u
        out = np.empty((len(u) - 1, len(self.candidates.rows)))

        def score(columns: slice, related: Related) -> None:
            P = solve_lower(related.factor, related.half, transposed=True)
            for i, v in enumerate(related.inverse_diag[1:], start=1):
                moved = related.gradient - (u[i] / v) * P[i]
                room = related.left + P[i] * P[i] / v
                good = room > related.least
                fall = moved * moved / np.where(good, room, 1.0) - u[i] ** 2 / v
                out[i - 1, columns] = np.where(good, fall, -np.inf)

        self._visit(score)
        return out

    def _visit(self, score: Callable[[slice, Related], None]) -> None:
        """Call ``score`` with candidates, piece by piece, and their relation to the machine."""
        self._synchronise()
        factor, u = self.machine.factor, self.machine.solution.u
        inverse_diag = inverse_diagonal(factor)
        candidates, pieces = self.candidates, list(self.candidates.split())

        def work(first: int, last: int) -> None:
            for columns in pieces[first:last]:
                if candidates.data.is_late():
                    return
                cross = self._cross[:, columns]
                half = solve_lower(factor, cross)
                whole = candidates.diag[columns] + self._squares[columns]
                left = whole - np.einsum("ij,ij->j", half, half)
                gradient = u @ cross - self._labels[columns]
                least = candidates.threshold * whole
                score(columns, Related(factor, inverse_diag, half, left, least, gradient))

        candidates.data.workers.run(len(pieces), work, grain=1)
        candidates.data.require_time()

    def _synchronise(self) -> None:
        """Follow the machine's changes since the last time."""
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
        """Cross terms of these basis vectors only, in this order."""
        if basis != self._basis:
            self._cross = self._cross[[0, *(1 + self._basis.index(row) for row in basis)]]
            self._basis = basis.copy()

    def _cross_terms(self, basis: list[int]) -> FloatArray:
        """Cross terms of new basis vectors: sums over the support vectors and the regulariser."""
        values, means = self._values_of(basis), self.machine.columns.means[self._places_of(basis)]
        weights = np.where(self._support, self.machine.cost, 0.0)
        sums, _ = self.candidates.sweep(weights, values, len(basis), squares=False)
        return sums + (values(self.candidates.rows) + means).T

    def _values_of(self, basis: list[int]) -> Factors:
        """Function that gives the kernel between some rows and these basis vectors."""
        columns = self.machine.columns
        places = self._places_of(basis)
        return lambda some: columns.values(some, places)

    def _places_of(self, basis: list[int]) -> Index | slice:
        """Where in the machine's basis these vectors are; a slice, which is quicker, if it can be."""
        rows = self.machine.columns.rows
        first = rows.index(basis[0]) if basis else 0
        if rows[first : first + len(basis)] == basis:
            return slice(first, first + len(basis))
        return np.array([rows.index(row) for row in basis], np.intp)
