"""DC-SVM Algorithm 1 on blocks of rows: every cluster of a level is one task on a worker."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import getitem
from time import perf_counter
from typing import Any

import numpy as np

from widemargin.budget import StopReason
from widemargin.distributed.backgrounds import (
    BackgroundRun,
    Choice,
    KeptBackground,
    SentBackground,
    change_duals,
)
from widemargin.distributed.binary_problems import Setting
from widemargin.distributed.blocks import Block, join_blocks, with_coef
from widemargin.distributed.division import Divider, Division
from widemargin.distributed.row_store import RowStore
from widemargin.distributed.shuffle import Share, regroup
from widemargin.distributed.tasks import Tasks, watch_cancellation
from widemargin.divide.level_reports import LevelReporter, Listener
from widemargin.divide.records import LevelRecord, Plan
from widemargin.exact.solution import Solution

#: Clusters that are being solved, or wait at a worker, for every thread.
STARTED_PER_THREAD = 2


@dataclass(frozen=True)
class ClusterResult:
    """What the client learns of a solved cluster.

    Attributes
    ----------
    cluster, n_rows, n_support : int
        Number of the cluster, of its rows, and of its support vectors.
    solutions : list of Solution
        One for each binary problem, without variables.
    support : Block or None
        The support vectors among its own rows; None if the level is not kept.
    copies : Block or None
        The support vectors among the rows of other clusters.

    At the client, blocks hold numbers of rows (`RowStore`).
    """

    cluster: int
    n_rows: int
    n_support: int
    solutions: list[Solution]
    support: Block | None
    copies: Block | None

    def keep_in(self, store: RowStore) -> "ClusterResult":
        """Return the result with numbers of rows instead of rows, which the store keeps."""
        return replace(
            self,
            support=None if self.support is None else store.keep(self.support),
            copies=None if self.copies is None else store.keep(self.copies),
        )


@dataclass(frozen=True)
class SolvedLevel:
    """Solution of one level.

    Attributes
    ----------
    record : LevelRecord
        Summary.
    division : Division or None
        The clusters; None for the whole problem.
    results : list of ClusterResult
        One for each cluster.
    background : KeptBackground or None
        What the solutions of the clusters change.
    """

    record: LevelRecord
    division: Division | None
    results: list[ClusterResult]
    background: KeptBackground | None = None


@dataclass(frozen=True)
class LevelRun:
    """Solves levels on a cluster of workers.

    Attributes
    ----------
    tasks : Tasks
        Tasks of the fit.
    setting : Setting
        Kernel, classes and budget.
    sent_setting : future
        The same on the cluster.
    plan : Plan
        Levels and clusters.
    keep_levels : bool
        Whether the support vectors of all levels are wanted.
    max_bytes : int
        Memory of the client for a kernel matrix of sampled rows.
    n_threads : int
        Threads of all workers.
    store : RowStore
        The rows that reach the client and stay.
    """

    tasks: Tasks
    setting: Setting
    sent_setting: Any
    plan: Plan
    keep_levels: bool
    max_bytes: int
    n_threads: int
    store: RowStore

    def solve(
        self, blocks: list[Any], sizes: list[int], last: int, began: float,
        callback: Listener | None,
    ) -> Iterator[tuple[SolvedLevel, list[Any]]]:  # fmt: skip
        """Solve levels down to ``last``; yields each with the blocks that hold its solution.

        The futures of the blocks of a level are released when the next one is solved.
        """
        rng = np.random.default_rng(self.plan.seed)
        divider = Divider(
            self.tasks, self.setting, self.sent_setting, self.plan.sample_size, self.max_bytes,
            self.plan.is_plain,
        )  # fmt: skip
        run = BackgroundRun(
            self.tasks, self.setting, self.sent_setting, blocks, sizes, self.plan.seed
        )
        tried, choice = self._choose(run, divider, rng)
        background = None
        if choice.background is not None:
            background = self.tasks.gather([choice.background])[0].keep_in(self.store)
        if not choice.uses_clusters:
            assert background is not None
            yield self._use_sample(background, choice, began, callback), blocks
            return
        by_support = False
        for number in range(self.plan.n_levels, last - 1, -1):
            start = perf_counter()
            division, tried = tried, None
            if division is None:
                n_clusters = self._count_clusters(number, sizes)
                division = divider.divide(
                    blocks, sizes, n_clusters, rng, by_support,
                    wants_candidates=self._find_overlap(number) > 0,
                )  # fmt: skip
            seconds = perf_counter() - start
            report = LevelReporter(number, division.counts.sum(axis=0), began, callback)
            results, after = self._solve_clusters(
                blocks, division, number, choice.background, report
            )
            record = summarise(report, results, seconds, perf_counter() - start - seconds)
            blocks, sizes = after, [result.n_rows for result in results]
            division = replace(division, sample=self.store.keep(division.sample))
            yield SolvedLevel(record, division, results, background), blocks
            if self.is_late():
                return
            by_support = self.plan.adaptive and record.n_support > 0

    def is_late(self) -> bool:
        """Return whether the fit has to end."""
        return self.setting.end is not None and time.time() > self.setting.end

    def _choose(
        self, run: BackgroundRun, divider: Divider, rng: np.random.Generator
    ) -> tuple[Division | None, Choice]:
        """Choose what an early fit uses, by measurement on held-out rows if the plan says so.

        Returns also the clusters that were measured, if they are those of the first level.
        """
        plan = self.plan
        if plan.is_measured:
            n_clusters = self._count_clusters(plan.stop_level, run.sizes)
            division = divider.divide(
                run.blocks, run.sizes, n_clusters, rng, by_support=False,
                wants_candidates=plan.overlap > 0,
            )  # fmt: skip
            return division if plan.n_levels == plan.stop_level else None, run.choose(division)
        if plan.background:
            nothing = np.empty(0, np.int64)
            solving = run.solve(plan.background, self.setting.budget, nothing)
            return None, Choice(solving, plan.background, True)
        return None, Choice(None, 0, True)

    def _find_overlap(self, number: int) -> float:
        """Return the copies of a level as a share of its rows: the last one alone has some."""
        return self.plan.overlap if number == self.plan.stop_level else 0.0

    def _count_clusters(self, number: int, sizes: list[int]) -> int:
        return min(self.plan.n_clusters ** min(number, 64), sum(sizes))

    def _use_sample(
        self, solved: KeptBackground, choice: Choice, began: float, callback: Listener | None
    ) -> SolvedLevel:
        """Return the level of a fit in which the solution of a sample alone predicts."""
        report = LevelReporter(self.plan.stop_level, np.array([choice.n_rows]), began, callback)
        n_support = len(solved.support)
        report.finish_cluster(0, solved.solutions, n_support)
        result = ClusterResult(0, choice.n_rows, n_support, solved.solutions, solved.support, None)
        record = summarise(report, [result], 0.0, perf_counter() - began)
        return SolvedLevel(record, None, [result])

    def _solve_clusters(
        self, blocks: list[Any], division: Division, number: int, background: Any,
        report: LevelReporter,
    ) -> tuple[list[ClusterResult], list[Any]]:  # fmt: skip
        """Solve every cluster of a level; returns results and the blocks with the solutions."""
        is_last = number == self.plan.stop_level
        wants_support = is_last or self.keep_levels
        solve = solve_last_cluster if is_last else solve_cluster
        overlap = self._find_overlap(number)
        shares = regroup(self.tasks, blocks, division, overlap, self.n_threads)
        # The largest cluster goes first: workers finish together.
        order = [int(c) for c in np.argsort(-report.sizes, kind="stable")]
        told: dict[int, Any] = {}
        after: dict[int, Any] = {}
        results: dict[int, ClusterResult] = {}

        def start(c: int) -> Any:
            """Start to solve a cluster; returns the future of what the client learns."""
            told[c] = solving = self.tasks.submit(
                "solve-cluster", solve, self.sent_setting, background, c, shares[c], wants_support
            )
            if not is_last:
                after[c] = self.tasks.submit("keep-rows", getitem, solving, 1)
                told[c] = self.tasks.submit("report-cluster", getitem, solving, 0)
                self.tasks.release([solving])
            self.tasks.release([shares[c]])
            return told[c]

        n_support = 0
        # Few at a time: workers fetch the rows of all tasks that have been started.
        n_started = STARTED_PER_THREAD * self.n_threads
        for _, result in self.tasks.gather_started(map(start, order), n_started):
            results[result.cluster] = result.keep_in(self.store)
            n_support += result.n_support
            self.tasks.release([told[result.cluster]])
            report.finish_cluster(result.cluster, result.solutions, n_support)
        return [results[c] for c in sorted(results)], [after[c] for c in sorted(after)]


def solve_cluster(
    setting: Setting,
    background: SentBackground | None,
    cluster: int,
    share: Share,
    wants_support: bool,
) -> tuple[ClusterResult, Block]:
    """Solve the binary problems of a cluster (DC-SVM Eq. 2) on the worker that has its rows.

    Returns what the client learns, and the rows with their dual variables.
    """
    own, copies = share
    block = own if copies is None else join_blocks([own, copies])
    subproblems = setting.split_block(block)
    duals = setting.make_duals(block, subproblems)
    if background is not None:
        duals = change_duals(setting, block, duals, background)
    solved = setting.solve(block.X, duals, setting.budget, watch_cancellation())
    coef = setting.fill_slots([s.coef for s in solved], block.labels, subproblems)
    block = with_coef(block, coef)
    is_own = np.ones(len(block), bool) if copies is None else np.isin(block.ids, own.ids)
    is_support = coef.any(axis=1)
    result = ClusterResult(
        cluster=cluster,
        n_rows=len(own),
        n_support=int(np.count_nonzero(is_support & is_own)),
        solutions=[replace(found, coef=np.empty(0)) for found in solved],
        support=block.choose(is_support & is_own) if wants_support else None,
        copies=None if copies is None else block.choose(is_support & ~is_own),
    )
    return result, block if copies is None else block.choose(is_own)


def solve_last_cluster(*args: Any) -> ClusterResult:
    """Solve a cluster as `solve_cluster` does, whose rows are not needed any more."""
    return solve_cluster(*args)[0]


def summarise(
    report: LevelReporter, results: list[ClusterResult], clustering_seconds: float,
    solving_seconds: float,
) -> LevelRecord:  # fmt: skip
    """Return the summary of a solved level."""
    found = [solution for result in results for solution in result.solutions]
    return LevelRecord(
        level=report.level,
        n_clusters=len(report.sizes),
        largest_cluster=int(report.sizes.max()),
        n_support=sum(result.n_support for result in results),
        objective=sum(solution.objective for solution in found),
        clustering_seconds=clustering_seconds,
        solving_seconds=solving_seconds,
        is_complete=all(s.stop_reason != StopReason.MAX_TIME for s in found),
    )


def choose_block_level(plan: Plan, n_threads: int) -> int:
    """Return the last level before the whole problem: its clusters are the blocks of the rounds.

    Larger clusters make fewer rounds, but every thread needs a cluster.
    """
    level = 1
    while plan.n_clusters**level < n_threads and level < plan.n_levels and plan.n_clusters > 1:
        level += 1
    return level


def close_levels(levels: list[SolvedLevel], stop_level: int) -> list[SolvedLevel]:
    """Return the levels, of which the last counts the iterations of all.

    It ran out of time if the fit should have gone on to ``stop_level``.
    """
    is_late = levels[-1].record.level > stop_level
    n_problems = len(levels[-1].results[0].solutions)
    earlier = [
        sum(result.solutions[p].n_iter for level in levels[:-1] for result in level.results)
        for p in range(n_problems)
    ]
    first, *rest = levels[-1].results
    counted = [
        replace(
            found,
            n_iter=found.n_iter + more,
            stop_reason=StopReason.MAX_TIME if is_late else found.stop_reason,
        )
        for found, more in zip(first.solutions, earlier, strict=True)
    ]
    return [*levels[:-1], replace(levels[-1], results=[replace(first, solutions=counted), *rest])]
