"""Kernels that are not positive semidefinite: the fit ends at a stationary point and says so."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from widemargin import KernelOneClassSVM, KernelSVC, KernelSVR
from widemargin.exact.definiteness import may_be_indefinite
from widemargin.kernels import RBF, Linear, Poly, Sigmoid


def draw(n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 5))
    K = rng.normal(size=(n, n))
    K = 0.5 * (K + K.T)
    np.fill_diagonal(K, np.abs(K.diagonal()))
    return X, K, X[:, 0] + rng.normal(size=n)


def violation(K, coef, linear, lower, upper):
    """Largest difference of gradients of a pair that could still move, from the definition."""
    gradient = K @ coef + linear
    return (-gradient[coef < upper]).max() - (-gradient[coef > lower]).min()


@pytest.mark.parametrize("n", [60, 600, 3100])
@pytest.mark.parametrize("C", [1.0, 1000.0])
@pytest.mark.parametrize("kernel", ["sigmoid", "precomputed"])
def test_the_end_is_a_stationary_point(n, C, kernel):
    X, K, target = draw(n)
    if kernel == "sigmoid":
        K = np.tanh(X @ X.T - 1.0)
    data = K if kernel == "precomputed" else X
    sign = np.where(target > 0, 1.0, -1.0)
    model = KernelSVC(kernel=kernel, C=C, gamma=1.0, coef0=-1.0)
    with pytest.warns(ConvergenceWarning, match="stationary point") as caught:
        model.fit(data, sign)
    assert len(caught) == 1
    coef = np.zeros(n)
    coef[model.support_] = model.dual_coef_[0]
    lower, upper = np.minimum(C * sign, 0.0), np.maximum(C * sign, 0.0)
    assert model.stop_reason_ == "converged"
    assert violation(K, coef, -sign, lower, upper) <= 2e-3 + 1e-6 * C


@pytest.mark.parametrize("estimator", [KernelSVR, KernelOneClassSVM])
def test_the_other_machines_say_so_too(estimator):
    _, K, target = draw(300)
    with pytest.warns(ConvergenceWarning, match="stationary point"):
        model = estimator(kernel="precomputed").fit(K, target)
    assert model.stop_reason_ == "converged"


def test_definite_kernels_do_not_warn():
    X, _, target = draw(300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for params in (
            {"kernel": "precomputed"},
            {"kernel": lambda a, b: a @ b.T},
            {"kernel": "sigmoid", "gamma": 1e-6, "coef0": 0.0},
        ):
            is_given = params["kernel"] == "precomputed"
            KernelSVC(**params).fit(X @ X.T if is_given else X, target > 0)


def test_which_formulas_may_be_indefinite():
    assert not any(map(may_be_indefinite, (Linear(), RBF(1.0), Poly(1.0, 3, 0.0))))
    assert all(map(may_be_indefinite, (Sigmoid(1.0), Poly(1.0, 3, -1.0))))
