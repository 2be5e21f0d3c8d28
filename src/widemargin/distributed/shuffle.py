"""Rows moved between workers: every cluster's rows, and its copies, to the worker that solves it.

Copies are rows of other clusters on which a cluster also trains (`widemargin.divide.overlap`). Which
rows are nearest to a cluster is known to no worker alone, so every block counts its candidates in
bins of their distance, and the client finds for each cluster the distance up to which rows join it.
"""

from operator import getitem
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.distributed.blocks import Block
from widemargin.distributed.division import N_BINS, Candidates, Division
from widemargin.distributed.tasks import Tasks
from widemargin.divide.partition import split_by_group
from widemargin.kernels import Index


class Share(NamedTuple):
    """Rows of one block that go to a cluster: its own, and copies of those of other clusters."""

    own: Block
    copies: Block | None


def regroup(tasks: Tasks, blocks: list[Any], division: Division, overlap: float) -> list[list[Any]]:
    """Return for each cluster the futures of its rows, one `Share` from every block that has some.

    ``overlap`` is the number of copies as a share of the rows of a cluster.
    """
    n_blocks, n_clusters = division.counts.shape
    candidates, limits, n_copies = [None] * n_blocks, None, np.zeros_like(division.counts)
    if overlap:
        candidates, limits, n_copies = _find_copies(tasks, division, overlap)
    parts = tasks.map(
        "split-rows", split_rows, blocks, division.clusters, candidates, [limits] * n_blocks,
        [n_clusters] * n_blocks,
    )  # fmt: skip
    goes = (division.counts + n_copies) > 0
    return [
        [tasks.submit("move-rows", getitem, parts[b], c) for b in np.flatnonzero(goes[:, c])]
        for c in range(n_clusters)
    ]


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
    n_clusters: int,
) -> list[Share]:
    """Split a block into what goes to each cluster; ``limits`` is None without copies."""
    own = [block.take(rows) for rows in split_by_group(clusters, n_clusters)]
    if candidates is None or limits is None:
        return [Share(mine, None) for mine in own]
    joins = candidates.bins < limits[candidates.wanted]
    rows = candidates.rows[joins]
    at = split_by_group(candidates.wanted[joins], n_clusters)
    return [
        Share(mine, block.take(np.sort(rows[places]))) for mine, places in zip(own, at, strict=True)
    ]
