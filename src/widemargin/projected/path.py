"""Models of all sizes that a growing basis passes, and the basis of several problems together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.callbacks import Stage
from widemargin.exact.expansion import Expansion
from widemargin.kernels import Index, Kernel
from widemargin.projected.selection import Selection


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
        Intercepts.
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
        """Yield the decision values at every size, each of shape (n, n_functions)."""
        n_sizes, n_functions, n_vectors = self.coef.shape
        whole = Expansion(
            self.kernel, self.vectors, np.arange(n_vectors),
            self.coef.reshape(-1, n_vectors), self.intercept.ravel(),
        )  # fmt: skip
        values = whole.decide(X, max_bytes=max_bytes, n_jobs=n_jobs)
        yield from np.moveaxis(values.reshape(-1, n_sizes, n_functions), 1, 0)

    def decide_sizes(
        self, X: Any, sizes: Index, *, max_bytes: int, n_jobs: int | None
    ) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """Return decision values and summed objectives at given sizes.

        Sizes beyond the last one, where the basis stopped growing, repeat it.
        """
        at = np.minimum(sizes, len(self)) - 1
        decisions = list(self.decide(X, max_bytes=max_bytes, n_jobs=n_jobs))
        return [decisions[i] for i in at], self.objective[at].sum(axis=1)


@dataclass(frozen=True)
class JoinedBasis:
    """The bases of several binary problems, merged into one.

    Attributes
    ----------
    rows : ndarray of shape (n_vectors,)
        Training row that each vector is, or from which it has moved.
    vectors : ndarray or csr_matrix of shape (n_vectors, n_features)
        The vectors.
    coef : ndarray of shape (n_functions, n_vectors)
        Coefficients; zero for vectors that are not in a function's basis.
    intercept, objective : ndarray of shape (n_functions,)
        Intercept and J of every function.
    """

    rows: Index
    vectors: Any
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    objective: NDArray[np.float64]

    def expand(self, kernel: Kernel) -> Expansion:
        """Return the decision functions as a model."""
        return Expansion(kernel, self.vectors, self.rows, self.coef, self.intercept)


def join_stages(stages: list[Stage], X: Any) -> JoinedBasis:
    """Merge the bases of several problems on the training rows ``X``.

    A row in several bases appears once. Vectors that have moved are all kept.
    """
    rows = np.concatenate([stage.rows for stage in stages]).astype(np.intp)
    places = np.arange(len(rows))
    moved = [stage.vectors for stage in stages if stage.vectors is not None]
    if not moved:
        rows, places = np.unique(rows, return_inverse=True)
    coef = np.zeros((sum(len(stage.intercept) for stage in stages), len(rows)))
    function = vector = 0
    for stage in stages:
        n_functions, n_vectors = stage.coef.shape
        coef[function : function + n_functions, places[vector : vector + n_vectors]] = stage.coef
        function, vector = function + n_functions, vector + n_vectors
    return JoinedBasis(
        rows,
        np.concatenate(moved).astype(X.dtype) if moved else X[rows],
        coef,
        np.concatenate([stage.intercept for stage in stages]),
        np.concatenate([stage.objective for stage in stages]),
    )


def make_path(X: Any, kernel: Kernel, selections: list[Selection]) -> BasisPath:
    """Return the models of all sizes that the bases passed while growing on the training rows ``X``.

    A binary problem whose basis stopped growing early keeps its last model.
    """
    rows = np.unique(np.concatenate([s.path[-1].rows for s in selections])).astype(np.intp)
    n_sizes = max(len(selection.path) for selection in selections)
    n_functions = sum(len(selection.final.intercept) for selection in selections)
    coef = np.zeros((n_sizes, n_functions, len(rows)))
    intercept, objective = np.empty((2, n_sizes, n_functions))
    first = 0
    for selection in selections:
        # Each basis begins with the vectors of the smaller ones.
        places = np.searchsorted(rows, selection.path[-1].rows)
        functions = slice(first, first + len(selection.final.intercept))
        for size in range(n_sizes):
            stage = selection.path[min(size, len(selection.path) - 1)]
            coef[size, functions, places[: len(stage.rows)]] = stage.coef.T
            intercept[size, functions] = stage.intercept
            objective[size, functions] = stage.objective
        first = functions.stop
    return BasisPath(kernel, X[rows], coef, intercept, objective)
