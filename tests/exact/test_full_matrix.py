"""Problems solved on their whole kernel matrix, against the solver with working sets and LIBSVM."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from tests.reference import kernels as formulas
from tests.reference import svm_dual
from widemargin import KernelSVR
from widemargin.budget import Budget
from widemargin.deadline import start_deadline
from widemargin.exact import full_matrix
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.free_newton import move_free
from widemargin.exact.full_matrix import (
    LATE_MOVES,
    SINGLE_ROWS,
    WHOLE_ROWS,
    fits_whole,
    solve_whole,
)
from widemargin.exact.kernel_matrix import CachedGram, Gram
from widemargin.exact.sampled_descent import solve_box_qp
from widemargin.kernels import RBF, Kernel, Linear, Poly, Sigmoid
from widemargin.kernels.summed import SummedKernel
from widemargin.memory import Buffers
from widemargin.parallel import Workers, open_workers

KERNEL = RBF(0.5)
ALONE = Workers(1, None)


def draw(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.5, 5.0, n)


def solve(solver, X, y, upper, *, n_threads=1, kernel=KERNEL, make_gram=Gram, **options):
    budget = Budget(**{"tol": 1e-4, **options.pop("budget", {})})
    dual = make_dual(y, upper, options.pop("intercept"), options.pop("start", None))
    with open_workers(n_threads) as workers:
        gram = make_gram(kernel, kernel.prepare(X), workers)
        return solver(gram, dual, budget, **options)


def make_dual(y, upper, intercept, start=None):
    return classification_dual(np.arange(len(y)), y, upper, intercept=intercept, start=start)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_same_optimum_as_with_working_sets(seed, intercept):
    X, y, upper = draw(seed=seed)
    ours = solve(solve_whole, X, y, upper, intercept=intercept)
    theirs = solve(solve_box_qp, X, y, upper, intercept=intercept)
    K = formulas.rbf(X, gamma=0.5)
    assert ours.stop_reason == "converged"
    assert_allclose(ours.objective, theirs.objective, rtol=1e-6)
    assert_allclose(ours.objective, svm_dual.objective(K, y, ours.coef), rtol=1e-5)
    assert_allclose(ours.intercept, theirs.intercept, atol=1e-3)
    gap = svm_dual.duality_gap(K, y, upper, ours.coef, ours.intercept)
    assert_allclose(ours.duality_gap, gap, atol=1e-5 * upper.sum())
    assert svm_dual.violation(K, y, upper, ours.coef, intercept) < 2e-4


def test_same_decisions_as_libsvm():
    X, y, upper = draw()
    ours = solve(solve_whole, X, y, upper, intercept=True)
    theirs = SVC(gamma=0.5, C=1.0, tol=1e-4).fit(X, y, sample_weight=upper)
    assert_allclose(
        ours.gradient + y + ours.intercept, theirs.decision_function(X), rtol=0, atol=1e-3
    )


def test_threads_and_kept_rows_change_nothing():
    X, y, upper = draw(700)
    one = solve(solve_whole, X, y, upper, intercept=True)
    three = solve(solve_whole, X, y, upper, intercept=True, n_threads=3)
    assert_array_equal(three.coef, one.coef)
    kept = solve(
        solve_whole, X, y, upper, intercept=True,
        make_gram=lambda *args: CachedGram(*args, max_bytes=10**6),
    )  # fmt: skip
    assert_array_equal(kept.coef, one.coef)


@pytest.mark.parametrize("kernel", [KERNEL, Linear(), Poly(0.5, 2, 1.0), Sigmoid(0.1)])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_are_computed_when_a_move_needs_them(kernel, intercept, monkeypatch):
    X, y, upper = draw(333)
    gram = Gram(kernel, kernel.prepare(X), ALONE)
    lazily = solve_whole(gram, make_dual(y, upper, intercept), Budget(tol=1e-4))
    known = gram.whole().is_known
    assert set(np.flatnonzero(lazily.coef)) <= set(np.flatnonzero(known))
    assert np.count_nonzero(known) < len(y)
    monkeypatch.setattr(SummedKernel, "row_source", Kernel.row_source)
    at_once = solve(solve_whole, X, y, upper, kernel=kernel, intercept=intercept)
    assert_allclose(lazily.objective, at_once.objective, rtol=1e-5)
    assert_allclose(lazily.gradient, at_once.gradient, atol=1e-3)


def test_a_start_begins_with_the_rows_of_its_support_vectors():
    X, y, upper = draw()
    found = solve(solve_whole, X, y, upper, intercept=False, budget={"tol": 1e-5})
    gram = Gram(KERNEL, KERNEL.prepare(X), ALONE)
    solve_whole(gram, make_dual(y, upper, False, found.coef), Budget(tol=1e-4))
    assert_array_equal(gram.whole().is_known, found.coef != 0)


@pytest.mark.parametrize("intercept", [True, False])
def test_start_at_the_optimum_needs_no_moves(intercept):
    X, y, upper = draw()
    found = solve(solve_whole, X, y, upper, intercept=intercept, budget={"tol": 1e-5})
    again = solve(solve_whole, X, y, upper, intercept=intercept, start=found.coef)
    assert again.n_iter == 0
    assert again.stop_reason == "converged"


def test_moves_are_limited():
    X, y, upper = draw()
    for max_iter in (0, 1, 10):
        found = solve(solve_whole, X, y, upper, intercept=True, budget={"max_iter": max_iter})
        assert found.n_iter == max_iter
        assert found.stop_reason == "max_iter"


def test_a_few_moves_when_time_is_up():
    X, y, upper = draw()
    found = solve(solve_whole, X, y, upper, intercept=True, budget={"deadline": 0.0, "tol": 1e-9})
    assert 0 < found.n_iter <= len(y)
    assert found.stop_reason == "max_time"


@pytest.mark.parametrize("intercept", [True, False])
def test_points_at_their_bounds_rest_when_moves_become_many(intercept, monkeypatch):
    X, y, upper = draw()
    heard = []
    whole = solve(solve_whole, X, y, upper, intercept=intercept)
    monkeypatch.setattr("widemargin.exact.full_matrix.FIRST_MOVES", 1)
    monkeypatch.setattr("widemargin.exact.full_matrix.ROUND_ENTRIES", 20 * len(y))
    found = solve(solve_whole, X, y, upper, intercept=intercept, callback=heard.append)
    assert heard[0].n_working == len(y)
    assert min(p.n_working for p in heard) < len(y) / 2
    assert [p.n_iter for p in heard] == sorted({p.n_iter for p in heard})
    assert heard[-1].n_iter == found.n_iter
    assert found.stop_reason == "converged"
    assert_allclose(found.objective, whole.objective, rtol=1e-6)
    K = formulas.rbf(X, gamma=0.5)
    assert svm_dual.violation(K, y, upper, found.coef, intercept) < 2e-4


def test_a_tolerance_beyond_precision_ends(monkeypatch):
    monkeypatch.setattr("widemargin.exact.full_matrix.ROUND_ENTRIES", 10**6)
    X, y, upper = draw(100)
    found = solve(solve_whole, X, y, 100.0 * upper, intercept=True, budget={"tol": 1e-18})
    assert found.stop_reason == "stalled"
    assert np.isfinite(found.objective)


def make_gram(n_rows, n_features):
    X = np.random.default_rng(0).normal(size=(n_rows, n_features))
    return Gram(KERNEL, KERNEL.prepare(X), ALONE)


def test_what_fits():
    budget = Budget(cache_bytes=10**8)
    assert fits_whole(make_gram(WHOLE_ROWS, 200), budget)
    assert not fits_whole(make_gram(WHOLE_ROWS + 1, 200), budget)
    assert not fits_whole(make_gram(WHOLE_ROWS, 200), Budget(cache_bytes=10**6))
    assert fits_whole(make_gram(SINGLE_ROWS, 10), budget)
    assert not fits_whole(make_gram(SINGLE_ROWS + 1, 10), budget)


@pytest.mark.parametrize("copy_cost", [0, 10**9])
def test_where_the_members_are_copied_does_not_matter(monkeypatch, copy_cost):
    monkeypatch.setattr("widemargin.exact.full_matrix.COPY_COST", copy_cost)
    X, y, upper = draw(600)
    found = solve(solve_whole, X, y, 100.0 * upper, intercept=True)
    assert found.stop_reason == "converged"
    K = formulas.rbf(X, gamma=0.5)
    assert svm_dual.violation(K, y, 100.0 * upper, found.coef, True) < 5e-3


def test_a_problem_that_comes_too_late_takes_few_moves():
    X, y, upper = draw(1000)
    late = {"deadline": start_deadline(1e-9)}
    found = solve(solve_whole, X, y, upper, intercept=True, budget=late)
    assert found.stop_reason == "max_time"
    assert found.n_iter == LATE_MOVES
    is_right = (found.gradient + y + found.intercept >= 0) == (y > 0)
    assert upper[is_right].sum() >= max(upper[y > 0].sum(), upper[y < 0].sum())


def test_newton_steps_see_no_fresh_memory(monkeypatch):
    """Without epsilon a variable at zero is free too, also if nobody has needed its row before."""
    take, matrices, at_zero = Buffers.take, [], []

    def take_poisoned(self, name, *shape):
        array = take(self, name, *shape)
        array[...] = np.nan
        return array

    def watch(K, problem, gradient, coef, *more):
        matrices.append(K)
        at_zero.append((coef == 0.0).any())
        return move_free(K, problem, gradient, coef, *more)

    monkeypatch.setattr(Buffers, "take", take_poisoned)
    monkeypatch.setattr(full_matrix, "move_free", watch)
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, size=(440, 13)), 2500.0 + 5.0 * rng.normal(size=440)
    KernelSVR(C=1e3, gamma=0.005, epsilon=0.0, tol=1e-6).fit(X, y)
    assert any(at_zero)
    assert all(np.isfinite(K).all() for K in matrices)
