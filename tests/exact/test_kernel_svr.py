"""Kernel support vector regression against scikit-learn, brute force and its own conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import LinearConstraint, minimize
from sklearn.svm import SVR

from widemargin import KernelSVR


def draw(n, seed=0, n_features=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


def gaussian(X, gamma):
    return np.exp(-gamma * np.square(X[:, None] - X[None]).sum(axis=2))


def coefficients(model, n):
    coef = np.zeros(n)
    coef[model.support_] = np.ravel(model.dual_coef_[0])
    return coef


def dual(K, y, epsilon, coef):
    return 0.5 * coef @ K @ coef - y @ coef + epsilon * np.abs(coef).sum()


def gap(K, y, epsilon, upper, coef, intercept):
    error = np.abs(K @ coef + intercept - y)
    loss = upper @ np.maximum(error - epsilon, 0.0)
    return 0.5 * coef @ K @ coef + loss + dual(K, y, epsilon, coef)


@pytest.mark.parametrize("n", [40, 300, 3100])
@pytest.mark.parametrize(("C", "epsilon"), [(1.0, 0.1), (100.0, 0.05), (1.0, 0.0)])
def test_the_optimum_is_that_of_scikit_learn(n, C, epsilon):
    X, y = draw(n)
    ours = KernelSVR(C=C, gamma=0.3, epsilon=epsilon).fit(X, y)
    theirs = SVR(C=C, gamma=0.3, epsilon=epsilon).fit(X, y)
    K, upper = gaussian(X, 0.3), np.full(n, C)
    coef = coefficients(ours, n)
    assert ours.stop_reason_ == "converged"
    assert_allclose(coef.sum(), 0.0, atol=1e-9 * C * n)
    assert np.abs(coef).max() <= C * (1.0 + 1e-12)
    found, best = dual(K, y, epsilon, coef), dual(K, y, epsilon, coefficients(theirs, n))
    assert found <= best + 1e-5 * abs(best)
    assert_allclose(ours.objective_, found, rtol=1e-5)
    true_gap = gap(K, y, epsilon, upper, coef, ours.intercept_[0])
    assert_allclose(ours.duality_gap_, true_gap, rtol=1e-2, atol=1e-5 * abs(found))
    assert true_gap <= 1.1e-3 * upper.sum()
    assert_allclose(ours.predict(X), theirs.predict(X), atol=0.02)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 12),
    log_c=st.floats(-1, 2),
    epsilon=st.floats(0, 0.5),
)
def test_brute_force_is_no_better(seed, n, log_c, epsilon):
    X, y = draw(n, seed)
    C, K = 10.0**log_c, gaussian(X, 0.5)
    model = KernelSVR(C=C, gamma=0.5, epsilon=epsilon, tol=1e-6).fit(X, y)

    def objective(parts):
        return dual(K, y, epsilon, parts[:n] - parts[n:]) + epsilon * (
            parts.sum() - np.abs(parts[:n] - parts[n:]).sum()
        )

    constraint = LinearConstraint(np.repeat([1.0, -1.0], n), 0.0, 0.0)
    found = minimize(
        objective, np.full(2 * n, 0.1 * C), bounds=[(0.0, C)] * (2 * n), constraints=[constraint],
        method="SLSQP", options={"maxiter": 500, "ftol": 1e-12},
    )  # fmt: skip
    assert model.objective_ <= found.fun + 1e-6 * (1.0 + abs(found.fun))


def test_a_weight_is_a_factor_on_C():
    X, y = draw(300)
    weights = np.random.default_rng(0).integers(0, 4, 300)
    ours = KernelSVR(C=2.0, gamma=0.3, tol=1e-5).fit(X, y, weights)
    theirs = SVR(C=2.0, gamma=0.3, tol=1e-5).fit(X, y, weights)
    assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-3)
    assert not np.isin(np.flatnonzero(weights == 0), ours.support_).any()


def test_several_targets_equal_one_at_a_time():
    X, y = draw(400)
    Y = np.column_stack([y, np.cos(X[:, 0]), -y])
    both = KernelSVR(C=5.0).fit(X, Y)
    assert both.predict(X).shape == (400, 3)
    for t in range(3):
        alone = KernelSVR(C=5.0).fit(X, Y[:, t])
        assert both.objective_[t] == alone.objective_
        assert both.intercept_[t] == alone.intercept_[0]
        # Sums for several targets are of float32.
        assert_allclose(both.predict(X)[:, t], alone.predict(X), atol=1e-4)
    assert KernelSVR().fit(X, Y[:, :1]).predict(X).shape == (400, 1)


@pytest.mark.parametrize("kernel", ["linear", "poly", "sparse", "precomputed", "callable"])
def test_every_kind_of_kernel(kernel):
    X, y = draw(300)
    if kernel == "precomputed":
        K = gaussian(X, 0.3)
        ours, theirs = KernelSVR(kernel="precomputed").fit(K, y), SVR(gamma=0.3).fit(X, y)
        assert_allclose(ours.predict(K), theirs.predict(X), atol=0.01)
        return
    params = {"kernel": kernel} if kernel in ("linear", "poly") else {"gamma": 0.3}
    theirs = SVR(**params).fit(X, y)
    if kernel == "callable":
        params = {"kernel": lambda A, B: np.exp(-0.3 * np.square(A[:, None] - B[None]).sum(axis=2))}
    given = sparse.csr_matrix(X) if kernel == "sparse" else X
    ours = KernelSVR(**params).fit(given, y)
    assert_allclose(ours.predict(given), theirs.predict(X), atol=0.02)


def test_limits_leave_a_model():
    X, y = draw(3500)
    with pytest.warns(UserWarning, match="KernelSVR stopped before convergence: max_iter=50"):
        model = KernelSVR(C=100.0, max_iter=50).fit(X, y)
    assert model.stop_reason_ == "max_iter"
    assert np.isfinite(model.predict(X)).all()
    with pytest.warns(UserWarning, match="max_time"):
        model = KernelSVR(C=1000.0, max_time=1e-6).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_a_callback_hears_of_every_round_and_can_stop():
    X, y = draw(3500)
    heard = []
    KernelSVR(callback=heard.append).fit(X, y)
    assert heard
    assert heard[-1].n_total == 3500


def test_answers_do_not_depend_on_threads():
    X, y = draw(3500)
    one, two = (KernelSVR(C=10.0, n_jobs=n).fit(X, y) for n in (1, 2))
    assert_array_equal(one.dual_coef_, two.dual_coef_)


@pytest.mark.parametrize(
    ("params", "message"),
    [({"epsilon": -0.1}, "epsilon: must not be negative"), ({"C": 0.0}, "C: must be greater")],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        KernelSVR(**params).fit(*draw(20))


def test_bad_targets():
    X, y = draw(20)
    with pytest.raises(ValueError, match="NaN"):
        KernelSVR().fit(X, np.where(y > 0, np.nan, y))
    with pytest.raises(ValueError, match="inconsistent"):
        KernelSVR().fit(X, y[:-1])


@pytest.mark.parametrize("n", [50, 300, 3100])
def test_without_intercept_the_conditions_hold(n):
    """At the optimum, a step along the gradient of any one variable leads back to where it began."""
    X, y = draw(n)
    C, epsilon, K = 5.0, 0.1, gaussian(X, 0.3)
    model = KernelSVR(C=C, epsilon=epsilon, gamma=0.3, tol=1e-4, fit_intercept=False)
    coef = coefficients(model.fit(X, y + 2.0), n)
    assert model.intercept_[0] == 0.0
    step = coef - (K @ coef - y - 2.0)
    best = np.clip(np.sign(step) * np.maximum(np.abs(step) - epsilon, 0.0), -C, C)
    assert_allclose(coef, best, atol=2e-4)
    assert_allclose(model.objective_, dual(K, y + 2.0, epsilon, coef), rtol=1e-5)
    assert abs(coef.sum()) > 1e-3


def test_a_warm_start_begins_at_the_solution():
    X, y = draw(600)
    targets = np.c_[y, -(y**2)]
    model = KernelSVR(gamma=0.3, C=5.0, warm_start=True).fit(X, targets)
    assert model.n_iter_.min() > 0
    assert_array_equal(model.fit(X, targets).n_iter_, 0)
    warm = model.set_params(C=1.0).fit(X, targets)
    cold = KernelSVR(gamma=0.3, C=1.0).fit(X, targets)
    assert_allclose(warm.objective_, cold.objective_, rtol=1e-4)
    # Other rows or targets: the solution does not fit, and the fit begins anew.
    assert_allclose(model.fit(X[:500], y[:500]).predict(X[:500]).shape, (500,))


@pytest.mark.parametrize("name", ["fit_intercept", "warm_start"])
def test_flags_are_flags(name):
    with pytest.raises(ValueError, match=f"{name}: must be True or False"):
        KernelSVR(**{name: "yes"}).fit(*draw(20))


@pytest.mark.parametrize("as_sparse", [False, True])
def test_targets_within_epsilon_of_a_constant_need_no_support_vectors(as_sparse):
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 4)), 3.0 + 0.001 * rng.random(300)
    rows = sparse.csr_matrix(X) if as_sparse else X
    for tol in (1e-3, 1e-9):
        model = KernelSVR(C=500.0, epsilon=0.01, tol=tol).fit(rows, y)
        assert len(model.support_) == 0
        assert model.stop_reason_ == "converged"
        assert np.abs(model.predict(rows) - y).max() <= 0.01
