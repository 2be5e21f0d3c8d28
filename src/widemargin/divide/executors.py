"""Solve the clusters of a level in turn or in parallel: in threads, processes, or on Dask workers.

Deadlines are by `widemargin.deadline`, whose clock is the same for all processes of a machine but not
for two machines. A job that may go to another machine carries the seconds left instead.
"""

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import (
    LokyBackend,
    MultiprocessingBackend,
    SequentialBackend,
    ThreadingBackend,
    get_active_backend,
)

from widemargin.budget import Budget
from widemargin.callbacks import Progress
from widemargin.deadline import is_late, start_deadline, time_left
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.several_problems import solve_problems
from widemargin.exact.solution import Solution
from widemargin.kernels import Index, Kernel, Points
from widemargin.memory import Buffers
from widemargin.parallel import Workers, count_threads, open_workers, single_blas

#: Jobs submitted ahead for each worker: enough to keep workers busy, and few because every job holds a
#: copy of its points.
AHEAD = 3
#: Seconds that a Dask cluster may be without workers, which may be restarting, and seconds between two
#: checks for workers.
NO_WORKER_SECONDS, LOOK_SECONDS = 60.0, 10.0


@dataclass(frozen=True)
class Job:
    """The binary problems of one cluster with their points.

    ``seconds``, if given, counts from the start of the job and takes the place of the deadline.
    """

    kernel: Kernel
    points: Points
    duals: list[DualProblem]
    budget: Budget
    seed: int
    seconds: float | None = None

    def for_another_machine(self) -> "Job":
        """Return the job with the seconds left now instead of the deadline by this machine's clock."""
        seconds = time_left(self.budget.deadline)
        return replace(self, seconds=seconds, budget=replace(self.budget, deadline=None))


#: Function that makes a job when the job is sent, because a job holds a copy of its data.
Maker = Callable[[], Job]


def run_jobs(
    jobs: Iterator[Maker], sizes: Index, n_jobs: int | None, cache_bytes: int, buffers: Buffers
) -> Iterator[list[Solution]]:
    """Solve the clusters of a level, in parallel if there are enough of them.

    Parameters
    ----------
    jobs : iterator of Maker
        One for each cluster.
    sizes : ndarray
        Number of points in each cluster.
    n_jobs : int or None
        Number of jobs at a time. None stands for joblib's configuration, and for all cores if joblib
        is not configured.
    cache_bytes : int
        Memory that the jobs that run at the same time share.
    buffers : Buffers
        Memory used again by jobs that run in turn.

    Yields
    ------
    solutions : list of Solution
        One for each binary problem of the cluster, in the order of the jobs.
    """
    backend, _ = get_active_backend(prefer="threads")
    n_workers = _count_workers(n_jobs)
    in_threads = isinstance(backend, ThreadingBackend)
    # If one cluster has most of the work, all threads solve it together instead of waiting for it.
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
        # Some backends return no result before the last job has ended.
        return_as = "generator" if backend.supports_return_generator else "list"
        is_local = isinstance(backend, LokyBackend | MultiprocessingBackend)
        made = (make_job() if is_local else make_job().for_another_machine() for make_job in jobs)
        parallel = Parallel(n_jobs=n_workers, return_as=return_as)
        yield from parallel(delayed(solve_job)(job, share, 1) for job in made)


def _run_in_threads(
    jobs: Iterator[Maker], n_threads: int, cache_bytes: int
) -> Iterator[list[Solution]]:
    """Solve clusters in threads that keep their buffers, which joblib's threads do not."""
    spare: SimpleQueue[Buffers] = SimpleQueue()

    def solve(make_job: Maker) -> list[Solution]:
        buffers = spare.get()
        try:
            return solve_with(workers.alone(), make_job(), cache_bytes, buffers)
        finally:
            spare.put(buffers)

    for _ in range(n_threads):
        spare.put(Buffers())
    running: deque[Future[list[Solution]]] = deque()
    with single_blas(), ThreadPoolExecutor(n_threads, thread_name_prefix="widemargin") as pool:
        workers = Workers(n_threads, pool)
        try:
            for make_job in jobs:
                running.append(pool.submit(solve, make_job))
                if len(running) == AHEAD * n_threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            # After an error or Ctrl-C the pool waits for its threads, so their jobs must end early.
            workers.fail()
            for future in running:
                future.cancel()


def _run_on_dask(
    jobs: Iterator[Maker], backend: Any, n_workers: int, cache_bytes: int
) -> Iterator[list[Solution]]:
    """Solve clusters on the Dask client of joblib's backend.

    The jobs bypass joblib, because joblib waits for ever if a job fails outside the job's own code,
    for example if a worker dies or cannot import a module.
    """
    # These packages are installed wherever joblib has this backend.
    import cloudpickle
    import dask

    def solve_cluster(call: bytes) -> list[Solution]:
        return pickle.loads(call)()

    client, running = backend.client, deque[Any]()
    options = {"pure": False} | backend.submit_kwargs
    # A fit inside a Dask task, as in a grid search, must not occupy a worker while it waits.
    with backend.retrieval_context():
        try:
            for make_job in jobs:
                job = make_job()
                # The seconds left are right only if the job starts as soon as it is sent.
                most = n_workers * (AHEAD if job.budget.deadline is None else 1)
                while len(running) >= most:
                    yield _await_result(running.popleft(), backend)
                job = job.for_another_machine()
                call = cloudpickle.dumps(partial(solve_job, job, cache_bytes, 1))
                # A job contains its data, so that Dask can move it to another worker.
                with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
                    # The task unpickles the job, because a worker dies of a message that it cannot
                    # unpickle.
                    running.append(client.submit(solve_cluster, call, **options))
            while running:
                yield _await_result(running.popleft(), backend)
        finally:
            client.cancel(list(running))


