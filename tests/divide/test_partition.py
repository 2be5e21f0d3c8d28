"""Partitions: the nearest clusters of points, also far from everything, and nested partitions."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.divide.test_kernel_kmeans import ALONE, crowd, distances_to_means, divide
from widemargin.kernels import RBF, Linear, Poly, Precomputed
from widemargin.parallel import open_workers


def flatten(partition, first=0):
    """Return the groups that are not divided again, each with its cluster, by hand."""
    groups, cluster = [], first
    for p in range(partition.n_parts):
        child = partition.children.get(p)
        if child is not None:
            groups += flatten(child, cluster)
            cluster += child.n_clusters
            continue
        for g in np.flatnonzero(partition.part_of == p):
            groups.append(
                (partition.sample[partition.bounds[g] : partition.bounds[g + 1]], cluster)
            )
        cluster += 1
    return groups


def rank_by_hand(kernel, X, partition):
    groups = flatten(partition)
    sample = np.concatenate([members for members, _ in groups])
    owner = np.repeat(np.arange(len(groups)), [len(members) for members, _ in groups])
    distances = distances_to_means(
        kernel.exact(X, X[sample]), kernel.exact(X[sample], X[sample]), owner, partition.on_sphere
    )
    cluster_of = np.array([cluster for _, cluster in groups])
    return np.stack(
        [distances[:, cluster_of == c].min(axis=1) for c in range(partition.n_clusters)]
    )


@pytest.mark.parametrize("kernel", [RBF(0.5), Poly(0.5, 3, 1.0), Linear()], ids=lambda k: k.name)
@pytest.mark.parametrize("n_nearest", [1, 3, 100])
def test_nearest_clusters(kernel, n_nearest):
    X = np.random.default_rng(0).random((1200, 4))
    points, partition, clusters = divide(kernel, X, 6, sample_size=90)
    everyone = np.arange(len(X))
    nearest, distances = partition.rank(kernel, points, everyone, points, n_nearest, ALONE)
    expected = rank_by_hand(kernel, X, partition)
    scale = np.abs(expected).max()
    assert nearest.shape == distances.shape == (min(n_nearest, 6), len(X))
    assert_allclose(distances, np.sort(expected, axis=0)[: len(nearest)], atol=1e-5 * scale)
    assert_allclose(np.take_along_axis(expected, nearest, 0), distances, atol=1e-5 * scale)
    assert np.mean(nearest[0] == clusters) > 0.99
    with open_workers(2) as workers:
        again = partition.rank(kernel, points, everyone, points, n_nearest, workers)
    assert_array_equal(again[0], nearest)
    assert_array_equal(again[1], distances)


def test_nearest_clusters_of_a_nested_partition():
    X, candidates = crowd()
    kernel = RBF(0.1)
    points, partition, _ = divide(kernel, X, 8, candidates=candidates)
    assert partition.children
    nearest, distances = partition.rank(kernel, points, np.arange(len(X)), points, 4, ALONE)
    expected = rank_by_hand(kernel, X, partition)
    assert_allclose(distances, np.sort(expected, axis=0)[:4], atol=1e-5)
    assert_allclose(np.take_along_axis(expected, nearest, 0), distances, atol=1e-5)


def test_nearest_clusters_by_a_precomputed_kernel():
    X = np.random.default_rng(0).normal(size=(300, 3))
    kernel, given = RBF(0.5), Precomputed()
    points, partition, _ = divide(kernel, X, 5, sample_size=60)
    expected, _ = partition.rank(kernel, points, np.arange(300), points, 3, ALONE)
    matrix = given.prepare(kernel.exact(X, X))
    nearest, _ = partition.rank(given, matrix, np.arange(300), matrix, 3, ALONE)
    assert np.mean(nearest == expected) > 0.99


def test_points_beyond_the_range_of_float32_join_the_nearest_sampled_point():
    """With a narrow kernel all their kernel values are zero, and only distances tell."""
    rng = np.random.default_rng(0)
    X = rng.random((2000, 5))
    kernel = RBF(2000.0)
    points, nested, _ = divide(kernel, X, 6, sample_size=48)
    partition = replace(nested, children={})
    assert partition.on_sphere
    parts = partition.assign(kernel, points, np.arange(len(X)), points, ALONE)
    squared = ((X[:, None] - X[partition.sample]) ** 2).sum(axis=2)
    is_far = 2000.0 * squared.min(axis=1) > 126 * np.log(2.0)
    assert np.mean(is_far) > 0.5
    owner = np.repeat(partition.part_of, np.diff(partition.bounds))
    nearest = np.stack([squared[:, owner == c].min(axis=1) for c in range(partition.n_parts)])
    # The mean of a group is as similar as its nearest member, up to a factor that is its size.
    slack = np.log(len(partition.sample)) / 2000.0
    excess = nearest[parts, np.arange(len(X))] - nearest.min(axis=0) - slack
    # Float64 ends at 2 to the power -1000 or so.
    assert (excess <= 0)[2000.0 * squared.min(axis=1) < 900 * np.log(2.0)].all()
    ranked, _ = partition.rank(kernel, points, np.arange(len(X)), points, 2, ALONE)
    assert_array_equal(ranked[0], parts)
