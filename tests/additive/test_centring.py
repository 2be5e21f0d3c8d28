"""Rows less their mean: products and solutions, against matrices that are centred explicitly."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from widemargin import AdditiveSVC, AdditiveSVR, IntersectionSVC, PowerMeanSVC
from widemargin.additive import centring
from widemargin.additive.centring import centre_rows
from widemargin.additive.coded_rows import decide, plain_rows
from widemargin.parallel import open_workers


@pytest.mark.parametrize("is_symmetric", [True, False])
def test_products_of_centred_rows(is_symmetric):
    rng = np.random.default_rng(0)
    read = rng.random((30, 4)) + 1.0
    write = read if is_symmetric else read @ rng.random((4, 4))
    kernel = read @ write.T
    rows = plain_rows(read, None if is_symmetric else write)
    rows = rows._replace(n_extra=1, extra_read=np.ones(30), extra_write=np.ones(30))
    with open_workers(1) as workers:
        centred = centre_rows(rows, np.diag(kernel) + 1.0, np.full(30, 1e3), 0, workers)
    H = np.eye(30) - 1 / 30
    expected = H @ kernel @ H
    unit = np.abs(np.diag(expected)).mean()
    assert_allclose(centred.step, centring.INTERCEPT_STEP * unit)
    least = np.maximum(np.diag(expected), centring.LEAST_NORM * unit)
    assert_allclose(centred.norms, least + centred.step)
    # A decision with dual variables d: the rows that were added, and both extra numbers.
    d = rng.normal(size=30)
    extra = centred.rows.extra_write.reshape(30, 2).T @ d
    with open_workers(1) as workers:
        found = decide(centred.rows, (write.T @ d)[None], extra[None], workers)[:, 0]
    assert_allclose(found, expected @ d + centred.step * d.sum(), atol=1e-10)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_intercepts_have_the_least_loss_where_costs_differ_much(loss, n_classes):
    """Dual variables of rows of tiny cost are tiny, and steps in proportion to them would crawl."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 50, (60, 3)).astype(float), rng.integers(0, n_classes, 60)
    weights = {k: 1000.0 if k == 0 else 1e-4 for k in range(n_classes)}
    model = IntersectionSVC(loss=loss, class_weight=weights, tol=1e-3).fit(X, y)
    decisions = model.decision_function(X).reshape(60, -1)
    costs = model.C_ * np.array([weights[label] for label in y])
    power = 2 if loss == "squared_hinge" else 1
    for k, values in enumerate(decisions.T):
        signs = np.where(y == (k if n_classes > 2 else 1), 1.0, -1.0)

        def primal(shift, values=values, signs=signs):
            return costs @ np.maximum(1.0 - signs * (values + shift), 0.0) ** power

        tried = np.linspace(-2.0, 2.0, 4001)
        assert primal(0.0) <= min(map(primal, tried)) * (1.0 + 1e-4) + 1e-12


FLAT_MODELS = {
    "AdditiveSVC": AdditiveSVC(),
    "AdditiveSVC, intersection": AdditiveSVC(kernel="intersection"),
    "IntersectionSVC": IntersectionSVC(),
    "IntersectionSVC, linear": IntersectionSVC(kernel="linear"),
}


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("model", FLAT_MODELS.values(), ids=FLAT_MODELS)
def test_rows_that_are_alike_have_the_intercept_of_least_loss(model, loss, layout):
    """The mean of such rows leaves rounding errors of either sign, also in float32."""
    y = np.arange(3000) % 10 < 7
    expected = {"hinge": 1.0, "squared_hinge": y.mean() - (1.0 - y.mean())}[loss]
    for value, C in product([0.0, 7.3, 1e5], [1e-6, 1.0, 1e6]):
        X = layout(np.full((3000, 6), value))
        fitted = clone(model).set_params(loss=loss, C=C).fit(X, y)
        assert_allclose(fitted.decision_function(X[:5]), expected, rtol=1e-4)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regressions_on_rows_that_are_alike_predict_the_centre(loss):
    targets = np.random.default_rng(0).exponential(size=3001)
    expected = np.median(targets) if loss == "epsilon_insensitive" else targets.mean()
    for value, C in product([0.0, 7.3, 1e5], [1e-6, 1.0, 1e3]):
        X = np.full((3001, 6), value)
        model = AdditiveSVR(loss=loss, epsilon=0.0, C=C).fit(X, targets)
        assert_allclose(model.predict(X[:5]), expected, rtol=1e-4)


def test_rows_with_a_negative_diagonal_are_not_alike():
    """Beyond its anchors the approximate kernel of PmSVM is far from positive."""
    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.3
    X = 1.0 + 0.1 * (rng.random((3000, 5)) + y[:, None] * [1, 0, 0, 0, 0])
    assert PowerMeanSVC(C=1.0).fit(X, y).score(X, y) > 0.92


@pytest.mark.parametrize("C", [1e-8, 1e-4, 1e-2])
def test_the_intercept_converges_with_a_small_C(C):
    """As it does in LIBSVM; dual variables of a small C move it by little."""
    rng = np.random.default_rng(0)
    X = rng.random((600, 6))
    y = X[:, 0] + 0.5 * rng.random(600) > 1.15
    kernel = np.minimum(X[:, None], X).sum(axis=2)
    peer = SVC(C=C, kernel="precomputed", tol=1e-6).fit(kernel, y)
    model = AdditiveSVC(C=C, kernel="intersection", loss="hinge", scaling=None, n_bins=4000)
    assert_allclose(model.fit(X, y).decision_function(X), peer.decision_function(kernel), atol=0.02)


def test_an_intercept_that_still_moves_is_seen_by_shrunk_rows(cancer):
    """With a small C all dual variables are at their bounds, and soon all rows are shrunk."""
    X, y = cancer
    rows = MinMaxScaler().fit_transform(X)
    cost = 0.01 * AdditiveSVC().fit(rows, y).C_
    model = AdditiveSVC(C=cost, loss="hinge", tol=1e-3).fit(rows, y)
    assert model.stop_reason_ == "converged"
    assert model.n_iter_ < 500
