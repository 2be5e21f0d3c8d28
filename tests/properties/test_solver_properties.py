"""What must not change the answer of the exact solver, on generated problems."""

from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from tests.reference import kernels as formulas
from tests.reference import svm_dual
from widemargin.budget import Budget
from widemargin.exact import descent_state as box_qp
from widemargin.exact import full_matrix as whole
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.kernel_matrix import CachedGram, Gram
from widemargin.exact.sampled_descent import solve_box_qp
from widemargin.kernels import RBF
from widemargin.parallel import Workers, open_workers

TOL = 1e-4
#: Relative difference of objectives that solutions to `TOL` may have.
SAME = 1e-4

few_examples = settings(
    deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@dataclass(frozen=True, repr=False)
class Instance:
    X: np.ndarray
    y: np.ndarray
    upper: np.ndarray
    gamma: float
    intercept: bool

    @property
    def K(self):
        return formulas.rbf(self.X, gamma=self.gamma)


def make_instance(seed, n, d, digits, zeros, noise, threshold, C, gamma, intercept):
    """Make a noisy problem: rounded features repeat, labels may be unbalanced."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).round(digits).astype(np.float32).astype(np.float64)
    X[rng.random((n, d)) < zeros] = 0.0
    y = np.where(X[:, 0] + noise * rng.normal(size=n) > threshold, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return Instance(X, y, C * rng.uniform(0.5, 2.0, n), gamma, intercept)


def instances():
    return st.builds(
        make_instance,
        seed=st.integers(0, 10**6),
        n=st.integers(4, 120),
        d=st.integers(1, 4),
        digits=st.sampled_from([0, 1, 6]),
        zeros=st.sampled_from([0.0, 0.9]),
        noise=st.sampled_from([0.1, 1.0]),
        threshold=st.sampled_from([0.0, 1.0]),
        C=st.sampled_from([0.1, 1.0, 10.0]),
        gamma=st.sampled_from([0.1, 0.5, 3.0]),
        intercept=st.booleans(),
    )


#: Bounds of many digits: a coefficient that should be at its bound rounds to just above it.
ODD_BOUNDS = make_instance(0, 60, 1, 6, 0.0, 1.0, 0.0, 1.0, 0.5, True)
#: Many rounds of a small working set pass without a better violation.
SLOW_TO_IMPROVE = make_instance(0, 84, 2, 1, 0.0, 1.0, 0.0, 10.0, 0.5, False)
#: Nearly all points must move to their bounds, a few in each round.
ALL_AT_BOUNDS = make_instance(0, 82, 2, 0, 0.9, 0.1, 0.0, 0.1, 0.1, False)


@contextmanager
def small_steps(first_sample=8, **constants):
    """Samples and working sets at the scale of the instances."""
    with mock.patch.multiple(box_qp, MIN_SAMPLE=first_sample, MAX_SAMPLE=first_sample, **constants):
        yield


def test_steps_are_small():
    """Guards the tests below: they would prove little on problems solved in one piece."""
    seen = []
    with small_steps():
        solve(SLOW_TO_IMPROVE, callback=lambda progress: seen.append(progress.n_seen))
    assert seen[0] == 8
    assert seen[-1] == 84


def make_dual(instance, start=None):
    y, upper = instance.y, instance.upper
    return classification_dual(
        np.arange(len(y)), y, upper, intercept=instance.intercept, start=start
    )


def solve(
    instance, X=None, n_threads=1, cached_rows=None, start=None, seed=0, callback=None, **budget
):
    kernel = RBF(instance.gamma)
    points = kernel.prepare(instance.X if X is None else X)
    with open_workers(n_threads) as workers:
        if cached_rows is None:
            gram = Gram(kernel, points, workers)
        else:
            gram = CachedGram(kernel, points, workers, 4 * len(points) * cached_rows)
        return solve_box_qp(
            gram, make_dual(instance, start), Budget(**{"tol": TOL, **budget}), seed=seed,
            callback=callback,
        )  # fmt: skip


def solve_at_once(instance, **budget):
    """On the whole matrix, where points may rest after a few moves."""
    kernel = RBF(instance.gamma)
    gram = Gram(kernel, kernel.prepare(instance.X), Workers(1, None))
    with mock.patch.multiple(whole, FIRST_MOVES=1, ROUND_ENTRIES=50 * len(instance.y)):
        return whole.solve_whole(gram, make_dual(instance), Budget(**{"tol": TOL, **budget}))


either_solver = pytest.mark.parametrize("solver", [solve, solve_at_once])


def assert_same_objective(instance, *results):
    K = instance.K
    first, *others = (svm_dual.objective(K, instance.y, r.coef) for r in results)
    for other in others:
        assert_allclose(other, first, rtol=SAME)


@either_solver
@few_examples
@given(instance=instances())
@example(instance=ODD_BOUNDS)
def test_optimality_conditions_hold_at_the_stop(solver, instance):
    with small_steps():
        result = solver(instance)
    K, y, upper = instance.K, instance.y, instance.upper
    assert result.stop_reason == "converged"
    assert (y * result.coef >= 0).all()
    assert (y * result.coef <= upper).all()
    if instance.intercept:
        assert abs(result.coef.sum()) <= 1e-10 * upper.sum()
    slack = TOL + 1e-6 * np.abs(result.coef).sum()
    assert svm_dual.violation(K, y, upper, result.coef, instance.intercept) <= slack
    gap = svm_dual.duality_gap(K, y, upper, result.coef, result.intercept)
    assert -1e-9 * upper.sum() <= gap <= slack * upper.sum()


@either_solver
@few_examples
@given(instance=instances())
def test_objective_never_rises(solver, instance):
    with small_steps():
        results = [solver(instance, max_iter=m) for m in (0, 1, 2, 5, 10, 20, 50, 100, 1000)]
    K = instance.K
    values = np.array([svm_dual.objective(K, instance.y, r.coef) for r in results])
    assert values[0] == 0.0
    assert (np.diff(values) <= 1e-6 * abs(values[-1])).all()


@few_examples
@given(instances(), st.integers(0, 1000))
def test_order_of_rows(instance, seed):
    order = np.random.default_rng(seed).permutation(len(instance.y))
    shuffled = Instance(
        instance.X[order], instance.y[order], instance.upper[order], instance.gamma,
        instance.intercept,
    )  # fmt: skip
    with small_steps():
        a, b = solve(instance), solve(shuffled)
    K = instance.K
    restored = np.empty_like(b.coef)
    restored[order] = b.coef
    ours, theirs = (svm_dual.objective(K, instance.y, coef) for coef in (a.coef, restored))
    assert_allclose(theirs, ours, rtol=SAME)


@few_examples
@given(instances())
def test_swapped_labels(instance):
    swapped = Instance(instance.X, -instance.y, instance.upper, instance.gamma, instance.intercept)
    with small_steps():
        a, b = solve(instance), solve(swapped)
    K = instance.K
    ours, theirs = (svm_dual.objective(K, instance.y, coef) for coef in (a.coef, -b.coef))
    assert_allclose(theirs, ours, rtol=SAME)


@few_examples
@given(instances())
def test_precision_of_the_input(instance):
    with small_steps():
        assert_same_objective(
            instance, solve(instance), solve(instance, instance.X.astype(np.float32))
        )


@few_examples
@given(instances())
def test_dense_or_sparse_input(instance):
    with small_steps():
        assert_same_objective(
            instance, solve(instance), solve(instance, sparse.csr_matrix(instance.X))
        )


@few_examples
@given(instances())
def test_number_of_threads(instance):
    with small_steps():
        assert_same_objective(instance, solve(instance), solve(instance, n_threads=3))


@few_examples
@given(instances(), st.sampled_from([4, 10, 30]))
@example(SLOW_TO_IMPROVE, 4)
def test_size_of_the_working_set(instance, n_members):
    with small_steps():
        small = solve(instance, cache_bytes=4 * n_members**2)
        assert_same_objective(instance, solve(instance), small)


@few_examples
@given(instances(), st.sampled_from([1, 3, 20]))
def test_size_of_the_row_cache(instance, cached_rows):
    with small_steps():
        assert_same_objective(instance, solve(instance), solve(instance, cached_rows=cached_rows))


@few_examples
@given(instances(), st.sampled_from([0.0, 1.0, np.inf]))
def test_resting(instance, rest_below):
    with small_steps():
        usual = solve(instance)
    with small_steps(REST_BELOW=rest_below, REST_MARGIN=0.5):
        assert_same_objective(instance, usual, solve(instance))


@few_examples
@given(instances(), st.sampled_from([2, 20, 1000]), st.integers(0, 1000))
@example(ALL_AT_BOUNDS, 2, 0)
def test_size_and_seed_of_the_first_sample(instance, first_sample, seed):
    with small_steps():
        usual = solve(instance)
    with small_steps(first_sample):
        assert_same_objective(instance, usual, solve(instance, seed=seed))


@few_examples
@given(instances(), st.integers(0, 1000))
def test_start(instance, seed):
    start = np.random.default_rng(seed).normal(size=len(instance.y))
    with small_steps():
        assert_same_objective(instance, solve(instance), solve(instance, start=start))
