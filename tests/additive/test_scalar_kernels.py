"""Power mean kernels are positive semidefinite (PmSVM, Theorem 1): random points, exact matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.additive.scalar_kernels import make_scalar_kernel, paper_power_mean

POSITIVE = st.floats(1e-3, 1.0)
EXPONENTS = st.one_of(st.just(0.0), st.just(-np.inf), st.floats(-16.0, -1 / 16))


def power_mean(x, y, p):
    """The mean by its definition, in logarithms: ((x^p + y^p) / 2)^(1/p)."""
    if p == 0:
        return np.sqrt(x * y)
    if p == -np.inf:
        return np.minimum(x, y)
    return np.exp((np.logaddexp(p * np.log(x), p * np.log(y)) - np.log(2.0)) / p)


@given(st.lists(POSITIVE, min_size=2, max_size=12), EXPONENTS)
def test_power_means_are_positive_semidefinite_kernels(values, p):
    x = np.array(values)
    K = make_scalar_kernel("power_mean", p)(x, x)
    np.testing.assert_allclose(K, power_mean(x[:, None], x[None], p), rtol=1e-9)
    assert np.linalg.eigvalsh(K)[0] >= -1e-12 * len(x)


def test_a_positive_exponent_gives_no_kernel():
    """The oracle can fail: the arithmetic mean, p = 1, is not positive semidefinite."""
    x = np.array([0.1, 1.0])
    K = power_mean(x[:, None], x[None], 1.0)
    assert np.linalg.eigvalsh(K)[0] < -0.1


@pytest.mark.parametrize("p", [-1.0, -8.0])
def test_zeros_are_raised_to_the_papers_epsilon(p):
    """The paper replaces 0^p by 0.001^p at the anchors; rows leave out features that are zero."""
    values, anchors = np.array([0.0, 0.5]), np.array([0.0, 0.3])
    K = paper_power_mean(p)(values, anchors)
    np.testing.assert_allclose(K[1], power_mean(0.5, np.array([0.001, 0.3]), p), rtol=1e-9)
    np.testing.assert_array_equal(K[0], 0.0)
