"""Rows less their mean: products and solutions, against matrices that are centred explicitly."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.preprocessing import MinMaxScaler

from widemargin import AdditiveSVC, IntersectionSVC
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
        centred = centre_rows(rows, np.diag(kernel) + 1.0, 0, workers)
    H = np.eye(30) - 1 / 30
    expected = H @ kernel @ H
    unit = np.diag(expected).mean()
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


def test_an_intercept_that_still_moves_is_seen_by_shrunk_rows(cancer):
    """With a small C all dual variables are at their bounds, and soon all rows are shrunk."""
    X, y = cancer
    rows = MinMaxScaler().fit_transform(X)
    cost = 0.01 * AdditiveSVC().fit(rows, y).C_
    model = AdditiveSVC(C=cost, loss="hinge", tol=1e-3).fit(rows, y)
    assert model.stop_reason_ == "converged"
    assert model.n_iter_ < 500
