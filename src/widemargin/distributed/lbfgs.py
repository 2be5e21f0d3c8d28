"""L-BFGS for several smooth convex problems that are evaluated together.

A pass over rows on a cluster costs the same for one problem or for many, so all problems make their
trial steps in the same passes. Each has its own step length and its own memory.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from widemargin.distributed.blocks import FloatArray

#: Pairs of steps and changes of the gradient that are remembered.
MEMORY = 20
#: Share of the decrease that the slope predicts which a step must reach, and the factor by which it is
#: shortened if it does not.
ENOUGH, SHORTER = 1e-4, 0.5
#: A step this short changes nothing but rounding.
SHORTEST = 1e-10

#: Returns the values (n_problems,) and gradients (n_problems, n_variables) at points of that shape.
Evaluate = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Iterate(NamedTuple):
    """Points of all problems with values and gradients."""

    point: FloatArray
    value: FloatArray
    gradient: FloatArray


def minimise(
    evaluate: Evaluate, start: FloatArray, is_done: Callable[[Iterate], "np.ndarray | None"]
) -> Iterate:
    """Minimise several convex functions with a continuous gradient.

    Parameters
    ----------
    evaluate : callable
        Returns values and gradients.
    start : ndarray of shape (n_problems, n_variables)
        Where to begin.
    is_done : callable
        Called with every iterate; returns which problems are solved, or None to stop at once.
    """
    now = Iterate(start, *evaluate(start))
    memories = [_Memory() for _ in start]
    while (done := is_done(now)) is not None and not done.all():
        direction = np.array([
            np.zeros_like(g) if solved else memory.turn(g)
            for solved, memory, g in zip(done, memories, now.gradient, strict=True)
        ])  # fmt: skip
        after = _search(evaluate, now, direction)
        if after is None:
            return now
        for p, memory in enumerate(memories):
            memory.remember(after.point[p] - now.point[p], after.gradient[p] - now.gradient[p])
        now = after
    return now


def _search(evaluate: Evaluate, now: Iterate, direction: FloatArray) -> Iterate | None:
    """Go along directions, shortening the step of every problem until its value falls enough.

    Returns None if that is so for none.
    """
    slope = np.einsum("ij,ij->i", direction, now.gradient)
    length = np.where(slope < 0, 1.0, 0.0)
    while True:
        point = now.point + length[:, None] * direction
        value, gradient = evaluate(point)
        is_bad = (length > 0) & ~(value <= now.value + ENOUGH * length * slope)
        if not is_bad.any():
            return Iterate(point, value, gradient) if length.any() else None
        length[is_bad] *= SHORTER
        length[length < SHORTEST] = 0.0


class _Memory:
    """The last steps of one problem, and how the gradient changed along them."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=MEMORY)

    def remember(self, step: FloatArray, change: FloatArray) -> None:
        """Remember a step, unless the gradient did not change along it."""
        curvature = float(step @ change)
        if curvature > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self._pairs.append((step, change, curvature))

    def turn(self, gradient: FloatArray) -> FloatArray:
        """Return the direction of descent: minus the inverse Hessian, as remembered, times it."""
        direction, shares = -gradient, []
        for step, change, curvature in reversed(self._pairs):
            share = float(step @ direction) / curvature
            direction = direction - share * change
            shares.append(share)
        if self._pairs:
            _, change, curvature = self._pairs[-1]
            direction = direction * (curvature / float(change @ change))
        else:
            # The first step has length one at most.
            direction = direction / max(1.0, float(np.linalg.norm(gradient)))
        for (step, change, curvature), share in zip(self._pairs, reversed(shares), strict=True):
            direction = direction + step * (share - float(change @ direction) / curvature)
        return direction
