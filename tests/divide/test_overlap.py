"""Clusters that overlap, and queries that several clusters answer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons

from widemargin import DCSVC, KernelSVC
from widemargin.divide.cluster_models import EarlyModel, weigh_clusters
from widemargin.divide.overlap import add_copies, choose_copies
from widemargin.exact.dual_problem import classification_dual
from widemargin.parallel import Workers

ALONE = Workers(1, None)
PARAMS = {
    "C": 5.0, "gamma": 1.0, "n_clusters": 4, "n_levels": 1, "stop_level": 1, "tol": 1e-5,
    "background": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.25, random_state=0)


def test_the_nearest_points_of_other_clusters_are_chosen():
    clusters = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2], np.int32)
    nearest = np.array(
        [clusters, [1, 1, 1, 1, 0, 0, 0, 0, 0], [2, 2, 2, 2, 2, 2, 2, 2, 1]], np.int32
    )
    distances = np.array(
        [[0] * 9, [4, 1, 3, 2, 9, 5, 7, 6, 1], [10, 10, 10, 10, 10, 10, 10, 10, 2]], np.float32
    )
    # Point 8 is half as far from cluster 0 as from the last of its clusters, as is point 5.
    copies = choose_copies(clusters, nearest, distances, 0.5, int(clusters.max()) + 1)
    assert_array_equal(copies[0], [5, 8])
    assert_array_equal(copies[1], [1, 3])
    assert len(copies[2]) == 0
    # The last clusters may be empty.
    assert len(choose_copies(clusters, nearest, distances, 0.5, 5)) == 5


def test_copies_are_added_to_the_problems_they_are_in():
    duals = [
        classification_dual(
            np.array(index), np.ones(len(index)), np.ones(len(index)), intercept=False
        )
        for index in ([0, 2, 4, 5], [1, 3, 5])
    ]
    places = [[np.array([0, 1]), np.array([2, 3])], [np.array([0]), np.array([1, 2])]]
    joined = add_copies(duals, places, [np.array([3, 4]), np.array([0])], 6)
    assert_array_equal(joined[0][0], [0, 1, 2])
    assert_array_equal(joined[0][1], [0, 2, 3])
    assert_array_equal(joined[1][0], [0, 1])
    assert_array_equal(joined[1][1], [1, 2])


@pytest.mark.parametrize("intercept", [False, True])
def test_a_cluster_is_the_svm_of_its_points_and_the_copies(moons, intercept):
    X, y = moons
    model = DCSVC(**PARAMS, overlap=0.5, n_nearest=1, fit_intercept=intercept).fit(X, y)
    parts, n_own = model._parts, len(model.support_)
    assert len(parts.clusters) > n_own
    queries = model._model.prepare(X)
    clusters = model._model.find_clusters(queries, ALONE)
    narrow = model.kernel_.narrow
    nearest, distances = parts.partition.rank(
        model.kernel_, narrow(queries), np.arange(len(X)), narrow(model._model._samples), 4, ALONE
    )
    copies = choose_copies(clusters, nearest, distances, 0.5, int(clusters.max()) + 1)
    for c in range(model.levels_[-1].n_clusters):
        rows = np.union1d(np.flatnonzero(clusters == c), copies[c])
        assert len(rows) > np.count_nonzero(clusters == c)
        peer = KernelSVC(C=5.0, gamma=1.0, tol=1e-5, fit_intercept=intercept).fit(X[rows], y[rows])
        own = clusters == c
        assert_allclose(model.decision_function(X[own]), peer.decision_function(X[own]), atol=3e-3)


@pytest.mark.parametrize("n_nearest", [2, 3, 100])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_nearest_clusters_decide_by_weights(n_nearest, kernel):
    X, y = make_blobs(700, centers=7, cluster_std=2.0, random_state=3)
    X /= 10.0
    params = {**PARAMS, "kernel": kernel, "coef0": 1.0, "n_clusters": 16}
    model = DCSVC(**params, overlap=0.0, n_nearest=n_nearest).fit(X[:600], y[:600] % 3)
    queries = model._model.prepare(X[600:])
    parts, rows = model._parts, np.arange(100)
    n_used = min(n_nearest, model.levels_[-1].n_clusters // 4)
    nearest, distances = parts.partition.rank(
        model.kernel_, queries, rows, model._model._samples, n_used + 1, ALONE
    )
    spread = distances[-1] - distances[0]
    weights = ((distances[-1] - distances[:-1]) / spread) ** 4
    weights /= weights.sum(axis=0)
    alone = [
        DCSVC(**params, overlap=0.0, n_nearest=1)
        .fit(X[:600], y[:600] % 3)
        ._model._decide_cluster(c, queries, rows)
        for c in range(len(parts.intercept))
    ]
    expected = sum(
        weights[r][:, None] * np.stack(alone)[nearest[r], rows] for r in range(len(weights))
    )
    assert len(weights) == n_used > 1
    decisions = model._model.decide(X[600:], max_bytes=10**8, n_jobs=1)
    assert_allclose(decisions, expected, atol=1e-4)
    assert_array_equal(model._model.decide(X[600:], max_bytes=10**8, n_jobs=2), decisions)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_weights_do_not_depend_on_the_rows_beside_a_row(kernel):
    """Means of clusters whose distances from a row differ little, compared with kernel values."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((724, 14))
    y = X[:, 0] * X[:, 1] > 0.0
    X[:, 2:8] += 400.0
    params = {"kernel": kernel, "gamma": "scale", "degree": 4, "coef0": 1.0, "C": 1e-3}
    params |= {"n_clusters": 3, "n_levels": 1, "stop_level": 1, "fit_intercept": False}
    model = DCSVC(**params, background=0).fit(X, y)
    assert model.level_ == 1
    order = rng.permutation(len(X))
    decisions = model.decision_function(X)[order]
    # Decisions themselves are sums of float32 kernel values.
    slack = 2e-6 * np.abs(model.dual_coef_).sum() * model.kernel_.exact(X, X).max()
    assert_allclose(model.decision_function(X[order]), decisions, rtol=0, atol=slack)
    alone = [model.decision_function(X[row : row + 1])[0] for row in order[:50]]
    assert_allclose(alone, decisions[:50], rtol=0, atol=slack)


