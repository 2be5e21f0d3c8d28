"""DC-SVM Algorithm 1: solve many small clusters, then fewer and larger ones, then all points.

Hsieh, Si, Dhillon: A Divide-and-Conquer Solver for Kernel Support Vector Machines, ICML 2014. The
paper prints Algorithm 1 without line numbers. The comments here number its lines as follows:

     1  for each level l from l_max down to 1
     2      the number of clusters is k**l
     3      at the level l_max
     4          sample m points from all points
     5      at the other levels
     6          sample m points from the support vectors of level l + 1
     7      end
     8      kernel k-means of the sampled points gives the centres of the clusters
     9      every point joins the cluster with the nearest centre
    10      for each cluster
    11          solve the SVM of its points, starting from the solution of level l + 1 (first from 0)
    12      end
    13  end
    14  refine: solve the SVM of the support vectors of level 1, starting from the solution of level 1
    15  solve the SVM of all points, starting from the refined solution

==================  ============================  ==================================
symbol              variable                      shape
==================  ============================  ==================================
k, l_max, m         ``plan.n_clusters``,          numbers
                    ``plan.n_levels``,
                    ``plan.sample_size``
pi                  ``clusters``                  (n_points,)
V_c                 ``members[c]``                (points of the cluster,)
y_i alpha_i         ``coef`` of a `Solution`      (points of the binary problem,)
==================  ============================  ==================================

The functions differ from the paper in this: several binary problems share the clusters of a level;
a time limit ends the levels early; kernel k-means makes clusters of similar sizes
(`widemargin.divide.kernel_kmeans`); the clusters of a fit that stops early change the solution of a
random sample (`widemargin.divide.background`) and may overlap (`widemargin.divide.overlap`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from widemargin.budget import Budget, StopReason, worst_reason
from widemargin.deadline import is_late
from widemargin.divide.background import (
    SAMPLE_TOL,
    Background,
    change_background,
    decide_all,
    decide_rows,
)
from widemargin.divide.executors import Job, count_local_threads, run_jobs, solve_job
from widemargin.divide.kernel_kmeans import Sampling, divide_points, divide_ranked
from widemargin.divide.level_reports import LevelReporter, Listener
from widemargin.divide.overlap import (
    N_RANKS,
    Copies,
    add_copies,
    choose_copies,
    collect_copies,
    join_copies,
)
from widemargin.divide.partition import Partition, split_by_group
from widemargin.divide.records import Level, LevelRecord, Plan, find_support
from widemargin.divide.trial import Choice, choose_models, draw_trial
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.several_problems import solve_problems
from widemargin.exact.solution import Solution
from widemargin.kernels import Index, Kernel, Points
from widemargin.memory import Buffers
from widemargin.parallel import open_workers


def solve_levels(
    kernel: Kernel,
    points: Points,
    duals: list[DualProblem],
    plan: Plan,
    *,
    budget: Budget,
    callback: Listener | None = None,
) -> Iterator[Level]:
    """Solve the SVM dual level by level (DC-SVM Algorithm 1).

    Each level minimises ``0.5 alpha' Q alpha - sum(alpha)`` (DC-SVM Eq. 1) subject to
    ``0 <= alpha <= upper``, and ``y' alpha = 0`` in each cluster if there is an intercept, with
    ``Q_ij = y_i y_j k(x_i, x_j)`` where i and j are in the same cluster and zero elsewhere (Eq. 4).

    Parameters
    ----------
    kernel, points
        The kernel and all training rows prepared for it.
    duals : list of DualProblem
        The binary problems.
    plan : Plan
        Levels and clusters.
    budget : Budget
        ``tol`` and ``max_iter`` of each cluster; deadline and ``cache_bytes`` of all together.
    callback : callable, optional
        Called with a `LevelProgress` after every cluster and every round of the whole problem.

    Yields
    ------
    level : Level
        Levels from ``plan.n_levels`` to ``plan.stop_level``. At the deadline, the
        levels end with the last complete one, or with the first level if that is incomplete.
    """
    fit = _Fit(kernel, points, plan, budget, Buffers())
    began, rng = perf_counter(), np.random.default_rng(plan.seed)
    candidates = np.arange(len(points))  # Line 4: the first level samples from all points.
    tried, background = None, None
    if plan.is_measured:
        tried = fit.divide(plan.stop_level, candidates, rng)
        choice = fit.choose_models(duals, tried)
        if not choice.uses_clusters:
            level = fit.solve_without_clusters(duals, choice, began, callback)
            assert level is not None
            yield level
            return
        if choice.background is not None:
            background = fit.add_decisions(duals, choice.background)
        if plan.n_levels > plan.stop_level:
            tried = None
    elif plan.background:
        background = fit.add_decisions(duals, fit.solve_sample(duals))
    if background is not None:
        duals = change_background(duals, background)
    for number in range(plan.n_levels, max(plan.stop_level, 1) - 1, -1):  # Line 1.
        # Lines 2, 8 and 9. What was divided for the trial is used again.
        division, tried = tried or fit.divide(number, candidates, rng), None
        report = LevelReporter(number, division.sizes, began, callback)
        level = fit.solve_clusters(duals, division, report)  # Lines 10 to 12.
        if level is None:
            return
        yield replace(level, background=background)
        if is_late(budget.deadline):
            return
        # An incomplete level is useless from now on, because the last one was complete.
        fit = replace(fit, budget=replace(budget, all_or_nothing=True))
        # Line 11: the solution of this level is the initial point of the next.
        duals = [replace(d, start=s.coef) for d, s in zip(duals, level.solutions, strict=True)]
        if plan.adaptive and level.record.n_support > 0:
            # Line 6. By Theorem 3 only the kernel between support vectors of different clusters
            # separates a level from the optimum, so the clusters need to suit these points only.
            candidates = find_support(duals, [s.coef for s in level.solutions], len(points))
    if plan.stop_level == 0:
        report = LevelReporter(0, np.array([len(points)]), began, callback)
        level = fit.solve_whole(duals, report)  # Lines 14 and 15.
        if level is not None:
            yield level


@dataclass(frozen=True)
class _Division:
    """Clusters of a level, and the seconds it took to find them.

    ``copies`` are the points of other clusters on which each cluster also trains, None for none.
    """

    partition: Partition
    clusters: NDArray[np.int32]
    seconds: float
    copies: list[Index] | None

    @property
    def sizes(self) -> Index:
        """Number of points in each cluster."""
        return np.bincount(self.clusters, minlength=self.partition.n_clusters)


@dataclass(frozen=True)
class _Fit:
    """Values that all levels share."""

    kernel: Kernel
    points: Points
    plan: Plan
    budget: Budget
    buffers: Buffers

    def divide(self, number: int, candidates: Index, rng: np.random.Generator) -> _Division:
        """Divide the points into the clusters of a level (Algorithm 1, lines 2, 8 and 9)."""
        start = perf_counter()
        # Line 2. The exponent is limited because a huge power takes very long to compute.
        n_clusters = min(self.plan.n_clusters ** min(number, 64), len(self.points))
        sampling = Sampling(
            candidates, self.plan.sample_size, self.budget.cache_bytes, rng, self.plan.is_plain
        )
        overlap = self.plan.overlap if number == self.plan.stop_level else 0.0
        with open_workers(count_local_threads(self.plan.n_jobs)) as workers:
            of_all = self.kernel, self.points, n_clusters, sampling, workers
            if not overlap:
                partition, clusters = divide_points(*of_all)
                copies = None
            else:
                partition, clusters, ranks = divide_ranked(*of_all, N_RANKS)
                copies = choose_copies(clusters, *ranks, overlap, partition.n_clusters)
        return _Division(partition, clusters, perf_counter() - start, copies)

    def choose_models(self, duals: list[DualProblem], division: _Division) -> Choice:
        """Choose on held-out rows among clusters, the solution of a sample, and both."""
        # Clusters change the sample's solution, so that it need not be precise.
        rough = replace(self, budget=replace(self.budget, tol=max(self.budget.tol, SAMPLE_TOL)))
        seed, n_clusters = self.plan.seed, division.partition.n_clusters
        trial = draw_trial(division.clusters, n_clusters, duals, seed)
        is_free = np.ones(len(self.points), bool)
        is_free[trial.tested] = False
        order = np.random.default_rng(seed).permutation(np.flatnonzero(is_free))
        return choose_models(trial, duals, order, self.plan, rough.solve_rows, rough.decide_rows)

    def solve_sample(self, duals: list[DualProblem]) -> list[Solution]:
        """Solve a random sample of the size that the plan says."""
        rng = np.random.default_rng(self.plan.seed)
        rows = rng.permutation(len(self.points))[: self.plan.background]
        return self.solve_rows(duals, np.sort(rows))

    def solve_rows(self, duals: list[DualProblem], rows: Index) -> list[Solution]:
        """Solve the problems on some rows; the solutions have a zero for each other row."""
        is_chosen = np.zeros(len(self.points), bool)
        is_chosen[rows] = True
        places = [np.flatnonzero(is_chosen[dual.index]) for dual in duals]
        # A start is that of the clusters, which change the background.
        cold = [replace(dual, start=None) for dual in duals]
        job, n_threads = self._make_job(cold, rows, places), count_local_threads(self.plan.n_jobs)
        solved = solve_job(job, self.budget.cache_bytes, n_threads, self.buffers)
        solutions = []
        for dual, at, found in zip(duals, places, solved, strict=True):
            coef = np.zeros(len(dual))
            coef[at] = found.coef
            solutions.append(replace(found, coef=coef))
        return solutions

    def decide_rows(
        self, duals: list[DualProblem], solutions: list[Solution], rows: Index
    ) -> FloatArray:
        """Return decision values at some rows, of shape (n_rows, n_problems)."""
        with open_workers(count_local_threads(self.plan.n_jobs)) as workers:
            return decide_rows(self.kernel, self.points, duals, solutions, rows, workers)

    def add_decisions(self, duals: list[DualProblem], solutions: list[Solution]) -> Background:
        """Compute the decision values of a sample's solution at all points."""
        with open_workers(count_local_threads(self.plan.n_jobs)) as workers:
            decisions = decide_all(self.kernel, self.points, duals, solutions, workers)
        return Background(solutions, decisions)

    def solve_without_clusters(
        self, duals: list[DualProblem], choice: Choice, began: float, callback: Listener | None
    ) -> Level | None:
        """Make the level of a fit whose clusters would not pay: a sample, or the whole problem."""
        n_points, solutions = len(self.points), choice.background
        if solutions is None:
            return self.solve_whole(duals, LevelReporter(0, np.array([n_points]), began, callback))
        report = LevelReporter(self.plan.stop_level, np.array([choice.n_rows]), began, callback)
        n_support = len(find_support(duals, [found.coef for found in solutions], n_points))
        report.finish_cluster(0, solutions, n_support)
        record = _summarise(report, solutions, n_support, 0.0, perf_counter() - began)
        intercepts = np.array([[found.intercept for found in solutions]])
        return Level(record, None, np.zeros(n_points, np.int32), solutions, intercepts)

    def solve_clusters(
        self, duals: list[DualProblem], division: _Division, report: LevelReporter
    ) -> Level | None:
        """Solve every cluster (Algorithm 1, lines 10 to 12) and concatenate the solutions.

        Returns None if a cluster ran out of time and there is a complete level to fall back on.
        """
        start, sizes = perf_counter(), division.sizes
        members = split_by_group(division.clusters, len(sizes))
        places = [split_by_group(division.clusters[dual.index], len(sizes)) for dual in duals]
        copies = division.copies
        if copies is not None:
            places = add_copies(duals, places, copies, len(self.points))
            members = [np.union1d(own, more) for own, more in zip(members, copies, strict=True)]
        # The largest cluster goes first: threads finish together, and buffers do not grow.
        work = np.array([len(rows) for rows in members])
        order = [int(c) for c in np.argsort(-work, kind="stable")]
        jobs = (partial(self._make_job, duals, members[c], [at[c] for at in places]) for c in order)
        solving = run_jobs(jobs, work, self.plan.n_jobs, self.budget.cache_bytes, self.buffers)
        coefs = [np.zeros(len(dual)) for dual in duals]
        n_support, solved, copied = 0, dict[int, list[Solution]](), dict[int, Copies]()
        for c, solutions in zip(order, solving, strict=True):
            at = [mine[c] for mine in places]
            if copies is not None:
                copied[c] = collect_copies(c, copies[c], duals, at, solutions)
            n_support += _glue(c, division.clusters, duals, at, solutions, coefs)
            solved[c] = solutions
            if self.budget.all_or_nothing and not _in_time(solutions):
                return None
            report.finish_cluster(c, solutions, n_support)
        by_cluster = [solved[c] for c in range(len(sizes))]
        solutions = [
            _concatenate(coef, [s[p] for s in by_cluster], sizes) for p, coef in enumerate(coefs)
        ]
        record = _summarise(report, solutions, n_support, division.seconds, perf_counter() - start)
        intercepts = np.array([[s.intercept for s in solutions] for solutions in by_cluster])
        joined = join_copies([copied[c] for c in sorted(copied)]) if copied else None
        return Level(
            record, division.partition, division.clusters, solutions, intercepts, copies=joined
        )

    def solve_whole(self, duals: list[DualProblem], report: LevelReporter) -> Level | None:
        """Solve the whole problem (Algorithm 1, lines 14 and 15).

        Returns None if it ran out of time and there is a complete level to fall back on.
        """
        start, n_points = perf_counter(), len(self.points)
        # Line 14 is done by the solver. By Theorem 2, a point with a large gradient that is no
        # support vector of level 1 is none of the whole problem, so few points are missing.
        duals = [replace(dual, refine=self.plan.refine) for dual in duals]
        report.begin_whole(duals, n_points)
        with open_workers(count_local_threads(self.plan.n_jobs)) as workers:
            solutions = solve_problems(  # Line 15.
                self.kernel, self.points, duals, workers, budget=self.budget, seed=self.plan.seed,
                callback=report.finish_round, buffers=self.buffers,
            )  # fmt: skip
        if self.budget.all_or_nothing and not _in_time(solutions):
            return None
        n_support = len(find_support(duals, [found.coef for found in solutions], n_points))
        report.finish_cluster(0, solutions, n_support)
        record = _summarise(report, solutions, n_support, 0.0, perf_counter() - start)
        intercepts = np.array([[found.intercept for found in solutions]])
        return Level(record, None, np.zeros(n_points, np.int32), solutions, intercepts)

    def _make_job(self, duals: list[DualProblem], rows: Index, places: list[Index]) -> Job:
        """Make the job that solves one cluster (DC-SVM Eq. 2); it holds a copy of the points.

        ``rows`` are the points of the cluster, and ``places`` their positions in each problem.
        """
        inside = [
            dual.cut(at, np.searchsorted(rows, dual.index[at]))
            for dual, at in zip(duals, places, strict=True)
        ]
        points = self.kernel.take(self.points, rows)
        return Job(self.kernel, points, inside, self.budget, self.plan.seed)


