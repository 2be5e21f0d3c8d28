"""What the solvers of the dual share: solutions, how they are judged, and when descent is slow."""

from dataclasses import dataclass, replace

import numpy as np

from widemargin.budget import StopReason
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.pair_moves_fast import judge_solution

#: Moves per point, and per pair of points up to so many, after which descent crawls; but so many
#: moves at least, which take a fraction of a second.
CRAWL_MOVES, CRAWL_SHARE, CRAWL_POINTS, FEW_MOVES = 100, 0.3, 2000, 200_000
#: The precision of the kernel values is exhausted when so many rounds decrease the objective by no
#: more than this share of the total decrease.
IDLE_ROUNDS, IDLE_SHARE = 20, 1e-10


@dataclass(frozen=True)
class Solution:
    """What a solver of a `DualProblem` returns.

    Attributes
    ----------
    coef : ndarray of shape (n,)
        The variables b; in classification ``y_i alpha_i``.
    gradient : ndarray of shape (n,)
        ``K coef + linear``; in classification the decision value without intercept, minus the label.
    intercept : float
        Zero when the problem has none.
    objective : float
        Dual objective, the minimum of the problem; in classification ``0.5 alpha' Q alpha -
        sum(alpha)``.
    duality_gap : float
        Primal plus dual objective; zero at the optimum.
    violation : float
        Largest violation of the optimality conditions, as compared with ``tol``.
    violation_error : float
        By how much the violation may be off because kernel values were of float32, estimated; zero
        where they were of float64.
    n_iter : int
        Pair updates.
    stop_reason : StopReason
        ``STALLED`` if ``tol`` is below what the precision of the kernel values allows.
    """

    coef: FloatArray
    gradient: FloatArray
    intercept: float
    objective: float
    duality_gap: float
    violation: float
    violation_error: float = 0.0
    n_iter: int = 0
    stop_reason: StopReason = StopReason.CONVERGED


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


def judge(problem: DualProblem, coef: FloatArray, gradient: FloatArray) -> Solution:
    """Return variables and their gradient with the intercept, objective and gap that go with them."""
    tied, linear, epsilon = problem.is_tied, problem.linear, problem.epsilon
    offset, violation, quadratic, loss = judge_solution(
        tied, epsilon, linear, problem.lower, problem.upper, gradient, coef
    )
    product = float(linear @ coef) + epsilon * float(np.abs(coef).sum())
    # The sum of the variables times the offset is the price of holding the sum.
    held = problem.total if problem.total is not None else 0.0
    return Solution(
        coef=coef,
        gradient=gradient,
        intercept=-offset,
        objective=0.5 * quadratic + product,
        duality_gap=quadratic + product + loss - offset * held,
        violation=max(violation, 0.0),
    )


def suit_intercept(problem: DualProblem, found: Solution) -> Solution:
    """Return the solution of a descent that a limit stopped with the intercept that suits it best.

    The optimality conditions do not tell the intercept of a solution far from the optimum. That of a
    classifier is the one with the least loss; if that classifies fewer points correctly, by their
    weight, than the larger class has, it is the one with the fewest errors. The duality gap is that
    of the new intercept.
    """
    y = problem.labels
    if y is None or not problem.is_tied:
        return found
    cost, decision = problem.upper - problem.lower, found.gradient + y
    best = least_loss_intercept(found.gradient, y, cost)
    is_right = (decision + best >= 0) == (y > 0)
    if cost[is_right].sum() < max(cost[y > 0].sum(), cost[y < 0].sum()):
        best = fewest_errors_intercept(decision, y, cost)
    above = found.gradient + best
    loss = float(problem.upper @ np.maximum(-above, 0.0) - problem.lower @ np.maximum(above, 0.0))
    product = float(problem.linear @ found.coef)
    gap = 2.0 * found.objective - product + loss
    return replace(found, intercept=best, duality_gap=gap)


def least_loss_intercept(gradient: FloatArray, y: FloatArray, cost: FloatArray) -> float:
    """Return the intercept that minimises the hinge loss.

    The loss is piecewise linear. Its slope begins at minus the weight of the positive points and
    grows by the weight of a point at the negative of its gradient.
    """
    order = np.argsort(-gradient, kind="stable")
    passed = np.searchsorted(np.cumsum(cost[order]), cost[y > 0].sum() * (1.0 - 1e-12))
    return float(-gradient[order[min(int(passed), len(order) - 1)]])


def fewest_errors_intercept(decision: FloatArray, y: FloatArray, cost: FloatArray) -> float:
    """Return the intercept with the least weight of points on the wrong side."""
    order = np.argsort(decision, kind="stable")
    ordered = decision[order]
    # With the threshold below point k, the positive ones before it and the negative others are wrong.
    signed = np.where(y[order] > 0, cost[order], -cost[order])
    wrong = np.concatenate([[0.0], np.cumsum(signed)])
    # A threshold between equal decisions cannot be had.
    wrong[1:-1][ordered[1:] == ordered[:-1]] = np.inf
    k = int(np.argmin(wrong))
    if k == 0:
        return float(1.0 - ordered[0])
    if k == len(ordered):
        return float(-1.0 - ordered[-1])
    return float(-0.5 * (ordered[k - 1] + ordered[k]))
