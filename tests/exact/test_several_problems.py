"""Several problems at once: the same answers however they are shared out, and a clean end."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from widemargin.budget import Budget
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.several_problems import solve_problems
from widemargin.kernels import RBF
from widemargin.parallel import open_workers

KERNEL = RBF(0.5)


def draw_problems(n_problems, n=400, size=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    indices = [np.sort(rng.choice(n, size, replace=False)) for _ in range(n_problems)]
    return X, [
        classification_dual(index, y[index], np.full(size, 2.0), intercept=True)
        for index in indices
    ]


def solve(X, problems, n_threads, **kwargs):
    with open_workers(n_threads) as workers:
        return solve_problems(
            KERNEL, KERNEL.prepare(X), problems, workers, **{"budget": Budget(), **kwargs}
        )


@pytest.mark.parametrize("n_problems", [1, 3, 9])
def test_answers_do_not_depend_on_the_number_of_threads(n_problems):
    X, problems = draw_problems(n_problems)
    alone, shared = solve(X, problems, 1), solve(X, problems, 2)
    assert len(alone) == len(shared) == n_problems
    for a, b in zip(alone, shared, strict=True):
        assert a.stop_reason == "converged"
        assert_array_equal(a.coef, b.coef)


def test_problems_begin_where_they_are_told():
    X, problems = draw_problems(6)
    cold = solve(X, problems, 2)
    warm = [replace(p, start=found.coef) for p, found in zip(problems, cold, strict=True)]
    assert all(result.n_iter == 0 for result in solve(X, warm, 2))


def test_many_problems_run_side_by_side_and_report_one_at_a_time():
    X, problems = draw_problems(12)
    threads, reported, inside = set(), set(), threading.Lock()

    def callback(t, _):
        assert inside.acquire(blocking=False)
        threads.add(threading.get_ident())
        reported.add(t)
        time.sleep(0.002)
        inside.release()

    solve(X, problems, 2, callback=callback)
    assert reported == set(range(12))
    assert len(threads) == 2


def test_an_error_in_one_problem_ends_the_others():
    X, problems = draw_problems(200)
    calls = []

    def callback(t, _):
        calls.append(t)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        solve(X, problems, 2, callback=callback)
    assert len(calls) <= 8 * 2


def test_time_limit_is_for_all_problems_together():
    X, problems = draw_problems(12)
    results = solve(X, problems, 2, budget=Budget(tol=1e-9, deadline=0.0))
    assert {result.stop_reason for result in results} == {"max_time"}
