"""Objective and violation of the general dual problem, held against brute force and LIBSVM."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR, OneClassSVM

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.dual import (
    BoxProblem,
    measure_infeasibility,
    measure_objective,
    measure_violation,
)

TOL = 1e-6


def make_problems():
    """Problem, kernel matrix and LIBSVM's coefficients of each kind of machine."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    K = rbf_kernel(X, gamma=0.5)
    target = np.sin(X[:, 0]) + 0.3 * rng.normal(size=60)
    y = np.where(target > 0, 1.0, -1.0)
    bound = np.full(60, 2.0)
    same = {"gamma": 0.5, "tol": TOL}
    return {
        "classes": (
            BoxProblem(-y, np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0)),
            K, SVC(C=2.0, **same).fit(X, y),
        ),
        "regression": (
            BoxProblem(-target, -bound, bound, epsilon=0.2),
            K, SVR(C=2.0, epsilon=0.2, **same).fit(X, target),
        ),
        "one class": (
            BoxProblem(np.zeros(60), np.zeros(60), np.ones(60), total=12.0),
            K, OneClassSVM(nu=0.2, **same).fit(X),
        ),
    }  # fmt: skip


PROBLEMS = make_problems()


def spread(model, n):
    b = np.zeros(n)
    b[model.support_] = model.dual_coef_[0]
    return b


@pytest.fixture(params=PROBLEMS)
def case(request):
    problem, K, model = PROBLEMS[request.param]
    return problem, K, spread(model, len(K))


def test_libsvm_is_optimal_by_these_measures(case):
    problem, K, b = case
    assert measure_violation(problem, b, K @ b) < 1.1 * TOL
    assert measure_infeasibility(problem, b) < 1e-8


def test_objective_is_that_of_a_general_optimiser(case):
    """The positive and negative parts of b make the problem smooth."""
    problem, K, b = case
    n = len(b)
    split = np.hstack([np.eye(n), -np.eye(n)])

    def value(parts):
        b = split @ parts
        return 0.5 * b @ K @ b + problem.linear @ b + problem.epsilon * parts.sum()

    def slope(parts):
        return split.T @ (K @ (split @ parts) + problem.linear) + problem.epsilon

    limits = np.concatenate([np.maximum(problem.upper, 0), np.maximum(-problem.lower, 0)])
    found = minimize(
        value, np.full(2 * n, 0.1), jac=slope, method="SLSQP", bounds=[(0, u) for u in limits],
        constraints={
            "type": "eq", "fun": lambda parts: (split @ parts).sum() - problem.total,
            "jac": lambda parts: split.sum(axis=0),
        },
        options={"maxiter": 500, "ftol": 1e-12},
    )  # fmt: skip
    assert found.success
    assert measure_objective(problem, b, K @ b) == pytest.approx(found.fun, abs=1e-5)


def test_violation_is_the_best_rate_of_any_pair(case):
    """Move a little from every variable to every other one, and look at the objective."""
    problem, K, b = case
    b = np.clip(b + 0.05 * np.sin(np.arange(len(b))), problem.lower, problem.upper)
    start, step, best = measure_objective(problem, b, K @ b), 1e-6, -np.inf
    for i in range(len(b)):
        for j in range(len(b)):
            moved = b.copy()
            moved[i] += step
            moved[j] -= step
            if i != j and moved[i] <= problem.upper[i] and moved[j] >= problem.lower[j]:
                best = max(best, (start - measure_objective(problem, moved, K @ moved)) / step)
    assert measure_violation(problem, b, K @ b) == pytest.approx(best, abs=1e-4)
    assert best > 0.01


def test_infeasible_variables_are_noticed(case):
    problem, _, b = case
    assert measure_infeasibility(problem, b + 0.01) > 1e-3
    outside = b.copy()
    outside[:2] += (3.0, -3.0)
    assert measure_infeasibility(problem, outside) > 0.1
