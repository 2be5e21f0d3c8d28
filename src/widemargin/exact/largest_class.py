"""Solutions that name the largest class, for fits that run out of time.

With an intercept, variables of zero do. Without one, equal variables of some points of one class, and
none of the other, do where all kernel values are positive. A descent that was stopped early may
classify fewer points right.
"""

from dataclasses import replace

import numpy as np

from widemargin.budget import StopReason
from widemargin.exact.dual_problem import FloatArray, classification_dual
from widemargin.exact.float64_finish import ExactMatrix
from widemargin.exact.solution import Solution, judge
from widemargin.kernels import Kernel
from widemargin.problem import Problem, Subproblem

#: Points that make up such a solution.
N_POINTS = 16


def name_largest_class(
    kernel: Kernel,
    problem: Problem,
    subproblems: list[Subproblem],
    bound: float,
    *,
    intercept: bool,
) -> list[Solution]:
    """Return a solution of each binary problem that names the largest class of all, by weight.

    Pairs of other classes name the larger of the two. ``bound`` is the bound of the variable of a
    point of weight one.
    """
    sizes = np.bincount(problem.labels, problem.weights)
    largest = int(sizes.argmax())
    solutions = []
    for sub in subproblems:
        if largest in (sub.negative, sub.positive) or sub.negative < 0:
            is_positive = sub.positive == largest
        else:
            is_positive = sizes[sub.positive] > sizes[sub.negative]
        K = ExactMatrix(kernel, problem.X, sub.index)
        cost = bound * problem.weights[sub.index]
        sign = 1.0 if is_positive else -1.0
        solutions.append(
            _shift_zero(sub, cost, sign) if intercept else _name_one_class(K, sub, cost, sign)
        )
    return solutions


def _shift_zero(sub: Subproblem, cost: FloatArray, sign: float) -> Solution:
    """Return variables of zero with an intercept of one or minus one."""
    dual = classification_dual(sub.index, sub.y, cost, intercept=True)
    found = judge(dual, np.zeros(len(sub.y)), dual.linear.copy())
    # The primal objective is the loss of the points of the other class.
    loss = 2.0 * float(cost[sub.y != sign].sum())
    return replace(found, intercept=sign, duality_gap=loss, stop_reason=StopReason.MAX_TIME)


def _name_one_class(K: ExactMatrix, sub: Subproblem, cost: FloatArray, sign: float) -> Solution:
    """Return equal variables of some points of one class, of the size of least dual objective."""
    dual = classification_dual(sub.index, sub.y, cost, intercept=False)
    members = np.flatnonzero(sub.y == sign)
    members = members[:: -(-len(members) // N_POINTS)]
    decision, coef = np.zeros(len(sub.y)), np.zeros(len(sub.y))
    K.add_products(members, np.full(len(members), sign), decision)
    # The objective of variables of size s is 0.5 curvature s^2 - s len(members).
    curvature = max(sign * float(decision[members].sum()), np.finfo(float).tiny)
    size = min(len(members) / curvature, float(cost[members].min()))
    coef[members] = sign * size
    found = judge(dual, coef, size * decision + dual.linear)
    return replace(found, stop_reason=StopReason.MAX_TIME)
