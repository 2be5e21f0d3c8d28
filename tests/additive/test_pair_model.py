"""`AdditiveSVC` with interactions: curves of features and surfaces of some pairs."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

import widemargin
from tests.reference import kernels as formulas
from widemargin import AdditiveSVC
from widemargin.additive import pair_cells
from widemargin.export import to_c, to_onnx

ONE = {"n_jobs": 1, "random_state": 0}


def interacting(n=400, d=5, seed=0):
    """Counts from 0 to 9 whose class depends on two of them together."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 10, (n, d)).astype(np.float64)
    return X, ((X[:, 1] > 4) != (X[:, 3] > 4)).astype(int)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
@pytest.mark.parametrize("scaling", [None, "max"])
def test_equals_the_exact_svm_with_the_product_kernel(kernel, scaling, monkeypatch):
    monkeypatch.setattr(pair_cells, "MAX_RANK", 1000)
    monkeypatch.setattr(pair_cells, "TRACE_SHARE", 1e-9)
    X, y = interacting(150)
    y[:20] = 1 - y[:20]
    X[:, 0] *= 1.0 if scaling is None else 100.0
    model = AdditiveSVC(
        kernel=kernel, interactions=2, C=0.5, loss="hinge", tol=1e-6, max_iter=100_000, rank=64,
        scaling=scaling, n_bins=1000, **ONE,
    ).fit(X, y)  # fmt: skip
    assert model.interactions_.shape == (2, 2)
    seen = X if scaling is None else X / X.max(axis=0)
    values = [getattr(formulas, kernel)(seen[:, [j]]) for j in range(5)]
    curves = sum(values)
    pairs = sum(values[i] * values[j] for i, j in model.interactions_)
    K = curves + np.diag(curves).mean() / np.diag(pairs).mean() * pairs
    theirs = SVC(kernel="precomputed", C=0.5, tol=1e-8).fit(K, y)
    assert_allclose(model.decision_function(X), theirs.decision_function(K), atol=5e-3)


def test_pairs_that_interact_are_found_and_help():
    X, y = interacting()
    Z, z = interacting(1000, seed=1)
    curves = AdditiveSVC(**ONE).fit(X, y)
    pairs = AdditiveSVC(interactions=1, **ONE).fit(X, y)
    assert_array_equal(pairs.interactions_, [[1, 3]])
    assert pairs.score(Z, z) > 0.9 > 0.6 > curves.score(Z, z)
    assert not hasattr(pairs.set_params(interactions=0).fit(X, y), "interactions_")


@pytest.mark.parametrize("labels", [2, 3])
def test_shares_of_features_and_pairs_add_up_to_the_decision(labels):
    X, _ = interacting()
    y = (X[:, 0] * X[:, 1]).astype(int) // 20 % labels
    model = AdditiveSVC(interactions=3, **ONE).fit(X, y)
    shares = model.explain(X)
    assert shares.shape == ((400, 8) if labels == 2 else (400, 3, 8))
    total = shares.sum(axis=-1) + (model.intercept_[0] if labels == 2 else model.intercept_)
    assert_allclose(total, model.decision_function(X), atol=1e-9)
    # Without the mean that belongs to no feature, surfaces have none of the curves left.
    means = np.array([
        [share[X[:, j] == value].mean() for value in range(10)]
        for k, pair in enumerate(model.interactions_)
        for share in [shares[..., 5 + k].reshape(400, -1)[:, 0]]
        for j in pair
    ])  # fmt: skip
    assert np.abs(means).max() < 0.5 * np.abs(shares[..., 5:]).max()


