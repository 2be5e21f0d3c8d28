"""Small problems: in float64 to machine precision, many of them at little cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.svm import SVC

from tests.reference import kernels as formulas
from tests.reference import svm_dual
from widemargin import KernelOneClassSVM, KernelSVC
from widemargin.budget import Budget
from widemargin.exact import active_set
from widemargin.exact import solve as small
from widemargin.exact.active_set import solve_small
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.solve import solve_exactly
from widemargin.kernels import RBF
from widemargin.parallel import Workers


def make_classes(n_classes, n_each, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_each)
    centres = rng.normal(size=(n_classes, n_features))
    return centres[y] + 1.5 * rng.normal(size=(len(y), n_features)), y


def solve_binary(K, y, upper, budget=None, intercept=True):
    dual = classification_dual(np.arange(len(y)), y, upper, intercept=intercept)
    return solve_small(K, dual, Budget() if budget is None else budget)


@pytest.mark.parametrize("intercept", [True, False])
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6), n=st.integers(2, 60), log_c=st.floats(-3, 4), width=st.floats(-2, 2)
)
def test_a_small_problem_is_solved_to_machine_precision(intercept, seed, n, log_c, width):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 3)), np.where(rng.random(n) < 0.5, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    K, upper = formulas.rbf(X, gamma=10.0**width), 10.0**log_c * rng.uniform(0.5, 2.0, n)
    result = solve_binary(K, y, upper, intercept=intercept)
    assert result.stop_reason == "converged"
    assert (y * result.coef >= 0).all()
    assert (y * result.coef <= upper).all()
    if intercept:
        assert abs(result.coef.sum()) <= 1e-12 * upper.sum()
    gap = svm_dual.duality_gap(K, y, upper, result.coef, result.intercept)
    assert abs(gap) <= 1e-9 * upper.sum()
    assert_allclose(result.duality_gap, gap, atol=1e-9 * upper.sum())


def test_rounding_is_no_direction_without_curvature(iris):
    """Two free rows of iris are equal, so the matrix of the free rows is singular."""
    X = iris[0][np.random.RandomState(0).permutation(150)]
    for rows in (X, sparse.csr_matrix(X)):
        assert KernelOneClassSVM(gamma=1.0).fit(rows).violation_ < 1e-12


def test_repeated_rows_are_no_obstacle():
    X, y = make_classes(2, 20)
    X, y = np.vstack([X, X]), np.where(np.tile(y, 2) == 0, -1.0, 1.0)
    K = formulas.linear(X)
    upper = np.full(80, 0.3)
    result = solve_binary(K, y, upper)
    assert result.violation < 1e-10
    assert svm_dual.duality_gap(K, y, upper, result.coef, result.intercept) < 1e-9


@pytest.mark.parametrize("max_iter", [0, 3])
def test_moves_are_limited(max_iter):
    X, y = make_classes(2, 30)
    y = np.where(y == 0, -1.0, 1.0)
    result = solve_binary(formulas.rbf(X, gamma=0.5), y, np.ones(60), Budget(max_iter=max_iter))
    assert result.n_iter == max_iter
    assert result.stop_reason == "max_iter"


def test_time_is_limited_between_calls(monkeypatch):
    monkeypatch.setattr(active_set, "MOVES_PER_ROW", 1)
    X, y = make_classes(2, 30)
    y = np.where(y == 0, -1.0, 1.0)
    K, upper = formulas.linear(X), np.full(60, 100.0)
    result = solve_binary(K, y, upper, Budget(deadline=0.0))
    assert (result.n_iter, result.stop_reason) == (60, "max_time")


@pytest.mark.parametrize("intercept", [True, False])
def test_huge_kernel_values_do_not_take_forever(intercept):
    """Where pairs would make millions of moves: columns far from zero, a cubic kernel."""
    X, y = make_classes(2, 15, n_features=2)
    K = ((X + 100.0) @ (X + 100.0).T / 2.0) ** 3
    y, upper = np.where(y == 0, -1.0, 1.0), np.ones(30)
    result = solve_binary(K, y, upper, intercept=intercept)
    assert result.stop_reason in ("converged", "stalled")
    assert result.objective < 0
    assert (y * result.coef >= 0).all()
    assert (y * result.coef <= upper).all()


@pytest.mark.parametrize("shared", [True, False])
def test_solutions_come_in_order_whichever_way_problems_are_solved(shared, monkeypatch):
    """Small and large problems mixed, with one kernel matrix for the small ones or one each."""
    if not shared:
        monkeypatch.setattr(small, "SHARED_ROWS", 0)
    X, y = make_classes(2, 160)
    y, kernel = np.where(y == 0, -1.0, 1.0), RBF(0.3)
    indices = [np.arange(320), np.arange(140, 180), np.arange(10, 310), np.arange(150, 175)]
    duals = [
        classification_dual(index, y[index], np.ones(len(index)), intercept=True)
        for index in indices
    ]
    heard = []
    results = solve_exactly(
        kernel, X, kernel.prepare(X), duals, Workers(1, None), budget=Budget(1e-4),
        callback=lambda t, progress: heard.append((t, progress.n_total)),
    )  # fmt: skip
    for index, result in zip(indices, results, strict=True):
        K, upper = formulas.rbf(X[index], gamma=0.3), np.ones(len(index))
        gap = svm_dual.duality_gap(K, y[index], upper, result.coef, result.intercept)
        assert abs(gap) < 1e-3 * abs(result.objective)
    assert {(t, len(index)) for t, index in enumerate(indices)} == set(heard)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_many_classes_vote_as_in_libsvm(make):
    X, y = make_classes(25, 8)
    queries, _ = make_classes(25, 8, seed=1)
    ours = KernelSVC(C=3.0, gamma=0.1).fit(make(X), y)
    theirs = SVC(C=3.0, gamma=0.1, tol=1e-8, decision_function_shape="ovo").fit(X, y)
    assert_array_equal(ours.predict(make(queries)), theirs.predict(queries))
    assert_allclose(np.abs(ours.intercept_), np.abs(theirs.intercept_), atol=1e-6)


def test_long_steps_hold_the_sum():
    """Tiny kernel values and a wide box: along flat directions steps are of the size of the box."""
    rng = np.random.default_rng(0)
    x = 1e-9 * rng.integers(0, 4, 60)[:, None]
    y = np.where(rng.random(60) < 0.5, -1.0, 1.0)
    upper = 10.0 ** rng.uniform(-5, 6, 60)
    result = solve_binary(x @ x.T, y, upper)
    assert abs(result.coef.sum()) <= 1e-12 * np.abs(result.coef).sum()
    assert result.duality_gap >= -1e-9 * upper.sum()


def test_an_error_of_float32_that_is_accepted_leaves_the_float64_finish_out():
    X, y = make_classes(2, 300)
    y = np.where(y == 0, -1.0, 1.0)
    kernel = RBF(0.1)
    dual = classification_dual(np.arange(len(y)), y, np.full(len(y), 1000.0), intercept=True)

    def solve(**options):
        points = kernel.prepare(X)
        return solve_exactly(
            kernel, X, points, [dual], Workers(1, None), budget=Budget(), **options
        )[0]  # fmt: skip

    finished, quick, coarse = solve(), solve(float32_error=0.02), solve(float32_error=1e-6)
    assert finished.violation_error == coarse.violation_error == 0.0
    assert 1e-6 < quick.violation_error < 0.02
    K = formulas.rbf(X, gamma=0.1)
    decisions = [K @ found.coef + found.intercept for found in (finished, quick)]
    assert_allclose(decisions[1], decisions[0], atol=0.02)
