"""What a solver may spend, and why it stopped."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from widemargin.deadline import seconds_left


class StopReason(StrEnum):
    """Why a fit ended, in the order from the best to the worst.

    ``SEPARATED`` and ``RANK`` are reasons of `ProjectedSVC` to take fewer basis vectors than were
    asked for, ``N_EPOCHS`` is that of an online method, ``UNKNOWN`` that of a model from another
    library's file.
    """

    UNKNOWN = "unknown"
    CONVERGED = "converged"
    SEPARATED = "separated"
    RANK = "rank"
    N_EPOCHS = "n_epochs"
    STALLED = "stalled"
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    DIVERGED = "diverged"

    @property
    def is_limit(self) -> bool:
        """Whether the user's limit ended the fit."""
        return self in (StopReason.MAX_ITER, StopReason.MAX_TIME)


def worst_reason(reasons: Iterable[StopReason]) -> StopReason:
    """Return the stop reason of several problems together."""
    order = list(StopReason)
    return max(reasons, key=order.index)


@dataclass(frozen=True)
class Budget:
    """When to stop, and how much memory kernel values may take.

    Attributes
    ----------
    tol : float
        Violation of the optimality conditions at which a problem counts as solved.
    max_iter : int
        Most iterations of one problem; -1 for no limit.
    deadline : float or None
        End of all problems by `widemargin.deadline`, whose clock is that of one machine.
    cache_bytes : int
        Memory for kernel values.
    all_or_nothing : bool
        Whether the caller discards a solution that is not finished in time. Then the solver spends no
        time on completing it, and only its ``stop_reason`` is valid.
    """

    tol: float = 1e-3
    max_iter: int = -1
    deadline: float | None = None
    cache_bytes: int = 1 << 30
    all_or_nothing: bool = False

    def limit_reached(self, n_iter: int, seconds_ahead: float = 0.0) -> StopReason | None:
        """Return the limit that ends a descent, if any.

        ``seconds_ahead`` is the time that work will take which has to be done after the end.
        """
        if 0 <= self.max_iter <= n_iter:
            return StopReason.MAX_ITER
        if self.deadline is not None and seconds_left(self.deadline) <= seconds_ahead:
            return StopReason.MAX_TIME
        return None

    def iterations_left(self, n_iter: int) -> float:
        """Return the iterations that may follow ``n_iter``; infinity without a limit."""
        return float(self.max_iter - n_iter) if self.max_iter >= 0 else float("inf")
