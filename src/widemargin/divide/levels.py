"""Divide and conquer: solve clusters of the data, glue their solutions, and go on with fewer.

Algorithm 1 of Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
Machines" (2014). Every level gives a solution of its own: the optimum for the kernel that is zero
between clusters (Lemma 1).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from widemargin.callbacks import LevelProgress, Progress
from widemargin.divide.executors import (
    Job,
    count_local_threads,
    limit_time,
    run_jobs,
)
from widemargin.divide.kernel_kmeans import divide_points
from widemargin.divide.partition import Partition, split_by_group
from widemargin.exact.several_problems import Task, solve_tasks
from widemargin.exact.solution import FloatArray, Limits, Result
from widemargin.kernels import Index, Kernel, Points
from widemargin.memory import Buffers
from widemargin.parallel import open_workers


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
    is_complete : bool
        False when time ran out: some clusters are far from their optimum.
    """

    level: int
    n_clusters: int
    largest_cluster: int
    n_support: int
    objective: float
    clustering_seconds: float
    solving_seconds: float
    is_complete: bool = True


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
    """

    record: LevelRecord
    partition: Partition | None
    clusters: NDArray[np.int32]
    results: list[Result]
    intercepts: FloatArray


Listener = Callable[[LevelProgress], object]


def solve_levels(
    kernel: Kernel,
    points: Points,
    tasks: list[Task],
    plan: Plan,
    *,
    intercept: bool,
    limits: Limits,
    callback: Listener | None = None,
) -> Iterator[Level]:
    """Solutions from the lowest level up to ``plan.stop_level``, or to the last that is in time.

    The lowest comes in any case: a poor model is better than none.

    Parameters
    ----------
    kernel, points
        The kernel and all training rows prepared for it.
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
    fit = _Fit(
        kernel=kernel,
        points=points,
        plan=plan,
        intercept=intercept,
        limits=limits,
        deadline=None if limits.max_time is None else began + limits.max_time,
        buffers=Buffers(),
    )
    rng = np.random.default_rng(plan.seed)
    candidates = np.arange(len(points))
    for number in range(plan.n_levels, max(plan.stop_level, 1) - 1, -1):
        start = time.perf_counter()
        partition, clusters = fit.divide(number, candidates, rng)
        seconds = time.perf_counter() - start
        sizes = np.bincount(clusters, minlength=partition.n_clusters)
        report = _Reporter(number, sizes, began, callback)
        level = fit.solve_clusters(tasks, partition, clusters, seconds, report)
        if level is None:
            return
        yield level
        if fit.is_late():
            return
        fit = replace(fit, limits=replace(limits, all_or_nothing=True))
        tasks = [replace(t, start=r.coef) for t, r in zip(tasks, level.results, strict=True)]
        if plan.adaptive and level.record.n_support > 0:
            candidates = _support(tasks, [r.coef for r in level.results], len(points))
    if plan.stop_level == 0:
        report = _Reporter(0, np.array([len(points)]), began, callback)
        level = fit.solve_whole(tasks, report)
        if level is not None:
            yield level