def test_surfaces_have_mean_zero_and_are_in_the_units_of_the_data():
    X, y = interacting()
    model = AdditiveSVC(interactions=2, **ONE).fit(X, y)
    for (i, j), (first, second, heights) in zip(
        model.interactions_, model.interaction_functions(), strict=True
    ):
        assert_allclose(first, np.arange(10))
        shares = [np.bincount(X[:, f].astype(int), minlength=10) / len(X) for f in (i, j)]
        assert_allclose(heights @ shares[1], 0.0, atol=1e-9)
        assert_allclose(shares[0] @ heights, 0.0, atol=1e-9)
        # A row has what the surface has at its values.
        at = np.searchsorted(second, X[0, j])
        k = [tuple(pair) for pair in model.interactions_].index((i, j))
        shown = model.explain(X[:1])[0, 5 + k]
        assert_allclose(shown, heights[np.searchsorted(first, X[0, i]), at], atol=1e-9)


def test_centred_data_keep_their_units():
    X, y = interacting()
    X = X - X.mean(axis=0)
    with pytest.warns(UserWarning, match="the data are centred"):
        model = AdditiveSVC(interactions=1, **ONE).fit(X, y)
    first, _, _ = model.interaction_functions()[0]
    assert_allclose(first[[0, -1]], [X[:, 1].min(), X[:, 1].max()], atol=0.4)
    assert model.score(X, y) > 0.9


def test_sparse_and_dense_data_give_the_same_model():
    """Numbers are added in another order, in float32."""
    X, y = interacting()
    dense = AdditiveSVC(interactions=2, **ONE).fit(X, y)
    thin = AdditiveSVC(interactions=2, **ONE).fit(sparse.csr_matrix(X), y)
    assert_allclose(
        thin.decision_function(sparse.csr_matrix(X)), dense.decision_function(X), atol=1e-5
    )


def test_more_pairs_than_there_are():
    X, y = interacting(d=4)
    assert len(AdditiveSVC(interactions=100, **ONE).fit(X, y).interactions_) == 6
    alone = AdditiveSVC(interactions=3, **ONE).fit(X[:, :1], y)
    assert alone.interaction_functions() == []
    assert alone.explain(X[:, :1]).shape == (400, 1)


def test_models_are_saved_and_loaded(tmp_path):
    X, y = interacting()
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = AdditiveSVC(interactions=2, **ONE).fit(frame, y)
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert_array_equal(loaded.interactions_, model.interactions_)
    assert_array_equal(loaded.decision_function(frame), model.decision_function(frame))
    for mine, theirs in zip(
        loaded.interaction_functions(), model.interaction_functions(), strict=True
    ):
        for a, b in zip(mine, theirs, strict=True):
            assert_array_equal(a, b)


def test_what_pairs_cannot_do_is_refused(tmp_path, monkeypatch):
    X, y = interacting()
    with pytest.raises(ValueError, match="interactions: not available with a callable kernel"):
        AdditiveSVC(kernel=lambda x, y: x * y, interactions=1).fit(X, y)
    assert not hasattr(AdditiveSVC(interactions=1), "partial_fit")
    assert hasattr(AdditiveSVC(), "partial_fit")
    with pytest.raises(ValueError, match="interactions: fit_chunks cannot choose pairs"):
        AdditiveSVC(interactions=1).fit_chunks([(X, y)])
    with pytest.raises(ValueError, match="interactions"):
        AdditiveSVC(interactions=-1).fit(X, y)
    model = AdditiveSVC(interactions=1, **ONE).fit(X, y)
    with pytest.raises(ValueError, match="surfaces of pairs of features cannot be exported"):
        to_c(model, tmp_path / "model.c")
    with pytest.raises(ValueError, match="surfaces of pairs of features cannot be exported"):
        to_onnx(model)
    monkeypatch.setattr("widemargin.additive.pairs_mixin.free_bytes", lambda: 100)
    with pytest.raises(
        ValueError, match=r"interactions: the curves of 5 columns .* would take 0\.0 GiB"
    ):
        AdditiveSVC(interactions=1).fit(sparse.csr_matrix(X), y)


