"""Models that are kernel expansions: weighted sums of kernels at support vectors."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.kernels import Index, Kernel, Points, Precomputed, is_small
from widemargin.parallel import Workers, open_workers
from widemargin.problem import class_pairs

#: Bytes that a prediction may hold if nothing is said.
DECIDE_BYTES = 2**28
#: Share of the memory budget that a block of queries, prepared for the kernel, may take.
QUERY_SHARE = 0.25
#: Queries a small model answers at a time.
EXACT_QUERIES = 1024

#: Decisions up to so many times what kernel values out of range can add up to are computed anew,
#: with values enlarged by so many powers of two more each time, to the end of what float64 holds.
FAR_FACTOR, FAR_STEP, FAR_END = 1000.0, 90, 1000


class Prepared:
    """Vectors made ready for a kernel when they are first needed; that is not pickled."""

    kernel: Kernel
    vectors: Any

    @cached_property
    def _points(self) -> Points:
        return self.kernel.prepare(self.vectors)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_points"}


class Expansion(Prepared):
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

    def decide(
        self, X: Any, *, max_bytes: int = DECIDE_BYTES, n_jobs: int | None
    ) -> NDArray[np.float64]:
        """Values of all functions at the rows of ``X``, shape (n, n_functions)."""
        out = np.empty((X.shape[0], len(self.coef)))
        out[:] = self.intercept
        if self.coef.shape[1] == 0:
            return out
        coef = np.ascontiguousarray(self.coef.T)
        given = isinstance(self.kernel, Precomputed)
        if not given and is_small(*self.vectors.shape):
            with np.errstate(over="ignore", invalid="ignore"):
                self._decide_exactly(X, coef, out)
            require_finite(out)
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
                resolve_far(
                    self.kernel, queries, np.arange(len(queries)), target, cols, coef,
                    self.intercept, out[start : start + step], workers,
                )  # fmt: skip
                if not given:
                    self._mend_overflows(part, coef, out[start : start + step])
        require_finite(out)
        return out

    def _mend_overflows(self, X: Any, coef: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """Compute in float64 what overflows float32: a wild value, or a power of a large one."""
        is_wild = ~np.isfinite(out).all(axis=1) | find_wild_rows(X, self.kernel.largest_query)
        rows = np.flatnonzero(is_wild)
        if len(rows):
            mended = np.tile(self.intercept, (len(rows), 1))
            with np.errstate(over="ignore", invalid="ignore"):
                self._decide_exactly(X[rows], coef, mended)
            out[rows] = mended

    def _decide_exactly(self, X: Any, coef: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """Add the expansion to ``out`` in float64 throughout: small models afford it."""
        for start in range(0, X.shape[0], EXACT_QUERIES):
            part = X[start : start + EXACT_QUERIES]
            # Row by row in a fixed order, so that a row's answer does not depend on its company.
            out[start : start + EXACT_QUERIES] += np.einsum(
                "ij,jp->ip", self.kernel.exact(part, self.vectors), coef
            )


def find_wild_rows(X: Any, largest: float) -> NDArray[np.bool_]:
    """Mark rows with a value beyond ``largest``; nearly always there are none."""
    n_rows = X.shape[0]
    # Things that are no numbers have no size, and their kernels have no limit.
    if largest == np.inf or max(X.max(), -X.min()) <= largest or not n_rows:
        return np.zeros(n_rows, bool)
    sizes = abs(X).max(axis=1)
    return np.asarray(sizes.toarray() if sparse.issparse(sizes) else sizes).ravel() > largest


def require_finite(decisions: NDArray[np.float64]) -> None:
    """Refuse queries whose decision values overflow."""
    is_finite = np.isfinite(decisions).all(axis=1)
    if not is_finite.all():
        raise ValueError(
            f"X: row {int(np.argmin(is_finite))} has values so large that its decision value "
            "overflows; scale the queries like the training data, or leave such rows out"
        )


def resolve_far(
    kernel: Kernel, queries: Points, rows: Index, vectors: Points, cols: Index,
    coef: NDArray[np.float64], intercept: NDArray[np.float64], out: NDArray[np.float64],
    workers: Workers,
) -> None:  # fmt: skip
    """Compute anew what functions without intercept are far from all support vectors.

    All kernel values are beyond the range of float32 there, yet the sign depends on them; with a
    narrow kernel that is a good part of the queries (ijcnn1, gamma = 1024). Taking something off the
    norm of a query multiplies all its kernel values by a power of two, which brings them into range.
    """
    beyond = FAR_FACTOR * kernel.floor * np.abs(coef).sum(axis=0)
    # Each function by itself: a query may be far from the support vectors of one and near others'.
    is_far = (np.abs(out) <= beyond) & (intercept == 0.0) & (beyond > 0.0)
    for shift in range(FAR_STEP, FAR_END, FAR_STEP):
        far = np.flatnonzero(is_far.any(axis=1))
        if not len(far):
            return
        nearer = replace(queries, norms=queries.norms - queries.norms.dtype.type(shift))
        values = np.zeros((len(far), coef.shape[1]))
        kernel.accumulate(nearer, rows[far], vectors, cols, coef, values, workers)
        out[far] = np.where(is_far[far], values * 2.0**-shift, out[far])
        is_far[far] &= np.abs(values) <= beyond


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


def class_scores(
    decisions: NDArray[np.float64], n_classes: int, one_vs_one: bool
) -> NDArray[np.float64]:
    """Decisions of all binary problems as `decision_function` returns them."""
    if n_classes == 2:
        return decisions.ravel()
    return score_classes(decisions, n_classes) if one_vs_one else decisions


def class_numbers(
    decisions: NDArray[np.float64], n_classes: int, one_vs_one: bool
) -> NDArray[np.intp]:
    """Predicted class of every row by the decisions of all binary problems."""
    if n_classes == 2:
        return (decisions.ravel() >= 0).astype(np.intp)
    return vote(decisions, n_classes) if one_vs_one else decisions.argmax(axis=1)


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
