"""Newton's method for squared losses: against a general optimiser, and at a huge C."""

import warnings
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

from widemargin import AdditiveSVC, AdditiveSVR, IntersectionSVC
from widemargin.additive import coef_newton
from widemargin.additive.coded_rows import plain_rows
from widemargin.additive.coef_newton import Objective, count_patience
from widemargin.additive.dual_descent import Descent
from widemargin.budget import StopReason


def make_objective(n, m, *, is_free, is_one_sided, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, m))
    A[:, -1] = 1.0
    targets = A @ rng.normal(size=m) + rng.normal(size=n)
    penalty = np.ones(m)
    penalty[-1] = float(not is_free)
    if is_one_sided:
        targets = np.where(targets > 0, 1.0, -1.0)
    costs = rng.uniform(0.5, 2.0, n)
    return Objective(A, targets, costs, 0.0 if is_one_sided else 0.3, penalty, is_one_sided)


def loss_and_slope(w, objective):
    """The same objective, written in another way."""
    f = objective.A @ w
    if objective.is_one_sided:
        errors = np.maximum(0.0, 1.0 - objective.targets * f) * objective.targets
    else:
        over = objective.targets - f
        errors = np.where(over > 0, np.maximum(over - 0.3, 0.0), np.minimum(over + 0.3, 0.0))
    value = 0.5 * (objective.penalty * w) @ w + objective.costs @ errors**2
    return value, objective.penalty * w - 2.0 * (objective.costs * errors) @ objective.A


@pytest.mark.parametrize("is_free", [True, False])
@pytest.mark.parametrize("is_one_sided", [True, False])
@pytest.mark.parametrize(("n", "m"), [(200, 12), (25, 40)])
def test_the_optimum_is_that_of_a_general_optimiser(n, m, is_free, is_one_sided):
    objective = make_objective(n, m, is_free=is_free, is_one_sided=is_one_sided)
    point, n_steps, reason = coef_newton.minimise(
        objective, np.zeros(m), Descent(tol=1e-8, max_iter=100), None
    )
    peer = minimize(
        loss_and_slope, np.zeros(m), (objective,), jac=True, method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-9},
    )  # fmt: skip
    assert reason is StopReason.CONVERGED
    assert n_steps < 20
    assert point.value == pytest.approx(peer.fun, rel=1e-9)
    np.testing.assert_allclose(point.w, peer.x, atol=1e-5)
    value, slope = loss_and_slope(point.w, objective)
    assert point.value == pytest.approx(value, rel=1e-12)
    assert np.abs(slope).max() < 1e-6


def test_the_violation_counts_the_intercept():
    objective = make_objective(100, 5, is_free=True, is_one_sided=True)
    point, _, _ = coef_newton.minimise(objective, np.zeros(5), Descent(1e-9, 100), None)
    away = objective.judge(point.w + np.array([0.0, 0.0, 0.0, 0.0, 0.2]))
    slope = away.gradient * (np.arange(5) == 4)
    assert objective.violation(slope, away.pull) > 0.1


def test_a_costly_newton_is_never_begun():
    # Some milliseconds are allowed for each pass of max_iter; this takes three seconds.
    rows = plain_rows(np.ones((2000, 1500), np.float32), None)
    assert count_patience(rows, 1, 60)(2000.0) == np.inf
    assert count_patience(rows, 1, 100_000)(2000.0) > 1000
    assert count_patience(rows, 1, 59)(1.0) == np.inf
    small = plain_rows(np.ones((200, 5), np.float32), None)
    assert count_patience(small, 1, 60)(10.0) == 30


def whole_numbers(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, (n, 3)).astype(float)
    score = X[:, 0] + X[:, 1] - X[:, 2] + 2.0 * rng.normal(size=n)
    return X, np.where(score > np.median(score), 1, -1)


def judge(model, X, y):
    """Fit; returns the sum of squared errors, and the end of the fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(X, y)
    told = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert bool(told) == (model.stop_reason_ != "converged")
    errors = np.maximum(0.0, 1.0 - y * model.decision_function(X))
    return float(errors @ errors), model.stop_reason_


@pytest.mark.parametrize("kind", [AdditiveSVC, IntersectionSVC])
@pytest.mark.parametrize("fit_intercept", ["free", True, False])
def test_a_smaller_tolerance_is_never_worse_at_a_huge_cost(kind, fit_intercept):
    X, y = whole_numbers()
    for C, tol in product([1e5, 1e7, 1e9], [1e-3, 1e-5, 1e-12]):
        rough, _ = judge(kind(C=C, fit_intercept=fit_intercept), X, y)
        fine, reason = judge(kind(C=C, fit_intercept=fit_intercept, tol=tol), X, y)
        assert fine <= 1.01 * rough + 1e-3
        assert reason in ("converged", "stalled")


@pytest.mark.parametrize("C", [1e7, 1e11, 1e13])
def test_repeated_rows_at_a_huge_cost(C):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.poisson(1.0, (30, 40)), 3, axis=0).astype(float)
    y = np.repeat(rng.integers(0, 2, 30) * 2 - 1, 3)
    for model in (AdditiveSVC(C=C), IntersectionSVC(C=C)):
        assert judge(model, X, y)[0] < 1e-3


@pytest.mark.parametrize("cost", [1e4, 2.37e6, 2.2e8, 3e8, 1e12])
def test_curves_of_a_regression_at_a_huge_cost(cost):
    X, y = load_diabetes(return_X_y=True, scaled=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AdditiveSVR(kernel="intersection", C=cost).fit(X, y)
    assert model.score(X, y) > 0.99
