"""The exact solver against brute force, LIBSVM and the optimality conditions."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.svm import SVC

from tests.reference import kernels as formulas
from tests.reference import svm_dual
from widemargin.budget import Budget
from widemargin.deadline import start_deadline
from widemargin.exact import descent_state as box_qp
from widemargin.exact.active_set import solve_small
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.float64_finish import ExactMatrix, finish_in_float64
from widemargin.exact.kernel_matrix import CachedGram, Gram
from widemargin.exact.sampled_descent import solve_box_qp
from widemargin.kernels import RBF, CallableKernel, Linear, Poly, Precomputed
from widemargin.parallel import Workers, WorkInterruptedError, open_workers

ALONE = Workers(1, None)
BOTH_DUALS = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "none"])
#: No problem here needs so many rounds; more mean that the solver does not stop.
MAX_ROUNDS = 2000


def noisy_problem(n, d=3, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + noise * rng.normal(size=n) > 0, 1.0, -1.0)


@cache
def radial_matrix(n, d=3):
    """Kernel matrix of `noisy_problem` with gamma = 0.5."""
    return formulas.rbf(noisy_problem(n, d)[0], gamma=0.5)


def refuse_to_hang(rounds=MAX_ROUNDS):
    """Callback that fails a test which would not end."""
    left = iter(range(rounds))

    def listen(progress):
        assert next(left, None) is not None, f"no end after {rounds} rounds: {progress}"

    return listen


def make_dual(y, upper, intercept, start=None):
    upper = np.broadcast_to(np.asarray(upper, float), y.shape).copy()
    return classification_dual(np.arange(len(y)), y, upper, intercept=intercept, start=start)


def solve(X, y, upper, kernel, *, intercept, start=None, seed=0, callback=None, **budget):
    gram = Gram(kernel, kernel.prepare(X), ALONE)
    return solve_box_qp(
        gram, make_dual(y, upper, intercept, start), Budget(**budget), seed=seed,
        callback=callback or refuse_to_hang(),
    )  # fmt: skip


def assert_feasible(result, y, upper, intercept):
    alpha = y * result.coef
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    if intercept:
        assert abs(result.coef.sum()) <= 1e-10 * max(alpha.sum(), 1e-300)


def rounding(K, coef):
    """What float32 kernel values may change in a gradient."""
    return 1e-6 * np.abs(K).max() * np.abs(coef).sum()


def assert_optimal(result, K, y, upper, intercept, tol):
    """Feasible, and the optimality conditions and the gap hold in float64, as ``tol`` promises."""
    upper = np.broadcast_to(np.asarray(upper, float), y.shape)
    assert_feasible(result, y, upper, intercept)
    slack = tol + rounding(K, result.coef)
    assert svm_dual.violation(K, y, upper, result.coef, intercept) <= slack
    gap = svm_dual.duality_gap(K, y, upper, result.coef, result.intercept)
    assert -1e-9 * upper.sum() <= gap <= slack * upper.sum()


def relative_excess(K, y, coef, optimum):
    """Objective of ``coef`` above that of ``optimum``, both in float64."""
    best = svm_dual.objective(K, y, optimum)
    return (svm_dual.objective(K, y, coef) - best) / abs(best)


def solve_by_libsvm(K, y, upper, tol=1e-6):
    """Signed dual variables and decisions of scikit-learn's SVC."""
    model = SVC(kernel="precomputed", C=1.0, tol=tol).fit(K, y, sample_weight=upper)
    coef = np.zeros(len(y))
    coef[model.support_] = model.dual_coef_[0]
    return coef, model.decision_function(K)


def seen_rounds(X, y, **options):
    """Result and the progress records of a run."""
    records = []
    return solve(X, y, callback=records.append, **options), records


# Brute force


@BOTH_DUALS
@pytest.mark.parametrize("seed", range(4))
def test_reference_methods_agree(seed, intercept):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(6, 2)), np.array([1.0, -1, 1, -1, -1, 1])
    K, upper = formulas.rbf(X, gamma=0.5), rng.uniform(0.2, 3.0, 6)
    faces = svm_dual.enumerate_faces(K, y, upper, intercept)
    assert_allclose(svm_dual.solve(K, y, upper, intercept), faces, rtol=0, atol=1e-7)
    assert svm_dual.violation(K, y, upper, faces, intercept) < 1e-8


