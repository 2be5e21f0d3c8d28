"""Decision functions as C with whole numbers of 16 bits, and bounds on what they lose.

Features become ``q = round(scale * x)``, where scale is a power of two such that ``input_range``
still fits; beyond it they saturate. Kernel values are whole multiples of a unit, coefficients of
another, and decisions are sums of their products, in 64 bits, shifted to 32. Errors are bounded for
all features within the range: by the slope of the kernel times the rounding of features, plus the
rounding of coefficients times the largest kernel value, plus that of tables and the last shift.
"""

from dataclasses import dataclass
from math import ceil, exp, floor, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.export.c_parts import (
    as_seen,
    pick_cluster,
    takes_root,
    write_codes,
    write_curve_starts,
    write_route,
    write_scaling,
    write_vectors,
)
from widemargin.export.c_text import Program, write_float
from widemargin.export.description import (
    ClusterSum,
    CurveSum,
    Description,
    KernelSum,
    LogSum,
    known,
)
from widemargin.export.limits import FLOAT32_MAX
from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.summed import LOG2_E, Form, SummedKernel

FloatArray = NDArray[np.float64]

#: Largest number of 16 bits.
LIMIT = 32767
#: Room for features beyond those of the vectors, if no range is given.
HEADROOM = 2.0
#: Steps of the table of powers of two; between them values are interpolated.
POWER_STEPS = 128
#: Exponents are multiples of 2^-16; beyond this one a power of two counts as zero.
LAST_EXPONENT = 17
#: What the table of powers, its interpolation and shifts lose, in units of 2^-15.
POWER_LOSS = 2.0
#: Bits of a polynomial kernel's values.
POLY_BITS = 30
#: A kernel value may be wrong by this share of the largest.
MAX_KERNEL_ERROR = 0.1


@dataclass(frozen=True)
class FixedKernel:
    """A kernel on whole numbers.

    Attributes
    ----------
    unit : float
        What one stands for in a kernel value.
    largest : ndarray of shape (n_vectors,)
        Bound on the kernel with each vector.
    errors : ndarray of shape (n_vectors,)
        Bound on what it loses.
    """

    unit: float
    largest: FloatArray
    errors: FloatArray


@dataclass(frozen=True)
class Grid:
    """Whole numbers for features and vectors.

    Attributes
    ----------
    scale : float
        Whole numbers for a unit of the features.
    vectors : ndarray of shape (n_vectors, n_features)
        Vectors, of one byte if that loses nothing.
    shift : int
        Bits by which the vectors are to be shifted to be on the scale of features.
    rounding : ndarray of shape (n_vectors, n_features)
        What the vectors lost.
    """

    scale: float
    vectors: NDArray[np.generic]
    shift: int
    rounding: FloatArray


@dataclass(frozen=True)
class Precision:
    """What whole numbers stand for.

    Attributes
    ----------
    unit : float
        What one stands for in a decision.
    bound : float
        How far a decision may be from the model's, for features within the range.
    input_range : float or None
        Largest size of a feature, after scaling; None if there is no limit.
    """

    unit: float
    bound: float
    input_range: float | None = None


def write_fixed_functions(
    program: Program, described: Description, input_range: float | None
) -> Precision:
    """Add ``@quantise``, ``@sum``, ``@decide`` and all they need."""
    write_scaling(program, described, FLOAT32_MAX)
    functions = described.functions
    if isinstance(functions, LogSum):
        raise ValueError(
            "dtype: 'int16' needs tables, and this PowerMeanSVC computes logarithms; fit it with "
            "lut=True, or export float32"
        )
    if isinstance(functions, CurveSum):
        return _write_curves(program, functions)
    if isinstance(functions, KernelSum) and known(functions.kernel).form == Form():
        return _write_product(program, functions, input_range)
    return _write_kernels(program, functions, input_range)


