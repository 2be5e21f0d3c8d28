"""Fits that a limit stops: the best intercept, the better iterate, never worse than no model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tests.reference import svm_dual
from widemargin import DCSVC, KernelSVC
from widemargin.exact.solution import fewest_errors_intercept, least_loss_intercept

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

problems = given(seed=st.integers(0, 10**6), n=st.integers(2, 40), n_values=st.integers(1, 40))


def draw(seed, n, n_values):
    """Decision values, some of them equal, labels of both signs, and weights."""
    rng = np.random.default_rng(seed)
    decision = rng.normal(size=n_values)[rng.integers(0, n_values, n)]
    y = np.where(rng.random(n) < 0.3, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    return decision, y, rng.uniform(0.1, 2.0, n)


@settings(max_examples=200, deadline=None)
@problems
def test_the_least_loss(seed, n, n_values):
    decision, y, upper = draw(seed, n, n_values)
    found = least_loss_intercept(decision - y, y, upper)

    def loss(offset):
        return upper @ np.maximum(1.0 - y * (decision + offset), 0.0)

    # The loss is piecewise linear, so the least is at one of its corners.
    least = min(loss(corner) for corner in y - decision)
    assert loss(found) <= least * (1.0 + 1e-12) + 1e-12


@settings(max_examples=200, deadline=None)
@problems
def test_the_fewest_errors(seed, n, n_values):
    decision, y, upper = draw(seed, n, n_values)
    found = fewest_errors_intercept(decision, y, upper)

    def errors(offset):
        return upper[(decision + offset >= 0) != (y > 0)].sum()

    values = np.unique(decision)
    between = np.concatenate(
        [[values[0] - 1.0], 0.5 * (values[1:] + values[:-1]), [values[-1] + 1.0]]
    )
    assert errors(found) <= min(errors(-threshold) for threshold in between) + 1e-12


@pytest.mark.parametrize("max_iter", [0, 1, 5, 30, 300])
@pytest.mark.parametrize("n", [150, 1000, 6000])
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_stopped_fit_beats_the_larger_class(max_iter, n, share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + rng.normal(size=n) > np.quantile(X[:, 0], 1.0 - share)).astype(int)
    model = KernelSVC(C=10.0, max_iter=max_iter).fit(X, y)
    assert model.stop_reason_ == "max_iter"
    assert model.score(X, y) >= max(y.mean(), 1.0 - y.mean())


@pytest.mark.parametrize("n", [300, 6000])
def test_the_gap_of_a_stopped_fit_is_that_of_its_intercept(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + rng.normal(size=n) > 1.0).astype(int)
    model = KernelSVC(gamma=0.5, max_iter=20).fit(X, y)
    coef = np.zeros(n)
    coef[model.support_] = model.dual_coef_[0]
    K = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
    sign = 2.0 * y - 1.0
    gap = svm_dual.duality_gap(K, sign, np.ones(n), coef, model.intercept_[0])
    assert_allclose(model.duality_gap_, gap, rtol=1e-5)


def test_more_time_is_never_much_worse(noisy):
    X, y = noisy
    primals = []
    for max_iter in (600, 1200, 2400, 4800, 9600):
        model = KernelSVC(C=10.0, gamma=0.5, max_iter=max_iter).fit(X, y)
        primals.append(model.duality_gap_ - model.objective_)
    best = np.minimum.accumulate(primals)
    # Compared on the sample that was reached, not on all rows: hence the margin.
    assert (np.array(primals) <= 1.1 * best).all()


@pytest.mark.parametrize("cls", [KernelSVC, DCSVC])
@pytest.mark.parametrize("max_iter", [10, 1000])
def test_a_stopped_fit_is_never_worse_than_no_coefficients(cls, max_iter):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5)) * [1.0, 10.0, 100.0, 1000.0, 10000.0]
    y = rng.integers(0, 2, 3000)
    model = cls(kernel="linear", max_iter=max_iter, fit_intercept=True).fit(X, y)
    weights = model.dual_coef_[0] @ model.support_vectors_
    objective = 0.5 * weights @ weights - np.abs(model.dual_coef_).sum()
    assert objective <= 1e-9
    assert_allclose(model.objective_, objective, rtol=1e-6, atol=1e-6)
