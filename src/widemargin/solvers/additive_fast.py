"""Compiled loops of linear machines whose rows are made up from codes and tables on the fly.

A row is a vector of numbers: for every feature those that a table holds for its code. It is written
out, used for all classes at once, and forgotten. Kinds of rows:

- DENSE: a code for every feature. Coefficients of a class are contiguous.
- SPARSE: codes of some features; the others add nothing. Coefficients of all classes for a feature
  are contiguous, so that one visit serves them all.
- PLAIN: no codes, the numbers are given.
- BINS: one coefficient for every bin of every feature, the value of the decision curve there;
  adding a row adds the intersection kernel with its bin to all of them.

Rows are read with one table and added with another, which differ for PmSVM. Beside its features a
row may have a few extra numbers, such as a constant.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

DENSE, SPARSE, PLAIN, BINS = range(4)

jit = njit(
    cache=True,
    nogil=True,
    fastmath={"reassoc", "contract", "arcp", "nsz"},
    error_model="numpy",
    forceinline=True,
)
# With infinities: bounds and thresholds are.

U = np.uint64


class Rows(NamedTuple):
    """Rows of a linear machine; arrays that its kind does not need are empty.

    Attributes
    ----------
    kind : int
        DENSE, SPARSE, PLAIN or BINS.
    codes : ndarray
        Codes row after row, flat.
    indices, indptr : ndarray
        Features of the codes (SPARSE, and BINS if not every feature has one), and where rows begin.
    n_features, rank : int
        Features, and numbers for each.
    read, write : ndarray of shape (n_codes * rank,)
        Numbers of each code when a row is read and when it is added; for BINS its value.
    scale : ndarray of shape (n_features * rank,)
        Factor on what is added.
    plain_read, plain_write : ndarray of shape (n_rows, rank)
        Numbers of each row (PLAIN).
    extra_read, extra_write : ndarray of shape (n_rows, n_extra)
        Numbers beside the features.
    offsets : ndarray of shape (n_features + 1,)
        Where the bins of a feature begin (BINS).
    is_symmetric : bool
        Whether rows are added with the numbers they are read with.
    """

    kind: int
    codes: Any
    indices: Any
    indptr: Any
    n_features: int
    rank: int
    read: Any
    write: Any
    scale: Any
    plain_read: Any
    plain_write: Any
    extra_read: Any
    extra_write: Any
    offsets: Any
    is_symmetric: bool


@jit
def decode(codes, words, width, out):
    """Copy the table's numbers of every code, in words of 16 bytes: four floats at once."""
    if width == 1:
        for k in range(codes.size):
            out[U(k)] = words[U(codes[U(k)])]
    else:
        for k in range(codes.size):
            source, target = U(codes[k]) * U(width), U(k) * U(width)
            for w in range(width):
                out[target + U(w)] = words[source + U(w)]


@jit
def dot(a, b):
    total = a.dtype.type(0.0)
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@jit
def add_scaled(row, scale, factor, coef):
    for k in range(row.size):
        coef[k] += factor * scale[k] * row[k]


@jit
def read_sparse(codes, indices, table, rank, coef, n_classes, out):
    """Products of one sparse row with the coefficients of all classes; rank is a multiple of four."""
    out[:] = 0.0
    step = U(n_classes)
    for e in range(codes.size):
        source = U(codes[e]) * U(rank)
        at = U(indices[e]) * U(rank) * step
        for t in range(0, rank, 4):
            f0, f1 = table[source + U(t)], table[source + U(t + 1)]
            f2, f3 = table[source + U(t + 2)], table[source + U(t + 3)]
            a0 = at + U(t) * step
            a1, a2, a3 = a0 + step, a0 + U(2) * step, a0 + U(3) * step
            for k in range(n_classes):
                c = U(k)
                out[c] += (
                    f0 * coef[a0 + c] + f1 * coef[a1 + c] + f2 * coef[a2 + c] + f3 * coef[a3 + c]
                )


@jit
def add_sparse(codes, indices, table, rank, scale, deltas, coef):
    step = U(deltas.size)
    for e in range(codes.size):
        source = U(codes[e]) * U(rank)
        first = U(indices[e]) * U(rank)
        for t in range(rank):
            factor = table[source + U(t)] * scale[first + U(t)]
            at = (first + U(t)) * step
            for k in range(deltas.size):
                coef[at + U(k)] += factor * deltas[k]


@jit
def read_bins(codes, indices, offsets, curve):
    """Sum of the values of a decision curve at the bins of one row."""
    total = 0.0
    if indices.size == 0:
        for j in range(codes.size):
            total += curve[U(offsets[j]) + U(codes[j])]
    else:
        for e in range(codes.size):
            total += curve[U(offsets[indices[e]]) + U(codes[e])]
    return total


