"""Parts of the C code that float32 and fixed point share: scaling, clusters, codes and arrays."""

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.quantiser import Quantiser
from widemargin.export.c_text import Program, write_float
from widemargin.export.description import (
    ClusterSum,
    CurveSum,
    Description,
    KernelSum,
    is_linear,
    known,
)
from widemargin.kernels.base import Kernel

#: Share of the range of a feature that its smallest value may be rounded by.
NEGLIGIBLE_SHARE = 1e-6


def write_scaling(program: Program, described: Description, limit: float) -> None:
    """Add ``@scale``: the scaled features, finite and no larger than ``limit``."""
    _write_saturate(program, limit)
    steps = []
    for number, scaling in enumerate(described.scaling):
        factor = scaling.factor / scaling.divisor
        shift = scaling.after - scaling.before * factor
        # Subtracting first the value that becomes zero keeps the digits of large features.
        zero = (-shift / np.where(factor == 0, 1.0, factor)).astype(np.float32)
        program.array(f"zero{number}", zero)
        program.array(f"factor{number}", factor.astype(np.float32))
        program.array(f"shift{number}", (shift + zero * factor).astype(np.float32))
        steps.append(
            f"        t = (t - @zero{number}[j]) * @factor{number}[j] + @shift{number}[j];"
        )
        for beyond, bound in (("<", scaling.low), (">", scaling.high)):
            if np.isfinite(bound):
                end = write_float(bound)
                steps.append(f"        t = t {beyond} {end} ? {end} : t;")
    steps.append("        t = @saturate(t);")
    functions = described.functions
    if isinstance(functions, ClusterSum):
        functions = functions.clusters[0]
    if isinstance(functions, KernelSum):
        kernel = functions.kernel
        if kernel.needs_nonnegative:
            steps.append("        t = t < 0.0f ? 0.0f : t;")
        if takes_root(kernel):
            _write_root(program)
            steps.append("        t = @root(t);")
    body = "\n".join(steps)
    program.function(
        f"""
/* Scaled features, as the functions below take them. */
static void @scale(const float *x, float *z)
{{
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        float t = x[j];
{body}
        z[j] = t;
    }}
}}
"""
    )


def _write_saturate(program: Program, limit: float) -> None:
    """Add ``@saturate``.

    The function compares the bits as integers, which is fast without a floating point unit. Compilers
    vectorise such loops, and flags such as -ffast-math cannot remove the comparisons.
    """
    bits = int(np.float32(limit).view(np.uint32))
    program.function(
        f"""
/* The feature, zero for NaN, and at most {write_float(limit)} in size. */
static float @saturate(float t)
{{
    union {{ float f; uint32_t u; }} bits;
    bits.f = t;
    const uint32_t sign = bits.u & 0x80000000u;
    uint32_t size = bits.u & 0x7fffffffu;
    size = size > 0x7f800000u ? 0u : size;
    bits.u = sign | (size > {bits:#x}u ? {bits:#x}u : size);
    return bits.f;
}}
"""
    )


def takes_root(kernel: Kernel) -> bool:
    """Return whether a kernel is a product of square roots."""
    return is_linear(kernel) and bool(known(kernel).transform(np.array([4.0]))[0] == 2.0)


