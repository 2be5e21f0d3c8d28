"""Many small problems in one compiled call: the optimum of each, whatever is solved beside it."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

from widemargin import DCSVC
from widemargin.budget import Budget
from widemargin.exact import several_problems
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.interior_point import minimise_interior
from widemargin.exact.problem_batch import PROBLEM_ROWS, Batch, solve_batch
from widemargin.exact.several_problems import solve_problems
from widemargin.exact.solution import judge
from widemargin.kernels import RBF
from widemargin.parallel import Workers, open_workers

KERNEL = RBF(0.3)
ALONE = Workers(1, None)
TOL = 1e-5


def draw_pairs(n_classes=6, n=150, *, intercept=True, seed=0):
    """Points of several overlapping classes, and the one-vs-one problems with different costs."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n_classes, 4))[y] + rng.normal(size=(n, 4))
    cost = rng.uniform(0.5, 5.0, n)
    problems = []
    for a, b in combinations(range(n_classes), 2):
        index = np.flatnonzero((y == a) | (y == b))
        labels = np.where(y[index] == b, 1.0, -1.0)
        problems.append(classification_dual(index, labels, cost[index], intercept=intercept))
    return X, problems


def solve(X, problems, workers=ALONE, report=None, **limits):
    budget = Budget(**{"tol": TOL, **limits})
    return solve_batch(KERNEL, KERNEL.prepare(X), problems, workers, budget, report)


def test_each_problem_has_the_objective_and_intercept_of_libsvm():
    X, problems = draw_pairs()
    solutions = solve(X, problems)
    assert sorted(solutions) == list(range(len(problems)))
    for p, problem in enumerate(problems):
        rows, cost = X[problem.index], problem.upper - problem.lower
        peer = SVC(C=1.0, gamma=0.3, tol=1e-8).fit(rows, problem.labels, sample_weight=cost)
        signed = peer.dual_coef_[0]
        K = KERNEL.exact(peer.support_vectors_, peer.support_vectors_)
        best = 0.5 * signed @ K @ signed - np.abs(signed).sum()
        assert solutions[p].objective == pytest.approx(best, rel=1e-6)
        assert solutions[p].intercept == pytest.approx(peer.intercept_[0], abs=1e-3)


@pytest.mark.parametrize("intercept", [True, False])
def test_each_problem_has_the_optimum_of_an_interior_point_method(intercept):
    X, problems = draw_pairs(intercept=intercept, seed=1)
    solutions = solve(X, problems)
    for p, problem in enumerate(problems):
        K = KERNEL.exact(X[problem.index], X[problem.index])
        best = minimise_interior(K, problem, np.zeros(len(problem)))
        objective = 0.5 * best @ K @ best + problem.linear @ best
        assert solutions[p].objective == pytest.approx(objective, rel=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_figures_are_those_of_the_coefficients(intercept):
    X, problems = draw_pairs(intercept=intercept)
    for p, found in solve(X, problems).items():
        problem = problems[p]
        K = KERNEL.exact(X[problem.index], X[problem.index])
        judged = judge(problem, found.coef, K @ found.coef + problem.linear)
        assert found.violation < TOL
        assert found.stop_reason == "converged"
        assert np.all((found.coef >= problem.lower) & (found.coef <= problem.upper))
        assert not intercept or abs(found.coef.sum()) < 1e-12 * np.abs(found.coef).sum()
        assert_allclose(found.gradient, judged.gradient, atol=1e-5)
        for name in ("objective", "duality_gap", "intercept"):
            assert getattr(found, name) == pytest.approx(getattr(judged, name), abs=2e-4)


def test_answers_depend_neither_on_threads_nor_on_the_problems_beside():
    X, problems = draw_pairs(n_classes=8)
    alone = solve(X, problems)
    with open_workers(2) as workers:
        together = solve(X, problems, workers)
    half = solve(X, problems[:9])
    for p, found in alone.items():
        assert_array_equal(found.coef, together[p].coef)
        if p in half:
            assert_array_equal(found.coef, half[p].coef)


def test_problems_begin_where_they_are_told():
    X, problems = draw_pairs()
    cold = solve(X, problems)
    warm = [replace(problem, start=cold[p].coef) for p, problem in enumerate(problems)]
    assert all(found.n_iter == 0 for found in solve(X, warm).values())


def test_large_and_other_problems_are_left_to_others():
    X, problems = draw_pairs()
    large = np.arange(PROBLEM_ROWS + 1)
    labels = np.where(large % 2, 1.0, -1.0)
    others = [
        classification_dual(large, labels, np.ones(len(large)), intercept=True),
        replace(problems[0], epsilon=0.1),
        replace(problems[0], total=1.0),
        replace(problems[0], total=None),
    ]
    assert sorted(solve(X, [*problems, *others])) == list(range(len(problems)))
    assert solve(X, problems[:1]) == {}
    assert solve(X, []) == {}


def test_limits_leave_problems_to_others():
    X, problems = draw_pairs()
    needed = {p: found.n_iter for p, found in solve(X, problems).items()}
    limit = int(np.median(list(needed.values())))
    solved = solve(X, problems, max_iter=limit)
    assert set(solved) >= {p for p, n_iter in needed.items() if n_iter < limit}
    assert 0 < len(solved) < len(problems)
    assert solve(X, problems, deadline=0.0) == {}
    assert solve(X, problems, cache_bytes=1000) == {}


def test_every_solved_problem_is_reported_once():
    X, problems = draw_pairs()
    seen = []
    solved = solve(X, problems, report=lambda p, progress: seen.append((p, progress)))
    assert [p for p, _ in seen] == list(range(len(problems)))
    for p, progress in seen:
        assert progress.n_iter == solved[p].n_iter
        assert progress.n_support == np.count_nonzero(solved[p].coef)


def test_calls_are_cut_by_rows_and_miss_no_problem():
    _, problems = draw_pairs(n_classes=20, n=400)
    batch = Batch(problems)
    calls = batch.cut_calls(3, len(problems))
    assert calls[0][0] == 3
    assert calls[-1][1] == len(problems)
    assert all(a[1] == b[0] for a, b in pairwise(calls))
    assert len(calls) > 2


@pytest.mark.parametrize("max_iter", [-1, 5])
def test_a_call_solves_batched_and_other_problems(max_iter):
    """Problems that the batch leaves out stop at the limit as they do without it."""
    X, problems = draw_pairs()
    with open_workers(2) as workers:
        found = solve_problems(
            KERNEL, KERNEL.prepare(X), problems, workers, budget=Budget(TOL, max_iter)
        )
    reasons = {solution.stop_reason for solution in found}
    assert reasons == ({"converged"} if max_iter < 0 else {"max_iter"})
    assert all(len(s.coef) == len(p) for s, p in zip(found, problems, strict=True))


def test_levels_of_many_classes_are_solved_in_batches(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 8, 1200)
    X = 1.5 * rng.normal(size=(8, 5))[y] + rng.normal(size=(1200, 5))
    options = {"C": 2.0, "gamma": 0.2, "n_levels": 2, "stop_level": 2, "tol": 1e-6}
    options |= {"skip_levels": False, "background": 0, "overlap": 0.0, "n_nearest": 1}
    batched, solved = DCSVC(n_jobs=1, **options).fit(X, y), []
    monkeypatch.setattr(several_problems, "solve_batch", lambda *args: solved.append(args) or {})
    alone = DCSVC(n_jobs=1, **options).fit(X, y)
    assert solved
    assert_allclose(batched.objective_, alone.objective_, rtol=1e-5)
    assert np.mean(batched.predict(X) == alone.predict(X)) > 0.995
