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
#: Keeps a quotient finite.
TINY = float(np.finfo(float).tiny)


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


def salvage(problem: DualProblem, found: Solution) -> Solution:
    """Return the solution of a descent that a limit stopped, changed to the model that serves best.

    The optimality conditions do not tell the intercept of a solution far from the optimum: it becomes
    the one with the least loss. A classifier that then classifies fewer points correctly, by their
    weight, than the larger class has gets the intercept with the fewest errors. A regression whose
    squared error is then larger than that of the mean of the targets, or of zero if there is no
    intercept, gets smaller coefficients. The duality gap is that of the new intercept.
    """
    if problem.labels is not None:
        return _salvage_classifier(problem, found, problem.labels)
    is_regression = problem.total in (None, 0.0)
    return _salvage_regression(problem, found) if is_regression else found


def _salvage_classifier(problem: DualProblem, found: Solution, y: FloatArray) -> Solution:
    if not problem.is_tied:
        return found
    cost, decision = problem.upper - problem.lower, found.gradient + y
    best = least_loss_intercept(problem, found.gradient)
    is_right = (decision + best >= 0) == (y > 0)
    if cost[is_right].sum() < max(cost[y > 0].sum(), cost[y < 0].sum()):
        best = fewest_errors_intercept(decision, y, cost)
    return set_intercept(problem, found, best)


def _salvage_regression(problem: DualProblem, found: Solution) -> Solution:
    """Shrink the coefficients by the factor of least squared error, if that of the mean is less.

    All points between zero and a feasible solution are feasible, and their objective is at most zero
    if that of the solution is.
    """
    if problem.is_tied:
        found = set_intercept(problem, found, least_loss_intercept(problem, found.gradient))
    constant = predict_mean(problem)
    weight, target, value = problem.upper, -problem.linear, found.gradient - problem.linear
    spread, middle = target - constant.intercept, 0.0
    if problem.is_tied:
        middle = float(np.average(value, weights=weight))
    if not weight @ np.square(found.gradient + found.intercept) > weight @ np.square(spread):
        return found
    slopes = weight * (value - middle)
    square = max(float(slopes @ (value - middle)), TINY)
    share = float(np.clip(slopes @ spread / square, 0.0, 1.0))
    shrunk = judge(problem, share * found.coef, share * value - target)
    return set_intercept(problem, shrunk, constant.intercept - share * middle)


def predict_mean(problem: DualProblem) -> Solution:
    """Return the solution of a regression without coefficients that predicts the mean of the targets.

    Without an intercept it predicts zero.
    """
    zero = judge(problem, np.zeros(len(problem)), problem.linear.copy())
    if not problem.is_tied:
        return zero
    return set_intercept(problem, zero, -float(np.average(problem.linear, weights=problem.upper)))


def set_intercept(problem: DualProblem, found: Solution, intercept: float) -> Solution:
    """Return a solution whose variables sum to zero with another intercept, and its duality gap."""
    above, epsilon = found.gradient + intercept, problem.epsilon
    loss = problem.upper @ np.maximum(-above - epsilon, 0.0)
    loss -= problem.lower @ np.maximum(above - epsilon, 0.0)
    product = problem.linear @ found.coef + epsilon * np.abs(found.coef).sum()
    gap = 2.0 * found.objective - float(product) + float(loss)
    return replace(found, intercept=intercept, duality_gap=gap)


def least_loss_intercept(problem: DualProblem, gradient: FloatArray) -> float:
    """Return the intercept that minimises the loss of all points.

    The loss is piecewise linear. Its slope begins at minus the sum of the upper bounds. It grows by
    the upper bound of a point where the gradient and the intercept add up to minus epsilon, and by
    the size of its lower bound where they add up to epsilon.
    """
    corners = np.concatenate([-problem.epsilon - gradient, problem.epsilon - gradient])
    growth = np.concatenate([problem.upper, -problem.lower])
    order = np.argsort(corners, kind="stable")
    passed = np.searchsorted(np.cumsum(growth[order]), problem.upper.sum() * (1.0 - 1e-12))
    return float(corners[order[min(int(passed), len(order) - 1)]])


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
