"""Dual coordinate descent and stochastic descent for machines that are linear in tables of codes.

The descent is that of Hsieh, Chang, Lin, Keerthi and Sundararajan (2008), with their shrinking and
stopping rule, for one class against the rest. It runs for several classes at once: a row is made up
from its codes once for all of them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.kernels import Intersection
from widemargin.parallel import Workers
from widemargin.solvers import additive_fast as fast
from widemargin.solvers.additive_fast import Rows
from widemargin.tables.quantiser import Codes

#: Classes that share a pass at most. Fixed, so that answers do not depend on the number of threads.
CLASSES_AT_ONCE = 8
#: Most rows for which the kernel between all of them is kept.
MAX_GRAM_ROWS = 16_384
#: Rows whose decision values a thread computes at a time.
DECIDE_ROWS = 256
#: An approximate descent has diverged when the violation is so many times the smallest it had.
DIVERGED = 100.0
#: Violation and passes to which small problems are finished, where that costs nothing.
SMALL_TOL, SMALL_PASSES = 1e-11, 20_000

#: From worst to best.
STOP_REASONS = ("diverged", "max_time", "max_iter", "converged")

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class DualProblem:
    """One-vs-rest problems on the same rows.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Class of every row.
    positives : ndarray of shape (n_problems,)
        Class that each problem asks about.
    upper : ndarray of shape (n,)
        Largest dual coefficient; infinite for the squared hinge loss.
    ridge : ndarray of shape (n,)
        What the squared hinge loss adds to the diagonal.
    norms : ndarray of shape (n,)
        Diagonal of the kernel matrix.
    """

    labels: NDArray[np.int64]
    positives: NDArray[np.int64]
    upper: FloatArray
    ridge: FloatArray
    norms: FloatArray


@dataclass(frozen=True)
class Descent:
    """How long to go on.

    Attributes
    ----------
    tol : float
        Stop when the projected gradients of a problem differ by less.
    max_iter : int
        Passes over the data.
    deadline : float or None
        Time at which to stop.
    seed : int
        For the order of rows.
    finish : bool
        Whether to go on, once stopped, to the precision of float64.
    """

    tol: float
    max_iter: int
    deadline: float | None = None
    seed: int = 0
    finish: bool = False


@dataclass(frozen=True)
class LinearResult:
    """Solutions of one-vs-rest problems.

    Attributes
    ----------
    coef : ndarray of shape (n_problems, n_features * rank)
        Coefficients; of rows that are bins, the decision curves.
    extra : ndarray of shape (n_problems, n_extra)
        Coefficients of the extra numbers.
    alpha : ndarray of shape (n, n_problems)
        Dual coefficients, not negative.
    n_iter : ndarray of shape (n_problems,)
        Passes.
    violation : ndarray of shape (n_problems,)
        Spread of the projected gradients in the last pass.
    stop_reason : str
        ``"converged"``, ``"max_iter"``, ``"max_time"`` or ``"diverged"``.
    """

    coef: NDArray[Any]
    extra: NDArray[Any]
    alpha: FloatArray
    n_iter: NDArray[np.int64]
    violation: FloatArray
    stop_reason: str


def table_rows(
    codes: Codes,
    read: FloatArray,
    write: FloatArray | None,
    scale: FloatArray,
    extra: tuple[FloatArray, FloatArray] | None,
    dtype: type,
) -> Rows:
    """Rows from codes and tables.

    Parameters
    ----------
    codes : Codes
        Of the data.
    read, write : ndarray of shape (n_codes, rank)
        Numbers of each code; None for ``write`` if it is the same.
    scale : ndarray of shape (n_features,)
        Factor on the kernel of each feature.
    extra : pair of ndarray of shape (n_rows, n_extra), or None
        Numbers beside the features, when read and when added.
    dtype : type
        float32, or float64 where digits count.
    """
    rank = -(-read.shape[1] // 4) * 4
    padding = ((0, 0), (0, rank - read.shape[1]))
    flat: NDArray[Any] = np.pad(read, padding).ravel().astype(dtype)
    return _rows(
        kind=fast.SPARSE if codes.is_sparse else fast.DENSE, codes=codes, rank=rank, read=flat,
        write=flat if write is None else np.pad(write, padding).ravel().astype(dtype),
        scale=np.repeat(scale, rank).astype(dtype), extra=extra, dtype=dtype,
        is_symmetric=write is None,
    )  # fmt: skip


def bin_rows(
    codes: Codes,
    offsets: NDArray[np.int64],
    levels: FloatArray,
    scale: FloatArray,
    extra: tuple[FloatArray, FloatArray] | None,
    dtype: type,
) -> Rows:
    """Rows for the intersection kernel.

    Parameters
    ----------
    codes : Codes
        Of the data.
    offsets : ndarray of shape (n_features + 1,)
        Where the bins of each feature begin.
    levels : ndarray of shape (n_codes,)
        Value of each code, ascending.
    scale : ndarray of shape (n_features,)
        Factor on the kernel of each feature.
    extra, dtype
        As in `table_rows`.
    """
    return _rows(
        kind=fast.BINS, codes=codes, rank=1, offsets=offsets, read=levels.astype(dtype),
        scale=scale.astype(dtype), extra=extra, dtype=dtype, is_symmetric=True,
    )  # fmt: skip


def plain_rows(read: NDArray[Any], write: NDArray[Any] | None) -> Rows:
    """Rows whose numbers are given; None for ``write`` if it is the same."""
    n, rank = read.shape
    return _rows(
        kind=fast.PLAIN, codes=_no_codes(n), rank=rank, plain_read=read.ravel(),
        plain_write=(read if write is None else write).ravel(), scale=np.ones(rank, read.dtype),
        dtype=read.dtype, is_symmetric=write is None,
    )  # fmt: skip


def _no_codes(n_rows: int) -> Codes:
    return Codes(np.empty(0, np.uint8), np.empty(0, np.int32), np.zeros(n_rows + 1, np.int64), 0)


def _rows(
    *, kind: int, codes: Codes, rank: int, dtype: Any, is_symmetric: bool, extra: Any = None,
    **arrays: Any,
) -> Rows:  # fmt: skip
    no_floats = np.empty(0, dtype)
    read, write = (np.empty((len(codes), 0)),) * 2 if extra is None else extra
    return Rows(
        kind=kind, codes=codes.values, indices=codes.indices, indptr=codes.indptr,
        n_features=codes.n_features, rank=rank,
        read=arrays.get("read", no_floats), write=arrays.get("write", no_floats),
        scale=arrays.get("scale", no_floats),
        plain_read=arrays.get("plain_read", no_floats),
        plain_write=arrays.get("plain_write", no_floats),
        n_extra=read.shape[1], extra_read=np.ascontiguousarray(read, dtype).ravel(),
        extra_write=np.ascontiguousarray(write, dtype).ravel(),
        offsets=arrays.get("offsets", np.empty(0, np.int64)), is_whole=not codes.is_sparse,
        is_symmetric=is_symmetric,
    )  # fmt: skip


def count_coefs(rows: Rows) -> int:
    """Coefficients of one class."""
    if rows.kind == fast.BINS:
        return int(rows.offsets[-1])
    return rows.rank if rows.kind >= fast.PLAIN else rows.n_features * rows.rank


def descend(
    rows: Rows,
    problem: DualProblem,
    settings: Descent,
    workers: Workers,
    start: FloatArray | None = None,
    callback: Callable[[int, float], object] | None = None,
) -> LinearResult:
    """Solve the one-vs-rest problems.

    Parameters
    ----------
    rows : Rows
        The data.
    problem : DualProblem
        Labels, bounds and diagonals.
    settings : Descent
        When to stop.
    workers : Workers
        Threads, which share the classes.
    start : ndarray of shape (n, n_problems), optional
        Dual coefficients to start from.
    callback : callable, optional
        Called with the number of the pass and the violation, from the thread that made it.
    """
    if prefers_gram(rows, len(problem.positives)):
        alone = descend(gram_rows(rows, workers), problem, settings, workers, start, callback)
        coef, extra = weigh_bins(rows, problem, alone.alpha)
        return replace(alone, coef=coef, extra=extra)
    n_problems = len(problem.positives)
    n_groups = -(-n_problems // CLASSES_AT_ONCE)
    groups = np.array_split(np.arange(n_problems), n_groups)
    solved: list[LinearResult] = [None] * n_groups  # type: ignore[list-item]

    def solve(first: int, last: int) -> None:
        for g in range(first, last):
            group = _Group(rows, problem, groups[g], start)
            solved[g] = group.solve(settings, workers, callback)

    workers.run(n_groups, solve, grain=1)
    return gather_results(solved)


def gather_results(parts: list[LinearResult]) -> LinearResult:
    """One result of those of several classes; its reason to stop is the worst of theirs."""
    reasons = {part.stop_reason for part in parts}
    return LinearResult(
        coef=np.concatenate([part.coef for part in parts]),
        extra=np.concatenate([part.extra for part in parts]),
        alpha=np.hstack([part.alpha for part in parts]),
        n_iter=np.concatenate([part.n_iter for part in parts]),
        violation=np.concatenate([part.violation for part in parts]),
        stop_reason=next(reason for reason in STOP_REASONS if reason in reasons),
    )


def prefers_gram(rows: Rows, n_problems: int) -> bool:
    """Whether rows of bins are so few that the kernel between all of them saves time.

    A kernel matrix costs half of all pairs of rows, a pass for one class as many values as the curves
    have. The constants are nanoseconds per code, measured on scene15, with ten passes for a class.
    """
    n = len(rows.indptr) - 1
    if rows.kind != fast.BINS or n > MAX_GRAM_ROWS or _dtype(rows) != np.float32:
        return False
    length = rows.offsets[-1] / max(len(rows.offsets) - 1, 1)
    return bool(0.075 * n < 10 * n_problems * (1.0 + 0.1 * length))


def gram_rows(rows: Rows, workers: Workers) -> Rows:
    """Rows of bins by the kernel between all of them."""
    n = len(rows.indptr) - 1
    indices = rows.indices
    if rows.is_whole:
        indices = np.tile(np.arange(rows.n_features, dtype=np.int32), n)
    values = rows.read[rows.codes] * rows.scale[indices]
    kernel = Intersection()
    points = kernel.prepare(sparse.csr_matrix((values, indices, rows.indptr), (n, rows.n_features)))
    K = np.empty((n, n), np.float32)
    kernel.block(points, np.arange(n), points, np.arange(n), K, workers)
    extra = rows.extra_read.reshape(n, -1)
    K += extra @ extra.T
    return _rows(
        kind=fast.GRAM, codes=_no_codes(n), rank=n, plain_write=K.ravel(), dtype=np.float32,
        scale=np.ones(n, np.float32), is_symmetric=True,
    )  # fmt: skip


def weigh_bins(
    rows: Rows, problem: DualProblem, alpha: FloatArray
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Curves of every class, and what belongs to its extra numbers, of dual coefficients."""
    signed = np.where(problem.labels[:, None] == problem.positives, alpha, -alpha)
    coef = np.empty((len(problem.positives), count_coefs(rows)), _dtype(rows))
    curves = np.empty(coef.shape[1])
    for k, factors in enumerate(np.ascontiguousarray(signed.T)):
        fast.curves_of_rows(
            rows.codes, rows.indices, rows.is_whole, rows.indptr, rows.offsets, rows.read, rows.scale,
            factors, curves,
        )  # fmt: skip
        coef[k] = curves
    return coef, signed.T @ rows.extra_write.reshape(len(signed), -1)


