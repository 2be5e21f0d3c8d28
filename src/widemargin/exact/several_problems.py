"""Several binary problems on the same points, solved one after another or in parallel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock

import numpy as np

from widemargin.budget import Budget
from widemargin.callbacks import Progress
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.full_matrix import fits_whole, solve_whole
from widemargin.exact.kernel_matrix import CachedGram, Gram, KeptGram, make_grams
from widemargin.exact.problem_batch import solve_batch
from widemargin.exact.sampled_descent import solve_box_qp
from widemargin.exact.shared_blocks import BlockGram, SharedBlocks, share_blocks
from widemargin.exact.solution import Solution
from widemargin.kernels import Kernel, Points
from widemargin.memory import Buffers
from widemargin.parallel import Workers

#: Fewest problems per thread for which each thread solves problems of its own.
SIDE_BY_SIDE = 2

#: Takes what a solver reports; a listener also takes the number of the problem.
Reporter = Callable[[Progress], object]
Listener = Callable[[int, Progress], object]


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
    grams: list[KeptGram] | None = None,
) -> list[Solution]:
    """Solve all problems; see `solve_box_qp`.

    Small problems are solved in compiled calls of many (`solve_batch`), the others one by one.
    Threads share the work of one problem, or each thread solves problems of its own if there are
    many, because a small problem does not keep several threads busy. The deadline and memory of
    ``budget`` hold for all problems together, ``max_iter`` for each. ``callback`` is also given the
    number of the problem, by one thread at a time. ``buffers`` of an earlier call are reused.
    ``grams`` are the kernel matrices of the problems, if an earlier call has computed them.
    """
    lock = Lock()

    def listen(p: int, progress: Progress) -> None:
        workers.require_success()
        if callback is not None:
            with lock:
                callback(p, progress)

    report = None if callback is None else listen
    solved = solve_batch(kernel, points, problems, workers, budget, report)
    rest = [p for p in range(len(problems)) if p not in solved]
    if grams is not None:
        for p in rest:
            solved[p] = solve_one(
                grams[p], problems[p], budget, seed=seed, callback=partial(listen, p)
            )
        return [solved[p] for p in range(len(problems))]
    run = _Run(kernel, points, workers, budget, seed, Buffers() if buffers is None else buffers)
    found = run.solve([problems[p] for p in rest], lambda q, progress: listen(rest[q], progress))
    solved.update(zip(rest, found, strict=True))
    return [solved[p] for p in range(len(problems))]


@dataclass(frozen=True)
class _Run:
    """What the problems of a call of `solve_problems` have in common."""

    kernel: Kernel
    points: Points
    workers: Workers
    budget: Budget
    seed: int
    buffers: Buffers

    def solve(self, problems: list[DualProblem], listen: Listener) -> list[Solution]:
        """Solve problems one by one; each thread has problems of its own if there are many."""
        n, n_problems, n_threads = len(self.points), len(problems), self.workers.n_threads
        share_rows = n_problems > 1 and all(len(problem) == n for problem in problems)
        shared = None if share_rows else self._share(problems)
        side_by_side = not share_rows and n_problems >= SIDE_BY_SIDE * n_threads > SIDE_BY_SIDE
        taken = 0 if shared is None else shared.nbytes
        cache_bytes = (self.budget.cache_bytes - taken) // (n_threads if side_by_side else 1)
        part = replace(self, budget=replace(self.budget, cache_bytes=cache_bytes))
        solutions: dict[int, Solution] = {}

        def solve_some(first: int, last: int) -> None:
            own = (
                replace(part, workers=self.workers.alone(), buffers=Buffers())
                if side_by_side
                else part
            )
            some = range(first, last)
            solving = (
                own._solve_alone(
                    [problems[p] for p in some], lambda q, made: listen(first + q, made)
                )
                if shared is None
                else (own._solve_shared(shared, p, problems[p], partial(listen, p)) for p in some)
            )
            solutions.update(zip(some, solving, strict=True))

        if side_by_side:
            self.workers.run(n_problems, solve_some, grain=1)
        else:
            solve_some(0, n_problems)
        return [solutions[p] for p in range(n_problems)]

    def _share(self, problems: list[DualProblem]) -> SharedBlocks | None:
        """Blocks of the kernel matrix that the problems share, if that saves kernel values."""
        indices = [problem.index for problem in problems]
        return share_blocks(
            self.kernel, self.points, self.workers, indices, self.budget, self.buffers
        )

    def _solve_shared(
        self, shared: SharedBlocks, p: int, problem: DualProblem, listen: Reporter
    ) -> Solution:
        """Solve problem ``p`` on shared blocks."""
        members, order = shared.groups.members[p], shared.groups.orders[p]
        gram = BlockGram(self.kernel, self.points, self.workers, shared, members, self.buffers)
        found = solve_whole(gram, problem.cut(order), self.budget, listen)
        coef, gradient = np.empty_like(found.coef), np.empty_like(found.gradient)
        coef[order], gradient[order] = found.coef, found.gradient
        return replace(found, coef=coef, gradient=gradient)

    def _solve_alone(self, problems: list[DualProblem], listen: Listener) -> Iterator[Solution]:
        """Solve problems that share nothing, or a cache of rows if all have all points."""
        indices, cache_bytes = [problem.index for problem in problems], self.budget.cache_bytes
        grams = make_grams(
            self.kernel, self.points, self.workers, indices, cache_bytes // 2, self.buffers
        )
        for q, (problem, gram) in enumerate(zip(problems, grams, strict=True)):
            own = replace(self.budget, cache_bytes=_matrix_bytes(cache_bytes, gram))
            yield solve_one(gram, problem, own, seed=self.seed, callback=partial(listen, q))


def solve_one(
    gram: Gram,
    problem: DualProblem,
    budget: Budget,
    *,
    seed: int = 0,
    callback: Callable[[Progress], object] | None = None,
) -> Solution:
    """Solve one problem by the method that suits its size."""
    if fits_whole(gram, budget) or isinstance(gram, KeptGram):
        return solve_whole(gram, problem, budget, callback)
    return solve_box_qp(gram, problem, budget, seed=seed, callback=callback)


def _matrix_bytes(cache_bytes: int, gram: Gram) -> int:
    """Return the memory for the working matrix: what the cache of rows does not take."""
    return cache_bytes // (2 if isinstance(gram, CachedGram) else 1)
