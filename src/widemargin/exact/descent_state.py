"""Variables of the exact solver's descent, and the steps that change them."""

import math
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.budget import Budget, StopReason
from widemargin.callbacks import Progress
from widemargin.deadline import is_late, seconds_left
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.free_newton import NewtonPlan, find_free, move_free
from widemargin.exact.kernel_matrix import Gram
from widemargin.exact.pair_moves_fast import judge_solution, optimise_pairs
from widemargin.exact.solution import Solution, judge, salvage
from widemargin.exact.working_matrix import WorkingMatrix
from widemargin.kernels import Index

BoolArray = NDArray[np.bool_]

#: Rows of the first sample: a quarter of all, within these bounds.
MIN_SAMPLE, MAX_SAMPLE = 1000, 2000
#: A sample solved to `SAMPLE_TOL` grows by the factor `SAMPLE_GROWTH`.
SAMPLE_GROWTH, SAMPLE_TOL = 4, 0.5
#: A start is refined to this tolerance.
REFINE_TOL = 0.1
#: A round stops at this share of the violation it began with: more accuracy would be wasted, because
#: variables outside of the working set have not changed yet.
ROUND_SHARE = 0.1
#: A round may add as many violators as half of the first sample, or this share of the working set.
ADDED_SHARE = 0.25
#: Share of the tolerance by which a free variable of the start must violate its condition to enter the
#: working set. It is less than a half, so that at least one of two violating variables enters.
ENTRY_SHARE = 0.4
#: Members within this share of the violation of being violators stay in the working set.
KEEP_MARGIN = 0.1
#: Shrinking: on the full problem, once the violation is below `REST_BELOW`, points become inactive
#: that satisfy their condition by more than `REST_MARGIN` times the violation.
REST_BELOW, REST_MARGIN = 0.5, 2.0
#: Most times that points are shrunk away: if they keep violating later, shrinking stops.
MAX_RESTS = 5
#: Matrix entries that one compiled call may visit, a fraction of a second, and if there is a time
#: limit: Ctrl-C and the time limit are attended to between calls.
CALL_ENTRIES, CALL_ENTRIES_IN_TIME = 300_000_000, 30_000_000
#: Kernel values computed for a gradient between two looks at the clock, and fewest columns.
GRADIENT_ENTRIES, GRADIENT_COLUMNS = 50_000_000, 2048
#: Fewest kernel values whose computation is timed, and how many are computed to be timed.
TIMED_VALUES, TRIAL_VALUES = 100_000, 5_000_000
#: Fewest support vectors from which the gradient of a start is estimated.
MIN_DRAWN = 256
#: Pair updates per member after which a round ends in any case.
ROUND_MOVES = 1000


class OutOfTimeError(Exception):
    """Time is up, and a solution that is not finished is of no use."""


class _Iterate(NamedTuple):
    """Coefficients, their gradient, and the primal objective on the points that were active."""

    coef: FloatArray
    gradient: FloatArray
    primal: float


