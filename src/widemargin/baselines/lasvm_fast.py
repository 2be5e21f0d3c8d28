"""Compiled loops of LASVM: examples enter a set of members, pairs of members move.

A member has a slot, its place in the arrays and its column of the store of kernel rows. Rows of the
store are lines; a member has one as long as there is room for it. A function that needs a line which
is not there changes nothing and returns the slot, so that the caller can fill it in and ask again.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

#: What is to be done next with an example.
INSERT, PROCESS, REPROCESS = 0, 1, 2
#: Places in `Members.counts`: slots in use, free ones among them, uses of lines, direction searches.
SIZE, FREE, CLOCK, STEPS = 0, 1, 2, 3
_MIN_CURVATURE = 1e-12

# Inlined by the compiler always: freshly compiled and cached code then round alike.
jit = njit(cache=True, nogil=True, fastmath=True, error_model="numpy", forceinline=True)


class Rows(NamedTuple):
    """All examples: labels, bounds of the signed dual variables, ``k(x, x)``, slots (-1: none)."""

    y: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    diag: NDArray[np.float64]
    slot_of: NDArray[np.int64]


class Members(NamedTuple):
    """Members by slot, lines of the store, and counters.

    An empty slot has no owner (-1), and bounds of zero, so that it never moves.
    """

    alpha: NDArray[np.float64]
    gradient: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    owner: NDArray[np.int64]
    line_of: NDArray[np.int64]
    free: NDArray[np.int64]
    store: NDArray[np.float32]
    slot_at: NDArray[np.int64]
    last_use: NDArray[np.int64]
    counts: NDArray[np.int64]


@jit
def find_extremes(m):
    """Slots of the largest gradient that may rise and the smallest that may fall; -1 for none."""
    i, j = -1, -1
    high, low = -1e300, 1e300
    for s in range(m.counts[SIZE]):
        g = m.gradient[s]
        if g > high and m.alpha[s] < m.upper[s]:
            high, i = g, s
        if g < low and m.alpha[s] > m.lower[s]:
            low, j = g, s
    return i, j


@jit
def take_line(m, slot):
    """Give a slot the line that was used longest ago, or one that is free."""
    best = 0
    for line in range(m.last_use.size):
        if m.last_use[line] < m.last_use[best]:
            best = line
        if m.last_use[best] < 0:
            break
    if m.slot_at[best] >= 0:
        m.line_of[m.slot_at[best]] = -1
    m.slot_at[best], m.line_of[slot] = slot, best
    use_line(m, best)
    return best


@jit
def use_line(m, line):
    """Take note that a line is in use."""
    m.counts[CLOCK] += 1
    m.last_use[line] = m.counts[CLOCK]


@jit
def find_missing(m, i, j):
    """The first of two slots without a line, -1 if both have one."""
    if m.line_of[i] < 0:
        return i
    use_line(m, m.line_of[i])
    if m.line_of[j] < 0:
        return j
    use_line(m, m.line_of[j])
    return -1


@jit
def move_pair(rows, m, i, j):
    """Direction search: the best move of i up and j down; returns the decrease of the objective."""
    row_i, row_j = m.store[m.line_of[i]], m.store[m.line_of[j]]
    curvature = rows.diag[m.owner[i]] + rows.diag[m.owner[j]] - 2.0 * row_i[j]
    slope = m.gradient[i] - m.gradient[j]
    room_i, room_j = m.upper[i] - m.alpha[i], m.alpha[j] - m.lower[j]
    step = min(slope / max(curvature, _MIN_CURVATURE), room_i, room_j)
    # Set at a bound, not added to: a sum could round to just beyond it.
    m.alpha[i] = m.upper[i] if step == room_i else m.alpha[i] + step
    m.alpha[j] = m.lower[j] if step == room_j else m.alpha[j] - step
    size = m.counts[SIZE]
    gradient = m.gradient[:size]
    a, b = row_i[:size], row_j[:size]
    for s in range(size):
        gradient[s] -= step * (a[s] - b[s])
    m.counts[STEPS] += 1
    return step * (slope - 0.5 * step * curvature)


@jit
def insert(rows, m, row, values):
    """Make a row a member: ``values`` are its kernel values by slot."""
    if m.counts[FREE] > 0:
        m.counts[FREE] -= 1
        slot = m.free[m.counts[FREE]]
    else:
        slot = m.counts[SIZE]
        m.counts[SIZE] += 1
    size = m.counts[SIZE]
    values[slot] = rows.diag[row]
    m.owner[slot], rows.slot_of[row] = row, slot
    m.alpha[slot], m.lower[slot], m.upper[slot] = 0.0, rows.lower[row], rows.upper[row]
    total = 0.0
    for s in range(size):
        total += m.alpha[s] * values[s]
    m.gradient[slot] = rows.y[row] - total
    line = take_line(m, slot)
    m.store[line, :size] = values[:size]
    for at in range(m.slot_at.size):
        if m.slot_at[at] >= 0:
            m.store[at, slot] = values[m.slot_at[at]]
    return slot


@jit
def remove_outsiders(rows, m, i, j):
    """Remove members without a coefficient that lie beyond the extreme gradients."""
    high, low = m.gradient[i], m.gradient[j]
    for s in range(m.counts[SIZE]):
        if m.owner[s] < 0 or m.alpha[s] != 0.0:
            continue
        g, is_positive = m.gradient[s], rows.y[m.owner[s]] > 0
        if (is_positive and g <= low) or (not is_positive and g >= high):
            remove(rows, m, s)


@jit
def remove(rows, m, slot):
    """Empty a slot and free its line."""
    rows.slot_of[m.owner[slot]] = -1
    m.owner[slot] = -1
    m.lower[slot] = m.upper[slot] = 0.0
    if m.line_of[slot] >= 0:
        m.last_use[m.line_of[slot]] = m.slot_at[m.line_of[slot]] = -1
        m.line_of[slot] = -1
    m.free[m.counts[FREE]] = slot
    m.counts[FREE] += 1


@jit
def process(rows, m, row, tol):
    """Move a new member with the one that violates most with it; returns a slot without a line."""
    slot = rows.slot_of[row]
    i, j = find_extremes(m)
    if rows.y[row] > 0:
        i = slot
    else:
        j = slot
    if i < 0 or j < 0 or m.gradient[i] - m.gradient[j] <= tol:
        return -1
    missing = find_missing(m, i, j)
    if missing < 0:
        move_pair(rows, m, i, j)
    return missing


@jit
def reprocess(rows, m, tol, i, j):
    """Move the most violating pair (i, j), then remove members that are of no use.

    Returns a slot without a line, the decrease of the objective, and the next pair.
    """
    gain = 0.0
    if i < 0 or j < 0:
        return -1, gain, i, j
    if m.gradient[i] - m.gradient[j] > tol:
        missing = find_missing(m, i, j)
        if missing >= 0:
            return missing, gain, i, j
        gain = move_pair(rows, m, i, j)
        i, j = find_extremes(m)
        if i < 0 or j < 0:
            return -1, gain, i, j
    remove_outsiders(rows, m, i, j)
    return -1, gain, i, j


@jit
def close_gaps(rows, m):
    """Move members from the end to empty slots, so that none is empty."""
    slot = 0
    while m.counts[FREE] > 0:
        last = m.counts[SIZE] - 1
        if m.owner[last] < 0:
            m.counts[SIZE] -= 1
            m.counts[FREE] -= 1
            continue
        while m.owner[slot] >= 0:
            slot += 1
        move_member(rows, m, last, slot)


@jit
def move_member(rows, m, old, new):
    """Give a member another slot, which is empty; its own becomes so."""
    rows.slot_of[m.owner[old]] = new
    m.owner[new], m.owner[old] = m.owner[old], -1
    m.alpha[new], m.gradient[new] = m.alpha[old], m.gradient[old]
    m.lower[new], m.upper[new] = m.lower[old], m.upper[old]
    m.alpha[old] = m.lower[old] = m.upper[old] = 0.0
    m.line_of[new], m.line_of[old] = m.line_of[old], -1
    if m.line_of[new] >= 0:
        m.slot_at[m.line_of[new]] = new
    for line in range(m.slot_at.size):
        m.store[line, new] = m.store[line, old]


@jit
def run_examples(rows, m, chosen, at, phase, values, among, tol):
    """Take in examples, one after another, from number ``at`` on.

    Parameters
    ----------
    rows, m
        All rows and the members.
    chosen : ndarray of shape (b,)
        Rows that come in.
    at, phase : int
        Where to go on.
    values : ndarray of shape (b, n_slots)
        Kernel between these rows and the members by slot; changed as members come in.
    among : ndarray of shape (b, b)
        Kernel between these rows.
    tol : float
        Violation up to which a pair does not move.

    Returns
    -------
    at, phase : int
        Where to go on when the missing line is there.
    missing : int
        The slot without a line; -1 at the end.
    """
    while at < chosen.size:
        row = chosen[at]
        missing = -1
        if phase == INSERT:
            if rows.slot_of[row] >= 0:
                phase = REPROCESS
                continue
            slot = insert(rows, m, row, values[at])
            for later in range(at + 1, chosen.size):
                values[later, slot] = among[later, at]
            phase = PROCESS
        elif phase == PROCESS:
            missing = process(rows, m, row, tol)
            phase = REPROCESS if missing < 0 else PROCESS
        else:
            i, j = find_extremes(m)
            missing, _, _, _ = reprocess(rows, m, tol, i, j)
            if missing < 0:
                at, phase = at + 1, INSERT
        if missing >= 0:
            return at, phase, missing
    return at, INSERT, -1


@jit
def run_reprocess(rows, m, tol, max_steps):
    """Reprocess until no pair violates; returns a missing slot, the violation left and the gain."""
    total, violation = 0.0, 0.0
    i, j = find_extremes(m)
    for _ in range(max_steps):
        missing, gain, i, j = reprocess(rows, m, tol, i, j)
        total += gain
        violation = m.gradient[i] - m.gradient[j] if i >= 0 and j >= 0 else 0.0
        if missing >= 0 or violation <= tol:
            return missing, violation, total
    return -1, violation, total
