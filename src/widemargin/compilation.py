"""How loops are compiled, and the line that tells a user who waits for the compiler.

Compiling one function costs more than its lines suggest: Numba optimises it, writes machine code for
it and adds wrappers for calls from Python and from C. The decorators leave out what is never used.
"""

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import njit
from numba.core import event

# The declared types of `njit` leave out the options about wrappers.
_njit: Any = njit
_FAST: dict[str, Any] = {"nogil": True, "fastmath": True, "error_model": "numpy"}

# Functions are inlined by the compiler always: else a process that compiles could run another copy of
# a function, optimised in another way, than one that loads the code from the cache, and round
# differently.
#: A compiled function that Python calls; its machine code is kept on disk.
jit = _njit(**_FAST, cache=True, forceinline=True, no_cfunc_wrapper=True)
#: A part of such functions, which Python never calls. It is compiled with each process that compiles a
#: caller, and it is never kept: so every caller is made from the source.
part = _njit(**_FAST, forceinline=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)
# All of fastmath but the freedom to add in another order, and to divide by way of reciprocals, which
# vectors estimate and single numbers do not.
_ORDERED = {"nnan", "ninf", "nsz", "contract", "afn"}
#: A part that adds numbers in the order in which they are written. A loop that reads arrays and writes
#: another is compiled twice, for vectors and for single numbers. The second copy runs where the arrays
#: lie so close together that vectors might overlap. A compiler that may change the order may do so in
#: one copy only: then results depend on the addresses that a thread happens to get. A loop that
#: reduces arrays to one number has no second copy, and needs the freedom to be vectorised.
ordered = _njit(
    **{**_FAST, "fastmath": _ORDERED}, forceinline=True, no_cfunc_wrapper=True,
    no_cpython_wrapper=True,
)  # fmt: skip
#: A part whose loop is optimised together with those around it.
inlined = _njit(**_FAST, cache=True, inline="always")

#: Seconds of compilation after which the user is told.
PATIENCE_SECONDS = 2.0
#: Environment variable that keeps the line away, unless it is empty or 0.
QUIET_VARIABLE = "WIDEMARGIN_QUIET"
NOTICE = (
    "widemargin: compiling for this CPU, once per machine; `widemargin warmup` does it in advance "
    f"({QUIET_VARIABLE}=1 hides this line)"
)


class InterruptShield:
    """Keeps Ctrl-C back while it is raised; it arrives when the shield is lowered.

    Signals reach the main thread alone, so that other threads need no shield.
    """

    def __init__(self) -> None:
        self._handler: Any = None
        self._caught: list[tuple[int, Any]] = []

    def raise_shield(self) -> None:
        """Keep Ctrl-C back from now on, unless it is ignored anyway."""
        is_main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGINT) if is_main else None
        if callable(handler):
            self._handler = handler
            signal.signal(signal.SIGINT, lambda *details: self._caught.append(details))

    def lower_shield(self) -> None:
        """Hand on what was kept back."""
        if self._handler is None:
            return
        handler, self._handler = self._handler, None
        signal.signal(signal.SIGINT, handler)
        caught, self._caught = self._caught, []
        if caught:
            handler(*caught[-1])


class CompilationListener(event.Listener):
    """Counts what Numba compiles for this package, and tells a user who waits.

    Numba sends an event when it compiles, not when it loads machine code from its cache. It compiles
    in one thread at a time, and parts inside their callers. Garbage is not collected meanwhile:
    looking through the many objects of the compiler, nearly all in use, took a tenth of its time.
    Ctrl-C waits until the function is compiled: Numba would keep the parts that were left half
    compiled, and no function that needs them could be compiled in this process any more.

    Parameters
    ----------
    clock : callable
        Returns seconds.

    Attributes
    ----------
    functions : list of str
        Names of the functions of this package that Python calls and that were compiled here.
    seconds : float
        How long that took in all.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.functions: list[str] = []
        self._clock = clock
        self._lock = threading.Lock()
        self._depth = 0
        self._began = self.seconds = 0.0
        self._n_silences = 0
        self._is_told = self._collects_garbage = False
        self._interrupts = InterruptShield()

    def on_start(self, event: Any) -> None:
        """Count an event that begins, of this package or inside one of it."""
        with self._lock:
            if self._depth == 0:
                function = event.data["dispatcher"].py_func
                # A function made by `exec` may belong to no module.
                if not (function.__module__ or "").startswith("widemargin."):
                    return
                self.functions.append(f"{function.__module__}.{function.__name__}")
                self._began = self._clock()
                self._collects_garbage = gc.isenabled()
                gc.disable()
                self._interrupts.raise_shield()
            self._depth += 1
            self._tell_if_late()

    def on_end(self, _event: Any) -> None:
        """Count an event that ends."""
        with self._lock:
            if self._depth == 0:
                return
            self._tell_if_late()
            self._depth -= 1
            if self._depth == 0:
                self.seconds += self._clock() - self._began
                if self._collects_garbage:
                    gc.enable()
            is_over = self._depth == 0
        if is_over:
            self._interrupts.lower_shield()

    def _tell_if_late(self) -> None:
        waited = self.seconds + self._clock() - self._began
        is_quiet = self._n_silences > 0 or os.environ.get(QUIET_VARIABLE, "") not in ("", "0")
        if waited > PATIENCE_SECONDS and not self._is_told and not is_quiet:
            self._is_told = True
            print(NOTICE, file=sys.stderr, flush=True)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Print nothing in the body of a ``with``."""
        with self._lock:
            self._n_silences += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_silences -= 1


#: The listener of this process.
compilation = CompilationListener()
event.register("numba:compile", compilation)
