"""`KernelKMeans` against scikit-learn's k-means, brute force, and on odd data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

import widemargin
from widemargin.divide import KernelKMeans


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(600, n_features=3, centers=5, cluster_std=0.7, random_state=1)[0]


def test_it_is_a_public_name():
    assert widemargin.divide.KernelKMeans is KernelKMeans
    assert "KernelKMeans" in dir(widemargin.divide)
    with pytest.raises(AttributeError, match="nothing"):
        _ = widemargin.divide.nothing


def test_linear_kernel_gives_the_clusters_of_scikit_learn(blobs):
    model = KernelKMeans(5, kernel="linear", n_init=10).fit(blobs)
    peer = KMeans(5, n_init=10, random_state=0).fit(blobs)
    assert adjusted_rand_score(model.labels_, peer.labels_) == 1.0
    assert_allclose(model.inertia_, peer.inertia_, rtol=1e-4)
    new = blobs + 0.1
    assert adjusted_rand_score(model.predict(new), peer.predict(new)) == 1.0


@pytest.mark.parametrize("sample_size", [60, 600])
def test_rows_join_the_nearest_mean_in_kernel_space(blobs, sample_size):
    model = KernelKMeans(7, gamma=0.5, sample_size=sample_size).fit(blobs)
    K = rbf_kernel(blobs, blobs[model.sample_], gamma=0.5)
    own = model.labels_[model.sample_]
    distances = np.empty((len(blobs), 7))
    for c in range(7):
        norm = K[model.sample_][np.ix_(own == c, own == c)].mean()
        distances[:, c] = 1.0 - 2.0 * K[:, own == c].mean(axis=1) + norm
    assert len(model.sample_) == sample_size
    assert_allclose(
        distances[np.arange(len(blobs)), model.labels_], distances.min(axis=1), atol=1e-5
    )
    assert_allclose(model.inertia_, distances.min(axis=1).sum(), rtol=1e-4)
    assert_array_equal(model.predict(blobs), model.labels_)


def test_more_starts_are_no_worse(blobs):
    inertia = [KernelKMeans(9, gamma=0.5, n_init=n).fit(blobs).inertia_ for n in (1, 20)]
    assert inertia[1] <= inertia[0]


def test_precomputed_and_sparse_give_the_same_clusters(blobs):
    model = KernelKMeans(5, gamma=0.5, sample_size=200).fit(blobs)
    K = rbf_kernel(blobs, gamma=0.5)
    given = KernelKMeans(5, kernel="precomputed", sample_size=200).fit(K)
    assert_array_equal(given.labels_, model.labels_)
    assert_array_equal(given.predict(K[:50]), model.labels_[:50])
    thin = KernelKMeans(5, gamma=0.5, sample_size=200).fit(sparse.csr_matrix(blobs))
    assert_array_equal(thin.labels_, model.labels_)
    assert_array_equal(thin.predict(blobs), model.labels_)


def test_the_number_of_threads_does_not_matter(blobs):
    one, two = (KernelKMeans(5, gamma=0.5, n_jobs=n).fit(blobs) for n in (1, 2))
    assert_array_equal(one.labels_, two.labels_)
    assert one.inertia_ == two.inertia_


def test_equal_rows_are_one_cluster():
    model = KernelKMeans(3, gamma=1.0).fit(np.ones((20, 2)))
    assert_array_equal(model.labels_, 0)
    assert_allclose(model.inertia_, 0.0, atol=1e-5)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 601}, "n_clusters: 601 clusters need as many rows"),
        ({"sample_size": 0}, "sample_size"),
        ({"n_init": 0}, "n_init"),
        ({"kernel": "magic"}, "kernel"),
        ({"kernel": "chi2"}, "Negative values in data X"),
    ],
)
def test_bad_parameters(blobs, params, message):
    with pytest.raises(ValueError, match=message):
        KernelKMeans(**params).fit(blobs)
