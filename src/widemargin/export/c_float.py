"""Decision functions as C in float32."""

import numpy as np

from widemargin.export.c_mixture import write_mixture
from widemargin.export.c_parts import (
    as_seen,
    pick_cluster,
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
from widemargin.export.limits import find_limit
from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.anova import AnovaKernel, AnovaRBF
from widemargin.kernels.summed import Form, SummedKernel

#: Steps of the tables for powers and logarithms; a short series corrects the entry of a table.
TABLE_STEPS = 64

#: Operations on two features, by their code.
OPERATIONS = {
    tiles.DOT: "x[j] * v[j]",
    tiles.MIN: "x[j] < v[j] ? x[j] : v[j]",
    tiles.CHI2: "@chi2(x[j], v[j])",
    tiles.JENSEN_SHANNON: "@jensen_shannon(x[j], v[j])",
    tiles.POWER_MEAN: "@power_mean(x[j], v[j])",
}


def write_float_functions(program: Program, described: Description, *, libm: bool) -> None:
    """Add ``@decide`` and the functions and arrays that it uses."""
    functions = described.functions
    write_scaling(program, described, find_limit(functions))
    if isinstance(functions, CurveSum):
        write_codes(program, functions)
        _write_curves(program, functions)
    elif isinstance(functions, LogSum):
        _write_logs(program, functions)
    elif isinstance(functions, KernelSum) and is_linear(functions.kernel):
        _write_product(program, functions)
    else:
        _write_kernels(program, functions, libm=libm)


def write_exp(program: Program, *, libm: bool) -> None:
    """Add ``@exp``."""
    if libm:
        program.function("static float @exp(float t)\n{\n    return expf(t);\n}")
        return
    # The last entry serves numbers just below an integer, which float32 rounds up to it.
    steps = np.arange(TABLE_STEPS + 1) / TABLE_STEPS
    program.array("powers", np.exp2(steps).astype(np.float32))
    program.function(
        f"""
/* Exponential: a power of two, an entry of a table, and a short series. */
static float @exp(float t)
{{
    union {{ float f; uint32_t u; }} power;
    float y = t * 1.44269504f;
    if (!(y >= -126.0f)) {{
        return 0.0f;
    }}
    if (y > 127.0f) {{
        y = 127.0f;
    }}
    int32_t exponent = (int32_t)y;
    if ((float)exponent > y) {{
        exponent--;
    }}
    y = (y - (float)exponent) * {TABLE_STEPS}.0f;
    const int32_t step = (int32_t)y;
    const float rest = (y - (float)step) * {write_float(np.log(2.0) / TABLE_STEPS)};
    power.u = (uint32_t)(exponent + 127) << 23;
    return power.f * @powers[step]
        * (1.0f + rest * (1.0f + rest * (0.5f + rest * 0.16666667f)));
}}
"""
    )


def _write_log(program: Program) -> None:
    centres = 1.0 + (np.arange(TABLE_STEPS) + 0.5) / TABLE_STEPS
    inverses = (1.0 / centres).astype(np.float32)
    program.array("inverses", inverses)
    program.array("logs", -np.log(inverses.astype(np.float64)).astype(np.float32))
    program.function(
        """
/* Natural logarithm of a positive number: its exponent, a table, and a short series. */
static float @log(float x)
{
    union { float f; uint32_t u; } bits;
    bits.f = x;
    const int32_t exponent = (int32_t)(bits.u >> 23) - 127;
    const uint32_t step = (bits.u >> 17) & 63u;
    bits.u = (bits.u & 0x7fffffu) | 0x3f800000u;
    const float rest = bits.f * @inverses[step] - 1.0f;
    return (float)exponent * 0.693147181f + @logs[step]
        + rest * (1.0f - rest * (0.5f - rest * (0.333333333f - rest * 0.25f)));
}
"""
    )


def _write_kernels(program: Program, functions: KernelSum | ClusterSum, *, libm: bool) -> None:
    first = functions.clusters[0] if isinstance(functions, ClusterSum) else functions
    kernel = first.kernel
    if isinstance(kernel, AnovaKernel):
        _write_anova(program, kernel, libm=libm)
    else:
        _write_kernel(program, known(kernel), libm=libm)
    clusters = functions.sums if isinstance(functions, ClusterSum) else [functions]
    write_vectors(
        program,
        as_seen(kernel, np.vstack([c.vectors for c in clusters])).astype(np.float32),
        np.hstack([c.coef for c in clusters]).astype(np.float32),
        np.vstack([c.intercept for c in clusters]).astype(np.float32),
    )
    if isinstance(functions, ClusterSum):
        program.array("samples", as_seen(kernel, functions.samples).astype(np.float32))
        if not functions.is_plain:
            write_mixture(program, functions)
            return
        write_route(program, functions, "float", "float")
    program.stack += 4 * first.vectors.shape[1]
    program.function(
        f"""
void @decide(const float *x, float *decisions)
{{
    float z[@@_N_FEATURES];
    @scale(x, z);
{pick_cluster(functions, "z")}
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        decisions[p] = @intercepts[cluster * @@_N_FUNCTIONS + p];
    }}
    for (int i = first; i < last; i++) {{
        const float k = @kernel(z, @vectors + i * @@_N_FEATURES);
        for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
            decisions[p] += @coef[p * @@_N_VECTORS + i] * k;
        }}
    }}
}}
"""
    )


def _write_kernel(program: Program, kernel: SummedKernel, *, libm: bool) -> None:
    """Add ``@kernel``: a sum over features, and a function of the sum."""
    form = kernel.form
    needs_exp = form.finish in (tiles.EXP2, tiles.TANH) or form.op == tiles.POWER_MEAN
    if needs_exp:
        write_exp(program, libm=libm)
    if form.op in (tiles.JENSEN_SHANNON, tiles.POWER_MEAN):
        _write_log(program)
    operation = _write_distance(program, form) if form.finish == tiles.EXP2 else OPERATIONS[form.op]
    if form.finish != tiles.EXP2:
        _write_operation(program, form)
    program.function(
        f"""
static float @kernel(const float *x, const float *v)
{{
    float sum = 0.0f;
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        sum += {operation};
    }}
    return {_write_finish(program, kernel)};
}}
"""
    )


def _write_anova(program: Program, kernel: AnovaKernel, *, libm: bool) -> None:
    """Add ``@kernel`` for a sum over features and over pairs of features."""
    operation = "@radial(x[j], v[j])" if isinstance(kernel, AnovaRBF) else OPERATIONS[kernel.op]
    if isinstance(kernel, AnovaRBF):
        write_exp(program, libm=libm)
        gamma = write_float(-kernel.gamma)
        program.function(
            f"""
static float @radial(float a, float b)
{{
    const float t = a - b;
    return @exp({gamma} * t * t);
}}
"""
        )
    else:
        _write_operation(program, Form(op=kernel.op))
    program.function(
        f"""
static float @kernel(const float *x, const float *v)
{{
    float sum = 0.0f;
    float pairs = 0.0f;
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        const float value = {operation};
        pairs += value * sum;
        sum += value;
    }}
    return {write_float(kernel.curve_factor)} * sum + {write_float(kernel.pair_factor)} * pairs;
}}
"""
    )


def _write_operation(program: Program, form: Form) -> None:
    """Add the function of two features that the kernel adds up, unless C has it."""
    if form.op == tiles.CHI2:
        program.function(
            """
static float @chi2(float a, float b)
{
    const float sum = a + b;
    return sum > 0.0f ? 2.0f * a * (b / sum) : 0.0f;
}
"""
        )
    elif form.op == tiles.JENSEN_SHANNON:
        program.function(
            """
static float @jensen_shannon(float a, float b)
{
    const float sum = a + b;
    if (a < 1e-37f || b < 1e-37f) {
        return 0.0f;
    }
    return 0.721347520f * (a * @log(sum / a) + b * @log(sum / b));
}
"""
        )
    elif form.op == tiles.POWER_MEAN:
        power, inverse = write_float(form.power), write_float(1.0 / form.power)
        program.function(
            f"""
static float @power_mean(float a, float b)
{{
    const float low = a < b ? a : b;
    const float high = a < b ? b : a;
    if (low < 1e-37f) {{
        return 0.0f;
    }}
    return low * @exp({inverse} * @log(0.5f + 0.5f * @exp({power} * @log(high / low))));
}}
"""
        )


def _write_distance(program: Program, form: Form) -> str:
    """Add ``@distance`` and return its call; distances do not cancel digits as products would."""
    squared = "t * t" if form.op == tiles.DOT else "a + b > 0.0f ? t * (t / (a + b)) : 0.0f"
    program.function(
        f"""
static float @distance(float a, float b)
{{
    const float t = a - b;
    return {squared};
}}
"""
    )
    return "@distance(x[j], v[j])"


def _write_finish(program: Program, kernel: SummedKernel) -> str:
    """Add what makes a kernel value of ``sum``, and return the expression."""
    form = kernel.form
    if form.finish == tiles.EXP2:
        return f"@exp({write_float(-kernel.params()['gamma'])} * sum)"
    if form.finish not in (tiles.POLY, tiles.TANH):
        return "sum"
    inner = f"({write_float(kernel.params()['gamma'])} * sum + {write_float(form.shift)})"
    if form.finish == tiles.POLY:
        _write_power(program, form.degree)
        return f"@power{inner}"
    _write_tanh(program)
    return f"@tanh{inner}"


def _write_power(program: Program, degree: int) -> None:
    program.function(
        f"""
static float @power(float t)
{{
    float product = 1.0f;
    for (int i = 0; i < {degree}; i++) {{
        product *= t;
    }}
    return product;
}}
"""
    )


def _write_tanh(program: Program) -> None:
    program.function(
        """
static float @tanh(float t)
{
    const float size = t < 0.0f ? -t : t;
    const float e = @exp(-2.0f * size);
    const float value = size < 0.02f ? size - size * size * size / 3.0f : (1.0f - e) / (1.0f + e);
    return t < 0.0f ? -value : value;
}
"""
    )


def _write_product(program: Program, functions: KernelSum) -> None:
    """Add ``@decide`` for a linear kernel: one product with the weighted sum of all vectors."""
    kernel = known(functions.kernel)
    weights = functions.coef @ kernel.transform(functions.vectors)
    program.array("weights", weights.astype(np.float32))
    program.array("intercepts", functions.intercept.astype(np.float32))
    program.stack += 4 * weights.shape[1]
    program.function(
        """
void @decide(const float *x, float *decisions)
{
    float z[@@_N_FEATURES];
    @scale(x, z);
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {
        const float *w = @weights + p * @@_N_FEATURES;
        float sum = @intercepts[p];
        for (int j = 0; j < @@_N_FEATURES; j++) {
            sum += w[j] * z[j];
        }
        decisions[p] = sum;
    }
}
"""
    )


def _write_curves(program: Program, functions: CurveSum) -> None:
    program.array("curves", functions.curves.astype(np.float32))
    program.array("intercepts", functions.intercept.astype(np.float32))
    start = write_curve_starts(program, functions.offsets)
    program.stack += 4 * len(functions.quantiser.low)
    program.function(
        f"""
void @decide(const float *x, float *decisions)
{{
    float z[@@_N_FEATURES];
    @scale(x, z);
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        decisions[p] = @intercepts[p];
    }}
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        const int at = {start} + @code(z[j], j);
        for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
            decisions[p] += @curves[p * {functions.curves.shape[1]} + at];
        }}
    }}
}}
"""
    )


def _write_logs(program: Program, functions: LogSum) -> None:
    _write_log(program)
    n_powers = functions.coef.shape[2]
    program.array("coef", functions.coef.astype(np.float32))
    program.array("intercepts", functions.intercept.astype(np.float32))
    program.stack += 4 * functions.coef.shape[1]
    largest, offset = write_float(functions.unit), write_float(functions.offset)
    inverse = write_float(1.0 / functions.unit)
    skip = ""
    if np.isfinite(functions.zero):
        zero = write_float(functions.zero)
        skip = f"if (z[j] <= {zero}) {{\n            continue;\n        }}"
    program.function(
        f"""
void @decide(const float *x, float *decisions)
{{
    float z[@@_N_FEATURES];
    @scale(x, z);
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        decisions[p] = @intercepts[p];
    }}
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        {skip}
        const float value = z[j] < 0.0f ? 0.0f : z[j] > {largest} ? {largest} : z[j];
        const float log = @log(value * {inverse} + {offset});
        for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
            const float *coef = @coef + (p * @@_N_FEATURES + j) * {n_powers};
            float sum = coef[{n_powers - 1}];
            for (int r = {n_powers - 2}; r >= 0; r--) {{
                sum = sum * log + coef[r];
            }}
            decisions[p] += sum;
        }}
    }}
}}
"""
    )
