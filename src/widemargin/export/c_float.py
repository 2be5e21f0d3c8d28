"""Decision functions as C with numbers of type float."""

import numpy as np
from numpy.typing import NDArray

from widemargin.export.c_text import Program, write_float
from widemargin.export.description import ClusterSum, CurveSum, Description, KernelSum, LogSum
from widemargin.kernels import Kernel
from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.summed import Form, SummedKernel
from widemargin.tables.quantiser import Quantiser

#: Steps of the tables for powers and logarithms; the rest is a short series.
TABLE_STEPS = 64
#: Least squared norm of the mean of a group, as in kernel k-means.
MIN_SQUARED_NORM = 1e-30

#: Operations on two features, by their code.
OPERATIONS = {
    tiles.DOT: "x[j] * v[j]",
    tiles.MIN: "x[j] < v[j] ? x[j] : v[j]",
    tiles.CHI2: "@chi2(x[j], v[j])",
    tiles.JENSEN_SHANNON: "@jensen_shannon(x[j], v[j])",
    tiles.POWER_MEAN: "@power_mean(x[j], v[j])",
}


def write_float_functions(program: Program, described: Description, *, libm: bool) -> None:
    """Add ``@decide`` and all it needs."""
    write_scaling(program, described)
    functions = described.functions
    if isinstance(functions, CurveSum):
        write_codes(program, functions)
        _write_curves(program, functions)
    elif isinstance(functions, LogSum):
        _write_logs(program, functions)
    elif isinstance(functions, KernelSum) and known(functions.kernel).form == Form():
        _write_product(program, functions)
    else:
        _write_kernels(program, functions, libm=libm)


def known(kernel: Kernel) -> SummedKernel:
    """The kernel, which `describe` takes only if it has a name; those are all sums."""
    assert isinstance(kernel, SummedKernel)
    return kernel


