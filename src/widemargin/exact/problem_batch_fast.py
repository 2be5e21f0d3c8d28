"""Compiled loops that solve many classification problems of few rows in one call.

A problem of a few dozen rows takes microseconds, and a call from the interpreter several times as
long. All problems read their kernel values from one matrix and are stored one after another in flat
arrays: problem p has the variables from ``offsets[p]`` to ``offsets[p + 1]``.
"""

import numpy as np
from numba import njit

_HUGE = 1e200  # Slope of a variable that cannot move; infinity is not allowed with fastmath.
_MIN_CURVATURE = 1e-12

# Inlined by the compiler always: else a process that compiles could run another copy of a function,
# optimised in another way, than one that loads the code from the cache, and round differently.
jit = njit(cache=True, nogil=True, fastmath=True, error_model="numpy", forceinline=True)


@jit
def gather_matrix(matrix, index, K):
    """Write the kernel matrix of one problem, whose rows are ``index``, to the flat array ``K``."""
    n = index.size
    for r in range(n):
        row = matrix[index[r]]
        for c in range(n):
            K[r * n + c] = row[index[c]]


@jit
def set_gradient(K, linear, coef, gradient):
    """``gradient = K coef + linear``."""
    n = coef.size
    for c in range(n):
        gradient[c] = linear[c]
    for r in range(n):
        if coef[r] != 0.0:
            add_row(coef[r], K[r * n : r * n + n], gradient)


@jit
def add_row(step, row, gradient):
    for c in range(gradient.size):
        gradient[c] += step * row[c]


@jit
def find_extremes(tied, lower, upper, gradient, coef):
    """The variable of least slope that may rise, this slope, and the largest of those that may fall.

    Without ``tied`` the slopes are taken against zero.
    """
    low, high, rising = _HUGE, -_HUGE, -1
    for k in range(coef.size):
        if coef[k] < upper[k] and gradient[k] < low:
            low, rising = gradient[k], k
        if coef[k] > lower[k]:
            high = max(high, gradient[k])
    if not tied:
        low, high = min(low, 0.0), max(high, 0.0)
    return rising, low, high


@jit
def find_partner(i, row_i, diag, lower, gradient, coef):
    """The variable whose fall gains most while ``i`` rises by as much; -1 if none gains."""
    best, at = 0.0, -1
    for k in range(coef.size):
        slope = gradient[k] - gradient[i]
        if coef[k] > lower[k] and slope > 0.0:
            gain = slope * slope / max(diag[i] + diag[k] - 2.0 * row_i[k], _MIN_CURVATURE)
            if gain > best:
                best, at = gain, k
    return at


@jit
def find_single(diag, inverse, lower, upper, gradient, coef):
    """The variable that gains most alone, -1 if none gains, and its step.

    ``inverse`` is one divided by the diagonal.
    """
    best, at = 0.0, -1
    for k in range(coef.size):
        step = min(max(-gradient[k] * inverse[k], lower[k] - coef[k]), upper[k] - coef[k])
        gain = -step * (gradient[k] + 0.5 * diag[k] * step)
        if gain > best:
            best, at = gain, k
    if at < 0:
        return at, 0.0
    step = -gradient[at] * inverse[at]
    return at, min(max(step, lower[at] - coef[at]), upper[at] - coef[at])


@jit
def move(k, step, lower, upper, coef):
    """Change a variable, exactly to its bound where the step leads there."""
    if step >= upper[k] - coef[k]:
        coef[k] = upper[k]
    elif step <= lower[k] - coef[k]:
        coef[k] = lower[k]
    else:
        coef[k] += step


