"""Fits of additive kernels on blocks of coded rows.

The squared hinge loss is smooth, so its primal problem is solved by L-BFGS: workers evaluate the loss
of their rows and its derivative, and the client makes the steps. The number of blocks does not matter.

The hinge loss is not smooth. Then every block improves its own dual variables, as if the others stood
still, from coefficients that all blocks share. The client adds the changes of the coefficients, each
times the length that minimises the dual objective of all rows (`choose_steps`). Lengths of one over
the number of blocks would be averaging, the safe choice of CoCoA (Jaggi et al., 2014); the best
lengths are never worse than those.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin.additive.dual_descent import Descent, LinearResult
from widemargin.budget import StopReason
from widemargin.distributed.additive_tasks import (
    Shared,
    Told,
    evaluate_block,
    improve_block,
    rest,
)
from widemargin.distributed.blocks import FloatArray
from widemargin.distributed.lbfgs import Iterate, minimise
from widemargin.distributed.steps import choose_steps
from widemargin.distributed.tasks import Tasks

#: The violation of a smooth problem is half of its squared gradient, as a multiple of this share of
#: its objective.
GRADIENT_SHARE = 0.01
#: Passes of a block in a round, and the violation at which a block stops, as a share of that of all
#: rows or of the tolerance.
ROUND_PASSES, INNER_SHARE, INNER_TOL = 5, 0.1, 0.3


@dataclass(frozen=True)
class Geometry:
    """Scalar products of decision functions, from their coefficients.

    Attributes
    ----------
    scale : ndarray of shape (n_features,)
        Factor on the kernel of each feature.
    grid : ndarray of shape (n_bins,) or None
        Positions of the bins if coefficients are the values of curves at bins; None for tables.
    step : float
        Factor on the sum of signed dual variables in the intercept.
    """

    scale: FloatArray
    grid: FloatArray | None
    step: float

    def flatten(self, shared: Shared) -> FloatArray:
        """Return vectors, one for each problem, whose scalar products are those of the functions.

        A curve of the intersection kernel is a sum of ``min(x, z)``, whose scalar product is that of
        its derivatives.
        """
        shaped = shared.coef.reshape(len(shared.coef), len(self.scale), -1)
        if self.grid is None:
            parts = shaped / np.sqrt(self.scale)[:, None]
        else:
            parts = np.diff(shaped, axis=2) / np.sqrt(np.diff(self.grid) * self.scale[:, None])
        extra = shared.extra / np.sqrt(self.step)
        return np.hstack([parts.reshape(len(shaped), -1), extra])

    def unflatten(self, vectors: FloatArray, n_extra: int) -> Shared:
        """Return the coefficients whose vectors these are."""
        n_problems, n_flat = len(vectors), vectors.shape[1] - n_extra
        shaped = vectors[:, :n_flat].reshape(n_problems, len(self.scale), -1)
        if self.grid is None:
            coef = shaped * np.sqrt(self.scale)[:, None]
        else:
            steps = shaped * np.sqrt(np.diff(self.grid) * self.scale[:, None])
            coef = np.concatenate(
                [np.zeros_like(steps[:, :, :1]), np.cumsum(steps, axis=2)], axis=2
            )
        extra = vectors[:, n_flat:] * np.sqrt(self.step)
        return Shared(np.ascontiguousarray(coef.reshape(n_problems, -1)), extra)


@dataclass(frozen=True)
class DescentPlan:
    """When to stop: tolerance, passes, end by `time.time`, seed; and whether intercepts are free."""

    tol: float
    max_iter: int
    end: float | None
    seed: int
    is_free: bool

    def is_late(self) -> bool:
        """Return whether the fit has to end."""
        return self.end is not None and time.time() > self.end


class SmoothRun:
    """Minimises ``0.5 |f|^2 + sum C max(0, 1 - y f(x))^2`` for every problem by L-BFGS.

    The fit ends when half of the squared gradient of every problem is at most `GRADIENT_SHARE` times
    ``tol`` times its objective. The gradient is that in the coordinates of `Geometry.flatten`.

    Parameters
    ----------
    tasks : Tasks
        Tasks of the fit.
    blocks : list of futures
        The coded rows.
    geometry : Geometry
        Scalar products of decision functions.
    plan : DescentPlan
        When to stop.
    show : callable or None
        Called with the number of passes and the violation.
    """

    def __init__(
        self, tasks: Tasks, blocks: list[Any], geometry: Geometry, plan: DescentPlan,
        show: Callable[[int, float], object] | None,
    ) -> None:  # fmt: skip
        self.tasks, self.blocks, self.geometry = tasks, blocks, geometry
        self.plan, self.show = plan, show
        self.n_passes = self.n_extra = 0
        self.violation: Any = np.inf

    def solve(self, start: Shared) -> LinearResult:
        """Solve all problems; ``start`` are coefficients of zero."""
        self.n_extra = start.extra.shape[1]
        found = minimise(self._evaluate, self.geometry.flatten(start), self._find_done)
        reason = StopReason.CONVERGED
        if np.max(self.violation) > self.plan.tol:
            is_full = self.n_passes >= self.plan.max_iter
            reason = StopReason.MAX_ITER if is_full else StopReason.STALLED
            reason = StopReason.MAX_TIME if self.plan.is_late() else reason
        shared, n = self.geometry.unflatten(found.point, self.n_extra), len(start.coef)
        return LinearResult(
            shared.coef, shared.extra, np.empty((0, n)), np.full(n, self.n_passes),
            self.violation, reason,
        )  # fmt: skip

    def _run(self, what: str, function: Callable[..., Any], shared: Shared) -> list[Any]:
        """Call a function of some coefficients on every block."""
        sent = self.tasks.send("send-model", shared)
        started = self.tasks.map(what, function, self.blocks, [sent] * len(self.blocks))
        results = self.tasks.gather(started)
        self.tasks.release([*started, sent])
        self.n_passes += 1
        return results

    def _evaluate(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return objectives and gradients."""
        shared = self.geometry.unflatten(vectors, self.n_extra)
        found = self._run("evaluate-rows", evaluate_block, shared)
        pull = Shared(
            np.sum([each.pull.coef for each in found], axis=0),
            np.sum([each.pull.extra for each in found], axis=0),
        )
        penalised = vectors.copy()
        if self.plan.is_free:
            penalised[:, -1] = 0.0
        value = 0.5 * np.einsum("ij,ij->i", penalised, penalised)
        value += np.sum([each.loss for each in found], axis=0)
        return value, penalised - self.geometry.flatten(pull)

    def _find_done(self, now: Iterate) -> Any:
        """Return which problems are solved; None at a limit."""
        # If all variables are penalised, the Hessian has no eigenvalue below one, and the objective
        # is at most half of the squared gradient above the optimum. A free intercept has no penalty:
        # then this is a measure of the gradient, and no bound.
        half_square = 0.5 * np.einsum("ij,ij->i", now.gradient, now.gradient)
        self.violation = half_square / (GRADIENT_SHARE * now.value)
        if self.show is not None:
            self.show(self.n_passes, float(self.violation.max()))
        is_solved = self.violation <= self.plan.tol
        at_limit = self.n_passes >= self.plan.max_iter or self.plan.is_late()
        return None if at_limit else is_solved