def write_scaling(program: Program, described: Description) -> None:
    """Add ``@scale``: features as the model sees them."""
    steps = []
    for number, scaling in enumerate(described.scaling):
        factor = scaling.factor / scaling.divisor
        shift = scaling.after - scaling.before * factor
        # The value that becomes zero is subtracted first: where it is large, little is lost then.
        zero = (-shift / np.where(factor == 0, 1.0, factor)).astype(np.float32)
        program.array(f"zero{number}", zero)
        program.array(f"factor{number}", factor.astype(np.float32))
        program.array(f"shift{number}", (shift + zero * factor).astype(np.float32))
        steps.append(
            f"        t = (t - @zero{number}[j]) * @factor{number}[j] + @shift{number}[j];"
        )
        if np.isfinite([scaling.low, scaling.high]).all():
            low, high = write_float(scaling.low), write_float(scaling.high)
            steps.append(f"        t = t < {low} ? {low} : (t > {high} ? {high} : t);")
    functions = described.functions
    if isinstance(functions, ClusterSum):
        functions = functions.clusters[0]
    if isinstance(functions, KernelSum):
        kernel = known(functions.kernel)
        if kernel.needs_nonnegative:
            steps.append("        t = t < 0.0f ? 0.0f : t;")
        if takes_root(kernel):
            _write_root(program)
            steps.append("        t = @root(t);")
    body = "\n".join(steps)
    program.function(
        f"""
/* Features as the model sees them. */
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


def takes_root(kernel: SummedKernel) -> bool:
    """Whether a kernel is a product of square roots."""
    return kernel.form == Form() and bool(kernel.transform(np.array([4.0]))[0] == 2.0)


def as_seen(kernel: SummedKernel, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors as ``@kernel`` meets them."""
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


def write_exp(program: Program, *, libm: bool) -> None:
    """Add ``@exp``."""
    if libm:
        program.function("static float @exp(float t)\n{\n    return expf(t);\n}")
        return
    steps = np.arange(TABLE_STEPS) / TABLE_STEPS
    program.array("powers", np.exp2(steps).astype(np.float32))
    program.function(
        f"""
/* Exponential: a power of two, an entry of a table, and a short series. */
static float @exp(float t)
{{
    union {{ float f; uint32_t u; }} power;
    float y = t * 1.44269504f;
    if (y < -126.0f) {{
        return 0.0f;
    }}
    if (y > 127.0f) {{
        y = 127.0f;
    }}
    int32_t whole = (int32_t)y;
    if ((float)whole > y) {{
        whole--;
    }}
    y = (y - (float)whole) * {TABLE_STEPS}.0f;
    const int32_t step = (int32_t)y;
    const float rest = (y - (float)step) * {write_float(np.log(2.0) / TABLE_STEPS)};
    power.u = (uint32_t)(whole + 127) << 23;
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
    kernel = known(first.kernel)
    _write_kernel(program, kernel, libm=libm)
    clusters = functions.clusters if isinstance(functions, ClusterSum) else [functions]
    write_vectors(
        program,
        as_seen(kernel, np.vstack([c.vectors for c in clusters])).astype(np.float32),
        np.hstack([c.coef for c in clusters]).astype(np.float32),
        np.vstack([c.intercept for c in clusters]).astype(np.float32),
    )
    if isinstance(functions, ClusterSum):
        program.array("samples", as_seen(kernel, functions.samples).astype(np.float32))
        write_route(program, functions, "float", "float")
    program.stack += 4 * len(first.vectors[0])
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
    """Lines that set ``cluster`` and its vectors ``first`` to ``last``."""
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
    """Add ``@route``: the cluster of a query, through forks; kernel values are in ``unit``."""
    sizes = [len(c.vectors) for c in functions.clusters]
    program.array("starts", np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    forks = functions.forks
    n_groups = [len(fork.targets) for fork in forks]
    first_groups = np.concatenate([[0], np.cumsum(n_groups)])
    firsts = np.concatenate([[0], np.cumsum([len(fork.samples) for fork in forks])])
    ends = [firsts[i] + fork.bounds[1:] for i, fork in enumerate(forks)]
    factors, terms = [], []
    for fork in forks:
        counts = np.diff(fork.bounds)
        norms = np.maximum(fork.squared_norms, MIN_SQUARED_NORM)
        factors.append(unit / (counts * (np.sqrt(norms) if fork.on_sphere else 1.0)))
        terms.append(np.zeros(len(counts)) if fork.on_sphere else 0.5 * fork.squared_norms)
    program.array("group_starts", first_groups.astype(np.int32))
    program.array("group_ends", np.concatenate(ends).astype(np.int32))
    program.array("group_factors", np.concatenate(factors).astype(np.float32))
    program.array("group_terms", np.concatenate(terms).astype(np.float32))
    program.array("group_targets", np.concatenate([f.targets for f in forks]).astype(np.int32))
    program.array("fork_starts", firsts.astype(np.int32))
    program.array("fork_samples", np.concatenate([f.samples for f in forks]).astype(np.int32))
    program.function(
        f"""
/* Cluster of a query: at every fork the group whose mean is nearest. */
static int @route(const {query} *x)
{{
    int fork = 0;
    for (;;) {{
        int best = 0, target, at = @fork_starts[fork];
        float most = -1e30f;
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


def _write_kernel(program: Program, kernel: SummedKernel, *, libm: bool) -> None:
    form = kernel.form
    needs_exp = form.finish in (tiles.EXP2, tiles.TANH) or form.op == tiles.POWER_MEAN
    if needs_exp:
        write_exp(program, libm=libm)
    if form.op in (tiles.JENSEN_SHANNON, tiles.POWER_MEAN):
        _write_log(program)
    if form.op == tiles.CHI2 and form.finish != tiles.EXP2:
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
    operation, result = OPERATIONS[form.op], "sum"
    if form.finish == tiles.EXP2:
        # Distances, not products: nothing cancels.
        gamma = write_float(-kernel.params()["gamma"])
        operation = "@distance(x[j], v[j])"
        result = f"@exp({gamma} * sum)"
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
    elif form.finish in (tiles.POLY, tiles.TANH):
        gamma = write_float(kernel.params()["gamma"])
        inner = f"({gamma} * sum + {write_float(form.shift)})"
        result = f"@power{inner}" if form.finish == tiles.POLY else f"@tanh{inner}"
        if form.finish == tiles.POLY:
            _write_power(program, form.degree)
        else:
            _write_tanh(program)
    program.function(
        f"""
static float @kernel(const float *x, const float *v)
{{
    float sum = 0.0f;
    for (int j = 0; j < @@_N_FEATURES; j++) {{
        sum += {operation};
    }}
    return {result};
}}
"""
    )


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
    """A product with all vectors added up."""
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


def write_codes(program: Program, functions: CurveSum) -> None:
    """Add ``@code``: the place of a value on the curve of a feature."""
    quantiser, lengths = functions.quantiser, np.diff(functions.offsets)
    program.array("low", quantiser.low.astype(np.float32))
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
/* Place of a value on the curve of feature j. */
static int @code(float value, int j)
{{
    float position = (value - @low[j]) * @inverse_span[j];
    const int last = {last};
    position = position < 0.0f ? 0.0f : (position > 1.0f ? 1.0f : position);
{find}
    return code < last ? code : last;
}}
"""
    )


def find_bounds(quantiser: Quantiser) -> NDArray[np.float64]:
    """Positions at which the next code begins."""
    if quantiser.spacing == "quantile":
        # A position on the middle itself belongs below.
        return np.nextafter(0.5 * (quantiser.grid[1:] + quantiser.grid[:-1]), np.inf)
    steps = np.arange(1, quantiser.n_bins) - (0.0 if quantiser.cut else 0.5)
    positions = steps / (quantiser.n_bins - 1)
    return positions**2 if quantiser.spacing == "sqrt" else positions


def write_curve_starts(program: Program, offsets: NDArray[np.int64]) -> str:
    """Where the curve of feature j begins, as an expression; adds an array if it must."""
    lengths = np.diff(offsets)
    if (lengths == lengths[0]).all():
        return f"j * {int(lengths[0])}"
    program.array("offsets", offsets[:-1].astype(np.int32))
    return "@offsets[j]"


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
    unit, offset = write_float(1.0 / functions.unit), write_float(functions.offset)
    skip = "if (z[j] == 0.0f) {\n            continue;\n        }" if functions.skips_zero else ""
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
        const float value = z[j] < 0.0f ? 0.0f : z[j];
        const float log = @log(value * {unit} + {offset});
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
