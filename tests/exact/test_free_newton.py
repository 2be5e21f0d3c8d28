"""Newton steps within bounds: optimality conditions, and the problems that gain from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from widemargin import KernelSVR
from widemargin.exact import free_newton
from widemargin.exact.dual_problem import DualProblem, classification_dual
from widemargin.exact.free_newton import NewtonPlan, find_free, move_free, newton_step
from widemargin.parallel import Workers

ALONE = Workers(1, None)


def draw(seed, n, width):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 2 * n))
    low, high = -width * rng.uniform(0.2, 1.0, n), width * rng.uniform(0.2, 1.0, n)
    return Z @ Z.T / n, rng.normal(size=n), low, high


@pytest.mark.parametrize("tied", [True, False])
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 60), width=st.floats(0.5, 10.0))
def test_a_step_is_the_minimum_within_the_bounds(tied, seed, n, width):
    K, slope, low, high = draw(seed, n, width)
    step = newton_step(np.tril(K), slope, low, high, is_tied=tied, workers=ALONE)
    if step is None:
        return
    assert (step >= low).all()
    assert (step <= high).all()
    if tied:
        assert abs(step.sum()) < 1e-12 * n * width
    assert slope @ step + 0.5 * step @ K @ step < 0


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("width", [4.0, 8.0, 100.0])
def test_the_optimality_conditions_hold(tied, width):
    K, slope, low, high = draw(7, 300, width)
    step = newton_step(np.tril(K), slope, low, high, is_tied=tied, workers=ALONE)
    assert step is not None
    gradient = K @ step + slope
    rise, fall = gradient[step < high], gradient[step > low]
    least, most = rise.min(), fall.max()
    if not tied:
        least, most = min(least, 0.0), max(most, 0.0)
    # The ridge changes the gradient by its share of the step.
    assert most - least < 1e-3
    assert ((step == low) | (step == high)).any() == (width < 100.0)


def test_an_indefinite_matrix_gives_no_step():
    K, slope, low, high = draw(0, 30, 1.0)
    step = newton_step(np.tril(K - 3 * np.eye(30)), slope, low, high, is_tied=True, workers=ALONE)
    assert step is None


def test_no_step_where_too_many_variables_meet_their_bounds():
    K, slope, low, high = draw(0, 2 * free_newton.FEW_MET, 1e-3)
    assert newton_step(np.tril(K), slope, low, high, is_tied=False, workers=ALONE) is None


def test_variables_of_a_regression_stay_on_their_side_of_zero():
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(80, 3)), 2.0
    K, coef = rbf_kernel(X), 0.9 * rng.uniform(-C, C, 80)
    coef -= coef.mean()
    # The optimum without bounds is near, but beyond some of them.
    target = K @ (coef + 0.5 * rng.normal(size=80)) + 0.1 * np.sign(coef)
    problem = DualProblem(
        np.arange(80), -target, np.full(80, -C), np.full(80, C), epsilon=0.1, total=0.0
    )
    moved = move_free(np.tril(K), problem, K @ coef - target, coef, ALONE)
    assert moved is not None
    assert 0 < np.count_nonzero((moved == 0) | (np.abs(moved) == C)) < 80
    assert (np.sign(moved) * np.sign(coef) >= 0).all()
    assert (np.abs(moved) <= C).all()
    assert abs(moved.sum()) < 1e-10

    def objective(b):
        return 0.5 * b @ K @ b - target @ b + 0.1 * np.abs(b).sum()

    assert objective(moved) < objective(coef)


def test_free_variables_are_between_bounds_and_not_at_the_bend():
    coef = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    bound = np.full(5, 2.0)
    problem = DualProblem(np.arange(5), np.zeros(5), -bound, bound, epsilon=0.1)
    assert find_free(problem, coef).tolist() == [1, 3]
    assert find_free(problem, coef[2:], np.array([2, 3, 4])).tolist() == [1]
    y = np.array([1.0, -1.0, 1.0])
    dual = classification_dual(np.arange(3), y, np.ones(3), intercept=True)
    assert find_free(dual, np.array([0.5, 0.0, 1.0])).tolist() == [0]


def test_a_step_is_due_once_updates_have_cost_as_much():
    plan = NewtonPlan(10**8)
    pause = plan.count_moves(100, 200)
    plan.record_moves(pause - 2, 200)
    assert not plan.is_due(100, 200)
    plan.record_moves(2, 200)
    assert plan.is_due(100, 200)
    assert not plan.is_due(free_newton.MIN_FREE - 1, 200)
    assert not plan.is_due(10_000, 200)
    plan.record_step(False)
    assert plan.count_moves(100, 200) == pytest.approx(2 * pause, abs=2)


def test_a_fit_with_steps_has_the_optimum_of_one_without(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3100, 8))
    y = np.sin(X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3]
    steps = []
    original = free_newton.newton_step

    def count(*args, **kwargs):
        steps.append(original(*args, **kwargs))
        return steps[-1]

    monkeypatch.setattr(free_newton, "newton_step", count)
    params = {"C": 10.0, "gamma": 0.125, "epsilon": 0.01}
    with_steps = KernelSVR(**params).fit(X, y)
    assert any(step is not None for step in steps)
    monkeypatch.setattr(free_newton, "MIN_FREE", len(y))
    n_steps = len(steps)
    without = KernelSVR(**params).fit(X, y)
    assert len(steps) == n_steps
    assert with_steps.stop_reason_ == without.stop_reason_ == "converged"
    assert with_steps.n_iter_ < without.n_iter_
    assert with_steps.objective_ == pytest.approx(without.objective_, rel=1e-5)
