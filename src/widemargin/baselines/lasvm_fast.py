"""Compiled loops of LASVM: insertion of rows into the working set, and updates of pairs of them.

Rows in the working set are members. A member has a slot: its position in the arrays, and its column in
the cache of kernel rows. A line is one kernel row in the cache; the cache may have fewer lines than
there are members. A function that needs a missing line changes nothing and returns the slot of the
member, so that the caller can compute the line and call the function again.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

#: The next operation on a row.
INSERT, PROCESS, REPROCESS = 0, 1, 2
#: Indices of `Members.counts`: slots in use, empty slots among them, uses of lines, updates of pairs.
SIZE, FREE, CLOCK, STEPS = 0, 1, 2, 3
_MIN_CURVATURE = 1e-12

# Inlined by the compiler always: freshly compiled and cached code then round alike.
jit = njit(cache=True, nogil=True, fastmath=True, error_model="numpy", forceinline=True)


class Rows(NamedTuple):
    """All rows: labels, bounds of the signed dual variables, ``k(x, x)``, and slots (-1 for none)."""

    y: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    diag: NDArray[np.float64]
    slot_of: NDArray[np.int64]


class Members(NamedTuple):
    """The working set by slot, the lines of the cache, and counters.

    An empty slot has the owner -1, and bounds of zero, so that no update selects it.
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
    """Return the most violating pair, the variable to raise and the one to lower; -1 for none."""
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
    """Assign a free line to a slot, or the line that was used least recently."""
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
    """Record that a line is used now."""
    m.counts[CLOCK] += 1
    m.last_use[line] = m.counts[CLOCK]


@jit
def find_missing(m, i, j):
    """Return the first of two slots without a line, or -1 if both have one."""
    if m.line_of[i] < 0:
        return i
    use_line(m, m.line_of[i])
    if m.line_of[j] < 0:
        return j
    use_line(m, m.line_of[j])
    return -1


@jit
def update_pair(rows, m, i, j):
    """Raise variable i and lower variable j by the best step; return the decrease of the objective."""
    row_i, row_j = m.store[m.line_of[i]], m.store[m.line_of[j]]
    curvature = rows.diag[m.owner[i]] + rows.diag[m.owner[j]] - 2.0 * row_i[j]
    slope = m.gradient[i] - m.gradient[j]
    room_i, room_j = m.upper[i] - m.alpha[i], m.alpha[j] - m.lower[j]
    step = min(slope / max(curvature, _MIN_CURVATURE), room_i, room_j)
    # A variable that reaches its bound is set to it: the sum could round to a value beyond the bound.
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
    """Insert a row into the working set; ``values`` are its kernel values by slot."""
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
    """Remove members with a dual variable of zero that are in no violating pair."""
    high, low = m.gradient[i], m.gradient[j]
    for s in range(m.counts[SIZE]):
        if m.owner[s] < 0 or m.alpha[s] != 0.0:
            continue
        g, is_positive = m.gradient[s], rows.y[m.owner[s]] > 0
        if (is_positive and g <= low) or (not is_positive and g >= high):
            remove(rows, m, s)


@jit
def remove(rows, m, slot):
    """Remove the member of a slot, and free its line."""
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
    """Update a new member and the member that violates most with it; return a missing slot or -1."""
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
        update_pair(rows, m, i, j)
    return missing


@jit
def reprocess(rows, m, tol, i, j):
    """Update the most violating pair (i, j), then remove members that are in no violating pair.

    Returns the slot of a missing line or -1, the decrease of the objective, and the next pair.
    """
    gain = 0.0
    if i < 0 or j < 0:
        return -1, gain, i, j
    if m.gradient[i] - m.gradient[j] > tol:
        missing = find_missing(m, i, j)
        if missing >= 0:
            return missing, gain, i, j
        gain = update_pair(rows, m, i, j)
        i, j = find_extremes(m)
        if i < 0 or j < 0:
            return -1, gain, i, j
    remove_outsiders(rows, m, i, j)
    return -1, gain, i, j


@jit
def close_gaps(rows, m):
    """Move the last members to the empty slots, so that no slot is empty."""
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
    """Move a member to an empty slot."""
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
    """Insert, process and reprocess rows one after another, beginning with number ``at``.

    Parameters
    ----------
    rows, m
        All rows, and the working set.
    chosen : ndarray of shape (b,)
        Rows to insert.
    at, phase : int
        Number of the row in ``chosen``, and the operation, at which to continue.
    values : ndarray of shape (b, n_slots)
        Kernel between these rows and the members by slot; updated for members that are inserted.
    among : ndarray of shape (b, b)
        Kernel between these rows.
    tol : float
        Violation up to which a pair is not updated.

    Returns
    -------
    at, phase : int
        Where to continue when the missing line is computed.
    missing : int
        The slot of the missing line; -1 if all rows are processed.
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
    """Reprocess until no pair violates; return a missing slot or -1, the violation and the gain."""
    total, violation = 0.0, 0.0
    i, j = find_extremes(m)
    for _ in range(max_steps):
        missing, gain, i, j = reprocess(rows, m, tol, i, j)
        total += gain
        violation = m.gradient[i] - m.gradient[j] if i >= 0 and j >= 0 else 0.0
        if missing >= 0 or violation <= tol:
            return missing, violation, total
    return -1, violation, total
