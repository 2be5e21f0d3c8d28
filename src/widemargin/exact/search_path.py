"""The solutions of one fold along growing costs, each from the one before.

All calls of the solver that a search makes are here.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin.budget import Budget, StopReason, worst_reason
from widemargin.callbacks import Progress
from widemargin.deadline import is_late
from widemargin.exact.dual_problem import DualProblem, classification_dual
from widemargin.exact.float64_finish import ExactMatrix
from widemargin.exact.kernel_matrix import KeptGram
from widemargin.exact.search_folds import FloatArray, Fold
from widemargin.exact.solution import Solution
from widemargin.exact.solve import solve_exactly
from widemargin.exact.stored_kernel import ENTRY_BYTES, Rows, StoredPoints
from widemargin.kernels import is_small
from widemargin.parallel import Workers

#: Share of the bound from which a dual variable counts as being at it.
AT_BOUND = 1.0 - 1e-6
#: Violation by float32 kernel values that a search accepts. It changes decision values as much, where
#: the margin of a class is one.
FLOAT32_ERROR = 0.02
#: Tolerance from which solutions are rough, as those of samples are.
ROUGH_TOL = 0.1
#: Most rows of a problem whose kernel matrix is copied once for all costs. With 16,000 rows that took
#: half of the time; nothing larger was measured.
KEPT_ROWS = 20_000


@dataclass(frozen=True)
class PathSettings:
    """What all solutions of a search have in common.

    ``epsilon`` is half the width of the tube in regression, None in classification.
    """

    budget: Budget
    intercept: bool
    seed: int
    epsilon: float | None = None


@dataclass(frozen=True)
class Step:
    """The solution of a fold for one cost.

    Attributes
    ----------
    cost : float
        C.
    decisions : ndarray of shape (n_test, n_problems)
        Decision values of the held-out rows.
    stop_reason : StopReason
        The worst among the problems of the fold.
    fit_seconds, score_seconds : float
        Time for the solution and for the decision values.
    """

    cost: float
    decisions: FloatArray
    stop_reason: StopReason
    fit_seconds: float
    score_seconds: float


def walk_costs(
    rows: Rows, fold: Fold, costs: FloatArray, settings: PathSettings, alone: Workers
) -> Iterator[Step]:
    """Solve a fold for ascending costs in one thread; ends early when time is up.

    Once no dual variable is at its bound, the solution is that of all larger costs, too.
    """
    solutions: list[Solution] = []
    grams = _keep_matrices(rows, fold, settings.budget, alone)
    before, is_final, step = 0.0, False, None
    for cost in costs:
        if is_final and step is not None:
            yield Step(cost, step.decisions, step.stop_reason, 0.0, 0.0)
            continue
        if is_late(settings.budget.deadline):
            return
        began = time.perf_counter()
        duals = _make_duals(fold, cost, _starts(solutions, before, cost), settings)
        solutions = _solve(rows, duals, grams, settings, alone)
        reason = worst_reason(found.stop_reason for found in solutions)
        if reason is StopReason.MAX_TIME:
            return
        solved = time.perf_counter()
        coef, offset = _collect(fold, solutions, rows.X.shape[0])
        decisions = _decide(rows, fold.test, coef, offset, alone)
        step = Step(cost, decisions, reason, solved - began, time.perf_counter() - solved)
        is_final = reason is StopReason.CONVERGED and not any(
            _touches_bound(dual, found) for dual, found in zip(duals, solutions, strict=True)
        )
        before = cost
        yield step


def _starts(
    solutions: list[Solution], before: float, cost: float
) -> Callable[[int, FloatArray], FloatArray | None]:
    """Where to begin: if most support vectors are at their bound, they move to the new one."""

    def start(number: int, bounds: FloatArray) -> FloatArray | None:
        if not solutions:
            return None
        coef = solutions[number].coef
        n_bounded = np.count_nonzero(np.abs(coef) * cost >= AT_BOUND * before * bounds)
        return coef * (cost / before) if 2 * n_bounded > np.count_nonzero(coef) else coef

    return start


def _make_duals(
    fold: Fold, cost: float, start: Callable[[int, FloatArray], Any], settings: PathSettings
) -> list[DualProblem]:
    """The dual problems of a fold; ``start`` says where each begins."""
    duals = []
    for number, problem in enumerate(fold.problems):
        bounds = cost * problem.weights
        begin = start(number, bounds)
        if settings.epsilon is None:
            dual = classification_dual(
                problem.index, problem.target, bounds, intercept=settings.intercept, start=begin
            )
        else:
            dual = DualProblem(
                problem.index, -problem.target, -bounds, bounds, epsilon=settings.epsilon,
                total=0.0, start=begin,
            )  # fmt: skip
        duals.append(dual)
    return duals


def _touches_bound(dual: DualProblem, found: Solution) -> bool:
    bounds = np.maximum(dual.upper, -dual.lower)
    return bool((np.abs(found.coef) >= AT_BOUND * bounds).any())


def _keep_matrices(rows: Rows, fold: Fold, budget: Budget, alone: Workers) -> list[KeptGram] | None:
    """The kernel matrices of the problems of a fold, which all costs share.

    None where they are not copied from a stored matrix, or are too large. While the largest is used,
    the solver holds a copy of some of its rows and columns.
    """
    indices = {id(problem.index): problem.index for problem in fold.problems}
    entries = [len(index) ** 2 for index in indices.values()]
    fits = ENTRY_BYTES * (sum(entries) + max(entries)) <= budget.cache_bytes
    if not (fits and isinstance(rows.points, StoredPoints)) or max(entries) > KEPT_ROWS**2:
        return None
    diag = rows.kernel.diag(rows.points)
    grams = {
        key: KeptGram(rows.kernel, rows.points, alone, index, diag=diag)
        for key, index in indices.items()
    }
    return [grams[id(problem.index)] for problem in fold.problems]


def _solve(
    rows: Rows,
    duals: list[DualProblem],
    grams: list[KeptGram] | None,
    settings: PathSettings,
    alone: Workers,
) -> list[Solution]:
    def listen(_: int, __: Progress) -> None:
        alone.require_success()

    return solve_exactly(
        rows.kernel, rows.X, rows.points, duals, alone, budget=settings.budget,
        seed=settings.seed, callback=listen, float32_error=FLOAT32_ERROR, grams=grams,
        is_rough=settings.budget.tol >= ROUGH_TOL,
    )  # fmt: skip


def _collect(fold: Fold, solutions: list[Solution], n_rows: int) -> tuple[FloatArray, FloatArray]:
    """Coefficients of all rows for every problem, and the intercepts."""
    coef = np.zeros((n_rows, len(solutions)))
    for p, (problem, found) in enumerate(zip(fold.problems, solutions, strict=True)):
        coef[problem.index, p] = found.coef
    return coef, np.array([found.intercept for found in solutions])


def _decide(
    rows: Rows, test: Any, coef: FloatArray, offset: FloatArray, alone: Workers
) -> FloatArray:
    """Decision values of some rows."""
    support = np.flatnonzero(coef.any(axis=1))
    out = np.tile(offset, (len(test), 1))
    if len(support) and is_small(*rows.X.shape):
        # As a model of few rows predicts: in float64.
        out += (
            ExactMatrix(rows.kernel, rows.X, np.arange(len(coef))).block(test, support)
            @ coef[support]
        )
    elif len(support):
        rows.kernel.accumulate(
            rows.points, test, rows.points, support, np.ascontiguousarray(coef[support]), out,
            alone,
        )  # fmt: skip
    return out
