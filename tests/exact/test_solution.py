"""Fits that a limit stops: the best intercept, the better iterate, never worse than no model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.reference import svm_dual
from widemargin import DCSVC, KernelSVC, KernelSVR
from widemargin.exact.dual_problem import DualProblem, classification_dual
from widemargin.exact.solution import (
    fewest_errors_intercept,
    judge,
    least_loss_intercept,
    predict_mean,
    salvage,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

problems = given(seed=st.integers(0, 10**6), n=st.integers(2, 40), n_values=st.integers(1, 40))


def draw(seed, n, n_values):
    """Decision values, some of them equal, labels of both signs, and weights."""
    rng = np.random.default_rng(seed)
    decision = rng.normal(size=n_values)[rng.integers(0, n_values, n)]
    y = np.where(rng.random(n) < 0.3, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    return decision, y, rng.uniform(0.1, 2.0, n)


@settings(max_examples=200, deadline=None)
@problems
def test_the_least_loss(seed, n, n_values):
    decision, y, upper = draw(seed, n, n_values)
    problem = classification_dual(np.arange(n), y, upper, intercept=True)
    found = least_loss_intercept(problem, decision - y)

    def loss(offset):
        return upper @ np.maximum(1.0 - y * (decision + offset), 0.0)

    # The loss is piecewise linear, so the least is at one of its corners.
    least = min(loss(corner) for corner in y - decision)
    assert loss(found) <= least * (1.0 + 1e-12) + 1e-12


def regression_dual(target, upper, epsilon, *, intercept=True):
    total = 0.0 if intercept else None
    index = np.arange(len(target))
    return DualProblem(index, -target, -upper, upper, epsilon=epsilon, total=total)


def regression_loss(error, upper, epsilon):
    return float(upper @ np.maximum(np.abs(error) - epsilon, 0.0))


@settings(max_examples=200, deadline=None)
@problems
def test_the_least_loss_of_a_regression(seed, n, n_values):
    value, target, upper = draw(seed, n, n_values)
    found = least_loss_intercept(regression_dual(target, upper, 0.1), value - target)

    def loss(offset):
        return regression_loss(value + offset - target, upper, 0.1)

    corners = np.concatenate([target - value - 0.1, target - value + 0.1])
    assert loss(found) <= min(loss(corner) for corner in corners) * (1.0 + 1e-12) + 1e-12


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_a_salvaged_regression_is_feasible_and_no_worse_than_a_constant(intercept, size):
    rng = np.random.default_rng(0)
    X, target, upper = rng.normal(size=(50, 3)), rng.exponential(size=50), rng.uniform(1, 2, 50)
    problem = regression_dual(target, upper, 0.1, intercept=intercept)
    K = size * np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
    coef = rng.uniform(-1.0, 1.0, 50)
    coef -= coef.mean() if intercept else 0.0
    found = salvage(problem, judge(problem, coef, K @ coef - target))
    assert (np.abs(found.coef) <= upper).all()
    constant = np.average(target, weights=upper) if intercept else 0.0
    assert_allclose(predict_mean(problem).intercept, constant)
    if intercept:
        assert_allclose(found.coef.sum(), 0.0, atol=1e-12)
    else:
        assert found.intercept == 0.0
    value = K @ found.coef
    error = upper @ np.square(value + found.intercept - target)
    assert error <= upper @ np.square(constant - target) * (1.0 + 1e-12)
    objective = found.coef @ (0.5 * value - target) + 0.1 * np.abs(found.coef).sum()
    assert_allclose(found.objective, objective, rtol=1e-9, atol=1e-9)
    loss = regression_loss(value + found.intercept - target, upper, 0.1)
    gap = objective + 0.5 * found.coef @ value + loss
    assert_allclose(found.duality_gap, gap, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("max_iter", [0, 1, 5, 30, 300])
@pytest.mark.parametrize("n", [150, 1000, 6000])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_stopped_regression_beats_the_constant(max_iter, n, intercept):
    rng = np.random.default_rng(0)
    X = rng.random((n, 4))
    y = np.sin(6 * X[:, 0]) + rng.normal(size=n)
    model = KernelSVR(C=1000.0, max_iter=max_iter, fit_intercept=intercept).fit(X, y)
    assert model.stop_reason_ == "max_iter"
    constant = y.mean() if intercept else 0.0
    limit = np.square(y - constant).sum() * (1.0 + 1e-6)
    assert np.square(y - model.predict(X)).sum() <= limit


@settings(max_examples=200, deadline=None)
@problems
def test_the_fewest_errors(seed, n, n_values):
    decision, y, upper = draw(seed, n, n_values)
    found = fewest_errors_intercept(decision, y, upper)

    def errors(offset):
        return upper[(decision + offset >= 0) != (y > 0)].sum()

    values = np.unique(decision)
    between = np.concatenate(
        [[values[0] - 1.0], 0.5 * (values[1:] + values[:-1]), [values[-1] + 1.0]]
    )
    assert errors(found) <= min(errors(-threshold) for threshold in between) + 1e-12


@pytest.mark.parametrize("max_iter", [0, 1, 5, 30, 300])
@pytest.mark.parametrize("n", [150, 1000, 6000])
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_stopped_fit_beats_the_larger_class(max_iter, n, share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + rng.normal(size=n) > np.quantile(X[:, 0], 1.0 - share)).astype(int)
    model = KernelSVC(C=10.0, max_iter=max_iter).fit(X, y)
    assert model.stop_reason_ == "max_iter"
    assert model.score(X, y) >= max(y.mean(), 1.0 - y.mean())


@pytest.mark.parametrize("n", [300, 6000])
def test_the_gap_of_a_stopped_fit_is_that_of_its_intercept(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + rng.normal(size=n) > 1.0).astype(int)
    model = KernelSVC(gamma=0.5, max_iter=20).fit(X, y)
    coef = np.zeros(n)
    coef[model.support_] = model.dual_coef_[0]
    K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
    sign = 2.0 * y - 1.0
    gap = svm_dual.duality_gap(K, sign, np.ones(n), coef, model.intercept_[0])
    assert_allclose(model.duality_gap_, gap, rtol=1e-5)


def test_more_time_is_never_much_worse(noisy):
    X, y = noisy
    primals = []
    for max_iter in (600, 1200, 2400, 4800, 9600):
        model = KernelSVC(C=10.0, gamma=0.5, max_iter=max_iter).fit(X, y)
        primals.append(model.duality_gap_ - model.objective_)
    best = np.minimum.accumulate(primals)
    # Compared on the sample that was reached, not on all rows: hence the margin.
    assert (np.array(primals) <= 1.1 * best).all()


@pytest.mark.parametrize("cls", [KernelSVC, DCSVC])
@pytest.mark.parametrize("max_iter", [10, 1000])
def test_a_stopped_fit_is_never_worse_than_no_coefficients(cls, max_iter):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5)) * [1.0, 10.0, 100.0, 1000.0, 10000.0]
    y = rng.integers(0, 2, 3000)
    model = cls(kernel="linear", max_iter=max_iter, fit_intercept=True).fit(X, y)
    weights = model.dual_coef_[0] @ model.support_vectors_
    objective = 0.5 * weights @ weights - np.abs(model.dual_coef_).sum()
    assert objective <= 1e-9
    assert_allclose(model.objective_, objective, rtol=1e-6, atol=1e-6)
