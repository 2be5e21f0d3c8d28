"""Compiled loops that fill and use tiles of a kernel matrix.

Every kernel here has the form ``finish(sum_k op(a_k, b_k) - norm_a - norm_b)``: an operation summed
over features, then a scalar function. Two engines produce the sums for a tile: BLAS for dense
points and plain dot products, and a loop over stored entries for everything else. The tile stays in
cache, is finished in place, and is then either copied out or multiplied by coefficients. The ANOVA
kernels have a sum over pairs of features too; a loop of their own computes both.

All functions release the interpreter lock, so callers run several of them in threads.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.compilation import inlined, jit, ordered, part

# Operations summed over features.
DOT, CHI2, MIN, JENSEN_SHANNON, POWER_MEAN = range(5)
# An operation of the ANOVA kernels only: a radial kernel of one feature.
RADIAL = 5
# Functions applied to the sum.
IDENTITY, EXP2, POLY, TANH = range(4)

# Rows and columns of a tile: large enough for BLAS to run at speed, small enough for the L2 cache.
DENSE_ROWS, DENSE_COLS = 256, 1024
# Columns of a sparse tile are the width of the innermost vector loop. Narrow data afford wide tiles;
# wide data have a dense counterpart of one row per distinct feature, which must stay in cache.
SPARSE_ROWS, SPARSE_COLS, SPARSE_COLS_WIDE = 256, 256, 64
WIDE_FEATURES = 2048
# With so few features the dense counterpart has a row for each, whether it occurs or not: finding
# out which do took a tenth of the time.
FEW_FEATURES = 1024
# Most columns of coefficients whose products with kernel values are summed in float64.
FEW_COLUMNS = 8
# Values that an unrolled vector loop takes at once.
VECTOR = 32

_F1 = np.float32(1.0)
_F2 = np.float32(2.0)
_TWO_LOG2_E = np.float32(2.88539008)
_TINY = np.float32(1e-30)
_SMALLEST = 1e-300


@inlined
def exp2_float32(x):
    """``2**x`` for x < 128, relative error 1e-7; 1e-38 below -126."""
    x = max(x, np.float32(-126.0))
    n = np.floor(x + np.float32(0.5))
    # Best polynomial of its degree for 2**r in relative error, |r| <= 1/2, fitted by us: 1.9e-9.
    r = x - n
    p = np.float32(1.53458120e-4)
    p = p * r + np.float32(1.33999314e-3)
    p = p * r + np.float32(9.61848896e-3)
    p = p * r + np.float32(5.55032878e-2)
    p = p * r + np.float32(2.40226469e-1)
    p = p * r + np.float32(6.93147206e-1)
    p = p * r + _F1
    exponent = np.int32((np.int32(n) + np.int32(127)) << np.int32(23))
    return p * np.int32(exponent).view(np.float32)


@inlined
def log2_float32(x):
    """Base-2 logarithm of a positive normal float32, absolute error about 1e-7."""
    bits = np.float32(x).view(np.int32)
    # Move the mantissa to [2/3, 4/3), where the series below converges fastest.
    shift = np.int32((bits - np.int32(0x3F2AAAAB)) >> np.int32(23))
    mantissa = np.int32(bits - (shift << np.int32(23))).view(np.float32)
    # log(m) = 2 artanh(s), s = (m - 1) / (m + 1), |s| <= 0.2
    s = (mantissa - _F1) / (mantissa + _F1)
    z = s * s
    p = np.float32(0.2222222)
    p = p * z + np.float32(0.2857143)
    p = p * z + np.float32(0.4)
    p = p * z + np.float32(0.6666667)
    p = p * z + _F2
    return np.float32(shift) + s * p * np.float32(1.44269504)


@inlined
def log2_one_plus_float32(x):
    """``log2(1 + x)`` for 0 <= x <= 1, relative error about 1e-7."""
    # log(1 + x) = 2 artanh(s), s = x / (2 + x) <= 1/3; no sum with 1 takes digits from a small x.
    s = x / (_F2 + x)
    z = s * s
    p = np.float32(2 / 15)
    p = p * z + np.float32(2 / 13)
    p = p * z + np.float32(2 / 11)
    p = p * z + np.float32(0.2222222)
    p = p * z + np.float32(0.2857143)
    p = p * z + np.float32(0.4)
    p = p * z + np.float32(0.6666667)
    p = p * z + _F2
    return s * p * np.float32(1.44269504)


@inlined
def small_tanh_float32(x):
    """``tanh(x)`` for -0.25 <= x <= 0.25 by its power series, relative error about 1e-7."""
    z = x * x
    p = np.float32(62 / 2835)
    p = p * z - np.float32(17 / 315)
    p = p * z + np.float32(2 / 15)
    p = p * z - np.float32(1 / 3)
    return x + x * z * p


@part
def finish_poly(sums, coef0, degree, out):
    for c in range(out.size):
        out[c] = _F1
    for _ in range(degree):
        for c in range(out.size):
            out[c] *= np.float32(sums[c] + coef0)


@ordered
def finish_power(is_tanh, coef0, sums, norm_a, norms_b, out):
    """Exponentials of the sums minus norms, or hyperbolic tangents, which are made of exponentials."""
    # Two passes: one that does it all was slower, by a third with float64 sums.
    for c in range(out.size):
        if is_tanh:
            # Beyond 9 tanh is 1 to float32 precision.
            out[c] = _TWO_LOG2_E * np.float32(min(max(sums[c] + coef0, -9.0), 9.0))
        else:
            out[c] = min(np.float32(sums[c] - norm_a - norms_b[c]), np.float32(0.0))
    for c in range(out.size):
        out[c] = exp2_float32(out[c])
    if is_tanh:
        for c in range(out.size):
            x = np.float32(min(max(sums[c] + coef0, -9.0), 9.0))
            ratio = (out[c] - _F1) / (out[c] + _F1)
            # The difference from one would take the digits of a small tangent.
            out[c] = small_tanh_float32(x) if x * x < np.float32(0.0625) else ratio


@part
def finish_row(finish, coef0, degree, sums, norm_a, norms_b, out):
    """Turn one row of sums into kernel values, written to ``out``."""
    if finish == POLY:
        finish_poly(sums, coef0, degree, out)
    elif finish == IDENTITY:
        for c in range(out.size):
            out[c] = np.float32(sums[c])
    else:
        finish_power(finish == TANH, coef0, sums, norm_a, norms_b, out)


@part
def copy_row(row, out):
    # Assigning whole rows compiles for seconds, most of them for a message about shapes.
    for c in range(row.size):
        out[c] = row[c]


@part
def gather_rows(values, index, out):
    for r in range(index.size):
        copy_row(values[index[r]], out[r])


@part
def dot_float64(row, coef):
    total = 0.0
    for c in range(row.size):
        total += np.float64(row[c]) * coef[c]
    return total


@part
def add_products(tile, coef, out):
    """``out += tile @ coef``, summed in float64 for few columns and in float32 by BLAS for many.

    Sums of m terms in float32 are off by up to m times their rounding, and by its root typically.
    """
    if coef.shape[1] <= FEW_COLUMNS:
        for m in range(coef.shape[1]):
            column = coef[:, m].copy()
            for r in range(tile.shape[0]):
                out[r, m] += dot_float64(tile[r], column)
    else:
        product = np.empty((tile.shape[0], coef.shape[1]), np.float32)
        np.dot(tile, coef.astype(np.float32), product)
        for r in range(tile.shape[0]):
            for m in range(coef.shape[1]):
                out[r, m] += product[r, m]


@jit
def dense_tiles(finish, coef0, degree, a, norms_a, rows, b, norms_b, cols, coef, out, block):
    """Kernel of ``a[rows]`` and ``b[cols]``, dense; see `sparse_tiles` for the arguments."""
    accumulate = coef.shape[1] > 0
    n_features = a.shape[1]
    a_tile = np.empty((DENSE_ROWS, n_features), a.dtype)
    b_tile = np.empty((DENSE_COLS, n_features), a.dtype)
    sums = np.empty(DENSE_ROWS * DENSE_COLS, a.dtype)
    values = np.empty(DENSE_ROWS * DENSE_COLS, np.float32)
    for c0 in range(0, cols.size, DENSE_COLS):
        c1 = min(c0 + DENSE_COLS, cols.size)
        gather_rows(b, cols[c0:c1], b_tile)
        tile_norms = norms_b[cols[c0:c1]]
        for r0 in range(0, rows.size, DENSE_ROWS):
            r1 = min(r0 + DENSE_ROWS, rows.size)
            height, width = r1 - r0, c1 - c0
            gather_rows(a, rows[r0:r1], a_tile)
            tile = sums[: height * width].reshape(height, width)
            kernel = values[: height * width].reshape(height, width)
            np.dot(a_tile[:height], b_tile[:width].T, tile)
            for r in range(height):
                target = kernel[r] if accumulate else block[r0 + r][c0:c1]
                finish_row(
                    finish, coef0, degree, tile[r], norms_a[rows[r0 + r]], tile_norms, target
                )
            if accumulate:
                add_products(kernel, coef[c0:c1], out[r0:r1])


@part
def halve_distance(is_chi2, x, z):
    """Half of the squared distance of two rows, or of their chi-square distance."""
    total = 0.0
    for k in range(x.size):
        difference = x[k] - z[k]
        square = difference * difference
        if is_chi2:
            square /= max(x[k] + z[k], _SMALLEST)
        total += square
    return 0.5 * total


@jit
def difference_tiles(is_chi2, a, norms_a, rows, b, cols, coef, out, block):
    """As `dense_tiles` for exponentials of distances, without the help of scalar products.

    For rows so far from their mean that norms and scalar products leave nothing of each other.
    """
    accumulate = coef.shape[1] > 0
    values = np.empty((1, cols.size), np.float32)
    for r in range(rows.size):
        target = values[0] if accumulate else block[r][: cols.size]
        for c in range(cols.size):
            exponent = -halve_distance(is_chi2, a[rows[r]], b[cols[c]]) - norms_a[rows[r]]
            target[c] = np.float32(max(exponent, -1000.0))
        for c in range(cols.size):
            target[c] = exp2_float32(target[c])
        if accumulate:
            add_products(values, coef, out[r : r + 1])


# In the loops below ``dense`` holds one row of ``sums.size`` values per feature, end to end, and
# ``at`` is where a row begins. Unsigned positions spare the check for negative indices, and without
# it the loops vectorise; taking a slice per feature, or calling these functions instead of inlining
# them, was slower by a third or more.


@inlined
def add_dot(v, at, dense, sums):
    for k in range(sums.size):
        c = np.uint64(k)
        sums[c] += v * dense[at + c]


@inlined
def add_dot4(v0, v1, v2, v3, at0, at1, at2, at3, dense, sums):
    for k in range(sums.size):
        c = np.uint64(k)
        sums[c] += (
            v0 * dense[at0 + c] + v1 * dense[at1 + c] + v2 * dense[at2 + c] + v3 * dense[at3 + c]
        )


@part
def add_chi2(v, at, dense, sums):
    for k in range(sums.size):
        c = np.uint64(k)
        sums[c] += _F2 * v * dense[at + c] / (v + dense[at + c])


@part
def add_min(v, at, dense, sums):
    for k in range(sums.size):
        c = np.uint64(k)
        sums[c] += min(v, dense[at + c])


@part
def add_jensen_shannon(v, at, dense, sums):
    """Add ``(v log2(1 + w/v) + w log2(1 + v/w)) / 2``."""
    x = np.float32(v)
    for k in range(sums.size):
        c = np.uint64(k)
        w = np.float32(dense[at + c])
        # By the ratio: of numbers that differ much, logarithms of each would lose the smaller one.
        low, high = min(x, w), max(x, w)
        ratio = low / high
        both = (low + high) * log2_one_plus_float32(ratio)
        sums[c] += np.float32(0.5) * (both - low * log2_float32(max(ratio, _TINY)))


@part
def add_power_mean(v, p, at, dense, sums):
    """Power mean with p < 0, from logarithms so that no power overflows."""
    exponent = np.float32(p)
    log_v = log2_float32(np.float32(v))
    for k in range(sums.size):
        c = np.uint64(k)
        w = np.float32(dense[at + c])
        log_w = log2_float32(max(w, _TINY))
        # ((v^p + w^p) / 2)^(1/p) = low * ((1 + 2^u) / 2)^(1/p) with u = p log2(high / low) <= 0. Near
        # u = 0 the logarithm of the second factor is taken by its series, or nothing would be left.
        log_ratio = abs(log_v - log_w)
        u = exponent * log_ratio
        far = (log2_float32(_F1 + exp2_float32(u)) - _F1) / exponent
        z = u * np.float32(0.69314718)
        z2 = z * z
        series = np.float32(0.125) + z2 * (np.float32(-1 / 192) + z2 * np.float32(1 / 2880))
        near = log_ratio * (np.float32(0.5) + z * series)
        excess = near if z > np.float32(-0.5) else far
        mean = exp2_float32(min(log_v, log_w) + excess)
        sums[c] += mean if w > np.float32(0.0) else np.float32(0.0)


@inlined
def set_dot4(v0, v1, v2, v3, at0, at1, at2, at3, dense, sums):
    for k in range(sums.size):
        c = np.uint64(k)
        sums[c] = (
            v0 * dense[at0 + c] + v1 * dense[at1 + c] + v2 * dense[at2 + c] + v3 * dense[at3 + c]
        )


@inlined
def sum_dots(values, starts, dense, sums):
    """Dot products of one sparse row, four entries at a time: fewer passes over ``sums``."""
    k = 0
    if values.size >= 4:
        set_dot4(
            values[0], values[1], values[2], values[3],
            starts[0], starts[1], starts[2], starts[3], dense, sums,
        )  # fmt: skip
        k = 4
    else:
        sums[:] = 0.0
    while k + 4 <= values.size:
        add_dot4(
            values[k], values[k + 1], values[k + 2], values[k + 3],
            starts[k], starts[k + 1], starts[k + 2], starts[k + 3], dense, sums,
        )  # fmt: skip
        k += 4
    while k < values.size:
        add_dot(values[k], starts[k], dense, sums)
        k += 1


@part
def sum_row(op, power, values, starts, dense, sums):
    """Sum the operation over the stored entries of one row, for a whole row of the tile."""
    if op == DOT:
        sum_dots(values, starts, dense, sums)
        return
    sums[:] = 0.0
    for k in range(values.size):
        if op == CHI2:
            add_chi2(values[k], starts[k], dense, sums)
        elif op == MIN:
            add_min(values[k], starts[k], dense, sums)
        elif op == JENSEN_SHANNON:
            add_jensen_shannon(values[k], starts[k], dense, sums)
        else:
            add_power_mean(values[k], power, starts[k], dense, sums)


class RowSource(NamedTuple):
    """What `write_kernel_row` needs of some dense points and a kernel of their scalar products.

    Attributes
    ----------
    finish, coef0, degree
        Function applied to the sums.
    features : ndarray
        All values of the first feature, of the second, and so on, each a multiple of `VECTOR` long.
    norms : ndarray of shape (n,)
        What the kernel subtracts from the sums.
    """

    finish: int
    coef0: float
    degree: int
    features: NDArray[np.float32]
    norms: NDArray[np.float32]


@inlined
def write_kernel_row(source, row, out):
    """Kernel between one point and all."""
    n = source.norms.size
    width = (n + VECTOR - 1) // VECTOR * VECTOR
    n_features = source.features.size // width
    values, starts = np.empty(n_features, np.float32), np.empty(n_features, np.uint64)
    for f in range(n_features):
        values[f] = source.features[f * width + row]
        starts[f] = np.uint64(f * width)
    sums = np.empty(width, np.float32)
    sum_dots(values, starts, source.features, sums)
    finish_row(
        source.finish, source.coef0, source.degree, sums[:n], source.norms[row], source.norms, out
    )


@part
def number_features(indices, indptr, cols, place):
    """Number the features that occur in the chosen rows; returns how many there are."""
    count = 0
    for c in range(cols.size):
        for k in range(indptr[cols[c]], indptr[cols[c] + 1]):
            if place[indices[k]] < 0:
                place[indices[k]] = count
                count += 1
    return count


@part
def scatter_rows(data, indices, indptr, cols, place, width, dense):
    """Write the chosen sparse rows as the columns of the flat matrix ``dense``, ``width`` wide."""
    dense[:] = 0.0
    for c in range(cols.size):
        for k in range(indptr[cols[c]], indptr[cols[c] + 1]):
            dense[place[indices[k]] * width + c] = data[k]


@part
def forget_features(indices, indptr, cols, place):
    for c in range(cols.size):
        for k in range(indptr[cols[c]], indptr[cols[c] + 1]):
            place[indices[k]] = -1


@part
def select_entries(data, indices, start, stop, place, width, values, starts):
    """Entries of one row whose feature occurs in the tile; returns how many. The rest add zero."""
    count = 0
    for k in range(start, stop):
        p = place[indices[k]]
        if p >= 0:
            values[count] = data[k]
            starts[count] = np.uint64(p * width)
            count += 1
    return count


@inlined
def locate_entries(indices, width, starts):
    """Where in the dense counterpart the values of each entry begin, if every feature is there."""
    for k in range(indices.size):
        starts[k] = np.uint64(indices[k]) * np.uint64(width)


@jit
def sparse_tiles(
    op, power, finish, coef0, degree, n_features,
    a_data, a_indices, a_indptr, norms_a, rows,
    b_data, b_indices, b_indptr, norms_b, cols,
    coef, out, block,
):  # fmt: skip
    """Kernel of the rows ``rows`` of a and ``cols`` of b, both compressed sparse rows.

    With m > 0 columns of coefficients the matrix is multiplied by ``coef`` (cols, m) and added to
    ``out`` (rows, m); with none it is written to ``block`` (rows, cols). Every operation here is
    zero when either value is zero, so only stored entries are visited.
    """
    n_products = coef.shape[1]
    max_width = SPARSE_COLS if n_features <= WIDE_FEATURES else SPARSE_COLS_WIDE
    has_all = n_features <= FEW_FEATURES
    place = np.arange(n_features) if has_all else np.full(n_features, -1)
    values = np.empty(n_features, a_data.dtype)
    starts = np.empty(n_features, np.uint64)
    sums_all = np.empty(max_width, a_data.dtype)
    kernel_all = np.empty(SPARSE_ROWS * max_width, np.float32)
    for c0 in range(0, cols.size, max_width):
        c1 = min(c0 + max_width, cols.size)
        tile_cols = cols[c0:c1]
        # Whole vectors only: a remainder would be summed one value at a time.
        width = (c1 - c0 + VECTOR - 1) // VECTOR * VECTOR
        n_present = n_features
        if not has_all:
            n_present = number_features(b_indices, b_indptr, tile_cols, place)
        dense = np.empty(n_present * width, a_data.dtype)
        scatter_rows(b_data, b_indices, b_indptr, tile_cols, place, width, dense)
        tile_norms = norms_b[tile_cols]
        column = coef[c0:c1, 0].copy() if n_products == 1 else np.empty(0)
        sums = sums_all[:width]
        for r0 in range(0, rows.size, SPARSE_ROWS):
            r1 = min(r0 + SPARSE_ROWS, rows.size)
            kernel = kernel_all[: (r1 - r0) * (c1 - c0)].reshape(r1 - r0, c1 - c0)
            for r in range(r0, r1):
                row = rows[r]
                first, last = a_indptr[row], a_indptr[row + 1]
                count, entries = last - first, a_data[first:last]
                if has_all:
                    locate_entries(a_indices[first:last], width, starts)
                else:
                    count = select_entries(
                        a_data, a_indices, first, last, place, width, values, starts
                    )
                    entries = values[:count]
                sum_row(op, power, entries, starts[:count], dense, sums)
                if n_products == 0:
                    target = block[r][c0:c1]
                else:
                    target = kernel[0 if n_products == 1 else r - r0]
                finish_row(finish, coef0, degree, sums[: c1 - c0], norms_a[row], tile_norms, target)
                if n_products == 1:
                    # At once, while the row is in the innermost cache.
                    out[r, 0] += dot_float64(target, column)
            if n_products > 1:
                add_products(kernel, coef[c0:c1], out[r0:r1])
        if not has_all:
            forget_features(b_indices, b_indptr, tile_cols, place)


@part
def add_anova_chi2(v, at, dense, sums, pairs):
    # A pair of features is added when the second of them comes: all pairs, and nothing is subtracted.
    for k in range(sums.size):
        c = np.uint64(k)
        value = _F2 * v * dense[at + c] / (v + dense[at + c])
        pairs[c] += value * sums[c]
        sums[c] += value


@part
def add_anova_min(v, at, dense, sums, pairs):
    for k in range(sums.size):
        c = np.uint64(k)
        value = min(v, dense[at + c])
        pairs[c] += value * sums[c]
        sums[c] += value


@part
def add_anova_rbf(v, at, dense, sums, pairs):
    for k in range(sums.size):
        c = np.uint64(k)
        difference = v - dense[at + c]
        value = exp2_float32(np.float32(-difference * difference))
        pairs[c] += value * sums[c]
        sums[c] += value


@part
def sum_anova_row(op, values, starts, dense, sums, pairs):
    """Sums over features and over pairs of features of one row, for a whole row of the tile."""
    for c in range(sums.size):
        sums[c] = 0.0
        pairs[c] = 0.0
    for k in range(values.size):
        if op == CHI2:
            add_anova_chi2(values[k], starts[k], dense, sums, pairs)
        elif op == MIN:
            add_anova_min(values[k], starts[k], dense, sums, pairs)
        else:
            add_anova_rbf(values[k], starts[k], dense, sums, pairs)


@part
def finish_anova(curve_factor, pair_factor, sums, pairs, out):
    for c in range(out.size):
        out[c] = np.float32(curve_factor * sums[c] + pair_factor * pairs[c])


@jit
def anova_tiles(
    op, curve_factor, pair_factor, n_features,
    a_data, a_indices, a_indptr, rows,
    b_data, b_indices, b_indptr, cols,
    coef, out, block,
):  # fmt: skip
    """As `sparse_tiles`, for weighted sums over features and over pairs of features.

    A function of its own, so that fits with other kernels do not wait until it is compiled.
    """
    accumulate = coef.shape[1] > 0
    max_width = SPARSE_COLS if n_features <= WIDE_FEATURES else SPARSE_COLS_WIDE
    has_all = n_features <= FEW_FEATURES
    place = np.arange(n_features) if has_all else np.full(n_features, -1)
    values = np.empty(n_features, a_data.dtype)
    starts = np.empty(n_features, np.uint64)
    sums_all = np.empty(max_width, a_data.dtype)
    pairs_all = np.empty(max_width, a_data.dtype)
    kernel_all = np.empty(SPARSE_ROWS * max_width, np.float32)
    for c0 in range(0, cols.size, max_width):
        c1 = min(c0 + max_width, cols.size)
        tile_cols = cols[c0:c1]
        width = (c1 - c0 + VECTOR - 1) // VECTOR * VECTOR
        n_present = n_features
        if not has_all:
            n_present = number_features(b_indices, b_indptr, tile_cols, place)
        dense = np.empty(n_present * width, a_data.dtype)
        scatter_rows(b_data, b_indices, b_indptr, tile_cols, place, width, dense)
        sums, pairs = sums_all[:width], pairs_all[:width]
        for r0 in range(0, rows.size, SPARSE_ROWS):
            r1 = min(r0 + SPARSE_ROWS, rows.size)
            kernel = kernel_all[: (r1 - r0) * (c1 - c0)].reshape(r1 - r0, c1 - c0)
            for r in range(r0, r1):
                first, last = a_indptr[rows[r]], a_indptr[rows[r] + 1]
                count = select_entries(a_data, a_indices, first, last, place, width, values, starts)
                sum_anova_row(op, values[:count], starts[:count], dense, sums, pairs)
                target = kernel[r - r0] if accumulate else block[r][c0:c1]
                finish_anova(curve_factor, pair_factor, sums[: c1 - c0], pairs, target)
            if accumulate:
                add_products(kernel, coef[c0:c1], out[r0:r1])
        if not has_all:
            forget_features(b_indices, b_indptr, tile_cols, place)


@jit
def count_stored(X, indptr):
    """Row pointers of the non-zero values of a dense matrix."""
    indptr[0] = 0
    for r in range(X.shape[0]):
        count = 0
        for c in range(X.shape[1]):
            count += X[r, c] != 0
        indptr[r + 1] = indptr[r] + count


@jit
def copy_stored(X, indptr, indices, data):
    """Columns and values of the non-zero values of a dense matrix, row by row."""
    for r in range(X.shape[0]):
        k = indptr[r]
        for c in range(X.shape[1]):
            if X[r, c] != 0:
                indices[k] = c
                data[k] = X[r, c]
                k += 1


@jit
def stored_tiles(matrix, rows, cols, coef, out, block):
    """As `sparse_tiles`, for a kernel matrix that is given."""
    accumulate = coef.shape[1] > 0
    values = np.empty((1, cols.size), np.float32)
    for r in range(rows.size):
        source = matrix[rows[r]]
        target = values[0] if accumulate else block[r][: cols.size]
        for c in range(cols.size):
            target[c] = source[cols[c]]
        if accumulate:
            add_products(values, coef, out[r : r + 1])


@jit
def add_stored_rows(store, slots, coef, columns, out):
    """``out += store[slots][:, columns].T @ coef``: products with rows kept in a cache."""
    for k in range(slots.size):
        row, factor = store[slots[k]], coef[k]
        for c in range(columns.size):
            out[c] += factor * row[columns[c]]


@jit
def copy_stored_rows(store, slots, columns, out):
    """``out = store[slots][:, columns]``, leaving out rows whose slot is negative."""
    for r in range(slots.size):
        if slots[r] >= 0:
            row, target = store[slots[r]], out[r]
            for c in range(columns.size):
                target[c] = row[columns[c]]


@jit
def store_columns(block, slots, first, store):
    """``store[slots, first:...] = block.T``, in squares that stay in cache."""
    side = 32
    for k0 in range(0, slots.size, side):
        for r0 in range(0, block.shape[0], side):
            for k in range(k0, min(k0 + side, slots.size)):
                row = store[slots[k]]
                for r in range(r0, min(r0 + side, block.shape[0])):
                    row[first + r] = block[r, k]


@jit
def write_rows(block, rows, out):
    """``out[rows] = block``, in its first columns."""
    for r in range(rows.size):
        copy_row(block[r], out[rows[r]])