class _Group:
    """Descent for a few classes that share passes."""

    def __init__(
        self, rows: Rows, problem: DualProblem, members: NDArray[np.intp], start: FloatArray | None
    ) -> None:
        self.rows = rows
        self.info = np.column_stack(
            [problem.labels, problem.upper, problem.ridge, problem.norms]
        ).ravel()
        self.positives = problem.positives[members]
        n, k = len(problem.labels), len(members)
        self.alpha = np.zeros((n, k))
        self.resting = np.zeros((n, k), bool)
        self.coef = np.zeros(count_coefs(rows) * k, _dtype(rows))
        self.extra = np.zeros((k, rows.n_extra), _dtype(rows))
        self.highest, self.lowest = np.empty(k), np.empty(k)
        self.is_done = np.zeros(k, bool)
        self.n_iter = np.zeros(k, np.int64)
        self.violation = np.full(k, np.inf)
        if start is not None:
            self.alpha[:] = np.minimum(start[:, members], problem.upper[:, None])
            fast.add_rows(rows, problem.labels, self.positives, self.alpha, self.coef, self.extra)

    def solve(
        self, settings: Descent, workers: Workers, callback: Callable[[int, float], object] | None
    ) -> LinearResult:
        """Go on until all classes are done, or it is time to stop."""
        rng = np.random.default_rng(settings.seed)
        reason = self._descend(settings, settings.tol, settings.max_iter, rng, workers, callback)
        if settings.finish and reason == "converged":
            counts, violation = self.n_iter.copy(), self.violation.copy()
            self.is_done[:] = False
            self.resting[:] = False
            self._descend(settings, SMALL_TOL, SMALL_PASSES, rng, workers, None)
            self.n_iter, self.violation = counts, np.minimum(violation, self.violation)
        return LinearResult(
            _by_class(self.rows, self.coef, len(self.positives)), self.extra, self.alpha,
            self.n_iter, self.violation, reason,
        )  # fmt: skip

    def _descend(
        self,
        settings: Descent,
        tol: float,
        max_iter: int,
        rng: np.random.Generator,
        workers: Workers,
        callback: Callable[[int, float], object] | None,
    ) -> str:
        tops, bottoms = np.full(len(self.positives), np.inf), np.full(len(self.positives), -np.inf)
        best = _Best(self) if not self.rows.is_symmetric else None
        for number in range(max_iter):
            if workers.failed:
                return "max_time"
            order = np.flatnonzero(~self.resting.all(axis=1))
            self._sweep(rng.permutation(order), tops, bottoms)
            going = ~self.is_done
            self.violation[going] = np.maximum(self.highest - self.lowest, 0.0)[going]
            self.n_iter[going] += 1
            self._rest(tol, tops, bottoms)
            if callback is not None:
                callback(number + 1, float(self.violation.max()))
            if best is not None and best.has_diverged():
                best.restore()
                return "diverged"
            if self.is_done.all():
                return "converged"
            if settings.deadline is not None and time.time() > settings.deadline:
                return "max_time"
        if best is not None:
            best.restore()
        return "max_iter"

    def _sweep(self, order: NDArray[np.intp], tops: FloatArray, bottoms: FloatArray) -> None:
        fast.sweep(
            self.rows, order, self.info, self.positives, tops, bottoms, self.alpha.ravel(),
            self.resting.ravel(), self.coef, self.extra, self.highest, self.lowest,
        )  # fmt: skip

    def _rest(self, tol: float, tops: FloatArray, bottoms: FloatArray) -> None:
        """Decide which rows may rest from now on, and which classes are done."""
        for k in np.flatnonzero(~self.is_done):
            if self.violation[k] <= tol:
                # Rows that rested were judged by an older solution: once more with all of them.
                self.is_done[k] = not self.resting[:, k].any()
                self.resting[:, k] = self.is_done[k]
                tops[k], bottoms[k] = np.inf, -np.inf
            else:
                tops[k] = self.highest[k] if self.highest[k] > 0 else np.inf
                bottoms[k] = self.lowest[k] if self.lowest[k] < 0 else -np.inf


