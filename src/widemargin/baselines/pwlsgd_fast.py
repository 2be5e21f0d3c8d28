"""Compiled loops of decision functions that are sums of piecewise linear curves.

The array of heights has the order feature, knot, class: one visit to a value serves all classes. The
height at the first knot is zero, so that a value there adds nothing.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

# Not all of fastmath: the radius may be infinite.
jit = njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy",
    forceinline=True,
)  # fmt: skip

U = np.uint64


class Points(NamedTuple):
    """Rows of values, and where their knots are.

    Attributes
    ----------
    values : ndarray
        Values row after row, flat; of sparse data the stored ones.
    indices, indptr : ndarray
        Features of the values, and the position of the first value of each row; not used if
        ``is_whole``.
    is_whole : bool
        Whether every feature of every row has a value.
    low, factor : ndarray of shape (n_features,)
        First knot of each feature, and the number of its segments in one unit.
    n_segments : int
        Number of segments of each curve.
    constant : float
        Number beside the features: one for an intercept, else zero.
    """

    values: Any
    indices: Any
    indptr: Any
    is_whole: bool
    low: Any
    factor: Any
    n_segments: int
    constant: float


@jit
def find_row(points, i):
    """Return the positions at which the values of row i begin and end."""
    if points.is_whole:
        return i * points.low.size, (i + 1) * points.low.size
    return np.int64(points.indptr[i]), np.int64(points.indptr[i + 1])


@jit
def find_place(points, first, e):
    """Return the feature of value e of the row that begins at ``first``, and its place in segments."""
    j = e - first if points.is_whole else np.int64(points.indices[e])
    position = (np.float64(points.values[e]) - points.low[j]) * points.factor[j]
    return j, min(max(position, 0.0), np.float64(points.n_segments))


@jit
def read_row(points, i, curves, intercepts, values):
    """Compute the sum of the curves of each class at row i."""
    n_classes = values.size
    for k in range(n_classes):
        values[k] = points.constant * intercepts[k]
    first, last = find_row(points, i)
    for e in range(first, last):
        j, position = find_place(points, first, e)
        if position > 0.0:
            segment = min(np.int64(position), points.n_segments - 1)
            share = position - segment
            at = U((j * (points.n_segments + 1) + segment) * n_classes)
            after = at + U(n_classes)
            for k in range(n_classes):
                values[k] += (1.0 - share) * curves[at + U(k)] + share * curves[after + U(k)]


@jit
def square_row(points, i, is_ramp):
    """Return the squared norm of the encoding of row i."""
    total = points.constant
    first, last = find_row(points, i)
    for e in range(first, last):
        _, position = find_place(points, first, e)
        segment = min(np.int64(position), points.n_segments - 1)
        share = position - segment
        if is_ramp:
            total += (segment + share * share) / points.n_segments
        else:
            total += share * share
            if segment > 0:
                total += (1.0 - share) * (1.0 - share)
    return total


@jit
def add_hats(curves, at, n_classes, segment, share, moved, n_moved, deltas):
    """Add to the heights of the two knots next to a value; the first knot keeps its height of zero."""
    here = U(at + segment * n_classes)
    after = here + U(n_classes)
    for m in range(n_moved):
        k = U(moved[m])
        if segment > 0:
            curves[here + k] += (1.0 - share) * deltas[k]
        curves[after + k] += share * deltas[k]


@jit
def add_ramps(curves, at, n_classes, n_segments, position, moved, n_moved, deltas):
    """Add to the heights of all knots a line up to the value, and a constant beyond it."""
    for knot in range(1, n_segments + 1):
        height = min(np.float64(knot), position) / n_segments
        here = U(at + knot * n_classes)
        for m in range(n_moved):
            k = U(moved[m])
            curves[here + k] += height * deltas[k]


@jit
def add_row(points, i, is_ramp, moved, n_moved, deltas, curves, intercepts):
    """Add ``deltas[k]`` times the encoding of row i to every class k with a change."""
    n_classes, n_segments = deltas.size, points.n_segments
    for m in range(n_moved):
        intercepts[moved[m]] += points.constant * deltas[moved[m]]
    first, last = find_row(points, i)
    for e in range(first, last):
        j, position = find_place(points, first, e)
        if position > 0.0:
            at = j * (n_segments + 1) * n_classes
            if is_ramp:
                add_ramps(curves, at, n_classes, n_segments, position, moved, n_moved, deltas)
            else:
                segment = min(np.int64(position), n_segments - 1)
                share = position - segment
                add_hats(curves, at, n_classes, segment, share, moved, n_moved, deltas)


@jit
def pegasos_steps(
    points, order, labels, positives, weights, step_count, penalty, delay, radius, is_ramp, squares,
    scales, curves, intercepts,
):  # fmt: skip
    """Make a step of ``1 / (penalty (t + delay))`` along the subgradient of each row's hinge loss.

    ``squares`` holds the squared lengths of the coefficients of every class, which are shortened to
    ``radius`` after a step. Curves and intercepts are kept divided by ``scales``, so that shortening
    is one multiplication. Changes the last four arguments; returns the number of steps so far.
    """
    n_classes = positives.size
    values, deltas = np.empty(n_classes), np.zeros(n_classes)
    moved = np.empty(n_classes, np.int64)
    for s in range(order.size):
        i = order[s]
        step_count += 1
        rate = 1.0 / (penalty * (step_count + delay))
        shrink = 1.0 - rate * penalty
        read_row(points, i, curves, intercepts, values)
        n_moved = 0
        for k in range(n_classes):
            sign = 1.0 if labels[i] == positives[k] else -1.0
            values[k] *= scales[k]
            squares[k] *= shrink * shrink
            scales[k] *= shrink
            if sign * values[k] < 1.0:
                deltas[k] = rate * weights[i] * sign
                moved[n_moved] = k
                n_moved += 1
        if n_moved == 0:
            continue
        length = square_row(points, i, is_ramp)
        for m in range(n_moved):
            k = moved[m]
            step = deltas[k]
            squares[k] += step * (2.0 * shrink * values[k] + step * length)
            deltas[k] = step / scales[k]
        add_row(points, i, is_ramp, moved, n_moved, deltas, curves, intercepts)
        for m in range(n_moved):
            k = moved[m]
            if squares[k] > radius * radius:
                scales[k] *= radius / np.sqrt(squares[k])
                squares[k] = radius * radius
    return step_count


@jit
def decide_rows(points, first, last, curves, intercepts, out):
    """Compute all decision functions at some rows."""
    values = np.empty(out.shape[1])
    for i in range(first, last):
        read_row(points, i, curves, intercepts, values)
        for k in range(values.size):
            out[i, k] = values[k]
