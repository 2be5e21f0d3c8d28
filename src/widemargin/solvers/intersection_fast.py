"""Compiled loops for the intersection kernel: the primal problem, and Crammer and Singer's.

A row is a code for each feature, a point in a space with one dimension for every bin: ones up to its
code (the unary representation). A vector w of that space and the curve of its running sums hold
the same: the product of w and a row is the sum of the curve's values at the row's codes.
"""

import numpy as np
from numba import njit

jit = njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy",
    forceinline=True,
)  # fmt: skip


@jit
def to_curves(weights, offsets, curves):
    """Running sums of the weights of every feature. The weight of bin zero is no part of it."""
    for j in range(offsets.size - 1):
        total = 0.0
        curves[offsets[j]] = 0.0
        for k in range(offsets[j] + 1, offsets[j + 1]):
            total += weights[k]
            curves[k] = total


@jit
def look_up(codes, indices, indptr, offsets, curves, out):
    """Products of all rows with the vector whose curves are given."""
    for i in range(out.size):
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e] if indices.size else e - indptr[i]
            total += curves[offsets[j] + codes[e]]
        out[i] = total


@jit
def combine_rows(codes, indices, indptr, offsets, factors, out):
    """Sum of all rows in the unary space, each times its factor."""
    out[:] = 0.0
    for i in range(factors.size):
        if factors[i] != 0.0:
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e] if indices.size else e - indptr[i]
                out[offsets[j] + codes[e]] += factors[i]
    for j in range(offsets.size - 1):
        for k in range(offsets[j + 1] - 2, offsets[j], -1):
            out[k] += out[k + 1]
        out[offsets[j]] = 0.0


@jit
def share_out(slopes, curvature, positive, cost, order, alpha):
    """Minimise ``curvature / 2 |a|^2 + slopes'a`` with sum zero, ``a <= 0`` but ``<= cost`` for one.

    At the optimum ``a_m = min(bound_m, (level - slopes_m) / curvature)``; the level is found by
    going through the classes from the largest ``slopes_m + curvature bound_m`` downwards.
    """
    n = slopes.size
    for m in range(n):
        order[m] = slopes[m] + (curvature * cost if m == positive else 0.0)
    ranked = np.sort(order)
    total = ranked[n - 1] - curvature * cost
    count = 1
    while count < n and total < count * ranked[n - 1 - count]:
        total += ranked[n - 1 - count]
        count += 1
    level = total / count
    for m in range(n):
        bound = cost if m == positive else 0.0
        alpha[m] = min(bound, (level - slopes[m]) / curvature)


@jit
def add_code_ramp(curve, code, delta):
    for k in range(code):
        curve[k] += delta * k
    rest, top = curve[code:], delta * code
    for k in range(rest.size):
        rest[k] += top


@jit
def crammer_singer_pass(
    order, codes, indices, indptr, offsets, labels, costs, norms, alpha, curves
):
    """One pass over the rows; returns the largest violation of the optimality conditions.

    The curves of all classes are those of ``w_m = sum_i alpha[i, m] x_i``.
    """
    n_classes = alpha.shape[1]
    slopes, room = np.empty(n_classes), np.empty(n_classes)
    new = np.empty(n_classes)
    worst = 0.0
    for s in range(order.size):
        i = order[s]
        if norms[i] <= 0.0:
            # All zero: whatever its coefficients, no decision changes.
            continue
        first, last = indptr[i], indptr[i + 1]
        largest, smallest = -np.inf, np.inf
        for m in range(n_classes):
            total = 0.0 if m == labels[i] else 1.0
            curve = curves[m]
            for e in range(first, last):
                j = indices[e] if indices.size else e - first
                total += curve[offsets[j] + codes[e]]
            slopes[m] = total
            largest = max(largest, total)
            if alpha[i, m] < (costs[i] if m == labels[i] else 0.0):
                smallest = min(smallest, total)
        worst = max(worst, largest - smallest)
        if largest - smallest <= 1e-12:
            continue
        for m in range(n_classes):
            slopes[m] -= norms[i] * alpha[i, m]
        share_out(slopes, norms[i], labels[i], costs[i], room, new)
        for m in range(n_classes):
            delta = new[m] - alpha[i, m]
            if abs(delta) > 1e-15:
                alpha[i, m] = new[m]
                curve = curves[m]
                for e in range(first, last):
                    if codes[e] > 0:
                        j = indices[e] if indices.size else e - first
                        part = curve[offsets[j] : offsets[j + 1]]
                        add_code_ramp(part, np.int64(codes[e]), delta)
    return worst
