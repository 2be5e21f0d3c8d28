"""Decision functions as C in 16-bit integers, with bounds on their errors.

Features become ``q = round(scale * x)``, where scale is a power of two such that ``input_range``
still fits; features beyond it saturate. Kernel values are integer multiples of one unit and
coefficients of another. Decisions are sums of their products in 64 bits, shifted to 32. The error
bound holds for all features within the range. It is the slope of the kernel times the rounding of
features, plus the rounding of coefficients times the largest kernel value, plus the rounding of tables
and of the last shift.
"""

from dataclasses import dataclass
from math import ceil, floor, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.export.c_fixed_kernels import (
    FixedKernel,
    fit_grid,
    refuse_fixed,
    write_fixed_kernel,
)
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
    is_linear,
    known,
)
from widemargin.export.limits import FLOAT32_MAX
from widemargin.kernels.anova import AnovaKernel
from widemargin.kernels.summed import SummedKernel

FloatArray = NDArray[np.float64]

#: Largest number of 16 bits.
LIMIT = 32767
#: Room for features beyond those of the vectors, if no range is given.
HEADROOM = 2.0
#: Largest factor from a feature to an integer; float32 ends at 2^128.
MAX_SCALE = 2.0**120
#: Largest relative error of an operation in float32.
FLOAT32_ROUNDING = 2.0**-24
#: A kernel value may be wrong by this share of the largest.
MAX_KERNEL_ERROR = 0.1


@dataclass(frozen=True)
class Precision:
    """The values that integers stand for.

    Attributes
    ----------
    unit : float
        The value of the integer one in a decision.
    bound : float
        How far a decision may be from the model's, for features within the range.
    input_range : float or None
        Largest size of a feature, after scaling; None if there is no limit.
    route_bound : float or None
        How far the value of a group may be from that of the model's partition, for features within
        the range; None without clusters.
    """

    unit: float
    bound: float
    input_range: float | None = None
    route_bound: float | None = None


def write_fixed_functions(
    program: Program, described: Description, input_range: float | None
) -> Precision:
    """Add ``@quantise``, ``@sum``, ``@decide`` and the functions and arrays that they use."""
    write_scaling(program, described, FLOAT32_MAX)
    functions = described.functions
    if isinstance(functions, LogSum):
        raise ValueError(
            "dtype: 'int16' needs tables, and this PowerMeanSVC computes logarithms; fit it with "
            "lut=True, or export float32"
        )
    if isinstance(functions, CurveSum):
        return _write_curves(program, functions)
    if isinstance(functions, KernelSum) and is_linear(functions.kernel):
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
            f"dtype: 'int16' sums of {d:,} features may overflow 32 bits; up to 65,535 are allowed. "
            "Select features before the fit, or export float32"
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
    """Add the functions of a linear kernel: one product with the weighted sum of all vectors."""
    kernel = known(functions.kernel)
    vectors = kernel.transform(functions.vectors)
    weights = functions.coef @ vectors
    span, scale = _find_scale(kernel, vectors, input_range)
    d = weights.shape[1]
    unit = float(np.abs(weights).max()) / LIMIT or 1.0
    rounded = np.rint(weights / unit)
    most = np.abs(rounded).sum(axis=1).max() * LIMIT
    bits = _count_bits(most + float(np.abs(functions.intercept).max()) * scale / unit)
    intercept = np.rint(functions.intercept * scale / unit)
    program.array("weights", rounded.astype(np.int16))
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
    lost = np.abs(weights - rounded * unit).sum(axis=1) * span
    lost += 0.5 / scale * (np.abs(rounded) * unit).sum(axis=1)
    final = unit / scale * 2.0**bits
    return Precision(final, float(lost.max()) + unit / scale + final, _as_given(kernel, span))


def _write_kernels(
    program: Program, functions: KernelSum | ClusterSum, input_range: float | None
) -> Precision:
    if isinstance(functions, ClusterSum) and not functions.is_plain:
        raise ValueError(
            "dtype: 'int16' has no background and no weights of several clusters; export float32, or "
            "fit DCSVC with background=0 and n_nearest=1"
        )
    clusters = functions.clusters if isinstance(functions, ClusterSum) else [functions]
    if isinstance(clusters[0].kernel, AnovaKernel):
        refuse_fixed(clusters[0].kernel)
    kernel = known(clusters[0].kernel)
    own = np.vstack([c.vectors for c in clusters])
    samples = functions.samples if isinstance(functions, ClusterSum) else own[:0]
    vectors = as_seen(kernel, np.vstack([own, samples]))
    span, scale = _find_scale(kernel, vectors, input_range)
    grid = fit_grid(vectors, scale)
    fixed = write_fixed_kernel(program, kernel, grid, vectors, span)
    _refuse_coarse_kernel(fixed, span, scale)
    coef = np.hstack([c.coef for c in clusters])
    intercept = np.vstack([c.intercept for c in clusters])
    unit = float(np.abs(coef).max(initial=0.0)) / LIMIT or 1.0
    rounded = np.rint(coef / unit)
    n_own, route_bound = len(own), None
    tops = np.abs(rounded) @ (fixed.largest[:n_own] / fixed.unit + 1.0)
    constants = np.rint(intercept / (unit * fixed.unit))
    bits = _count_bits(float(tops.max(initial=0.0)) + float(np.abs(constants).max()))
    write_vectors(
        program, grid.vectors[:n_own], rounded.astype(np.int16), constants.astype(np.int64)
    )
    if isinstance(functions, ClusterSum):
        program.array("samples", grid.vectors[n_own:])
        kind = "int8_t" if grid.vectors.dtype == np.int8 else "int16_t"
        # The squared norms that a fork compares with are in units of the kernel itself.
        write_route(program, functions, "int16_t", kind, fixed.unit)
        route_bound = _bound_routes(functions, fixed, n_own)
    program.stack += 6 * vectors.shape[1] + 8 * len(coef)
    _write_quantise(program, _round_text(scale), floor(span * scale))
    _write_kernel_sums(program, functions, bits)
    _write_decide(program, *_find_ends(kernel, span, scale))
    lost = np.abs(coef) @ fixed.errors[:n_own]
    lost += np.abs(coef - rounded * unit) @ (fixed.largest + fixed.errors)[:n_own]
    final = unit * fixed.unit * 2.0**bits
    bound = float(lost.max(initial=0.0)) + unit * fixed.unit + final
    return Precision(final, bound, _as_given(kernel, span), route_bound)


