"""Many classification problems of few rows, solved in compiled calls of many problems each."""

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from widemargin.budget import Budget
from widemargin.callbacks import Progress
from widemargin.deadline import is_late
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.problem_batch_fast import solve_range
from widemargin.exact.solution import Solution
from widemargin.kernels import Index, Kernel, Points
from widemargin.parallel import Workers

#: Most rows of a problem of the batch: larger ones gain from the vector loops of `optimise_pairs`.
PROBLEM_ROWS = 100
#: Most rows of all problems together, whose kernel matrix is computed.
BATCH_ROWS = 4000
#: Share of the memory for kernel values that this matrix may take.
MEMORY_SHARE = 0.5
#: Updates per row after which a problem is left to the other solvers, as it is hard.
UPDATES_PER_ROW = 150
#: Rows of one compiled call: Ctrl-C and the time limit are heeded between calls.
CALL_ROWS = 2000

Report = Callable[[int, Progress], object]


def solve_batch(
    kernel: Kernel, points: Points, problems: list[DualProblem], workers: Workers, budget: Budget,
    report: Report | None = None,
) -> dict[int, Solution]:  # fmt: skip
    """Solve those of the problems that are small and easy.

    Parameters
    ----------
    kernel, points
        The kernel and the prepared points.
    problems : list of DualProblem
        The problems; those with epsilon, a total other than zero, or many rows are left out.
    workers : Workers
        Threads, each of which solves problems of its own.
    budget : Budget
        ``tol`` and ``max_iter`` of each problem; deadline and memory of all.
    report : callable, optional
        Called with the number of a problem when that is solved.

    Returns
    -------
    solutions : dict of int to Solution
        Converged solutions by the number of the problem. Problems that are missing are left to
        solvers that know what to do at a limit.
    """
    chosen = [p for p, problem in enumerate(problems) if _is_suitable(problem, problems[0])]
    if len(chosen) < 2:
        return {}
    batch = Batch([problems[p] for p in chosen])
    if not batch.fits(budget):
        return {}
    batch.read_kernel(kernel, points, workers)
    began, solutions = time.perf_counter(), dict[int, Solution]()

    def solve_some(first: int, last: int) -> None:
        for start, stop in batch.cut_calls(first, last):
            if workers.failed or is_late(budget.deadline):
                return
            batch.solve(start, stop, budget)
            for q in range(start, stop):
                if batch.figures[q, 1] < budget.tol:
                    solutions[chosen[q]] = batch.solution(q)
                    if report is not None:
                        report(chosen[q], batch.progress(q, time.perf_counter() - began))

    workers.run(len(chosen), solve_some, grain=1)
    return solutions


def _is_suitable(problem: DualProblem, first: DualProblem) -> bool:
    """Whether a problem has few rows and the form of the first one, without epsilon."""
    has_form = problem.epsilon == 0.0 and problem.total in (None, 0.0)
    return 0 < len(problem) <= PROBLEM_ROWS and has_form and problem.is_tied == first.is_tied


class Batch:
    """Problems one after another in flat arrays, and their common kernel matrix.

    Attributes
    ----------
    offsets : ndarray of shape (n_problems + 1,)
        Where the variables of each problem begin.
    figures : ndarray of shape (n_problems, 4)
        Offset, violation, objective and duality gap of each problem that has been solved.
    """

    def __init__(self, problems: list[DualProblem]) -> None:
        self.is_tied = problems[0].is_tied
        self.sizes = np.array([len(problem) for problem in problems])
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.index = np.concatenate([problem.index for problem in problems])
        self.linear = np.concatenate([problem.linear for problem in problems])
        self.lower = np.concatenate([problem.lower for problem in problems])
        self.upper = np.concatenate([problem.upper for problem in problems])
        self.coef = np.concatenate([problem.first_point() for problem in problems])
        self.gradient = np.empty(len(self.coef))
        self.n_updates = np.zeros(len(problems), np.int64)
        self.figures = np.empty((len(problems), 4))
        self.rows: Index = np.unique(self.index)

    def fits(self, budget: Budget) -> bool:
        """Whether the common kernel matrix is small, and not larger than those of the problems."""
        n_values = len(self.rows) ** 2
        is_small = (
            len(self.rows) <= BATCH_ROWS and 4 * n_values <= MEMORY_SHARE * budget.cache_bytes
        )
        return is_small and n_values <= 2 * int(np.sum(self.sizes**2))

    def read_kernel(self, kernel: Kernel, points: Points, workers: Workers) -> None:
        """Compute the common kernel matrix."""
        n = len(self.rows)
        self.matrix = np.empty((n, n), np.float32)
        kernel.block(points, self.rows, points, self.rows, self.matrix, workers)
        self.matrix[np.arange(n), np.arange(n)] = kernel.diag(points)[self.rows]
        self.place = np.searchsorted(self.rows, self.index)

    def cut_calls(self, first: int, last: int) -> list[tuple[int, int]]:
        """Cut a range of problems into ranges of about `CALL_ROWS` rows."""
        n_rows = self.offsets[last] - self.offsets[first]
        marks = self.offsets[first] + CALL_ROWS * np.arange(1, -(-n_rows // CALL_ROWS))
        inner = np.searchsorted(self.offsets, marks)
        return list(pairwise(np.unique([first, *inner.tolist(), last]).tolist()))

    def solve(self, first: int, last: int, budget: Budget) -> None:
        """Solve a range of problems."""
        a, b = self.offsets[first], self.offsets[last]
        most = UPDATES_PER_ROW * self.sizes[first:last]
        if budget.max_iter >= 0:
            most = np.minimum(most, budget.max_iter)
        solve_range(
            self.is_tied, self.matrix, self.place[a:b], self.offsets[first : last + 1] - a,
            self.linear[a:b], self.lower[a:b], self.upper[a:b], 0.5 * budget.tol, most,
            self.coef[a:b], self.gradient[a:b], self.n_updates[first:last],
            self.figures[first:last],
        )  # fmt: skip

    def solution(self, q: int) -> Solution:
        """Return the solution of one problem."""
        at = slice(self.offsets[q], self.offsets[q + 1])
        offset, violation, objective, gap = self.figures[q].tolist()
        return Solution(
            coef=self.coef[at], gradient=self.gradient[at], intercept=-offset, objective=objective,
            duality_gap=gap, violation=violation, n_iter=int(self.n_updates[q]),
        )  # fmt: skip

    def progress(self, q: int, seconds: float) -> Progress:
        """Return the report of one solved problem."""
        n = int(self.sizes[q])
        n_support = int(np.count_nonzero(self.coef[self.offsets[q] : self.offsets[q + 1]]))
        violation, n_iter = float(self.figures[q, 1]), int(self.n_updates[q])
        return Progress(n, n, n, n_support, violation, n_iter, seconds)