@BOTH_DUALS
@pytest.mark.parametrize("seed", range(6))
def test_equals_enumeration_of_faces(seed, intercept):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(6, 2)), np.where(rng.permutation(6) < 2 + seed % 3, 1.0, -1.0)
    upper = rng.uniform(0.1, 4.0, 6)
    K = formulas.rbf(X, gamma=0.5)
    optimum = svm_dual.enumerate_faces(K, y, upper, intercept)
    result = solve(X, y, upper, RBF(0.5), intercept=intercept, tol=1e-6)
    assert result.stop_reason == "converged"
    assert_allclose(result.coef, optimum, rtol=0, atol=1e-4 * upper.max())
    assert relative_excess(K, y, result.coef, optimum) < 1e-6


@BOTH_DUALS
@pytest.mark.parametrize("kernel", [Linear(), Poly(0.5, 2, 1.0)], ids=lambda k: k.name)
def test_equals_enumeration_of_faces_when_the_matrix_is_singular(kernel, intercept):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 1)), np.array([1.0, -1, 1, 1, -1, 1])
    K = kernel.exact(X, X)
    optimum = svm_dual.enumerate_faces(K, y, np.ones(6), intercept)
    result = solve(X, y, 1.0, kernel, intercept=intercept, tol=1e-6)
    assert abs(relative_excess(K, y, result.coef, optimum)) < 1e-6
    assert_allclose(K @ result.coef, K @ optimum, rtol=0, atol=1e-4)


@BOTH_DUALS
@pytest.mark.parametrize("C", [0.05, 1.0, 50.0])
def test_equals_bounded_least_squares(C, intercept):
    X, y = noisy_problem(40)
    upper = C * np.random.default_rng(1).uniform(0.2, 2.0, 40)
    K = formulas.rbf(X, gamma=0.5)
    optimum = svm_dual.solve(K, y, upper, intercept)
    result = solve(X, y, upper, RBF(0.5), intercept=intercept, tol=1e-6)
    assert relative_excess(K, y, result.coef, optimum) < 1e-6
    assert_allclose(K @ result.coef, K @ optimum, rtol=0, atol=1e-3)


# LIBSVM


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (RBF(0.5), lambda X: formulas.rbf(X, gamma=0.5)),
        (Linear(), formulas.linear),
        (Poly(0.2, 3, 1.0), lambda X: formulas.poly(X, gamma=0.2, degree=3, coef0=1.0)),
    ],
    ids=["rbf", "linear", "poly"],
)
def test_equals_libsvm(kernel, formula, C):
    X, y = noisy_problem(150)
    K, upper = formula(X), np.full(150, C)
    theirs, decisions = solve_by_libsvm(K, y, upper)
    result = solve(X, y, C, kernel, intercept=True, tol=1e-6)
    assert_feasible(result, y, C, intercept=True)
    assert abs(relative_excess(K, y, result.coef, theirs)) < 1e-6
    assert_allclose(K @ result.coef + result.intercept, decisions, rtol=0, atol=1e-3)


def test_equals_libsvm_with_a_bound_for_each_sample():
    X, y = noisy_problem(150, seed=1)
    K, upper = formulas.rbf(X, gamma=0.5), np.random.default_rng(2).uniform(0.01, 5.0, 150)
    theirs, decisions = solve_by_libsvm(K, y, upper)
    result = solve(X, y, upper, RBF(0.5), intercept=True, tol=1e-6)
    assert_feasible(result, y, upper, intercept=True)
    assert abs(relative_excess(K, y, result.coef, theirs)) < 1e-6
    assert_allclose(K @ result.coef + result.intercept, decisions, rtol=0, atol=1e-3)


# What the result says about itself


@BOTH_DUALS
@pytest.mark.parametrize("seed", [4, 5, 9])
def test_no_coefficient_leaves_its_bounds(seed, intercept):
    """Bounds of many digits: adding a step to a coefficient rounds."""
    X, y = noisy_problem(700, seed=seed)
    upper = np.random.default_rng(seed).uniform(0.5, 2.0, 700)
    result = solve(X, y, upper, RBF(0.1), intercept=intercept)
    assert_feasible(result, y, upper, intercept)


