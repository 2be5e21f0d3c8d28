"""DaskAdditiveSVC on a real cluster, compared with AdditiveSVC on the gathered rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

import widemargin
from widemargin import AdditiveSVC
from widemargin.distributed import DaskAdditiveSVC

da = pytest.importorskip("dask.array", reason="needs the extra 'dask'")


@pytest.fixture(scope="module")
def digits():
    """Some digits, with values that are not whole numbers."""
    X, y = load_digits(n_class=4, return_X_y=True)
    return np.abs(X + np.random.default_rng(0).normal(size=X.shape)), y


def as_arrays(X, y, rows=200):
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)


def find_objective(model, X, y, C):
    """Primal objective of a model with the squared hinge loss, from its table and coefficients."""
    table = model._table
    codes = model.quantiser_.encode(X, is_whole=True).values.reshape(X.shape)
    coef, scale = model.coef_[0] / np.sqrt(model._scales())[:, None], np.sqrt(model._scales())
    rows = np.einsum("ijr,j->ijr", table[codes], scale)
    margin = np.maximum(1.0 - y * (np.einsum("ijr,jr->i", rows, coef) + model.intercept_[0]), 0.0)
    return 0.5 * (coef**2).sum() + C * (margin**2).sum()


def test_the_objective_is_that_of_additive_svc(client, digits):
    X, y = digits[0], np.where(digits[1] < 2, -1, 1)
    model = DaskAdditiveSVC(C=0.01, tol=1e-3).fit(*as_arrays(X, y))
    local = AdditiveSVC(C=0.01, tol=1e-5, max_iter=10_000).fit(X, y)
    assert model.rank_ == local.rank_
    np.testing.assert_allclose(model.tables_, local.tables_, atol=1e-12)
    best = find_objective(local, X, y, 0.01)
    assert find_objective(model, X, y, 0.01) == pytest.approx(best, rel=1e-4)
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=0.02)


@pytest.mark.parametrize(
    "params", [{}, {"fit_intercept": True}, {"kernel": "intersection"}, {"scaling": "max"}]
)
def test_several_classes_with_default_parameters(client, digits, params):
    X, y = digits
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = DaskAdditiveSVC(tol=0.01, **params).fit(
        *as_arrays(X, y), da.from_array(weights, chunks=200)
    )
    local = AdditiveSVC(tol=1e-3, **params).fit(X, y, weights)
    assert pytest.approx(local.C_) == model.C_
    assert model.stop_reason_ == "converged"
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=0.1)
    np.testing.assert_allclose(model.explain(X[:9]), local.explain(X[:9]), atol=0.1)


def test_the_hinge_loss(client, digits):
    X, y = digits[0], digits[1] < 2
    params = {"loss": "hinge", "C": 0.001, "tol": 0.05}
    model = DaskAdditiveSVC(**params).fit(*as_arrays(X, y, 400))
    local = AdditiveSVC(**params | {"tol": 1e-3}).fit(X, y)
    assert model.stop_reason_ == "converged"
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=0.1)


def test_sparse_chunks_and_lazy_predictions(client, digits):
    X, y = np.where(digits[0] > 4.0, digits[0], 0.0), digits[1]
    rows, labels = as_arrays(X, y)
    csr = rows.map_blocks(sparse.csr_matrix, dtype=X.dtype)
    model = DaskAdditiveSVC().fit(csr, labels)
    found = model.predict(csr)
    assert found.chunks == (rows.chunks[0],)
    np.testing.assert_array_equal(found.compute(), model.predict(X))
    dense = DaskAdditiveSVC().fit(rows, labels)
    np.testing.assert_allclose(model.decision_function(X), dense.decision_function(X), atol=0.05)


def test_the_local_estimator_has_the_same_answers(client, digits, tmp_path):
    X, y = digits
    model = DaskAdditiveSVC(client=client).fit(*as_arrays(X, y))
    local = model.to_local()
    assert type(local) is AdditiveSVC
    widemargin.save(local, tmp_path / "model.wm")
    again = widemargin.load(tmp_path / "model.wm")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    curves = zip(model.shape_functions(), again.shape_functions(), strict=True)
    assert all(np.array_equal(a[1], b[1]) for a, b in curves)


def test_centred_data_are_moved_as_additive_svc_moves_them(client, digits):
    X, y = digits
    X = X - X.mean(axis=0)
    with pytest.warns(
        UserWarning, match="the data are centred; DaskAdditiveSVC subtracts"
    ) as caught:
        model = DaskAdditiveSVC(tol=0.01).fit(*as_arrays(X, y))
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="centred"):
        local = AdditiveSVC(tol=1e-3).fit(X, y)
    np.testing.assert_array_equal(model.origin_, local.origin_)
    np.testing.assert_array_equal(model.feature_ranges_, local.feature_ranges_)
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=0.1)
    mixed = X.copy()
    mixed[:, ::2] -= X[:, ::2].min(axis=0)
    with pytest.warns(UserWarning, match="have negative values|has negative values"):
        model = DaskAdditiveSVC(max_iter=5).fit(*as_arrays(mixed[:, 10:13], y))
    np.testing.assert_array_equal(model.origin_, np.minimum(mixed[:, 10:13].min(axis=0), 0.0))
    csr = as_arrays(X, y)[0].map_blocks(sparse.csr_matrix, dtype=X.dtype)
    with pytest.raises(ValueError, match="Negative values in data X, columns"):
        DaskAdditiveSVC().fit(csr, as_arrays(X, y)[1])


def test_limits_and_bad_input(client, digits):
    X, y = digits
    with pytest.warns(UserWarning, match="max_iter"):
        model = DaskAdditiveSVC(max_iter=3, tol=1e-6).fit(X, y)
    assert model.stop_reason_ == "max_iter"
    with pytest.raises(ValueError, match="Negative values in data X, columns"):
        DaskAdditiveSVC().fit(*as_arrays(-X, y))
    refused = {"solver": "sgd", "binning": "quantile", "warm_start": True, "interactions": 2}
    for params in ({name: value} for name, value in refused.items()):
        with pytest.raises(ValueError, match=f"{next(iter(params))}: "):
            DaskAdditiveSVC(**params).fit(X, y)
