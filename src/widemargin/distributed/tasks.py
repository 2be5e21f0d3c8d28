"""Tasks of a fit on a Dask cluster: named, watched while they run, and released at the end.

Every task is a pure function of its arguments, and what the client sends is an argument of a task too.
So Dask can compute again whatever is lost with a worker.
"""

import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from typing import Any, Self
from uuid import uuid4

from widemargin import __version__
from widemargin.deadline import is_late, start_deadline
from widemargin.memory import Buffers
from widemargin.parallel import WorkInterruptedError

#: Seconds that a Dask cluster may be without workers, which may be restarting, and seconds between two
#: checks for workers.
NO_WORKER_SECONDS, LOOK_SECONDS = 60.0, 5.0
#: Share of a worker's memory that its tasks together may take for kernel values, and the bytes for
#: each where the worker has no limit.
CACHE_SHARE, CACHE_BYTES = 0.25, 10**9
#: What users read who lack Dask.
NEEDS_DASK = "widemargin.distributed needs Dask: pip install 'widemargin[dask]'"


def import_dask() -> Any:
    """Return the module `distributed`; raise an error that says what to install."""
    try:
        import distributed
    except ImportError as error:
        raise ImportError(NEEDS_DASK) from error
    return distributed


def has_client() -> bool:
    """Return whether this process has a current client; Dask is not imported if nobody has."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        distributed.get_client()
    except ValueError:
        return False
    return True


def find_client(client: Any) -> Any:
    """Return the client that the user gave, or the current one; refuse one that is closed."""
    distributed = import_dask()
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise ValueError(
                "client: there is no Dask client; start one with distributed.Client(), or give one "
                "as client="
            ) from None
    if getattr(client, "status", None) != "running":
        raise ValueError(
            f"client: it is {getattr(client, 'status', 'no Dask client')}; give a "
            "distributed.Client that is connected to a scheduler"
        )
    return client


def check_workers(client: Any) -> int:
    """Return the number of threads of all workers; refuse workers that cannot run the tasks."""

    # A function inside a function is sent by value, so that it runs where widemargin is missing.
    def look_for_widemargin() -> str | None:
        from importlib import import_module

        try:
            return str(import_module("widemargin").__version__)
        except ImportError:
            return None

    for worker, version in client.run(look_for_widemargin).items():
        if version is None:
            raise RuntimeError(
                f"client: the Dask worker {worker} cannot import widemargin; install widemargin "
                f"{__version__} on all workers"
            )
        if version != __version__:
            raise RuntimeError(
                f"client: the Dask worker {worker} has widemargin {version}, but this process has "
                f"{__version__}; install the same version on all workers"
            )
    n_threads = sum(client.nthreads().values())
    if n_threads == 0:
        raise RuntimeError("client: the Dask cluster has no workers; start some")
    return int(n_threads)


class Tasks:
    """Tasks of one fit. Leaving the ``with`` releases every one of them.

    Parameters
    ----------
    client : distributed.Client
        Where to run them.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self._token = uuid4().hex[:8]
        self._n_named = 0
        self._futures: dict[str, Any] = {}
        self._current: Any = None

    def __enter__(self) -> Self:
        # Functions of Dask that take futures look for the current client.
        self._current = self.client.as_current()
        self._current.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._current.__exit__(None, None, None)
        # After an error or Ctrl-C the scheduler forgets tasks that have not begun, and tasks that run
        # notice it. It is not told to cancel them, because it would then cancel tasks of others if a
        # worker has just been lost.
        if self.client.status == "running":
            self.release(list(self._futures.values()))

    def name(self, what: str) -> str:
        """Return a new name; Dask's pages show tasks by ``what``."""
        self._n_named += 1
        return f"{what}-{self._token}-{self._n_named}"

    def submit(self, what: str, function: Callable[..., Any], *args: Any) -> Any:
        """Start a task, and return its future."""
        self._require_running()
        # Few messages per task: Dask would look for a size of the arguments of every task.
        return self.keep([self.client.submit(function, *args, key=self.name(what), pure=False)])[0]

    def map(self, what: str, function: Callable[..., Any], *lists: Sequence[Any]) -> list[Any]:
        """Start a task for each position of some lists of the same length."""
        return [self.submit(what, function, *args) for args in zip(*lists, strict=True)]

    def send(self, what: str, value: Any) -> Any:
        """Send a value to the cluster, and return its future; workers copy it from each other.

        The scheduler keeps the bytes, so that the value is not lost with a worker.
        """
        import cloudpickle
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return self.submit(what, pickle.loads, cloudpickle.dumps(value))

    def keep(self, futures: Iterable[Any]) -> list[Any]:
        """Note futures that are to be released at the end."""
        kept = list(futures)
        self._futures.update((future.key, future) for future in kept)
        return kept

    def release(self, futures: Iterable[Any]) -> None:
        """Release futures that are needed no more; what other tasks need stays on the cluster."""
        for future in futures:
            self._futures.pop(future.key, None)
            future.release()

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Return the results of some tasks in their order."""
        results = dict(self.gather_completed(futures))
        return [results[k] for k in range(len(futures))]

    def gather_completed(self, futures: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield position and result of every task, in the order in which they complete."""
        return self.gather_started(iter(futures), len(futures))

    def gather_started(self, starts: Iterator[Any], n_at_once: int) -> Iterator[tuple[int, Any]]:
        """Yield position and result of tasks, in the order in which they complete.

        ``starts`` starts a task whenever its future is asked for. So many tasks are under way at
        once: the next one is started when another one is done.
        """
        distributed = import_dask()
        position: dict[str, int] = {}
        pending: list[Any] = []
        give_up_at = start_deadline(NO_WORKER_SECONDS)
        while True:
            for future in islice(starts, n_at_once - len(pending)):
                position[future.key] = len(position)
                pending.append(future)
            if not pending:
                return
            try:
                done, _ = distributed.wait(
                    pending, timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED"
                )
            except TimeoutError:
                done = [future for future in pending if future.done()]
            except CancelledError as error:
                raise RuntimeError(self._explain_loss()) from error
            if done or self._has_workers():
                give_up_at = start_deadline(NO_WORKER_SECONDS)
            elif is_late(give_up_at):
                raise RuntimeError(
                    f"the Dask cluster has had no worker for {NO_WORKER_SECONDS:g} s: all have died "
                    "or were closed; look at their logs"
                )
            for future in done:
                result = self._fetch(future)
                if result is _NOT_YET:
                    continue
                pending.remove(future)
                yield position[future.key], result[0]

    def _fetch(self, future: Any) -> Any:
        """Return the result of a task that is done, or what stands for a result that got lost."""
        distributed = import_dask()
        try:
            return (future.result(timeout=LOOK_SECONDS),)
        except distributed.KilledWorker as error:
            raise RuntimeError(
                f"the Dask task {future.key} has ended several workers, most likely because they ran "
                "out of memory: give workers more memory or fewer threads, or raise n_clusters or "
                "n_levels for smaller clusters"
            ) from error
        except CancelledError as error:
            raise RuntimeError(self._explain_loss()) from error
        except TimeoutError:
            # The worker that had the result has died, and the task runs again.
            if future.status == "error":
                raise
            return _NOT_YET

    def _has_workers(self) -> bool:
        self._require_running()
        return bool(self.client.ncores())

    def _require_running(self) -> None:
        if self.client.status != "running":
            raise RuntimeError(self._explain_loss())

    def _explain_loss(self) -> str:
        return (
            "the Dask scheduler has dropped tasks of this fit: it was closed or restarted, or the "
            "client was; start the fit again"
        )


#: Stands for the result of a task that has to run again.
_NOT_YET = object()


class WorkerBuffers:
    """Memory that the tasks of a fit use one after another on a worker, one part for each thread.

    It belongs to an object that is sent to the workers, and goes with it: nothing is sent of it.
    """

    def __init__(self) -> None:
        self._of_thread: dict[int, Buffers] = {}

    def __reduce__(self) -> Any:
        return WorkerBuffers, ()

    def take(self) -> Buffers:
        """Return the memory of the thread that calls this."""
        return self._of_thread.setdefault(threading.get_ident(), Buffers())


def find_cache_bytes(memory: int | None) -> int:
    """Return the bytes that the task that calls this may take for kernel values.

    ``memory`` is the number for each task, or None for a share of the memory of the worker.
    """
    if memory is not None:
        return memory
    from distributed import get_worker

    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    return int(CACHE_SHARE * limit / worker.state.nthreads) if limit else CACHE_BYTES


def watch_cancellation() -> Callable[..., None]:
    """Return a callback for solvers that ends the task that calls this once it is cancelled."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def stop_if_cancelled(*_: object) -> None:
        known = worker.state.tasks.get(key)
        if known is None or known.state == "cancelled":
            raise WorkInterruptedError

    return stop_if_cancelled