class _Best:
    """The best solution an approximate descent has had; it need not get better with every pass."""

    def __init__(self, group: _Group) -> None:
        self.group = group
        self.violation = np.inf
        self.kept: tuple[Any, ...] = ()

    def has_diverged(self) -> bool:
        """Whether the group is far worse than it was; keeps a copy if it is the best so far."""
        now = float(self.group.violation.max())
        if now < self.violation:
            g = self.group
            self.violation = now
            self.kept = (g.coef.copy(), g.extra.copy(), g.alpha.copy(), g.violation.copy())
        return not now <= DIVERGED * self.violation

    def restore(self) -> None:
        """Go back to the best solution."""
        if self.kept:
            self.group.coef, self.group.extra, self.group.alpha, self.group.violation = self.kept


def decide(rows: Rows, coef: NDArray[Any], extra: NDArray[Any], workers: Workers) -> FloatArray:
    """Values of all decision functions at all rows, shape (n, n_problems)."""
    n_problems = len(coef)
    flat = np.ascontiguousarray(_in_order(rows, coef), _dtype(rows))
    extra = np.ascontiguousarray(extra, _dtype(rows))
    out = np.empty((len(rows.indptr) - 1, n_problems))
    workers.run(
        len(out), lambda i, j: fast.decide_rows(rows, i, j, flat, extra, out), grain=DECIDE_ROWS
    )
    return out


