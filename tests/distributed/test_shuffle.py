"""Rows that move between workers, compared with rows that are chosen one cluster at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from widemargin.distributed.blocks import Block
from widemargin.distributed.division import Candidates
from widemargin.distributed.shuffle import group_clusters, sort_parcels, split_rows


@settings(max_examples=50, deadline=None)
@given(
    n_blocks=st.integers(1, 4), n_clusters=st.integers(1, 7), n_groups=st.integers(1, 9),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_every_cluster_gets_its_rows_and_copies(n_blocks, n_clusters, n_groups, seed):
    rng = np.random.default_rng(seed)
    n = 12
    blocks = [
        Block(rng.random((n, 2)), rng.integers(0, 2, n).astype(np.int32), rng.random(n),
              np.arange(n) + n * b)
        for b in range(n_blocks)
    ]  # fmt: skip
    clusters = [rng.integers(0, n_clusters, n).astype(np.int32) for _ in blocks]
    candidates = [
        Candidates(
            rng.integers(0, n, 5), rng.integers(0, n_clusters, 5).astype(np.int32),
            rng.integers(0, 4, 5).astype(np.int16),
        )
        for _ in blocks
    ]  # fmt: skip
    limits = rng.integers(0, 4, n_clusters)
    sizes = np.bincount(np.concatenate(clusters), minlength=n_clusters)
    groups = group_clusters(sizes, n_groups)
    parcels = [
        split_rows(*each, limits, groups) for each in zip(blocks, clusters, candidates, strict=True)
    ]
    for g in range(groups.max() + 1):
        members = np.flatnonzero(groups == g)
        shares = sort_parcels([of_block[g] for of_block in parcels], members)
        for c, share in zip(members, shares, strict=True):
            own = np.concatenate([b.ids[k == c] for b, k in zip(blocks, clusters, strict=True)])
            assert_array_equal(share.own.ids, own)
            copies = np.sort(np.concatenate([
                block.ids[each.rows[(each.wanted == c) & (each.bins < limits[c])]]
                for block, each in zip(blocks, candidates, strict=True)
            ]))  # fmt: skip
            assert_array_equal(share.copies.ids, copies)
            stacked = np.concatenate([block.X for block in blocks])
            assert_array_equal(share.copies.X, stacked[copies])


@pytest.mark.parametrize(
    ("sizes", "most", "groups"),
    [([1, 0], 1, [0, 0]), ([10, 0, 10], 16, [0, 0, 1]), ([0, 5], 3, [0, 0]), ([0, 0], 2, [0, 0])],
)
def test_clusters_without_rows_join_a_neighbour(sizes, most, groups):
    assert_array_equal(group_clusters(np.array(sizes), most), groups)


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=40), most=st.integers(1, 12))
def test_groups_are_few_of_neighbours_and_of_similar_size(sizes, most):
    sizes = np.array(sizes)
    groups = group_clusters(sizes, most)
    assert len(groups) == len(sizes)
    assert_array_equal(np.unique(groups), np.arange(groups.max() + 1))
    assert groups.max() < most
    assert (np.diff(groups) >= 0).all()
    # A group is as large as the mean, but for the clusters at its ends.
    rows = np.bincount(groups, weights=sizes)
    assert rows.max() <= sizes.sum() / most + 2 * sizes.max()
