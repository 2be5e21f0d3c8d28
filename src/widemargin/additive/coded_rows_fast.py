"""Compiled loops of linear SVMs whose rows are computed from codes and tables when they are visited.

A row is a vector of numbers: for every feature, the numbers that a table has for the code of its
value. A loop writes the row out, uses it for all classes, and does not keep it. Kinds of rows:

- DENSE: a code for every feature. Coefficients of a class are contiguous.
- SPARSE: codes of some features; the others add nothing. Coefficients of all classes for a feature
  are contiguous, so that one visit serves them all.
- PLAIN: no codes, the numbers are given, for all rows end to end.
- LISTS: no codes, the numbers of some functions are given for each row: a sparse matrix. Coefficients
  of all classes for a function are contiguous. See `knots`.
- GRAM: no codes, the kernel between all rows is given. The coefficients are the decision values of
  the rows.
- BINS: one coefficient for every bin of every feature, the value of the decision curve there: the
  table T of ICD (Eq. 8 and 9). Adding a row adds the intersection kernel with its bin to all of them.
- HATS: the decision curves of BINS as sums of hat functions, see `hat_basis`. Both reading and adding
  a row take as many steps for each feature as its number of bins has binary digits. Coefficients of
  all classes for a function are contiguous.

Rows are read with one table and added with another, which differ for PmSVM. Beside its features a
row may have a few extra numbers, such as a constant.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

DENSE, SPARSE, BINS, PLAIN, GRAM, HATS, LISTS = range(7)

#: Most classes that are processed at once where their coefficients are contiguous.
MOST_LANES = 16

# Not all of fastmath: bounds and thresholds may be infinite.
jit = njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"}, error_model="numpy",
    forceinline=True,
)  # fmt: skip

U = np.uint64


class Rows(NamedTuple):
    """Rows of a linear SVM; arrays that a kind of rows does not need are empty.

    Attributes
    ----------
    kind : int
        DENSE, SPARSE, BINS, PLAIN, GRAM, HATS or LISTS.
    codes : ndarray
        Codes row after row, flat.
    gaps, indptr : ndarray
        How far the feature of each code is from that of the one before (SPARSE, and BINS and HATS if
        not every feature has one; see `Codes`), and where rows begin.
    n_features, rank : int
        Features, and numbers for each.
    read, write : ndarray of shape (n_codes * rank,)
        Numbers of each code when a row is read and when it is added; for BINS its value.
    scale : ndarray of shape (n_features * rank,)
        Factor on what is added.
    plain_read, plain_write : ndarray of shape (n_rows * rank,)
        Numbers of each row (PLAIN), or kernel of each row with all rows (GRAM). For LISTS the numbers
        of all rows end to end, read and added alike.
    columns : ndarray of uint32
        Functions to which these numbers belong (LISTS).
    n_extra : int
        Numbers beside the features.
    extra_read, extra_write : ndarray of shape (n_rows * n_extra,)
        These numbers.
    offsets : ndarray of shape (n_features + 1,)
        Where the coefficients of a feature begin (BINS, HATS).
    slopes : ndarray of shape (n_features,)
        Factor of the straight line of each feature, on the numbers ``write`` (HATS). The ``scale`` of
        HATS is the root of the factor on the kernel, and a row is read with it as it is added.
    shifts : ndarray of uint8, shape (n_features,)
        Binary logarithm of the half width of the narrowest hats of each feature (HATS).
    is_indicator : ndarray of bool, shape (n_features,)
        Features with one code beside zero (BINS). Only that bin is kept up to date: the curve is a
        straight line to it.
    is_whole : bool
        Whether every feature of every row has a code.
    is_symmetric : bool
        Whether rows are added with the numbers they are read with.
    """

    kind: int
    codes: Any
    gaps: Any
    indptr: Any
    n_features: int
    rank: int
    read: Any
    write: Any
    scale: Any
    plain_read: Any
    plain_write: Any
    columns: Any
    n_extra: int
    extra_read: Any
    extra_write: Any
    offsets: Any
    slopes: Any
    shifts: Any
    is_indicator: Any
    is_whole: bool
    is_symmetric: bool


class Room(NamedTuple):
    """Working memory of a pass, for the row that is being visited.

    Attributes
    ----------
    words : ndarray
        The numbers of a DENSE row, in words of 16 bytes.
    values, deltas : ndarray of shape (width,)
        Products of the row with the coefficients of every class, and the factor with which the row
        is added to them. The width is the number of classes, rounded up as `lane_width` says.
    wanted : ndarray of bool, shape (width,)
        Classes whose products are computed: all of them, except during a sweep.
    """

    words: Any
    values: Any
    deltas: Any
    wanted: Any


def lane_width(kind: int, n_classes: int) -> int:
    """Number of classes for which there are coefficients, some of which may be unused.

    Where the coefficients of all classes are contiguous, loops take eight or sixteen classes at once.
    """
    if kind not in (SPARSE, HATS, LISTS) or (kind != HATS and n_classes == 1):
        return n_classes
    return 8 if n_classes <= 8 else -(-n_classes // MOST_LANES) * MOST_LANES


def make_room(rows: Rows, n_classes: int, dtype: Any) -> Room:
    """Allocate the working memory of a pass, with products of some type; all classes are wanted."""
    n_floats = rows.n_features * rows.rank if rows.kind == DENSE else 0
    width = lane_width(rows.kind, n_classes)
    return Room(
        np.empty(n_floats * rows.read.itemsize // 16, np.complex128),
        np.empty(width, dtype),
        np.zeros(width, dtype),
        np.ones(width, np.bool_),
    )


def prefetch(array, index):
    """Ask for the cache line of an element of a flat array; nothing when not compiled."""


def borrow(value):
    """An argument of a compiled function, array or tuple, without counting references to it.

    Numba counts them whenever an array is taken out of a tuple or passed on, with instructions that
    lock memory: for short rows that took longer than the arithmetic. Only for arguments, which the
    caller keeps alive; never for arrays made in the function itself.
    """
    return value


@intrinsic
def _prefetch(typingctx, array, index):
    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        to_read, keep_long, is_data = number(0), number(3), number(1)
        builder.call(function, [address, to_read, keep_long, is_data])
        return context.get_dummy_value()

    return types.void(array, index), codegen


@intrinsic
def _borrow(typingctx, value):
    def disown(context, builder, kind, part):
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, part)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts = cgutils.unpack_tuple(builder, part)
            parts = [disown(context, builder, k, p) for k, p in zip(kind, parts, strict=True)]
            return context.make_tuple(builder, kind, parts)
        return part

    def codegen(context, builder, signature, args):
        return disown(context, builder, signature.args[0], args[0])

    return value(value), codegen


@overload(prefetch)
def _compiled_prefetch(array, index):
    return lambda array, index: _prefetch(array, index)


@overload(borrow)
def _compiled_borrow(value):
    return lambda value: _borrow(value)


# Lanes are a few numbers that are processed at once, in a vector register. When not compiled, they are
# short arrays.


def zero_lanes(array, count):
    """Return so many zeros of the type of an array."""
    return np.zeros(count, array.dtype)


def load_lanes(lanes, array, index):
    """Load as many numbers as there are lanes from an array of their type."""
    at = int(index)
    assert at + lanes.size <= array.size
    return array[at : at + lanes.size].copy()


def store_lanes(lanes, array, index):
    """Store lanes in an array, which may have another precision."""
    at = int(index)
    assert at + lanes.size <= array.size
    array[at : at + lanes.size] = lanes


def spread(lanes, number):
    """Return lanes that all hold one number."""
    return np.full_like(lanes, number)


def add_product(lanes, left, right):
    """Return ``lanes + left * right``."""
    return lanes + left * right


def sum_lanes(lanes):
    """Return the sum of four lanes."""
    return lanes.sum()


class Lanes(types.Type):
    """Type of a few numbers that are processed at once: a vector register."""

    def __init__(self, dtype, count):
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Lanes({dtype}, {count})")

    @property
    def vector(self):
        """The type in LLVM."""
        number = ir.FloatType() if self.dtype == types.float32 else ir.DoubleType()
        return ir.VectorType(number, self.count)


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """Lanes are a vector of LLVM."""

    def __init__(self, manager, kind):
        super().__init__(manager, kind, kind.vector)


def _lanes_at(context, builder, kind, array, index, vector):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


@intrinsic(prefer_literal=True)
def _zero_lanes(typingctx, array, count):
    lanes = Lanes(array.dtype, count.literal_value)

    def codegen(context, builder, signature, args):
        return ir.Constant(lanes.vector, [0.0] * lanes.count)

    return lanes(array, count), codegen


@intrinsic
def _load_lanes(typingctx, lanes, array, index):
    def codegen(context, builder, signature, args):
        at = _lanes_at(context, builder, array, args[1], args[2], lanes.vector)
        return builder.load(at, align=lanes.dtype.bitwidth // 8)

    return lanes(lanes, array, index), codegen


@intrinsic
def _store_lanes(typingctx, lanes, array, index):
    target = Lanes(array.dtype, lanes.count)

    def codegen(context, builder, signature, args):
        value = args[0]
        if target.dtype.bitwidth > lanes.dtype.bitwidth:
            value = builder.fpext(value, target.vector)
        elif target.dtype.bitwidth < lanes.dtype.bitwidth:
            value = builder.fptrunc(value, target.vector)
        at = _lanes_at(context, builder, array, args[1], args[2], target.vector)
        builder.store(value, at, align=target.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(lanes, array, index), codegen


@intrinsic
def _spread(typingctx, lanes, number):
    def codegen(context, builder, signature, args):
        value = context.cast(builder, args[1], signature.args[1], lanes.dtype)
        nothing, zero = ir.Constant(lanes.vector, ir.Undefined), ir.IntType(32)(0)
        first = builder.insert_element(nothing, value, zero)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes.count), [0] * lanes.count)
        return builder.shuffle_vector(first, nothing, everywhere)

    return lanes(lanes, number), codegen


@intrinsic
def _add_product(typingctx, lanes, left, right):
    def codegen(context, builder, signature, args):
        product = builder.fmul(args[1], args[2], flags=("contract",))
        return builder.fadd(args[0], product, flags=("contract",))

    return lanes(lanes, left, right), codegen


@intrinsic
def _sum_lanes(typingctx, lanes):
    def codegen(context, builder, signature, args):
        parts = [builder.extract_element(args[0], ir.IntType(32)(k)) for k in range(lanes.count)]
        while len(parts) > 1:
            parts = [builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return lanes.dtype(lanes), codegen


@overload(zero_lanes, prefer_literal=True)
def _compiled_zero_lanes(array, count):
    return lambda array, count: _zero_lanes(array, count)


@overload(load_lanes)
def _compiled_load_lanes(lanes, array, index):
    return lambda lanes, array, index: _load_lanes(lanes, array, index)


@overload(store_lanes)
def _compiled_store_lanes(lanes, array, index):
    return lambda lanes, array, index: _store_lanes(lanes, array, index)


@overload(spread)
def _compiled_spread(lanes, number):
    return lambda lanes, number: _spread(lanes, number)


@overload(add_product)
def _compiled_add_product(lanes, left, right):
    return lambda lanes, left, right: _add_product(lanes, left, right)


@overload(sum_lanes)
def _compiled_sum_lanes(lanes):
    return lambda lanes: _sum_lanes(lanes)


# Rows are visited in random order, for which coordinate descent converges far faster than for any
# order that reads memory in runs; without asking ahead, waiting for memory took most of the time.
AHEAD = 8
LINE = 64
MAX_LINES = 16
# Of a sparse row, coefficients are read here and there: they are asked for so many codes ahead.
CODES_AHEAD = 8


@jit
def find_codes(rows, i):
    """Where the codes of row i begin and end."""
    if rows.is_whole:
        return i * rows.n_features, (i + 1) * rows.n_features
    return rows.indptr[i], rows.indptr[i + 1]


@jit
def fetch_row(rows, i, n_classes, info, alpha, shrunk):
    """Prefetch what a visit to row i will read, and the first of its codes."""
    prefetch(info, i * 4)
    prefetch(alpha, i * n_classes)
    prefetch(shrunk, i * n_classes)
    if rows.n_extra:
        prefetch(rows.extra_read, i * rows.n_extra)
        prefetch(rows.extra_write, i * rows.n_extra)
    if rows.kind <= BINS or rows.kind == HATS:
        first, last = find_codes(rows, i)
        step = LINE // rows.codes.itemsize
        for at in range(first, min(last, first + MAX_LINES * step), step):
            prefetch(rows.codes, at)
        if not rows.is_whole:
            step = LINE // rows.gaps.itemsize
            for at in range(first, min(last, first + MAX_LINES * step), step):
                prefetch(rows.gaps, at)
    elif rows.kind == LISTS:
        first, last = rows.indptr[i], rows.indptr[i + 1]
        for at in range(first, min(last, first + MAX_LINES * 16), 16):
            prefetch(rows.columns, at)
            prefetch(rows.plain_read, at)


# Slices of arrays cost more than short rows do, so the loops below take whole arrays and where to
# begin in them; unsigned positions spare the check for negative ones.


@jit
def decode_row(codes, first, n_codes, table, out):
    """Copy the table's numbers of some codes, in words of 16 bytes: four floats at once."""
    words = table[: table.size * table.itemsize // 16 * 16 // table.itemsize].view(np.complex128)
    start, width = U(first), out.size // n_codes
    if width == 1:
        for k in range(n_codes):
            out[U(k)] = words[U(codes[start + U(k)])]
    else:
        for k in range(n_codes):
            source, target = U(codes[start + U(k)]) * U(width), U(k) * U(width)
            for w in range(width):
                out[target + U(w)] = words[source + U(w)]


@jit
def dot(row, at, size, coef, first):
    total = coef.dtype.type(0.0)
    here, there = U(at), U(first)
    for k in range(size):
        total += row[here + U(k)] * coef[there + U(k)]
    return total


@jit
def add_scaled(row, at, size, scale, factor, coef, first):
    here, there = U(at), U(first)
    for k in range(size):
        coef[there + U(k)] += factor * scale[U(k)] * row[here + U(k)]


@jit
def read_sparse(rows, first, last, coef, width, lane, zeros, out):
    """Products of one sparse row with the coefficients of as many classes as there are lanes."""
    codes, gaps, table, rank = rows.codes, rows.gaps, rows.read, rows.rank
    size = U(rank * width)
    feature, coming = U(0), U(0)
    for e in range(first, min(last, first + CODES_AHEAD)):
        coming += U(gaps[U(e)])
    total = zeros
    for e in range(first, last):
        if e + CODES_AHEAD < last:
            coming += U(gaps[U(e + CODES_AHEAD)])
            for t in range(rank):
                prefetch(coef, coming * size + U(t) * U(width) + U(lane))
        source = U(codes[U(e)]) * U(rank)
        feature += U(gaps[U(e)])
        at = feature * size + U(lane)
        # A sum for each feature: the processor computes several of them at the same time.
        part = zeros
        for t in range(rank):
            number = spread(zeros, table[source + U(t)])
            part = add_product(part, number, load_lanes(zeros, coef, at + U(t) * U(width)))
        total = add_product(total, spread(zeros, 1.0), part)
    store_lanes(total, out, U(lane))


@jit
def add_sparse(rows, first, last, coef, width, lane, zeros, deltas):
    codes, gaps, table, rank, scale = rows.codes, rows.gaps, rows.write, rows.rank, rows.scale
    step = load_lanes(zeros, deltas, U(lane))
    feature = U(0)
    for e in range(first, last):
        source = U(codes[U(e)]) * U(rank)
        feature += U(gaps[U(e)])
        target = feature * U(rank)
        for t in range(rank):
            factor = spread(zeros, table[source + U(t)] * scale[target + U(t)])
            at = (target + U(t)) * U(width) + U(lane)
            store_lanes(add_product(load_lanes(zeros, coef, at), factor, step), coef, at)


@jit
def read_alone(codes, gaps, first, last, table, rank, coef):
    """Product of one sparse row with the coefficients of the only class; rank is a multiple of 4."""
    total = zero_lanes(coef, 4)
    feature, coming = U(0), U(0)
    for e in range(first, min(last, first + CODES_AHEAD)):
        coming += U(gaps[U(e)])
    for e in range(first, last):
        if e + CODES_AHEAD < last:
            coming += U(gaps[U(e + CODES_AHEAD)])
            prefetch(coef, coming * U(rank))
        source = U(codes[U(e)]) * U(rank)
        feature += U(gaps[U(e)])
        for t in range(0, rank, 4):
            numbers = load_lanes(total, table, source + U(t))
            total = add_product(total, numbers, load_lanes(total, coef, feature * U(rank) + U(t)))
    return sum_lanes(total)


@jit
def add_alone(codes, gaps, first, last, table, rank, scale, delta, coef):
    zeros = zero_lanes(coef, 4)
    feature = U(0)
    for e in range(first, last):
        source = U(codes[U(e)]) * U(rank)
        feature += U(gaps[U(e)])
        # The numbers of one feature have one scale.
        factor = spread(zeros, delta * scale[feature * U(rank)])
        for t in range(0, rank, 4):
            at = feature * U(rank) + U(t)
            numbers = load_lanes(zeros, table, source + U(t))
            store_lanes(add_product(load_lanes(zeros, coef, at), factor, numbers), coef, at)


@jit
def read_list(rows, first, last, coef, width, lane, zeros, out):
    """Products of one row of listed numbers with the coefficients of as many classes as lanes."""
    columns, numbers = rows.columns, rows.plain_read
    total, other = zeros, zeros
    # Two sums, which the processor computes at the same time.
    for e in range(first, last - 1, 2):
        if e + CODES_AHEAD < last:
            prefetch(coef, U(columns[U(e + CODES_AHEAD)]) * U(width) + U(lane))
        if e + 1 + CODES_AHEAD < last:
            prefetch(coef, U(columns[U(e + 1 + CODES_AHEAD)]) * U(width) + U(lane))
        at, next_at = (
            U(columns[U(e)]) * U(width) + U(lane),
            U(columns[U(e + 1)]) * U(width) + U(lane),
        )
        total = add_product(total, spread(zeros, numbers[U(e)]), load_lanes(zeros, coef, at))
        other = add_product(
            other, spread(zeros, numbers[U(e + 1)]), load_lanes(zeros, coef, next_at)
        )
    if (last - first) % 2:
        at = U(columns[U(last - 1)]) * U(width) + U(lane)
        total = add_product(total, spread(zeros, numbers[U(last - 1)]), load_lanes(zeros, coef, at))
    store_lanes(add_product(total, spread(zeros, 1.0), other), out, U(lane))


@jit
def add_list(rows, first, last, coef, width, lane, zeros, deltas):
    columns, numbers = rows.columns, rows.plain_read
    step = load_lanes(zeros, deltas, U(lane))
    for e in range(first, last):
        at = U(columns[U(e)]) * U(width) + U(lane)
        number = spread(zeros, numbers[U(e)])
        store_lanes(add_product(load_lanes(zeros, coef, at), number, step), coef, at)


@jit
def read_list_alone(columns, numbers, first, last, coef):
    """Product of one row of listed numbers with the coefficients of the only class."""
    total = coef.dtype.type(0.0)
    for e in range(first, last):
        total += numbers[U(e)] * coef[U(columns[U(e)])]
    return total


@jit
def add_list_alone(columns, numbers, first, last, delta, coef):
    for e in range(first, last):
        coef[U(columns[U(e)])] += delta * numbers[U(e)]


@jit
def read_hats(rows, first, last, coef, width, lane, zeros, out):
    """Products of one row of hats with the coefficients of as many classes as there are lanes."""
    codes, gaps, offsets, slopes = rows.codes, rows.gaps, rows.offsets, rows.slopes
    numbers, levels, roots, shifts = rows.read, rows.write, rows.scale, rows.shifts
    rank, is_whole = U(rows.rank), rows.is_whole
    total = zeros
    j = U(0)
    for e in range(first, last):
        code = U(codes[U(e)])
        j = U(e - first) if is_whole else j + U(gaps[U(e)])
        if code == U(0):
            continue
        start, root, shift = U(offsets[j]), roots[j], U(shifts[j])
        size = U(offsets[j + U(1)]) - start
        line = load_lanes(zeros, coef, start * U(width) + U(lane))
        part = add_product(zeros, spread(zeros, slopes[j] * levels[code]), line)
        half, source, place = U(1), code * rank + shift, code >> shift
        while half < size:
            # The hat of this width that is not zero at the code, numbered by its middle. At the end
            # of the grid all hats are zero, and any of them will do.
            middle = ((place & ~(half + half - U(1))) | half) & (size - U(1))
            hat = load_lanes(zeros, coef, (start + middle) * U(width) + U(lane))
            part = add_product(part, spread(zeros, root * numbers[source]), hat)
            source += U(1)
            half += half
        total = add_product(total, spread(zeros, 1.0), part)
    store_lanes(total, out, U(lane))


@jit
def add_hats(rows, first, last, coef, width, lane, zeros, deltas):
    codes, gaps, offsets, slopes = rows.codes, rows.gaps, rows.offsets, rows.slopes
    numbers, levels, roots, shifts = rows.read, rows.write, rows.scale, rows.shifts
    rank, is_whole = U(rows.rank), rows.is_whole
    step = load_lanes(zeros, deltas, U(lane))
    j = U(0)
    for e in range(first, last):
        code = U(codes[U(e)])
        j = U(e - first) if is_whole else j + U(gaps[U(e)])
        if code == U(0):
            continue
        start, root, shift = U(offsets[j]), roots[j], U(shifts[j])
        size = U(offsets[j + U(1)]) - start
        at, line = start * U(width) + U(lane), spread(zeros, slopes[j] * levels[code])
        store_lanes(add_product(load_lanes(zeros, coef, at), line, step), coef, at)
        half, source, place = U(1), code * rank + shift, code >> shift
        while half < size:
            middle = ((place & ~(half + half - U(1))) | half) & (size - U(1))
            at = (start + middle) * U(width) + U(lane)
            hat = spread(zeros, root * numbers[source])
            store_lanes(add_product(load_lanes(zeros, coef, at), hat, step), coef, at)
            source += U(1)
            half += half


@jit
def read_bins(codes, gaps, is_whole, first, last, offsets, curves, at):
    """Sum the values of one decision curve at the bins of one row."""
    # ICD Algorithm 2, line 4': sum over j of T[j, x_ij].
    total = 0.0
    start = U(at)
    if is_whole:
        for j in range(last - first):
            total += curves[start + U(offsets[U(j)]) + U(codes[U(first + j)])]
    else:
        feature = U(0)
        for e in range(first, last):
            feature += U(gaps[e])
            total += curves[start + U(offsets[feature]) + U(codes[e])]
    return total


@jit
def add_ramp(curves, start, length, levels, code, delta):
    """Add ``delta * min(levels[code], levels[k])`` for every bin k of one curve."""
    # ICD Algorithm 2, line 9', for one feature j and all k (ICD Eq. 12).
    at, top = U(start), levels[U(code)]
    for k in range(length):
        curves[at + U(k)] += delta * min(levels[U(k)], top)


@jit
def add_bins(
    codes, gaps, is_whole, first, last, offsets, is_indicator, levels, scale, delta, curves, at
):
    j = 0
    for e in range(first, last):
        code = np.int64(codes[e])
        j = e - first if is_whole else j + np.int64(gaps[e])
        if code > 0:
            start = offsets[j]
            if is_indicator[j]:
                curves[U(at + start + code)] += delta * scale[j] * levels[U(code)]
            else:
                add_ramp(curves, at + start, offsets[j + 1] - start, levels, code, delta * scale[j])


@jit
def read_row(rows, i, coef, extra_coef, room):
    """Products of row i with the coefficients of the wanted classes, in ``room.values``."""
    wanted, out = room.wanted, room.values
    n_classes = out.size
    size = coef.size // n_classes
    first, last = find_codes(rows, i)
    if rows.kind == SPARSE:
        if n_classes == 1:
            out[0] = read_alone(rows.codes, rows.gaps, first, last, rows.read, rows.rank, coef)
        elif n_classes == 8:
            read_sparse(rows, first, last, coef, 8, 0, zero_lanes(coef, 8), out)
        else:
            for lane in range(0, n_classes, 16):
                read_sparse(rows, first, last, coef, n_classes, lane, zero_lanes(coef, 16), out)
    elif rows.kind == HATS:
        if n_classes == 8:
            read_hats(rows, first, last, coef, 8, 0, zero_lanes(coef, 8), out)
        else:
            for lane in range(0, n_classes, 16):
                read_hats(rows, first, last, coef, n_classes, lane, zero_lanes(coef, 16), out)
    elif rows.kind == LISTS:
        if n_classes == 1:
            out[0] = read_list_alone(rows.columns, rows.plain_read, first, last, coef)
        elif n_classes == 8:
            read_list(rows, first, last, coef, 8, 0, zero_lanes(coef, 8), out)
        else:
            for lane in range(0, n_classes, 16):
                read_list(rows, first, last, coef, n_classes, lane, zero_lanes(coef, 16), out)
    elif rows.kind == BINS:
        for k in range(n_classes):
            if wanted[k]:
                out[k] = read_bins(
                    rows.codes,
                    rows.gaps,
                    rows.is_whole,
                    first,
                    last,
                    rows.offsets,
                    coef,
                    k * size,
                )
    elif rows.kind == DENSE:
        decode_row(rows.codes, first, rows.n_features, rows.read, room.words)
        row = room.words.view(coef.dtype)
        for k in range(n_classes):
            if wanted[k]:
                out[k] = dot(row, 0, size, coef, k * size)
    elif rows.kind == PLAIN:
        for k in range(n_classes):
            if wanted[k]:
                out[k] = dot(rows.plain_read, i * size, size, coef, k * size)
    else:
        for k in range(n_classes):
            out[k] = coef[k * size + i]
    for m in range(rows.n_extra):
        for k in range(extra_coef.shape[0]):
            out[k] += rows.extra_read[i * rows.n_extra + m] * extra_coef[k, m]


@jit
def add_row(rows, i, coef, extra_coef, room):
    """Add ``room.deltas[k]`` times row i, which was just read, to the coefficients of class k."""
    deltas = room.deltas
    n_classes = deltas.size
    size = coef.size // n_classes
    first, last = find_codes(rows, i)
    if rows.kind == SPARSE:
        if n_classes == 1:
            add_alone(
                rows.codes, rows.gaps, first, last, rows.write, rows.rank, rows.scale, deltas[0],
                coef,
            )  # fmt: skip
        elif n_classes == 8:
            add_sparse(rows, first, last, coef, 8, 0, zero_lanes(coef, 8), deltas)
        else:
            for lane in range(0, n_classes, 16):
                add_sparse(rows, first, last, coef, n_classes, lane, zero_lanes(coef, 16), deltas)
    elif rows.kind == HATS:
        if n_classes == 8:
            add_hats(rows, first, last, coef, 8, 0, zero_lanes(coef, 8), deltas)
        else:
            for lane in range(0, n_classes, 16):
                add_hats(rows, first, last, coef, n_classes, lane, zero_lanes(coef, 16), deltas)
    elif rows.kind == LISTS:
        if n_classes == 1:
            add_list_alone(rows.columns, rows.plain_read, first, last, deltas[0], coef)
        elif n_classes == 8:
            add_list(rows, first, last, coef, 8, 0, zero_lanes(coef, 8), deltas)
        else:
            for lane in range(0, n_classes, 16):
                add_list(rows, first, last, coef, n_classes, lane, zero_lanes(coef, 16), deltas)
    elif rows.kind == BINS:
        for k in range(n_classes):
            if deltas[k] != 0.0:
                add_bins(
                    rows.codes, rows.gaps, rows.is_whole, first, last, rows.offsets,
                    rows.is_indicator, rows.read, rows.scale, deltas[k], coef, k * size,
                )  # fmt: skip
    elif rows.kind == DENSE:
        if not rows.is_symmetric:
            decode_row(rows.codes, first, rows.n_features, rows.write, room.words)
        row = room.words.view(coef.dtype)
        for k in range(n_classes):
            if deltas[k] != 0.0:
                add_scaled(row, 0, size, rows.scale, deltas[k], coef, k * size)
    else:
        for k in range(n_classes):
            if deltas[k] != 0.0:
                add_scaled(rows.plain_write, i * size, size, rows.scale, deltas[k], coef, k * size)
    for m in range(rows.n_extra):
        for k in range(extra_coef.shape[0]):
            extra_coef[k, m] += deltas[k] * rows.extra_write[i * rows.n_extra + m]


@jit
def sweep(
    rows, order, info, positives, tops, bottoms, alpha, shrunk, room, coef, extra_coef, highest,
    lowest,
):  # fmt: skip
    """Make one pass of dual coordinate descent over the rows ``order``, for all classes at once.

    For class k, minimise ``0.5 a'(Q + diag(ridge))a - sum(a)`` subject to ``0 <= a <= upper`` (ICD
    Eq. 11). ``info`` has four numbers for each row: label, upper, ridge and the diagonal of Q. A row
    is shrunk for a class when its dual variable is at a bound and its gradient beyond ``tops`` or
    ``bottoms``. On return ``highest`` and ``lowest`` hold the extremes of the projected gradient.

    The loop is lines 3 to 11 of ICD Algorithm 1, lines 4 to 9 of PmSVM Algorithm 2 (LR-SVM) and lines
    5 to 10 of PmSVM Algorithm 3. These differ in how `read_row` and `add_row` read and add a row.
    """
    rows, room, coef, extra_coef = borrow((rows, room, coef, extra_coef))
    values, deltas, wanted = room.values, room.deltas, room.wanted
    n_classes = positives.size
    highest[:] = -np.inf
    lowest[:] = np.inf
    for s in range(order.size):
        i = order[s]
        if s + AHEAD < order.size:
            fetch_row(rows, order[s + AHEAD], n_classes, info, alpha, shrunk)
        label, upper, ridge, norm = info[4 * i], info[4 * i + 1], info[4 * i + 2], info[4 * i + 3]
        at = i * n_classes
        for k in range(n_classes):
            wanted[k] = not shrunk[at + k]
        # ICD Algorithm 2, line 4'; PmSVM Algorithm 2, line 5, and Algorithm 3, line 6.
        read_row(rows, i, coef, extra_coef, room)
        has_moved = False
        for k in range(n_classes):
            deltas[k] = 0.0
            if not wanted[k]:
                continue
            sign = 1.0 if label == positives[k] else -1.0
            a = alpha[at + k]
            gradient = sign * values[k] - 1.0 + ridge * a
            # ICD Algorithm 1, line 5.
            projected = gradient
            if a == 0.0:
                if gradient > tops[k]:
                    shrunk[at + k] = True
                    continue
                projected = min(gradient, 0.0)
            elif a == upper:
                if gradient < bottoms[k]:
                    shrunk[at + k] = True
                    continue
                projected = max(gradient, 0.0)
            highest[k] = max(highest[k], projected)
            lowest[k] = min(lowest[k], projected)
            if abs(projected) > 1e-12:
                # ICD Algorithm 1, line 8; PmSVM Algorithm 2, line 7, and Algorithm 3, line 8.
                moved = min(max(a - gradient / max(norm + ridge, 1e-12), 0.0), upper)
                alpha[at + k] = moved
                deltas[k] = (moved - a) * sign
                has_moved = True
        if has_moved:
            # ICD Algorithm 2, line 9'; PmSVM Algorithm 2, line 8, and Algorithm 3, line 9.
            add_row(rows, i, coef, extra_coef, room)


@jit
def sweep_targets(
    rows, order, info, epsilon, threshold, beta, shrunk, room, coef, extra_coef
):  # fmt: skip
    """Make one pass of dual coordinate descent for a regression over the rows ``order``.

    Minimise ``0.5 b'(K + diag(ridge))b - targets'b + epsilon |b|_1`` subject to ``|b| <= upper``.
    ``info`` has four numbers for each row: target, upper, ridge and the diagonal of K. A row is shrunk
    if its dual variable is zero or at a bound and the slopes there exceed ``threshold``. Returns the
    largest violation of the optimality conditions.

    The loop is Algorithm 4 of Ho and Lin, "Large-scale linear support vector regression" (2012).
    """
    rows, room, coef, extra_coef = borrow((rows, room, coef, extra_coef))
    worst = 0.0
    for s in range(order.size):
        i = order[s]
        if s + AHEAD < order.size:
            fetch_row(rows, order[s + AHEAD], 1, info, beta, shrunk)
        target, upper, ridge, norm = info[4 * i], info[4 * i + 1], info[4 * i + 2], info[4 * i + 3]
        read_row(rows, i, coef, extra_coef, room)
        b = beta[i]
        gradient = room.values[0] - target + ridge * b
        # The slopes on the right and on the left of zero, where the objective has a kink.
        rising, falling = gradient + epsilon, gradient - epsilon
        if b == 0.0:
            violation = max(-rising, falling)
        elif b == upper:
            violation = rising
        elif b == -upper:
            violation = -falling
        else:
            violation = abs(rising) if b > 0.0 else abs(falling)
        if violation < -threshold:
            shrunk[i] = True
            continue
        if violation <= 1e-12:
            continue
        worst = max(worst, violation)
        curvature = max(norm + ridge, 1e-12)
        if rising < curvature * b:
            moved = b - rising / curvature
        elif falling > curvature * b:
            moved = b - falling / curvature
        else:
            moved = 0.0
        moved = min(max(moved, -upper), upper)
        beta[i] = moved
        room.deltas[0] = moved - b
        add_row(rows, i, coef, extra_coef, room)
    return worst


@jit
def add_rows(rows, labels, positives, alpha, room, coef, extra_coef):
    """Add every row times its signed dual variables, which gives the coefficients (PmSVM Eq. 31)."""
    rows, room, coef, extra_coef = borrow((rows, room, coef, extra_coef))
    deltas = room.deltas
    n_classes = positives.size
    for i in range(alpha.shape[0]):
        has_any = False
        for k in range(n_classes):
            deltas[k] = alpha[i, k] if labels[i] == positives[k] else -alpha[i, k]
            has_any = has_any or alpha[i, k] != 0.0
        if has_any:
            read_row(rows, i, coef, extra_coef, room)
            add_row(rows, i, coef, extra_coef, room)


@jit
def stochastic_steps(
    rows, order, labels, positives, weights, norms, step_count, penalty, delay, is_squared, scales,
    losses, room, coef, extra_coef,
):  # fmt: skip
    """Make stochastic subgradient steps of length ``1 / (penalty (t + delay))`` on the rows ``order``.

    The loop is lines 3 to 10 of PmSVM Algorithm 4, for all classes at once. The slope of the squared
    hinge loss is taken at the end of the step, where it is smaller: the first steps are long, and
    would overshoot without bound.

    Coefficients are kept divided by ``scales``, one for each class, so that shrinking all of them is
    one multiplication. Adds the weighted losses of the rows, as they were visited, to ``losses``.
    Returns the number of steps so far.
    """
    rows, room, coef, extra_coef = borrow((rows, room, coef, extra_coef))
    values, deltas = room.values, room.deltas
    n_classes = positives.size
    for s in range(order.size):
        i = order[s]
        step_count += 1
        rate = 1.0 / (penalty * (step_count + delay))
        read_row(rows, i, coef, extra_coef, room)
        has_moved = False
        for k in range(n_classes):
            sign = 1.0 if labels[i] == positives[k] else -1.0
            shortfall = 1.0 - sign * values[k] * scales[k]
            # PmSVM Algorithm 4, line 8, and the shrinking in line 6.
            scales[k] *= 1.0 - rate * penalty
            deltas[k] = 0.0
            if shortfall > 0.0:
                slope = 1.0
                if is_squared:
                    slope = 2.0 * shortfall / (1.0 + 2.0 * rate * weights[i] * norms[i])
                losses[k] += weights[i] * (shortfall**2 if is_squared else shortfall)
                # PmSVM Algorithm 4, line 6.
                deltas[k] = rate * weights[i] * slope * sign / scales[k]
                has_moved = True
        if has_moved:
            add_row(rows, i, coef, extra_coef, room)
    return step_count


@jit
def share_out(slopes, curvature, positive, cost, alpha):
    """Minimise ``curvature / 2 |a|^2 + slopes'a`` with sum zero, ``a <= 0`` but ``<= cost`` for one.

    At the optimum ``a_m = min(bound_m, (level - slopes_m) / curvature)``; the level is found by
    going through the classes from the largest ``slopes_m + curvature bound_m`` downwards.
    """
    n = slopes.size
    ranked = slopes.copy()
    ranked[positive] += curvature * cost
    ranked.sort()
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
def crammer_singer_pass(rows, order, labels, costs, norms, alpha, room, coef, extra_coef):
    """Make one pass on Crammer and Singer's dual; return the largest violation of its conditions.

    The coefficients of class m are those of ``w_m = sum_i alpha[i, m] x_i``. A visit to a row sets
    its dual variables of all classes to the optimum, the other rows being fixed.
    """
    rows, room, coef, extra_coef = borrow((rows, room, coef, extra_coef))
    n_classes = alpha.shape[1]
    slopes, deltas = room.values[:n_classes], room.deltas
    new = np.empty(n_classes)
    worst = 0.0
    for s in range(order.size):
        i = order[s]
        if norms[i] <= 0.0:
            # The row is zero, so its dual variables change no decision.
            continue
        read_row(rows, i, coef, extra_coef, room)
        largest, smallest = -np.inf, np.inf
        for m in range(n_classes):
            slopes[m] += 0.0 if m == labels[i] else 1.0
            largest = max(largest, slopes[m])
            if alpha[i, m] < (costs[i] if m == labels[i] else 0.0):
                smallest = min(smallest, slopes[m])
        worst = max(worst, largest - smallest)
        if largest - smallest <= 1e-12:
            continue
        for m in range(n_classes):
            slopes[m] -= norms[i] * alpha[i, m]
        share_out(slopes, norms[i], labels[i], costs[i], new)
        for m in range(n_classes):
            deltas[m] = new[m] - alpha[i, m]
            alpha[i, m] = new[m]
        add_row(rows, i, coef, extra_coef, room)
    return worst


@jit
def decide_rows(rows, first, last, coef, extra_coef, room, out):
    """Values of all decision functions at some rows."""
    rows, room, coef, extra_coef = borrow((rows, room, coef, extra_coef))
    n_classes = out.shape[1]
    for i in range(first, last):
        read_row(rows, i, coef, extra_coef, room)
        for k in range(n_classes):
            out[i, k] = room.values[k]