def _write_curves(program: Program, functions: CurveSum) -> Precision:
    last = write_codes(program, functions)
    d, lengths = len(functions.quantiser.low), np.diff(functions.offsets)
    if lengths.max() > LIMIT + 1:
        raise ValueError(
            f"dtype: 'int16' codes of {lengths.max():,} bins overflow 16 bits; fit with n_bins up to "
            f"{LIMIT + 1:,}, or export float32"
        )
    if d > 65535:
        raise ValueError(
            f"dtype: 'int16' sums of {d:,} features may overflow 32 bits; up to 65,535 are allowed"
        )
    scale = LIMIT / (float(np.abs(functions.curves).max()) or LIMIT)
    _check_intercepts(functions.intercept * scale, d * LIMIT)
    program.array("curves", np.rint(functions.curves * scale).astype(np.int16))
    program.array("intercepts", np.rint(functions.intercept * scale).astype(np.int32))
    start = write_curve_starts(program, functions.offsets)
    program.stack += 4 * d + 2 * d
    _write_quantise(program, "(int16_t)@code(z[j], j)")
    program.function(
        f"""
static void @sum(const int16_t *q, int32_t *decisions)
{{
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        decisions[p] = @intercepts[p];
    }}
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        const int at = {start} + q[j];
        for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
            decisions[p] += @curves[p * {functions.curves.shape[1]} + at];
        }}
    }}
}}
"""
    )
    _write_decide(program, "0", last)
    return Precision(1.0 / scale, 0.5 * (d + 1) / scale)


def _check_intercepts(scaled: FloatArray, rest: float) -> None:
    largest = float(np.abs(scaled).max()) + rest
    if largest >= 2**31:
        raise ValueError(
            f"dtype: an 'int16' decision could reach {largest:.3g} of its units, and 32 bits hold "
            f"{2**31:.3g}: the intercept is too large beside the rest; export float32"
        )


def _write_product(program: Program, functions: KernelSum, input_range: float | None) -> Precision:
    """A product with all vectors added up."""
    kernel = known(functions.kernel)
    vectors = kernel.transform(functions.vectors)
    weights = functions.coef @ vectors
    span, scale = _find_scale(kernel, vectors, input_range)
    d = weights.shape[1]
    unit = float(np.abs(weights).max()) / LIMIT or 1.0
    whole = np.rint(weights / unit)
    most = np.abs(whole).sum(axis=1).max() * LIMIT
    bits = _count_bits(most + float(np.abs(functions.intercept).max()) * scale / unit)
    intercept = np.rint(functions.intercept * scale / unit)
    program.array("weights", whole.astype(np.int16))
    program.array("intercepts", intercept.astype(np.int64))
    program.stack += 6 * d
    _write_quantise(program, _round_text(scale), floor(span * scale))
    program.function(
        f"""
static void @sum(const int16_t *q, int32_t *decisions)
{{
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        const int16_t *w = @weights + p * @@_N_FEATURES;
        int64_t sum = @intercepts[p];
        for (int j = 0; j < @@_N_FEATURES; j++) {{
            sum += (int32_t)w[j] * q[j];
        }}
        decisions[p] = {_shift_text("sum", bits)};
    }}
}}
"""
    )
    _write_decide(program, *_find_ends(kernel, span, scale))
    lost = np.abs(weights - whole * unit).sum(axis=1) * span
    lost += 0.5 / scale * (np.abs(whole) * unit).sum(axis=1)
    final = unit / scale * 2.0**bits
    return Precision(final, float(lost.max()) + unit / scale + final, _as_given(kernel, span))


