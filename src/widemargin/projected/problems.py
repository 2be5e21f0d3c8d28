"""Choice of the bases of all binary problems of a fit, one after another."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from widemargin.budget import StopReason
from widemargin.callbacks import Stage
from widemargin.deadline import share_time
from widemargin.majority import RunningVote
from widemargin.problem import Problem, Subproblem
from widemargin.projected.basis import Columns, KernelRows
from widemargin.projected.machine import Machine
from widemargin.projected.plan import plan_memory, plan_time
from widemargin.projected.search import Selector, draw_candidates
from widemargin.projected.selection import Search, Selection
from widemargin.projected.stages import describe_constant

#: Called with the number of a basis, the name of the stage and the present `Stage`.
Listener = Callable[[int, str, Stage], object]


def choose_bases(
    problem: Problem,
    rows: KernelRows,
    groups: list[list[Subproblem]],
    search: Search,
    C: float,
    rng: np.random.Generator,
    listen: Listener | None,
) -> list[Selection]:
    """Choose the basis of every group of binary problems; the groups share the time.

    Parameters
    ----------
    problem : Problem
        The training data.
    rows : KernelRows
        Its rows, prepared for kernel values.
    groups : list of list of Subproblem
        Binary problems on all rows; those of a group share a basis.
    search : Search
        Options, with the memory and the deadline of the whole fit.
    C : float
        Cost of an error.
    rng : Generator
        Random generator for drawing candidates.
    listen : callable or None
        Called after every change of a basis.
    """
    n_subproblems = sum(len(group) for group in groups)
    is_held, search = plan_memory(rows, search, len(groups[0]), n_subproblems)
    search = plan_time(rows, search, len(groups))
    cost, vote = C * problem.weights, RunningVote(problem)
    first = cache(lambda: draw_candidates(rows, search, rng))
    selections, constants = [], []
    for number, group in enumerate(groups):
        columns = Columns(rows, n_expected=min(search.n_basis, len(rows)), is_held=is_held)
        machines = [Machine(columns, subproblem.y, cost) for subproblem in group]
        constants.append(describe_constant(machines))
        own = replace(search, deadline=share_time(search.deadline, len(groups) - number))
        show = None if listen is None else _number_listener(listen, number)
        selector = Selector(columns, machines, own, first, rng, show)
        selections.append(selector.run())
        vote.add(selector.decisions())
    in_time = all(selection.stop_reason != StopReason.MAX_TIME for selection in selections)
    if in_time or vote.beats_majority():
        return selections
    # A search that was stopped may predict worse than the intercept alone, the most frequent class.
    pairs = zip(selections, constants, strict=True)
    return [replace(selection, final=constant) for selection, constant in pairs]


def _number_listener(listen: Listener, number: int) -> Callable[[str, Stage], object]:
    return lambda doing, stage: listen(number, doing, stage)


def join_listeners(
    show: Listener | None, callback: Callable[[Stage], object] | None
) -> Listener | None:
    """Return a listener that calls both of the given ones, or None if there is none."""
    if show is None and callback is None:
        return None

    def listen(number: int, doing: str, stage: Stage) -> None:
        if show is not None:
            show(number, doing, stage)
        if callback is not None:
            callback(stage)

    return listen
