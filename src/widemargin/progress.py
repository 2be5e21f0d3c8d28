"""One-line progress displays for long fits."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TextIO

from widemargin.callbacks import LevelProgress, Progress, Stage

#: Receives whatever a line shows.
Listener = Callable[..., None]
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
        self._describe: Callable[[], str] = lambda: "[widemargin]"

    def report(self, describe: Callable[[], str], *, now: bool = False) -> None:
        """Write what ``describe`` returns if the last text is old enough, or ``now``."""
        self._describe = describe
        is_due = self._is_due()
        if is_due or now:
            self._write(f"{describe()}  {self.seconds():.1f} s")

    def seconds(self) -> float:
        """Seconds since the line was made."""
        return time.perf_counter() - self._began

    def _is_due(self) -> bool:
        """Whether to write something now."""
        seconds = self.seconds()
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

    def close(self, ending: str = "done") -> None:
        """Write the last state once more, with how the fit ended, and begin a new line."""
        self._write(f"{self._describe()}  {ending} after {self.seconds():.1f} s")
        self._end_line()

    def _end_line(self) -> None:
        if self._width:
            self.stream.write("\n")
            self.stream.flush()
        self._width = 0


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
        self.report(lambda: describe(problem, self.n_problems, state))


class LevelLine(_Line):
    """Shows the state of a divide-and-conquer fit; every level ends with a line of its own."""

    def show(self, state: LevelProgress) -> None:
        """Report a solved cluster, or a round on the whole problem."""
        is_solved = state.n_done == state.n_clusters
        self.report(lambda: describe_level(state), now=is_solved)
        if is_solved:
            self._end_line()


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
        self.report(lambda: f"[widemargin] {self.unit} {number:,}  violation {violation:.2g}")


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
        which = f"basis {number + 1}/{self.n_bases}  " if self.n_bases > 1 else ""
        self.report(
            lambda: (
                f"[widemargin] {which}{doing}  basis vectors {len(stage.rows):,}  "
                f"objective {stage.objective.sum():.6g}  errors {stage.n_wrong.sum():,}"
            )
        )


class SearchLine(_Line):
    """Shows how far a search over cells of a grid has come."""

    def show(self, n_done: int, n_total: int, best: float) -> None:
        """Report one fold of a cell; ``best`` is the best mean score so far, NaN for none."""
        score = "" if best != best else f"best score {best:.4f}  "
        left = self.seconds() * (n_total - n_done) / n_done
        self.report(
            lambda: f"[widemargin] fits {n_done:,}/{n_total:,}  {score}about {left:.0f} s left",
            now=n_done == n_total,
        )


class Bar(_Line):
    """Shows the done part of some work as a bar.

    Parameters
    ----------
    name : str
        What is being done.
    stream : file, optional
        Where to write; standard error if not given. Where lines cannot be written over, it gets a
        line every ten seconds and the closing one.
    """

    WIDTH = 30

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        super().__init__(1, stream)
        self._shown = 0.0
        self.name = name

    def show(self, part: float, detail: str = "") -> None:
        """Report that ``part`` of the work, between 0 and 1, is done."""
        self.report(lambda: f"{self.name} {draw_bar(part, self.WIDTH, self.stream)} {detail}")

    def close(self, ending: str = "done") -> None:
        """Write how the work ended and how long it took, and begin a new line."""
        self._describe = lambda: f"{self.name}:"
        super().close(ending)


def draw_bar(part: float, width: int, stream: TextIO) -> str:
    """Draw a bar of ``width`` characters, ``part`` of which are filled."""
    full, empty = "█", "░"
    if not can_write(full + empty, stream):
        full, empty = "#", "."
    n_full = round(width * min(max(part, 0.0), 1.0))
    return full * n_full + empty * (width - n_full)


def can_write(text: str, stream: TextIO) -> bool:
    """Whether the encoding of a stream has all characters of a text."""
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def show_bar(name: str) -> Iterator[Callable[..., None]]:
    """What draws a bar in the body of a ``with``."""
    with _open(Bar(name)) as show:
        yield show


@contextmanager
def _open(line: Any, listen: Listener | None = None) -> Iterator[Any]:
    """What to tell in the body of a ``with``; None if nobody wants to know."""
    if not line.verbose:
        yield listen
        return

    def tell(*state: Any) -> None:
        line.show(*state)
        if listen is not None:
            listen(*state)

    try:
        yield tell
    except BaseException:
        line.close("stopped")
        raise
    line.close()


def show_passes(
    verbose: int, unit: str = "pass", listen: Listener | None = None
) -> AbstractContextManager[Callable[[int, float], None] | None]:
    """What to tell about passes in the body of a ``with``; None if nobody wants to know."""
    return _open(PassLine(unit, verbose), listen)


def show_problems(
    n_problems: int, verbose: int, listen: Listener | None = None
) -> AbstractContextManager[Callable[[int, Progress], None] | None]:
    """What to tell about binary problems in the body of a ``with``; None if nobody wants to know."""
    return _open(ProgressLine(n_problems, verbose), listen)


def show_levels(
    verbose: int, listen: Listener | None = None
) -> AbstractContextManager[Callable[[LevelProgress], None] | None]:
    """What to tell about levels in the body of a ``with``; None if nobody wants to know."""
    return _open(LevelLine(verbose), listen)


def show_bases(
    n_problems: int, verbose: int, listen: Listener | None = None
) -> AbstractContextManager[Callable[[int, str, Stage], None] | None]:
    """What to tell about growing bases in the body of a ``with``; None if nobody wants to know."""
    return _open(BasisLine(n_problems, verbose), listen)


def show_cells(
    verbose: int, listen: Listener | None = None
) -> AbstractContextManager[Callable[[int, int, float], None] | None]:
    """What to tell about cells of a grid in the body of a ``with``; None if nobody wants to know."""
    return _open(SearchLine(verbose), listen)


def describe(problem: int, n_problems: int, state: Progress) -> str:
    """One line of text for the state of a fit."""
    which = f"problem {problem + 1}/{n_problems}  " if n_problems > 1 else ""
    return (
        f"[widemargin] {which}rows {state.n_seen:,}/{state.n_total:,}  "
        f"support vectors {state.n_support:,}  working set {state.n_working:,}  "
        f"violation {state.violation:.2g}  iterations {state.n_iter:,}"
    )


def describe_level(state: LevelProgress) -> str:
    """One line of text for the state of a level."""
    left = "" if not state.seconds_left else f"  {state.seconds_left:.0f} s left at this level"
    part = f"clusters {state.n_done:,}/{state.n_clusters:,}" if state.level else "whole problem"
    reached = f"  objective {state.objective:.6g}" if state.n_done else ""
    if state.violation is not None:
        reached = f"  violation {state.violation:.2g}"
    return (
        f"[widemargin] level {state.level}  {part}  "
        f"support vectors {state.n_support:,}{reached}{left}"
    )
