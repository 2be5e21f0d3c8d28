"""Clusters of rows that lie on workers: kernel k-means at the client, assignment where the rows lie.

This is `widemargin.divide.kernel_kmeans` for blocks. Only the sampled rows reach the client.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from operator import getitem
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.distributed.binary_problems import Setting
from widemargin.distributed.blocks import Block, join_blocks
from widemargin.distributed.tasks import Tasks
from widemargin.divide.kernel_kmeans import (
    MAX_DEPTH,
    MAX_SHARE,
    MIN_DIVIDED,
    Sampling,
    cluster_sample,
)
from widemargin.divide.overlap import N_RANKS
from widemargin.divide.partition import Partition
from widemargin.kernels import Index, Points
from widemargin.parallel import Workers, single_blas

#: Bins of relative distances.
N_BINS = 1024


class Candidates(NamedTuple):
    """Rows of a block that may join other clusters.

    Attributes
    ----------
    rows : ndarray of shape (m,)
        Positions of the rows in the block.
    wanted : ndarray of shape (m,)
        The clusters that they may join.
    bins : ndarray of shape (m,)
        How much farther that cluster is than the nearest one, in `N_BINS` steps.
    """

    rows: Index
    wanted: NDArray[np.int32]
    bins: NDArray[np.int16]


@dataclass(frozen=True)
class Division:
    """Clusters of the rows of all blocks.

    Attributes
    ----------
    partition : Partition
        The clusters; its sampled points are rows of ``sample``.
    sample : Block
        The sampled rows.
    clusters : list of futures
        Cluster of every row of each block.
    counts : ndarray of shape (n_blocks, n_clusters)
        Number of rows of each block in each cluster.
    candidates : list of futures or None
        The `Candidates` of each block, if they are wanted.
    """

    partition: Partition
    sample: Block
    clusters: list[Any]
    counts: Index
    candidates: list[Any] | None = None


@dataclass
class _Node:
    """A partition of which some parts may be divided again."""

    flat: Partition
    children: dict[int, "_Node"]

    def freeze(self) -> Partition:
        """Return the partition with all that is inside."""
        return replace(self.flat, children={p: c.freeze() for p, c in self.children.items()})


@dataclass(frozen=True)
class Counts:
    """Number of rows, and of support vectors, in each cluster of a block."""

    rows: Index
    support: Index


@dataclass(frozen=True)
class _Leaves:
    """Clusters found so far, some of which may be divided again."""

    blocks: list[Any]
    clusters: Sequence[Any]
    counts: list[Counts]
    by_support: bool

    @property
    def totals(self) -> Index:
        """Number of rows in each cluster."""
        return np.sum([count.rows for count in self.counts], axis=0)

    def find_large(self, mean_size: float) -> Index:
        """Return the clusters that are divided again."""
        return np.flatnonzero(self.totals > max(MAX_SHARE * mean_size, MIN_DIVIDED))

    def count_candidates(self, leaf: int) -> tuple[Index, bool]:
        """Return the rows of each block to draw from, and whether they are support vectors only."""
        of_support = np.array([count.support[leaf] for count in self.counts])
        if self.by_support and int(of_support.sum()) > 1:
            return of_support, True
        return np.array([count.rows[leaf] for count in self.counts]), False


def _replace_leaves(nodes: list[tuple[_Node, int]]) -> tuple[list[tuple[_Node, int]], list[int]]:
    """Return the clusters after some were divided, and the new number of every old one.

    The number of a divided cluster is that of the first cluster inside.
    """
    replaced: list[tuple[_Node, int]] = []
    firsts = []
    for node, part in nodes:
        firsts.append(len(replaced))
        child = node.children.get(part)
        if child is None:
            replaced.append((node, part))
        else:
            replaced += [(child, p) for p in range(child.flat.n_parts)]
    return replaced, firsts


class Divider:
    """Divides the rows of blocks into clusters.

    Parameters
    ----------
    tasks : Tasks
        Tasks of the fit.
    setting : Setting
        The kernel.
    sent_setting : future
        The same on the cluster.
    sample_size : int
        Number of rows on which kernel k-means runs.
    max_bytes : int
        Memory of the client for their kernel matrix.
    is_plain : bool
        Whether the clusters are those of the paper; see `Sampling`.
    """

    def __init__(
        self, tasks: Tasks, setting: Setting, sent_setting: Any, sample_size: int, max_bytes: int,
        is_plain: bool,
    ) -> None:  # fmt: skip
        self.tasks, self.setting, self.sent_setting = tasks, setting, sent_setting
        self.sample_size, self.max_bytes, self.is_plain = sample_size, max_bytes, is_plain

    def divide(
        self, blocks: list[Any], sizes: Sequence[int], n_clusters: int, rng: np.random.Generator,
        by_support: bool, *, wants_candidates: bool,
    ) -> Division:  # fmt: skip
        """Divide the rows of blocks into about ``n_clusters`` clusters.

        ``by_support`` samples support vectors only (DC-SVM Algorithm 1, line 6).
        ``wants_candidates`` finds rows that may join other clusters too.
        """
        nothing = [None] * len(blocks)
        whole = _Leaves(blocks, nothing, self._count(blocks, nothing, 1), by_support)
        drawn = self._draw(whole, 0, self.sample_size, n_clusters, rng)
        samples, root = [drawn], self._cluster(drawn, 0, n_clusters, rng)
        nodes = [(root, p) for p in range(root.flat.n_parts)]
        clusters, candidates = self._assign_first(blocks, root.flat, drawn, wants_candidates)
        mean_size = sum(sizes) / n_clusters
        for _ in range(MAX_DEPTH):
            counts = self._count(blocks, clusters, len(nodes))
            leaves = _Leaves(blocks, clusters, counts, by_support)
            if self.is_plain or len(nodes) == 1 or len(leaves.find_large(mean_size)) == 0:
                break
            inside = self._divide_again(leaves, nodes, samples, mean_size, rng)
            nodes, firsts = _replace_leaves(nodes)
            clusters = self._assign(blocks, clusters, inside, firsts, samples)
            candidates = None
        if wants_candidates and candidates is None:
            # A cluster was divided again, so that the nearest ones are others.
            candidates = self._rank(blocks, clusters, root.freeze(), samples)
        counts = self._count(blocks, clusters, len(nodes))
        return Division(
            root.freeze(), _concatenate(samples), clusters,
            np.array([count.rows for count in counts]), candidates,
        )  # fmt: skip

    def _divide_again(
        self, leaves: "_Leaves", nodes: list[tuple[_Node, int]], samples: list[Block],
        mean_size: float, rng: np.random.Generator,
    ) -> dict[int, Partition]:  # fmt: skip
        """Divide clusters that are too large; adds to the nodes and to the samples."""
        inside: dict[int, Partition] = {}
        for leaf in leaves.find_large(mean_size).tolist():
            wanted = max(2, round(leaves.totals[leaf] / mean_size))
            size = round(self.sample_size * wanted * mean_size / leaves.totals.sum())
            drawn = self._draw(leaves, leaf, size, wanted, rng)
            node = self._cluster(drawn, sum(map(len, samples)), wanted, rng)
            samples.append(drawn)
            if node.flat.n_parts > 1:
                parent, part = nodes[leaf]
                parent.children[part] = node
                inside[leaf] = node.flat
        return inside

    def _count(self, blocks: list[Any], clusters: Sequence[Any], n: int) -> list[Counts]:
        lists = blocks, clusters, [n] * len(blocks)
        return self.tasks.gather(self.tasks.map("count-rows", count_rows, *lists))

    def _draw(
        self, leaves: "_Leaves", leaf: int, size: int, n_clusters: int, rng: np.random.Generator
    ) -> Block:
        """Draw rows of a cluster at random, ``size`` of them if memory allows and there are more."""
        numbers, by_support = leaves.count_candidates(leaf)
        size = min(max(size, n_clusters), max(1, isqrt(self.max_bytes // 8)))
        total = int(numbers.sum())
        chosen = np.arange(total)
        if total > size:
            chosen = np.sort(rng.choice(total, size, replace=False))
        ends = np.cumsum(numbers)
        each = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
        drawn = [
            self.tasks.submit("draw-rows", draw_rows, leaves.blocks[b], leaves.clusters[b], leaf,
                              by_support, at - (ends[b] - numbers[b]))
            for b, at in enumerate(each)
            if len(at)
        ]  # fmt: skip
        return join_blocks(self.tasks.gather(drawn))

    def _cluster(
        self, drawn: Block, first: int, n_clusters: int, rng: np.random.Generator
    ) -> _Node:
        """Cluster sampled rows; ``first`` is the position of the first among all sampled rows."""
        points = self.setting.prepare(drawn.X)
        sampling = Sampling(np.arange(len(drawn)), len(drawn), self.max_bytes, rng, self.is_plain)
        with single_blas():
            flat = cluster_sample(
                self.setting.kernel, points, sampling.candidates, n_clusters, sampling
            )
        return _Node(flat.renumber(first + np.arange(len(drawn))), {})

    def _assign_first(
        self, blocks: list[Any], flat: Partition, drawn: Block, wants_candidates: bool
    ) -> tuple[list[Any], list[Any] | None]:
        """Assign all rows to clusters; returns also candidates, from the same kernel values."""
        n = len(blocks)
        if not wants_candidates:
            return self._assign(blocks, [None] * n, {0: flat}, [0], [drawn]), None
        routes = self.tasks.send("send-centres", (flat, drawn.X))
        both = self.tasks.map(
            "assign-rows", assign_ranked, [self.sent_setting] * n, [routes] * n, blocks
        )
        clusters, candidates = (
            self.tasks.map("keep-clusters", getitem, both, [k] * n) for k in range(2)
        )
        self.tasks.release(both)
        return clusters, candidates

    def _rank(
        self, blocks: list[Any], clusters: Sequence[Any], partition: Partition,
        samples: list[Block],
    ) -> list[Any]:  # fmt: skip
        routes = self.tasks.send("send-centres", (partition, _concatenate(samples).X))
        n = len(blocks)
        return self.tasks.map(
            "rank-clusters", rank_rows, [self.sent_setting] * n, [routes] * n, blocks, clusters
        )

    def _assign(
        self, blocks: list[Any], clusters: Sequence[Any], inside: dict[int, Partition],
        firsts: list[int], samples: list[Block],
    ) -> list[Any]:  # fmt: skip
        routes = self.tasks.send("send-centres", (inside, firsts, _concatenate(samples).X))
        n = len(blocks)
        return self.tasks.map(
            "assign-rows", assign_rows, [self.sent_setting] * n, [routes] * n, blocks, clusters
        )


def _concatenate(samples: list[Block]) -> Block:
    """Return sampled rows in the order in which they were drawn."""
    if len(samples) == 1:
        return samples[0]
    joined = join_blocks(samples)
    ids = np.concatenate([sample.ids for sample in samples])
    return joined.take(np.searchsorted(joined.ids, ids))


def count_rows(block: Block, clusters: NDArray[np.int32] | None, n: int) -> Counts:
    """Count the rows and the support vectors of a block in each cluster."""
    inside = np.zeros(len(block), np.int32) if clusters is None else clusters
    is_support = np.zeros(len(block), bool) if block.coef is None else block.coef.any(axis=1)
    return Counts(
        np.bincount(inside, minlength=n).astype(np.intp),
        np.bincount(inside[is_support], minlength=n).astype(np.intp),
    )


def draw_rows(
    block: Block, clusters: NDArray[np.int32] | None, leaf: int, by_support: bool, at: Index
) -> Block:
    """Return the rows at some positions among those of a cluster, or its support vectors."""
    is_inside = np.ones(len(block), bool) if clusters is None else clusters == leaf
    if by_support:
        assert block.coef is not None
        is_inside &= block.coef.any(axis=1)
    return block.take(np.flatnonzero(is_inside)[at])


def assign_rows(
    setting: Setting,
    routes: tuple[dict[int, Partition], list[int], Any],
    block: Block,
    clusters: NDArray[np.int32] | None,
) -> NDArray[np.int32]:
    """Return the cluster of every row of a block (DC-SVM Algorithm 1, line 9).

    ``routes`` are the clusters that are divided now, the new number of every cluster (the first of
    those into which it is divided), and the sampled rows.
    """
    inside, firsts, samples = routes
    kernel = setting.kernel
    before = np.zeros(len(block), np.int32) if clusters is None else clusters
    found = np.asarray(firsts, np.int32)[before]
    with single_blas():
        points, centres = _prepare(setting, block, samples)
        for leaf, partition in inside.items():
            rows = np.flatnonzero(before == leaf)
            found[rows] += partition.assign(kernel, points, rows, centres, Workers(1, None))
    return found


def assign_ranked(
    setting: Setting, routes: tuple[Partition, Any], block: Block
) -> tuple[NDArray[np.int32], Candidates]:
    """Return the cluster of every row, and the rows that may join others; see `assign_rows`.

    ``routes`` are the clusters, none of which is divided again, and the sampled rows.
    """
    partition, samples = routes
    with single_blas():
        points, centres = _prepare(setting, block, samples)
        clusters, nearest, distances = partition.assign_ranked(
            setting.kernel, points, np.arange(len(block)), centres, N_RANKS, Workers(1, None)
        )
    return clusters, find_candidates(clusters, nearest, distances)


def rank_rows(
    setting: Setting, routes: tuple[Partition, Any], block: Block, clusters: NDArray[np.int32]
) -> Candidates:
    """Return the rows of a block that may join other clusters than their own."""
    partition, samples = routes
    with single_blas():
        points, centres = _prepare(setting, block, samples)
        nearest, distances = partition.rank(
            setting.kernel, points, np.arange(len(block)), centres, N_RANKS, Workers(1, None)
        )
    return find_candidates(clusters, nearest, distances)


def find_candidates(
    clusters: NDArray[np.int32], nearest: NDArray[np.int32], distances: NDArray[np.float32]
) -> Candidates:
    """Return the rows that may join other clusters, as `widemargin.divide.overlap.choose_copies`.

    ``nearest`` and ``distances`` have a row for each rank.
    """
    span = np.maximum(distances[-1] - distances[0], np.finfo(np.float32).tiny)
    rank, rows = np.nonzero(nearest != clusters)
    farther = (distances[rank, rows] - distances[0, rows]) / span[rows]
    bins = np.minimum(N_BINS * farther, N_BINS - 1).astype(np.int16)
    return Candidates(rows, nearest[rank, rows], bins)


def _prepare(setting: Setting, block: Block, samples: Any) -> tuple[Points, Points]:
    """Return rows and sampled rows as precise as assigning them to clusters needs them."""
    centres = setting.kernel.narrow(setting.prepare(samples))
    return setting.kernel.narrow(setting.prepare(block.X), like=centres), centres