@jit
def add_ramp(curve, levels, code, delta):
    """Add ``delta * min(levels[code], levels[k])`` for every bin k."""
    for k in range(code):
        curve[k] += delta * levels[k]
    rest, top = curve[code:], delta * levels[code]
    for k in range(rest.size):
        rest[k] += top


@jit
def add_bins(codes, indices, offsets, levels, scale, delta, curve):
    for e in range(codes.size):
        if codes[e] > 0:
            j = indices[e] if indices.size else e
            part = curve[offsets[j] : offsets[j + 1]]
            add_ramp(part, levels, np.int64(codes[e]), delta * scale[j])


@jit
def row_parts(rows, i):
    """Codes and features of one row."""
    first, last = rows.indptr[i], rows.indptr[i + 1]
    codes = rows.codes[first:last]
    indices = rows.indices[first:last] if rows.indices.size else rows.indices
    return codes, indices


@jit
def read_row(rows, i, wanted, coef, extra_coef, row, words, out):
    """Products of row i with the coefficients of the wanted classes."""
    n_classes = out.size
    size = coef.size // n_classes
    if rows.kind == SPARSE:
        codes, indices = row_parts(rows, i)
        read_sparse(codes, indices, rows.read, rows.rank, coef, n_classes, out)
    elif rows.kind == BINS:
        codes, indices = row_parts(rows, i)
        for k in range(n_classes):
            if wanted[k]:
                out[k] = read_bins(codes, indices, rows.offsets, coef[k * size : (k + 1) * size])
    elif rows.kind == DENSE:
        codes, _ = row_parts(rows, i)
        decode(codes, rows.read.view(np.complex128), words.size // codes.size, words)
        for k in range(n_classes):
            if wanted[k]:
                out[k] = dot(row, coef[k * size : (k + 1) * size])
    else:
        for k in range(n_classes):
            if wanted[k]:
                out[k] = dot(rows.plain_read[i], coef[k * size : (k + 1) * size])
    for m in range(rows.extra_read.shape[1]):
        for k in range(n_classes):
            out[k] += rows.extra_read[i, m] * extra_coef[k, m]


@jit
def add_row(rows, i, deltas, coef, extra_coef, row, words):
    """Add ``deltas[k]`` times row i, which was just read, to the coefficients of every class k."""
    n_classes = deltas.size
    size = coef.size // n_classes
    if rows.kind == SPARSE:
        codes, indices = row_parts(rows, i)
        add_sparse(codes, indices, rows.write, rows.rank, rows.scale, deltas, coef)
    elif rows.kind == BINS:
        codes, indices = row_parts(rows, i)
        for k in range(n_classes):
            if deltas[k] != 0.0:
                add_bins(
                    codes, indices, rows.offsets, rows.read, rows.scale, deltas[k],
                    coef[k * size : (k + 1) * size],
                )  # fmt: skip
    elif rows.kind == DENSE:
        if not rows.is_symmetric:
            codes, _ = row_parts(rows, i)
            decode(codes, rows.write.view(np.complex128), words.size // codes.size, words)
        for k in range(n_classes):
            if deltas[k] != 0.0:
                add_scaled(row, rows.scale, deltas[k], coef[k * size : (k + 1) * size])
    else:
        for k in range(n_classes):
            if deltas[k] != 0.0:
                add_scaled(
                    rows.plain_write[i], rows.scale, deltas[k], coef[k * size : (k + 1) * size]
                )
    for m in range(rows.extra_write.shape[1]):
        for k in range(n_classes):
            extra_coef[k, m] += deltas[k] * rows.extra_write[i, m]


@jit
def make_words(rows):
    """Room for the numbers of one row, in words of 16 bytes."""
    n_floats = rows.n_features * rows.rank if rows.kind == DENSE else 0
    return np.empty(n_floats * rows.read.itemsize // 16, np.complex128)


@jit
def sweep(
    rows, order, labels, positives, upper, ridge, norms, tops, bottoms, alpha, resting, coef,
    extra_coef, highest, lowest,
):  # fmt: skip
    """One pass of dual coordinate descent over the rows ``order``, for all classes at once.

    The dual of class k is to minimise ``0.5 a'(Q + diag(ridge))a - sum(a)`` with ``0 <= a <= upper``.
    A row rests for a class once its coefficient is at a bound and its gradient beyond ``tops`` or
    ``bottoms``. On return ``highest`` and ``lowest`` hold the extremes of the projected gradient.
    """
    n_classes = positives.size
    words = make_words(rows)
    row = words.view(coef.dtype)
    values = np.empty(n_classes, coef.dtype)
    deltas = np.empty(n_classes, coef.dtype)
    wanted = np.empty(n_classes, np.bool_)
    highest[:] = -np.inf
    lowest[:] = np.inf
    for s in range(order.size):
        i = order[s]
        for k in range(n_classes):
            wanted[k] = not resting[i, k]
        read_row(rows, i, wanted, coef, extra_coef, row, words, values)
        has_moved = False
        for k in range(n_classes):
            deltas[k] = 0.0
            if not wanted[k]:
                continue
            sign = 1.0 if labels[i] == positives[k] else -1.0
            a = alpha[i, k]
            gradient = sign * values[k] - 1.0 + ridge[i] * a
            projected = gradient
            if a == 0.0:
                if gradient > tops[k]:
                    resting[i, k] = True
                    continue
                projected = min(gradient, 0.0)
            elif a == upper[i]:
                if gradient < bottoms[k]:
                    resting[i, k] = True
                    continue
                projected = max(gradient, 0.0)
            highest[k] = max(highest[k], projected)
            lowest[k] = min(lowest[k], projected)
            if abs(projected) > 1e-12:
                alpha[i, k] = min(
                    max(a - gradient / max(norms[i] + ridge[i], 1e-12), 0.0), upper[i]
                )
                deltas[k] = (alpha[i, k] - a) * sign
                has_moved = True
        if has_moved:
            add_row(rows, i, deltas, coef, extra_coef, row, words)


@jit
def add_rows(rows, labels, positives, alpha, coef, extra_coef):
    """Add every row with its signed dual coefficients."""
    n_classes = positives.size
    words = make_words(rows)
    row = words.view(coef.dtype)
    values = np.empty(n_classes, coef.dtype)
    deltas = np.empty(n_classes, coef.dtype)
    nothing = np.zeros(n_classes, np.bool_)
    for i in range(alpha.shape[0]):
        has_any = False
        for k in range(n_classes):
            deltas[k] = alpha[i, k] if labels[i] == positives[k] else -alpha[i, k]
            has_any = has_any or alpha[i, k] != 0.0
        if has_any:
            read_row(rows, i, nothing, coef, extra_coef, row, words, values)
            add_row(rows, i, deltas, coef, extra_coef, row, words)


@jit
def stochastic_steps(
    rows, order, labels, positives, weights, step_count, penalty, delay, is_squared, scales, coef,
    extra_coef,
):  # fmt: skip
    """Stochastic subgradient steps ``1 / (penalty (t + delay))`` on the rows ``order``.

    Coefficients are kept divided by ``scales``, one for each class, so that shrinking all of them is
    one multiplication. Returns the number of steps so far.
    """
    n_classes = positives.size
    words = make_words(rows)
    row = words.view(coef.dtype)
    values = np.empty(n_classes, coef.dtype)
    deltas = np.empty(n_classes, coef.dtype)
    wanted = np.ones(n_classes, np.bool_)
    for s in range(order.size):
        i = order[s]
        step_count += 1
        rate = 1.0 / (penalty * (step_count + delay))
        read_row(rows, i, wanted, coef, extra_coef, row, words, values)
        has_moved = False
        for k in range(n_classes):
            sign = 1.0 if labels[i] == positives[k] else -1.0
            shortfall = 1.0 - sign * values[k] * scales[k]
            scales[k] *= 1.0 - rate * penalty
            deltas[k] = 0.0
            if shortfall > 0.0:
                slope = 2.0 * shortfall if is_squared else 1.0
                deltas[k] = rate * weights[i] * slope * sign / scales[k]
                has_moved = True
        if has_moved:
            add_row(rows, i, deltas, coef, extra_coef, row, words)
    return step_count


@jit
def decide_rows(rows, first, last, coef, extra_coef, out):
    """Values of all decision functions at some rows."""
    n_classes = out.shape[1]
    words = make_words(rows)
    row = words.view(coef.dtype)
    values = np.empty(n_classes, coef.dtype)
    wanted = np.ones(n_classes, np.bool_)
    for i in range(first, last):
        read_row(rows, i, wanted, coef, extra_coef, row, words, values)
        for k in range(n_classes):
            out[i, k] = values[k]


@jit
def sum_codes(rows, per_code, scale, out):
    """``out[i] = sum of scale[feature] * per_code[code]`` over the codes of every row."""
    for i in range(out.size):
        codes, indices = row_parts(rows, i)
        total = 0.0
        for e in range(codes.size):
            j = indices[e] if indices.size else e
            total += scale[j] * per_code[codes[e]]
        out[i] = total


@jit
def count_codes(codes, counts, weights, indptr):
    """How often every code occurs, rows weighted."""
    for i in range(weights.size):
        for k in range(indptr[i], indptr[i + 1]):
            counts[codes[k]] += weights[i]
