"""What workers do in a round of parallel block minimisation; see `widemargin.distributed.rounds`."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from widemargin.distributed.backgrounds import spread_coef
from widemargin.distributed.binary_problems import Setting
from widemargin.distributed.blocks import Block, FloatArray, join_blocks, with_coef
from widemargin.distributed.tasks import watch_cancellation
from widemargin.exact.dual_problem import DualProblem
from widemargin.kernels import Index
from widemargin.parallel import Workers, single_blas
from widemargin.problem import Subproblem


class State(NamedTuple):
    """A block with the gradient of its rows, in slots like the dual variables."""

    block: Block
    gradient: FloatArray


class Change(NamedTuple):
    """Rows whose dual variables change.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (m, n_features)
        The rows.
    delta : ndarray of shape (m, n_problems)
        Changes of their dual variables in all binary problems.
    """

    X: Any
    delta: FloatArray


class Step(NamedTuple):
    """A proposed step of a block.

    Attributes
    ----------
    delta : ndarray of shape (n, n_slots)
        Changes of the dual variables.
    change : Change
        The same for the rows that change.
    slope : ndarray of shape (n_problems,)
        Derivative of the objective along the step.
    limit : ndarray of shape (n_problems,)
        How many times the step may be made before a variable meets its bound.
    n_iter : ndarray of shape (n_problems,)
        Iterations of the solver.
    """

    delta: FloatArray
    change: Change
    slope: FloatArray
    limit: FloatArray
    n_iter: Index


class Standing(NamedTuple):
    """What the client learns of a block between two rounds, for each binary problem.

    Attributes
    ----------
    rise, fall : ndarray of shape (n_problems,)
        Smallest slope of the objective along a variable that may rise, and largest along one that may
        fall: the violation is the difference.
    n_free, free_sum : ndarray of shape (n_problems,)
        Number of free variables, and sum of their gradients.
    quadratic, linear : ndarray of shape (n_problems,)
        Shares of the block in ``b'K b`` and in the linear term of the objective.
    squares : ndarray of shape (n_problems,)
        Sum of the squared variables.
    n_support : int
        Rows that are support vectors of a problem.
    """

    rise: FloatArray
    fall: FloatArray
    n_free: Index
    free_sum: FloatArray
    quadratic: FloatArray
    linear: FloatArray
    squares: FloatArray
    n_support: int


class Choice(NamedTuple):
    """Rows of a block that take part in a step of all blocks, and their positions in the block."""

    state: State
    rows: Index


class Opened(NamedTuple):
    """A state as its binary problems see it: lists have an entry for each problem."""

    block: Block
    subproblems: list[Subproblem]
    duals: list[DualProblem]
    coefs: list[FloatArray]
    gradients: list[FloatArray]


def open_state(setting: Setting, state: State) -> Opened:
    """Return the binary problems of a state with their dual variables and gradients."""
    block, subproblems = state.block, setting.split_block(state.block)
    assert block.coef is not None
    return Opened(
        block,
        subproblems,
        setting.make_duals(block, subproblems),
        setting.read_slots(block.coef, block.labels, subproblems),
        setting.read_slots(state.gradient, block.labels, subproblems),
    )


def find_support_rows(setting: Setting, block: Block) -> Change:
    """Return the support vectors of a block with their dual variables."""
    return _make_change(setting, _start(setting, block))


def find_gradient(setting: Setting, block: Block, changes: list[Change]) -> State:
    """Compute the gradient of the rows of a block from the support vectors of all blocks."""
    block = _start(setting, block)
    subproblems = setting.split_block(block)
    gradient = setting.fill_slots([-sub.y for sub in subproblems], block.labels, subproblems)
    for change in changes:
        gradient += _multiply(setting, block, subproblems, change)
    return State(block, gradient)


def propose_step(setting: Setting, state: State, tol: FloatArray) -> Step:
    """Improve a block as if the others stood still; ``tol`` is infinite for finished problems."""
    opened = open_state(setting, state)
    deltas, n_iter = _solve_moves(setting, opened, tol)
    return _make_step(setting, opened, deltas, n_iter)


def choose_rows(setting: Setting, state: State, offset: FloatArray, n_rows: int) -> Choice:
    """Choose the rows of a block with the largest violations, then those nearest to the margin."""
    opened = open_state(setting, state)
    worst = np.full(len(opened.block), -np.inf)
    for sub, dual, coef, gradient, middle in zip(*opened[1:], offset, strict=True):
        rise, fall = dual.slopes(gradient, coef)
        worst[sub.index] = np.maximum(worst[sub.index], np.maximum(middle - rise, fall - middle))
    n_rows = min(n_rows, len(opened.block))
    rows = np.sort(np.argpartition(-worst, n_rows - 1)[:n_rows])
    return Choice(State(opened.block.take(rows), state.gradient[rows]), rows)


def propose_jointly(
    setting: Setting, choices: list[Choice], tol: FloatArray
) -> tuple[list[FloatArray], Index]:
    """Improve rows of several blocks together; returns the changes of each and the iterations."""
    states = [choice.state for choice in choices]
    joined = join_blocks([state.block for state in states])
    order = np.argsort(np.concatenate([state.block.ids for state in states]))
    gradient = np.concatenate([state.gradient for state in states])
    opened = open_state(setting, State(joined, gradient[order]))
    deltas, n_iter = _solve_moves(setting, opened, tol)
    slots = np.empty_like(gradient)
    slots[order] = setting.fill_slots(deltas, joined.labels, opened.subproblems)
    return np.split(slots, np.cumsum([len(choice.rows) for choice in choices])[:-1]), n_iter


def spread_step(
    setting: Setting,
    state: State,
    choice: Choice,
    solved: tuple[list[FloatArray], Index],
    number: int,
) -> Step:
    """Return the share of a block in a step of rows of all blocks."""
    opened, slots = open_state(setting, state), np.zeros_like(state.gradient)
    slots[choice.rows] = solved[0][number]
    deltas = setting.read_slots(slots, opened.block.labels, opened.subproblems)
    n_iter = solved[1] if number == 0 else np.zeros_like(solved[1])
    return _make_step(setting, opened, deltas, n_iter)


def tell_step(step: Step) -> tuple[FloatArray, FloatArray, Index]:
    """Return what the client needs to know of a step."""
    return step.slope, step.limit, step.n_iter


def respond_to_steps(
    setting: Setting, state: State, step: Step, changes: list[Change], groups: list[int]
) -> tuple[FloatArray, list[FloatArray]]:
    """Compute what the steps of all groups of blocks do to the gradient of a block.

    Returns ``d'K d`` between the step of this block and those of all groups, of shape (n_problems,
    n_groups), and the products ``K d`` for each group.
    """
    block, subproblems = state.block, setting.split_block(state.block)
    products = [np.zeros_like(state.gradient) for _ in range(max(groups) + 1)]
    for group, change in zip(groups, changes, strict=True):
        products[group] += _multiply(setting, block, subproblems, change)
    mine = setting.read_slots(step.delta, block.labels, subproblems)
    curvature = np.zeros((len(subproblems), len(products)))
    for g, product in enumerate(products):
        theirs = setting.read_slots(product, block.labels, subproblems)
        curvature[:, g] = [a @ b for a, b in zip(mine, theirs, strict=True)]
    return curvature, products


def apply_step(
    setting: Setting,
    state: State,
    step: Step,
    response: tuple[FloatArray, list[FloatArray]],
    lengths: FloatArray,
    group: int,
) -> State:
    """Go along the steps; ``lengths`` has a row for each problem and a column for each group."""
    block, subproblems, duals, coefs, gradients = open_state(setting, state)
    deltas = setting.read_slots(step.delta, block.labels, subproblems)
    products = [setting.read_slots(slots, block.labels, subproblems) for slots in response[1]]
    # The bounds are met up to rounding.
    moved = [
        np.clip(coef + length * delta, dual.lower, dual.upper)
        for coef, length, delta, dual in zip(coefs, lengths[:, group], deltas, duals, strict=True)
    ]
    updated = [
        gradient + sum(length * product[p] for length, product in zip(row, products, strict=True))
        for p, (gradient, row) in enumerate(zip(gradients, lengths, strict=True))
    ]
    return State(
        with_coef(block, setting.fill_slots(moved, block.labels, subproblems)),
        setting.fill_slots(updated, block.labels, subproblems),
    )


def judge_block(setting: Setting, state: State) -> Standing:
    """Describe to the client how far a block is from the optimality conditions."""
    block, _, duals, coefs, gradients = open_state(setting, state)
    figures = []
    for dual, coef, gradient in zip(duals, coefs, gradients, strict=True):
        rise, fall = dual.slopes(gradient, coef)
        is_free = rise == fall
        figures.append((
            rise.min(initial=np.inf), fall.max(initial=-np.inf), np.count_nonzero(is_free),
            gradient[is_free].sum(), coef @ (gradient - dual.linear), dual.linear @ coef, coef @ coef,
        ))  # fmt: skip
    return Standing._make([*np.array(figures).T, _count_support(block)])


def finish_block(setting: Setting, state: State, offset: FloatArray) -> tuple[Block, FloatArray]:
    """Return the support vectors of a block, and the loss of its rows in each problem."""
    block, _, duals, _, gradients = open_state(setting, state)
    loss = []
    for dual, gradient, middle in zip(duals, gradients, offset, strict=True):
        above = gradient - middle
        loss.append(dual.upper @ np.maximum(-above, 0.0) - dual.lower @ np.maximum(above, 0.0))
    assert block.coef is not None
    return block.choose(block.coef.any(axis=1)), np.array(loss)


def _count_support(block: Block) -> int:
    assert block.coef is not None
    return int(np.count_nonzero(block.coef.any(axis=1)))


def _start(setting: Setting, block: Block) -> Block:
    """Return the block with dual variables, which are zero if no level was solved."""
    if block.coef is not None:
        return block
    return with_coef(block, np.zeros((len(block), setting.n_slots)))


def _solve_moves(
    setting: Setting, opened: Opened, tol: FloatArray
) -> tuple[list[FloatArray], Index]:
    """Return changes of the dual variables of each problem, and the iterations they took."""
    moves = [
        replace(
            dual, linear=gradient, lower=np.minimum(dual.lower - coef, 0.0),
            upper=np.maximum(dual.upper - coef, 0.0), start=None,
        )
        for dual, coef, gradient in zip(*opened[2:], strict=True)
    ]  # fmt: skip
    deltas, n_iter = [np.zeros(len(move)) for move in moves], np.zeros(len(moves), np.intp)
    going = np.flatnonzero(np.isfinite(tol))
    budget = replace(setting.budget, tol=float(tol[going].min()))
    solved = setting.solve(opened.block.X, [moves[p] for p in going], budget, watch_cancellation())
    for p, found in zip(going, solved, strict=True):
        deltas[p], n_iter[p] = found.coef, found.n_iter
    return deltas, n_iter


def _make_step(setting: Setting, opened: Opened, deltas: list[FloatArray], n_iter: Index) -> Step:
    slots = setting.fill_slots(deltas, opened.block.labels, opened.subproblems)
    return Step(
        slots,
        _make_change(setting, with_coef(opened.block, slots)),
        np.array([g @ d for g, d in zip(opened.gradients, deltas, strict=True)]),
        np.array(
            [_find_limit(*each) for each in zip(opened.duals, opened.coefs, deltas, strict=True)]
        ),
        n_iter,
    )


def _find_limit(dual: DualProblem, coef: FloatArray, delta: FloatArray) -> float:
    """Return how many times a step may be made; at least once, because its end is feasible."""
    room = np.where(delta > 0, dual.upper - coef, coef - dual.lower)
    moving = delta != 0
    return max(1.0, float((room[moving] / np.abs(delta[moving])).min(initial=np.inf)))


def _make_change(setting: Setting, block: Block) -> Change:
    """Return the rows of a block with dual variables that are not zero."""
    assert block.coef is not None
    moved = block.choose(block.coef.any(axis=1))
    return Change(moved.X, np.ascontiguousarray(spread_coef(setting, moved).T))


def _multiply(
    setting: Setting, block: Block, subproblems: list[Subproblem], change: Change
) -> FloatArray:
    """Return ``K d`` at the rows of a block, in slots."""
    out = np.zeros((len(block), change.delta.shape[1]))
    if change.X.shape[0]:
        points, moved = setting.prepare(block.X), setting.prepare(change.X)
        with single_blas():
            setting.kernel.accumulate(
                points, np.arange(len(points)), moved, np.arange(len(moved)), change.delta, out,
                Workers(1, None),
            )  # fmt: skip
    values = [out[sub.index, p] for p, sub in enumerate(subproblems)]
    return setting.fill_slots(values, block.labels, subproblems)