@jit
def descend(tied, K, diag, lower, upper, tol, max_updates, gradient, coef):
    """Update pairs of variables, or single ones without ``tied``; returns the number of updates.

    Pairs are chosen as in `optimise_pairs`.
    """
    n, n_updates = coef.size, 0
    inverse = 1.0 / np.maximum(diag, _MIN_CURVATURE)
    while n_updates < max_updates:
        i, low, high = find_extremes(tied, lower, upper, gradient, coef)
        if high - low < tol:
            break
        if tied:
            j = find_partner(i, K[i * n : i * n + n], diag, lower, gradient, coef)
            if j < 0:
                break
            curvature = max(diag[i] + diag[j] - 2.0 * K[i * n + j], _MIN_CURVATURE)
            step = (gradient[j] - gradient[i]) / curvature
            step = min(step, min(upper[i] - coef[i], coef[j] - lower[j]))
            move(j, -step, lower, upper, coef)
            add_row(-step, K[j * n : j * n + n], gradient)
        else:
            i, step = find_single(diag, inverse, lower, upper, gradient, coef)
            if i < 0:
                break
        if step == 0.0:
            break
        move(i, step, lower, upper, coef)
        add_row(step, K[i * n : i * n + n], gradient)
        n_updates += 1
    return n_updates


@jit
def judge_variables(tied, linear, lower, upper, gradient, coef):
    """Offset of the decision function, violation, dual objective, and duality gap.

    As `judge_solution` for problems without epsilon whose sum of variables, if held, is zero.
    """
    _, low, high = find_extremes(tied, lower, upper, gradient, coef)
    n_free, free_sum, quadratic, product = 0, 0.0, 0.0, 0.0
    for k in range(coef.size):
        if lower[k] < coef[k] < upper[k]:
            n_free += 1
            free_sum += gradient[k]
        quadratic += coef[k] * (gradient[k] - linear[k])
        product += coef[k] * linear[k]
    offset = 0.0
    if tied:
        if n_free > 0:
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
        loss += upper[k] * max(-above, 0.0) - lower[k] * max(above, 0.0)
    return offset, max(high - low, 0.0), 0.5 * quadratic + product, quadratic + product + loss


@jit
def solve_range(
    tied, matrix, index, offsets, linear, lower, upper, tol, max_updates, coef, gradient,
    n_updates, figures,
):  # fmt: skip
    """Solve problems of a range: minimise ``0.5 b'Kb + linear'b`` over ``lower <= b <= upper``.

    With ``tied`` the sum of b is held at zero, where ``coef`` must begin.

    =============  ==============================================================================
    variable       what it holds
    =============  ==============================================================================
    matrix         kernel matrix that all problems read from, float32
    index          row of the matrix for each variable
    offsets        where the variables of each problem begin, and the end of the last
    coef           the variables b, updated in place
    gradient       ``Kb + linear``, an output
    n_updates      updates of each problem, an output
    figures        offset, violation, objective and duality gap of each problem, an output
    =============  ==============================================================================

    A problem stops when its violation is below ``tol``, after ``max_updates[p]`` updates, or when no
    update gains. All sums are of float64.
    """
    largest = 0
    for p in range(offsets.size - 1):
        largest = max(largest, offsets[p + 1] - offsets[p])
    K_store, diag_store = np.empty(largest * largest), np.empty(largest)
    for p in range(offsets.size - 1):
        a, b = offsets[p], offsets[p + 1]
        n = b - a
        K, diag = K_store[: n * n], diag_store[:n]
        gather_matrix(matrix, index[a:b], K)
        for k in range(n):
            diag[k] = K[k * n + k]
        set_gradient(K, linear[a:b], coef[a:b], gradient[a:b])
        n_updates[p] = descend(
            tied, K, diag, lower[a:b], upper[a:b], tol, max_updates[p], gradient[a:b], coef[a:b]
        )
        # Anew, because every update adds a rounding error.
        set_gradient(K, linear[a:b], coef[a:b], gradient[a:b])
        figures[p, 0], figures[p, 1], figures[p, 2], figures[p, 3] = judge_variables(
            tied, linear[a:b], lower[a:b], upper[a:b], gradient[a:b], coef[a:b]
        )
