"""Clusters solved one by one or side by side: in threads, in processes, or on other machines."""

import os
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from threading import Event
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import SequentialBackend, ThreadingBackend, get_active_backend

from widemargin.callbacks import Progress
from widemargin.exact.several_problems import SolveInterruptedError, Task, solve_tasks
from widemargin.exact.solution import FloatArray, Limits, Result
from widemargin.kernels import Index, Kernel, Points
from widemargin.memory import Buffers
from widemargin.parallel import count_threads, open_workers, single_blas

#: Jobs submitted ahead for each worker: enough that none waits, few because those for other processes
#: hold copies of their data.
AHEAD = 3
#: Seconds that a Dask cluster may be without workers, which may be starting again; and between looks.
NO_WORKER_SECONDS, LOOK_SECONDS = 60.0, 10.0


@dataclass(frozen=True)
class Job:
    """One cluster, with all that is needed to solve it elsewhere."""

    kernel: Kernel
    points: Points
    tasks: list[Task]
    intercept: bool
    limits: Limits
    deadline: float | None
    seed: int


#: Makes a job, where and when it is needed: a job holds a copy of its data.
Maker = Callable[[], Job]


def run_jobs(
    jobs: Iterator[Maker], sizes: Index, n_jobs: int | None, cache_bytes: int, buffers: Buffers
) -> Iterator[list[Result]]:
    """Results in the order of the jobs; several at a time if that pays.

    Parameters
    ----------
    jobs : iterator of Maker
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
    in_threads = isinstance(backend, ThreadingBackend)
    # Threads that would wait for the largest cluster share its work instead.
    work = np.square(sizes, dtype=np.float64)
    is_uneven = in_threads and work.max() > work.sum() / n_workers
    n_threads = count_local_threads(n_jobs)
    if n_workers == 1 or len(sizes) < 2 * n_workers or is_uneven:
        for make_job in jobs:
            yield solve_job(make_job(), cache_bytes, n_threads, buffers)
        return
    share = cache_bytes // n_workers
    if in_threads:
        yield from _run_in_threads(jobs, n_workers, share)
    elif type(backend).__name__ == "DaskDistributedBackend":
        yield from _run_on_dask(jobs, backend, n_workers, share)
    else:
        # Not all backends can give results before the last one is there.
        at_once = "generator" if backend.supports_return_generator else "list"
        parallel = Parallel(n_jobs=n_workers, return_as=at_once)
        yield from parallel(delayed(solve_job)(make_job(), share, 1) for make_job in jobs)


def _run_in_threads(
    jobs: Iterator[Maker], n_threads: int, cache_bytes: int
) -> Iterator[list[Result]]:
    """Results in the order of the jobs. Each thread keeps its buffers, unlike one of joblib's."""
    spare: SimpleQueue[Buffers] = SimpleQueue()
    stop = Event()

    def give_up(*_: object) -> None:
        if stop.is_set():
            raise SolveInterruptedError

    def solve(make_job: Maker) -> list[Result]:
        buffers = spare.get()
        try:
            return solve_job(make_job(), cache_bytes, 1, buffers, give_up)
        finally:
            spare.put(buffers)

    for _ in range(n_threads):
        spare.put(Buffers())
    running: deque[Future[list[Result]]] = deque()
    with single_blas, ThreadPoolExecutor(n_threads, thread_name_prefix="widemargin") as pool:
        try:
            for make_job in jobs:
                running.append(pool.submit(solve, make_job))
                if len(running) == AHEAD * n_threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            # After an error or Ctrl-C: the pool waits for what its threads have begun.
            stop.set()
            for future in running:
                future.cancel()


def _run_on_dask(
    jobs: Iterator[Maker], backend: Any, n_workers: int, cache_bytes: int
) -> Iterator[list[Result]]:
    """Results in the order of the jobs, from the Dask client of one of joblib's backends.

    Not through joblib: it does not hear of a job that ends by an error outside of the job's own code,
    such as a worker that died or a module that workers do not have, and would wait for ever.
    """
    # Whoever has such a backend has these.
    import cloudpickle
    import dask

    def solve_cluster(call: bytes) -> list[Result]:
        return pickle.loads(call)()

    client, running = backend.client, deque[Any]()
    options = {"pure": False} | backend.submit_kwargs
    # Within a task of Dask's, as in a grid search on the cluster, waiting must not take up a worker.
    with backend.retrieval_context():
        try:
            for make_job in jobs:
                call = cloudpickle.dumps(partial(solve_job, make_job(), cache_bytes, 1))
                # A job travels with its data, so that another worker can take it up.
                with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
                    # Read in the task: a message that a worker cannot read takes the worker down.
                    running.append(client.submit(solve_cluster, call, **options))
                if len(running) == AHEAD * n_workers:
                    yield _await_result(running.popleft(), backend)
            while running:
                yield _await_result(running.popleft(), backend)
        finally:
            client.cancel(list(running))


def _await_result(future: Any, backend: Any) -> list[Result]:
    """What a job on Dask found; an error when there is nobody left to solve it."""
    patience = max(backend.wait_for_workers_timeout or 0.0, NO_WORKER_SECONDS)
    last_seen = time.monotonic()
    while True:
        # Also what is done may have to be done again, if its worker leaves before it is fetched.
        try:
            return future.result(timeout=LOOK_SECONDS)
        except TimeoutError:
            if future.status == "error":
                raise
        if backend.client.ncores():
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > patience:
            raise RuntimeError(
                f"the Dask cluster has had no worker for {patience:g} s: all have died or were "
                "closed; look at their logs"
            )


def _count_workers(n_jobs: int | None) -> int:
    """Jobs at a time: as joblib is configured, else as many as threads.

    Within a job of joblib's other jobs have the cores, but for those that ``OMP_NUM_THREADS`` names.
    """
    backend, configured = get_active_backend()
    if n_jobs is not None or configured is not None:
        return int(effective_n_jobs(n_jobs))
    is_inside = backend.nesting_level and "OMP_NUM_THREADS" not in os.environ
    return int(backend.effective_n_jobs(1 if is_inside else count_threads(None)))


def count_local_threads(n_jobs: int | None) -> int:
    """Threads for what this process does alone: those of the jobs, if jobs are threads."""
    backend, _ = get_active_backend(prefer="threads")
    is_local = isinstance(backend, ThreadingBackend | SequentialBackend)
    return _count_workers(n_jobs) if is_local else count_threads(n_jobs)


def solve_job(
    job: Job,
    cache_bytes: int,
    n_threads: int,
    buffers: Buffers | None = None,
    callback: Callable[[int, Progress], object] | None = None,
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
                    job.points,
                    open_tasks,
                    workers,
                    intercept=job.intercept,
                    limits=limits,
                    seed=job.seed,
                    callback=callback,
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


def limit_time(limits: Limits, deadline: float | None) -> Limits:
    """Limits with the time that is left."""
    if deadline is None:
        return limits
    return replace(limits, max_time=max(deadline - time.time(), 0.0))
