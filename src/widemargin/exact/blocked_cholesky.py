"""Cholesky factorisation in blocks that threads share.

Between two blocks Ctrl-C and the time limit are heeded, and the blocks are the same for any number of
threads, so that rounding is too. All work is in products of matrices, during which NumPy releases the
interpreter.
"""

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from widemargin.deadline import is_late
from widemargin.exact.dual_problem import FloatArray
from widemargin.kernels import Index
from widemargin.parallel import Workers

#: Rows and columns of a block.
SIDE = 256


class BlockedCholesky:
    """Lower triangular factor L of a positive definite matrix, ``L L' = A``.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric. Its lower triangle is overwritten by L.
    workers : Workers
        Threads.
    deadline : float, optional
        Time after which the factorisation is given up.

    Attributes
    ----------
    is_complete : bool
        False if A is not numerically positive definite, or time was up.
    """

    def __init__(self, A: FloatArray, workers: Workers, deadline: float | None = None) -> None:
        self.L, self.workers = A, workers
        self.starts = range(0, len(A), SIDE)
        #: Inverses of the diagonal blocks of L.
        self.inverses: list[FloatArray] = []
        self.is_complete = all(self._factorise(at) for at in self.starts if not is_late(deadline))
        self.is_complete &= len(self.inverses) == len(self.starts)

    def _factorise(self, at: int) -> bool:
        """Factorise one block column and subtract its products from the columns after it."""
        L, end = self.L, min(at + SIDE, len(self.L))
        block, failed = dpotrf(L[at:end, at:end], lower=True, clean=True)
        if failed:
            return False
        L[at:end, at:end] = block
        inverse = dtrtri(block, lower=True)[0]
        self.inverses.append(inverse)
        below = range(end, len(L), SIDE)

        def divide(first: int, last: int) -> None:
            for row in below[first:last]:
                L[row : row + SIDE, at:end] = L[row : row + SIDE, at:end] @ inverse.T

        def subtract(first: int, last: int) -> None:
            # The longest rows first, so that threads end at the same time.
            for row in below[::-1][first:last]:
                stop = min(row + SIDE, len(L))
                L[row:stop, end:stop] -= L[row:stop, at:end] @ L[end:stop, at:end].T

        self.workers.run(len(below), divide, grain=1)
        self.workers.run(len(below), subtract, grain=1, one_by_one=True)
        return True

    def square(self, x: FloatArray) -> float:
        """Return ``x'Ax``."""
        product = np.zeros(len(x))
        for at in self.starts:
            end = min(at + SIDE, len(x))
            product[:end] += x[at:end] @ self.L[at:end, :end]
        return float(product @ product)

    def solve_lower(self, sides: FloatArray) -> FloatArray:
        """Return ``L^-1 sides``."""
        out = np.array(sides, np.float64)
        for at, inverse in zip(self.starts, self.inverses, strict=True):
            end = at + len(inverse)
            out[at:end] = inverse @ (out[at:end] - self.L[at:end, :at] @ out[:at])
        return out

    def solve_units(self, at: Index) -> FloatArray:
        """Return the columns ``at``, ascending, of ``L^-1``. They are zero above the diagonal."""
        out = np.zeros((len(self.L), len(at)))
        out[at, np.arange(len(at))] = 1.0
        for start, inverse in zip(self.starts, self.inverses, strict=True):
            end = start + len(inverse)
            n_before, n_begun = np.searchsorted(at, [start, end])
            if n_before:
                top = at[0]
                out[start:end, :n_before] = (
                    -self.L[start:end, top:start] @ out[top:start, :n_before]
                )
            out[start:end, :n_begun] = inverse @ out[start:end, :n_begun]
        return out

    def solve_upper(self, sides: FloatArray) -> FloatArray:
        """Return ``L'^-1 sides``."""
        out = np.array(sides, np.float64)
        for at, inverse in zip(self.starts[::-1], self.inverses[::-1], strict=True):
            end = at + len(inverse)
            out[at:end] = inverse.T @ (out[at:end] - self.L[end:, at:end].T @ out[end:])
        return out
