"""The interior-point method against brute force, and where pair moves crawl."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import svm_dual
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.interior_point import minimise_interior


def draw(seed, n, log_c, rank):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, rank))
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    return Z @ Z.T, y, 10.0**log_c * rng.uniform(0.5, 2.0, n)


def solve(K, y, upper, tied):
    dual = classification_dual(np.arange(len(y)), y, upper, intercept=tied)
    coef = minimise_interior(K, dual, np.zeros(len(y)))
    assert (coef >= dual.lower).all()
    assert (coef <= dual.upper).all()
    return coef


@pytest.mark.parametrize("tied", [True, False])
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 40),
    log_c=st.floats(-3, 5),
    rank=st.integers(1, 50),
)
def test_the_conditions_hold(tied, seed, n, log_c, rank):
    K, y, upper = draw(seed, n, log_c, rank)
    coef = solve(K, y, upper, tied)
    size = 1.0 + np.abs(K) @ np.abs(coef)
    assert svm_dual.violation(K, y, upper, coef, tied) <= 1e-6 * size.max()
    if tied:
        assert abs(coef.sum()) <= 1e-9 * upper.sum()


@pytest.mark.parametrize("tied", [True, False])
def test_it_agrees_with_brute_force(tied):
    K, y, upper = draw(3, 8, 0.5, 12)
    coef = solve(K, y, upper, tied)
    exact = svm_dual.solve(K, y, upper, tied)
    assert svm_dual.objective(K, y, coef) <= svm_dual.objective(K, y, exact) + 1e-8


def test_an_indefinite_matrix_ends_within_the_box():
    rng = np.random.default_rng(0)
    K = rng.normal(size=(20, 20))
    y = np.where(rng.random(20) < 0.5, -1.0, 1.0)
    solve(K + K.T, y, np.ones(20), tied=True)
