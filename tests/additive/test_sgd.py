"""Stochastic descent as a function of rows, without an estimator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widemargin.additive.coded_rows import plain_rows
from widemargin.additive.dual_descent import Descent
from widemargin.additive.scalar_kernels import ADDITIVE, is_homogeneous, make_scalar_kernel
from widemargin.additive.sgd import PrimalProblem, solve_stochastic


def make_problem(X, labels, penalty=0.1):
    weights = np.linspace(0.5, 1.5, len(X))
    norms = np.square(X).sum(axis=1)
    return PrimalProblem(labels, np.array([0, 2]), weights, norms, penalty, 1.0, is_squared=False)


def descend_slowly(X, problem, n_passes, seed):
    """PmSVM Algorithm 4 as it is printed, for one class after another."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(X)) for _ in range(n_passes)]
    coef = np.zeros((len(problem.positives), X.shape[1]))
    for w, positive in zip(coef, problem.positives, strict=True):
        for t, i in enumerate(np.concatenate(orders), start=1):
            rate = 1.0 / (problem.penalty * (t + problem.delay))
            y = 1.0 if problem.labels[i] == positive else -1.0
            is_inside = y * (w @ X[i]) < 1.0
            w *= 1.0 - rate * problem.penalty
            if is_inside:
                w += rate * problem.weights[i] * y * X[i]
    return coef


@pytest.mark.parametrize("n_passes", [1, 3])
def test_it_makes_the_steps_of_algorithm_4(n_passes):
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((40, 5)), rng.integers(0, 3, 40)
    problem = make_problem(X, labels)
    seen = []
    result = solve_stochastic(
        plain_rows(X, None), problem, Descent(1e-12, n_passes, seed=7), lambda *a: seen.append(a)
    )
    assert_allclose(result.coef, descend_slowly(X, problem, n_passes, 7), rtol=1e-10)
    assert (result.n_iter, result.n_steps) == (n_passes, 40 * n_passes)
    assert result.stop_reason == "max_iter"
    assert [number for number, _ in seen] == list(range(1, n_passes + 1))
    assert seen[-1][1] == result.violation


def test_it_stops_when_the_coefficients_hardly_change():
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((40, 5)), rng.integers(0, 3, 40)
    result = solve_stochastic(plain_rows(X, None), make_problem(X, labels), Descent(0.5, 10**4))
    assert result.stop_reason == "converged"
    assert result.violation < 0.05
    assert 5 <= result.n_iter < 10**4


@pytest.mark.parametrize("kernel", [*ADDITIVE, *(cls() for cls in ADDITIVE.values()), np.minimum])
def test_homogeneous_kernels_are_known_before_they_are_made(kernel):
    assert is_homogeneous(kernel) == make_scalar_kernel(kernel).is_homogeneous