class DescentState:
    """Variables of the descent. Only the gradient of ``active`` points is up to date."""

    def __init__(self, gram: Gram, problem: DualProblem, budget: Budget, seed: int) -> None:
        self.n, self.seed = len(gram), seed
        self.gram, self.problem, self.budget = gram, problem, budget
        self.diag = gram.diag.astype(np.float32)
        self.working = WorkingMatrix(gram, budget.cache_bytes)
        self.newton = NewtonPlan(budget.cache_bytes)
        self.n_iter = 0
        self.rests_left = MAX_RESTS
        self.deadline = np.inf if budget.deadline is None else budget.deadline
        # Seconds that a kernel value took lately, to tell what there is still time for.
        self.value_seconds = 0.0
        self.best_sample: _Iterate | None = None
        self.gradient = problem.linear.copy()
        # Coefficients for which the gradient of inactive points was computed.
        self.rested_coef: FloatArray | None = None
        self.order = draw_order(problem.labels, self.n, seed)
        self.first_sample = min(max(self.n // 4, MIN_SAMPLE), MAX_SAMPLE)
        self.sample_tol = max(budget.tol, SAMPLE_TOL)
        self.coef = problem.first_point()
        if problem.start is None:
            self.n_seen = self.n if self.n <= 2 * self.first_sample else self.first_sample
            self.active = np.sort(self.order[: self.n_seen])
            return
        self.active, self.n_seen = np.arange(self.n), self.n
        support = np.flatnonzero(self.coef)
        if problem.refine and len(support):
            self.order = np.concatenate([support, np.setdiff1d(self.active, support)])
            self.active, self.n_seen = support, len(support)
            self.sample_tol = max(budget.tol, REFINE_TOL)

    @property
    def sees_all(self) -> bool:
        return self.n_seen == self.n

    @property
    def n_active(self) -> int:
        return len(self.active)

    def begin(self) -> bool:
        """Compute the gradient of the first point; return whether there is time to go on.

        A start may have as many support vectors as a share of all points, in novelty detection always.
        If there is no time for the kernel values between these and all points, the gradient is
        estimated from some of them.
        """
        support = np.flatnonzero(self.coef)
        if self.budget.deadline is None or self.budget.all_or_nothing or len(support) == 0:
            self.refresh(self.active)
            return True
        self._time_values(support)
        point_seconds = self.value_seconds * self.n
        seconds = seconds_left(self.budget.deadline)
        if point_seconds * len(support) <= seconds:
            self.refresh(self.active)
            return True
        n_drawn = int(seconds / point_seconds) if point_seconds > 0 else 0
        self._estimate_gradient(support, max(n_drawn, MIN_DRAWN))
        return False

    def _time_values(self, support: Index) -> None:
        """Find out how long a kernel value takes."""
        some = support[: max(1, TRIAL_VALUES // self.n)]
        began = time.perf_counter()
        self.gram.accumulate(np.arange(self.n), some, self.coef[some], np.zeros(self.n))
        self.value_seconds = (time.perf_counter() - began) / (self.n * len(some))

    def _estimate_gradient(self, support: Index, n_drawn: int) -> None:
        """Estimate all gradients from support vectors drawn at random.

        Those of either sign are drawn in proportion, and stand for all of their sign.
        """
        rng, drawn, coef = np.random.default_rng(self.seed), [], []
        for side in (support[self.coef[support] > 0], support[self.coef[support] < 0]):
            share = min(1.0, n_drawn / len(support))
            some = np.sort(rng.permutation(side)[: math.ceil(share * len(side))])
            drawn.append(some)
            mass = self.coef[some].sum()
            coef.append(self.coef[some] * (self.coef[side].sum() / mass if mass else 1.0))
        self.active, self.n_seen = np.arange(self.n), self.n
        self.gradient = self.problem.linear.copy()
        self._add_products(self.active, np.concatenate(drawn), np.concatenate(coef))

    def measure(self) -> float:
        """Violation of the optimality conditions among the active points."""
        active = self.active
        self.rise, self.fall = self.problem.slopes(self.gradient[active], self.coef[active], active)
        self.low = float(self.rise.min(initial=np.inf))
        self.high = float(self.fall.max(initial=-np.inf))
        if not self.problem.is_tied:
            self.low, self.high = min(self.low, 0.0), max(self.high, 0.0)
        self.violation = self.high - self.low
        return self.violation

    def widen(self) -> None:
        """Make more points active: those of the next sample, or those that were shrunk away."""
        has_grown = not self.sees_all
        self.n_seen = min(self.n, SAMPLE_GROWTH * self.n_seen)
        stale = np.ones(self.n, bool)
        stale[self.order[self.n_seen :]] = False
        stale[self.active] = False
        self.refresh(np.flatnonzero(stale))
        self.rested_coef = None
        stale[self.active] = True
        self.active = np.flatnonzero(stale)
        if has_grown:
            self.best_sample = _Iterate(self.coef.copy(), self.gradient.copy(), self._primal())

    def _primal(self) -> float:
        """Primal objective on the active points of the model that the coefficients make."""
        active, problem = self.active, self.problem
        _, _, quadratic, loss = judge_solution(
            problem.is_tied, problem.epsilon, problem.linear[active], problem.lower[active],
            problem.upper[active], self.gradient[active], self.coef[active],
        )  # fmt: skip
        return 0.5 * float(quadratic) + float(loss)

    def refresh(self, stale: Index) -> None:
        """Compute the gradient of some points, from changes of coefficients if these are few."""
        change = None if self.rested_coef is None else self.coef - self.rested_coef
        if change is None or np.count_nonzero(change) >= np.count_nonzero(self.coef):
            change, self.gradient[stale] = self.coef, self.problem.linear[stale]
        changed = np.flatnonzero(change)
        self._add_products(stale, changed, change[changed])

    def improve(self) -> float:
        """One round: choose the working set, optimise on it, bring the gradient up to date.

        Returns by how much the objective has decreased. A round whose gradient there is no time for
        is not carried out.
        """
        score = self._score()
        self.working.change_members(self._choose_members(score))
        members = self.working.members
        coef = self._optimise(members)
        change = coef - self.coef[members]
        moved = np.flatnonzero(change)
        cost = self.value_seconds * self.n_active * len(moved)
        # The first round in any case: a poor model is better than none.
        if self.coef.any() and time.perf_counter() + cost + self.finish_seconds() > self.deadline:
            return 0.0
        self._rest(score)
        # Set, not added to: a sum could round to just beyond a bound.
        self.coef[members] = coef
        before = self.gradient[members[moved]]
        self._update_gradient(members, moved, change[moved])
        # Exact for a quadratic: the change times the mean of the slopes at both ends.
        return -0.5 * float(change[moved] @ (before + self.gradient[members[moved]]))

    def finish_seconds(self) -> float:
        """Time that `finish_early` will take: kernel values between stale and support vectors."""
        n_stale = self.n - self.n_active
        return self.value_seconds * n_stale * np.count_nonzero(self.coef)

    def finish_early(self) -> None:
        """Bring all gradients up to date when a limit stopped the descent.

        The dual objective falls with every move, but the model on its way through a larger sample may
        be worse than the solution of the smaller one: then that is taken.
        """
        if self.best_sample is not None and self.rested_coef is None:
            if self.best_sample.primal < self._primal():
                self.coef, self.gradient = self.best_sample.coef, self.best_sample.gradient
            self.best_sample = None
        self.n_seen = self.n
        self.widen()
        self.measure()

    def progress(self, seconds: float) -> Progress:
        return Progress(
            n_seen=self.n_seen,
            n_total=self.n,
            n_working=len(self.working.members),
            n_support=int(np.count_nonzero(self.coef)),
            violation=self.violation,
            n_iter=self.n_iter,
            seconds=seconds,
        )

    def solution(self, reason: StopReason) -> Solution:
        found = judge(self.problem, self.coef, self.gradient)
        if reason.is_limit:
            found = salvage(self.problem, found)
        return replace(found, n_iter=self.n_iter, stop_reason=reason)

    def _score(self) -> FloatArray:
        """By how much each active point violates its condition; negative where it is satisfied."""
        offset = 0.0
        if self.problem.is_tied:
            free = self.rise == self.fall
            if free.any():
                offset = float(np.median(self.rise[free]))
            else:
                offset = _finite_mean(self.low, self.high)
        return np.maximum(offset - self.rise, self.fall - offset)

    def _choose_members(self, score: FloatArray) -> BoolArray:
        """Mark the working set: free variables, members that nearly violate, the worst violators.

        Free variables of a warm start are left out as long as they satisfy their conditions: near a
        solution few do not, and the working matrix stays small.
        """
        inside = self._mark(self.working.members)[self.active]
        free = self.rise == self.fall
        chosen = inside & (free | (score > -KEEP_MARGIN * self.violation))
        chosen |= free & (score > ENTRY_SHARE * self.budget.tol)
        others = np.flatnonzero((score > 0) & ~chosen & ~free)
        n_added = max(self.first_sample // 2, int(ADDED_SHARE * np.count_nonzero(chosen)))
        chosen[_largest(others, score, n_added)] = True
        if self.problem.is_tied:
            # The sum is held, so a variable changes only together with another: every new member
            # needs partners.
            n_partners = max(1, int(np.count_nonzero(chosen & ~inside)))
            partners = np.flatnonzero(free)
            chosen[_largest(partners, self.fall, n_partners)] = True
            chosen[_largest(partners, -self.rise, n_partners)] = True
        if np.count_nonzero(chosen) > self.working.max_members:
            at = np.flatnonzero(chosen)
            chosen[:] = False
            chosen[self._most_violating(at)] = True
        return self._mark(self.active[chosen])

    def _most_violating(self, at: Index) -> Index:
        """The most violating variables of either direction, so that the worst pair is among them."""
        half = self.working.max_members // 2
        rising = _largest(at[np.isfinite(self.rise[at])], -self.rise, half)
        falling = np.setdiff1d(at[np.isfinite(self.fall[at])], rising)
        return np.concatenate([rising, _largest(falling, self.fall, half)])

    def _optimise(self, members: Index) -> FloatArray:
        """Coefficients of the members after a round on the working matrix."""
        problem, coef, diag = self.problem, self.coef[members], self.diag[members]
        tol = max(0.5 * self.budget.tol, ROUND_SHARE * self.violation)
        lower, upper = problem.lower[members], problem.upper[members]
        gradient, is_known = self.gradient[members], np.ones(len(members), bool)
        call_entries = CALL_ENTRIES if self.budget.deadline is None else CALL_ENTRIES_IN_TIME
        call_moves = max(1, call_entries // len(members))
        spare_moves = min(self.budget.iterations_left(self.n_iter), ROUND_MOVES * len(members))
        if is_late(self.budget.deadline):
            # A few moves even when time is up from the beginning: a poor model is better than none.
            spare_moves = min(spare_moves, len(members))
        while True:
            self.gram.workers.require_success()
            free = find_free(problem, coef, members)
            pause = self.newton.count_moves(len(free), len(members))
            max_moves = int(min(call_moves, spare_moves, pause))
            n_moves, violation = optimise_pairs(
                problem.is_tied, problem.epsilon, self.working.tiles, is_known, None, diag,
                lower, upper, tol, max_moves, gradient, coef,
            )  # fmt: skip
            self.n_iter += n_moves
            self.newton.record_moves(n_moves, len(members))
            spare_moves -= n_moves
            has_no_time = time.perf_counter() + self.finish_seconds() > self.deadline
            if n_moves < max_moves or violation < tol or spare_moves <= 0 or has_no_time:
                return coef
            self._move_free(members, gradient, coef)

    def _move_free(self, members: Index, gradient: FloatArray, coef: FloatArray) -> None:
        """Move all free members by a Newton step, if that pays; changes ``gradient`` and ``coef``."""
        free = find_free(self.problem, coef, members)
        if not self.newton.is_due(len(free), len(members)):
            return
        moved = move_free(
            self.working.lower_block(free), self.problem.cut(members[free]), gradient[free],
            coef[free], self.gram.workers, self.budget.deadline,
        )  # fmt: skip
        self.newton.record_step(moved is not None)
        if moved is not None:
            self.working.accumulate(free, moved - coef[free], gradient)
            coef[free] = moved

    def _rest(self, score: FloatArray) -> None:
        """Shrink: make points inactive that are far from violating their conditions."""
        everyone = self.sees_all and self.n_active == self.n
        if everyone and self.rests_left > 0 and self.violation < REST_BELOW:
            self.rests_left -= 1
            stays = self._mark(self.working.members)[self.active]
            stays |= score > -REST_MARGIN * self.violation
            self.active = self.active[stays]
            self.rested_coef = self.coef.copy()

    def _update_gradient(self, members: Index, moved: Index, change: FloatArray) -> None:
        """Add the effect of the changes, from the working matrix for members, else from tiles."""
        gradient = self.gradient[members]
        self.working.accumulate(moved, change, gradient)
        self.gradient[members] = gradient
        others = self.active[~self._mark(members)[self.active]]
        self._add_products(others, members[moved], change)

    def _add_products(self, rows: Index, cols: Index, coef: FloatArray) -> None:
        """Add ``K[rows, cols] @ coef`` to the gradient of ``rows``; raise when time is up."""
        gradient = self.gradient[rows]
        step = max(GRADIENT_COLUMNS, GRADIENT_ENTRIES // max(len(rows), 1))
        for at in range(0, len(cols), step):
            self.gram.workers.require_success()
            began = time.perf_counter()
            if self.budget.all_or_nothing and began > self.deadline:
                raise OutOfTimeError
            part = cols[at : at + step]
            self.gram.accumulate(rows, part, coef[at : at + step], gradient)
            if len(rows) * len(part) > TIMED_VALUES:
                self.value_seconds = (time.perf_counter() - began) / (len(rows) * len(part))
        self.gradient[rows] = gradient

    def _mark(self, index: Index) -> BoolArray:
        mask = np.zeros(self.n, bool)
        mask[index] = True
        return mask


def _finite_mean(low: float, high: float) -> float:
    """Middle of an interval one end of which may be infinite."""
    ends = [end for end in (low, high) if np.isfinite(end)]
    return float(np.mean(ends)) if ends else 0.0


def _largest(index: Index, value: FloatArray, count: int) -> Index:
    """The ``count`` members of ``index`` with the largest values."""
    if len(index) <= count:
        return index
    return index[np.argpartition(-value[index], count - 1)[:count]]


def draw_order(labels: FloatArray | None, n: int, seed: int) -> Index:
    """Random order of n points in which every prefix holds both classes, nearly in proportion."""
    rng = np.random.default_rng(seed)
    if labels is None:
        return rng.permutation(n)
    rank = np.empty(n)
    for side in (labels > 0, labels < 0):
        count = int(np.count_nonzero(side))
        # The fraction breaks ties between classes; small, so that a lone point still comes first.
        rank[side] = (rng.permutation(count) + 1e-3 * rng.random(count)) / max(count, 1)
    return np.argsort(rank)
