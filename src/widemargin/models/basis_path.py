"""Models of every size that a growing basis goes through."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Kernel
from widemargin.models.expansion import Expansion
from widemargin.solvers.sparse_search import Stage


@dataclass(frozen=True)
class BasisPath:
    """Decision functions on the first 1, 2, 3, ... basis vectors.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    vectors : ndarray or csr_matrix of shape (n_vectors, n_features)
        All basis vectors.
    coef : ndarray of shape (n_sizes, n_functions, n_vectors)
        Coefficients at every size; zero for vectors that are not in a function's basis.
    intercept : ndarray of shape (n_sizes, n_functions)
        Constants.
    objective : ndarray of shape (n_sizes, n_functions)
        J of every function.
    """

    kernel: Kernel
    vectors: Any
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    objective: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.coef)

    def decide(
        self, X: Any, *, max_bytes: int, n_jobs: int | None
    ) -> Iterator[NDArray[np.float64]]:
        """Decision values at every size, each of shape (n, n_functions)."""
        n_sizes, n_functions, n_vectors = self.coef.shape
        whole = Expansion(
            self.kernel, self.vectors, np.arange(n_vectors),
            self.coef.reshape(-1, n_vectors), self.intercept.ravel(),
        )  # fmt: skip
        values = whole.decide(X, max_bytes=max_bytes, n_jobs=n_jobs)
        yield from np.moveaxis(values.reshape(-1, n_sizes, n_functions), 1, 0)


def join_stages(
    stages: list[Stage], rows: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients, constants and objectives of stages with bases of their own, on all ``rows``.

    ``rows`` are the sorted training rows in any of the bases.
    """
    n_functions = sum(len(stage.intercept) for stage in stages)
    coef = np.zeros((n_functions, len(rows)))
    first = 0
    for stage in stages:
        functions = np.arange(first, first + len(stage.intercept))
        coef[np.ix_(functions, np.searchsorted(rows, stage.rows))] = stage.coef
        first += len(stage.intercept)
    intercept = np.concatenate([stage.intercept for stage in stages])
    return coef, intercept, np.concatenate([stage.objective for stage in stages])


def join_moved(
    stages: list[Stage],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """As `join_stages`, of bases whose vectors are no rows: one after another, none is shared."""
    sizes = [stage.coef.shape for stage in stages]
    coef = np.zeros(np.sum(sizes, axis=0))
    first = np.vstack([[0, 0], np.cumsum(sizes, axis=0)])
    for stage, (function, vector) in zip(stages, first, strict=False):
        n_functions, n_vectors = stage.coef.shape
        coef[function : function + n_functions, vector : vector + n_vectors] = stage.coef
    intercept = np.concatenate([stage.intercept for stage in stages])
    return coef, intercept, np.concatenate([stage.objective for stage in stages])
