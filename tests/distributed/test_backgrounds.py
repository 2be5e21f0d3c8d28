"""What an early fit on a cluster uses, measured on held-out rows as DCSVC does."""

import numpy as np
import pytest

from widemargin import DCSVC, KernelSVC
from widemargin.distributed import DaskDCSVC
from widemargin.distributed.backgrounds import BackgroundRun, Tried

da = pytest.importorskip("dask.array", reason="needs the extra 'dask'")

EARLY = {"n_clusters": 4, "n_levels": 2, "stop_level": 2}


def draw(n_features, decide, noise=0.0):
    """Rows to fit and rows to test, with some labels changed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, n_features)).astype(np.float32)
    y = decide(X) ^ (rng.random(len(X)) < noise)
    return (X[:10_000], y[:10_000]), (X[10_000:], y[10_000:])


def fit(X, y, **params):
    blocks = da.from_array(X, chunks=(2500, X.shape[1])), da.from_array(y, chunks=2500)
    return DaskDCSVC(**EARLY, **params).fit(*blocks)


def test_clusters_alone_where_the_boundary_is_local(client):
    train, test = draw(3, lambda X: np.sin(6 * X[:, 0]) + np.sin(6 * X[:, 1]) > 0, 0.05)
    params = {"gamma": 8.0, "C": 5.0, "overlap": 0.0, "tol": 1e-4}
    model, local = fit(*train, **params), DCSVC(**EARLY, **params).fit(*train)
    assert model._parts.background is None
    assert local._parts.background is None
    assert model.levels_[-1].n_clusters == local.levels_[-1].n_clusters
    np.testing.assert_allclose(
        model.decision_function(test[0]), local.decision_function(test[0]), atol=1e-3
    )


def test_a_sample_where_clusters_miss_the_whole(client):
    train, test = draw(20, lambda X: X[:, 0] * X[:, 1] + X[:, 2] > 0)
    model = fit(*train, gamma=0.05)
    alone = fit(*train, gamma=0.05, background=0)
    assert model._parts.background is not None or model.levels_[-1].n_clusters == 1
    assert model.score(*test) > alone.score(*test)


@pytest.mark.parametrize(
    ("with_sample", "n_clusters", "has_background"), [(0.6, 1, False), (0.4, 16, True)]
)
def test_the_smaller_loss_decides(client, monkeypatch, with_sample, n_clusters, has_background):
    """Losses of 1.0 for clusters alone and 0.5 for a sample; another one for both."""

    def try_clusters(self, shares, background):
        of_cluster = 1.0 if background is None else with_sample
        return [Tried(0.5, of_cluster, 1.0, np.arange(5))]

    monkeypatch.setattr(BackgroundRun, "_try", try_clusters)
    train, test = draw(10, lambda X: X[:, 0] + X[:, 2] > 0, 0.1)
    model = fit(*train, gamma=0.002)
    assert model.level_ == 2
    assert model.levels_[-1].n_clusters == n_clusters
    assert (model._parts.background is not None) == has_background
    exact = KernelSVC(gamma=0.002, fit_intercept=False, tol=0.1).fit(*train)
    assert model.score(*test) == pytest.approx(exact.score(*test), abs=0.01)
