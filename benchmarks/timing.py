"""Wall time, processor time and memory of one call, for every benchmark."""

import gc
import multiprocessing
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.settings import MAX_TOUCH_BYTES, TOUCH_SHARE
from widemargin.memory import free_bytes

#: The mapping is private because shared memory would come in small pages, which are slow to touch and
#: leave the free memory in pieces.
TOUCH_CODE = """\
import mmap, sys
memory = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
if hasattr(mmap, "MADV_HUGEPAGE"):
    memory.madvise(mmap.MADV_HUGEPAGE)
memory[:: mmap.PAGESIZE] = bytes(len(range(0, len(memory), mmap.PAGESIZE)))
"""


@dataclass(frozen=True)
class Timing:
    """A call that was timed.

    Attributes
    ----------
    value : object
        What the last call returned.
    seconds, cpu_seconds : float
        Wall and processor seconds, each the least of the repeats.
    """

    value: Any
    seconds: float
    cpu_seconds: float


def time_call(
    function: Callable[[], Any], repeats: int = 1, short_seconds: float = float("inf")
) -> Timing:
    """Time a call; repeat it while repeats are left and it has taken less than ``short_seconds``.

    These are processor seconds, so that a call is as often repeated on a busy machine.
    """
    walls: list[float] = []
    cpus: list[float] = []
    while not walls or (len(walls) < repeats and min(cpus) < short_seconds):
        gc.collect()
        cpu_began, began = time.process_time(), time.perf_counter()
        value = function()
        walls.append(time.perf_counter() - began)
        cpus.append(time.process_time() - cpu_began)
    return Timing(value, min(walls), min(cpus))


class CpuLimitError(Exception):
    """A piece of work took more processor seconds than it may."""


def call_limited(function: Callable[[], Any], seconds: int) -> Any:
    """Return what a function returns in a child process that has so many processor seconds.

    The system ends the child after them, also in the middle of compiled code, and `CpuLimitError` is
    raised.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def call() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        sender.send(function())

    child = context.Process(target=call)
    child.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        result = None
    child.join()
    if child.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise CpuLimitError(f"took over {seconds} processor seconds")
    if child.exitcode != 0:
        raise RuntimeError(f"the process ended with code {child.exitcode}")
    return result


def touch_memory(max_bytes: float = MAX_TOUCH_BYTES) -> None:
    """Have the host of a virtual machine back the memory that is about to be used.

    The first touch of fresh memory can cost seconds a gigabyte. A child process does it: its
    pages return to the system, and the peak memory of this process stays that of the solver.
    """
    n_bytes = int(min(TOUCH_SHARE * free_bytes(), max_bytes))
    subprocess.run([sys.executable, "-I", "-S", "-c", TOUCH_CODE, str(n_bytes)], check=True)


def read_peak_rss() -> int:
    """Largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def select_rows(y: NDArray[Any], n_rows: int) -> NDArray[np.intp]:
    """About ``n_rows`` rows with an equal number, where there are enough, of every class."""
    classes = np.unique(y)
    share = n_rows // len(classes)
    return np.sort(np.concatenate([np.flatnonzero(y == c)[:share] for c in classes]))