def _write_kernels(
    program: Program, functions: KernelSum | ClusterSum, input_range: float | None
) -> Precision:
    clusters = functions.clusters if isinstance(functions, ClusterSum) else [functions]
    kernel = known(clusters[0].kernel)
    own = np.vstack([c.vectors for c in clusters])
    samples = functions.samples if isinstance(functions, ClusterSum) else own[:0]
    vectors = as_seen(kernel, np.vstack([own, samples]))
    span, scale = _find_scale(kernel, vectors, input_range)
    grid = _fit_grid(vectors, scale)
    fixed = _write_kernel(program, kernel, grid, vectors, span)
    share = float(fixed.errors.max(initial=0.0)) / (float(fixed.largest.max(initial=0.0)) or 1.0)
    if share > MAX_KERNEL_ERROR:
        raise ValueError(
            f"dtype: with 'int16' and input_range={span:g} features are multiples of {1 / scale:.3g}, "
            f"and kernel values could be wrong by {share:.2g} of the largest; scale the features, "
            "give a smaller input_range, or export float32"
        )
    coef = np.hstack([c.coef for c in clusters])
    intercept = np.vstack([c.intercept for c in clusters])
    unit = float(np.abs(coef).max(initial=0.0)) / LIMIT or 1.0
    whole = np.rint(coef / unit)
    n_own = len(own)
    tops = np.abs(whole) @ (fixed.largest[:n_own] / fixed.unit + 1.0)
    constants = np.rint(intercept / (unit * fixed.unit))
    bits = _count_bits(float(tops.max(initial=0.0)) + float(np.abs(constants).max()))
    write_vectors(program, grid.vectors[:n_own], whole.astype(np.int16), constants.astype(np.int64))
    if isinstance(functions, ClusterSum):
        program.array("samples", grid.vectors[n_own:])
        kind = "int8_t" if grid.vectors.dtype == np.int8 else "int16_t"
        # Values in the fork are compared with norms of kernel values proper.
        write_route(program, functions, "int16_t", kind, fixed.unit)
    d = vectors.shape[1]
    program.stack += 6 * d + 8 * len(coef)
    _write_quantise(program, _round_text(scale), floor(span * scale))
    program.function(
        f"""
static void @sum(const int16_t *q, int32_t *decisions)
{{
    int64_t sums[@@_N_FUNCTIONS];
{pick_cluster(functions, "q")}
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        sums[p] = @intercepts[cluster * @@_N_FUNCTIONS + p];
    }}
    for (int i = first; i < last; i++) {{
        const int32_t k = @kernel(q, @vectors + i * @@_N_FEATURES);
        for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
            sums[p] += (int64_t)@coef[p * @@_N_VECTORS + i] * k;
        }}
    }}
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        decisions[p] = {_shift_text("sums[p]", bits)};
    }}
}}
"""
    )
    _write_decide(program, *_find_ends(kernel, span, scale))
    lost = np.abs(coef) @ fixed.errors[:n_own]
    lost += np.abs(coef - whole * unit) @ (fixed.largest + fixed.errors)[:n_own]
    final = unit * fixed.unit * 2.0**bits
    bound = float(lost.max(initial=0.0)) + unit * fixed.unit + final
    return Precision(final, bound, _as_given(kernel, span))


def _find_scale(
    kernel: SummedKernel, vectors: FloatArray, input_range: float | None
) -> tuple[float, float]:
    """Largest size of a feature as the kernel sees it, and whole numbers for one: a power of two."""
    largest = float(np.abs(vectors).max(initial=0.0))
    span = HEADROOM * largest
    if input_range is not None:
        span = sqrt(input_range) if takes_root(kernel) else float(input_range)
    span = span or 1.0
    if largest > span:
        raise ValueError(
            f"input_range: {input_range:g} is too small, 16 bits would overflow: the model's own "
            f"vectors reach {_as_given(kernel, largest):g}"
        )
    return span, 2.0 ** floor(log2(LIMIT / span))


def _as_given(kernel: SummedKernel, size: float) -> float:
    """Size of a feature, of which the kernel may see the root."""
    return size**2 if takes_root(kernel) else size


def _fit_grid(vectors: FloatArray, scale: float) -> Grid:
    """Vectors as whole numbers; in one byte where that is exact on a coarser scale."""
    for shift in range(16):
        coarse = vectors * (scale / 2.0**shift)
        if np.abs(coarse).max(initial=0.0) <= 127 and (coarse == np.rint(coarse)).all():
            return Grid(scale, coarse.astype(np.int8), shift, np.zeros_like(vectors))
    whole = np.rint(vectors * scale)
    return Grid(scale, whole.astype(np.int16), 0, np.abs(vectors - whole / scale))


def _write_kernel(
    program: Program, kernel: SummedKernel, grid: Grid, vectors: FloatArray, span: float
) -> FixedKernel:
    form = kernel.form
    if form.finish == tiles.EXP2:
        return _write_exponential(program, kernel, grid)
    if form.op == tiles.DOT and form.finish in (tiles.POLY, tiles.IDENTITY):
        return _write_poly(program, kernel, grid, vectors, span)
    if form.op not in (tiles.MIN, tiles.CHI2) or form.finish != tiles.IDENTITY:
        raise ValueError(
            f"dtype: the {kernel.name!r} kernel has no 'int16' form; export float32, or fit a "
            "classifier with tables, such as AdditiveSVC"
        )
    return _write_means(program, form, grid, vectors)


def _sum_text(kind: str, term: str) -> str:
    return f"""    {kind} sum = 0;
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        const int32_t a = q[j], b = {{vector}};
        {term}
    }}
"""


def _kernel_text(grid: Grid, kind: str, term: str, result: str) -> str:
    vector = f"v[j] * {2**grid.shift}" if grid.shift else "v[j]"
    element = "int8_t" if grid.vectors.dtype == np.int8 else "int16_t"
    body = _sum_text(kind, term).replace("{vector}", vector)
    return f"static int32_t @kernel(const int16_t *q, const {element} *v)\n{{\n{body}{result}\n}}\n"


