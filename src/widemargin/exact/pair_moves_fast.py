"""Compiled loops of the exact solver: pair updates on a small dense kernel matrix.

The passes over all variables work on blocks and reduce to the best value of each block; only the
winning block is searched for its index. A reduction over floats does not vectorise, one over
integers does, so values are compared through integers that sort like the floats (`sort_key`).

The gradient is of float64: at C = 2^15 neighbouring float32 values of it are 0.004 apart, where 0.0005
is asked, and descent would end in moves back and forth. Gains, which only choose between variables,
are of float32.

The objective may have the term ``epsilon |b|_1``, which bends at zero. The slope of the objective
along a variable that rises is its gradient plus ``no_rise``, and along one that falls its gradient
minus ``no_fall``: plus or minus epsilon, or a huge number at a bound. A step ends at zero where it
would cross zero, so that no step passes a bend.
"""

import numpy as np

from widemargin.compilation import inlined, jit, part
from widemargin.kernels.tiles_fast import copy_row, write_kernel_row

BLOCK = 256
SQUARE = 32
_HUGE = 1e200  # Slope of a variable that cannot move; infinity is not allowed with fastmath.
_TWO = np.float32(2.0)
_MIN_CURVATURE = np.float32(1e-12)
_LOWEST, _HIGHEST = np.int64(-0x7FFFFFFFFFFFFFFF), np.int64(0x7FFFFFFFFFFFFFFF)


@inlined
def sort_key(x):
    """Integer that orders like the float64 ``x``."""
    bits = np.float64(x).view(np.int64)
    return bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))


@part
def key_value(key):
    """The float64 whose `sort_key` is ``key``."""
    return np.int64(key ^ ((key >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))).view(np.float64)


@part
def find_extremes(gradient, no_rise, no_fall):
    """Keys of the smallest gradient that may rise and the largest that may fall."""
    low, high = _HIGHEST, _LOWEST
    for k in range(gradient.size):
        low = min(low, sort_key(gradient[k] + no_rise[k]))
        high = max(high, sort_key(gradient[k] - no_fall[k]))
    return low, high


@part
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
    slope = np.float32(max(gradient - no_fall - gradient_i, 0.0))
    curvature = max(diag_i + diag - _TWO * row_i, _MIN_CURVATURE)
    return slope * slope / curvature


@inlined
def gain_of_free_move(gradient, no_rise, no_fall, row_i, diag, gradient_i, diag_i):
    """Decrease, beyond that of moving i alone, from moving this variable too (unscaled).

    Minimising over the pair, this variable moves by ``slope / determinant``; a move that its bound
    forbids gains nothing.
    """
    rise = gradient_i * row_i - (gradient + no_rise) * diag_i
    fall = (gradient - no_fall) * diag_i - gradient_i * row_i
    slope = np.float32(max(rise, 0.0) + max(fall, 0.0))
    determinant = max(diag_i * diag - row_i * row_i, _MIN_CURVATURE)
    return slope * slope / determinant


@part
def best_fall(gradient, no_fall, row_i, diag, gradient_i, diag_i):
    best = np.int32(0)
    for k in range(gradient.size):
        gain = gain_of_fall(gradient[k], no_fall[k], row_i[k], diag[k], gradient_i, diag_i)
        best = max(best, np.float32(gain).view(np.int32))
    return best


@part
def best_free_move(gradient, no_rise, no_fall, row_i, diag, gradient_i, diag_i):
    best = np.int32(0)
    for k in range(gradient.size):
        gain = gain_of_free_move(
            gradient[k], no_rise[k], no_fall[k], row_i[k], diag[k], gradient_i, diag_i
        )
        best = max(best, np.float32(gain).view(np.int32))
    return best


@part
def locate_rise(gradient, no_rise, key):
    for k in range(gradient.size):
        if sort_key(gradient[k] + no_rise[k]) == key:
            return k
    return 0


