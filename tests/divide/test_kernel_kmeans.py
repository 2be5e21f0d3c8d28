"""Two-step kernel k-means: against plain k-means, by hand, and on data that make it hard."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from tests.counting import CountingKernel
from tests.reference import kernels as formulas
from widemargin.divide.kernel_kmeans import (
    CENTRAL_POINTS,
    MERGED_SHARE,
    Sampling,
    divide_points,
    find_central,
    kernel_kmeans,
    merge_groups,
)
from widemargin.kernels import RBF, CallableKernel, Chi2, Intersection, Linear, Poly, Precomputed
from widemargin.parallel import Workers, open_workers

ALONE = Workers(1, None)


def rng():
    return np.random.default_rng(0)


def divide(
    kernel, X, n_clusters, sample_size=300, candidates=None, workers=ALONE, seed=0, max_bytes=10**8,
    is_plain=False,
):  # fmt: skip
    points = kernel.prepare(X)
    candidates = np.arange(len(X)) if candidates is None else candidates
    sampling = Sampling(candidates, sample_size, max_bytes, np.random.default_rng(seed), is_plain)
    return points, *divide_points(kernel, points, n_clusters, sampling, workers)


def distances_to_means(K_query, K_sample, groups, on_sphere=False):
    """Squared distances in kernel space, less k(x, x), straight from the definition.

    On the sphere, the negative cosine of the angle to the mean.
    """
    columns = []
    for g in range(groups.max() + 1):
        inside = groups == g
        norm, mean = K_sample[np.ix_(inside, inside)].mean(), K_query[:, inside].mean(axis=1)
        columns.append(-mean / np.sqrt(norm) if on_sphere else norm - 2 * mean)
    return np.stack(columns, axis=1)


def spread(K, groups):
    distances = distances_to_means(K, K, groups)[np.arange(len(K)), groups]
    return float(np.sum(K.diagonal() + distances))


def test_linear_kernel_gives_plain_kmeans():
    X, _ = make_blobs(200, centers=5, cluster_std=0.5, random_state=0)
    K = X @ X.T
    groups = kernel_kmeans(K.astype(np.float32), 5, rng(), n_starts=10)
    plain = KMeans(5, n_init=10, random_state=0).fit(X)
    assert_allclose(spread(K, groups), plain.inertia_, rtol=1e-4)
    assert adjusted_rand_score(groups, plain.labels_) == 1.0


@pytest.mark.parametrize("on_sphere", [False, True])
@pytest.mark.parametrize("n_clusters", [1, 2, 7, 40])
def test_every_sampled_point_is_with_its_mean(n_clusters, on_sphere):
    X = rng().normal(size=(80, 3))
    K = formulas.rbf(X, gamma=0.5)
    groups = kernel_kmeans(K.astype(np.float32), n_clusters, rng(), on_sphere)
    assert_array_equal(np.unique(groups), np.arange(groups.max() + 1))
    distances = distances_to_means(K, K, groups, on_sphere)
    assert_allclose(distances[np.arange(80), groups], distances.min(axis=1), atol=1e-5)


def test_merged_groups_are_even_and_do_not_cut_what_belongs_together():
    kinds = np.repeat(np.arange(30), 10)
    K = np.where(kinds[:, None] == kinds, np.float32(0.5), np.float32(0.0))
    np.fill_diagonal(K, 1.0)
    groups = np.unique(3 * kinds + rng().integers(3, size=300), return_inverse=True)[1]
    parts = merge_groups(K, groups, 7)
    clusters = parts[groups]
    assert_array_equal(np.unique(parts), np.arange(7))
    assert all(len(np.unique(clusters[kinds == kind])) == 1 for kind in range(30))
    assert np.bincount(clusters).max() <= MERGED_SHARE * 300 / 7


@pytest.mark.parametrize("n_parts", [1, 5, 12, 40])
def test_groups_are_merged_into_as_many_parts_as_wanted(n_parts):
    K = formulas.rbf(rng().normal(size=(120, 2)), gamma=0.5).astype(np.float32)
    # One group is larger than any part should be: then it is left alone.
    groups = np.maximum(rng().integers(-12, 12, size=120), 0)
    parts = merge_groups(K, groups, n_parts)
    assert_array_equal(np.unique(parts), np.arange(min(n_parts, 12)))
    if n_parts == 5:
        assert np.count_nonzero(parts == parts[0]) == 1


def test_each_merger_is_of_the_two_that_are_closest():
    X = rng().normal(size=(60, 2))
    K, groups = formulas.rbf(X, gamma=0.5).astype(np.float32), np.arange(60) // 5
    expected = [set(range(5 * g, 5 * g + 5)) for g in range(12)]
    while len(expected) > 4:
        pairs = [(a, b) for i, a in enumerate(expected) for b in expected[:i]]
        pairs = [pair for pair in pairs if len(pair[0] | pair[1]) <= MERGED_SHARE * 60 / 4]
        a, b = max(pairs, key=lambda pair: K[np.ix_(list(pair[0]), list(pair[1]))].mean())
        expected = [part for part in expected if part not in (a, b)] + [a | b]
    clusters = merge_groups(K, groups, 4)[groups]
    found = [set(np.flatnonzero(clusters == part)) for part in range(4)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))


@pytest.mark.parametrize("n_most", [1, 3, 100])
def test_central_points_are_nearest_to_the_mean_of_their_group(n_most):
    X, groups = rng().normal(size=(40, 3)), rng().permutation(np.arange(40) % 6)
    found = find_central(np.float32(X @ X.T), groups, n_most)
    expected = []
    for g in range(6):
        inside = np.flatnonzero(groups == g)
        distances = np.linalg.norm(X[inside] - X[inside].mean(axis=0), axis=1)
        expected += list(inside[np.argsort(distances)[:n_most]])
    assert_array_equal(found, np.sort(expected))


KERNELS = [
    RBF(0.5), Poly(0.5, 3, 1.0), Chi2(), Intersection(), Linear(),
    CallableKernel(lambda X, Z: X @ Z.T),
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_every_point_is_with_the_nearest_mean(kernel):
    X = rng().random((500, 4))
    points, partition, clusters = divide(kernel, X, 6, sample_size=60)
    assert not partition.children
    groups = np.repeat(np.arange(len(partition.part_of)), np.diff(partition.bounds))
    S = X[partition.sample]
    assert partition.on_sphere == isinstance(kernel, RBF)
    distances = distances_to_means(
        kernel.exact(X, S), kernel.exact(S, S), groups, partition.on_sphere
    )
    assert partition.n_clusters == 6 < len(partition.part_of)
    chosen = np.where(partition.part_of == clusters[:, None], distances, np.inf).min(axis=1)
    assert_allclose(chosen, distances.min(axis=1), atol=1e-5)
    sizes = np.diff(partition.bounds)
    assert np.unique(partition.sample).size == sizes.sum() <= 60
    assert sizes.min() >= 1
    assert sizes.max() == CENTRAL_POINTS
    assert_array_equal(clusters, partition.assign(kernel, points, np.arange(500), points, ALONE))


@pytest.mark.parametrize("kernel", [RBF(0.5), RBF(50.0), Poly(0.5, 3, 1.0), Linear()], ids=str)
def test_plain_clusters_are_the_groups_of_kmeans(kernel):
    """DC-SVM, divide step: k groups, and every point with the nearest mean in kernel space."""
    X = rng().normal(size=(3000, 4))
    _, partition, clusters = divide(kernel, X, 6, sample_size=60, is_plain=True)
    assert not partition.children
    assert not partition.on_sphere
    assert_array_equal(partition.part_of, np.arange(6))
    groups = np.repeat(np.arange(6), np.diff(partition.bounds))
    S = X[partition.sample]
    distances = distances_to_means(kernel.exact(X, S), kernel.exact(S, S), groups)
    chosen = distances[np.arange(len(X)), clusters]
    assert_allclose(chosen, distances.min(axis=1), atol=1e-5 * np.abs(distances).max())


def test_precomputed_kernel_is_divided_like_the_one_it_was_computed_with():
    X = rng().normal(size=(300, 2))
    _, _, expected = divide(RBF(0.5), X, 5)
    _, _, clusters = divide(Precomputed(), RBF(0.5)(X), 5)
    assert adjusted_rand_score(expected, clusters) > 0.99


def test_samples_fit_into_memory(entries):
    X = rng().normal(size=(2000, 2))
    _, partition, clusters = divide(CountingKernel(0.5), X, 4, sample_size=10**9, max_bytes=80_000)
    assert len(partition.sample) <= 100
    assert entries[0] == 100**2
    assert set(clusters) == set(range(partition.n_clusters))


@pytest.mark.parametrize("kernel", [RBF(0.05), Chi2(), Intersection()], ids=lambda k: k.name)
def test_answers_do_not_depend_on_the_number_of_threads(kernel):
    X = rng().random((5000, 20))
    _, _, expected = divide(kernel, X, 16)
    with open_workers(3) as workers:
        _, _, clusters = divide(kernel, X, 16, workers=workers)
    assert_array_equal(clusters, expected)
    assert not np.array_equal(expected, divide(kernel, X, 16, seed=1)[2])


def test_unseen_points_find_their_cluster():
    X, y = make_blobs(600, centers=4, cluster_std=0.3, random_state=1)
    kernel = RBF(0.1)
    points, partition, clusters = divide(kernel, X[:400], 4)
    assert adjusted_rand_score(clusters, y[:400]) == 1.0
    queries = kernel.prepare(X[400:], like=points)
    found = partition.assign(kernel, queries, np.arange(200), points, ALONE)
    assert adjusted_rand_score(np.r_[clusters, found], y) == 1.0


def test_samples_come_from_the_candidates():
    X = rng().normal(size=(200, 2))
    candidates = np.arange(50, 90)
    _, partition, _ = divide(RBF(1.0), X, 3, sample_size=20, candidates=candidates)
    assert set(partition.all_samples()) <= set(candidates)


@pytest.mark.parametrize(
    ("X", "n_found"),
    [
        (np.zeros((30, 2)), 1),
        (np.repeat([[0.0, 0.0], [5.0, 5.0]], 15, axis=0), 2),
        (np.arange(5.0)[:, None], 5),
        (np.ones((1, 3)), 1),
    ],
    ids=["equal", "two places", "fewer points", "one point"],
)
def test_odd_data(X, n_found):
    _, partition, clusters = divide(RBF(1.0), X, 8)
    assert partition.n_clusters == n_found
    assert set(clusters) == set(range(n_found))


def crowd():
    """Most points in one place, of which hardly any is a candidate to be sampled."""
    X = rng().normal(size=(4000, 2))
    X[:200] += 30.0
    return X, np.r_[:100, 3999]


def test_a_cluster_that_takes_nearly_everything_is_divided_again():
    X, candidates = crowd()
    points, partition, clusters = divide(RBF(0.1), X, 8, candidates=candidates)
    assert partition.children
    sizes = np.bincount(clusters, minlength=partition.n_clusters)
    flat = replace(partition, children={})
    before = np.bincount(flat.assign(RBF(0.1), points, np.arange(4000), points, ALONE))
    assert before.max() > 3700
    assert sizes.max() < 0.6 * before.max()
    assert sizes.sum() == 4000


def test_a_plain_cluster_that_takes_nearly_everything_is_not_divided_again():
    X, candidates = crowd()
    clusters = divide(RBF(0.1), X, 8, candidates=candidates, is_plain=True)[2]
    assert np.bincount(clusters).max() > 3700


def test_a_narrow_kernel_does_not_put_everything_in_one_cluster():
    X = rng().normal(size=(4000, 10))
    _, partition, clusters = divide(RBF(2.0), X, 8, sample_size=100)
    assert partition.n_clusters == 8
    assert np.bincount(clusters).max() < 1500


def test_renumbering_keeps_the_partition():
    X, candidates = crowd()
    kernel = RBF(0.1)
    points, partition, clusters = divide(kernel, X, 8, candidates=candidates)
    assert partition.children
    used = np.unique(partition.all_samples())
    position = np.zeros(4000, int)
    position[used] = np.arange(len(used))
    samples = kernel.prepare(X[used], like=points)
    found = partition.renumber(position).assign(kernel, points, np.arange(4000), samples, ALONE)
    assert_array_equal(found, clusters)
