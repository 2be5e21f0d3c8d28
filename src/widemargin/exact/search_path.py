"""The solutions of one fold along growing costs, each from the one before.

All calls of the solver that a search makes are here.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin.callbacks import Progress
from widemargin.deadline import is_late, time_left
from widemargin.exact.search_folds import FloatArray, Fold, FoldProblem
from widemargin.exact.several_problems import Task
from widemargin.exact.solution import Limits, Result
from widemargin.exact.solve import solve_exactly
from widemargin.exact.stored_kernel import Rows
from widemargin.parallel import Workers

#: From best to worst; a fit of several problems reports the worst.
STOP_REASONS = ("converged", "stalled", "max_iter", "max_time")
#: Share of the bound from which a dual variable counts as being at it.
AT_BOUND = 1.0 - 1e-6


@dataclass(frozen=True)
class PathSettings:
    """What all solutions of a search have in common.

    ``epsilon`` is half the width of the tube in regression, None in classification. ``deadline`` is
    when to stop. ``is_interrupted`` says whether another thread has failed.
    """

    tol: float
    max_iter: int
    intercept: bool
    max_bytes: int
    seed: int
    deadline: float | None
    is_interrupted: Callable[[], bool]
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
    stop_reason : str
        The worst among the problems of the fold.
    fit_seconds, score_seconds : float
        Time for the solution and for the decision values.
    """

    cost: float
    decisions: FloatArray
    stop_reason: str
    fit_seconds: float
    score_seconds: float


class SearchInterruptedError(Exception):
    """Ends a path because another one failed, or the user pressed Ctrl-C."""


def walk_costs(rows: Rows, fold: Fold, costs: FloatArray, settings: PathSettings) -> Iterator[Step]:
    """Solve a fold for ascending costs; ends early when time is up.

    Once no dual variable is at its bound, the solution is that of all larger costs, too.
    """
    results: list[Result] | None = None
    before, is_final, step = 0.0, False, None
    for cost in costs:
        if is_final and step is not None:
            yield Step(cost, step.decisions, step.stop_reason, 0.0, 0.0)
            continue
        if is_late(settings.deadline):
            return
        began = time.perf_counter()
        results = _solve(rows, fold, _make_tasks(fold, cost, before, results, settings), settings)
        reason = max((r.stop_reason for r in results), key=STOP_REASONS.index)
        if reason == "max_time":
            return
        solved = time.perf_counter()
        coef, offset = _collect(fold, results, rows.X.shape[0])
        decisions = _decide(rows, fold.test, coef, offset)
        scored = time.perf_counter()
        step = Step(cost, decisions, reason, solved - began, scored - solved)
        is_final = reason == "converged" and not any(
            _touches_bound(problem, result, cost)
            for problem, result in zip(fold.problems, results, strict=True)
        )
        before = cost
        yield step


def _make_tasks(
    fold: Fold, cost: float, before: float, results: list[Result] | None, settings: PathSettings
) -> list[Task]:
    starts: list[Any] = [None] * len(fold.problems)
    if results is not None:
        starts = [
            _scale_start(problem, result.coef, before, cost)
            for problem, result in zip(fold.problems, results, strict=True)
        ]
    make = _class_task if settings.epsilon is None else _regression_task
    return [
        make(problem, cost, start, settings.epsilon)
        for problem, start in zip(fold.problems, starts, strict=True)
    ]


def _scale_start(problem: FoldProblem, coef: FloatArray, before: float, cost: float) -> FloatArray:
    """Where to begin: if most support vectors are at their bound, they move to the new one."""
    bounds = np.resize(before * problem.weights, len(coef))
    n_bounded = np.count_nonzero(np.abs(coef) >= AT_BOUND * bounds)
    return coef * (cost / before) if 2 * n_bounded > np.count_nonzero(coef) else coef


def _touches_bound(problem: FoldProblem, result: Result, cost: float) -> bool:
    bounds = np.resize(cost * problem.weights, len(result.coef))
    return bool((np.abs(result.coef) >= AT_BOUND * bounds).any())


def _class_task(
    problem: FoldProblem, cost: float, start: FloatArray | None, epsilon: float | None
) -> Task:
    return Task(problem.index, problem.target, cost * problem.weights, start)


def _regression_task(
    problem: FoldProblem, cost: float, start: FloatArray | None, epsilon: float | None
) -> Task:
    """The problem on the positive and negative parts of the dual variables."""
    assert epsilon is not None
    return Task(
        np.tile(problem.index, 2), np.repeat([1.0, -1.0], len(problem.index)),
        np.tile(cost * problem.weights, 2), start, is_mirrored=True,
        linear=np.concatenate([epsilon - problem.target, -epsilon - problem.target]),
    )  # fmt: skip


def _solve(rows: Rows, fold: Fold, tasks: list[Task], settings: PathSettings) -> list[Result]:
    def listen(_: int, __: Progress) -> None:
        if settings.is_interrupted():
            raise SearchInterruptedError

    limits = Limits(
        settings.tol, settings.max_iter, time_left(settings.deadline), settings.max_bytes,
        all_or_nothing=True,
    )  # fmt: skip
    return solve_exactly(
        rows.kernel, rows.X, rows.points, tasks, Workers(1, None), intercept=settings.intercept,
        limits=limits, seed=settings.seed, callback=listen,
    )  # fmt: skip


def _collect(fold: Fold, results: list[Result], n_rows: int) -> tuple[FloatArray, FloatArray]:
    """Coefficients of all rows for every problem, and the intercepts."""
    coef = np.zeros((n_rows, len(results)))
    for p, (problem, result) in enumerate(zip(fold.problems, results, strict=True)):
        coef[problem.index, p] = result.coef.reshape(-1, len(problem.index)).sum(axis=0)
    return coef, np.array([result.intercept for result in results])


def _decide(rows: Rows, test: Any, coef: FloatArray, offset: FloatArray) -> FloatArray:
    """Decision values of some rows."""
    support = np.flatnonzero(coef.any(axis=1))
    out = np.tile(offset, (len(test), 1))
    if len(support):
        rows.kernel.accumulate(
            rows.points, test, rows.points, support, np.ascontiguousarray(coef[support]), out,
            Workers(1, None),
        )  # fmt: skip
    return out
