"""Several binary problems on the same points, solved one after another or in parallel."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock

from widemargin.callbacks import Progress
from widemargin.exact.full_matrix import fits_whole, solve_whole
from widemargin.exact.kernel_matrix import CachedGram, Gram, make_grams
from widemargin.exact.sampled_descent import solve_box_qp
from widemargin.exact.solution import FloatArray, Limits, Result
from widemargin.kernels import Index, Kernel, Points
from widemargin.memory import Buffers
from widemargin.parallel import Workers

#: Fewest problems per thread for which each thread solves problems of its own.
SIDE_BY_SIDE = 2


@dataclass(frozen=True)
class Task:
    """One binary problem: which points, their labels and bounds, and where to begin.

    ``refine`` asks to solve for the support vectors of ``start`` alone first. ``linear`` is the linear
    term, None for minus the labels. ``is_mirrored`` says that ``index`` names every point twice, first
    for the positive parts of all variables, then for the negative ones, as in regression.
    """

    index: Index
    y: FloatArray
    upper: FloatArray
    start: FloatArray | None = None
    refine: bool = False
    linear: FloatArray | None = None
    is_mirrored: bool = False


class SolveInterruptedError(Exception):
    """Ends a problem because another one failed, or the user pressed Ctrl-C."""


def solve_tasks(
    kernel: Kernel,
    points: Points,
    tasks: list[Task],
    workers: Workers,
    *,
    intercept: bool,
    limits: Limits,
    seed: int = 0,
    callback: Callable[[int, Progress], object] | None = None,
    buffers: Buffers | None = None,
) -> list[Result]:
    """Solve all tasks; see `solve_box_qp`.

    Threads share the work of one problem, or each thread solves problems of its own if there are
    many, because a small problem does not keep several threads busy. The time and memory of ``limits``
    hold for all tasks together, ``max_iter`` for each. ``callback`` is also given the number of the
    task, by one thread at a time. ``buffers`` of an earlier call are reused.
    """
    began = time.perf_counter()
    n = len(points)
    share_rows = len(tasks) > 1 and all(len(task.index) == n for task in tasks)
    side_by_side = not share_rows and len(tasks) >= SIDE_BY_SIDE * workers.n_threads > SIDE_BY_SIDE
    n_parts = workers.n_threads if side_by_side else 1
    helpers = Workers(1, None) if side_by_side else workers
    limits = replace(limits, cache_bytes=limits.cache_bytes // n_parts)
    results: dict[int, Result] = {}
    lock = Lock()

    def listen(t: int, progress: Progress) -> None:
        if workers.failed:
            raise SolveInterruptedError
        if callback is not None:
            with lock:
                callback(t, progress)

    def solve_some(first: int, last: int) -> None:
        indices = [task.index for task in tasks[first:last]]
        mine = None if side_by_side else buffers
        grams = make_grams(
            kernel, points, helpers, indices, limits.cache_bytes // 2, mine,
            are_mirrored=tasks[first].is_mirrored,
        )  # fmt: skip
        for t, gram in zip(range(first, last), grams, strict=True):
            task, left = tasks[t], _remaining(limits, time.perf_counter() - began, gram)
            if fits_whole(len(gram), left):
                results[t] = solve_whole(
                    gram, task.y, task.upper, intercept=intercept, limits=left,
                    start=task.start, callback=partial(listen, t), linear=task.linear,
                )  # fmt: skip
            else:
                results[t] = solve_box_qp(
                    gram, task.y, task.upper, intercept=intercept, limits=left,
                    start=task.start, refine=task.refine, seed=seed, callback=partial(listen, t),
                    linear=task.linear,
                )  # fmt: skip

    if side_by_side:
        workers.run(len(tasks), solve_some, grain=1)
    else:
        solve_some(0, len(tasks))
    return [results[t] for t in range(len(tasks))]


def _remaining(limits: Limits, seconds_used: float, gram: Gram) -> Limits:
    """Limits of one problem: what the cache of rows does not take is for the working matrix."""
    share = 2 if isinstance(gram, CachedGram) else 1
    return replace(limits.after(seconds_used), cache_bytes=limits.cache_bytes // share)