@BOTH_DUALS
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5])
def test_optimality_conditions_hold_at_the_stop(tol, intercept):
    X, y = noisy_problem(700)
    result = solve(X, y, 1.0, RBF(0.5), intercept=intercept, tol=tol)
    assert result.stop_reason == "converged"
    assert result.violation < tol
    assert_optimal(result, formulas.rbf(X, gamma=0.5), y, 1.0, intercept, tol)


@BOTH_DUALS
@pytest.mark.parametrize("limits", [{"tol": 1e-2}, {"tol": 1e-4}, {"max_iter": 40}], ids=str)
def test_result_describes_its_coefficients(limits, intercept):
    X, y = noisy_problem(300)
    K, upper = formulas.rbf(X, gamma=0.5), np.random.default_rng(0).uniform(0.5, 3.0, 300)
    result = solve(X, y, upper, RBF(0.5), intercept=intercept, **limits)
    coef = result.coef
    gap = svm_dual.duality_gap(K, y, upper, coef, result.intercept)
    violation = svm_dual.violation(K, y, upper, coef, intercept)
    assert_allclose(result.gradient, K @ coef - y, rtol=0, atol=rounding(K, coef))
    assert_allclose(result.objective, svm_dual.objective(K, y, coef), rtol=1e-6)
    assert_allclose(result.duality_gap, gap, rtol=0, atol=1e-6 * abs(result.objective))
    assert_allclose(result.violation, violation, rtol=0, atol=rounding(K, coef))
    assert intercept or result.intercept == 0.0


@BOTH_DUALS
def test_gap_shrinks_with_the_tolerance(intercept):
    X, y = noisy_problem(300)
    gaps = [
        solve(X, y, 1.0, RBF(0.5), intercept=intercept, tol=tol).duality_gap
        for tol in (1e-1, 1e-3, 1e-5)
    ]
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]


# Warm start


@BOTH_DUALS
@pytest.mark.parametrize("n", [300, 3100])
def test_start_at_the_optimum_needs_nearly_no_moves(n, intercept):
    X, y = noisy_problem(n)
    cold = solve(X, y, 1.0, RBF(0.5), intercept=intercept, tol=1e-4)
    warm = solve(X, y, 1.0, RBF(0.5), intercept=intercept, tol=1e-4, start=cold.coef)
    assert warm.stop_reason == "converged"
    assert warm.n_iter <= 0.02 * cold.n_iter
    assert_allclose(warm.objective, cold.objective, rtol=1e-7)


@BOTH_DUALS
def test_a_start_near_the_optimum_takes_in_few_of_its_free_variables(intercept):
    X, y = noisy_problem(4000)
    cold = solve(X, y, 10.0, RBF(50.0), intercept=intercept, tol=1e-3)
    n_free = np.count_nonzero((cold.coef != 0) & (np.abs(cold.coef) < 10.0))
    assert n_free > 3000
    start, members = cold.coef.copy(), []
    start[:10] *= 0.5
    warm = solve(
        X, y, 10.0, RBF(50.0), intercept=intercept, tol=1e-3, start=start,
        callback=lambda progress: members.append(progress.n_working),
    )  # fmt: skip
    assert warm.stop_reason == "converged"
    assert_allclose(warm.objective, cold.objective, rtol=1e-5)
    assert max(members) < (2000 if intercept else 1000)


@BOTH_DUALS
@pytest.mark.parametrize("kind", ["zeros", "random", "wrong-signs", "too-large", "one-class"])
def test_any_start_ends_at_the_same_optimum(kind, intercept):
    X, y = noisy_problem(300)
    start = {
        "zeros": np.zeros(300),
        "random": np.random.default_rng(0).normal(size=300),
        "wrong-signs": -y,
        "too-large": 50.0 * y,
        "one-class": np.maximum(y, 0.0),
    }[kind]
    kept = start.copy()
    cold = solve(X, y, 1.0, RBF(0.5), intercept=intercept, tol=1e-5)
    warm = solve(X, y, 1.0, RBF(0.5), intercept=intercept, tol=1e-5, start=start)
    assert_optimal(warm, formulas.rbf(X, gamma=0.5), y, 1.0, intercept, 1e-5)
    assert_allclose(warm.objective, cold.objective, rtol=1e-6)
    assert_array_equal(start, kept)


