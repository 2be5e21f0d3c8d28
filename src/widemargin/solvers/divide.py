"""Divide and conquer: solve clusters of the data, glue their solutions, and go on with fewer.

Algorithm 1 of Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
Machines" (2014). Every level gives a solution of its own: the optimum for the kernel that is zero
between clusters (Lemma 1).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import ThreadingBackend, get_active_backend
from numpy.typing import NDArray

from widemargin.kernels import Index, Kernel, Points, Precomputed
from widemargin.memory import Buffers
from widemargin.parallel import open_workers
from widemargin.solvers.box_qp import FloatArray, Limits, Progress, Result
from widemargin.solvers.many import Task, solve_tasks
from widemargin.solvers.partition import Partition, divide_points

#: Mean size of clusters from which threads pay.
THREAD_ROWS = 1000


@dataclass(frozen=True)
class Plan:
    """What to do on the way down to one cluster; see `DCSVC` for the meaning."""

    n_clusters: int
    n_levels: int
    stop_level: int
    sample_size: int
    adaptive: bool
    refine: bool
    n_jobs: int | None
    seed: int


@dataclass(frozen=True)
class LevelRecord:
    """What happened at one level.

    Attributes
    ----------
    level : int
        Levels above it; the whole problem is level 0.
    n_clusters : int
        Clusters, after empty ones were left out and large ones divided again.
    largest_cluster : int
        Points in the largest of them.
    n_support : int
        Points with a coefficient in any binary problem.
    objective : float
        Dual objective, with the kernel taken as zero between clusters, summed over the binary
        problems: what this level minimises.
    clustering_seconds, solving_seconds : float
        Time to divide the points and to solve the clusters; at level 0, to refine and to solve.
    """

    level: int
    n_clusters: int
    largest_cluster: int
    n_support: int
    objective: float
    clustering_seconds: float
    solving_seconds: float


@dataclass(frozen=True)
class LevelProgress:
    """What a callback is told while a level is being solved.

    ``seconds_left`` is for this level: the time so far, in proportion to what remains; None where
    nothing is known yet. The whole problem (level 0) has one cluster and reports every round.
    """

    level: int
    n_clusters: int
    n_done: int
    n_support: int
    objective: float
    seconds: float
    seconds_left: float | None


@dataclass(frozen=True)
class Level:
    """The solution at one level.

    Attributes
    ----------
    record : LevelRecord
        Figures for people.
    partition : Partition or None
        The clusters; None for the whole problem.
    clusters : ndarray of shape (n,)
        Cluster of every point.
    results : list of Result
        Of each binary problem, the solutions of its clusters glued together. The intercept is the
        mean over clusters, weighted by their points.
    intercepts : ndarray of shape (n_clusters, n_problems)
        Intercept of each cluster.
    is_complete : bool
        False when time ran out.
    """

    record: LevelRecord
    partition: Partition | None
    clusters: NDArray[np.int32]
    results: list[Result]
    intercepts: FloatArray
    is_complete: bool


@dataclass(frozen=True)
class Job:
    """One cluster, with all that is needed to solve it elsewhere."""

    kernel: Kernel
    X: Any
    tasks: list[Task]
    intercept: bool
    limits: Limits
    deadline: float | None
    seed: int


Listener = Callable[[LevelProgress], object]


def solve_levels(
    X: Any,
    kernel: Kernel,
    points: Points,
    tasks: list[Task],
    plan: Plan,
    *,
    intercept: bool,
    limits: Limits,
    callback: Listener | None = None,
) -> Iterator[Level]:
    """Solutions from the lowest level up to ``plan.stop_level``.

    Parameters
    ----------
    X : ndarray or csr_matrix
        Training data; the kernel matrix if it is precomputed.
    kernel, points
        The kernel and all rows of ``X`` prepared for it.
    tasks : list of Task
        The binary problems; they share the partitions.
    plan : Plan
        Levels and clusters.
    intercept : bool
        Whether decision functions have a constant.
    limits : Limits
        For each cluster; ``max_time`` and ``cache_bytes`` for everything together.
    callback : callable, optional
        Called with a `LevelProgress` after every cluster, and every round of the whole problem.
    """
    began = time.time()
    deadline = None if limits.max_time is None else began + limits.max_time
    rng = np.random.default_rng(plan.seed)
    candidates = np.arange(len(points))
    buffers = Buffers()
    for number in range(plan.n_levels, max(plan.stop_level, 1) - 1, -1):
        start = time.perf_counter()
        with open_workers(plan.n_jobs) as workers:
            partition, clusters = divide_points(
                kernel, points, min(plan.n_clusters**number, len(points)), candidates,
                plan.sample_size, rng, workers,
            )  # fmt: skip
        clustering_seconds = time.perf_counter() - start
        report = _Reporter(number, partition.n_clusters, began, callback)
        level = _solve_level(
            X,
            kernel,
            tasks,
            plan,
            clusters,
            partition,
            intercept,
            limits,
            deadline,
            report,
            buffers,
        )
        level = replace(level, record=replace(level.record, clustering_seconds=clustering_seconds))
        yield level
        if not level.is_complete:
            return
        tasks = [replace(t, start=r.coef) for t, r in zip(tasks, level.results, strict=True)]
        if plan.adaptive:
            support = _support(tasks, level.results, len(points))
            candidates = support if len(support) else candidates
    if plan.stop_level == 0:
        report = _Reporter(0, 1, began, callback)
        yield _solve_whole(
            kernel, points, tasks, plan, intercept, limits, deadline, report, buffers
        )


class _Reporter:
    """Tells the callback about one level."""

    def __init__(
        self, level: int, n_clusters: int, began: float, callback: Listener | None
    ) -> None:
        self.level, self.n_clusters, self.callback = level, n_clusters, callback
        self.began, self.level_began = began, time.time()
        self.n_done = self.n_support = 0
        self.objective = 0.0

    def finish_cluster(self, results: list[Result]) -> None:
        """Take note of a solved cluster."""
        self.n_done += 1
        self.n_support += int(sum(np.count_nonzero(r.coef) for r in results))
        self.objective += sum(r.objective for r in results)
        self._tell()

    def finish_round(self, _: int, progress: Progress) -> None:
        """Take note of a round on the whole problem."""
        self.n_support = progress.n_support
        self._tell()

    def _tell(self) -> None:
        if self.callback is None:
            return
        now = time.time()
        used, left = now - self.level_began, None
        if self.n_done:
            left = used * (self.n_clusters - self.n_done) / self.n_done
        self.callback(
            LevelProgress(
                level=self.level,
                n_clusters=self.n_clusters,
                n_done=self.n_done,
                n_support=self.n_support,
                objective=self.objective,
                seconds=now - self.began,
                seconds_left=left,
            )
        )


def _solve_level(
    X: Any, kernel: Kernel, tasks: list[Task], plan: Plan, clusters: NDArray[np.int32],
    partition: Partition, intercept: bool, limits: Limits, deadline: float | None,
    report: _Reporter, buffers: Buffers,
) -> Level:  # fmt: skip
    """Solve every cluster and glue the solutions."""
    start = time.perf_counter()
    n_clusters = partition.n_clusters
    members = _rows_by_cluster(clusters, n_clusters)
    sizes = np.array([len(rows) for rows in members], float)
    parts = [_restrict(tasks, rows, len(clusters)) for rows in members]
    jobs = (
        Job(kernel, _take(kernel, X, rows), part, intercept, limits, deadline, plan.seed)
        for rows, part in zip(members, parts, strict=True)
    )
    coefs = [np.zeros(len(task.y)) for task in tasks]
    solved: list[list[Result]] = []
    for c, results in enumerate(_run_jobs(jobs, sizes, plan.n_jobs, limits.cache_bytes, buffers)):
        for coef, where, result in zip(
            coefs, _places(tasks, members[c], len(clusters)), results, strict=True
        ):
            coef[where] = result.coef
        solved.append(results)
        report.finish_cluster(results)
    glued = [_glue(coef, [results[p] for results in solved], sizes) for p, coef in enumerate(coefs)]
    record = LevelRecord(
        level=report.level,
        n_clusters=n_clusters,
        largest_cluster=int(sizes.max()),
        n_support=len(_support(tasks, glued, len(clusters))),
        objective=float(sum(r.objective for r in glued)),
        clustering_seconds=0.0,
        solving_seconds=time.perf_counter() - start,
    )
    intercepts = np.array([[r.intercept for r in results] for results in solved])
    complete = all(r.stop_reason != "max_time" for r in glued)
    return Level(record, partition, clusters, glued, intercepts, complete)


def _solve_whole(
    kernel: Kernel, points: Points, tasks: list[Task], plan: Plan, intercept: bool, limits: Limits,
    deadline: float | None, report: _Reporter, buffers: Buffers,
) -> Level:  # fmt: skip
    """Solve the whole problem, first on the support vectors of the level below."""
    start = time.perf_counter()
    with open_workers(plan.n_jobs) as workers:
        tasks = [replace(task, refine=plan.refine) for task in tasks]
        results = solve_tasks(
            kernel, points, tasks, workers, intercept=intercept,
            limits=_until(limits, deadline), seed=plan.seed, callback=report.finish_round,
            buffers=buffers,
        )  # fmt: skip
    record = LevelRecord(
        level=0,
        n_clusters=1,
        largest_cluster=len(points),
        n_support=len(_support(tasks, results, len(points))),
        objective=float(sum(r.objective for r in results)),
        clustering_seconds=0.0,
        solving_seconds=time.perf_counter() - start,
    )
    complete = all(r.stop_reason != "max_time" for r in results)
    intercepts = np.array([[r.intercept for r in results]])
    return Level(record, None, np.zeros(len(points), np.int32), results, intercepts, complete)


def solve_job(
    job: Job, cache_bytes: int, n_threads: int, buffers: Buffers | None = None
) -> list[Result]:
    """Solutions of the binary problems of one cluster; runs in any thread, process or machine."""
    open_tasks = [task for task in job.tasks if _is_open(task.y, job.intercept)]
    solved: Iterator[Result] = iter(())
    if open_tasks:
        limits = replace(_until(job.limits, job.deadline), cache_bytes=cache_bytes)
        with open_workers(n_threads) as workers:
            solved = iter(
                solve_tasks(
                    job.kernel,
                    job.kernel.prepare(job.X),
                    open_tasks,
                    workers,
                    intercept=job.intercept,
                    limits=limits,
                    seed=job.seed,
                    buffers=buffers,
                )
            )
    return [
        replace(next(solved), gradient=np.empty(0)) if _is_open(task.y, job.intercept)
        else _known_result(task.y)
        for task in job.tasks
    ]  # fmt: skip


def _run_jobs(
    jobs: Iterator[Job], sizes: FloatArray, n_jobs: int | None, cache_bytes: int, buffers: Buffers
) -> Iterator[list[Result]]:
    """Results in the order of the jobs; several at a time if that pays."""
    backend, _ = get_active_backend(prefer="threads")
    n_workers = _count_workers(n_jobs)
    # Threads wait for the interpreter most of the time when clusters are small.
    is_slow = isinstance(backend, ThreadingBackend) and sizes.mean() < THREAD_ROWS
    if is_slow or n_workers == 1 or len(sizes) < 2 * n_workers:
        for job in jobs:
            yield solve_job(job, cache_bytes, 1 if is_slow else n_workers, buffers)
        return
    parallel = Parallel(n_jobs=n_workers, prefer="threads", return_as="generator")
    yield from parallel(delayed(solve_job)(job, cache_bytes // n_workers, 1) for job in jobs)


def _count_workers(n_jobs: int | None) -> int:
    """Jobs at a time: as joblib is configured, else all cores."""
    configured = int(effective_n_jobs(n_jobs))
    if n_jobs is None and configured == 1:
        return int(effective_n_jobs(-1))
    return configured


def _is_open(y: FloatArray, intercept: bool) -> bool:
    """Whether a problem needs solving: not without points, nor one class with an intercept."""
    return bool(len(y) > 0 and not (intercept and np.all(y == y[0])))


def _known_result(y: FloatArray) -> Result:
    """Solution of a problem that is not open: no support vectors, the only class everywhere."""
    return Result(
        coef=np.zeros(len(y)),
        gradient=np.empty(0),
        intercept=float(y[0]) if len(y) else 0.0,
        objective=0.0,
        duality_gap=0.0,
        violation=0.0,
        n_iter=0,
        stop_reason="converged",
    )


def _rows_by_cluster(clusters: NDArray[np.int32], n_clusters: int) -> list[Index]:
    order = np.argsort(clusters, kind="stable")
    ends = np.cumsum(np.bincount(clusters, minlength=n_clusters))
    return np.split(order, ends[:-1])


def _places(tasks: list[Task], rows: Index, n: int) -> list[Index]:
    """Of every task, which of its points are among ``rows`` (of all ``n``)."""
    inside = np.zeros(n, bool)
    inside[rows] = True
    return [np.flatnonzero(inside[task.index]) for task in tasks]


def _restrict(tasks: list[Task], rows: Index, n: int) -> list[Task]:
    """The tasks on the points ``rows`` alone, numbered from zero there."""
    position = np.zeros(n, np.intp)
    position[rows] = np.arange(len(rows))
    return [
        Task(
            position[task.index[at]],
            task.y[at],
            task.upper[at],
            None if task.start is None else task.start[at],
        )
        for task, at in zip(tasks, _places(tasks, rows, n), strict=True)
    ]


def _take(kernel: Kernel, X: Any, rows: Index) -> Any:
    return X[np.ix_(rows, rows)] if isinstance(kernel, Precomputed) else X[rows]


def _glue(coef: FloatArray, results: list[Result], sizes: FloatArray) -> Result:
    """One result of the solutions of all clusters."""
    reasons = {r.stop_reason for r in results}
    worst = next(r for r in ("max_time", "max_iter", "stalled", "converged") if r in reasons)
    return Result(
        coef=coef,
        gradient=np.empty(0),
        intercept=float(np.average([r.intercept for r in results], weights=sizes)),
        objective=float(sum(r.objective for r in results)),
        duality_gap=float(sum(r.duality_gap for r in results)),
        violation=max(r.violation for r in results),
        n_iter=sum(r.n_iter for r in results),
        stop_reason=worst,
    )


def _support(tasks: list[Task], results: list[Result], n: int) -> Index:
    """Points that are support vectors of any problem."""
    used = np.zeros(n, bool)
    for task, result in zip(tasks, results, strict=True):
        used[task.index[result.coef != 0]] = True
    return np.flatnonzero(used)


def _until(limits: Limits, deadline: float | None) -> Limits:
    """Limits with the time that is left."""
    if deadline is None:
        return limits
    return replace(limits, max_time=max(deadline - time.time(), 0.0))