def _write_exponential(program: Program, kernel: SummedKernel, grid: Grid) -> FixedKernel:
    """Radial and exponential chi-square kernels: values are multiples of 2^-15."""
    gamma = kernel.params()["gamma"]
    d = grid.vectors.shape[1]
    step = 0.5 / grid.scale
    if kernel.form.op == tiles.DOT:
        factor = gamma * LOG2_E / grid.scale**2
        term = "const int32_t t = a - b;\n        sum += (uint32_t)t * (uint32_t)t;"
        # The steepest slope of exp(-gamma r^2) is sqrt(2 gamma / e).
        moved = np.sqrt(np.square(grid.rounding).sum(axis=1)) + step * sqrt(d)
        errors = sqrt(2.0 * gamma) * exp(-0.5) * moved
    else:
        factor = gamma * LOG2_E / grid.scale
        term = (
            "const uint32_t total = (uint32_t)(a + b);\n"
            "        const uint32_t t = (uint32_t)(a > b ? a - b : b - a);\n"
            "        sum += total ? (t * t + total / 2u) / total : 0u;"
        )
        # (a - b)^2 / (a + b) has slopes of at most 3, and each quotient is rounded.
        errors = gamma * (3.0 * (grid.rounding + step) + step).sum(axis=1)
    # Multiples of 2^-16 in the exponent, by a product that fits 64 bits.
    bits = min(41, 30 - floor(log2(max(factor * 2**16, 1e-300))))
    multiplier = round(factor * 2.0 ** (16 + bits))
    last = min(ceil(LAST_EXPONENT / factor), 2**63 - 1) if factor > 0 else 2**63 - 1
    if bits < 0 or multiplier * last >= 2**63:
        raise ValueError(
            f"dtype: gamma={gamma:g} is too large for 'int16' features in steps of "
            f"{1 / grid.scale:.3g}: one step changes the exponent by {factor:.3g}; scale the "
            "features, give a smaller input_range, or export float32"
        )
    table = np.rint(2**15 * np.exp2(-np.arange(POWER_STEPS + 1) / POWER_STEPS))
    program.array("powers", table.astype(np.uint16))
    program.function(
        f"""
/* Two to the power -t / 65536, in units of 1 / 32768. */
static int32_t @exp2(uint32_t t)
{{
    const uint32_t whole = t >> 16, step = (t >> 9) & {POWER_STEPS - 1}u, rest = t & 511u;
    const uint32_t high = @powers[step], low = @powers[step + 1u];
    const uint32_t value = high * 512u - (high - low) * rest;
    return (int32_t)((value + ((uint32_t)256 << whole)) >> (9u + whole));
}}
"""
    )
    result = (
        f"    if (sum >= {last}u) {{\n        return 0;\n    }}\n"
        f"    return @exp2((uint32_t)((sum * {multiplier}u) >> {bits}));"
    )
    result = result.replace(f"{last}u", f"UINT64_C({last})").replace(
        f"{multiplier}u", f"UINT64_C({multiplier})"
    )
    program.function(_kernel_text(grid, "uint64_t", term, result))
    # t 2^-t is at most 0.54, so a relative error of t costs less than half of it.
    errors = errors + POWER_LOSS / 2**15 + 2.0**-16 + 0.5 / max(multiplier, 1)
    return FixedKernel(2.0**-15, np.ones(len(errors)), errors)


def _write_means(program: Program, form: Form, grid: Grid, vectors: FloatArray) -> FixedKernel:
    """Intersection and chi-square: values are multiples of a feature's step."""
    d = grid.vectors.shape[1]
    if d > 32767:
        raise ValueError(
            f"dtype: 'int16' kernel values of {d:,} features may overflow 32 bits; up to 32,767 are "
            "allowed"
        )
    step = 0.5 / grid.scale
    used = vectors > 0
    if form.op == tiles.MIN:
        term = "sum += a < b ? a : b;"
        errors = np.where(used, np.maximum(grid.rounding, step), 0.0).sum(axis=1)
        largest = vectors.sum(axis=1)
    else:
        term = (
            "const int32_t total = a + b;\n"
            "        const uint32_t twice = 2u * (uint32_t)a * (uint32_t)b;\n"
            "        sum += total ? (int32_t)((twice + (uint32_t)total / 2u) / (uint32_t)total) : 0;"
        )
        # 2 a b / (a + b) has slopes of at most 2, and each quotient is rounded.
        errors = np.where(used, 2.0 * (grid.rounding + step) + step, 0.0).sum(axis=1)
        largest = 2.0 * vectors.sum(axis=1)
    program.function(_kernel_text(grid, "int32_t", term, "    return sum;"))
    return FixedKernel(1.0 / grid.scale, largest + errors, errors)


