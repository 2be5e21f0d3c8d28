"""Choice of the basis vectors: grown, refined, and optionally moved (PSVM Procedures 1, 3 and 4).

=====================  ==================================================================
PSVM                   here
=====================  ==================================================================
Procedure 1            the first iteration of `Selector._grow`, with an empty basis
Procedure 2            `Machine.settle`, after every change of the basis
Procedure 3, stage I   `Selector._grow`, which adds one basis vector after another
Procedure 4, stage II  `Selector._refine`, which exchanges basis vectors, or removes some
=====================  ==================================================================

Several machines may share a basis. J is then the sum of their objectives.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from widemargin.budget import StopReason
from widemargin.callbacks import Stage
from widemargin.deadline import OutOfTimeError
from widemargin.kernels.base import as_dense
from widemargin.projected.basis import Columns, FloatArray, KernelRows
from widemargin.projected.candidates import Candidates
from widemargin.projected.machine import Machine
from widemargin.projected.moving import Moved, move_basis
from widemargin.projected.scores import Scores
from widemargin.projected.selection import Search, Selection
from widemargin.projected.stages import Reached, describe_constant, describe_machines

#: Smallest squared distance from the span of the basis that counts as independent. Coefficients grow
#: like its inverse, and the square of a smaller number loses precision in float64.
MIN_DISTANCE = float(np.sqrt(np.finfo(np.float64).tiny))
#: Candidates that are rejected in a row, because they are dependent or do not lower J after all,
#: before the search stops.
MAX_REFUSALS = 5
#: Random draws of candidates without any that lowers J, before the search stops.
MAX_IDLE = 5
#: Candidates are drawn again when this share of them has joined the basis, because the best ones are
#: used up. The second share is for draws of fewer than one in ten rows, where better rows are likely.
RENEWED_SHARE, RENEWED_SOONER = 0.1, 0.04


def draw_candidates(data: KernelRows, search: Search, rng: np.random.Generator) -> Candidates:
    """Return the rows that may join a basis: all of them, or a random sample."""
    rows = np.arange(len(data))
    max_bytes = search.max_bytes
    if search.n_candidates is not None and search.n_candidates < len(rows):
        rows = np.sort(rng.choice(rows, search.n_candidates, replace=False))
        # The kernel values of the previous draw are still in memory.
        max_bytes //= 2
    return Candidates(data, rows, max_bytes)


class Selector:
    """Search for the basis of one or several machines that share it.

    Minimises J of PSVM Eq. 8 over the basis vectors, subject to at most ``search.n_basis`` of them,
    all training rows (unless they move) and linearly independent (Eq. 48). `run` returns a `Selection`
    and stops at a basis that no single exchange improves by the tolerance, or for another
    `StopReason`.

    Parameters
    ----------
    columns : Columns
        Kernel and rows, with an empty basis.
    machines : list of Machine
        Machines on these columns.
    search : Search
        Options.
    first : callable
        Returns the first candidates.
    rng : Generator
        Random generator for further draws of candidates.
    show : callable or None
        Called with the name of the stage and the present `Stage` after every change.
    """

    def __init__(
        self,
        columns: Columns,
        machines: list[Machine],
        search: Search,
        first: Callable[[], Candidates],
        rng: np.random.Generator,
        show: Callable[[str, Stage], object] | None = None,
    ) -> None:
        self.columns = columns
        self.machines = machines
        self.search = search
        self.show = show
        self._first = first
        self._rng = rng
        self._path: list[Stage] = []
        self._n_changes = 0
        self._reached = Reached(describe_constant(machines), [m.solution for m in machines])
        self._separating: Reached | None = None

    def run(self) -> Selection:
        """Grow the basis (PSVM Procedure 3), refine it (Procedure 4), and move it.

        If the deadline passes during a change, the result is the basis before that change; before the
        first basis vector it is the intercept alone.
        """
        data = self.columns.data
        data.deadline = self.search.deadline
        try:
            stop_reason = self._run_stages()
        except OutOfTimeError:
            stop_reason = StopReason.MAX_TIME
            if self._separating is not None and not self._reached.is_separated:
                self._reached = self._separating
        finally:
            data.deadline = None
        final = self._reached.stage
        path = self._path or [final]
        if self.search.move and final.vectors is None:
            final = replace(final, vectors=as_dense(data.X[list(final.rows)]))
        return Selection(final, path, stop_reason, self._n_changes, self.search.n_basis)

    def decisions(self) -> FloatArray:
        """Return the decision values of the result for all rows, shape (n_machines, n)."""
        pairs = zip(self.machines, self._reached.solutions, strict=True)
        return np.array([m.y * (1.0 - solution.errors) for m, solution in pairs])

    def _run_stages(self) -> StopReason:
        """Run stage I, stage II and the moves, and return the stop reason."""
        self._consider(self._first())
        stop_reason = self._grow()
        if stop_reason == StopReason.RANK and not self._path:
            raise ValueError(
                "kernel: no row has a positive kernel value with itself whose square is above zero, "
                "so there is no basis vector; scale the features, or use another kernel"
            )
        if self.search.refine and stop_reason != StopReason.MAX_TIME:
            refined = self._refine()
            stop_reason = stop_reason if refined == StopReason.CONVERGED else refined
            if stop_reason == StopReason.CONVERGED and len(self.columns.rows) < self.search.n_basis:
                stop_reason = StopReason.SEPARATED
        if self.search.move and stop_reason != StopReason.MAX_TIME:
            moved = self._move()
            stop_reason = (
                stop_reason if moved.stop_reason == StopReason.CONVERGED else moved.stop_reason
            )
            if stop_reason == StopReason.SEPARATED and not self._reached.is_separated:
                stop_reason = StopReason.CONVERGED
        return stop_reason

    def _move(self) -> Moved:
        search, machines = self.search, self.machines

        def show(vectors: FloatArray) -> None:
            self._n_changes += 1
            if self.show is not None:
                self.show("move", describe_machines(machines, vectors))

        return move_basis(
            self.columns, machines, tol=search.tol, max_steps=search.max_iter, show=show,
            keep=self._reach,
        )  # fmt: skip

    def _reach(self, vectors: FloatArray | None = None) -> None:
        """Store the present basis as the result so far."""
        stage = describe_machines(self.machines, vectors)
        self._reached = Reached(stage, [machine.solution for machine in self.machines])

    @property
    def _objective(self) -> float:
        return sum(machine.solution.objective for machine in self.machines)

    @property
    def _is_separated(self) -> bool:
        return all(machine.is_separated for machine in self.machines)

    def _grow(self) -> StopReason:
        """Add basis vectors one after another (PSVM Procedure 3) and return the stop reason."""
        # Step 1 is Procedure 1. It needs no code of its own: without basis vectors Eq. 44 is Eq. 66.
        # Step 2: stop at the requested size, or when all rows are separated.
        while len(self.columns.rows) < self.search.n_basis:
            if self._path and self._is_separated:
                return StopReason.SEPARATED
            if self.columns.data.is_late():
                return StopReason.MAX_TIME
            # Steps 3 and 4: add the best candidate, then find the support vectors.
            if not self._append_any():
                return StopReason.RANK
            self._reach()
            self._path.append(self._reached.stage)
            self._tell("grow")
        return StopReason.CONVERGED

    def _append_any(self) -> bool:
        """Add the best candidate, drawing candidates again if none is suitable; False if none is."""
        if self._are_used_up():
            self._draw()
        if self._append_best():
            return True
        for _ in range(MAX_IDLE if self._are_drawn else 0):
            self._draw()
            if self._append_best():
                return True
        return False

    def _append_best(self) -> bool:
        """Add the candidate that lowers J most (PSVM Procedure 3, steps 3 and 4).

        For the first basis vector this is PSVM Eq. 67 (Procedure 1, steps 2 and 3). Returns False if
        no candidate is linearly independent of the basis.
        """
        gains = _total([scores.gains for scores in self._scores])
        candidates = self._candidates
        gains[self._are_taken()] = 0.0
        for _ in range(MAX_REFUSALS):
            at = int(np.argmax(gains))
            # A basis needs at least one vector, even if it does not lower J.
            if gains[at] <= 0 and self.columns.rows:
                break
            row, column = int(candidates.rows[at]), candidates.column(at)
            if self._is_independent(row, column):
                self.columns.append(row, column)
                for machine in self.machines:
                    machine.append()
                    machine.settle()  # PSVM Procedure 2
                self._n_chosen += 1
                return True
            gains[at] = -1.0
        return False

    def _is_independent(self, row: int, column: FloatArray, leaving: int | None = None) -> bool:
        """Whether a row is linearly independent of the basis, without the vector that leaves it.

        PSVM Eq. 48 for the regulariser K_B in place of H: by the paper's theorem both conditions are
        equivalent, and this one does not depend on the support vectors.
        """
        least = self._candidates.threshold * column[row] if self.columns.rows else 0.0
        return self.columns.distance(row, column, leaving) > max(least, MIN_DISTANCE)

    def _refine(self) -> StopReason:
        """Exchange basis vectors while that lowers J (PSVM Procedure 4) and return the stop reason.

        While all rows are separated, remove basis vectors instead. If the final basis does not
        separate the rows, but an earlier one did, the result is the last one that did.
        """
        n_idle, reason, states = 0, StopReason.MAX_ITER, []
        while self._n_changes < self.search.max_iter:
            if self.columns.data.is_late():
                reason = StopReason.MAX_TIME
                break
            # Step 4: a basis that separates all rows shrinks (step 5), any other one is improved.
            if self._is_separated and len(self.columns.rows) > 1:
                self._separating, states = self._reached, [m.save() for m in self.machines]
                self._remove_least()
                self._reach()
                self._tell("shrink")
                continue
            # Steps 3, 4, 6 and 7.
            if self._exchange_best():
                self._n_changes, n_idle = self._n_changes + 1, 0
                self._reach()
                self._tell("refine")
            elif self._are_drawn and n_idle < MAX_IDLE:
                self._draw()
                n_idle += 1
            else:
                reason = StopReason.CONVERGED
                break
        if self._separating is not None and not self._is_separated:
            self._reached = self._separating
            self.columns.restore(list(self._reached.stage.rows))
            for machine, state in zip(self.machines, states, strict=True):
                machine.restore(state)
        return reason

    def _remove_least(self) -> None:
        """Remove the basis vector whose removal raises J least (PSVM Eq. 61; Procedure 4, step 5)."""
        at = int(np.argmin(np.sum([machine.losses for machine in self.machines], axis=0)))
        column = self.columns.column(at)
        self.columns.remove(at)
        for machine in self.machines:
            machine.remove(at, column)
            machine.settle()

    def _exchange_best(self) -> bool:
        """Make the exchange that lowers J most (PSVM Eq. 62); return False if there is none.

        The paper checks one basis vector after another, in the order of Eq. 61, and makes the first
        exchange that lowers J. Here the scores of all exchanges are known, and the best is made.
        """
        falls = _total([scores.exchanges for scores in self._scores])
        falls[:, self._are_taken()] = -np.inf
        least = self.search.tol * self._objective
        for _ in range(MAX_REFUSALS):
            at, chosen = np.unravel_index(int(np.argmax(falls)), falls.shape)
            if falls[at, chosen] <= least:
                return False
            if self._try_exchange(int(at), int(chosen)):
                return True
            falls[at, chosen] = -np.inf
        return False

    def _try_exchange(self, at: int, chosen: int) -> bool:
        """Exchange a basis vector (PSVM Procedure 4, steps 6 and 7).

        The score holds for the present support vectors only. If J is not lower once `settle` has found
        the new ones, the exchange is undone and False is returned.
        """
        row, column = int(self._candidates.rows[chosen]), self._candidates.column(chosen)
        if not self._is_independent(row, column, leaving=at):
            return False
        old_row, old_values = self.columns.rows[at], self.columns.column(at)
        old_column = old_values + self.columns.means[at]
        before, states = self._objective, [machine.save() for machine in self.machines]
        self.columns.replace(at, row, column)
        for machine in self.machines:
            machine.exchange(at, old_values)
            machine.settle()
        if self._objective < before - self.search.tol * abs(before):
            return True
        self.columns.replace(at, old_row, old_column)
        for machine, state in zip(self.machines, states, strict=True):
            machine.restore(state)
        return False

    def _are_taken(self) -> NDArray[np.bool_]:
        """Return which candidates are in the basis."""
        taken = np.zeros(len(self.columns.data), bool)
        taken[self.columns.rows] = True
        return taken[self._candidates.rows]

    @property
    def _are_drawn(self) -> bool:
        return len(self._candidates.rows) < len(self.columns.data)

    def _are_used_up(self) -> bool:
        n, n_rows = len(self._candidates.rows), len(self.columns.data)
        share = RENEWED_SOONER if 10 * n < n_rows else RENEWED_SHARE
        return self._are_drawn and self._n_chosen >= share * n

    def _draw(self) -> None:
        self._consider(draw_candidates(self.columns.data, self.search, self._rng))

    def _consider(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._scores = [Scores(machine, candidates) for machine in self.machines]
        self._n_chosen = 0

    def _tell(self, stage: str) -> None:
        if self.show is not None:
            self.show(stage, describe_machines(self.machines))


def _total(parts: list[Callable[[], FloatArray]]) -> FloatArray:
    """Return the sum of the arrays that the functions return, with at most two of them in memory."""
    total = parts[0]()
    for part in parts[1:]:
        total += part()
    return total
