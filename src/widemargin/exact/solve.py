"""The exact solver's entry: small problems in float64, large ones by tiles and a float64 finish."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from widemargin.callbacks import Progress
from widemargin.exact.active_set import solve_small
from widemargin.exact.float64_finish import (
    ExactMatrix,
    estimate_float32_error,
    finish_in_float64,
    judge_in_float64,
)
from widemargin.exact.several_problems import Task, solve_tasks
from widemargin.exact.solution import FloatArray, Limits, Result
from widemargin.kernels import Index, Kernel, Points, is_small
from widemargin.parallel import Workers, single_blas

#: Small problems share one kernel matrix if together they have at most so many rows, and these rows
#: at most so many values.
SHARED_ROWS, SHARED_VALUES = 2000, 10**7

#: Most rows of a problem that is finished with float64 kernel values where float32 may not be enough:
#: where its error is estimated at more than this share of the tolerance.
FINISHED_ROWS, FLOAT32_SHARE = 2500, 0.1

Listener = Callable[[int, Progress], object]


def solve_exactly(
    kernel: Kernel,
    X: Any,
    points: Points,
    tasks: list[Task],
    workers: Workers,
    *,
    intercept: bool,
    limits: Limits,
    seed: int = 0,
    callback: Listener | None = None,
) -> list[Result]:
    """Solve the dual problems of all tasks; see `solve_tasks`.

    Small problems are solved to the precision of float64. ``X`` are the data of which ``points`` were
    prepared. One-vs-one problems of many classes are small and many, so their overhead matters.
    """
    began = time.perf_counter()
    small = [t for t, task in enumerate(tasks) if is_small(len(task.index), X.shape[1])]
    large = sorted(set(range(len(tasks))) - set(small))
    results: dict[int, Result] = {}

    def listen(t: int, progress: Progress) -> None:
        if callback is not None:
            callback(t, progress)

    matrices = _exact_matrices(kernel, X, [tasks[t].index for t in small])
    for t, K in zip(small, matrices, strict=True):
        task, used = tasks[t], time.perf_counter() - began
        results[t] = solve_small(
            K, task.y, task.upper, intercept=intercept, start=task.start, linear=task.linear,
            limits=limits.after(used),
        )  # fmt: skip
        listen(t, _describe(results[t], time.perf_counter() - began))
    if large:
        scale = float(np.abs(kernel.diag(points)).max())
        solved = solve_tasks(
            kernel, points, [tasks[t] for t in large], workers, intercept=intercept,
            limits=limits.after(time.perf_counter() - began), seed=seed,
            callback=lambda t, progress: listen(large[t], progress),
        )  # fmt: skip
        for t, result in zip(large, solved, strict=True):
            left = limits.after(time.perf_counter() - began)
            results[t] = finish_exactly(
                kernel, X, scale, tasks[t], result, intercept=intercept, limits=left
            )
    return [results[t] for t in range(len(tasks))]


def finish_exactly(
    kernel: Kernel, X: Any, kernel_scale: float, task: Task, result: Result, *,
    intercept: bool, limits: Limits,
) -> Result:  # fmt: skip
    """Judge and finish a solution with float64 kernel values, if float32 may not be enough for it."""
    K = ExactMatrix(kernel, X, task.index)
    is_precise = estimate_float32_error(result.coef, kernel_scale) < FLOAT32_SHARE * limits.tol
    n_rows = len(K) // 2 if task.is_mirrored else len(K)
    if not (n_rows <= FINISHED_ROWS or K.has_cheap_products):
        return result
    with single_blas:
        if result.stop_reason in ("max_iter", "max_time"):
            if is_precise:
                return result
            return judge_in_float64(
                K, task.y, task.upper, result, intercept=intercept, linear=task.linear
            )
        if result.stop_reason == "converged" and is_precise:
            return result
        return finish_in_float64(
            K, task.y, task.upper, result, intercept=intercept, limits=limits, linear=task.linear
        )  # fmt: skip


def exact_matrix(kernel: Kernel, X: Any, index: Index) -> FloatArray:
    """Kernel between some rows in float64."""
    everyone = np.arange(len(index))
    return ExactMatrix(kernel, X, index).block(everyone, everyone)


def _exact_matrices(kernel: Kernel, X: Any, indices: list[Index]) -> Iterator[FloatArray]:
    """Kernel matrices of several problems, taken from a common one if that is no larger."""
    rows = np.unique(np.concatenate(indices)) if indices else np.empty(0, np.intp)
    is_cheaper = len(rows) ** 2 <= sum(len(index) ** 2 for index in indices)
    fits = len(rows) <= SHARED_ROWS and len(rows) * X.shape[1] <= SHARED_VALUES
    if len(indices) < 2 or not (is_cheaper and fits):
        yield from (exact_matrix(kernel, X, index) for index in indices)
        return
    whole = exact_matrix(kernel, X, rows)
    for index in indices:
        at = np.searchsorted(rows, index)
        yield whole[np.ix_(at, at)]


def _describe(result: Result, seconds: float) -> Progress:
    n = len(result.coef)
    return Progress(
        n_seen=n,
        n_total=n,
        n_working=n,
        n_support=int(np.count_nonzero(result.coef)),
        violation=result.violation,
        n_iter=result.n_iter,
        seconds=seconds,
    )
