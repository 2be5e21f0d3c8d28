"""What the solvers of the dual share: limits, results, and how a solution is judged."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from widemargin.exact.pair_moves_fast import judge_solution

FloatArray = NDArray[np.float64]

#: Moves per point, and per pair of points up to so many, after which descent crawls; but so many
#: moves at least, which take a fraction of a second.
CRAWL_MOVES, CRAWL_SHARE, CRAWL_POINTS, FEW_MOVES = 100, 0.3, 2000, 200_000
#: The precision of the kernel values is exhausted when so many rounds decrease the objective by no
#: more than this share of the total decrease.
IDLE_ROUNDS, IDLE_SHARE = 20, 1e-10


@dataclass(frozen=True)
class Result:
    """What the solver returns.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        Signed dual variables ``y_i alpha_i``.
    gradient : ndarray of shape (n,)
        ``K coef - y``: decision value without intercept, minus label.
    intercept : float
        Zero when the problem has none.
    objective : float
        Dual objective ``0.5 alpha' Q alpha - sum(alpha)``.
    duality_gap : float
        Primal plus dual objective; zero at the optimum.
    violation : float
        Largest violation of the optimality conditions, as compared with ``tol``.
    n_iter : int
        Pair updates.
    stop_reason : str
        ``"converged"``, ``"max_iter"``, ``"max_time"``, or ``"stalled"`` when ``tol`` is below what
        float32 kernel values allow.
    """

    coef: FloatArray
    gradient: FloatArray
    intercept: float
    objective: float
    duality_gap: float
    violation: float
    n_iter: int
    stop_reason: str


@dataclass(frozen=True)
class Limits:
    """When to stop, and how much memory the working matrix may take.

    ``all_or_nothing`` says that the caller discards a solution that is not finished in time. Then the
    solver spends no time on completing it, and only its ``stop_reason`` is valid.
    """

    tol: float = 1e-3
    max_iter: int = -1
    max_time: float | None = None
    cache_bytes: int = 1 << 30
    all_or_nothing: bool = False

    def after(self, seconds: float) -> "Limits":
        """The same limits with less time."""
        if self.max_time is None:
            return self
        return replace(self, max_time=max(self.max_time - seconds, 0.0))


def is_crawling(n_moves: int, n: int) -> bool:
    """Whether moves are so many that steps of many variables at once would have taken less time."""
    return n_moves > max(FEW_MOVES, n * (CRAWL_MOVES + CRAWL_SHARE * min(n, CRAWL_POINTS)))


class Pace:
    """Tells progress from rounding: near the optimum a round may undo what another one gained."""

    def __init__(self) -> None:
        self._gained = 0.0
        self.restart()

    def restart(self) -> None:
        """Restart the count of rounds."""
        self._best, self._rounds_since_best = self._gained, 0

    def record(self, gain: float) -> None:
        """Record the decrease of the objective in one round."""
        self._gained += gain
        self._rounds_since_best += 1
        if self._gained > self._best + IDLE_SHARE * abs(self._best):
            self.restart()

    def is_lost(self) -> bool:
        """Whether the last rounds decreased the objective by next to nothing."""
        return self._rounds_since_best >= IDLE_ROUNDS


def limit_reached(n_moves: int, seconds: float, limits: Limits) -> str | None:
    """The limit that ends a descent, if any."""
    if 0 <= limits.max_iter <= n_moves:
        return "max_iter"
    if limits.max_time is not None and seconds >= limits.max_time:
        return "max_time"
    return None


def optimum_of(
    coef: FloatArray, gradient: FloatArray, y: FloatArray, upper: FloatArray, intercept: bool,
    linear: FloatArray | None = None,
) -> Result:  # fmt: skip
    """Intercept, objective and duality gap that go with dual variables and their gradient.

    ``linear`` is the linear term of the problem; None for that of classification, minus the labels.
    """
    linear = -y if linear is None else linear
    offset, violation, quadratic, loss = judge_solution(intercept, linear, y, upper, gradient, coef)
    product = float(linear @ coef)
    # The sum that variables of one sign hold, as in novelty detection, times the offset is its price.
    held = float(coef.sum()) if intercept and (y == y[0]).all() else 0.0
    return Result(
        coef=coef,
        gradient=gradient,
        intercept=-offset,
        objective=0.5 * quadratic + product,
        duality_gap=quadratic + product + loss - offset * held,
        violation=max(violation, 0.0),
        n_iter=0,
        stop_reason="converged",
    )


def stopped(result: Result, y: FloatArray, upper: FloatArray, intercept: bool) -> Result:
    """The result of a descent that a limit stopped, with the intercept that suits it best.

    The optimality conditions do not tell the intercept of a solution far from the optimum. It is the
    one with the least loss; if that classifies fewer points correctly, by their weight, than the
    larger class has, it is the one with the fewest errors. The duality gap is that of the new one.
    """
    if not intercept:
        return result
    decision = result.gradient + y
    best = least_loss_intercept(result.gradient, y, upper)
    is_right = (decision + best >= 0) == (y > 0)
    if upper[is_right].sum() < max(upper[y > 0].sum(), upper[y < 0].sum()):
        best = fewest_errors_intercept(decision, y, upper)
    loss = float(upper @ np.maximum(1.0 - y * (decision + best), 0.0))
    quadratic = 2.0 * (result.objective + float(y @ result.coef))
    gap = quadratic - float(y @ result.coef) + loss
    return replace(result, intercept=best, duality_gap=gap)


def least_loss_intercept(gradient: FloatArray, y: FloatArray, upper: FloatArray) -> float:
    """Intercept that minimises the hinge loss.

    The loss is piecewise linear. Its slope begins at minus the weight of the positive points and
    grows by the weight of a point at the negative of its gradient.
    """
    order = np.argsort(-gradient, kind="stable")
    passed = np.searchsorted(np.cumsum(upper[order]), upper[y > 0].sum() * (1.0 - 1e-12))
    return float(-gradient[order[min(int(passed), len(order) - 1)]])


def fewest_errors_intercept(decision: FloatArray, y: FloatArray, upper: FloatArray) -> float:
    """Intercept with the least weight of points on the wrong side."""
    order = np.argsort(decision, kind="stable")
    ordered = decision[order]
    # With the threshold below point k, the positive ones before it and the negative others are wrong.
    signed = np.where(y[order] > 0, upper[order], -upper[order])
    wrong = np.concatenate([[0.0], np.cumsum(signed)])
    # A threshold between equal decisions cannot be had.
    wrong[1:-1][ordered[1:] == ordered[:-1]] = np.inf
    k = int(np.argmin(wrong))
    if k == 0:
        return float(1.0 - ordered[0])
    if k == len(ordered):
        return float(-1.0 - ordered[-1])
    return float(-0.5 * (ordered[k - 1] + ordered[k]))


def make_feasible(
    start: FloatArray, lower: FloatArray, upper: FloatArray, intercept: bool
) -> FloatArray:
    """Nearest simple feasible point: cut at the bounds, then scale the heavier class down.

    The start of a problem whose variables all have one sign is taken to have the sum it should have.
    """
    coef = np.clip(start, lower, upper)
    if intercept and lower.any() and upper.any():
        positive, negative = coef[coef > 0].sum(), -coef[coef < 0].sum()
        heavier, lighter = max(positive, negative), min(positive, negative)
        # A difference by rounding must not move variables off their bounds.
        if heavier - lighter > 1e-12 * heavier:
            coef[coef > 0 if positive > negative else coef < 0] *= lighter / heavier
    return coef