@BOTH_DUALS
def test_solution_starts_a_problem_with_twice_the_bound(intercept):
    X, y = noisy_problem(300)
    half = solve(X, y, 1.0, RBF(0.5), intercept=intercept, tol=1e-5)
    cold = solve(X, y, 2.0, RBF(0.5), intercept=intercept, tol=1e-5)
    warm = solve(X, y, 2.0, RBF(0.5), intercept=intercept, tol=1e-5, start=half.coef)
    assert_allclose(warm.objective, cold.objective, rtol=1e-6)
    assert warm.objective < 1.01 * half.objective


# Memory


@BOTH_DUALS
@pytest.mark.parametrize("C", [1.0, 50.0])
@pytest.mark.parametrize("n_members", [2, 6, 50])
def test_small_working_set_finds_the_same_optimum(n_members, C, intercept):
    X, y = noisy_problem(120)
    cache_bytes = 4 * n_members**2
    result = solve(
        X, y, C, RBF(0.5), intercept=intercept, tol=1e-3, cache_bytes=cache_bytes,
        callback=refuse_to_hang(200_000),
    )  # fmt: skip
    K = formulas.rbf(X, gamma=0.5)
    assert result.stop_reason == "converged"
    assert_optimal(result, K, y, C, intercept, 1e-3)
    free = solve(X, y, C, RBF(0.5), intercept=intercept, tol=1e-3)
    assert_allclose(result.objective, free.objective, rtol=1e-3)


@BOTH_DUALS
def test_working_set_smaller_than_the_free_variables(intercept):
    X, y = noisy_problem(3100, d=2)
    result, rounds = seen_rounds(
        X, y, upper=10.0, kernel=RBF(2.0), intercept=intercept, tol=1e-2, cache_bytes=4 * 100**2
    )
    assert max(r.n_working for r in rounds) <= 100
    assert result.stop_reason == "converged"
    free = solve(X, y, 10.0, RBF(2.0), intercept=intercept, tol=1e-2)
    assert_allclose(result.objective, free.objective, rtol=1e-3)


@BOTH_DUALS
def test_rows_from_a_cache_give_the_same_answer(intercept):
    X, y = noisy_problem(900, d=2)
    kernel = RBF(2.0)
    gram = CachedGram(kernel, kernel.prepare(X), ALONE, max_bytes=4 * 900 * 20)
    plain = solve(X, y, 1.0, kernel, intercept=intercept, tol=1e-4)
    cached = solve_box_qp(gram, make_dual(y, 1.0, intercept), Budget(tol=1e-4))
    assert_allclose(cached.objective, plain.objective, rtol=1e-6)


# Limits and callbacks


@BOTH_DUALS
@pytest.mark.parametrize("n", [200, 3100])
@pytest.mark.parametrize("max_iter", [0, 1, 30])
def test_stop_after_a_number_of_moves(max_iter, n, intercept):
    X, y = noisy_problem(n)
    result = solve(X, y, 1.0, RBF(0.5), intercept=intercept, max_iter=max_iter)
    assert result.stop_reason == "max_iter"
    assert result.n_iter == max_iter
    assert np.count_nonzero(result.coef) <= 2 * max_iter
    assert_feasible(result, y, 1.0, intercept)
    expected = radial_matrix(n) @ result.coef - y
    assert_allclose(result.gradient, expected, rtol=0, atol=1e-4)


@BOTH_DUALS
@pytest.mark.parametrize("n", [200, 3100])
def test_stop_after_a_time(n, intercept):
    X, y = noisy_problem(n)
    result = solve(X, y, 1.0, RBF(0.5), intercept=intercept, tol=1e-6, deadline=0.0)
    assert result.stop_reason == "max_time"
    assert_feasible(result, y, 1.0, intercept)
    expected = radial_matrix(n) @ result.coef - y
    assert_allclose(result.gradient, expected, rtol=0, atol=1e-4)
    assert result.objective < 0