def run_rounds(
    tasks: Tasks,
    blocks: list[Any],
    start: Shared,
    geometry: Geometry,
    plan: DescentPlan,
    show: Callable[[int, float], object] | None,
) -> LinearResult:
    """Solve the one-vs-rest problems of all blocks; ``start`` are coefficients of zero."""
    shared, moves = start, tasks.map("begin-block", rest, blocks)
    lengths = np.zeros((len(blocks), len(start.coef)))
    sums, n_iter, number = np.zeros(len(start.coef)), np.zeros(len(start.coef), np.int64), 0
    violation = np.full(len(start.coef), np.inf)
    while True:
        settings = _settle(plan, violation, int(n_iter.max()), number)
        sent = tasks.send("send-model", shared)
        n = len(blocks)
        proposed = tasks.map(
            "improve-block", improve_block, blocks, moves, list(lengths), [sent] * n, [settings] * n
        )
        told = tasks.gather(tasks.map("report-step", getattr, proposed, ["told"] * n))
        tasks.release([*moves, sent])
        moves, number = proposed, number + 1
        violation = judge(told, plan.is_free * geometry.step * sums)
        if show is not None:
            show(number, float(violation.max()))
        reason = _stop_reason(plan, violation, int(n_iter.max()))
        if reason is not None:
            tasks.release(moves)
            empty = np.empty((0, len(shared.coef)))
            return LinearResult(shared.coef, shared.extra, empty, n_iter, violation, reason)
        n_iter = n_iter + np.max([each.n_iter for each in told], axis=0)
        lengths = find_lengths(geometry, shared, told)
        shared, sums = go(shared, told, lengths, sums, geometry.step, plan.is_free)


