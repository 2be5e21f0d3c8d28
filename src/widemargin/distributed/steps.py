"""How far to go along the steps of several blocks: a small quadratic program.

Blocks are improved in parallel, each as if the others stood still. Along the sum of their steps,
weighted by t, the objective changes by ``slope't + 0.5 t'curvature t``, which is minimised over
``0 <= t <= limit``. With a single weight this is the exact line search of parallel block minimisation
(Hsieh, Si, Dhillon, 2016).
"""

import numpy as np

from widemargin.distributed.blocks import FloatArray

#: Sweeps of coordinate descent, and the relative change at which it stops.
MAX_SWEEPS, ENOUGH = 1000, 1e-12


def choose_steps(curvature: FloatArray, slope: FloatArray, limit: FloatArray) -> FloatArray:
    """Minimise ``slope't + 0.5 t'curvature t`` subject to ``0 <= t <= limit``.

    Coordinate descent from the best common step, so the result is at least as good as a line search.

    Parameters
    ----------
    curvature : ndarray of shape (k, k)
        Positive semidefinite.
    slope : ndarray of shape (k,)
        Not positive where a step descends.
    limit : ndarray of shape (k,)
        Largest weight of each step.
    """
    bend, common = float(curvature.sum()), float(limit.min(initial=np.inf))
    if len(slope) == 0:
        return np.zeros(0)
    if bend > 0:
        common = min(common, max(0.0, -float(slope.sum()) / bend))
    t = np.full(len(slope), common if np.isfinite(common) else 0.0)
    gradient = slope + curvature @ t
    for _ in range(MAX_SWEEPS):
        moved = 0.0
        for k in range(len(t)):
            own = curvature[k, k]
            if own <= 0:
                continue
            best = min(max(t[k] - gradient[k] / own, 0.0), limit[k])
            change = best - t[k]
            t[k] = best
            gradient += change * curvature[:, k]
            moved = max(moved, abs(change))
        if moved <= ENOUGH * max(float(np.abs(t).max()), 1e-300):
            break
    return t