@part
def locate_fall(gradient, no_fall, key):
    for k in range(gradient.size):
        if sort_key(gradient[k] - no_fall[k]) == key:
            return k
    return 0


@part
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


@part
def tile_of(row, col):
    """Where the tile at a place of the square grid is stored.

    Tiles are numbered ring by ring, so a matrix that grows to the right and downwards leaves the
    tiles it has where they are.
    """
    if row >= col:
        return row * row + col
    return col * col + col + 1 + row


@part
def select_partner(tied, i, slope_i, tiles, gradient, no_rise, no_fall, diag):
    """Index of the variable that gains most when moved together with ``i``, -1 if none gains."""
    n, side = gradient.size, tiles.shape[2]
    best, best_block = np.int32(0), -1
    for first in range(0, n, side):
        row_i = tiles[tile_of(i // side, first // side), i % side]
        for start in range(first, min(first + side, n), BLOCK):
            stop = min(start + BLOCK, first + side, n)
            part = row_i[start - first : stop - first]
            if tied:
                key = best_fall(
                    gradient[start:stop], no_fall[start:stop], part, diag[start:stop],
                    slope_i, diag[i],
                )  # fmt: skip
            else:
                key = best_free_move(
                    gradient[start:stop], no_rise[start:stop], no_fall[start:stop],
                    part, diag[start:stop], slope_i, diag[i],
                )  # fmt: skip
            if key > best:
                best, best_block = key, start
    if best_block < 0:
        return -1
    at = best_block % side
    stop = min(best_block + BLOCK, best_block - at + side, n)
    row_i = tiles[tile_of(i // side, best_block // side), i % side]
    return best_block + locate_gain(
        tied, gradient[best_block:stop], no_rise[best_block:stop], no_fall[best_block:stop],
        row_i[at : at + stop - best_block], diag[best_block:stop], slope_i, diag[i],
    )  # fmt: skip


@part
def clip(x, low, high):
    return min(max(x, low), high)


@part
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


@part
def move_within(x, step, low, high):
    """``x + step``, landing exactly on a bound when the step was cut there."""
    if step == high - x:
        return high
    if step == low - x:
        return low
    return clip(x + step, low, high)


@part
def mark_bounds(k, epsilon, coef, lower, upper, no_rise, no_fall):
    """What is added to the gradient of a variable for its slope upwards, and taken off downwards."""
    no_rise[k] = _HUGE if coef[k] >= upper[k] else (epsilon if coef[k] >= 0.0 else -epsilon)
    no_fall[k] = _HUGE if coef[k] <= lower[k] else (epsilon if coef[k] <= 0.0 else -epsilon)


@part
def find_piece(k, direction, epsilon, lower, upper, coef):
    """Bounds of a variable on its side of zero, and the slope of ``epsilon |b|`` there.

    A variable that is zero moves to the side that ``direction`` says.
    """
    if epsilon == 0.0:
        return lower[k], upper[k], 0.0
    if coef[k] > 0.0 or (coef[k] == 0.0 and direction > 0.0):
        return max(lower[k], 0.0), upper[k], epsilon
    return lower[k], min(upper[k], 0.0), -epsilon


@part
def pair_steps(tied, epsilon, i, j, k_ij, diag, lower, upper, gradient, coef):
    """Steps of variables i and j that minimise the objective over the pair (or over i alone).

    With ``tied``, i rises and j falls by the same amount.
    """
    k_ii, k_jj = np.float64(diag[i]), np.float64(diag[j])
    direction = 1.0 if tied else -gradient[i]
    low_i, high_i, bend = find_piece(i, direction, epsilon, lower, upper, coef)
    g_i = gradient[i] + bend
    direction = -1.0 if tied else g_i * k_ij - gradient[j] * k_ii
    low_j, high_j, bend = find_piece(j, direction, epsilon, lower, upper, coef)
    g_j = gradient[j] + bend
    if tied:
        step = (g_j - g_i) / max(k_ii + k_jj - 2.0 * k_ij, 1e-12)
        step = min(step, min(high_i - coef[i], coef[j] - low_j))
        return step, -step
    if i == j:
        return clip(-g_i / max(k_ii, 1e-12), low_i - coef[i], high_i - coef[i]), 0.0
    return solve_pair(
        g_i, g_j, k_ii, k_jj, k_ij,
        low_i - coef[i], high_i - coef[i], low_j - coef[j], high_j - coef[j],
    )  # fmt: skip


@part
def apply_moves(i, step_i, j, step_j, tiles, no_rise, no_fall, gradient, lows, highs):
    """Bring the gradient, and the extremes of each of its blocks, up to date after a pair move."""
    n, side = gradient.size, tiles.shape[2]
    b = 0
    for first in range(0, n, side):
        row_i = tiles[tile_of(i // side, first // side), i % side]
        row_j = tiles[tile_of(j // side, first // side), j % side]
        for start in range(first, min(first + side, n), BLOCK):
            stop = min(start + BLOCK, first + side, n)
            lows[b], highs[b] = update_gradient(
                step_i, row_i[start - first : stop - first],
                step_j, row_j[start - first : stop - first],
                no_rise[start:stop], no_fall[start:stop], gradient[start:stop],
            )  # fmt: skip
            b += 1


@jit
def make_known(k, source, diag, is_known, tiles):
    """Compute a row of a matrix that is a single tile."""
    write_kernel_row(source, k, tiles[0, k])
    tiles[0, k, k] = diag[k]
    is_known[k] = True


@jit
def optimise_pairs(
    tied, epsilon, tiles, is_known, source, diag, lower, upper, tol, max_updates, gradient, coef
):
    """Minimise ``0.5 b'Kb + p'b + epsilon |b|_1`` over ``lower <= b <= upper`` by moves of pairs.

    With ``tied`` the sum of b is held (the dual of an SVM with intercept), without it is free. The
    first variable is the worst violator, the second gains most with it (second-order selection: Fan,
    Chen and Lin, 2005; without intercept Steinwart, Hush and Scovel, 2011).

    ========  ===========  ==========================================
    symbol    variable     shape
    ========  ===========  ==========================================
    K         tiles        square tiles, float32, see `tile_of`
    b         coef         (n,) float64, updated in place
    Kb + p    gradient     (n,) float64, updated in place
    ========  ===========  ==========================================

    Stops when ``max(slope of b that may fall) - min(slope of b that may rise) < tol`` (without
    ``tied``, both are taken against zero), or after ``max_updates`` moves. Returns the number of
    moves and the violation.

    Rows of K that are not marked in ``is_known``, and then are of a single tile, are computed from
    ``source``, a `RowSource`, when a move needs them: most points never move. If ``source`` is None,
    all rows are known, and the loops that compute rows, a third of the time to compile, are left out.
    """
    n, side = gradient.size, tiles.shape[2]
    no_rise, no_fall = np.empty(n), np.empty(n)
    for k in range(n):
        mark_bounds(k, epsilon, coef, lower, upper, no_rise, no_fall)
    starts = block_starts(n, side)
    n_blocks = starts.size - 1
    lows, highs = np.empty(n_blocks, np.int64), np.empty(n_blocks, np.int64)
    for b in range(n_blocks):
        start, stop = starts[b], starts[b + 1]
        lows[b], highs[b] = find_extremes(
            gradient[start:stop], no_rise[start:stop], no_fall[start:stop]
        )
    n_updates = 0
    while True:
        low_block, high_block = 0, 0
        for b in range(1, n_blocks):
            if lows[b] < lows[low_block]:
                low_block = b
            if highs[b] > highs[high_block]:
                high_block = b
        low, high = key_value(lows[low_block]), key_value(highs[high_block])
        if not tied:
            low, high = min(low, 0.0), max(high, 0.0)
        violation = high - low
        if violation < tol or n_updates >= max_updates:
            break
        if tied or -low >= high:
            start, stop = starts[low_block], starts[low_block + 1]
            i = start + locate_rise(gradient[start:stop], no_rise[start:stop], lows[low_block])
            slope_i = low
        else:
            start, stop = starts[high_block], starts[high_block + 1]
            i = start + locate_fall(gradient[start:stop], no_fall[start:stop], highs[high_block])
            slope_i = high
        j = i
        if source is None or is_known[i]:
            j = select_partner(tied, i, slope_i, tiles, gradient, no_rise, no_fall, diag)
            if j < 0:
                if tied:
                    break
                j = i
        # Numba leaves out a branch on a None that is a condition of its own.
        if source is not None:  # noqa: SIM102
            if not is_known[j]:
                # The same pair is found again then: compiling this for either of the two takes longer.
                make_known(j, source, diag, is_known, tiles)
                continue
        k_ij = np.float64(tiles[tile_of(i // side, j // side), i % side, j % side])
        step_i, step_j = pair_steps(tied, epsilon, i, j, k_ij, diag, lower, upper, gradient, coef)
        if step_i == 0.0 and step_j == 0.0:
            break
        coef[i] = move_within(coef[i], step_i, lower[i], upper[i])
        coef[j] = move_within(coef[j], step_j, lower[j], upper[j])
        mark_bounds(i, epsilon, coef, lower, upper, no_rise, no_fall)
        mark_bounds(j, epsilon, coef, lower, upper, no_rise, no_fall)
        apply_moves(
            i, step_i, j, step_j, tiles, no_rise, no_fall, gradient, lows, highs
        )  # fmt: skip
        n_updates += 1
    return n_updates, violation


@part
def slope_up(k, epsilon, upper, gradient, coef):
    """Slope of the objective along a variable that rises; huge at its upper bound."""
    if coef[k] >= upper[k]:
        return _HUGE
    return gradient[k] + (epsilon if coef[k] >= 0.0 else -epsilon)


@part
def slope_down(k, epsilon, lower, gradient, coef):
    """Slope of the objective at a variable that falls; minus a huge number at its lower bound."""
    if coef[k] <= lower[k]:
        return -_HUGE
    return gradient[k] + (epsilon if coef[k] > 0.0 else -epsilon)


@part
def worst_violator(tied, epsilon, lower, upper, gradient, coef):
    """The variable that violates its condition most, its slope, and the largest violation of all."""
    low, high, rising, falling = _HUGE, -_HUGE, 0, 0
    for k in range(coef.size):
        up = slope_up(k, epsilon, upper, gradient, coef)
        down = slope_down(k, epsilon, lower, gradient, coef)
        if up < low:
            low, rising = up, k
        if down > high:
            high, falling = down, k
    if tied:
        return rising, low, high - low
    low, high = min(low, 0.0), max(high, 0.0)
    if -low >= high:
        return rising, low, high - low
    return falling, high, high - low


@part
def best_partner(tied, epsilon, i, slope_i, row_i, diag, lower, upper, gradient, coef):
    """The variable that gains most when moved together with ``i``, -1 if none gains."""
    best, at = 0.0, -1
    for k in range(coef.size):
        up = slope_up(k, epsilon, upper, gradient, coef)
        down = slope_down(k, epsilon, lower, gradient, coef)
        if tied:
            slope = max(down - slope_i, 0.0)
            curvature = diag[i] + diag[k] - 2.0 * row_i[k]
        else:
            along = slope_i * row_i[k]
            slope = max(along - up * diag[i], 0.0) + max(down * diag[i] - along, 0.0)
            curvature = diag[i] * diag[k] - row_i[k] * row_i[k]
        if k != i:
            gain = slope * slope / max(curvature, 1e-12)
            if gain > best:
                best, at = gain, k
    return at


@jit
def optimise_small(tied, epsilon, K, lower, upper, tol, max_updates, gradient, coef):
    """`optimise_pairs` for a few variables: plain passes over a whole matrix, all in float64."""
    diag = np.diag(K).copy()
    n_updates = 0
    while True:
        i, slope_i, violation = worst_violator(tied, epsilon, lower, upper, gradient, coef)
        if violation < tol or n_updates >= max_updates:
            break
        j = best_partner(tied, epsilon, i, slope_i, K[i], diag, lower, upper, gradient, coef)
        if j < 0:
            if tied:
                break
            j = i
        step_i, step_j = pair_steps(
            tied, epsilon, i, j, K[i, j], diag, lower, upper, gradient, coef
        )
        if step_i == 0.0 and step_j == 0.0:
            break
        coef[i] = move_within(coef[i], step_i, lower[i], upper[i])
        coef[j] = move_within(coef[j], step_j, lower[j], upper[j])
        for k in range(coef.size):
            gradient[k] += step_i * K[i, k] + step_j * K[j, k]
        n_updates += 1
    return n_updates, violation


@part
def block_starts(n, side):
    """Where the blocks of the passes begin: none reaches from one tile into the next."""
    # A list would take longer to compile.
    starts = np.empty(n // BLOCK + n // side + 3, np.int64)
    starts[0], n_blocks = 0, 0
    for first in range(0, n, side):
        for start in range(first, min(first + side, n), BLOCK):
            n_blocks += 1
            starts[n_blocks] = min(start + BLOCK, first + side, n)
    return starts[: n_blocks + 1]


@jit
def store_block(block, first_row, cols, is_new, tiles):
    """Store kernel values between the slots from ``first_row`` on, of one tile, and slots ``cols``.

    Between two new slots, an entry is taken where the row comes first, its mirror image elsewhere:
    every entry is written once, so the order in which threads finish does not matter.
    """
    n, side = block.shape[0], tiles.shape[2]
    first_col, last_col = cols[0], cols[-1]
    are_adjacent = last_col - first_col + 1 == cols.size
    n_simple = 0
    if are_adjacent and first_col // side == last_col // side:
        n_simple = min(max(first_col - first_row, 0), n)
        store_rectangle(block[:n_simple], first_row, first_col, tiles)
        if first_row + n_simple == first_col and n - n_simple == cols.size:
            store_square(block[n_simple:], first_col, tiles)
            n_simple = n
    store_scattered(block[n_simple:], first_row + n_simple, cols, is_new, tiles)


@part
def store_scattered(block, first_row, cols, is_new, tiles):
    """`store_block` for any columns: along rows of the matrix, then, in squares, along its columns."""
    n, side = block.shape[0], tiles.shape[2]
    tile_row, top = first_row // side, first_row % side
    first = 0
    while first < cols.size:
        # Columns of one tile at a time, so that nothing is divided in the loop.
        tile_col, last = cols[first] // side, first
        while last < cols.size and cols[last] // side == tile_col:
            last += 1
        tile, left = tiles[tile_of(tile_row, tile_col)], tile_col * side
        for r in range(n):
            target, is_old, row = tile[top + r], not is_new[first_row + r], first_row + r
            for k in range(first, last):
                if is_old or row <= cols[k]:
                    target[cols[k] - left] = block[r, k]
        first = last
    for k0 in range(0, cols.size, SQUARE):
        for r0 in range(0, n, SQUARE):
            for k in range(k0, min(k0 + SQUARE, cols.size)):
                col = cols[k]
                target = tiles[tile_of(col // side, tile_row), col % side]
                for r in range(r0, min(r0 + SQUARE, n)):
                    row = first_row + r
                    if not is_new[row] or row <= col:
                        target[top + r] = block[r, k]


@part
def store_square(block, first, tiles):
    """`store_block` for slots that follow each other among themselves: rows from the diagonal on."""
    side = tiles.shape[2]
    tile, at, n = tiles[tile_of(first // side, first // side)], first % side, block.shape[0]
    for r in range(n):
        copy_row(block[r, r:], tile[at + r, at + r : at + n])
    for r0 in range(0, n, SQUARE):
        for k0 in range(r0, n, SQUARE):
            for k in range(k0, min(k0 + SQUARE, n)):
                for r in range(r0, min(r0 + SQUARE, k)):
                    tile[at + k, at + r] = block[r, k]


@jit
def judge_solution(tied, epsilon, linear, lower, upper, gradient, coef):
    """Offset of the decision function, largest violation, ``b'Kb``, and the loss of all points.

    The loss of a point is the largest value of ``-(gradient - offset) b - epsilon |b|`` over the
    bounds of its variable b, which contain zero.
    """
    low, high, n_free, free_sum, quadratic = _HUGE, -_HUGE, 0, 0.0, 0.0
    for k in range(coef.size):
        up = slope_up(k, epsilon, upper, gradient, coef)
        down = slope_down(k, epsilon, lower, gradient, coef)
        low, high = min(low, up), max(high, down)
        if up == down:
            n_free += 1
            free_sum += up
        quadratic += coef[k] * (gradient[k] - linear[k])
    offset = 0.0
    if not tied:
        low, high = min(low, 0.0), max(high, 0.0)
    elif n_free > 0:
        offset = free_sum / n_free
    elif low < _HUGE and high > -_HUGE:
        offset = 0.5 * (low + high)
    elif low < _HUGE:
        offset = low
    elif high > -_HUGE:
        offset = high
    loss = 0.0
    for k in range(coef.size):
        above = gradient[k] - offset
        loss += upper[k] * max(-above - epsilon, 0.0) - lower[k] * max(above - epsilon, 0.0)
    return offset, high - low, quadratic, loss


@part
def store_rectangle(block, first_row, first_col, tiles):
    """`store_block` for adjacent columns that all come after the rows: everything is written."""
    side = tiles.shape[2]
    tile_row, tile_col = first_row // side, first_col // side
    row, col = first_row % side, first_col % side
    n_rows, n_cols = block.shape
    across, down = tiles[tile_of(tile_row, tile_col)], tiles[tile_of(tile_col, tile_row)]
    for r in range(n_rows):
        copy_row(block[r], across[row + r, col : col + n_cols])
    # In squares, so that the lines they touch stay in cache.
    for k0 in range(0, n_cols, SQUARE):
        for r0 in range(0, n_rows, SQUARE):
            for k in range(k0, min(k0 + SQUARE, n_cols)):
                for r in range(r0, min(r0 + SQUARE, n_rows)):
                    down[col + k, row + r] = block[r, k]


@jit
def add_matvec(tiles, cols, change, start, stop, out):
    """``out[start:stop] += K[start:stop, cols] @ change``, for slots of one column of tiles.

    Reads the rows ``cols`` in place of columns, four at a time.
    """
    side = tiles.shape[2]
    column, s, e = start // side, start % side, start % side + stop - start
    target = out[start:stop]
    k = 0
    while k + 4 <= cols.size:
        c0, c1, c2, c3 = cols[k], cols[k + 1], cols[k + 2], cols[k + 3]
        add_rows4(
            tiles[tile_of(c0 // side, column), c0 % side][s:e],
            tiles[tile_of(c1 // side, column), c1 % side][s:e],
            tiles[tile_of(c2 // side, column), c2 % side][s:e],
            tiles[tile_of(c3 // side, column), c3 % side][s:e],
            change[k], change[k + 1], change[k + 2], change[k + 3], target,
        )  # fmt: skip
        k += 4
    while k < cols.size:
        add_row(tiles[tile_of(cols[k] // side, column), cols[k] % side][s:e], change[k], target)
        k += 1


@part
def add_row(row, factor, out):
    for c in range(out.size):
        out[c] += factor * row[c]


@part
def add_rows4(row0, row1, row2, row3, factor0, factor1, factor2, factor3, out):
    for c in range(out.size):
        out[c] += (factor0 * row0[c] + factor1 * row1[c]) + (factor2 * row2[c] + factor3 * row3[c])
