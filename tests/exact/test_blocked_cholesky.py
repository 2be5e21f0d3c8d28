"""The blocked factorisation against SciPy's."""

import numpy as np
import pytest
from scipy.linalg import cholesky, solve_triangular

from widemargin.exact.blocked_cholesky import SIDE, BlockedCholesky
from widemargin.parallel import Workers, open_workers


def draw(n, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n + 5))
    return Z @ Z.T / n


def factorise(A, n_jobs=1):
    with open_workers(n_jobs) as workers:
        return BlockedCholesky(np.tril(A), workers)


SIZES = [1, 20, SIDE, SIDE + 1, 3 * SIDE - 7]


@pytest.mark.parametrize("n", SIZES)
def test_factor_and_solutions_are_those_of_scipy(n):
    A, rng = draw(n), np.random.default_rng(1)
    factor, expected = factorise(A), cholesky(A, lower=True)
    assert factor.is_complete
    np.testing.assert_allclose(np.tril(factor.L), expected, atol=1e-10)
    B = rng.normal(size=(n, 3))
    lower = solve_triangular(expected, B, lower=True)
    np.testing.assert_allclose(factor.solve_lower(B), lower, rtol=1e-6, atol=1e-8)
    upper = solve_triangular(expected, B, lower=True, trans="T")
    np.testing.assert_allclose(factor.solve_upper(B), upper, rtol=1e-6, atol=1e-8)
    assert factor.square(B[:, 0]) == pytest.approx(B[:, 0] @ A @ B[:, 0])


@pytest.mark.parametrize("n", SIZES)
def test_columns_of_the_inverse(n):
    factor = factorise(draw(n))
    at = np.unique(np.random.default_rng(2).integers(0, n, 9))
    expected = factor.solve_lower(np.eye(n)[:, at])
    np.testing.assert_allclose(factor.solve_units(at), expected, rtol=1e-9, atol=1e-12)


def test_any_number_of_threads_gives_the_same_bits():
    A = draw(3 * SIDE)
    assert np.array_equal(factorise(A, 1).L, factorise(A, 2).L)


def test_an_indefinite_matrix_is_not_factorised():
    A = draw(2 * SIDE)
    A[-1, -1] = -1.0
    assert not factorise(A).is_complete


def test_no_block_begins_after_the_deadline():
    assert not BlockedCholesky(draw(20), Workers(1, None), deadline=0.0).is_complete