def _in_time(solutions: list[Solution]) -> bool:
    return all(found.stop_reason != StopReason.MAX_TIME for found in solutions)


def _glue(
    c: int,
    clusters: NDArray[np.int32],
    duals: list[DualProblem],
    places: list[Index],
    solutions: list[Solution],
    coefs: list[FloatArray],
) -> int:
    """Copy the solution of cluster c to the coefficients of all points.

    Returns the number of its points that are a support vector of at least one binary problem.
    """
    support = []
    for dual, coef, at, found in zip(duals, coefs, places, solutions, strict=True):
        # The cluster may also hold copies of points of other clusters.
        is_own = clusters[dual.index[at]] == c
        own = at[is_own]
        coef[own] = found.coef[is_own]
        support.append(dual.index[own[coef[own] != 0]])
    return len(np.unique(np.concatenate(support)))


def _concatenate(coef: FloatArray, parts: list[Solution], sizes: Index) -> Solution:
    """Concatenate the solutions of the clusters of one binary problem.

    By DC-SVM Lemma 1 this is the optimum of the whole problem for the kernel that is zero between
    clusters (Eq. 3), so objectives and duality gaps add up.
    """
    return Solution(
        coef=coef,
        gradient=np.empty(0),
        intercept=float(np.average([part.intercept for part in parts], weights=sizes)),
        objective=float(sum(part.objective for part in parts)),
        duality_gap=float(sum(part.duality_gap for part in parts)),
        violation=max(part.violation for part in parts),
        n_iter=sum(part.n_iter for part in parts),
        stop_reason=worst_reason(part.stop_reason for part in parts),
    )


def _summarise(
    report: LevelReporter,
    solutions: list[Solution],
    n_support: int,
    clustering_seconds: float,
    solving_seconds: float,
) -> LevelRecord:
    return LevelRecord(
        level=report.level,
        n_clusters=len(report.sizes),
        largest_cluster=int(report.sizes.max()),
        n_support=n_support,
        objective=sum(found.objective for found in solutions),
        clustering_seconds=clustering_seconds,
        solving_seconds=solving_seconds,
        is_complete=_in_time(solutions),
    )