def as_seen(kernel: Kernel, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return vectors as ``@kernel`` takes them: their square roots for a product of square roots."""
    return np.sqrt(vectors) if takes_root(kernel) else vectors


def _write_root(program: Program) -> None:
    program.function(
        """
/* Square root: a guess from the exponent, then Newton's method. */
static float @root(float x)
{
    union { float f; uint32_t u; } y;
    if (x < 1e-38f) {
        return 0.0f;
    }
    y.f = x;
    y.u = (y.u >> 1) + 0x1fbd1df5u;
    y.f = 0.5f * (y.f + x / y.f);
    y.f = 0.5f * (y.f + x / y.f);
    return 0.5f * (y.f + x / y.f);
}
"""
    )


def write_vectors(
    program: Program,
    vectors: NDArray[np.generic],
    coef: NDArray[np.generic],
    intercept: NDArray[np.generic],
) -> None:
    """Add the arrays of kernel sums and the number of vectors."""
    program.arrays.append(f"#define @@_N_VECTORS {len(vectors)}\n")
    program.array("vectors", vectors)
    program.array("coef", coef)
    program.array("intercepts", intercept)


def pick_cluster(functions: KernelSum | ClusterSum, query: str) -> str:
    """Return lines that set ``cluster``, and ``first`` and ``last`` of its vectors."""
    if isinstance(functions, ClusterSum):
        return (
            f"    const int cluster = @route({query});\n"
            "    const int first = @starts[cluster];\n"
            "    const int last = @starts[cluster + 1];"
        )
    return "    const int cluster = 0, first = 0, last = @@_N_VECTORS;"


def write_route(
    program: Program, functions: ClusterSum, query: str, vector: str, unit: float = 1.0
) -> None:
    """Add ``@route``: the cluster of a query; kernel values are multiples of ``unit``."""
    write_groups(program, functions, unit)
    forks = functions.forks
    n_groups = [len(fork.targets) for fork in forks]
    program.array("group_starts", np.concatenate([[0], np.cumsum(n_groups)]).astype(np.int32))
    program.array("group_targets", np.concatenate([f.targets for f in forks]).astype(np.int32))
    firsts = np.cumsum([0, *(len(fork.samples) for fork in forks)])
    program.array("fork_starts", firsts.astype(np.int32))
    program.function(
        f"""
/* Cluster of a query: at every fork the group whose mean is nearest. */
static int @route(const {query} *x)
{{
    int fork = 0;
    for (;;) {{
        int best = @group_starts[fork], target, at = @fork_starts[fork];
        float most = -3.4e38f;
        for (int g = @group_starts[fork]; g < @group_starts[fork + 1]; g++) {{
            float sum = 0.0f;
            for (; at < @group_ends[g]; at++) {{
                const {vector} *sample = @samples + @fork_samples[at] * @@_N_FEATURES;
                sum += (float)@kernel(x, sample);
            }}
            const float value = sum * @group_factors[g] - @group_terms[g];
            if (value > most) {{
                most = value;
                best = g;
            }}
        }}
        target = @group_targets[best];
        if (target >= 0) {{
            return target;
        }}
        fork = -1 - target;
    }}
}}
"""
    )


def write_groups(program: Program, functions: ClusterSum, unit: float = 1.0) -> None:
    """Add the groups of samples of all forks, and where the vectors of each cluster begin."""
    sizes = [len(each.vectors) for each in functions.sums]
    program.array("starts", np.cumsum([0, *sizes]).astype(np.int32))
    forks = functions.forks
    firsts = np.cumsum([0, *(len(fork.samples) for fork in forks)])
    ends = [firsts[i] + fork.bounds[1:] for i, fork in enumerate(forks)]
    factors, terms = [], []
    for fork in forks:
        counts = np.diff(fork.bounds)
        factors.append(unit / (counts * (fork.norms if fork.on_sphere else 1.0)))
        terms.append(np.zeros(len(counts)) if fork.on_sphere else 0.5 * fork.squared_norms)
    program.array("group_ends", np.concatenate(ends).astype(np.int32))
    program.array("group_factors", np.concatenate(factors).astype(np.float32))
    program.array("group_terms", np.concatenate(terms).astype(np.float32))
    program.array("fork_samples", np.concatenate([f.samples for f in forks]).astype(np.int32))


def write_codes(program: Program, functions: CurveSum) -> str:
    """Add ``@code``, the position of a value on the curve of a feature.

    Return the last position on the curve of feature j, as an expression in C.
    """
    quantiser, lengths = functions.quantiser, np.diff(functions.offsets)
    low, rest = quantiser.low.astype(np.float32), ""
    program.array("low", low)
    # What float32 rounds off the smallest values may be as wide as a bin, far from zero.
    rounded = (low - quantiser.low) / quantiser.span
    if np.abs(rounded).max() > NEGLIGIBLE_SHARE:
        program.array("rounded", rounded.astype(np.float32))
        rest = " + @rounded[j]"
    program.array("inverse_span", (1.0 / quantiser.span).astype(np.float32))
    last = "@lengths[j] - 1"
    if (lengths == lengths[0]).all():
        last = str(int(lengths[0]) - 1)
    else:
        program.array("lengths", lengths.astype(np.int32))
    if quantiser.spacing == "uniform":
        shift = write_float(0.0 if quantiser.cut else 0.5)
        steps = write_float(quantiser.n_bins - 1)
        find = f"    int code = (int)(position * {steps} + {shift});"
    else:
        bounds = find_bounds(quantiser)
        program.array("bounds", bounds.astype(np.float32))
        find = f"""    int code = 0, above = {len(bounds)};
    while (code < above) {{
        const int middle = (code + above) / 2;
        if (@bounds[middle] <= position) {{
            code = middle + 1;
        }} else {{
            above = middle;
        }}
    }}"""
    program.function(
        f"""
/* Position of a value on the curve of feature j. */
static int @code(float value, int j)
{{
    float position = (value - @low[j]) * @inverse_span[j]{rest};
    const int last = {last};
    position = position > 0.0f ? (position < 1.0f ? position : 1.0f) : 0.0f;
{find}
    return code < last ? code : last;
}}
"""
    )
    return last


def find_bounds(quantiser: Quantiser) -> NDArray[np.float64]:
    """Return the values, relative to the span, at which the next code begins."""
    if quantiser.spacing == "quantile":
        # A value in the middle between two grid points has the code of the lower one.
        return np.nextafter(0.5 * (quantiser.grid[1:] + quantiser.grid[:-1]), np.inf)
    steps = np.arange(1, quantiser.n_bins) - (0.0 if quantiser.cut else 0.5)
    positions = steps / (quantiser.n_bins - 1)
    return positions**2 if quantiser.spacing == "sqrt" else positions


def write_curve_starts(program: Program, offsets: NDArray[np.int64]) -> str:
    """Return where the curve of feature j begins, as an expression in C; may add an array."""
    lengths = np.diff(offsets)
    if (lengths == lengths[0]).all():
        return f"j * {int(lengths[0])}"
    program.array("offsets", offsets[:-1].astype(np.int32))
    return "@offsets[j]"
