"""Novelty detection against scikit-learn, and the meaning of nu."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.svm import OneClassSVM

from widemargin import KernelOneClassSVM
from widemargin.exact.kernel_one_class import fill_up


def draw(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


def gaussian(X, gamma):
    return np.exp(-gamma * np.square(X[:, None] - X[None]).sum(axis=2))


@pytest.mark.parametrize("n", [50, 400, 3100])
@pytest.mark.parametrize("nu", [0.03, 0.5])
def test_the_optimum_is_that_of_scikit_learn(n, nu):
    X = draw(n)
    ours, theirs = KernelOneClassSVM(nu=nu, gamma=0.3).fit(X), OneClassSVM(nu=nu, gamma=0.3).fit(X)
    K, coef, other = gaussian(X, 0.3), np.zeros(n), np.zeros(n)
    coef[ours.support_], other[theirs.support_] = ours.dual_coef_[0], theirs.dual_coef_[0]
    assert ours.stop_reason_ == "converged"
    assert_allclose(coef.sum(), nu * n, rtol=1e-9)
    assert coef.min() >= 0
    assert coef.max() <= 1
    objective = 0.5 * coef @ K @ coef
    assert objective <= 0.5 * other @ K @ other * (1.0 + 1e-6)
    assert_allclose(ours.objective_, objective, rtol=1e-5)
    loss = np.maximum(ours.offset_ - K @ coef, 0.0).sum()
    gap = 2.0 * objective + loss - ours.offset_ * nu * n
    assert_allclose(ours.duality_gap_, gap, atol=1e-5 * objective)
    assert gap <= 1.1e-3 * n
    assert_allclose(ours.offset_, theirs.offset_, rtol=1e-3)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_nu_bounds_outliers_and_support_vectors(nu):
    X = draw(1500)
    model = KernelOneClassSVM(nu=nu).fit(X)
    outside = np.mean(model.decision_function(X) < -model.tol)
    assert outside <= nu <= len(model.support_) / len(X)
    assert_allclose(model.decision_function(X), model.score_samples(X) - model.offset_, atol=1e-9)
    assert set(model.fit_predict(X)) == {-1, 1}


def test_every_row_is_a_support_vector_with_nu_one():
    X = draw(300)
    model = KernelOneClassSVM(nu=1.0).fit(X)
    assert_allclose(model.dual_coef_, np.ones((1, 300)))
    assert np.isfinite(model.decision_function(X)).all()
    assert model.stop_reason_ == "converged"


def test_weights_and_sparse_rows():
    X = draw(300)
    weights = np.random.default_rng(0).integers(0, 4, 300).astype(float)
    ours = KernelOneClassSVM(nu=0.2, gamma=0.3, tol=1e-5).fit(sparse.csr_matrix(X), None, weights)
    repeated = KernelOneClassSVM(nu=0.2, gamma=0.3, tol=1e-5).fit(
        np.repeat(X, weights.astype(int), 0)
    )
    assert_allclose(ours.score_samples(X), repeated.score_samples(X), rtol=1e-3)
    assert_allclose(ours.offset_, repeated.offset_, rtol=1e-3)


@pytest.mark.parametrize("nu", [0.0, -1.0, 1.1])
def test_nu_out_of_range(nu):
    with pytest.raises(ValueError, match="nu: must be"):
        KernelOneClassSVM(nu=nu).fit(draw(20))


def test_a_sum_is_filled_up_in_order():
    upper = np.array([1.0, 2.0, 1.0, 3.0])
    assert_allclose(fill_up(upper, 4.5, np.array([3, 0, 1, 2])), [1.0, 0.5, 0.0, 3.0])


@pytest.mark.parametrize("n", [150, 3100])
@pytest.mark.parametrize("n_distinct", [3, 20])
def test_rows_that_are_alike_are_not_all_outside(n, n_distinct):
    """Many equal rows at the boundary: the mean of the free vectors would put them outside."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_distinct, 4))[rng.integers(0, n_distinct, n)]
    model = KernelOneClassSVM(nu=0.1, gamma=0.5).fit(X)
    assert np.mean(model.predict(X) < 0) <= 0.1
    K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
    coef = np.zeros(n)
    coef[model.support_] = model.dual_coef_[0]
    loss = np.maximum(model.offset_ - K @ coef, 0.0).sum()
    gap = coef @ K @ coef + loss - model.offset_ * 0.1 * n
    assert_allclose(model.duality_gap_, gap, atol=1e-4 * n)
    assert gap < 1e-3 * n