def test_limit_beyond_need_changes_nothing():
    X, y = noisy_problem(200)
    free = solve(X, y, 1.0, RBF(0.5), intercept=True)
    limited = solve(
        X, y, 1.0, RBF(0.5), intercept=True, max_iter=10**6, deadline=start_deadline(1e4)
    )
    assert limited.stop_reason == "converged"
    assert_array_equal(limited.coef, free.coef)


def test_callback_hears_of_every_round():
    X, y = noisy_problem(3100)
    result, rounds = seen_rounds(X, y, upper=1.0, kernel=RBF(0.5), intercept=True)
    moves = [r.n_iter for r in rounds]
    assert moves == sorted(moves)
    assert moves[-1] == result.n_iter
    assert {r.n_total for r in rounds} == {3100}
    assert all(r.n_seen <= 3100 for r in rounds)
    assert rounds[-1].n_support == np.count_nonzero(result.coef)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_exception_in_a_callback_abandons_the_solver(n_threads):
    X, y = noisy_problem(1500)
    calls = []

    def complain(progress):
        calls.append(progress)
        raise InterruptedError("enough")

    kernel = RBF(0.5)
    with open_workers(n_threads) as workers, pytest.raises(InterruptedError, match="enough"):
        solve_box_qp(
            Gram(kernel, kernel.prepare(X), workers), make_dual(y, 1.0, True), Budget(),
            callback=complain,
        )  # fmt: skip
    assert len(calls) == 1


# Thousands of points: samples, widening and resting


@pytest.fixture(scope="module")
def large_problem():
    X, y = noisy_problem(6000, d=5)
    return X, y, np.exp(-0.2 * cdist(X, X, "sqeuclidean"))


@BOTH_DUALS
def test_thousands_of_points(large_problem, intercept):
    X, y, K = large_problem
    result, rounds = seen_rounds(
        X, y, upper=1.0, kernel=RBF(0.2), intercept=intercept, tol=1e-3, cache_bytes=1 << 27
    )
    assert rounds[0].n_seen < rounds[-1].n_seen == 6000
    assert result.stop_reason == "converged"
    assert_optimal(result, K, y, 1.0, intercept, 1e-3)
    assert_allclose(result.gradient, K @ result.coef - y, rtol=0, atol=1e-4)


class RowCountingGram(Gram):
    """Notes how many gradients each update outside the working set visits."""

    def accumulate(self, rows, cols, coef, out):
        self.__dict__.setdefault("visited", []).append(len(rows))
        super().accumulate(rows, cols, coef, out)


@BOTH_DUALS
def test_points_rest_near_the_end(intercept):
    X, y = noisy_problem(1900, d=2)
    kernel = RBF(0.5)
    gram = RowCountingGram(kernel, kernel.prepare(X), ALONE)
    members = []
    result = solve_box_qp(
        gram, make_dual(y, 1.0, intercept), Budget(tol=1e-4),
        callback=lambda progress: members.append(progress.n_working),
    )  # fmt: skip
    active = [rows + size for rows, size in zip(gram.visited, members, strict=False)]
    assert active[0] == 1900
    assert min(active) < 1900
    # What they missed they were told of in the end.
    K = formulas.rbf(X, gamma=0.5)
    assert_allclose(result.gradient, K @ result.coef - y, rtol=0, atol=1e-4)


def test_seed_changes_the_route_and_not_the_answer():
    X, y = noisy_problem(3100)
    a, b = (solve(X, y, 1.0, RBF(0.5), intercept=True, tol=1e-4, seed=seed) for seed in (0, 1))
    assert a.n_iter != b.n_iter
    assert_allclose(a.objective, b.objective, rtol=1e-6)


def test_same_seed_same_result():
    X, y = noisy_problem(3100)
    a, b = (solve(X, y, 1.0, RBF(0.5), intercept=True, seed=3) for _ in range(2))
    assert_array_equal(a.coef, b.coef)