@dataclass(frozen=True)
class _Fit:
    """What stays the same from level to level."""

    kernel: Kernel
    points: Points
    plan: Plan
    intercept: bool
    limits: Limits
    deadline: float | None
    buffers: Buffers

    def is_late(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.time() >= self.deadline

    def divide(
        self, number: int, candidates: Index, rng: np.random.Generator
    ) -> tuple[Partition, NDArray[np.int32]]:
        """Clusters of a level."""
        # No power beyond the number of points there can be: it might take for ever.
        n_clusters = min(self.plan.n_clusters ** min(number, 64), len(self.points))
        with open_workers(count_local_threads(self.plan.n_jobs)) as workers:
            return divide_points(
                self.kernel, self.points, n_clusters, candidates, self.plan.sample_size, rng,
                workers, self.limits.cache_bytes,
            )  # fmt: skip

    def solve_clusters(
        self,
        tasks: list[Task],
        partition: Partition,
        clusters: NDArray[np.int32],
        clustering_seconds: float,
        report: "_Reporter",
    ) -> Level | None:
        """Solve every cluster and glue the solutions; None if there is a better level in time."""
        start = time.perf_counter()
        members = split_by_group(clusters, partition.n_clusters)
        places = [split_by_group(clusters[task.index], len(members)) for task in tasks]
        sizes = report.sizes
        coefs = [np.zeros(len(task.y)) for task in tasks]
        n_support, solved = 0, dict[int, list[Result]]()
        is_support = np.zeros(len(self.points), bool)
        # The largest first: no thread is left with one at the end, and buffers need not grow.
        order = [int(c) for c in np.argsort(-sizes, kind="stable")]
        jobs = (
            partial(self._make_job, tasks, members[c], [where[c] for where in places])
            for c in order
        )
        all_results = run_jobs(jobs, sizes, self.plan.n_jobs, self.limits.cache_bytes, self.buffers)
        for c, results in zip(order, all_results, strict=True):
            for task, coef, where, result in zip(tasks, coefs, places, results, strict=True):
                coef[where[c]] = result.coef
                is_support[task.index[where[c][result.coef != 0]]] = True
            n_support += int(np.count_nonzero(is_support[members[c]]))
            solved[c] = results
            if self.limits.all_or_nothing and not _in_time(results):
                return None
            report.finish_cluster(c, results, n_support)
        by_cluster = [solved[c] for c in range(len(members))]
        glued = [_glue(coef, [r[p] for r in by_cluster], sizes) for p, coef in enumerate(coefs)]
        record = LevelRecord(
            level=report.level,
            n_clusters=len(members),
            largest_cluster=int(sizes.max()),
            n_support=n_support,
            objective=sum(r.objective for r in glued),
            clustering_seconds=clustering_seconds,
            solving_seconds=time.perf_counter() - start,
            is_complete=_in_time(glued),
        )
        intercepts = np.array([[r.intercept for r in results] for results in by_cluster])
        return Level(record, partition, clusters, glued, intercepts)

    def solve_whole(self, tasks: list[Task], report: "_Reporter") -> Level | None:
        """Solve the whole problem, first on the support vectors of the level below.

        None if it took too long and there is a level below.
        """
        start = time.perf_counter()
        n = len(self.points)
        tasks = [replace(task, refine=self.plan.refine) for task in tasks]
        report.begin_whole(tasks, n)
        with open_workers(count_local_threads(self.plan.n_jobs)) as workers:
            results = solve_tasks(
                self.kernel, self.points, tasks, workers, intercept=self.intercept,
                limits=limit_time(self.limits, self.deadline), seed=self.plan.seed,
                callback=report.finish_round, buffers=self.buffers,
            )  # fmt: skip
        if self.limits.all_or_nothing and not _in_time(results):
            return None
        n_support = len(_support(tasks, [result.coef for result in results], n))
        report.finish_cluster(0, results, n_support)
        record = LevelRecord(
            level=0,
            n_clusters=1,
            largest_cluster=n,
            n_support=n_support,
            objective=sum(r.objective for r in results),
            clustering_seconds=0.0,
            solving_seconds=time.perf_counter() - start,
            is_complete=_in_time(results),
        )
        intercepts = np.array([[r.intercept for r in results]])
        return Level(record, None, np.zeros(n, np.int32), results, intercepts)

    def _make_job(self, tasks: list[Task], rows: Index, places: list[Index]) -> Job:
        """The job of a cluster, with a copy of its data; ``places`` are its points in each task."""
        inside = [
            Task(
                np.searchsorted(rows, task.index[at]),
                task.y[at],
                task.upper[at],
                None if task.start is None else task.start[at],
            )
            for task, at in zip(tasks, places, strict=True)
        ]
        return Job(
            self.kernel, self.kernel.take(self.points, rows), inside, self.intercept,
            self.limits, self.deadline, self.plan.seed,
        )  # fmt: skip


class _Reporter:
    """Tells the callback about one level."""

    def __init__(self, level: int, sizes: Index, began: float, callback: Listener | None) -> None:
        self.level, self.sizes, self.callback = level, sizes, callback
        # What a cluster costs grows with the square of its points.
        self.work_left = self.work = int(np.square(sizes).sum())
        self.began, self.level_began = began, time.time()
        self.n_done = self.n_support = 0
        self.n_problems = 1
        self.objective = 0.0
        self.violation: float | None = None

    def finish_cluster(self, c: int, results: list[Result], n_support: int) -> None:
        """Take note of a solved cluster, and of the support vectors of all so far."""
        self.n_done += 1
        self.work_left -= int(self.sizes[c]) ** 2
        self.n_support, self.violation = n_support, None
        self.objective += sum(r.objective for r in results)
        self._tell()

    def begin_whole(self, tasks: list[Task], n: int) -> None:
        """Take note of the support vectors of the level below, if there is one."""
        self.n_problems = len(tasks)
        starts = [np.zeros(len(t.y)) if t.start is None else t.start for t in tasks]
        self.n_support = len(_support(tasks, starts, n))

    def finish_round(self, _: int, progress: Progress) -> None:
        """Take note of a round on the whole problem."""
        if self.n_problems == 1:
            self.n_support = progress.n_support
        self.violation = progress.violation
        self._tell()

    def _tell(self) -> None:
        if self.callback is None:
            return
        now = time.time()
        used, left = now - self.level_began, None
        if self.n_done:
            left = used * self.work_left / (self.work - self.work_left)
        self.callback(
            LevelProgress(
                level=self.level,
                n_clusters=len(self.sizes),
                n_done=self.n_done,
                n_support=self.n_support,
                objective=self.objective,
                seconds=now - self.began,
                seconds_left=left,
                violation=self.violation,
            )
        )


def _in_time(results: list[Result]) -> bool:
    return all(result.stop_reason != "max_time" for result in results)


def _glue(coef: FloatArray, results: list[Result], sizes: Index) -> Result:
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


def _support(tasks: list[Task], coefs: list[FloatArray], n: int) -> Index:
    """Points that are support vectors of any problem."""
    used = np.zeros(n, bool)
    for task, coef in zip(tasks, coefs, strict=True):
        used[task.index[coef != 0]] = True
    return np.flatnonzero(used)
