"""The rows that reach the client as a small problem of their own, from which the model is made.

These are the support vectors, the sampled rows and the rows of the background. The dual variables of
all other rows are zero, so the model is that of all rows.
"""

from dataclasses import replace

import numpy as np

from widemargin.budget import worst_reason
from widemargin.distributed.backgrounds import SentBackground, spread_coef
from widemargin.distributed.binary_problems import Setting
from widemargin.distributed.blocks import Block, FloatArray, as_floats, concatenate_blocks
from widemargin.distributed.levels import ClusterResult, SolvedLevel
from widemargin.divide.background import Background
from widemargin.divide.overlap import Copies
from widemargin.divide.records import Level
from widemargin.exact.solution import Solution
from widemargin.problem import Problem, Subproblem


def reduce_levels(setting: Setting, levels: list[SolvedLevel]) -> tuple[Problem, list[Level]]:
    """Return the rows that the client has as a problem, and the levels on these rows.

    Of levels whose support vectors were not kept, only the record counts.
    """
    rows = _collect_rows(levels)
    problem = replace(rows, X=as_floats(rows.X)).as_problem(setting.classes)
    subproblems = setting.split(problem)
    return problem, [_reduce(setting, rows, subproblems, level) for level in levels]


def _collect_rows(levels: list[SolvedLevel]) -> Block:
    """Return all rows at the client, once each, in the order of their numbers."""
    blocks = [block for level in levels for block in _blocks_of(level)]
    joined = concatenate_blocks(
        [replace(block, X=as_floats(block.X), coef=None) for block in blocks]
    )
    _, first = np.unique(joined.ids, return_index=True)
    return joined.take(first)


def _blocks_of(level: SolvedLevel) -> list[Block]:
    found = [block for result in level.results for block in (result.support, result.copies)]
    if level.division is not None:
        found.append(level.division.sample)
    if level.background is not None:
        found.append(level.background.support)
    return [block for block in found if block is not None]


def _reduce(
    setting: Setting, rows: Block, subproblems: list[Subproblem], level: SolvedLevel
) -> Level:
    clusters = np.zeros(len(rows), np.int32)
    coef = np.zeros((len(rows), setting.n_slots))
    for result in level.results:
        if result.support is not None:
            at = np.searchsorted(rows.ids, result.support.ids)
            clusters[at], coef[at] = result.cluster, result.support.coef
    coefs = setting.read_slots(coef, rows.labels, subproblems)
    partition = None
    if level.division is not None:
        sample = level.division.sample
        partition = level.division.partition.renumber(np.searchsorted(rows.ids, sample.ids))
    return Level(
        record=level.record,
        partition=partition,
        clusters=clusters,
        solutions=[_join_solutions(mine, level.results, p) for p, mine in enumerate(coefs)],
        intercepts=np.array([[s.intercept for s in r.solutions] for r in level.results]),
        background=_reduce_background(setting, rows, subproblems, level.background),
        copies=_collect_copies(setting, rows, level.results),
    )


def _join_solutions(coef: FloatArray, results: list[ClusterResult], p: int) -> Solution:
    """Return the solution of one binary problem from those of all clusters (DC-SVM Lemma 1)."""
    parts, sizes = [result.solutions[p] for result in results], [r.n_rows for r in results]
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


def _reduce_background(
    setting: Setting, rows: Block, subproblems: list[Subproblem], background: SentBackground | None
) -> Background | None:
    if background is None:
        return None
    coef = np.zeros((len(rows), setting.n_slots))
    coef[np.searchsorted(rows.ids, background.support.ids)] = background.support.coef
    coefs = setting.read_slots(coef, rows.labels, subproblems)
    solutions = [
        Solution(mine, np.empty(0), float(intercept), 0.0, 0.0, 0.0)
        for mine, intercept in zip(coefs, background.model.intercept, strict=True)
    ]
    return Background(solutions, [])


def _collect_copies(setting: Setting, rows: Block, results: list[ClusterResult]) -> Copies | None:
    found = [(r.cluster, r.copies) for r in results if r.copies is not None and len(r.copies)]
    if not found:
        return None
    return Copies(
        np.concatenate([np.searchsorted(rows.ids, block.ids) for _, block in found]),
        np.concatenate([np.full(len(block), c, np.int32) for c, block in found]),
        np.concatenate([spread_coef(setting, block) for _, block in found], axis=1),
    )
