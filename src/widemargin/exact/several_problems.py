"""Several binary problems on the same points, solved one after another or in parallel."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Lock

import numpy as np

from widemargin.budget import Budget
from widemargin.callbacks import Progress
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.full_matrix import fits_whole, solve_whole
from widemargin.exact.kernel_matrix import CachedGram, Gram, make_grams
from widemargin.exact.sampled_descent import solve_box_qp
from widemargin.exact.shared_blocks import BlockGram, share_blocks
from widemargin.exact.solution import Solution
from widemargin.kernels import Index, Kernel, Points
from widemargin.memory import Buffers
from widemargin.parallel import Workers

#: Fewest problems per thread for which each thread solves problems of its own.
SIDE_BY_SIDE = 2


class SolveInterruptedError(Exception):
    """Ends a problem because another one failed, or the user pressed Ctrl-C."""


def solve_problems(
    kernel: Kernel,
    points: Points,
    problems: list[DualProblem],
    workers: Workers,
    *,
    budget: Budget,
    seed: int = 0,
    callback: Callable[[int, Progress], object] | None = None,
    buffers: Buffers | None = None,
) -> list[Solution]:
    """Solve all problems; see `solve_box_qp`.

    Threads share the work of one problem, or each thread solves problems of its own if there are
    many, because a small problem does not keep several threads busy. The deadline and memory of
    ``budget`` hold for all problems together, ``max_iter`` for each. ``callback`` is also given the
    number of the problem, by one thread at a time. ``buffers`` of an earlier call are reused.
    """
    n, n_problems = len(points), len(problems)
    share_rows = n_problems > 1 and all(len(problem) == n for problem in problems)
    side_by_side = not share_rows and n_problems >= SIDE_BY_SIDE * workers.n_threads > SIDE_BY_SIDE
    n_parts = workers.n_threads if side_by_side else 1
    helpers = Workers(1, None) if side_by_side else workers
    buffers = Buffers() if buffers is None else buffers
    indices = [problem.index for problem in problems]
    shared = None
    if not share_rows:
        shared = share_blocks(kernel, points, workers, indices, budget, buffers)
    taken = 0 if shared is None else shared.nbytes
    cache_bytes = (budget.cache_bytes - taken) // n_parts
    solutions: dict[int, Solution] = {}
    lock = Lock()

    def listen(p: int, progress: Progress) -> None:
        if workers.failed:
            raise SolveInterruptedError
        if callback is not None:
            with lock:
                callback(p, progress)

    def solve_some(first: int, last: int) -> None:
        mine = Buffers() if side_by_side else buffers
        if shared is not None:
            own = replace(budget, cache_bytes=cache_bytes)
            for p in range(first, last):
                members, order = shared.groups.members[p], shared.groups.orders[p]
                copied = BlockGram(kernel, points, helpers, shared, members, mine)
                found = solve_whole(copied, problems[p].cut(order), own, partial(listen, p))
                solutions[p] = _restore_order(found, order)
            return
        grams = make_grams(kernel, points, helpers, indices[first:last], cache_bytes // 2, mine)
        for p, gram in zip(range(first, last), grams, strict=True):
            own = replace(budget, cache_bytes=_matrix_bytes(cache_bytes, gram))
            solutions[p] = solve_one(gram, problems[p], own, seed=seed, callback=partial(listen, p))

    if side_by_side:
        workers.run(n_problems, solve_some, grain=1)
    else:
        solve_some(0, n_problems)
    return [solutions[p] for p in range(n_problems)]


def solve_one(
    gram: Gram,
    problem: DualProblem,
    budget: Budget,
    *,
    seed: int = 0,
    callback: Callable[[Progress], object] | None = None,
) -> Solution:
    """Solve one problem by the method that suits its size."""
    if fits_whole(len(gram), budget):
        return solve_whole(gram, problem, budget, callback)
    return solve_box_qp(gram, problem, budget, seed=seed, callback=callback)


def _matrix_bytes(cache_bytes: int, gram: Gram) -> int:
    """Return the memory for the working matrix: what the cache of rows does not take."""
    return cache_bytes // (2 if isinstance(gram, CachedGram) else 1)


def _restore_order(found: Solution, order: Index) -> Solution:
    """Return the solution of a problem whose variables had been sorted."""
    coef, gradient = np.empty_like(found.coef), np.empty_like(found.gradient)
    coef[order], gradient[order] = found.coef, found.gradient
    return replace(found, coef=coef, gradient=gradient)