def _dtype(rows: Rows) -> Any:
    return rows.extra_read.dtype


@dataclass
class StochasticState:
    """Coefficients in the course of stochastic descent.

    Attributes
    ----------
    coef : ndarray, one-dimensional
        Coefficients of all classes, each divided by its scale; the order is that of the rows.
    extra : ndarray of shape (n_problems, n_extra)
        Of the extra numbers, divided alike.
    scales : ndarray of shape (n_problems,)
        The scales.
    n_steps : int
        Steps made.
    """

    coef: NDArray[Any]
    extra: NDArray[Any]
    scales: FloatArray
    n_steps: int = 0


def stochastic_pass(
    rows: Rows,
    order: NDArray[np.intp],
    labels: NDArray[np.int64],
    positives: NDArray[np.int64],
    weights: FloatArray,
    norms: FloatArray,
    state: StochasticState,
    *,
    penalty: float,
    delay: float,
    is_squared: bool,
) -> None:
    """Steps ``1 / (penalty (t + delay))`` along the subgradient of one row each (Algorithm 4).

    Minimises ``penalty / 2 |w|^2 + mean of weighted losses``. Updates ``state``.
    """
    state.n_steps = fast.stochastic_steps(
        rows, order, labels, positives, weights, norms, state.n_steps, penalty, delay, is_squared,
        state.scales, state.coef, state.extra,
    )  # fmt: skip
    # Scales fall like 1 / t: bring them back before digits get lost.
    by_class = _by_class(rows, state.coef, len(positives))
    by_class *= state.scales[:, None]
    state.coef[:] = _in_order(rows, by_class)
    state.extra *= state.scales[:, None]
    state.scales[:] = 1.0


