"""Several problems at once: the same answers however they are shared out, and a clean end."""

import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from widemargin.exact.sampled_descent import Limits
from widemargin.exact.several_problems import Task, solve_tasks
from widemargin.kernels import RBF
from widemargin.parallel import open_workers

KERNEL = RBF(0.5)


def draw_tasks(n_tasks, n=400, size=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    indices = [np.sort(rng.choice(n, size, replace=False)) for _ in range(n_tasks)]
    return X, [Task(index, y[index], np.full(size, 2.0)) for index in indices]


def solve(X, tasks, n_threads, **kwargs):
    with open_workers(n_threads) as workers:
        return solve_tasks(
            KERNEL, KERNEL.prepare(X), tasks, workers, intercept=True,
            **{"limits": Limits(), **kwargs},
        )  # fmt: skip


@pytest.mark.parametrize("n_tasks", [1, 3, 9])
def test_answers_do_not_depend_on_the_number_of_threads(n_tasks):
    X, tasks = draw_tasks(n_tasks)
    alone, shared = solve(X, tasks, 1), solve(X, tasks, 2)
    assert len(alone) == len(shared) == n_tasks
    for a, b in zip(alone, shared, strict=True):
        assert a.stop_reason == "converged"
        assert_array_equal(a.coef, b.coef)


def test_tasks_begin_where_they_are_told():
    X, tasks = draw_tasks(6)
    cold = solve(X, tasks, 2)
    warm = [Task(t.index, t.y, t.upper, r.coef) for t, r in zip(tasks, cold, strict=True)]
    assert all(result.n_iter == 0 for result in solve(X, warm, 2))


def test_many_problems_run_side_by_side_and_report_one_at_a_time():
    X, tasks = draw_tasks(12)
    threads, reported, inside = set(), set(), threading.Lock()

    def callback(t, _):
        assert inside.acquire(blocking=False)
        threads.add(threading.get_ident())
        reported.add(t)
        time.sleep(0.002)
        inside.release()

    solve(X, tasks, 2, callback=callback)
    assert reported == set(range(12))
    assert len(threads) == 2


def test_an_error_in_one_problem_ends_the_others():
    X, tasks = draw_tasks(200)
    calls = []

    def callback(t, _):
        calls.append(t)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        solve(X, tasks, 2, callback=callback)
    assert len(calls) <= 8 * 2


def test_time_limit_is_for_all_problems_together():
    X, tasks = draw_tasks(12)
    results = solve(X, tasks, 2, limits=Limits(tol=1e-9, max_time=1e-9))
    assert {result.stop_reason for result in results} == {"max_time"}
