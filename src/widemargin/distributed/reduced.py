"""The rows that reach the client as a small problem of their own, from which the model is made.

These are the support vectors, the sampled rows and the rows of the background. The dual variables of
all other rows are zero, so the model is that of all rows. The rows themselves stay in a `RowStore`
until everything else of the model is known: the problem has their numbers as its only feature.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from widemargin.budget import worst_reason
from widemargin.distributed.backgrounds import KeptBackground, spread_coef
from widemargin.distributed.binary_problems import Setting
from widemargin.distributed.blocks import Block, FloatArray, as_floats, concatenate_blocks
from widemargin.distributed.levels import ClusterResult, SolvedLevel
from widemargin.distributed.row_store import RowStore
from widemargin.divide.background import Background
from widemargin.divide.cluster_models import ClusterParts, CommitteeModel, EarlyModel
from widemargin.divide.level_parts import describe_level
from widemargin.divide.overlap import Copies
from widemargin.divide.records import Level
from widemargin.exact.classifier_base import SupportSet, collect_support
from widemargin.exact.expansion import Expansion
from widemargin.exact.solution import Solution
from widemargin.kernels import CallableKernel
from widemargin.problem import Problem, Subproblem


class Reduced(NamedTuple):
    """What becomes the attributes of the model.

    Attributes
    ----------
    problem : Problem
        The rows that the client has, by their numbers.
    subproblems : list of Subproblem
        Its binary problems.
    levels : list of Level
        The levels on these rows. A level whose support vectors were not kept has only a record that
        is of use.
    support : SupportSet
        The support vectors of the last level.
    parts : list of ClusterParts
        The arrays of the models of the levels that are kept.
    """

    problem: Problem
    subproblems: list[Subproblem]
    levels: list[Level]
    support: SupportSet
    parts: list[ClusterParts]


def reduce_levels(
    setting: Setting, levels: list[SolvedLevel], store: RowStore, keep_levels: bool
) -> Reduced:
    """Make the model of the last level, or of all levels, of what the client has."""
    rows = _collect_rows(levels)
    problem = rows.as_problem(setting.classes)
    subproblems = setting.split(problem)
    reduced = [_reduce(setting, rows, subproblems, level) for level in levels]
    parts, support = [], None
    for level in reduced if keep_levels else reduced[-1:]:
        support = collect_support(problem, setting.kernel, subproblems, level.solutions)
        described = describe_level(problem, setting.kernel, subproblems, level, support)
        parts.append(_fetch_rows(setting, store, described, is_last=level is reduced[-1]))
    assert support is not None
    support = replace(support, vectors=take_first(parts[-1].vectors, len(support.rows)))
    return Reduced(problem, subproblems, reduced, support, parts)


def take_first(rows: Any, n_rows: int) -> Any:
    """Return the first rows, which share the memory of dense rows."""
    return rows if rows.shape[0] == n_rows else rows[:n_rows]


def change_rows(
    parts: ClusterParts, change: Callable[[Any], Any], change_vectors: Callable[[Any], Any]
) -> ClusterParts:
    """Return the arrays of a model with other rows.

    The support vectors are changed last: a `RowStore` that has handed them over has no rows any
    more.
    """
    samples, background = parts.samples, parts.background
    if background is not None:
        background = change_expansion(background, change)
    samples = None if samples is None else change(samples)
    return replace(
        parts, samples=samples, background=background, vectors=change_vectors(parts.vectors)
    )


def change_expansion(model: Expansion, change: Callable[[Any], Any]) -> Expansion:
    """Return a kernel expansion with other rows."""
    return Expansion(
        model.kernel, change(model.vectors), model.columns, model.coef, model.intercept
    )


def change_model(
    model: Expansion | EarlyModel | CommitteeModel, change: Callable[[Any], Any]
) -> Expansion | EarlyModel:
    """Return a model with other rows and without what it has computed of its own."""
    # DaskDCSVC refuses committees.
    assert not isinstance(model, CommitteeModel)
    if isinstance(model, EarlyModel):
        return EarlyModel(change_rows(model.parts, change, change), model.n_nearest)
    return change_expansion(model, change)


def _fetch_rows(
    setting: Setting, store: RowStore, parts: ClusterParts, *, is_last: bool
) -> ClusterParts:
    """Return the arrays of a model with rows in the place of their numbers."""
    # A user's function expects the numbers that a local fit would give it.
    finish = as_floats if isinstance(setting.kernel, CallableKernel) else lambda rows: rows

    def fetch(numbers: Any) -> Any:
        return finish(store.fetch(numbers[:, 0]))

    def take(numbers: Any) -> Any:
        return finish(store.take_in_order(numbers[:, 0]))

    return change_rows(parts, fetch, take if is_last else fetch)


def _collect_rows(levels: list[SolvedLevel]) -> Block:
    """Return all rows at the client, once each, in the order of their numbers in the user's data."""
    blocks = [replace(block, coef=None) for level in levels for block in _blocks_of(level)]
    joined = concatenate_blocks(blocks)
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
    setting: Setting, rows: Block, subproblems: list[Subproblem], background: KeptBackground | None
) -> Background | None:
    if background is None:
        return None
    coef = np.zeros((len(rows), setting.n_slots))
    coef[np.searchsorted(rows.ids, background.support.ids)] = background.support.coef
    coefs = setting.read_slots(coef, rows.labels, subproblems)
    solutions = [
        Solution(mine, np.empty(0), found.intercept, 0.0, 0.0, 0.0)
        for mine, found in zip(coefs, background.solutions, strict=True)
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
