"""The quadratic program of all kernel machines, by every solver, against a general optimiser."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import LinearConstraint, minimize

from tests.reference import kernels as formulas
from widemargin.budget import Budget, StopReason, worst_reason
from widemargin.exact.active_set import solve_small
from widemargin.exact.dual_problem import DualProblem, classification_dual
from widemargin.exact.float64_finish import ExactMatrix, finish_in_float64
from widemargin.exact.full_matrix import solve_whole
from widemargin.exact.kernel_matrix import Gram
from widemargin.exact.sampled_descent import solve_box_qp
from widemargin.exact.solution import judge
from widemargin.kernels import RBF
from widemargin.parallel import Workers

KERNEL = RBF(0.5)
SOLVERS = ["whole", "sampled", "small", "float64"]


def solve(name, X, dual, tol=1e-6):
    budget, gram = Budget(tol=tol), Gram(KERNEL, KERNEL.prepare(X), Workers(1, None))
    if name == "whole":
        return solve_whole(gram, dual, budget)
    if name == "sampled":
        return solve_box_qp(gram, dual, budget)
    if name == "small":
        return solve_small(formulas.rbf(X, gamma=0.5), dual, budget)
    exact = ExactMatrix(KERNEL, X, np.arange(len(X)))
    first = dual.first_point()
    start = judge(dual, first, formulas.rbf(X, gamma=0.5) @ first + dual.linear)
    return finish_in_float64(exact, dual, start, budget)


def draw(seed, n, epsilon, tied, both_signs):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    upper = rng.uniform(0.2, 3.0, n)
    lower = -rng.uniform(0.2, 3.0, n)
    if not both_signs:
        is_up = rng.random(n) < 0.5
        is_up[:2] = True, False
        lower, upper = np.where(is_up, 0.0, lower), np.where(is_up, upper, 0.0)
    linear = rng.normal(scale=2.0, size=n)
    total = 0.0 if tied else None
    return X, DualProblem(np.arange(n), linear, lower, upper, epsilon=epsilon, total=total)


def objective(K, dual, b):
    return 0.5 * b @ K @ b + dual.linear @ b + dual.epsilon * np.abs(b).sum()


def solve_generally(K, dual):
    """The least objective by SciPy, on positive and negative parts, which have no bend."""
    n = len(K)
    sign = np.repeat([1.0, -1.0], n)

    def value(parts):
        b = parts[:n] - parts[n:]
        gradient = np.tile(K @ b + dual.linear, 2) * sign + dual.epsilon
        return 0.5 * b @ K @ b + dual.linear @ b + dual.epsilon * parts.sum(), gradient

    constraints = [] if dual.total is None else [LinearConstraint(sign, dual.total, dual.total)]
    bounds = list(zip(np.zeros(2 * n), np.r_[dual.upper, -dual.lower], strict=True))
    found = minimize(
        value, np.zeros(2 * n), jac=True, bounds=bounds, constraints=constraints, method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 2000},
    )  # fmt: skip
    return found.fun


@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), n=st.integers(3, 25), epsilon=st.sampled_from([0.0, 0.3, 1.5]),
    tied=st.booleans(), both_signs=st.booleans(),
)  # fmt: skip
def test_every_solver_finds_the_optimum(solver, seed, n, epsilon, tied, both_signs):
    X, dual = draw(seed, n, epsilon, tied, both_signs)
    K = formulas.rbf(X, gamma=0.5)
    found = solve(solver, X, dual)
    assert found.stop_reason == StopReason.CONVERGED
    assert (found.coef >= dual.lower).all()
    assert (found.coef <= dual.upper).all()
    if tied:
        assert abs(found.coef.sum()) < 1e-9
    assert_allclose(found.objective, objective(K, dual, found.coef), rtol=1e-5, atol=1e-6)
    assert objective(K, dual, found.coef) <= solve_generally(K, dual) + 1e-4
    assert -1e-5 < found.duality_gap < 1e-4 * n


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("solver", ["whole", "sampled", "float64"])
def test_a_bend_of_many_variables(solver, tied):
    """Large enough for working sets, shrinking and several rounds."""
    X, dual = draw(0, 700, 0.5, tied, True)
    found = solve(solver, X, dual, tol=1e-4)
    exact = solve("small", X, dual)
    assert found.stop_reason == StopReason.CONVERGED
    assert_allclose(found.objective, exact.objective, rtol=1e-6)
    assert 0 < np.count_nonzero(found.coef) < 700


def test_without_epsilon_a_problem_is_one_sided_already():
    _, dual = draw(0, 10, 0.0, True, True)
    assert dual.one_sided(np.zeros(10), np.ones(10)) is dual


def test_one_sided_pieces_contain_the_variables():
    _, dual = draw(0, 4, 0.5, True, True)
    coef, towards = np.array([0.1, -0.1, 0.0, 0.0]), np.array([-1.0, 1.0, 1.0, -1.0])
    sided = dual.one_sided(coef, towards)
    assert_array_equal(sided.lower, [0.0, dual.lower[1], 0.0, dual.lower[3]])
    assert_array_equal(sided.upper, [dual.upper[0], 0.0, dual.upper[2], 0.0])
    assert_array_equal(sided.linear - dual.linear, [0.5, -0.5, 0.5, -0.5])
    assert sided.epsilon == 0.0


@pytest.mark.parametrize("total", [None, 0.0, 1.5])
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 20))
def test_a_start_is_made_feasible(total, seed, n):
    rng = np.random.default_rng(seed)
    _, dual = draw(seed, n, 0.0, True, True)
    dual = replace(dual, total=total, start=rng.normal(scale=3.0, size=n))
    coef = dual.first_point()
    assert (coef >= dual.lower).all()
    assert (coef <= dual.upper).all()
    if total is not None and dual.upper.sum() > total:
        assert_allclose(coef.sum(), total, atol=1e-9)


def test_a_feasible_start_is_not_touched():
    y = np.array([1.0, 1.0, -1.0, -1.0])
    start = np.array([0.3, 0.2, -0.1, -0.4])
    dual = classification_dual(np.arange(4), y, np.ones(4), intercept=True, start=start)
    assert_array_equal(dual.first_point(), start)


def test_a_part_of_a_problem_has_the_numbers_of_its_variables():
    y = np.array([1.0, -1.0, 1.0])
    dual = classification_dual(np.array([5, 6, 7]), y, np.array([1.0, 2.0, 3.0]), intercept=False)
    part = dual.cut(np.array([2, 1]))
    assert_array_equal(part.index, [7, 6])
    assert_array_equal(part.lower, [0.0, -2.0])
    assert_array_equal(part.upper, [3.0, 0.0])
    assert_array_equal(part.labels, [1.0, -1.0])
    assert_array_equal(dual.cut(np.array([0]), np.array([9])).index, [9])


def test_the_worst_reason_is_that_of_all():
    reasons = [StopReason.CONVERGED, StopReason.MAX_TIME, StopReason.STALLED]
    assert worst_reason(reasons) is StopReason.MAX_TIME
    assert worst_reason(reasons[:1]) == "converged"