def test_sgd_and_limits():
    X, y = interacting()
    model = AdditiveSVC(interactions=1, solver="sgd", **ONE).fit(X, y)
    assert model.score(X, y) > 0.8
    in_time = AdditiveSVC(interactions=1, max_time=20.0, **ONE).fit(X, y)
    assert in_time.score(X, y) > 0.9


def test_weight_two_is_a_repeated_row():
    """The two fits have the same optimum and differ by what the tolerance of the solver leaves.

    With the default, tol=0.1, decisions differ by about 0.01; with tol=1e-6 by about 2e-7.
    """
    X, y = interacting(100)
    weights = np.random.default_rng(0).integers(1, 4, 100)
    model = AdditiveSVC(interactions=2, tol=1e-6, max_iter=100_000, **ONE)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), y.repeat(weights))
    assert_array_equal(weighted.interactions_, repeated.interactions_)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=2e-6)


@pytest.mark.parametrize(
    "check", [check_sample_weight_equivalence_on_dense_data,
              check_sample_weight_equivalence_on_sparse_data]
)  # fmt: skip
def test_weights_pass_the_checks_of_scikit_learn(check):
    """These compare decisions to 1e-7, so the solver needs a smaller tolerance than its default."""
    check("AdditiveSVC", AdditiveSVC(interactions=2, tol=1e-9, max_iter=100_000, **ONE))


def test_columns_of_different_units_are_scaled_by_default():
    X, y = interacting()
    units = np.array([1.0, 1e4, 1.0, 1e-3, 1.0])
    model = AdditiveSVC(interactions=1, **ONE).fit(X * units, y)
    assert model.scaling_ == "range"
    assert_array_equal(model.interactions_, [[1, 3]])
    asked = AdditiveSVC(interactions=1, scaling="range", **ONE).fit(X * units, y)
    assert_array_equal(model.decision_function(X * units), asked.decision_function(X * units))
    Z, z = interacting(1000, seed=1)
    assert model.score(Z * units, z) > 0.9
    first, second, _ = model.interaction_functions()[0]
    assert_allclose(first, np.arange(10) * 1e4, atol=0.1 * 1e4)
    assert_allclose(second, np.arange(10) * 1e-3, atol=0.1 * 1e-3)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_units_of_measurements_do_not_matter(kernel):
    rng = np.random.default_rng(0)
    X = rng.random((300, 5))
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 0.7).astype(int)
    factors = 2.0 ** np.array([3, -4, 0, 7, -1])
    model = AdditiveSVC(kernel=kernel, interactions=2, scaling="max", **ONE)
    expected = clone(model).fit(X, y)
    model.fit(X * factors, y)
    assert_array_equal(model.interactions_, expected.interactions_)
    assert_array_equal(model.decision_function(X * factors), expected.decision_function(X))
    assert_array_equal(model._model.heights, expected._model.heights)


def test_one_feature_has_no_pairs(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 1)), rng.integers(0, 2, 60)
    model = AdditiveSVC(interactions=3).fit(X, y)
    assert model.interactions_.shape == (0, 2)
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("unit", [1e-136, 1e-84, 1e-20, 1e10])
@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_the_unit_of_the_features_does_not_matter(unit, kernel):
    rng = np.random.default_rng(0)
    X = rng.random((200, 3))
    y = (X[:, 0] - 0.5) * (X[:, 1] - 0.5) > 0
    model = AdditiveSVC(kernel=kernel, interactions=1, scaling="max" if unit < 1 else None)
    expected = model.fit(X, y).decision_function(X)
    model.set_params(scaling="auto").fit(unit * X, y)
    found = model.decision_function(unit * X)
    assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    assert model.interactions_.tolist() == [[0, 1]]


def test_products_of_tiny_kernels_do_not_vanish():
    X = 1e-136 * np.random.default_rng(0).random((100, 2))
    y = X[:, 0] > X[:, 1]
    model = AdditiveSVC(interactions=1, scaling=None).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