def test_weights():
    weights = weigh_clusters(
        np.array([[0.0, 5.0, 2.0], [1.0, 5.0, 2.0], [2.0, 5.0, 4.0]], np.float32)
    )
    assert_allclose(weights, [[16 / 17, 1.0, 0.5], [1 / 17, 0.0, 0.5]])
    assert_array_equal(weigh_clusters(np.array([[3.0, 4.0]], np.float32)), [[1.0, 1.0]])


def test_decisions_do_not_jump_between_clusters():
    X, y = make_blobs(700, centers=7, cluster_std=2.0, random_state=3)
    path = np.linspace(X.min(axis=0), X.max(axis=0), 20_001)
    params = {**PARAMS, "gamma": 0.1, "n_clusters": 12, "overlap": 0.0}
    jumps = {}
    for n_nearest in (1, 3):
        model = DCSVC(**params, n_nearest=n_nearest).fit(X, y % 2)
        jumps[n_nearest] = np.abs(np.diff(model.decision_function(path))).max()
    assert jumps[3] < 0.05 * jumps[1]


@pytest.mark.parametrize("intercept", [False, True])
def test_more_of_everything_than_there_is(moons, intercept):
    """Overlap larger than the data, more nearest clusters than clusters, clusters of one class."""
    X, _ = moons
    y = X[:, 0] > 1.0
    for more in ({"overlap": 1e9}, {"n_nearest": 10**9}, {"overlap": 100.0, "n_nearest": 50}):
        model = DCSVC(**PARAMS, **more, fit_intercept=intercept).fit(X, y)
        assert np.mean(model.predict(X) == y) > 0.97


def test_a_label_that_is_in_no_cluster_of_a_query():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.arange(400) // 100
    X += 20.0 * y[:, None]
    for more in ({}, {"n_nearest": 1, "overlap": 0.0}):
        model = DCSVC(**PARAMS, **more).fit(X, y)
        assert isinstance(model._model, EarlyModel)
        assert np.isin(model.predict(np.vstack([X, 1e3 * X])), y).all()
        assert np.mean(model.predict(X) == y) > 0.97


def test_all_rows_equal():
    model = DCSVC(**PARAMS).fit(np.ones((200, 2)), np.arange(200) % 2)
    assert np.isfinite(model.decision_function(np.ones((3, 2)))).all()
