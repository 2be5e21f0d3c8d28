"""Models that are kernel expansions: weighted sums of kernels at support vectors."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Index, Kernel, Points, Precomputed, is_small
from widemargin.parallel import open_workers
from widemargin.problem import class_pairs

#: Share of the memory budget that a block of queries, prepared for the kernel, may take.
QUERY_SHARE = 0.25
#: Queries a small model answers at a time.
EXACT_QUERIES = 1024

#: Decisions up to so many times what kernel values out of range can add up to are computed anew, so
#: many queries, and so many values of support vectors, at a time.
FAR_FACTOR, FAR_QUERIES, FAR_VALUES = 1000.0, 256, 1 << 20


class Expansion:
    """Several decision functions on one set of support vectors.

    ``f_p(x) = sum_i coef[p, i] k(vectors[i], x) + intercept[p]``. Each support vector meets each
    query once, whatever the number of functions.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    vectors : ndarray or csr_matrix of shape (n_vectors, n_features), or None
        Support vectors; None for a precomputed kernel.
    columns : ndarray of shape (n_vectors,)
        Training row of each support vector, its column in a precomputed kernel.
    coef : ndarray of shape (n_functions, n_vectors)
        Signed dual coefficients.
    intercept : ndarray of shape (n_functions,)
        Constants.
    """

    def __init__(
        self,
        kernel: Kernel,
        vectors: Any,
        columns: Index,
        coef: NDArray[np.float64],
        intercept: NDArray[np.float64],
    ) -> None:
        self.kernel = kernel
        self.vectors = vectors
        self.columns = columns
        self.coef = coef
        self.intercept = intercept

    @cached_property
    def _points(self) -> Points:
        return self.kernel.prepare(self.vectors)

    def decide(self, X: Any, *, max_bytes: int, n_jobs: int | None) -> NDArray[np.float64]:
        """Values of all functions at the rows of ``X``, shape (n, n_functions)."""
        out = np.empty((X.shape[0], len(self.coef)))
        out[:] = self.intercept
        if self.coef.shape[1] == 0:
            return out
        coef = np.ascontiguousarray(self.coef.T)
        given = isinstance(self.kernel, Precomputed)
        if not given and is_small(*self.vectors.shape):
            self._decide_exactly(X, coef, out)
            return out
        cols = self.columns if given else np.arange(len(coef))
        step = block_rows(X.shape[1], max_bytes)
        with open_workers(n_jobs) as workers:
            for start in range(0, X.shape[0], step):
                part = X[start : start + step]
                queries = self.kernel.prepare(part, like=None if given else self._points)
                target = queries if given else self._points
                self.kernel.accumulate(
                    queries, np.arange(len(queries)), target, cols, coef,
                    out[start : start + step], workers,
                )  # fmt: skip
        if not given:
            resolve_far(self.kernel, self.vectors, X, coef, self.intercept, out)
        return out

    def _decide_exactly(self, X: Any, coef: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """Add the expansion to ``out`` in float64 throughout: small models afford it."""
        for start in range(0, X.shape[0], EXACT_QUERIES):
            part = X[start : start + EXACT_QUERIES]
            # Row by row in a fixed order, so that a row's answer does not depend on its company.
            out[start : start + EXACT_QUERIES] += np.einsum(
                "ij,jp->ip", self.kernel.exact(part, self.vectors), coef
            )


def resolve_far(
    kernel: Kernel,
    vectors: Any,
    X: Any,
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Compute the decisions anew, in float64, at queries that are far from all support vectors.

    All kernel values are beyond the range of float32 there. That matters for the sign of a function
    without intercept, and with a narrow kernel for every hundredth query (ijcnn1, gamma = 1024).
    """
    beyond = FAR_FACTOR * kernel.floor * np.abs(coef).sum(axis=0)
    far = np.flatnonzero(
        ((np.abs(out) <= beyond) & (intercept == 0.0) & (beyond > 0.0)).any(axis=1)
    )
    step = max(1, FAR_VALUES // max(vectors.shape[1], 1))
    for q in range(0, len(far), FAR_QUERIES):
        rows = far[q : q + FAR_QUERIES]
        out[rows] = intercept
        for v in range(0, vectors.shape[0], step):
            out[rows] += kernel.exact(X[rows], vectors[v : v + step]) @ coef[v : v + step]


def block_rows(n_features: int, max_bytes: int) -> int:
    """Queries to prepare at a time; they may be held as float64."""
    return max(256, int(QUERY_SHARE * max_bytes) // (8 * max(n_features, 1)))


def vote(decisions: NDArray[np.float64], n_classes: int) -> NDArray[np.intp]:
    """Class with most one-vs-one votes, the first of them in a tie (LIBSVM's rule)."""
    votes, _ = _count_votes(decisions, n_classes)
    return votes.argmax(axis=1)


def score_classes(decisions: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """One-vs-one decisions as one score per class: votes, ties broken by summed confidence.

    The confidence is squeezed below one third, so that it never outweighs a vote.
    """
    votes, confidence = _count_votes(decisions, n_classes)
    return votes + confidence / (3.0 * (np.abs(confidence) + 1.0))


def _count_votes(
    decisions: NDArray[np.float64], n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    votes = np.zeros((len(decisions), n_classes))
    confidence = np.zeros_like(votes)
    for p, (a, b) in enumerate(class_pairs(n_classes)):
        # The function of a pair is positive for its second class; LIBSVM gives exact zeros to b.
        wins = decisions[:, p] >= 0
        votes[wins, b] += 1
        votes[~wins, a] += 1
        confidence[:, b] += decisions[:, p]
        confidence[:, a] -= decisions[:, p]
    return votes, confidence