def _settle(plan: DescentPlan, violation: FloatArray, n_made: int, number: int) -> Descent:
    """Return the stopping rule of the blocks in a round."""
    worst = float(violation.max())
    share = INNER_SHARE * worst if np.isfinite(worst) else 0.0
    passes = max(1, min(ROUND_PASSES, plan.max_iter - n_made))
    return Descent(max(share, INNER_TOL * plan.tol), passes, seed=plan.seed + number)


def _stop_reason(plan: DescentPlan, violation: FloatArray, n_made: int) -> StopReason | None:
    if violation.max() <= plan.tol:
        return StopReason.CONVERGED
    if n_made >= plan.max_iter:
        return StopReason.MAX_ITER
    return StopReason.MAX_TIME if n_made and plan.is_late() else None


def judge(told: list[Told], moves: FloatArray) -> FloatArray:
    """Return the spread of zero and the projected gradients of all rows in each problem.

    ``moves`` are those of the intercepts, which count as violations too.
    """
    highest = np.max([each.highest for each in told], axis=0)
    lowest = np.min([each.lowest for each in told], axis=0)
    return np.maximum(np.maximum(highest, 0.0) - np.minimum(lowest, 0.0), np.abs(moves))


def find_lengths(geometry: Geometry, shared: Shared, told: list[Told]) -> FloatArray:
    """Return how many times each block makes its step in each problem, (n_blocks, n_problems)."""
    base = geometry.flatten(shared)
    changes = np.array([geometry.flatten(each.change) for each in told])
    lengths = []
    for p, own in enumerate(base):
        V = changes[:, p]
        curvature = V @ V.T + np.diag([each.bend[p] for each in told])
        slope = V @ own + [each.slope[p] for each in told]
        lengths.append(choose_steps(curvature, slope, np.array([each.limit[p] for each in told])))
    return np.array(lengths).T


def go(
    shared: Shared, told: list[Told], lengths: FloatArray, sums: FloatArray, step: float,
    is_free: bool,
) -> tuple[Shared, FloatArray]:  # fmt: skip
    """Return the coefficients after a step, and the sums of the signed dual variables.

    A free intercept asks for sums of zero. As in `widemargin.additive.dual_descent`, it moves by
    ``step`` times the sum after every round: the method of multipliers.
    """
    coef, extra = shared.coef.copy(), shared.extra.copy()
    for each, length in zip(told, lengths, strict=True):
        coef += length[:, None] * each.change.coef
        extra += length[:, None] * each.change.extra
        if is_free:
            sums = sums + length * each.change.extra[:, -1] / step
    if is_free:
        extra[:, -1] += step * sums
    return Shared(coef, extra), sums
