"""A one-line progress display for long fits."""

import sys
import time
from typing import TextIO

from widemargin.solvers.box_qp import Progress

#: Seconds between two updates of the line.
REFRESH_SECONDS = 0.2


class ProgressLine:
    """Shows the state of a fit on one line of a terminal, or as a few lines of a log.

    Parameters
    ----------
    n_problems : int
        Binary problems in the fit.
    verbose : int
        1 for one updated line, 2 and more for a line every round.
    stream : file, optional
        Where to write; standard error if not given.
    """

    def __init__(self, n_problems: int, verbose: int, stream: TextIO | None = None) -> None:
        self.n_problems = n_problems
        self.verbose = verbose
        self.stream = sys.stderr if stream is None else stream
        self._began = time.perf_counter()
        self._shown = -REFRESH_SECONDS
        self._width = 0

    def show(self, problem: int, state: Progress) -> None:
        """Report one round of the binary problem number ``problem``."""
        seconds = time.perf_counter() - self._began
        if self.verbose < 2 and seconds - self._shown < REFRESH_SECONDS:
            return
        self._shown = seconds
        text = describe(problem, self.n_problems, state, seconds)
        if self.verbose < 2 and self.stream.isatty():
            self.stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave the cursor on a fresh line."""
        if self._width:
            self.stream.write("\n")
            self.stream.flush()


def describe(problem: int, n_problems: int, state: Progress, seconds: float) -> str:
    """One line of text for the state of a fit."""
    which = f"problem {problem + 1}/{n_problems}  " if n_problems > 1 else ""
    return (
        f"[widemargin] {which}rows {state.n_seen:,}/{state.n_total:,}  "
        f"support vectors {state.n_support:,}  working set {state.n_working:,}  "
        f"violation {state.violation:.2g}  moves {state.n_iter:,}  {seconds:.1f} s"
    )