def _refuse_coarse_kernel(fixed: FixedKernel, span: float, scale: float) -> None:
    share = float(fixed.errors.max(initial=0.0)) / (float(fixed.largest.max(initial=0.0)) or 1.0)
    if share > MAX_KERNEL_ERROR:
        raise ValueError(
            f"dtype: with 'int16' and input_range={span:g} features are multiples of {1 / scale:.3g}, "
            f"and kernel values could be wrong by {share:.2g} of the largest; scale the features, "
            "give a smaller input_range, or export float32"
        )


def _write_kernel_sums(program: Program, functions: KernelSum | ClusterSum, bits: int) -> None:
    """Add ``@sum``: products of coefficients and kernel values in 64 bits, without the last bits."""
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


def _bound_routes(functions: ClusterSum, fixed: FixedKernel, n_own: int) -> float:
    """Return a bound on the error of the values that ``@route`` compares."""
    bounds = []
    for fork in functions.forks:
        counts = np.diff(fork.bounds)
        norms = fork.norms if fork.on_sphere else 1.0
        terms = 0.0 if fork.on_sphere else 0.5 * np.abs(fork.squared_norms)
        at = n_own + fork.samples
        lost = np.add.reduceat(fixed.errors[at], fork.bounds[:-1]) / counts / norms
        largest = np.add.reduceat((fixed.largest + fixed.errors)[at], fork.bounds[:-1]) / counts
        # The sum, the factor and the difference are float32.
        rounding = (counts + 4) * FLOAT32_ROUNDING * (largest / norms + terms)
        bounds.append(float((lost + rounding).max()))
    return max(bounds)


def _find_scale(
    kernel: SummedKernel, vectors: FloatArray, input_range: float | None
) -> tuple[float, float]:
    """Return the largest size of a feature as the kernel takes it, and the scale."""
    largest = float(np.abs(vectors).max(initial=0.0))
    span = HEADROOM * largest
    if input_range is not None:
        span = sqrt(input_range) if takes_root(kernel) else float(input_range)
    span = span or 1.0
    if largest > span:
        raise ValueError(
            f"input_range: {input_range:g} is too small, 16 bits would overflow: the model's own "
            f"vectors reach {_as_given(kernel, largest):g}; give at least that, or leave it out"
        )
    if span * MAX_SCALE < LIMIT:
        raise ValueError(
            f"dtype: features of at most {_as_given(kernel, span):g} are too small for 'int16': "
            "float32 cannot hold the factor that makes them integers; scale the features"
        )
    return span, 2.0 ** floor(log2(LIMIT / span))


def _as_given(kernel: SummedKernel, size: float) -> float:
    """Return a feature before the square root that some kernels take."""
    return size**2 if takes_root(kernel) else size


def _write_quantise(program: Program, expression: str, limit: int | None = None) -> None:
    """Add ``@quantise``, and with a limit ``@round``, which saturates at it."""
    if limit is not None:
        program.function(
            f"""
/* The nearest integer within the range. */
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
    """Return the least and the largest integer that ``@quantise`` returns."""
    end = floor(span * scale)
    return "0" if kernel.needs_nonnegative else f"-{end}", str(end)


def _write_decide(program: Program, low: str, high: str) -> None:
    """Add ``@decide``: ``@sum`` of any integers, with those that would overflow it saturated."""
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
    """Return the number of bits to drop so that a sum of this size fits 32."""
    if largest >= 2.0**62:
        raise ValueError(
            f"dtype: 'int16' sums could reach {largest:.3g} and overflow 64 bits: the intercept is "
            "too large beside the coefficients; export float32"
        )
    return max(0, ceil(log2(max(largest, 1.0) / (2.0**31 - 2.0))))


def _shift_text(name: str, bits: int) -> str:
    """Return an expression that drops the last bits and rounds; division treats signs alike."""
    if bits == 0:
        return f"(int32_t){name}"
    half = 2 ** (bits - 1)
    return f"(int32_t)(({name} + ({name} < 0 ? -{half} : {half})) / {2**bits})"
