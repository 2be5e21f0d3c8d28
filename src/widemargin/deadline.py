"""Time limits: when a fit has to end, and looks at the clock between pieces of work."""

from time import perf_counter


class OutOfTimeError(Exception):
    """The deadline has passed in the middle of a piece of work, which is left undone."""


def start_deadline(max_time: float | None) -> float | None:
    """When a fit that begins now has to end; None if it may take any time."""
    return None if max_time is None else perf_counter() + max_time


def seconds_left(deadline: float) -> float:
    """Seconds until the deadline, zero once it has passed."""
    return max(0.0, deadline - perf_counter())


def time_left(deadline: float | None) -> float | None:
    """Seconds until the deadline; None if there is none."""
    return None if deadline is None else seconds_left(deadline)


def is_late(deadline: float | None) -> bool:
    """Whether the deadline has passed."""
    return deadline is not None and perf_counter() > deadline


def require_time(deadline: float | None) -> None:
    """Raise `OutOfTimeError` if the deadline has passed."""
    if is_late(deadline):
        raise OutOfTimeError


def share_time(deadline: float | None, n_parts: int) -> float | None:
    """When the first of some parts should end that have the time to the deadline together."""
    if deadline is None:
        return None
    now = perf_counter()
    return now + (deadline - now) / n_parts