@BOTH_DUALS
@pytest.mark.parametrize("n_positive", [1, 3])
def test_samples_without_the_rare_class(n_positive, intercept):
    X, _ = noisy_problem(3100)
    y = np.where(np.arange(3100) < n_positive, 1.0, -1.0)
    for seed in range(3):
        result = solve(X, y, 1.0, RBF(0.5), intercept=intercept, seed=seed)
        assert_optimal(result, radial_matrix(3100), y, 1.0, intercept, 1e-3)


@BOTH_DUALS
def test_all_of_many_points_end_at_their_bounds(intercept, monkeypatch):
    """A round takes in a few violators, so the largest violation stays for hundreds of rounds."""
    monkeypatch.setattr(box_qp, "MIN_SAMPLE", 20)
    monkeypatch.setattr(box_qp, "MAX_SAMPLE", 20)
    X, _ = noisy_problem(3100)
    y = np.where(np.random.default_rng(1).random(3100) < 0.5, 1.0, -1.0)
    result = solve(X, y, 1e-3, RBF(0.5), intercept=intercept)
    assert result.stop_reason == "converged"
    assert_optimal(result, radial_matrix(3100), y, 1e-3, intercept, 1e-3)


# Degenerate problems


def twins_with_opposite_labels():
    X, y = noisy_problem(60)
    return np.concatenate([X, X]), np.concatenate([y, -y])


def some_twins_with_opposite_labels():
    X, y = noisy_problem(60)
    return np.concatenate([X, X[:10]]), np.concatenate([y, -y[:10]])


def repeated_rows():
    X, y = noisy_problem(20)
    return np.repeat(X, 5, axis=0), np.repeat(y, 5)


def one_positive():
    X, _ = noisy_problem(80)
    return X, np.where(np.arange(80) == 17, 1.0, -1.0)


def two_points():
    return np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -1.0])


def all_rows_equal():
    _, y = noisy_problem(80)
    return np.ones((80, 3)), y


def all_rows_zero():
    _, y = noisy_problem(80)
    return np.zeros((80, 3)), y


def random_labels():
    X, _ = noisy_problem(80)
    return X, np.where(np.random.default_rng(5).random(80) < 0.5, 1.0, -1.0)


@BOTH_DUALS
@pytest.mark.parametrize("C", [1e-6, 1.0, 100.0])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1e6])
@pytest.mark.parametrize(
    "make",
    [twins_with_opposite_labels, some_twins_with_opposite_labels, repeated_rows, one_positive,
     two_points, all_rows_equal, random_labels],
)  # fmt: skip
def test_degenerate_radial_problem(make, gamma, C, intercept):
    X, y = make()
    result = solve(X, y, C, RBF(gamma), intercept=intercept)
    assert result.stop_reason == "converged"
    assert_optimal(result, formulas.rbf(X, gamma=gamma), y, C, intercept, 1e-3)


@BOTH_DUALS
@pytest.mark.parametrize("make", [all_rows_zero, all_rows_equal, repeated_rows, two_points])
def test_degenerate_linear_problem(make, intercept):
    X, y = make()
    result = solve(X, y, 1.0, Linear(), intercept=intercept)
    assert result.stop_reason == "converged"
    assert_optimal(result, formulas.linear(X), y, 1.0, intercept, 1e-3)


@BOTH_DUALS
@pytest.mark.parametrize("make", [random_labels, some_twins_with_opposite_labels])
def test_huge_bound(make, intercept):
    X, y = make()
    K = formulas.rbf(X, gamma=2.0)
    result = solve(X, y, 1e6, RBF(2.0), intercept=intercept)
    assert_feasible(result, y, 1e6, intercept)
    if intercept:
        theirs, _ = solve_by_libsvm(K, y, np.full(len(y), 1e6), tol=1e-5)
        assert abs(relative_excess(K, y, result.coef, theirs)) < 1e-4
    assert_optimal(result, K, y, 1e6, intercept, 1e-3)


