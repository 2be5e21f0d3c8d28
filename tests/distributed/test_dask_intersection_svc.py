"""DaskIntersectionSVC on a real cluster, compared with IntersectionSVC on the gathered rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

import widemargin
from widemargin import IntersectionSVC
from widemargin.distributed import DaskIntersectionSVC

da = pytest.importorskip("dask.array", reason="needs the extra 'dask'")


@pytest.fixture(scope="module")
def digits():
    """Some digits, with values that are not whole numbers and some that are negative."""
    X, y = load_digits(n_class=3, return_X_y=True)
    return X + np.random.default_rng(0).normal(size=X.shape), y


def as_arrays(*values, rows=200):
    return [da.from_array(array, chunks=(rows, *array.shape[1:])) for array in values]


def check_both(model, local, X):
    """The bins are equal, and the curves are those of a fit to a smaller tolerance."""
    np.testing.assert_array_equal(model.quantiser_.low, local.quantiser_.low)
    np.testing.assert_array_equal(model.quantiser_.span, local.quantiser_.span)
    assert pytest.approx(local.C_) == model.C_
    assert model.stop_reason_ == "converged"
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=0.02)
    np.testing.assert_allclose(model.explain(X[:9]), local.explain(X[:9]), atol=0.01)


@pytest.mark.parametrize("unit", [np.ones(64), np.logspace(0, 3, 64)], ids=["one", "own"])
def test_bins_end_at_the_quantiles_of_all_rows(client, digits, unit):
    X, y = digits[0] * unit, digits[1]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = DaskIntersectionSVC(tol=0.01).fit(*as_arrays(X, y, weights))
    local = IntersectionSVC(tol=1e-3).fit(X, y, weights)
    assert model.scaling_ == local.scaling_ == ("max" if unit[-1] > 1 else None)
    check_both(model, local, X)


def test_whole_numbers_in_sparse_chunks(client):
    X, y = load_digits(n_class=3, return_X_y=True)
    rows, labels = as_arrays(X.astype(np.float32), y)
    csr = rows.map_blocks(sparse.csr_matrix, dtype=np.float32)
    model = DaskIntersectionSVC(tol=0.01, fit_intercept=False).fit(csr, labels)
    local = IntersectionSVC(tol=1e-3, fit_intercept=False).fit(X, y)
    check_both(model, local, X)
    np.testing.assert_array_equal(model.predict(csr).compute(), model.predict(X))


def test_the_hinge_loss(client, digits):
    X, y = digits[0], digits[1] == 1
    model = DaskIntersectionSVC(loss="hinge", tol=0.05).fit(*as_arrays(X, y, rows=400))
    local = IntersectionSVC(loss="hinge", tol=1e-3).fit(X, y)
    assert model.stop_reason_ == "converged"
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=0.1)


def test_the_local_estimator_has_the_same_answers(client, digits, tmp_path):
    X, y = digits
    local = DaskIntersectionSVC(client=client).fit(*as_arrays(X, y)).to_local()
    assert type(local) is IntersectionSVC
    widemargin.save(local, tmp_path / "model.wm")
    again = widemargin.load(tmp_path / "model.wm")
    np.testing.assert_array_equal(again.decision_function(X), local.decision_function(X))
    assert again.tables_.shape == (3, 64, 101)


def test_arguments_that_a_cluster_cannot_honour_are_refused(digits):
    refused = {"solver": "primal", "multi_class": "crammer_singer", "warm_start": True}
    for name, value in refused.items():
        with pytest.raises(ValueError, match=f"{name}: "):
            DaskIntersectionSVC(**{name: value}).fit(*digits)