def start_stochastic(rows: Rows, n_problems: int) -> StochasticState:
    """Coefficients of zero."""
    return StochasticState(
        np.zeros(count_coefs(rows) * n_problems, _dtype(rows)),
        np.zeros((n_problems, rows.n_extra), _dtype(rows)),
        np.ones(n_problems),
    )


def set_stochastic(rows: Rows, state: StochasticState, coef: NDArray[Any]) -> None:
    """Continue from coefficients of every class, shape (n_problems, n_coefs)."""
    state.coef[:] = _in_order(rows, coef)


def stochastic_coefs(rows: Rows, state: StochasticState) -> NDArray[Any]:
    """Coefficients of every class, shape (n_problems, n_coefs)."""
    return _by_class(rows, state.coef, len(state.scales))


def _by_class(rows: Rows, flat: NDArray[Any], n_problems: int) -> NDArray[Any]:
    """Coefficients by class of those in the order of the compiled loops; a copy."""
    if rows.kind == fast.SPARSE:
        return np.ascontiguousarray(flat.reshape(-1, n_problems).T)
    return flat.reshape(n_problems, -1).copy()


def _in_order(rows: Rows, by_class: NDArray[Any]) -> NDArray[Any]:
    """Coefficients in the order of the compiled loops."""
    return (by_class.T if rows.kind == fast.SPARSE else by_class).ravel()
