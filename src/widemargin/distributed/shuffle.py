"""Rows moved between workers: every cluster's rows, and its copies, to the worker that solves it.

A piece from every block for every cluster would be too many tasks for Dask. Rows therefore move in
groups of clusters, and the worker that receives a group sorts its rows by cluster.

Copies are rows of other clusters on which a cluster also trains (`widemargin.divide.overlap`). Which
rows are nearest to a cluster is known to no worker alone, so every block counts its candidates in
bins of their distance, and the client finds for each cluster the distance up to which rows join it.
"""

from operator import getitem
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.distributed.blocks import Block, join_blocks
from widemargin.distributed.division import N_BINS, Candidates, Division
from widemargin.distributed.tasks import Tasks
from widemargin.divide.partition import split_by_group
from widemargin.kernels import Index

#: Groups of clusters for every thread: the more, the less memory a group takes while it is sorted.
GROUPS_PER_THREAD = 8


class Addressed(NamedTuple):
    """Rows of a block, and the cluster to which each of them goes."""

    block: Block
    clusters: NDArray[np.int32]

    def take(self, cluster: int) -> Block:
        """Return the rows of a cluster."""
        return self.block.take(np.flatnonzero(self.clusters == cluster))


class Parcel(NamedTuple):
    """Rows of one block that go to a group of clusters: their own, and copies of others' rows."""

    own: Addressed
    copies: Addressed | None


class Share(NamedTuple):
    """Rows of a cluster: its own, and copies of those of other clusters."""

    own: Block
    copies: Block | None


def regroup(
    tasks: Tasks, blocks: list[Any], division: Division, overlap: float, n_threads: int
) -> list[Any]:
    """Return the futures of the rows of each cluster, a `Share`; releases the blocks.

    ``overlap`` is the number of copies as a share of the rows of a cluster.
    """
    n_blocks, n_clusters = division.counts.shape
    candidates, limits, n_copies = [None] * n_blocks, None, np.zeros_like(division.counts)
    if overlap:
        candidates, limits, n_copies = _find_copies(tasks, division, overlap)
    counts = division.counts + n_copies
    groups = group_clusters(counts.sum(axis=0), GROUPS_PER_THREAD * n_threads)
    parcels = tasks.map(
        "split-rows", split_rows, blocks, division.clusters, candidates, [limits] * n_blocks,
        [groups] * n_blocks,
    )  # fmt: skip
    # Every block goes as soon as it is split: the workers may not have the memory to hold rows twice.
    tasks.release(blocks)
    shares: list[Any] = [None] * n_clusters
    for g in range(groups.max() + 1):
        members = np.flatnonzero(groups == g)
        moved = [
            tasks.submit("move-rows", getitem, parcels[b], g)
            for b in np.flatnonzero(counts[:, members].any(axis=1))
        ]
        joined = tasks.submit("sort-rows", sort_parcels, moved, members)
        tasks.release(moved)
        for k, c in enumerate(members):
            shares[c] = tasks.submit("take-cluster", getitem, joined, k)
        tasks.release([joined])
    tasks.release(parcels)
    return shares


def group_clusters(sizes: Index, most: int) -> NDArray[np.int32]:
    """Return the group of every cluster: at most so many groups, of similar numbers of rows.

    A cluster without rows belongs to the group of a neighbour.
    """
    filled = np.flatnonzero(sizes)
    if len(filled) == 0:
        return np.zeros(len(sizes), np.int32)
    middles = (np.cumsum(sizes) - 0.5 * sizes)[filled] * (most / sizes.sum())
    _, groups = np.unique(np.minimum(middles.astype(int), most - 1), return_inverse=True)
    neighbours = np.searchsorted(filled, np.arange(len(sizes)), side="right") - 1
    return groups[np.maximum(neighbours, 0)].astype(np.int32)


def _find_copies(tasks: Tasks, division: Division, overlap: float) -> tuple[list[Any], Any, Index]:
    """Return candidates of each block, the limits of all clusters, and the numbers of copies."""
    n_blocks, n_clusters = division.counts.shape
    candidates = division.candidates
    assert candidates is not None
    counted = tasks.map("count-candidates", count_candidates, candidates, [n_clusters] * n_blocks)
    counts = np.array(tasks.gather(counted))
    limits = choose_limits(counts.sum(axis=0), overlap * division.counts.sum(axis=0))
    n_copies = np.array([
        [counts[b, c, : limits[c]].sum() for c in range(n_clusters)] for b in range(n_blocks)
    ])  # fmt: skip
    return candidates, limits, n_copies


def choose_limits(counts: Index, wanted: NDArray[np.float64]) -> Index:
    """Return for each cluster the number of bins that hold at most as many rows as are wanted.

    ``counts`` has a row for each cluster and a column for each bin. Where the first bin that holds
    rows has too many, they join nevertheless unless none are wanted.
    """
    sums = np.cumsum(counts, axis=1)
    limits = (sums <= wanted[:, None]).sum(axis=1)
    first = np.where(sums[:, -1] > 0, (sums == 0).sum(axis=1) + 1, 0)
    is_short = (limits < first) & (np.floor(wanted) >= 1)
    return np.where(is_short, np.minimum(first, N_BINS), limits)


def count_candidates(candidates: Candidates, n_clusters: int) -> Index:
    """Count the candidates of each cluster in each bin."""
    cell = candidates.wanted.astype(np.intp) * N_BINS + candidates.bins
    return np.bincount(cell, minlength=n_clusters * N_BINS).reshape(n_clusters, N_BINS)


def split_rows(
    block: Block,
    clusters: NDArray[np.int32],
    candidates: Candidates | None,
    limits: Index | None,
    groups: NDArray[np.int32],
) -> list[Parcel]:
    """Split a block into what goes to each group of clusters; ``limits`` is None without copies."""
    own = _split(block, np.arange(len(block)), clusters, groups)
    if candidates is None or limits is None:
        return [Parcel(mine, None) for mine in own]
    joins = candidates.bins < limits[candidates.wanted]
    copies = _split(block, candidates.rows[joins], candidates.wanted[joins], groups)
    return [Parcel(*both) for both in zip(own, copies, strict=True)]


def _split(
    block: Block, rows: Index, clusters: NDArray[np.int32], groups: NDArray[np.int32]
) -> list[Addressed]:
    """Split rows, some of which may occur several times, by the groups of their clusters."""
    return [
        Addressed(block.take(rows[at]), clusters[at])
        for at in split_by_group(groups[clusters], int(groups.max()) + 1)
    ]


def sort_parcels(parcels: list[Parcel], members: Index) -> list[Share]:
    """Return the rows of every cluster of a group, in the order of their numbers."""
    copies = [parcel.copies for parcel in parcels if parcel.copies is not None]
    return [
        Share(
            join_blocks([parcel.own.take(c) for parcel in parcels]),
            join_blocks([each.take(c) for each in copies]) if copies else None,
        )
        for c in members
    ]
