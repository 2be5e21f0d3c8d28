"""Compiled loops on knots: the distinct codes that each feature has in the training data."""

import numpy as np
from numba import njit

from widemargin.compilation import part

# Not all of fastmath: a width may be infinite.
jit = njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy",
    forceinline=True,
)  # fmt: skip


@jit
def sort_by_feature(codes, gaps, indptr, ends, sorted_codes):
    """Gather the codes of each feature of sparse rows, zeros left out.

    On entry ``ends`` is zero. Its first element stays zero, and the others become the ends of the
    features.
    """
    for step in range(2):
        for i in range(indptr.size - 1):
            j = 0
            for e in range(indptr[i], indptr[i + 1]):
                j += np.int64(gaps[e])
                if codes[e] != 0:
                    if step == 1:
                        sorted_codes[ends[j + 1]] = codes[e]
                    ends[j + 1] += 1
        if step == 0:
            # The start of a feature is kept one place behind its own, and grows to its end.
            total = 0
            for j in range(1, ends.size):
                count = ends[j]
                ends[j] = total
                total += count


@jit
def count_distinct(sorted_codes, ends, seen, knots, counts, offsets):
    """List the distinct codes of each feature, ascending, and how often each occurs.

    ``seen`` has a zero for every code. Writes over ``sorted_codes``, and returns the number of knots.
    """
    n_knots = 0
    for j in range(ends.size - 1):
        offsets[j] = n_knots
        first = ends[j]
        n_new = 0
        for e in range(first, ends[j + 1]):
            code = sorted_codes[e]
            if seen[code] == 0:
                sorted_codes[first + n_new] = code
                n_new += 1
            seen[code] += 1
        some = sorted_codes[first : first + n_new]
        some.sort()
        for k in range(n_new):
            knots[n_knots] = some[k]
            counts[n_knots] = seen[some[k]]
            seen[some[k]] = 0
            n_knots += 1
    offsets[ends.size - 1] = n_knots
    return n_knots


@part
def find_middle(counts, first, last):
    """Return the knot that has no more than half of the weight on either side."""
    total = 0
    for k in range(first, last):
        total += counts[k]
    below = 0
    for k in range(first, last):
        below += counts[k]
        if 2 * below >= total:
            return k
    return last - 1


@jit
def grow_trees(offsets, values, counts, stack, starts, functions, numbers):
    """Write the functions that are not zero at each knot, and their numbers there.

    With no room for numbers, count the functions in ``starts`` instead: then ``starts[k + 1]`` is
    that of knot k. Otherwise ``starts`` says where the next function of each knot is written.
    """
    is_count = numbers.size == 0
    for j in range(offsets.size - 1):
        stack[0, 0], stack[0, 1] = offsets[j], offsets[j + 1]
        n_open = 1
        while n_open:
            n_open -= 1
            first, last = stack[n_open, 0], stack[n_open, 1]
            if first == last:
                continue
            middle = find_middle(counts, first, last)
            low = values[first - 1] if first > offsets[j] else 0.0
            rise = values[middle] - low
            height, fall = np.sqrt(rise), np.inf
            if last < offsets[j + 1]:
                # The variance of a Brownian bridge between its ends, at the middle.
                fall = values[last] - values[middle]
                height = np.sqrt(rise * fall / (rise + fall))
            for k in range(first, last):
                if is_count:
                    starts[k + 1] += 1
                    continue
                share = (values[k] - low) / rise
                if k > middle:
                    share = 1.0 if fall == np.inf else (values[last] - values[k]) / fall
                functions[starts[k]] = middle
                numbers[starts[k]] = height * share
                starts[k] += 1
            stack[n_open, 0], stack[n_open, 1] = first, middle
            stack[n_open + 1, 0], stack[n_open + 1, 1] = middle + 1, last
            n_open += 2


@part
def find_knot(knots, first, last, code):
    """Return the first of some ascending knots that is not below a code, or the last bound."""
    while first < last:
        middle = (first + last) // 2
        if knots[middle] < code:
            first = middle + 1
        else:
            last = middle
    return first


@jit
def list_rows(
    codes, gaps, indptr, offsets, knots, starts, functions, numbers, bounds, columns, values
):
    """Write the functions of the knots of every sparse row, one after the other, and their numbers."""
    total = 0
    for i in range(indptr.size - 1):
        j = 0
        for e in range(indptr[i], indptr[i + 1]):
            j += np.int64(gaps[e])
            if codes[e] == 0:
                continue
            k = find_knot(knots, offsets[j], offsets[j + 1], codes[e])
            for at in range(starts[k], starts[k + 1]):
                columns[total] = functions[at]
                values[total] = numbers[at]
                total += 1
        bounds[i + 1] = total


@jit
def add_functions(starts, functions, numbers, coef, heights):
    """Compute the heights of curves at the knots from the coefficients of the functions."""
    for k in range(starts.size - 1):
        for c in range(heights.shape[1]):
            heights[k, c] = 0.0
        for at in range(starts[k], starts[k + 1]):
            for c in range(heights.shape[1]):
                heights[k, c] += numbers[at] * coef[c, functions[at]]


@jit
def sum_heights(codes, gaps, is_whole, indptr, offsets, knots, heights, first, last, out):
    """Add the heights of all curves at the codes of some rows to ``out``.

    A curve is a straight line from zero to its first knot and between knots, and constant behind the
    last knot.
    """
    for i in range(first, last):
        start, j = indptr[i], 0
        for e in range(start, indptr[i + 1]):
            j = e - start if is_whole else j + np.int64(gaps[e])
            here, end, code = offsets[j], offsets[j + 1], np.int64(codes[e])
            if code == 0 or here == end:
                continue
            k = min(find_knot(knots, here, end, code), end - 1)
            low = np.int64(knots[k - 1]) if k > here else 0
            share = min((code - low) / (np.int64(knots[k]) - low), 1.0)
            for c in range(out.shape[1]):
                out[i, c] += share * heights[k, c]
            if k > here and share < 1.0:
                for c in range(out.shape[1]):
                    out[i, c] += (1.0 - share) * heights[k - 1, c]
