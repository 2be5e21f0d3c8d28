"""The solution of a random sample under the clusters of an early fit, and whether it pays.

`widemargin.divide.trial` says what is measured: some clusters are trained without a part of their
rows, and the losses at these rows of the clusters alone, of a sample, and of the clusters on top of it
are compared. Here every tried cluster is a task, and a worker solves the sample. The whole problem,
which `DCSVC` solves if a sample would cost nearly as much, is no option: on a cluster it costs more.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.budget import Budget
from widemargin.distributed.binary_problems import Setting
from widemargin.distributed.blocks import Block, FloatArray, as_floats, join_blocks, with_coef
from widemargin.distributed.division import Division
from widemargin.distributed.row_store import RowStore
from widemargin.distributed.tasks import Tasks, find_cache_bytes, watch_cancellation
from widemargin.divide.background import SAMPLE_TOL, Background, change_background
from widemargin.divide.trial import (
    CLUSTER_SHARE,
    HELD_OUT,
    LEAST_CLUSTERS,
    LEAST_GAIN,
    SMALL_PART,
    WANTED_ROWS,
    count_sample,
)
from widemargin.exact.dual_problem import DualProblem
from widemargin.exact.expansion import Expansion
from widemargin.exact.solution import Solution
from widemargin.kernels import Index


@dataclass(frozen=True)
class KeptBackground:
    """What the client keeps of the solution of a sample.

    Attributes
    ----------
    support : Block
        Numbers of the support vectors in a `RowStore`, with their dual variables.
    solutions : list of Solution
        One for each binary problem, without variables.
    """

    support: Block
    solutions: list[Solution]


@dataclass(frozen=True)
class SentBackground:
    """The solution of a random sample (`widemargin.divide.background`), as clusters need it.

    Attributes
    ----------
    support : Block
        The support vectors, with their dual variables.
    model : Expansion
        Gives decision values.
    solutions : list of Solution
        One for each binary problem, without variables.
    """

    support: Block
    model: Expansion
    solutions: list[Solution]

    def keep_in(self, store: RowStore) -> KeptBackground:
        """Return what the client keeps; the store keeps the rows."""
        return KeptBackground(store.keep(self.support), self.solutions)


class Tried(NamedTuple):
    """Weighted losses at the held-out rows of a cluster, and these rows.

    Attributes
    ----------
    of_sample, of_cluster : float
        Sum of the hinge losses of the background alone, and of the cluster on top of it.
    weight : float
        Sum of the weights of the held-out rows.
    held_out : ndarray
        Numbers of the held-out rows.
    """

    of_sample: float
    of_cluster: float
    weight: float
    held_out: NDArray[np.int64]


class Choice(NamedTuple):
    """What an early fit uses: a background on the cluster or None, its rows, and whether clusters."""

    background: Any
    n_rows: int
    uses_clusters: bool


class BackgroundRun:
    """Solves samples on a worker, and measures whether they pay.

    Parameters
    ----------
    tasks : Tasks
        Tasks of the fit.
    setting : Setting
        Kernel, classes and budget.
    sent_setting : future
        The same on the cluster.
    blocks, sizes : list
        The rows, and their numbers.
    seed : int
        Seed of the samples.
    """

    def __init__(
        self, tasks: Tasks, setting: Setting, sent_setting: Any, blocks: list[Any],
        sizes: list[int], seed: int,
    ) -> None:  # fmt: skip
        self.tasks, self.setting, self.sent_setting = tasks, setting, sent_setting
        self.blocks, self.sizes, self.seed = blocks, sizes, seed
        self.order = np.random.default_rng(seed).permutation(sum(sizes))

    def solve(self, n_rows: int, budget: Budget, held_out: NDArray[np.int64]) -> Any:
        """Return the future of the solution of a random sample, without the rows held out."""
        rows = np.sort(self.order[:n_rows])
        drawn = draw_parts(self.tasks, self.blocks, self.sizes, rows)
        solving = self.tasks.submit(
            "solve-background", solve_sample, self.sent_setting, drawn, budget, held_out
        )
        self.tasks.release(drawn)
        return solving

    def choose(self, division: Division) -> Choice:
        """Measure on held-out rows what predicts best (`widemargin.divide.trial.choose_models`)."""
        clusters = choose_clusters(division.counts.sum(axis=0), self.seed)
        shares = [self._move(division, c) for c in clusters]
        alone = self._try(shares, None)
        held_out = np.sort(np.concatenate([tried.held_out for tried in alone]))
        n_sample = count_sample(len(self.order) - len(held_out))
        # Clusters change the sample's solution, so that it need not be precise.
        budget = replace(self.setting.budget, tol=max(self.setting.budget.tol, SAMPLE_TOL))
        small = self.solve(n_sample // SMALL_PART, budget, held_out)
        of_small, with_small = _average(self._try(shares, small))
        self.tasks.release([small])
        choice = Choice(None, 0, True)
        if _average(alone)[1] > min(of_small, with_small / LEAST_GAIN):
            large = self.solve(n_sample, budget, held_out)
            of_large, with_large = _average(self._try(shares, large))
            choice = Choice(large, n_sample, with_large < of_large)
        self.tasks.release([share for of_cluster in shares for share in of_cluster])
        return choice

    def _move(self, division: Division, cluster: int) -> list[Any]:
        """Return the futures of the rows of a cluster, one from every block that has some."""
        return [
            self.tasks.submit(
                "move-rows", take_cluster, self.blocks[b], division.clusters[b], cluster
            )
            for b in np.flatnonzero(division.counts[:, cluster])
        ]

    def _try(self, shares: list[list[Any]], background: Any) -> list[Tried]:
        trying = [
            self.tasks.submit("try-cluster", try_cluster, self.sent_setting, of_cluster, background,
                              self.seed + k)
            for k, of_cluster in enumerate(shares)
        ]  # fmt: skip
        found = self.tasks.gather(trying)
        self.tasks.release(trying)
        return found


def _average(tried: list[Tried]) -> tuple[float, float]:
    """Return the mean losses of the background, and of clusters on top of it."""
    weight = sum(each.weight for each in tried)
    if weight == 0:
        return 0.0, 0.0
    return sum(t.of_sample for t in tried) / weight, sum(t.of_cluster for t in tried) / weight


def choose_clusters(sizes: Index, seed: int) -> list[int]:
    """Choose clusters that are tried, as `widemargin.divide.trial.draw_trial` does."""
    chosen, n_rows = list[int](), 0
    order = np.random.default_rng(seed).permutation(len(sizes))
    for c in order[: max(1, len(sizes) // CLUSTER_SHARE)]:
        chosen.append(int(c))
        n_rows += int(sizes[c]) // HELD_OUT
        if n_rows >= WANTED_ROWS and len(chosen) >= LEAST_CLUSTERS:
            break
    return chosen


def draw_parts(tasks: Tasks, blocks: list[Any], sizes: list[int], rows: Index) -> list[Any]:
    """Return futures of some rows, given by position among those of all blocks, ascending."""
    ends = np.cumsum(sizes)
    each = np.split(rows, np.searchsorted(rows, ends[:-1]))
    return [
        tasks.submit("draw-rows", Block.take, blocks[b], at - (ends[b] - sizes[b]))
        for b, at in enumerate(each)
        if len(at)
    ]


def fetch_rows(tasks: Tasks, blocks: list[Any], sizes: list[int], rows: Index) -> Block:
    """Fetch rows by their position among those of all blocks; ``rows`` ascend."""
    drawn = draw_parts(tasks, blocks, sizes, rows)
    fetched = join_blocks(tasks.gather(drawn))
    tasks.release(drawn)
    return fetched


def take_cluster(block: Block, clusters: NDArray[np.int32], cluster: int) -> Block:
    """Return the rows of a block that are in a cluster."""
    return block.take(np.flatnonzero(clusters == cluster))


def solve_sample(
    setting: Setting, parts: list[Block], budget: Budget, held_out: NDArray[np.int64]
) -> SentBackground:
    """Solve the problems of some rows, without those that are held out."""
    sample = join_blocks(parts)
    sample = sample.take(np.flatnonzero(~np.isin(sample.ids, held_out)))
    subproblems = setting.split_block(sample)
    duals = setting.make_duals(sample, subproblems)
    return _keep_support(setting, sample, duals, budget)


def _keep_support(
    setting: Setting, block: Block, duals: list[DualProblem], budget: Budget
) -> SentBackground:
    """Solve the problems of a block, and return the model and its support vectors."""
    solved = setting.solve(block.X, duals, budget, watch_cancellation())
    subproblems = setting.split_block(block)
    coef = setting.fill_slots([found.coef for found in solved], block.labels, subproblems)
    support = with_coef(block, coef).take(np.flatnonzero(coef.any(axis=1)))
    model = Expansion(
        setting.kernel, support.X, support.ids, spread_coef(setting, support),
        np.array([found.intercept for found in solved]),
    )  # fmt: skip
    bare = [replace(found, coef=np.empty(0), gradient=np.empty(0)) for found in solved]
    return SentBackground(support, model, bare)


def spread_coef(setting: Setting, block: Block) -> FloatArray:
    """Return the dual variables of a block, of shape (n_problems, n)."""
    assert block.coef is not None
    subproblems = setting.split_block(block)
    out = np.zeros((len(subproblems), len(block)))
    mine = setting.read_slots(block.coef, block.labels, subproblems)
    for p, (sub, coef) in enumerate(zip(subproblems, mine, strict=True)):
        out[p, sub.index] = coef
    return out


def try_cluster(
    setting: Setting, shares: list[Block], background: SentBackground | None, seed: int
) -> Tried:
    """Train a cluster without some of its rows, and measure the loss at these."""
    block = join_blocks(shares)
    order = np.random.default_rng(seed).permutation(len(block))
    n_held = len(block) // HELD_OUT
    held, inside = block.take(np.sort(order[:n_held])), block.take(np.sort(order[n_held:]))
    duals = setting.make_duals(inside, setting.split_block(inside))
    before = np.zeros((len(held), len(duals)))
    if background is not None:
        duals = change_duals(setting, inside, duals, background)
        before = _decide(setting, background.model, held)
    budget = replace(setting.budget, tol=max(setting.budget.tol, SAMPLE_TOL))
    own = _keep_support(setting, inside, duals, budget).model
    after = before + _decide(setting, own, held)
    (of_sample, weight), (of_cluster, _) = (
        measure_loss(setting, held, values) for values in (before, after)
    )
    return Tried(of_sample, of_cluster, weight, held.ids)


def _decide(setting: Setting, model: Expansion, block: Block) -> FloatArray:
    if len(block) == 0:
        return np.zeros((0, len(model.intercept)))
    return model.decide(as_floats(block.X), max_bytes=find_cache_bytes(setting.memory), n_jobs=1)


def measure_loss(setting: Setting, block: Block, values: FloatArray) -> tuple[float, float]:
    """Return the sum of the weighted hinge losses of a block, and the sum of the weights."""
    loss = weight = 0.0
    for p, sub in enumerate(setting.split_block(block)):
        own = block.weights[sub.index]
        loss += float(own @ np.maximum(0.0, 1.0 - sub.y * values[sub.index, p]))
        weight += float(own.sum())
    return loss, weight


def change_duals(
    setting: Setting, block: Block, duals: list[DualProblem], background: SentBackground
) -> list[DualProblem]:
    """Return the problems whose variables are changes of the background's dual variables."""
    support, subproblems = background.support, setting.split_block(block)
    assert support.coef is not None
    before = np.zeros((len(block), setting.n_slots))
    _, mine, theirs = np.intersect1d(
        block.ids, support.ids, assume_unique=True, return_indices=True
    )
    before[mine] = support.coef[theirs]
    values = _decide(setting, background.model, block)
    coefs = setting.read_slots(before, block.labels, subproblems)
    found = [_bare_solution(coef) for coef in coefs]
    decisions = [values[sub.index, p] for p, sub in enumerate(subproblems)]
    return change_background(duals, Background(found, decisions))


def _bare_solution(coef: FloatArray) -> Solution:
    return Solution(coef, np.empty(0), 0.0, 0.0, 0.0, 0.0)
