"""LASVM of one binary problem: the current set of examples, their kernel values, the steps."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from widemargin.baselines.lasvm_fast import (
    FREE,
    INSERT,
    SIZE,
    STEPS,
    Members,
    Rows,
    close_gaps,
    run_examples,
    run_reprocess,
    take_line,
)
from widemargin.budget import StopReason
from widemargin.exact.solution import FloatArray
from widemargin.kernels import Index, Kernel, Points
from widemargin.kernels.tiles_fast import store_columns
from widemargin.parallel import Workers

#: Number of examples whose kernel values are computed together.
BLOCK = 256
#: Number of slots allocated at first. The number grows by half when they are full.
FIRST_SLOTS = 1024
#: Share of empty slots above which the set is compacted.
MAX_EMPTY = 0.2
#: Number of members that one compiled call may visit, a fraction of a second. Ctrl-C and the time
#: limit are checked between calls.
CALL_ENTRIES = 30_000_000
#: The finishing step checks its progress after at most this many direction searches. If they lowered
#: the objective by at most this share of it, the precision of float32 kernel values is exhausted.
JUDGED_STEPS, IDLE_SHARE = 10_000, 1e-12


@dataclass(frozen=True)
class Plan:
    """Order of the examples in each pass, and limits."""

    orders: list[Index]
    tol: float
    finish: bool
    deadline: float | None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline; None for no limit."""
        return None if self.deadline is None else max(self.deadline - time.perf_counter(), 0.0)

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.seconds_left == 0.0

    def make_blocks(self) -> list[Index]:
        """Return the blocks of examples that are processed together, of all passes."""
        return [
            order[start : start + BLOCK]
            for order in self.orders
            for start in range(0, len(order), BLOCK)
        ]

    def share_time(self, n_machines: int) -> "Plan":
        """Return the plan of the first of several machines that share the time."""
        left = self.seconds_left
        if left is None:
            return self
        return replace(self, deadline=time.perf_counter() + left / n_machines)


@dataclass(frozen=True)
class Outcome:
    """Result of a machine.

    ``coef`` are the signed dual variables, ``gradient`` is y minus the decision function without
    intercept. Both are NaN for rows that are not in the set.
    """

    coef: FloatArray
    gradient: FloatArray
    intercept: float
    objective: float
    n_iter: int
    stop_reason: StopReason


