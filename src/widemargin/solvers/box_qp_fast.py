"""Compiled loops of the exact solver: pair updates on a small dense kernel matrix.

The passes over all variables work on blocks and reduce to the best value of each block; only the
winning block is searched for its index. A reduction over float32 does not vectorise, one over
integers does, so values are compared through integers that sort like the floats (`sort_key`).
"""

import numpy as np
from numba import njit

BLOCK = 256
_BLOCKED = np.float32(1e30)  # Added to the gradient of a variable that cannot move that way.
_ZERO = np.float32(0.0)
_TWO = np.float32(2.0)
_MIN_CURVATURE = np.float32(1e-12)
_LOWEST, _HIGHEST = np.int32(-0x7FFFFFFF), np.int32(0x7FFFFFFF)

jit = njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
inlined = njit(cache=True, nogil=True, fastmath=True, error_model="numpy", inline="always")


@inlined
def sort_key(x):
    """Integer that orders like the float32 ``x``."""
    bits = np.float32(x).view(np.int32)
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@jit
def key_value(key):
    """The float32 whose `sort_key` is ``key``."""
    return np.int32(key ^ ((key >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)


@jit
def find_extremes(gradient, no_rise, no_fall):
    """Keys of the smallest gradient that may rise and the largest that may fall."""
    low, high = _HIGHEST, _LOWEST
    for k in range(gradient.size):
        low = min(low, sort_key(gradient[k] + no_rise[k]))
        high = max(high, sort_key(gradient[k] - no_fall[k]))
    return low, high


@jit
def update_gradient(step_i, row_i, step_j, row_j, no_rise, no_fall, gradient):
    """Add both steps to a block of the gradient and return its new extremes."""
    low, high = _HIGHEST, _LOWEST
    for k in range(gradient.size):
        value = gradient[k] + step_i * row_i[k] + step_j * row_j[k]
        gradient[k] = value
        low = min(low, sort_key(value + no_rise[k]))
        high = max(high, sort_key(value - no_fall[k]))
    return low, high


@inlined
def gain_of_fall(gradient, no_fall, row_i, diag, gradient_i, diag_i):
    """Twice the decrease of the objective from moving i up and this variable down equally."""
    slope = max(gradient - no_fall - gradient_i, _ZERO)
    curvature = max(diag_i + diag - _TWO * row_i, _MIN_CURVATURE)
    return slope * slope / curvature


@inlined
def gain_of_free_move(gradient, no_rise, no_fall, row_i, diag, gradient_i, diag_i):
    """Decrease, beyond that of moving i alone, from moving this variable too (unscaled).

    Minimising over the pair, this variable moves by ``slope / determinant``; a move that its bound
    forbids gains nothing.
    """
    slope = gradient_i * row_i - gradient * diag_i
    slope = max(slope - no_rise, _ZERO) + max(-slope - no_fall, _ZERO)
    determinant = max(diag_i * diag - row_i * row_i, _MIN_CURVATURE)
    return slope * slope / determinant


@jit
def best_fall(gradient, no_fall, row_i, diag, gradient_i, diag_i):
    best = np.int32(0)
    for k in range(gradient.size):
        gain = gain_of_fall(gradient[k], no_fall[k], row_i[k], diag[k], gradient_i, diag_i)
        best = max(best, np.float32(gain).view(np.int32))
    return best


@jit
def best_free_move(gradient, no_rise, no_fall, row_i, diag, gradient_i, diag_i):
    best = np.int32(0)
    for k in range(gradient.size):
        gain = gain_of_free_move(
            gradient[k], no_rise[k], no_fall[k], row_i[k], diag[k], gradient_i, diag_i
        )
        best = max(best, np.float32(gain).view(np.int32))
    return best


@jit
def locate_rise(gradient, no_rise, key):
    for k in range(gradient.size):
        if sort_key(gradient[k] + no_rise[k]) == key:
            return k
    return 0


@jit
def locate_fall(gradient, no_fall, key):
    for k in range(gradient.size):
        if sort_key(gradient[k] - no_fall[k]) == key:
            return k
    return 0


@jit
def locate_gain(tied, gradient, no_rise, no_fall, row_i, diag, gradient_i, diag_i):
    best, at = np.float32(-1.0), 0
    for k in range(gradient.size):
        if tied:
            gain = gain_of_fall(gradient[k], no_fall[k], row_i[k], diag[k], gradient_i, diag_i)
        else:
            gain = gain_of_free_move(
                gradient[k], no_rise[k], no_fall[k], row_i[k], diag[k], gradient_i, diag_i
            )
        if gain > best:
            best, at = gain, k
    return at


@jit
def select_partner(tied, i, gradient, no_rise, no_fall, row_i, diag):
    """Index of the variable that gains most when moved together with ``i``, -1 if none gains."""
    n = gradient.size
    best, best_block = np.int32(0), -1
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        if tied:
            key = best_fall(
                gradient[start:stop], no_fall[start:stop], row_i[start:stop], diag[start:stop],
                gradient[i], diag[i],
            )  # fmt: skip
        else:
            key = best_free_move(
                gradient[start:stop], no_rise[start:stop], no_fall[start:stop],
                row_i[start:stop], diag[start:stop], gradient[i], diag[i],
            )  # fmt: skip
        if key > best:
            best, best_block = key, start
    if best_block < 0:
        return -1
    stop = min(best_block + BLOCK, n)
    return best_block + locate_gain(
        tied, gradient[best_block:stop], no_rise[best_block:stop], no_fall[best_block:stop],
        row_i[best_block:stop], diag[best_block:stop], gradient[i], diag[i],
    )  # fmt: skip


@jit
def clip(x, low, high):
    return min(max(x, low), high)


@jit
def solve_pair(g_i, g_j, k_ii, k_jj, k_ij, low_i, high_i, low_j, high_j):
    """Minimise ``g_i s + g_j t + (k_ii s^2 + 2 k_ij s t + k_jj t^2) / 2`` over a box of steps.

    The minimiser of a convex quadratic over a box is the free minimiser if that is inside, else
    lies on an edge; the best of the four edges is taken.
    """
    determinant = k_ii * k_jj - k_ij * k_ij
    if determinant > 1e-12 * k_ii * k_jj:
        s = (k_ij * g_j - k_jj * g_i) / determinant
        t = (k_ij * g_i - k_ii * g_j) / determinant
        if low_i <= s <= high_i and low_j <= t <= high_j:
            return s, t
    best, best_s, best_t = 0.0, 0.0, 0.0
    for edge in range(4):
        if edge < 2:
            s = low_i if edge == 0 else high_i
            t = clip(-(g_j + k_ij * s) / max(k_jj, 1e-12), low_j, high_j)
        else:
            t = low_j if edge == 2 else high_j
            s = clip(-(g_i + k_ij * t) / max(k_ii, 1e-12), low_i, high_i)
        change = g_i * s + g_j * t + 0.5 * (k_ii * s * s + k_jj * t * t) + k_ij * s * t
        if change < best:
            best, best_s, best_t = change, s, t
    return best_s, best_t


@jit
def move_within(x, step, low, high):
    """``x + step``, landing exactly on a bound when the step was cut there."""
    if step == high - x:
        return high
    if step == low - x:
        return low
    return clip(x + step, low, high)


@jit
def mark_bounds(k, coef, lower, upper, no_rise, no_fall):
    no_rise[k] = _ZERO if coef[k] < upper[k] else _BLOCKED
    no_fall[k] = _ZERO if coef[k] > lower[k] else _BLOCKED


@jit
def pair_steps(tied, i, j, matrix, diag, lower, upper, gradient, coef):
    """Steps of variables i and j that minimise the objective over the pair (or over i alone)."""
    low_i, high_i = lower[i] - coef[i], upper[i] - coef[i]
    low_j, high_j = lower[j] - coef[j], upper[j] - coef[j]
    g_i, g_j = np.float64(gradient[i]), np.float64(gradient[j])
    k_ij = np.float64(matrix[i, j])
    if i == j:
        return clip(-g_i / max(np.float64(diag[i]), 1e-12), low_i, high_i), 0.0
    if not tied:
        return solve_pair(g_i, g_j, diag[i], diag[j], k_ij, low_i, high_i, low_j, high_j)
    curvature = max(np.float64(diag[i]) + diag[j] - 2.0 * k_ij, 1e-12)
    step = min((g_j - g_i) / curvature, min(high_i, -low_j))
    return step, -step


@jit
def optimise_pairs(tied, matrix, diag, lower, upper, tol, max_updates, gradient, coef):
    """Minimise ``0.5 b'Kb - p'b`` over ``lower <= b <= upper`` by exact moves of pairs.

    With ``tied`` the sum of b is held (the dual of an SVM with intercept), without it is free. The
    first variable is the worst violator, the second gains most with it (second-order selection: Fan,
    Chen and Lin, 2005; without intercept Steinwart, Hush and Scovel, 2011).

    ========  ===========  ==========================================
    symbol    variable     shape
    ========  ===========  ==========================================
    K         matrix       (n or more, n or more) float32, symmetric
    b         coef         (n,) float64, updated in place
    Kb - p    gradient     (n,) float32, updated in place
    ========  ===========  ==========================================

    Stops when ``max(gradient of b that may fall) - min(gradient of b that may rise) < tol`` (without
    ``tied``, both are taken against zero), or after ``max_updates`` moves. Returns the number of
    moves and the violation.
    """
    n = gradient.size
    no_rise, no_fall = np.empty(n, np.float32), np.empty(n, np.float32)
    for k in range(n):
        mark_bounds(k, coef, lower, upper, no_rise, no_fall)
    n_blocks = (n + BLOCK - 1) // BLOCK
    lows, highs = np.empty(n_blocks, np.int32), np.empty(n_blocks, np.int32)
    for b in range(n_blocks):
        start, stop = b * BLOCK, min((b + 1) * BLOCK, n)
        lows[b], highs[b] = find_extremes(
            gradient[start:stop], no_rise[start:stop], no_fall[start:stop]
        )
    n_updates = 0
    while True:
        low_block, high_block = np.argmin(lows), np.argmax(highs)
        low, high = key_value(lows[low_block]), key_value(highs[high_block])
        if not tied:
            low, high = min(low, _ZERO), max(high, _ZERO)
        violation = high - low
        if violation < tol or n_updates >= max_updates:
            break
        if tied or -low >= high:
            start, stop = low_block * BLOCK, min((low_block + 1) * BLOCK, n)
            i = start + locate_rise(gradient[start:stop], no_rise[start:stop], lows[low_block])
        else:
            start, stop = high_block * BLOCK, min((high_block + 1) * BLOCK, n)
            i = start + locate_fall(gradient[start:stop], no_fall[start:stop], highs[high_block])
        row_i = matrix[i][:n]
        j = select_partner(tied, i, gradient, no_rise, no_fall, row_i, diag)
        if j < 0:
            if tied:
                break
            j = i
        step_i, step_j = pair_steps(tied, i, j, matrix, diag, lower, upper, gradient, coef)
        if step_i == 0.0 and step_j == 0.0:
            break
        coef[i] = move_within(coef[i], step_i, lower[i], upper[i])
        coef[j] = move_within(coef[j], step_j, lower[j], upper[j])
        mark_bounds(i, coef, lower, upper, no_rise, no_fall)
        mark_bounds(j, coef, lower, upper, no_rise, no_fall)
        row_j, s, t = matrix[j][:n], np.float32(step_i), np.float32(step_j)
        for b in range(n_blocks):
            start, stop = b * BLOCK, min((b + 1) * BLOCK, n)
            lows[b], highs[b] = update_gradient(
                s, row_i[start:stop], t, row_j[start:stop],
                no_rise[start:stop], no_fall[start:stop], gradient[start:stop],
            )  # fmt: skip
        n_updates += 1
    return n_updates, violation


@jit
def compact_matrix(buffer, side, kept):
    """Keep the given rows and columns (ascending) of a square matrix; its side becomes their number.

    The matrix lies row by row at the start of ``buffer``. Every entry moves towards the start, so
    going forward never overwrites what is still needed.
    """
    n = kept.size
    for r in range(n):
        source, target = kept[r] * side, r * n
        for c in range(n):
            buffer[target + c] = buffer[source + kept[c]]


@jit
def widen_matrix(buffer, side, new_side):
    """Lay the rows of a square matrix ``new_side`` apart, last row first so that none is lost."""
    row = np.empty(side, buffer.dtype)
    for r in range(side - 1, -1, -1):
        row[:] = buffer[r * side : (r + 1) * side]
        buffer[r * new_side : r * new_side + side] = row


@jit
def add_matvec(matrix, cols, change, start, stop, out):
    """``out[start:stop] += matrix[start:stop, cols] @ change`` for a symmetric matrix.

    Reads the rows ``cols`` in place of columns, four at a time, in pieces that stay in cache.
    """
    piece = 2048
    for s in range(start, stop, piece):
        e = min(s + piece, stop)
        target = out[s:e]
        k = 0
        while k + 4 <= cols.size:
            add_rows4(
                matrix[cols[k]][s:e], matrix[cols[k + 1]][s:e],
                matrix[cols[k + 2]][s:e], matrix[cols[k + 3]][s:e],
                change[k], change[k + 1], change[k + 2], change[k + 3], target,
            )  # fmt: skip
            k += 4
        while k < cols.size:
            add_row(matrix[cols[k]][s:e], change[k], target)
            k += 1


@jit
def add_row(row, factor, out):
    for c in range(out.size):
        out[c] += factor * row[c]


@jit
def add_rows4(row0, row1, row2, row3, factor0, factor1, factor2, factor3, out):
    for c in range(out.size):
        out[c] += (factor0 * row0[c] + factor1 * row1[c]) + (factor2 * row2[c] + factor3 * row3[c])
