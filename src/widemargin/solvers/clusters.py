"""Clusters solved one by one or side by side: in threads, in processes, or on other machines."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import ThreadingBackend, get_active_backend

from widemargin.kernels import Index, Kernel, Precomputed
from widemargin.memory import Buffers
from widemargin.parallel import open_workers
from widemargin.solvers.box_qp import FloatArray, Limits, Result
from widemargin.solvers.many import Task, solve_tasks

#: Mean size of clusters from which threads pay.
THREAD_ROWS = 1000


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


def run_jobs(
    jobs: Iterator[Job], sizes: Index, n_jobs: int | None, cache_bytes: int, buffers: Buffers
) -> Iterator[list[Result]]:
    """Results in the order of the jobs; several at a time if that pays.

    Parameters
    ----------
    jobs : iterator of Job
        One for each cluster.
    sizes : ndarray
        Points of each cluster.
    n_jobs : int or None
        Jobs at a time; None for what joblib is configured to, and all cores if it is not.
    cache_bytes : int
        Memory for all jobs that run at a time.
    buffers : Buffers
        For jobs that run one after another.
    """
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


def solve_job(
    job: Job, cache_bytes: int, n_threads: int, buffers: Buffers | None = None
) -> list[Result]:
    """Solutions of the binary problems of one cluster; runs in any thread, process or machine."""
    open_tasks = [task for task in job.tasks if _is_open(task.y, job.intercept)]
    solved: Iterator[Result] = iter(())
    if open_tasks:
        limits = replace(limit_time(job.limits, job.deadline), cache_bytes=cache_bytes)
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


def take_points(kernel: Kernel, X: Any, rows: Index) -> Any:
    """Data of some points: rows, and columns too if they are a kernel matrix."""
    return X[np.ix_(rows, rows)] if isinstance(kernel, Precomputed) else X[rows]


def limit_time(limits: Limits, deadline: float | None) -> Limits:
    """Limits with the time that is left."""
    if deadline is None:
        return limits
    return replace(limits, max_time=max(deadline - time.time(), 0.0))
