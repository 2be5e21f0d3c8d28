"""From the solution of a level to the arrays of its model."""

from dataclasses import replace

import numpy as np

from widemargin.divide.background import Background
from widemargin.divide.cluster_models import ClusterParts, Committee, CommitteeModel
from widemargin.divide.committee import calibrate
from widemargin.divide.records import Level
from widemargin.exact.classifier_base import SupportSet, collect_support
from widemargin.exact.dual_problem import FloatArray
from widemargin.exact.expansion import Expansion
from widemargin.kernels import Index, Kernel, Precomputed
from widemargin.parallel import open_workers
from widemargin.problem import Problem, Subproblem


def describe_level(
    problem: Problem,
    kernel: Kernel,
    subproblems: list[Subproblem],
    level: Level,
    support: SupportSet,
) -> ClusterParts:
    """Collect the arrays from which the models of a level are made."""
    partition, samples = level.partition, None
    if partition is not None and isinstance(kernel, Precomputed):
        partition = partition.renumber(problem.kept)
    elif partition is not None:
        sampled, position = np.unique(partition.all_samples()), np.zeros(len(problem.kept), int)
        position[sampled] = np.arange(len(sampled))
        partition, samples = partition.renumber(position), problem.X[sampled]
    parts = ClusterParts(
        kernel=kernel,
        vectors=support.vectors,
        columns=problem.kept[support.rows],
        clusters=level.clusters[support.rows],
        coef=support.coef,
        intercept=level.intercepts,
        mean_intercept=np.array([found.intercept for found in level.solutions]),
        partition=partition,
        samples=samples,
        committee=None,
    )
    if level.background is not None:
        parts = replace(
            parts, background=describe_background(problem, kernel, subproblems, level.background)
        )
    copies = level.copies
    if copies is None:
        return parts
    return parts.join(
        copies.clusters,
        problem.kept[copies.rows],
        copies.coef,
        None if isinstance(kernel, Precomputed) else problem.X[copies.rows],
    )


def describe_background(
    problem: Problem, kernel: Kernel, subproblems: list[Subproblem], background: Background
) -> Expansion:
    """Return the model of the background."""
    support = collect_support(problem, kernel, subproblems, background.solutions)
    intercepts = np.array([found.intercept for found in background.solutions])
    columns = problem.kept[support.rows]
    return Expansion(kernel, support.vectors, columns, support.coef, intercepts)


def add_committee(
    problem: Problem,
    subproblems: list[Subproblem],
    parts: ClusterParts,
    n_jobs: int | None,
    seed: int,
) -> ClusterParts:
    """Add the calibrated committee to the parts of a level that has clusters."""
    if parts.partition is None:
        return parts
    # The precomputed matrix in `problem` has no columns for rows of weight zero.
    model = CommitteeModel(replace(parts, columns=np.searchsorted(problem.kept, parts.columns)))
    with open_workers(n_jobs) as workers:

        def decide(rows: Index) -> FloatArray:
            queries = model.prepare(problem.X[rows])
            return model.decide_clusters(queries, np.arange(len(rows)), workers)

        slope, prior = calibrate(subproblems, decide, seed)
    return replace(parts, committee=Committee(slope, prior))