class Machine:
    """LASVM of one binary problem.

    Parameters
    ----------
    kernel, points
        The kernel and all rows, prepared for it.
    y : ndarray of shape (n,)
        Labels, -1.0 or 1.0.
    upper : ndarray of shape (n,)
        Largest alpha of each row.
    max_bytes : int
        Memory for held kernel values.
    workers : Workers
        Threads that compute kernel values.
    """

    def __init__(
        self, kernel: Kernel, points: Points, y: FloatArray, upper: FloatArray, max_bytes: int,
        workers: Workers,
    ) -> None:  # fmt: skip
        self.kernel, self.points, self.workers = kernel, points, workers
        # While the store of kernel values grows, the old and the new one are in memory.
        self._max_values = max_bytes // 8
        self.rows = Rows(
            y, np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0), kernel.diag(points),
            np.full(len(y), -1),
        )  # fmt: skip
        self.members = _make_members(0, 2)

    def recall(self, coef: FloatArray, gradient: FloatArray) -> None:
        """Start from the set of an earlier `Outcome`; kernel values are computed when needed."""
        rows = np.flatnonzero(~np.isnan(coef))
        size = len(rows)
        self._make_room(size)
        m = self.members
        m.counts[SIZE] = size
        m.owner[:size], self.rows.slot_of[rows] = rows, np.arange(size)
        m.alpha[:size], m.gradient[:size] = coef[rows], gradient[rows]
        m.lower[:size], m.upper[:size] = self.rows.lower[rows], self.rows.upper[rows]

    def run(self, plan: Plan, show: Callable[[int, float], None] | None = None) -> Outcome:
        """Process the examples, run the finishing step, and return the result.

        ``show`` is called with the number of examples processed so far and the violation.
        """
        n_seen = 0
        for chosen in plan.make_blocks():
            if plan.is_late:
                return self._describe(StopReason.MAX_TIME)
            self._take_in(chosen, plan.tol)
            n_seen += len(chosen)
            if show:
                show(n_seen, self._find_ends()[1])
        return self._describe(self._finish(plan) if plan.finish else StopReason.N_EPOCHS)

    def _take_in(self, chosen: Index, tol: float) -> None:
        """Run LASVM's steps PROCESS and REPROCESS for each of some examples."""
        self._close_gaps(MAX_EMPTY)
        self._make_room(int(np.count_nonzero(self.rows.slot_of[chosen] < 0)))
        values = np.empty((len(chosen), len(self.members.alpha)), np.float32)
        self._compute(chosen, values)
        among = np.empty((len(chosen), len(chosen)), np.float32)
        self.kernel.block(self.points, chosen, self.points, chosen, among, self.workers)
        at, phase, missing = 0, INSERT, -1
        while True:
            at, phase, missing = run_examples(
                self.rows, self.members, chosen, at, phase, values, among, tol
            )
            if missing < 0:
                return
            self._load(missing)

    def _finish(self, plan: Plan) -> StopReason:
        """Run REPROCESS until no pair of the set violates optimality; return the stop reason."""
        gain, n_judged = 0.0, self._n_steps
        while not plan.is_late:
            self._close_gaps(MAX_EMPTY)
            size = max(int(self.members.counts[SIZE]), 1)
            max_steps = max(1, min(JUDGED_STEPS, CALL_ENTRIES // size))
            missing, violation, more = run_reprocess(self.rows, self.members, plan.tol, max_steps)
            if violation <= plan.tol:
                return StopReason.CONVERGED
            # Progress is checked over many calls, because a call may make a single step.
            gain += more
            if self._n_steps - n_judged >= max_steps:
                if gain <= IDLE_SHARE * abs(self._measure_objective()):
                    return StopReason.STALLED
                gain, n_judged = 0.0, self._n_steps
            if missing >= 0:
                self._load(missing)
        return StopReason.MAX_TIME

    @property
    def _n_steps(self) -> int:
        """Number of direction searches."""
        return int(self.members.counts[STEPS])

    def _close_gaps(self, max_share: float) -> None:
        """Compact the set if more than this share of the slots is empty."""
        if self.members.counts[FREE] > max_share * self.members.counts[SIZE]:
            close_gaps(self.rows, self.members)

    def _load(self, slot: int) -> None:
        """Compute the kernel values of a member that has none."""
        row = self.members.owner[slot : slot + 1]
        line = take_line(self.members, slot)
        self._compute(row, self.members.store[line : line + 1])
        self.members.store[line, slot] = self.rows.diag[row[0]]

    def _compute(self, rows: Index, out: NDArray[np.float32]) -> None:
        """Write kernel values between rows and members, by slot, to the first columns."""
        size = int(self.members.counts[SIZE])
        # The values of empty slots are arbitrary and never read.
        owners = np.maximum(self.members.owner[:size], 0)
        lines, alone = np.arange(len(rows)), Workers(1, None)

        def fill(start: int, stop: int) -> None:
            part = np.empty((stop - start, len(rows)), np.float32)
            self.kernel.block(self.points, owners[start:stop], self.points, rows, part, alone)
            store_columns(part, lines, start, out)

        self.workers.run(size, fill)

    def _make_room(self, n_more: int) -> None:
        """Allocate slots for so many more members."""
        old = self.members
        needed = int(old.counts[SIZE] - old.counts[FREE]) + n_more
        if needed <= len(old.alpha):
            return
        n_slots = min(max(needed, FIRST_SLOTS, len(old.alpha) * 3 // 2), len(self.rows.y))
        n_lines = min(n_slots, self._max_values // n_slots)
        if n_lines < min(n_slots, 2):
            raise ValueError(
                f"memory: too small; {16 * n_slots:,} bytes are needed for two rows of kernel values "
                "of the set. Raise memory"
            )
        self.members = _copy_members(old, _make_members(n_slots, n_lines))

    def _find_ends(self) -> tuple[float, float]:
        """Return the intercept, midway between the extreme gradients, and their violation."""
        m = self.members
        high = float(np.max(m.gradient, where=m.alpha < m.upper, initial=-np.inf))
        low = float(np.min(m.gradient, where=m.alpha > m.lower, initial=np.inf))
        ends = [end for end in (high, low) if np.isfinite(end)]
        return float(np.mean(ends)) if ends else 0.0, max(high - low, 0.0)

    def _measure_objective(self) -> float:
        at = np.flatnonzero(self.members.owner >= 0)
        y = self.rows.y[self.members.owner[at]]
        return -0.5 * float(self.members.alpha[at] @ (y + self.members.gradient[at]))

    def _describe(self, stop_reason: StopReason) -> Outcome:
        m = self.members
        inside = np.flatnonzero(m.owner >= 0)
        coef, gradient = np.full((2, len(self.rows.y)), np.nan)
        coef[m.owner[inside]], gradient[m.owner[inside]] = m.alpha[inside], m.gradient[inside]
        return Outcome(
            coef, gradient, self._find_ends()[0], self._measure_objective(), self._n_steps,
            stop_reason,
        )  # fmt: skip


def _make_members(n_slots: int, n_lines: int) -> Members:
    """Return an empty set of members."""
    return Members(
        alpha=np.zeros(n_slots),
        gradient=np.zeros(n_slots),
        lower=np.zeros(n_slots),
        upper=np.zeros(n_slots),
        owner=np.full(n_slots, -1),
        line_of=np.full(n_slots, -1),
        free=np.zeros(n_slots, np.int64),
        store=np.empty((n_lines, n_slots), np.float32),
        slot_at=np.full(n_lines, -1),
        last_use=np.full(n_lines, -1),
        counts=np.zeros(4, np.int64),
    )


def _copy_members(old: Members, new: Members) -> Members:
    """Copy members to arrays with more slots, and possibly fewer lines of kernel values."""
    n_slots, n_lines = len(old.alpha), min(len(old.slot_at), len(new.slot_at))
    for a, b in zip(old[:7], new[:7], strict=True):
        b[:n_slots] = a
    new.line_of[new.line_of >= n_lines] = -1
    # Copy only lines in use: untouched lines take no physical memory.
    for line in np.flatnonzero(old.slot_at[:n_lines] >= 0):
        new.store[line, :n_slots] = old.store[line]
    new.slot_at[:n_lines], new.last_use[:n_lines] = old.slot_at[:n_lines], old.last_use[:n_lines]
    new.counts[:] = old.counts
    return new
