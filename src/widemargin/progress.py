"""One-line progress displays for long fits."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, TextIO

from widemargin.callbacks import LevelProgress, Progress, Stage

#: Seconds between two updates of a line that is written over, and between two lines of a log.
REFRESH_SECONDS, LOG_SECONDS = 0.2, 10.0


class _Line:
    """One line of a terminal that is written over, or a few lines of a log.

    Parameters
    ----------
    verbose : int
        1 for one updated line, or one every few seconds where lines cannot be written over; 2 and
        more for a line at every event.
    stream : file, optional
        Where to write; standard error if not given.
    """

    def __init__(self, verbose: int, stream: TextIO | None = None) -> None:
        self.verbose = verbose
        self.stream = sys.stderr if stream is None else stream
        self._began = time.perf_counter()
        self._shown = -LOG_SECONDS
        self._width = 0

    def _is_due(self) -> bool:
        """Whether to write something now."""
        seconds = time.perf_counter() - self._began
        wait = REFRESH_SECONDS if self.stream.isatty() else LOG_SECONDS
        if self.verbose < 2 and seconds - self._shown < wait:
            return False
        self._shown = seconds
        return True

    def _write(self, text: str) -> None:
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


class ProgressLine(_Line):
    """Shows the state of a fit of one or several binary problems.

    Parameters
    ----------
    n_problems : int
        Binary problems in the fit.
    verbose, stream
        How often and where to write.
    """

    def __init__(self, n_problems: int, verbose: int, stream: TextIO | None = None) -> None:
        super().__init__(verbose, stream)
        self.n_problems = n_problems

    def show(self, problem: int, state: Progress) -> None:
        """Report one round of the binary problem number ``problem``."""
        if self._is_due():
            seconds = time.perf_counter() - self._began
            self._write(describe(problem, self.n_problems, state, seconds))


class LevelLine(_Line):
    """Shows the state of a divide-and-conquer fit; every level ends with a line of its own."""

    def show(self, state: LevelProgress) -> None:
        """Report a solved cluster, or a round on the whole problem."""
        if state.n_done == state.n_clusters:
            self._is_due()
            self._write(describe_level(state))
            self.close()
            self._width = 0
        elif self._is_due():
            self._write(describe_level(state))


class PassLine(_Line):
    """Shows the state of a descent in passes over the data, or in other units.

    Parameters
    ----------
    unit : str
        What is counted.
    verbose, stream
        How often and where to write.
    """

    def __init__(self, unit: str, verbose: int, stream: TextIO | None = None) -> None:
        super().__init__(verbose, stream)
        self.unit = unit

    def show(self, number: int, violation: float) -> None:
        """Report one of them."""
        if self._is_due():
            seconds = time.perf_counter() - self._began
            self._write(
                f"[widemargin] {self.unit} {number:,}  violation {violation:.2g}  {seconds:.1f} s"
            )


class BasisLine(_Line):
    """Shows the state of a growing basis.

    Parameters
    ----------
    n_bases : int
        Bases in the fit.
    verbose, stream
        How often and where to write.
    """

    def __init__(self, n_bases: int, verbose: int, stream: TextIO | None = None) -> None:
        super().__init__(verbose, stream)
        self.n_bases = n_bases

    def show(self, number: int, doing: str, stage: Stage) -> None:
        """Report a change of basis ``number``."""
        if self._is_due():
            seconds = time.perf_counter() - self._began
            which = f"basis {number + 1}/{self.n_bases}  " if self.n_bases > 1 else ""
            self._write(
                f"[widemargin] {which}{doing}  basis vectors {len(stage.rows):,}  "
                f"objective {stage.objective.sum():.6g}  errors {stage.n_wrong.sum():,}  "
                f"{seconds:.1f} s"
            )


class SearchLine(_Line):
    """Shows how far a search over cells of a grid has come."""

    def show(self, n_done: int, n_total: int, best: float) -> None:
        """Report one fold of a cell; ``best`` is the best mean score so far, NaN for none."""
        if not self._is_due() and n_done < n_total:
            return
        seconds = time.perf_counter() - self._began
        score = "" if best != best else f"best score {best:.4f}  "
        left = seconds * (n_total - n_done) / n_done
        self._write(
            f"[widemargin] fits {n_done:,}/{n_total:,}  {score}{seconds:.1f} s, "
            f"about {left:.0f} s left"
        )


@contextmanager
def _open(line: Any) -> Iterator[Any]:
    """The ``show`` of a line in the body of a ``with``; None if nobody wants to know."""
    if not line.verbose:
        yield None
        return
    with closing(line):
        yield line.show


def show_passes(
    verbose: int, unit: str = "pass"
) -> AbstractContextManager[Callable[[int, float], None] | None]:
    """What to tell about passes in the body of a ``with``; None if nobody wants to know."""
    return _open(PassLine(unit, verbose))


def show_problems(
    n_problems: int, verbose: int
) -> AbstractContextManager[Callable[[int, Progress], None] | None]:
    """What to tell about binary problems in the body of a ``with``; None if nobody wants to know."""
    return _open(ProgressLine(n_problems, verbose))


def show_levels(verbose: int) -> AbstractContextManager[Callable[[LevelProgress], None] | None]:
    """What to tell about levels in the body of a ``with``; None if nobody wants to know."""
    return _open(LevelLine(verbose))


def show_bases(
    n_problems: int, verbose: int
) -> AbstractContextManager[Callable[[int, str, Stage], None] | None]:
    """What to tell about growing bases in the body of a ``with``; None if nobody wants to know."""
    return _open(BasisLine(n_problems, verbose))


def show_cells(
    verbose: int,
) -> AbstractContextManager[Callable[[int, int, float], None] | None]:
    """What to tell about cells of a grid in the body of a ``with``; None if nobody wants to know."""
    return _open(SearchLine(verbose))


def describe(problem: int, n_problems: int, state: Progress, seconds: float) -> str:
    """One line of text for the state of a fit."""
    which = f"problem {problem + 1}/{n_problems}  " if n_problems > 1 else ""
    return (
        f"[widemargin] {which}rows {state.n_seen:,}/{state.n_total:,}  "
        f"support vectors {state.n_support:,}  working set {state.n_working:,}  "
        f"violation {state.violation:.2g}  moves {state.n_iter:,}  {seconds:.1f} s"
    )


def describe_level(state: LevelProgress) -> str:
    """One line of text for the state of a level."""
    left = "" if not state.seconds_left else f", {state.seconds_left:.0f} s left at this level"
    part = f"clusters {state.n_done:,}/{state.n_clusters:,}" if state.level else "whole problem"
    reached = f"objective {state.objective:.6g}  " if state.n_done else ""
    if state.violation is not None:
        reached = f"violation {state.violation:.2g}  "
    return (
        f"[widemargin] level {state.level}  {part}  "
        f"support vectors {state.n_support:,}  {reached}{state.seconds:.1f} s{left}"
    )
