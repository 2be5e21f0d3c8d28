"""Divide and conquer: every level against the theorems it rests on."""

import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.reference import kernels as formulas
from tests.reference import svm_dual as reference
from widemargin import deadline, parallel
from widemargin.budget import Budget
from widemargin.divide import executors as clusters
from widemargin.divide import levels as divide
from widemargin.divide.levels import solve_levels
from widemargin.divide.probe import (
    PROBED_POINTS,
    adapt_plan,
    is_whole_cheaper,
    may_skip_levels,
    share_support,
)
from widemargin.divide.records import Plan, count_levels, find_support
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.several_problems import solve_problems
from widemargin.kernels import RBF, Poly
from widemargin.memory import Buffers

PLAN = Plan(
    n_clusters=3, n_levels=2, stop_level=0, sample_size=80, adaptive=True, refine=True,
    n_jobs=1, seed=0,
)  # fmt: skip
KERNELS = {"rbf": RBF(1.0), "poly": Poly(0.5, 3, 1.0)}
FORMULAS = {
    "rbf": lambda X: formulas.rbf(X, gamma=1.0),
    "poly": lambda X: formulas.poly(X, gamma=0.5, degree=3, coef0=1.0),
}


def draw(n=300, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def levels_of(
    X, y, kernel, *, C=2.0, intercept=False, plan=PLAN, tol=1e-5, callback=None, max_time=None
):
    dual = make_dual(y, C, intercept)
    budget = Budget(tol=tol, deadline=deadline.start_deadline(max_time))
    return list(
        solve_levels(
            kernel, kernel.prepare(X), [dual], plan,
            budget=budget, callback=callback,
        )
    )  # fmt: skip


def make_dual(y, C=1.0, intercept=False, index=None):
    index = np.arange(len(y)) if index is None else index
    return classification_dual(index, y, np.full(len(y), C), intercept=intercept)


def with_plan(**changes):
    return Plan(**{**PLAN.__dict__, **changes})


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_the_last_level_is_the_optimum(name, intercept):
    X, y = draw()
    *_, last = levels_of(X, y, KERNELS[name], intercept=intercept)
    K, upper = FORMULAS[name](X), np.full(len(y), 2.0)
    (result,) = last.solutions
    assert last.record.level == 0
    assert last.partition is None
    assert reference.violation(K, y, upper, result.coef, intercept) < 1e-3
    gap = reference.duality_gap(K, y, upper, result.coef, result.intercept)
    assert gap < 1e-4 * abs(result.objective)


@pytest.mark.parametrize("name", KERNELS)
def test_a_level_is_the_optimum_for_the_kernel_without_values_between_clusters(name):
    """Lemma 1."""
    X, y = draw()
    upper = np.full(len(y), 2.0)
    for level in levels_of(X, y, KERNELS[name])[:-1]:
        same = level.clusters[:, None] == level.clusters[None, :]
        K = np.where(same, FORMULAS[name](X), 0.0)
        (result,) = level.solutions
        assert reference.violation(K, y, upper, result.coef, False) < 1e-3
        assert_allclose(result.objective, reference.objective(K, y, result.coef), rtol=1e-5)
        assert_allclose(level.record.objective, result.objective)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", KERNELS)
def test_distance_to_the_optimum_is_bounded_by_the_kernel_between_clusters(name, seed):
    """Theorem 1, and Theorem 3, which counts support vectors only."""
    X, y = draw(200, seed)
    C = 2.0
    K = FORMULAS[name](X)
    levels = levels_of(X, y, KERNELS[name], C=C)
    best = reference.objective(K, y, levels[-1].solutions[0].coef)
    is_support = levels[-1].solutions[0].coef != 0
    for level in levels[:-1]:
        coef = level.solutions[0].coef
        apart = level.clusters[:, None] != level.clusters[None, :]
        distance = reference.objective(K, y, coef) - best
        assert distance >= -1e-6 * abs(best)
        assert distance <= 0.5 * C**2 * np.abs(K[apart]).sum()
        either = is_support | (coef != 0)
        between = apart & either[:, None] & either[None, :]
        assert distance <= 0.5 * C**2 * np.abs(K[between]).sum() + 1e-9


def draw_apart(gap, n=150):
    """Three clouds of points, ``1.4 gap`` standard deviations from each other."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = np.where(X[:, 2] + 0.3 * X[:, 3] > 0, 1.0, -1.0)
    return X + gap * np.eye(3, 4)[rng.integers(3, size=n)], y


@pytest.mark.parametrize(
    ("gap", "gamma", "n_screened"), [(4.0, 1.0, 0), (5.5, 0.5, 0), (6.0, 1.0, 3), (7.0, 0.5, 3)]
)
def test_solutions_are_near_and_points_are_screened_out(gap, gamma, n_screened):
    """Theorem 1, the bound on the distance of the solutions, and Theorem 2."""
    X, y = draw_apart(gap)
    C = 2.0
    kernel, K = RBF(gamma), formulas.rbf(X, gamma=gamma)
    plan = with_plan(n_levels=1, sample_size=len(y))
    glued, best = levels_of(X, y, kernel, C=C, plan=plan, tol=1e-7)
    apart = glued.clusters[:, None] != glued.clusters[None, :]
    between, smallest = np.abs(K[apart]).sum(), np.linalg.eigvalsh(K)[0]
    (of_clusters,), (optimum,) = glued.solutions, best.solutions
    distance = np.square(optimum.coef - of_clusters.coef).sum()
    assert 0.0 < distance <= C**2 * between / smallest
    # The derivative of the objective with the kernel that is zero between clusters.
    gradient = y * (np.where(apart, 0.0, K) @ of_clusters.coef) - 1.0
    bound = C * between * (1.0 + np.sqrt(len(y) * K.max()) / np.sqrt(smallest * between))
    is_screened = (of_clusters.coef == 0) & (gradient > bound)
    assert np.count_nonzero(is_screened) >= n_screened
    assert not optimum.coef[is_screened].any()


def test_levels_and_records():
    X, y = draw()
    levels = levels_of(X, y, RBF(1.0))
    assert [level.record.level for level in levels] == [2, 1, 0]
    assert [level.record.n_clusters for level in levels] == [9, 3, 1]
    for level in levels:
        record = level.record
        assert record.largest_cluster == np.bincount(level.clusters).max()
        assert record.n_support == np.count_nonzero(level.solutions[0].coef)
        assert record.solving_seconds > 0
        assert level.intercepts.shape == (record.n_clusters, 1)
        assert record.is_complete
    assert levels[0].record.clustering_seconds > 0


def test_adaptive_clustering_samples_support_vectors():
    X, y = draw(600)
    levels = levels_of(X, y, RBF(1.0), plan=with_plan(sample_size=40))
    support = np.flatnonzero(levels[0].solutions[0].coef)
    assert set(levels[1].partition.all_samples()) <= set(support)
    blind = levels_of(X, y, RBF(1.0), plan=with_plan(sample_size=40, adaptive=False))
    assert not set(blind[1].partition.all_samples()) <= set(support)


@pytest.mark.parametrize("refine", [False, True])
def test_each_level_starts_from_the_one_below(refine):
    X, y = draw(1500)
    plan = with_plan(n_clusters=1, refine=refine)
    lowest, *others = levels_of(X, y, RBF(1.0), plan=plan, tol=1e-3)
    assert lowest.solutions[0].n_iter > 500
    for level in others:
        assert level.solutions[0].n_iter == 0


@pytest.mark.parametrize("stop_level", [1, 2])
def test_stopping_early(stop_level):
    X, y = draw()
    levels = levels_of(X, y, RBF(1.0), plan=with_plan(stop_level=stop_level))
    assert [level.record.level for level in levels] == list(range(2, stop_level - 1, -1))


@pytest.mark.parametrize("intercept", [False, True])
def test_clusters_of_one_class(intercept):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)) - 20, rng.normal(size=(60, 2)) + 20])
    y = np.repeat([-1.0, 1.0], 60)
    kernel = RBF(0.1)
    levels = levels_of(X, y, kernel, intercept=intercept, plan=with_plan(n_clusters=2, n_levels=1))
    assert levels[0].record.n_clusters == 2
    if intercept:
        assert not levels[0].solutions[0].coef.any()
        assert sorted(levels[0].intercepts.ravel()) == [-1.0, 1.0]
    else:
        K = np.kron(np.eye(2), np.ones((60, 60))) * formulas.rbf(X, gamma=0.1)
        coef = levels[0].solutions[0].coef
        assert reference.violation(K, y, np.full(120, 2.0), coef, False) < 1e-3
    assert levels[-1].solutions[0].stop_reason == "converged"


def test_multiclass_tasks_share_partitions_and_miss_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + np.repeat([[0, 0], [30, 0], [0, 30]], 30, axis=0)
    pairs = [(0, 1), (0, 2), (1, 2)]
    duals = []
    for a, b in pairs:
        index = np.r_[30 * a : 30 * a + 30, 30 * b : 30 * b + 30]
        duals.append(make_dual(np.repeat([-1.0, 1.0], 30), index=index))
    kernel = RBF(0.1)
    plan = with_plan(n_levels=1, stop_level=1)
    (level,) = solve_levels(kernel, kernel.prepare(X), duals, plan, budget=Budget(tol=1e-4))
    assert len(level.solutions) == 3
    for dual, found in zip(duals, level.solutions, strict=True):
        K = formulas.rbf(X[dual.index], gamma=0.1)
        c = level.clusters[dual.index]
        K = np.where(c[:, None] == c[None, :], K, 0.0)
        assert reference.violation(K, dual.labels, np.ones(60), found.coef, False) < 2e-3


def test_out_of_time():
    X, y = draw(400)
    levels = levels_of(X, y, RBF(1.0), max_time=1e-9)
    assert len(levels) == 1
    assert not levels[0].record.is_complete
    assert levels[0].solutions[0].stop_reason == "max_time"


def shift(clock, seconds):
    return lambda: clock() + seconds


def note_seconds(monkeypatch):
    """Return a list that gets the seconds that each call of the solver may take."""
    given, solve = [], divide.solve_problems

    def note(*args, budget, **options):
        given.append(deadline.time_left(budget.deadline))
        return solve(*args, budget=budget, **options)

    monkeypatch.setattr(divide, "solve_problems", note)
    monkeypatch.setattr(clusters, "solve_problems", note)
    return given


def test_no_level_begins_after_the_time_is_up(monkeypatch):
    def skip_an_hour(state):
        if state.n_done == state.n_clusters:
            monkeypatch.setattr(deadline, "perf_counter", shift(time.perf_counter, 3600.0))

    X, y = draw()
    levels = levels_of(X, y, RBF(1.0), max_time=1000.0, callback=skip_an_hour)
    assert [level.record.level for level in levels] == [2]
    assert levels[0].record.is_complete


@pytest.mark.parametrize("jump", [-3600.0, 3600.0], ids=["back", "ahead"])
def test_a_wall_clock_that_is_set_does_not_change_the_time_limit(jump, monkeypatch):
    """A clock set back must not give solvers more time, and one set ahead must not end the fit."""
    wall_clock, given, heard = time.time, note_seconds(monkeypatch), []

    def set_clock(state):
        heard.append(state)
        monkeypatch.setattr(time, "time", shift(wall_clock, jump))

    X, y = draw()
    levels = levels_of(X, y, RBF(1.0), max_time=1000.0, callback=set_clock)
    assert [level.record.level for level in levels] == [2, 1, 0]
    assert len(given) == sum(level.record.n_clusters for level in levels)
    assert all(0.0 < seconds <= 1000.0 for seconds in given)
    assert all(0.0 <= state.seconds < 1000.0 for state in heard)


class OtherMachine:
    """A Dask client whose worker runs jobs at once, on a clock that is an hour ahead."""

    def __init__(self, monkeypatch):
        self.monkeypatch, self.n_running, self.most_running = monkeypatch, 0, 0

    def submit(self, solve, call, **options):
        self.n_running += 1
        self.most_running = max(self.most_running, self.n_running)
        with self.monkeypatch.context() as patch:
            for clock in ("perf_counter", "time"):
                patch.setattr(time, clock, shift(getattr(time, clock), 3600.0))
            patch.setattr(deadline, "perf_counter", time.perf_counter)
            return SimpleNamespace(result=partial(self.finish, solve(call)))

    def finish(self, results, timeout):
        self.n_running -= 1
        return results

    def cancel(self, futures):
        pass


@pytest.mark.parametrize(("max_time", "most_running"), [(1000.0, 2), (None, 6)])
def test_jobs_on_another_machine_have_the_seconds_left(max_time, most_running, monkeypatch):
    pytest.importorskip("dask", reason="needs the extra 'dask'")
    other, given = OtherMachine(monkeypatch), note_seconds(monkeypatch)
    backend = SimpleNamespace(
        client=other, submit_kwargs={}, retrieval_context=nullcontext, wait_for_workers_timeout=0
    )
    X, y = draw()
    budget, kernel = Budget(deadline=deadline.start_deadline(max_time)), RBF(1.0)
    job = clusters.Job(kernel, kernel.prepare(X), [make_dual(y)], budget, 0)
    answers = list(clusters._run_on_dask(iter([lambda: job] * 8), backend, 2, 10**8))
    assert len(answers) == len(given) == 8
    assert all(g is None if max_time is None else 900.0 < g <= max_time for g in given)
    # Jobs that have a time limit are not sent before a worker is free.
    assert other.most_running == most_running


@pytest.mark.parametrize("level", [0, 1])
def test_a_level_that_is_not_finished_in_time_is_left_out(level, monkeypatch):
    def solve(*args, budget, **options):
        late = replace(budget, deadline=0.0 if budget.all_or_nothing else None)
        return solve_problems(*args, budget=late, **options)

    monkeypatch.setattr(divide if level == 0 else clusters, "solve_problems", solve)
    X, y = draw()
    levels = levels_of(X, y, RBF(1.0), max_time=1000.0, plan=with_plan(n_levels=level + 1))
    assert [level.record.level for level in levels] == [level + 1]


@pytest.mark.parametrize(
    ("sizes", "threads"), [([1000, 10, 10, 10, 10, 10], 2), ([100] * 6, 1), ([100] * 3, 2)]
)
def test_threads_take_a_cluster_each_or_share_one_that_dominates(sizes, threads, monkeypatch):
    asked = []

    def note(job, cache_bytes, n_threads, *_):
        asked.append(n_threads)
        return job

    def note_alone(workers, job, *_):
        return note(job, 0, workers.n_threads)

    monkeypatch.setattr(clusters, "solve_job", note)
    monkeypatch.setattr(clusters, "solve_with", note_alone)
    makers = [lambda number=number: number for number in range(len(sizes))]
    results = clusters.run_jobs(iter(makers), np.array(sizes), 2, 10**6, Buffers())
    assert list(results) == list(range(len(sizes)))
    assert asked == [threads] * len(sizes)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, 5), ({"n_jobs": 1}, 1), ({"n_jobs": 3}, 3), ({"backend": "threading"}, 5),
        ({"backend": "threading", "n_jobs": 1}, 1), ({"backend": "sequential"}, 1),
    ],
)  # fmt: skip
def test_jobs_are_as_many_as_joblib_is_told_else_as_threads(config, expected, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.setattr(parallel, "cpu_count", lambda: 8)
    with joblib.parallel_config(**config):
        assert clusters.count_local_threads(None) == clusters._count_workers(None) == expected
        assert clusters._count_workers(2) == (1 if config.get("backend") == "sequential" else 2)


@pytest.mark.parametrize("omp", [None, "2"])
def test_jobs_within_a_job_take_the_cores_they_are_given(omp, monkeypatch):
    monkeypatch.setattr(parallel, "cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if omp:
        monkeypatch.setenv("OMP_NUM_THREADS", omp)
    both = joblib.Parallel(2, backend="threading")
    expected = int(omp or 1)
    assert both([joblib.delayed(clusters.count_local_threads)(None)] * 2) == [expected] * 2


def test_callback_hears_of_every_cluster_and_of_the_whole_problem():
    X, y = draw(400)
    heard = []
    levels = levels_of(X, y, RBF(1.0), callback=heard.append)
    for level in levels[:-1]:
        mine = [h for h in heard if h.level == level.record.level]
        assert [h.n_done for h in mine] == list(range(1, level.record.n_clusters + 1))
        assert_allclose(mine[-1].objective, level.record.objective)
        assert mine[-1].n_support == level.record.n_support
        assert mine[-1].seconds_left == 0
    *rounds, last = [h for h in heard if h.level == 0]
    assert rounds
    assert all(h.n_done == 0 and h.violation is not None for h in rounds)
    assert (last.n_done, last.violation) == (1, None)
    assert last.n_support == levels[-1].record.n_support
    assert_allclose(last.objective, levels[-1].record.objective)


def test_the_largest_clusters_are_solved_first(monkeypatch):
    made = []

    def note(job, *more):
        made.append(len(job.points))
        return solve_job(job, *more)

    solve_job = clusters.solve_job
    monkeypatch.setattr(clusters, "solve_job", note)
    X, y = draw(400)
    levels = levels_of(X, y, RBF(1.0), plan=with_plan(n_jobs=1))
    sizes = [np.bincount(level.clusters) for level in levels[:-1]]
    assert made == [size for level in sizes for size in sorted(level, reverse=True)]
    assert max(sizes[0]) > min(sizes[0])


def test_callback_counts_points_of_several_problems_once():
    X, y = draw(300)
    duals = [make_dual(sign * y) for sign in (1.0, -1.0)]
    kernel, heard = RBF(1.0), []
    levels = list(
        solve_levels(
            kernel, kernel.prepare(X), duals, PLAN, budget=Budget(), callback=heard.append
        )
    )  # fmt: skip
    for level in levels:
        mine = [h for h in heard if h.level == level.record.level]
        assert mine[-1].n_support == level.record.n_support <= 300
        assert max(h.n_support for h in mine) <= 300


def test_answers_do_not_depend_on_the_number_of_jobs():
    X, y = draw(1500)
    plan = with_plan(n_clusters=4, n_levels=2, stop_level=1)
    alone = levels_of(X, y, RBF(1.0), tol=1e-3, plan=plan)
    for n_jobs in (2, 3):
        several = levels_of(
            X, y, RBF(1.0), tol=1e-3, plan=Plan(**{**plan.__dict__, "n_jobs": n_jobs})
        )
        for a, b in zip(alone, several, strict=True):
            assert_array_equal(a.clusters, b.clusters)
            assert_array_equal(a.solutions[0].coef, b.solutions[0].coef)


@pytest.mark.parametrize(("noise", "expected"), [(0.0, True), (3.0, False)])
def test_a_problem_is_easy_if_samples_have_few_support_vectors(noise, expected):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = np.where(X[:, 0] + noise * rng.normal(size=3000) > 0, 1.0, -1.0)
    kernel = RBF(0.5)
    plan = adapt_plan(kernel, kernel.prepare(X), [make_dual(y)], PLAN, None)
    assert (plan.n_levels == 0) is expected


def test_the_share_of_support_vectors_is_a_mean_over_problems():
    assert share_support([np.array([0.0, 1.0]), np.array([0.0, 0.0, 0.0, -2.0])]) == 0.375


@pytest.mark.parametrize(
    ("changes", "n", "expected"),
    [
        ({}, PROBED_POINTS, True), ({}, PROBED_POINTS - 1, False),
        ({"stop_level": 1}, PROBED_POINTS, True), ({"n_levels": 0}, PROBED_POINTS, False),
    ],
)  # fmt: skip
def test_levels_of_many_points_may_be_skipped(changes, n, expected):
    assert may_skip_levels(with_plan(**changes), n) is expected


@pytest.mark.parametrize(
    ("share", "sizes", "expected"),
    [
        (0.25, [50_000], False), (0.02, [200_000], True), (0.96, [464_810], False),
        (0.5, [1150] * 325, True), (0.2, [12_000] * 45, False),
    ],
    ids=["ijcnn1", "few support vectors", "covtype", "26 classes", "mnist"],
)  # fmt: skip
def test_the_whole_problem_is_cheaper_for_few_support_vectors_or_many_classes(
    share, sizes, expected
):
    plan = with_plan(
        n_clusters=4, n_levels=3, stop_level=3, sample_size=1000, background=5000, overlap=0.5
    )
    n = max(sizes) if len(sizes) == 1 else 15_000 if len(sizes) == 325 else 60_000
    assert is_whole_cheaper(share, sizes, n, plan) is expected


@pytest.mark.parametrize(
    ("n", "n_clusters", "n_levels", "expected"),
    [
        (199, 4, 4, 0),
        (200, 4, 4, 1),
        (3200, 4, 9, 3),
        (3200, 4, 2, 2),
        (50, 1, 3, 3),
        (49, 1, 3, 0),
    ],
)
def test_levels_have_clusters_of_fifty_points_on_average(n, n_clusters, n_levels, expected):
    assert count_levels(n, n_clusters, n_levels) == expected


def test_a_support_vector_of_any_problem_counts_once():
    duals = [make_dual(np.ones(3), index=np.array(index)) for index in ([0, 2, 4], [2, 3, 4])]
    coefs = [np.array([1.0, 0.0, -1.0]), np.array([0.0, 0.5, 0.5])]
    assert_array_equal(find_support(duals, coefs, 6), [0, 3, 4])