@BOTH_DUALS
@pytest.mark.parametrize(
    ("kernel", "n", "C"),
    [
        (RBF(0.5), 100, 1.0),
        (RBF(0.5), 350, 1.0),
        (RBF(0.5), 60, 100.0),
        (Linear(), 100, 1.0),
        (Linear(), 350, 1.0),
        (Linear(), 60, 100.0),
        (Poly(1.0, 3, 1.0), 60, 1.0),
        (Poly(1.0, 3, 1.0), 60, 100.0),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_tolerance_beyond_precision_ends(kernel, n, C, intercept):
    X, y = noisy_problem(n)
    result = solve(X, y, C, kernel, intercept=intercept, tol=1e-12, callback=refuse_to_hang(1000))
    assert result.stop_reason in ("stalled", "converged")
    assert_optimal(result, kernel.exact(X, X), y, C, intercept, 1e-5)


def unscaled_problem(seed):
    """Labels depend on all four features alike, which range up to 1, 10, 100 and 1000."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1.0, 1.0, size=(80, 4))
    y = np.where(Z.sum(axis=1) + 0.3 * rng.normal(size=80) > 0, 1.0, -1.0)
    return Z * [1.0, 10.0, 100.0, 1000.0], y


@BOTH_DUALS
@pytest.mark.parametrize("seed", [0, 1])
def test_linear_kernel_with_unscaled_features(seed, intercept):
    X, y = unscaled_problem(seed)
    K, upper = X @ X.T, np.full(80, 1e-3)
    result = solve(X, y, upper, Linear(), intercept=intercept)
    assert_feasible(result, y, upper, intercept)
    gap = svm_dual.duality_gap(K, y, upper, result.coef, result.intercept)
    assert gap <= 2 * 1e-3 * upper.sum()


@BOTH_DUALS
@pytest.mark.parametrize("seed", [0, 1])
def test_linear_kernel_beyond_the_precision_of_float32(seed, intercept):
    """Kernel values near 1e6 leave no digits for the tolerance; those of float64 do."""
    X, y = unscaled_problem(seed)
    K, upper = X @ X.T, np.ones(80)
    callback = refuse_to_hang(50_000)
    rough = solve(X, y, upper, Linear(), intercept=intercept, callback=callback)
    assert_feasible(rough, y, upper, intercept)
    exact = ExactMatrix(Linear(), X, np.arange(80))
    result = finish_in_float64(exact, make_dual(y, upper, intercept), rough, Budget())
    assert result.stop_reason == "converged"
    assert_feasible(result, y, upper, intercept)
    assert svm_dual.violation(K, y, upper, result.coef, intercept) <= 1.1e-3
    gap = svm_dual.duality_gap(K, y, upper, result.coef, result.intercept)
    assert gap <= 1e-3 * upper.sum()


@BOTH_DUALS
def test_indefinite_kernel_ends_feasible(intercept):
    X, y = noisy_problem(150)
    K = np.tanh(X @ X.T - 1.0)
    result = solve(K, y, 10.0, Precomputed(), intercept=intercept, callback=refuse_to_hang(500))
    assert result.stop_reason in ("stalled", "converged")
    assert_feasible(result, y, 10.0, intercept)
    assert result.objective < 0


@BOTH_DUALS
@pytest.mark.parametrize("max_iter", [0, -1])
def test_callable_kernel(max_iter, intercept):
    """The working set is smaller than the problem, so parts of the matrix are asked for."""
    X, y = noisy_problem(700)

    def kernel(A, B):
        assert len(A) > 0
        assert len(B) > 0
        return A @ B.T

    options = {"intercept": intercept, "max_iter": max_iter}
    ours = solve(X, y, 1.0, CallableKernel(kernel), **options)
    assert_allclose(ours.objective, solve(X, y, 1.0, Linear(), **options).objective, rtol=1e-4)


# The finish of small problems


@BOTH_DUALS
@pytest.mark.parametrize("tol", [1e-1, 1e-3])
@pytest.mark.parametrize("C", [0.05, 1.0, 50.0])
def test_finish_reaches_machine_precision(C, tol, intercept):
    X, y = noisy_problem(40)
    K, upper = formulas.rbf(X, gamma=0.5), C * np.random.default_rng(1).uniform(0.2, 2.0, 40)
    result = solve(X, y, upper, RBF(0.5), intercept=intercept, tol=tol)
    exact = solve_small(K, make_dual(y, upper, intercept, result.coef), Budget(1e-3))
    optimum = svm_dual.solve(K, y, upper, intercept)
    assert_feasible(exact, y, upper, intercept)
    assert abs(relative_excess(K, y, exact.coef, optimum)) < 1e-12
    assert_allclose(exact.objective, svm_dual.objective(K, y, exact.coef), rtol=1e-12)
    assert exact.duality_gap < 1e-9 * upper.sum()


@BOTH_DUALS
@pytest.mark.parametrize("matrix", ["definite", "singular", "indefinite"])
def test_finish_never_raises_the_objective(matrix, intercept):
    X, y = noisy_problem(100)
    K = {
        "definite": formulas.rbf(X, gamma=0.5),
        "singular": formulas.linear(X),
        "indefinite": np.tanh(X @ X.T - 1.0),
    }[matrix]
    result = solve(K, y, 10.0, Precomputed(), intercept=intercept)
    upper = np.full(100, 10.0)
    exact = solve_small(K, make_dual(y, upper, intercept, result.coef), Budget(1e-3))
    assert_feasible(exact, y, 10.0, intercept)
    before = svm_dual.objective(K, y, result.coef)
    assert svm_dual.objective(K, y, exact.coef) <= before + 1e-9 * abs(before)


def test_all_or_nothing_does_not_judge_what_is_not_finished():
    X, y = noisy_problem(300)
    kernel = RBF(0.5)
    gram = Gram(kernel, kernel.prepare(X), ALONE)
    products = []
    gram.accumulate = lambda *product: products.append(product)
    dual = replace(make_dual(y, 1.0, False, 0.5 * y), refine=True)
    result = solve_box_qp(gram, dual, Budget(deadline=0.0, all_or_nothing=True))
    assert result.stop_reason == "max_time"
    assert not products


class CountingGram(Gram):
    """A kernel matrix that counts the values of its products."""

    n_values = 0

    def accumulate(self, rows, cols, coef, out):
        self.n_values += len(rows) * len(cols)
        super().accumulate(rows, cols, coef, out)


@BOTH_DUALS
def test_a_start_whose_gradient_there_is_no_time_for_is_estimated(intercept):
    n = 4000
    X, y = noisy_problem(n)
    rng = np.random.default_rng(0)
    start = y * rng.uniform(0.5, 1.0, n)
    gram = CountingGram(RBF(0.5), RBF(0.5).prepare(X), ALONE)
    dual = make_dual(y, 1.0, intercept, start)
    found = solve_box_qp(gram, dual, Budget(deadline=start_deadline(1e-9)))
    assert found.stop_reason == "max_time"
    assert_array_equal(found.coef, dual.first_point())
    assert gram.n_values < 0.5 * n * n
    # A mean of 256 or more products, whose deviation from the mean of all is known.
    exact = radial_matrix(n) @ found.coef + dual.linear
    size = np.sqrt(np.square(radial_matrix(n) * found.coef).mean(axis=1)) * n / np.sqrt(256)
    deviation = np.abs(found.gradient - exact) / size
    assert deviation.max() < 6.0
    assert np.sqrt(np.square(deviation).mean()) < 1.5


def test_the_gradient_of_a_start_is_exact_if_there_is_time():
    X, y = noisy_problem(2500)
    start = np.where(np.arange(2500) % 5, 0.0, y)
    late = solve(X, y, 1.0, RBF(0.5), intercept=True, start=start, deadline=start_deadline(600.0))
    free = solve(X, y, 1.0, RBF(0.5), intercept=True, start=start)
    assert_array_equal(late.coef, free.coef)


def test_a_round_ends_when_another_thread_has_failed(monkeypatch):
    """Between two compiled calls of one round, not after the round."""
    X, y = noisy_problem(3000)
    others, calls = Workers(2, None), []

    def count(*args):
        calls.append(others.fail())
        return optimise(*args)

    optimise = box_qp.optimise_pairs
    monkeypatch.setattr(box_qp, "optimise_pairs", count)
    monkeypatch.setattr(box_qp, "CALL_ENTRIES", 1000)
    gram = Gram(RBF(0.5), RBF(0.5).prepare(X), others.alone())
    with pytest.raises(WorkInterruptedError):
        solve_box_qp(gram, make_dual(y, 10.0, True), Budget())
    assert len(calls) == 1
