"""Threads for compiled loops that release the interpreter lock."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import pairwise
from numbers import Integral
from threading import Lock
from typing import ClassVar
from weakref import WeakSet

from joblib import cpu_count
from threadpoolctl import LibController, ThreadpoolController


class WorkInterruptedError(Exception):
    """Ends the work of a thread because another thread failed, or the user pressed Ctrl-C."""


class Workers:
    """A fixed number of threads that share a loop over ``range(n)``.

    Obtain one from `open_workers`. The pieces of a loop are disjoint and made up of whole grains, so
    a loop that works grain by grain gives the same result, rounding too, whatever the number of
    threads. ``failed`` becomes true when a loop ends by an error or Ctrl-C: a long
    piece that is still running may look at it and give up. Inside a piece, `alone` gives the thread
    that runs it as workers of their own, which give up together with these.
    """

    def __init__(
        self, n_threads: int, pool: ThreadPoolExecutor | None, parent: "Workers | None" = None
    ) -> None:
        self.n_threads = n_threads
        self._pool = pool
        self._parent = parent
        self._has_failed = False

    @property
    def failed(self) -> bool:
        """Whether a loop of these workers, or of those that they are one of, has failed."""
        return self._has_failed or (self._parent is not None and self._parent.failed)

    def fail(self) -> None:
        """Tell all pieces that are still running to give up."""
        self._has_failed = True

    def alone(self) -> "Workers":
        """Return the calling thread as workers of their own."""
        return Workers(1, None, self)

    def require_success(self) -> None:
        """Raise `WorkInterruptedError` if the work is of no use any more."""
        if self.failed:
            raise WorkInterruptedError

    def run(
        self,
        n: int,
        task: Callable[[int, int], object],
        grain: int = 256,
        *,
        one_by_one: bool = False,
    ) -> None:
        """Call ``task(start, stop)`` on consecutive pieces of ``range(n)``.

        Pieces are whole multiples of ``grain`` items, and there are several for each thread, so that
        one slow piece does not leave the other threads idle. Where items differ much, each grain can
        be a piece: ``one_by_one``, the largest items first.
        """
        most = n if one_by_one else 4 * self.n_threads
        bounds = split_range(n, grain, most if self._pool else 1)
        if self._parent is not None:
            self._parent.require_success()
        if self._pool is None or len(bounds) < 2:
            for start, stop in bounds:
                task(start, stop)
            return
        futures: list[Future[object]] = []
        try:
            for start, stop in bounds:
                futures.append(self._pool.submit(task, start, stop))
            for future in futures:
                future.result()
        except BaseException:
            self.fail()
            raise
        finally:
            # After an error or Ctrl-C no thread may still write to arrays the caller is leaving.
            for future in futures:
                future.cancel()
            wait(futures)


def split_range(n: int, grain: int, max_pieces: int) -> list[tuple[int, int]]:
    """Cut ``range(n)`` into at most ``max_pieces`` nearly equal pieces, multiples of ``grain``.

    But for the last, which ends at ``n``.
    """
    n_grains = -(-n // grain)
    pieces = max(1, min(max_pieces, n_grains))
    bounds = [min(n, n_grains * i // pieces * grain) for i in range(pieces + 1)]
    return [(a, b) for a, b in pairwise(bounds) if b > a]


@cache
def _blas_controller() -> ThreadpoolController:
    """Handle on the BLAS libraries; finding them takes a millisecond, so it is done once."""
    return ThreadpoolController().select(user_api="blas")


def count_threads(n_jobs: int | None) -> int:
    """Number of threads that ``n_jobs`` asks for.

    ``None`` means all cores, because these threads share memory and cost nothing when idle, but no
    more than ``OMP_NUM_THREADS``: joblib and Dask set it in the processes they start, so that many
    fits side by side do not fight for cores.
    """
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        most = int(limit) if limit.isdecimal() else 0
        return min(cpu_count(), most) if most > 0 else cpu_count()
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs: {n_jobs!r} is not allowed; give None, -1 or a positive integer")
    return int(n_jobs) if n_jobs > 0 else max(1, cpu_count() + 1 + int(n_jobs))


class single_blas:  # noqa: N801
    """Hold BLAS to one thread in the body of a ``with``, for as long as any body runs.

    The last body that ends restores the threads. Ctrl-C may come between any two steps of entering and
    leaving. A use that never left is forgotten with its object, and the next use restores what the
    interrupted one did not.
    """

    _lock = Lock()
    _inside: ClassVar[WeakSet["single_blas"]] = WeakSet()
    _before: ClassVar[list[tuple[LibController, int]]] = []

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                libraries = _blas_controller().lib_controllers
                if not self._before:
                    self._before.extend((library, library.num_threads) for library in libraries)
                for library in libraries:
                    _set_blas_threads(library, 1)
            self._inside.add(self)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside.discard(self)
            if not self._inside:
                for library, n_threads in self._before:
                    _set_blas_threads(library, n_threads)
                self._before.clear()


def _set_blas_threads(library: LibController, n_threads: int) -> None:
    """Set the threads of a library, whichever thread set them last.

    Since version 3.8 threadpoolctl ignores, without a word, all threads but the first that sets a
    limit. The first one in and the last one out are often not the same.
    """
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)
    library.set_num_threads(n_threads)


@cache
def _openmp_controller() -> ThreadpoolController:
    """Handle on the OpenMP libraries, found once."""
    return ThreadpoolController().select(user_api="openmp")


def single_openmp() -> AbstractContextManager[object]:
    """Hold the compiled loops of scikit-learn to one thread in the body of a ``with``."""
    limits: AbstractContextManager[object] = _openmp_controller().limit(limits=1)
    return limits


@contextmanager
def open_workers(n_jobs: int | None) -> Iterator[Workers]:
    """Threads for the body of a ``with``; BLAS is held to one thread meanwhile."""
    n_threads = count_threads(n_jobs)
    with single_blas():
        if n_threads == 1:
            yield Workers(1, None)
        else:
            with ThreadPoolExecutor(n_threads, thread_name_prefix="widemargin") as pool:
                yield Workers(n_threads, pool)
