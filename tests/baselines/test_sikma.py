"""SIKMASVC: the kernel expansion by brute force after the same steps, and bad input."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.baselines.sikma import SIKMASVC
from widemargin.export.description import describe


def intersect(A, B):
    return np.minimum(A[:, None], B[None]).sum(axis=2)


def make_orders(seed, n, n_passes):
    rng = np.random.default_rng(np.random.RandomState(seed).randint(2**31 - 1))
    return np.concatenate([rng.permutation(n) for _ in range(n_passes)])


def run_steps(K, sign, weights, order, alpha, eta0):
    """Coefficients of the kernel expansion."""
    a = np.zeros(len(K))
    for t, i in enumerate(order, 1):
        rate = 1 / (alpha * (t + eta0))
        is_inside = sign[i] * (K[i] @ a) < 1
        a *= 1 - rate * alpha
        if is_inside:
            a[i] += rate * weights[i] * sign[i]
    return a


@pytest.fixture(scope="module")
def counts(digits):
    """Pixels as whole numbers: every value is a level."""
    X, y = digits
    return 16.0 * X[:150], y[:150], 16.0 * X[150:250]


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
@pytest.mark.parametrize("n_bins", [5, 50])
def test_curves_are_the_kernel_expansion(counts, form, n_bins):
    X, y, Z = counts
    model = SIKMASVC(
        C=0.01, n_bins=n_bins, eta0=5.0, max_iter=3, class_weight={3: 2.0}, random_state=1
    ).fit(form(X), y)
    K, L, order = intersect(X, X), intersect(Z, X), make_orders(1, len(y), 3)
    weights = np.where(y == 3, 2.0, 1.0)
    for c in range(10):
        sign = np.where(y == c, 1, -1)
        a = run_steps(K, sign, weights, order, 1 / (0.01 * len(y)), 5.0)
        assert_allclose(model.decision_function(form(Z))[:, c], L @ a, rtol=1e-6, atol=1e-9)
    assert model.t_ == 3 * len(y)
    assert model.tables_.shape == (10, 64, 17)


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_negative_values_count_from_the_smallest(form):
    """All values on a grid of nine levels from -2 to 2, of which zero is one."""
    rng = np.random.default_rng(0)
    X = rng.integers(-4, 5, (80, 6)) / 2.0
    y = X[:, 0] + X[:, 1] ** 2 > 1.5
    model = SIKMASVC(C=0.1, n_bins=9, fit_intercept=True, random_state=0).fit(form(X), y)
    K = intersect(X + 2, X + 2) + 1
    a = run_steps(K, np.where(y, 1, -1), np.ones(80), make_orders(0, 80, 2), 1 / 8, 1.0)
    assert_allclose(model.decision_function(form(X)), K @ a, rtol=1e-6, atol=1e-9)
    assert_allclose(model.intercept_, a.sum(), rtol=1e-6)


def test_values_are_rounded_to_levels(digits):
    X, y = digits[0][:200] ** 1.5, digits[1][:200]
    model = SIKMASVC(C=0.1, n_bins=11, random_state=0).fit(X, y)
    largest = X.max(axis=0)
    rounded = np.round(10 * X / np.where(largest > 0, largest, 1)) / 10 * largest
    K, sign = intersect(rounded, rounded), np.where(y == 2, 1, -1)
    a = run_steps(K, sign, np.ones(200), make_orders(0, 200, 2), 1 / 20, 1.0)
    assert_allclose(model.decision_function(X)[:, 2], K @ a, rtol=1e-6, atol=1e-9)
    assert_array_equal(
        model.decision_function(100.0 * X[:1] + 1), model.decision_function([largest])
    )


def test_large_counts_are_rounded_too():
    """Whole numbers beyond the codes share levels, evenly spaced."""
    X = np.array([[0.0], [1000.0], [9000.0], [10000.0]])
    model = SIKMASVC(n_bins=11, random_state=0).fit(X, [0, 0, 1, 1])
    assert_allclose(model.quantiser_.values(0), np.linspace(0, 10000, 11))


def test_pieces_go_on_where_the_last_ended(counts):
    X, y, _ = counts
    is_even = y % 2 == 0
    model = SIKMASVC(alpha=5.0, random_state=0).partial_fit(X, is_even, classes=[False, True])
    model.partial_fit(csr_matrix(X[:40]), is_even[:40])
    order = np.concatenate([make_orders(0, 150, 1), make_orders(0, 40, 1)])
    K = intersect(X, X)
    a = run_steps(K, np.where(is_even, 1, -1), np.ones(150), order, 5.0, 1.0)
    assert_allclose(model.decision_function(X), K @ a, rtol=1e-5, atol=1e-8)
    assert (model.t_, model.n_seen_) == (190, 190)
    assert (model.n_iter_, model.stop_reason_) == (1, "max_iter")
    assert not hasattr(model, "violation_")


def test_curves_can_be_exported(counts):
    X, y, _ = counts
    model = SIKMASVC(random_state=0).fit(X, y)
    assert describe(model).functions.curves.shape[0] == 10
    assert not hasattr(model, "violation_")


def test_digits_seeds_names_and_copies(digits):
    X, y = digits
    names = np.array([f"digit {c}" for c in y])
    model = SIKMASVC(C=0.1, max_iter=5, random_state=3).fit(X[:1000], names[:1000])
    assert model.score(X[1000:], names[1000:]) > 0.88
    assert_array_equal(clone(model).fit(X[:1000], names[:1000]).tables_, model.tables_)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    shares = model.explain(X[:5])
    assert_allclose(shares.sum(axis=2), model.decision_function(X[:5]), atol=1e-5)
    other = clone(model).set_params(random_state=4).fit(X[:1000], names[:1000])
    assert np.abs(other.tables_ - model.tables_).max() > 0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0}, "C: must be greater than 0"),
        ({"alpha": -1.0}, "alpha: must be greater than 0"),
        ({"eta0": 0}, "eta0: must be greater than 0"),
        ({"n_bins": 1}, "n_bins: must be an integer"),
        ({"n_bins": 10**6}, "n_bins: must be at most 65,536"),
        ({"max_iter": 0}, "max_iter: must be an integer"),
    ],
)
def test_bad_parameters(iris, params, message):
    with pytest.raises(ValueError, match=message):
        SIKMASVC(**params).fit(*iris)


def test_bad_pieces(iris):
    X, y = iris
    with pytest.raises(ValueError, match="classes: the first call"):
        SIKMASVC().partial_fit(X, y)
    with pytest.raises(TypeError, match="sample_weight"):
        SIKMASVC().fit(X, y, sample_weight=np.ones(len(y)))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([SIKMASVC(random_state=0), SIKMASVC(fit_intercept=True, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
