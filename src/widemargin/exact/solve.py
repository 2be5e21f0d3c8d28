"""The exact solver's entry: small problems in float64, large ones by tiles and a float64 finish."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from widemargin.budget import Budget, StopReason
from widemargin.callbacks import Progress
from widemargin.exact.active_set import solve_small
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.float64_finish import ExactMatrix, estimate_float32_error, finish_exactly
from widemargin.exact.kernel_matrix import KeptGram
from widemargin.exact.several_problems import solve_problems
from widemargin.exact.solution import Solution
from widemargin.kernels import Index, Kernel, Points, is_small
from widemargin.parallel import Workers, single_blas

#: Small problems share one kernel matrix if together they have at most so many rows, and these rows
#: at most so many values.
SHARED_ROWS, SHARED_VALUES = 2000, 10**7

Listener = Callable[[int, Progress], object]


def solve_exactly(
    kernel: Kernel,
    X: Any,
    points: Points,
    problems: list[DualProblem],
    workers: Workers,
    *,
    budget: Budget,
    seed: int = 0,
    callback: Listener | None = None,
    float32_error: float = 0.0,
    grams: list[KeptGram] | None = None,
    is_rough: bool = False,
) -> list[Solution]:
    """Solve dual problems of any size; see `solve_problems`, also for ``grams``.

    Small problems are solved to the precision of float64. ``X`` are the data of which ``points`` were
    prepared. One-vs-one problems of many classes are small and many, so their overhead matters. A
    solution that converged with float32 kernel values, and is off by no more than ``float32_error``
    by the estimate of `estimate_float32_error`, is not finished in float64. ``is_rough`` says that
    small problems need no such precision either.
    """
    began = time.perf_counter()
    small = [
        p
        for p, problem in enumerate(problems)
        if is_small(len(problem), X.shape[1]) and not is_rough
    ]
    large = sorted(set(range(len(problems))) - set(small))
    solutions: dict[int, Solution] = {}

    def listen(p: int, progress: Progress) -> None:
        if callback is not None:
            callback(p, progress)

    matrices = _exact_matrices(kernel, X, [problems[p].index for p in small])
    for p, K in zip(small, matrices, strict=True):
        solutions[p] = solve_small(K, problems[p], budget)
        listen(p, _describe(solutions[p], time.perf_counter() - began))
    if large:
        scale = float(np.abs(kernel.diag(points)).max())
        solved = solve_problems(
            kernel, points, [problems[p] for p in large], workers, budget=budget, seed=seed,
            callback=lambda p, progress: listen(large[p], progress),
            grams=None if grams is None else [grams[p] for p in large],
        )  # fmt: skip
        for p, found in zip(large, solved, strict=True):
            error = estimate_float32_error(found.coef, scale)
            if error < float32_error and found.stop_reason is StopReason.CONVERGED:
                solutions[p] = replace(found, violation_error=error)
                continue
            K_exact = ExactMatrix(kernel, X, problems[p].index)
            solutions[p] = finish_exactly(K_exact, scale, problems[p], found, budget)
    return [solutions[p] for p in range(len(problems))]


def polish(
    kernel: Kernel, X: Any, points: Points, problem: DualProblem, found: Solution, budget: Budget
) -> Solution:
    """Finish a solution with float64 kernel values where float32 may not be enough."""
    if not is_small(len(problem), X.shape[1]):
        scale = float(np.abs(kernel.diag(points)).max())
        return finish_exactly(ExactMatrix(kernel, X, problem.index), scale, problem, found, budget)
    if found.stop_reason.is_limit:
        return found
    with single_blas():
        K = exact_matrix(kernel, X, problem.index)
        rest = replace(budget, max_iter=max(budget.max_iter - found.n_iter, 0))
        polished = solve_small(
            K, replace(problem, start=found.coef), budget if budget.max_iter < 0 else rest
        )
    return replace(polished, n_iter=found.n_iter + polished.n_iter)


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


def _describe(found: Solution, seconds: float) -> Progress:
    n = len(found.coef)
    return Progress(
        n_seen=n,
        n_total=n,
        n_working=n,
        n_support=int(np.count_nonzero(found.coef)),
        violation=found.violation,
        n_iter=found.n_iter,
        seconds=seconds,
    )