def _await_result(future: Any, backend: Any) -> list[Solution]:
    """Return the results of a job on Dask; raise an error if the cluster has no workers left."""
    patience = max(backend.wait_for_workers_timeout or 0.0, NO_WORKER_SECONDS)
    give_up_at = start_deadline(patience)
    while True:
        # A finished job runs again if its worker leaves before the result is fetched, so the cluster
        # needs workers here in any case.
        try:
            return future.result(timeout=LOOK_SECONDS)
        except TimeoutError:
            if future.status == "error":
                raise
        if backend.client.ncores():
            give_up_at = start_deadline(patience)
        elif is_late(give_up_at):
            raise RuntimeError(
                f"the Dask cluster has had no worker for {patience:g} s: all have died or were "
                "closed; look at their logs"
            )


def _count_workers(n_jobs: int | None) -> int:
    """Return the number of jobs at a time: joblib's if it is configured, else one per thread.

    Inside a job of joblib it is one, because other jobs use the other cores, unless
    ``OMP_NUM_THREADS`` is set.
    """
    backend, configured = get_active_backend()
    if n_jobs is not None or configured is not None:
        return int(effective_n_jobs(n_jobs))
    is_inside = backend.nesting_level and "OMP_NUM_THREADS" not in os.environ
    return int(backend.effective_n_jobs(1 if is_inside else count_threads(None)))


def count_local_threads(n_jobs: int | None) -> int:
    """Return the number of threads for work inside this process, such as clustering.

    It is the number of jobs if jobs are threads.
    """
    backend, _ = get_active_backend(prefer="threads")
    is_local = isinstance(backend, ThreadingBackend | SequentialBackend)
    return _count_workers(n_jobs) if is_local else count_threads(n_jobs)


def solve_job(
    job: Job,
    cache_bytes: int,
    n_threads: int,
    buffers: Buffers | None = None,
    callback: Callable[[int, Progress], object] | None = None,
) -> list[Solution]:
    """Solve the binary problems of one cluster (DC-SVM Algorithm 1, line 11).

    Parameters
    ----------
    job : Job
        The cluster.
    cache_bytes : int
        Memory for kernel values.
    n_threads : int
        Number of threads.
    buffers : Buffers, optional
        Memory of an earlier job to use again.
    callback : callable, optional
        Called after every round of the solver; see `solve_problems`.

    Returns
    -------
    solutions : list of Solution
        One for each binary problem, without gradients.
    """
    with open_workers(n_threads) as workers:
        return solve_with(workers, job, cache_bytes, buffers, callback)


def solve_with(
    workers: Workers,
    job: Job,
    cache_bytes: int,
    buffers: Buffers | None = None,
    callback: Callable[[int, Progress], object] | None = None,
) -> list[Solution]:
    """Solve the binary problems of one cluster with open workers; see `solve_job`."""
    open_duals = [dual for dual in job.duals if _is_open(dual)]
    solved: Iterator[Solution] = iter(())
    if open_duals:
        budget = replace(job.budget, cache_bytes=cache_bytes)
        if job.seconds is not None:
            budget = replace(budget, deadline=start_deadline(job.seconds))
        solved = iter(
            solve_problems(
                job.kernel,
                job.points,
                open_duals,
                workers,
                budget=budget,
                seed=job.seed,
                callback=callback,
                buffers=buffers,
            )
        )
    return [
        replace(next(solved), gradient=np.empty(0)) if _is_open(dual) else _known_solution(dual)
        for dual in job.duals
    ]


def _is_open(dual: DualProblem) -> bool:
    """Return False for a problem without points, or whose sum of zero forces all variables to zero."""
    if dual.total is None:
        return len(dual) > 0
    return bool(dual.lower.any() and dual.upper.any())


def _known_solution(dual: DualProblem) -> Solution:
    """Return the solution of a problem that is not open: no support vectors, a constant decision.

    The constant is the smallest that meets the optimality conditions: variables that can only rise
    need ``linear + intercept >= 0``. Without a background it is the label of the class.
    """
    needed = -dual.linear
    intercept = needed.max(initial=0.0) if dual.upper.any() else needed.min(initial=0.0)
    return Solution(
        coef=np.zeros(len(dual)),
        gradient=np.empty(0),
        intercept=float(intercept),
        objective=0.0,
        duality_gap=0.0,
        violation=0.0,
    )
