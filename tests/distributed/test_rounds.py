"""The optimum on a cluster, compared with KernelSVC on the gathered rows."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons

from widemargin import KernelSVC
from widemargin.callbacks import LevelProgress
from widemargin.distributed import DaskDCSVC

da = pytest.importorskip("dask.array", reason="needs the extra 'dask'")


def fit_both(X, y, rows, weights=None, **params):
    given = None if weights is None else da.from_array(weights, chunks=rows)
    model = DaskDCSVC(**params).fit(
        da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows), given
    )
    local = KernelSVC(**{"fit_intercept": False, "tol": 1e-5} | params).fit(X, y, weights)
    return model, local


@pytest.mark.parametrize(
    "params", [{"gamma": 2.0}, {"gamma": 2.0, "fit_intercept": True}, {"gamma": 0.1, "C": 100.0}]
)
def test_two_classes(client, params):
    X, y = make_moons(2500, noise=0.3, random_state=0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model, local = fit_both(X, y, 800, weights, tol=1e-3, **params)
    assert model.stop_reason_ == "converged"
    assert model.violation_ <= 1e-3
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-5)
    assert 0.0 <= model.duality_gap_ < 1e-3 * abs(model.objective_)
    assert np.mean(model.predict(X) == local.predict(X)) > 0.998
    np.testing.assert_allclose(model.intercept_, local.intercept_, atol=0.01)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes(client, multi_class):
    X, y = make_classification(
        1200, 6, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    model, local = fit_both(X, y, 400, gamma=0.2, multi_class=multi_class)
    np.testing.assert_allclose(model.objective_, local.objective_, rtol=1e-5)
    assert np.mean(model.predict(X) == local.predict(X)) > 0.995
    assert np.shape(model.violation_) == (3,)


def test_few_rows_have_no_levels(client):
    X, y = make_moons(120, noise=0.3, random_state=0)
    model, local = fit_both(X, y, 40, gamma=2.0)
    assert [level.level for level in model.levels_] == [0]
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-5)


def test_progress_is_reported_until_convergence(client):
    X, y = make_moons(1200, noise=0.3, random_state=0)
    seen = []
    model = DaskDCSVC(gamma=2.0, n_levels=2, callback=seen.append).fit(X, y)
    assert all(isinstance(state, LevelProgress) for state in seen)
    assert {state.level for state in seen} == {0, 1, 2}
    rounds = [state.violation for state in seen if state.level == 0 and state.violation is not None]
    assert rounds[0] > rounds[-1]
    assert rounds[-1] == model.violation_


def test_limits_leave_a_model(client):
    X, y = make_moons(2000, noise=0.3, random_state=0)
    with pytest.warns(UserWarning, match="max_iter"):
        model = DaskDCSVC(gamma=2.0, max_iter=50).fit(X, y)
    assert model.stop_reason_ == "max_iter"
    assert model.score(X, y) > 0.8
    with pytest.warns(UserWarning, match="max_time"):
        model = DaskDCSVC(gamma=2.0, max_time=1e-3).fit(X, y)
    assert model.stop_reason_ == "max_time"
