"""IntersectionSVC against LIBLINEAR on the unary representation."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.svm import SVC, LinearSVC

from tests.reference import additive as reference
from widemargin import IntersectionSVC
from widemargin.additive import dual_descent
from widemargin.additive.coded_rows_fast import BINS, GRAM, HATS

TIGHT = {"tol": 1e-7, "max_iter": 50_000, "random_state": 0, "fit_intercept": False}


@pytest.fixture(scope="module")
def counts(digits):
    X, y = digits
    return 16.0 * X[:400], y[:400], 16.0 * X[400:700]


def linear(X, y, **params):
    return LinearSVC(fit_intercept=False, tol=1e-9, max_iter=10**6, **params).fit(X, y)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize(
    "params",
    [
        {"loss": "hinge"},
        {"loss": "squared_hinge"},
        {"loss": "squared_hinge", "solver": "primal"},
        {"multi_class": "crammer_singer"},
    ],
    ids=["hinge", "squared", "primal", "crammer-singer"],
)
def test_it_is_a_linear_machine_on_unary_features(counts, params, n_classes, as_sparse):
    X, y, Z = counts
    y = y if n_classes == 10 else (y > 4).astype(int)
    form = sparse.csr_matrix if as_sparse else np.asarray
    model = IntersectionSVC(C=0.01, **params, **TIGHT).fit(form(X), y)
    peer = {name: value for name, value in params.items() if name != "solver"}
    expected = linear(reference.unary(X, 16), y, C=0.01, **peer)
    found = model.decision_function(form(Z))
    assert_allclose(found, expected.decision_function(reference.unary(Z, 16)), atol=2e-5)
    assert model.tables_.shape == (1 if n_classes == 2 else 10, 64, 17)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_indicators_have_curves_between_their_two_values(counts, multi_class, as_sparse):
    X, y, Z = counts
    X = X.copy()
    X[:, ::2] = np.where(X[:, ::2] > 5, 12.0, 0.0)
    form = sparse.csr_matrix if as_sparse else np.asarray
    model = IntersectionSVC(C=0.01, multi_class=multi_class, **TIGHT).fit(form(X), y)
    peer = {} if multi_class == "ovr" else {"multi_class": multi_class}
    expected = linear(reference.unary(X, 16), y, C=0.01, **peer)
    assert_allclose(
        model.decision_function(form(Z)),
        expected.decision_function(
            reference.unary(np.where(X.max(axis=0) < Z, X.max(axis=0), Z), 16)
        ),
        atol=2e-5,
    )


def test_weights_count_as_costs(counts):
    X, y, Z = counts
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    expected = linear(reference.unary(np.repeat(X, weights.astype(int), axis=0), 16),
                      np.repeat(y, weights.astype(int)), C=0.01)  # fmt: skip
    for solver in ("dual", "primal"):
        model = IntersectionSVC(C=0.01, solver=solver, **TIGHT).fit(X, y, sample_weight=weights)
        assert_allclose(
            model.decision_function(Z),
            expected.decision_function(reference.unary(Z, 16)), atol=2e-5,
        )  # fmt: skip


def test_real_numbers_are_quantised_as_in_the_paper():
    X = np.random.default_rng(0).normal(size=(300, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = IntersectionSVC(C=0.01, n_bins=20, clip_quantile=0.9, **TIGHT).fit(X, y)
    codes = reference.quantise(X, 20, 0.9)
    assert_array_equal(model.quantiser_.encode(X).values.reshape(X.shape), codes)
    expected = linear(reference.unary(codes, 20), y, C=0.01)
    assert_allclose(
        model.decision_function(X),
        expected.decision_function(reference.unary(codes, 20)),
        atol=2e-5,
    )


def test_sparse_data_are_quantised_as_dense():
    rng = np.random.default_rng(0)
    for low in (0.0, -0.5):
        X = (rng.random((300, 6)) + low) * (rng.random((300, 6)) < 0.02)
        y = np.arange(300) % 2
        dense = IntersectionSVC(**TIGHT).fit(X, y)
        stored = IntersectionSVC(**TIGHT).fit(sparse.csr_matrix(X), y)
        assert_allclose(stored.quantiser_.span, dense.quantiser_.span)
        assert_allclose(
            stored.decision_function(sparse.csr_matrix(X)), dense.decision_function(X), atol=1e-6
        )


@pytest.mark.parametrize("as_sparse", [False, True])
def test_positive_values_count_where_most_are_zero_and_some_negative(as_sparse):
    rng = np.random.default_rng(0)
    n = 2000
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 30)) * (rng.random((n, 30)) < 0.02)
    X[:, 0] = y * (rng.random(n) < 0.6) * rng.random(n)
    model = IntersectionSVC(random_state=0).fit(sparse.csr_matrix(X) if as_sparse else X, y)
    assert model.score(X, y) > 0.75
    top = np.quantile(X[X > 0], 0.975, method="inverted_cdf")
    assert_allclose(model.quantiser_.low + model.quantiser_.span, top)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("intercept", ["free", True, False])
def test_kernel_matrix_bins_and_hats_are_ways_to_the_same(
    digits, monkeypatch, loss, as_sparse, intercept
):
    X, y = digits
    form = sparse.csr_matrix if as_sparse else np.asarray
    decisions = []
    for kind in (GRAM, BINS, HATS):
        monkeypatch.setattr(dual_descent, "cheapest_kind", lambda rows, n, kind=kind: kind)
        model = IntersectionSVC(C=0.01, loss=loss, tol=0.01, fit_intercept=intercept)
        decisions.append(model.fit(form(X), y).decision_function(form(X)))
    assert np.any(decisions[0] != decisions[1])
    assert np.any(decisions[1] != decisions[2])
    assert_allclose(decisions[0], decisions[1], atol=0.02)
    assert_allclose(decisions[1], decisions[2], atol=0.02)


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
@pytest.mark.parametrize("n_rows", [150, 400])
def test_rows_of_zeros_do_not_keep_it_going(counts, multi_class, n_rows):
    X, y, _ = counts
    X, y = X[:n_rows].copy(), y[:n_rows]
    X[::10] = 0.0
    model = IntersectionSVC(multi_class=multi_class, random_state=0).fit(X, y)
    assert model.stop_reason_ == "converged"
    rest = X.any(axis=1)
    assert model.score(X[rest], y[rest]) > 0.9


@pytest.mark.parametrize("n_rows", [100, 200])
def test_newton_steps_end_where_they_no_longer_help(digits, n_rows):
    """Small problems are solved beyond ``tol``; that rounding ends this is no failure to converge."""
    X, y = digits
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = IntersectionSVC(solver="primal").fit(X[:n_rows], y[:n_rows])
    assert model.stop_reason_ == "converged"
    assert np.max(model.n_iter_) < 50
    dual = IntersectionSVC(fit_intercept=False, random_state=0).fit(X[:n_rows], y[:n_rows])
    assert_allclose(model.tables_, dual.tables_, rtol=0, atol=1e-9)


def test_unseen_values_count_as_the_nearest_seen(counts):
    X, y, _ = counts
    model = IntersectionSVC(**TIGHT).fit(X, y)
    far = np.where(X == 16, 1000.0, X)
    assert_array_equal(model.decision_function(far), model.decision_function(X))
    assert_array_equal(model.decision_function(-1.0 * (X == 0) + X), model.decision_function(X))


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_explanations_add_up(digits, multi_class):
    X, y = digits
    model = IntersectionSVC(multi_class=multi_class, random_state=0).fit(X, y)
    total = model.explain(X[:50]).sum(axis=2) + model.intercept_
    assert_allclose(total, model.decision_function(X[:50]), rtol=1e-6, atol=1e-6)


def test_accuracy_hardly_depends_on_the_cost(digits):
    """Figure 1 of the paper: a large C does no harm."""
    X, y = digits
    scores = [
        IntersectionSVC(C=C, random_state=0, max_iter=5000)
        .fit(X[:1000], y[:1000])
        .score(X[1000:], y[1000:])
        for C in (1e-4, 1e-3, 1e-2, 1e-1)
    ]
    assert max(scores) - min(scores) < 0.04
    assert min(scores) > 0.88


def test_it_agrees_with_a_general_solver(digits):
    X, y = digits
    X = np.round(16 * X)
    y = y % 2
    K = reference.sum_over_features(np.minimum, X, X)
    exact = SVC(kernel="precomputed", C=0.01).fit(K[:1000, :1000], y[:1000])
    model = IntersectionSVC(C=0.01, loss="hinge", random_state=0).fit(X[:1000], y[:1000])
    difference = model.score(X[1000:], y[1000:]) - exact.score(K[1000:, :1000], y[1000:])
    assert abs(difference) < 0.01


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_bins": 0}, "n_bins: must be"),
        ({"n_bins": 10**5}, "n_bins: must be at most 65,535"),
        ({"clip_quantile": 1.5}, "clip_quantile: must be at most 1"),
        ({"clip_quantile": 0}, "clip_quantile: must be greater"),
        ({"solver": "sgd"}, "solver: must be one of"),
        ({"multi_class": "ovo"}, "multi_class: must be one of"),
        ({"solver": "primal", "loss": "hinge"}, "solver: the primal problem with loss='hinge'"),
    ],
)
def test_bad_parameters(digits, params, message):
    with pytest.raises(ValueError, match=message):
        IntersectionSVC(**params).fit(*digits)