def _write_poly(
    program: Program, kernel: SummedKernel, grid: Grid, vectors: FloatArray, span: float
) -> FixedKernel:
    """Powers of a product, as shares of the largest there can be."""
    form = kernel.form
    gamma = kernel.params().get("gamma", 1.0)
    degree = form.degree if form.finish == tiles.POLY else 1
    sizes = np.abs(vectors).sum(axis=1)
    top = gamma * span * float(sizes.max(initial=0.0)) + abs(form.shift) or 1.0
    factor = gamma / (grid.scale**2 * top) * 2.0 ** (2 * POLY_BITS)
    if factor < 1.0 or degree < 1:
        raise ValueError(
            f"dtype: 'int16' products of the {kernel.name!r} kernel would be multiplied by "
            f"{factor:.3g} * 2^-60, which is too little for its constant {form.shift:g}; scale the "
            "features or export float32"
        )
    program.function(
        _kernel_text(
            grid,
            "int64_t",
            "sum += a * b;",
            f"    const int64_t t = sum * INT64_C({round(factor)}) / INT64_C({2**POLY_BITS})"
            f" + {round(form.shift / top * 2**POLY_BITS)};\n"
            "    int64_t power = t;\n"
            f"    for (int i = 1; i < {degree}; i++) {{\n"
            f"        power = power * t / INT64_C({2**POLY_BITS});\n    }}\n"
            "    return (int32_t)power;",
        )
    )
    step = 0.5 / grid.scale
    moved = gamma * (sizes * step + grid.rounding.sum(axis=1) * (span + step))
    moved = moved + top * (0.5 / factor + 4.0 / 2**POLY_BITS)
    errors = top**degree * ((1.0 + moved / top) ** degree - 1.0 + degree / 2**POLY_BITS)
    return FixedKernel(top**degree / 2.0**POLY_BITS, np.full(len(sizes), top**degree), errors)


def _write_quantise(program: Program, expression: str, limit: int | None = None) -> None:
    """Add ``@quantise``; with a limit whole numbers beyond it are cut off by ``@round``."""
    if limit is not None:
        program.function(
            f"""
/* The nearest whole number; beyond the range the last one. */
static int16_t @round(float t)
{{
    if (t > {limit}.0f) {{
        return {limit};
    }}
    if (t < -{limit}.0f) {{
        return -{limit};
    }}
    return (int16_t)(t < 0.0f ? t - 0.5f : t + 0.5f);
}}
"""
        )
    program.function(
        f"""
void @quantise(const float *x, int16_t *q)
{{
    float z[@@_N_FEATURES];
    @scale(x, z);
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        q[j] = {expression};
    }}
}}
"""
    )


def _find_ends(kernel: SummedKernel, span: float, scale: float) -> tuple[str, str]:
    """The least and the largest whole number that ``@quantise`` gives."""
    end = floor(span * scale)
    return "0" if kernel.needs_nonnegative else f"-{end}", str(end)


def _write_decide(program: Program, low: str, high: str) -> None:
    """Add ``@decide``: ``@sum`` for any whole numbers, also for those that would overflow it."""
    program.function(
        f"""
void @decide(const int16_t *q, int32_t *decisions)
{{
    int16_t within[@@_N_FEATURES];
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        const int low = {low}, high = {high};
        within[j] = (int16_t)(q[j] < low ? low : q[j] > high ? high : q[j]);
    }}
    @sum(within, decisions);
}}
"""
    )


def _round_text(scale: float) -> str:
    return f"@round(z[j] * {write_float(scale)})"


def _count_bits(largest: float) -> int:
    """Bits to drop so that a sum of this size fits 32."""
    if largest >= 2.0**62:
        raise ValueError(
            f"dtype: 'int16' sums could reach {largest:.3g} and overflow 64 bits: the intercept is "
            "too large beside the coefficients; export float32"
        )
    return max(0, ceil(log2(max(largest, 1.0) / (2.0**31 - 2.0))))


def _shift_text(name: str, bits: int) -> str:
    """A sum without its last bits, rounded; by division, for negative ones."""
    if bits == 0:
        return f"(int32_t){name}"
    half = 2 ** (bits - 1)
    return f"(int32_t)(({name} + ({name} < 0 ? -{half} : {half})) / {2**bits})"
