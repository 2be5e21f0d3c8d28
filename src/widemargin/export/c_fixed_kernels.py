"""Kernels of 16-bit integers as C, with bounds on their errors."""

from dataclasses import dataclass
from math import ceil, exp, floor, log2, sqrt
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from widemargin.export.c_text import Program
from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.base import Kernel
from widemargin.kernels.summed import LOG2_E, Form, SummedKernel

FloatArray = NDArray[np.float64]

#: Steps of the table of powers of two; between them values are interpolated.
POWER_STEPS = 128
#: Exponents are multiples of 2^-16; beyond this one a power of two counts as zero.
LAST_EXPONENT = 17
#: What a step of a feature may change the exponent by, in numbers that can be computed with.
LARGEST_FACTOR = 1e200
#: Error of the table of powers, its interpolation and shifts, in units of 2^-15.
POWER_LOSS = 2.0
#: Bits of a polynomial kernel's values.
POLY_BITS = 30
#: Largest exponent, to base 2, of the largest value of a polynomial kernel; float64 ends at 1023.
MAX_POLY_EXPONENT = 500


@dataclass(frozen=True)
class FixedKernel:
    """A kernel on integers.

    Attributes
    ----------
    unit : float
        The value of the integer one in a kernel value.
    largest : ndarray of shape (n_vectors,)
        Bound on the kernel with each vector.
    errors : ndarray of shape (n_vectors,)
        Bound on the error of the kernel with each vector.
    """

    unit: float
    largest: FloatArray
    errors: FloatArray


@dataclass(frozen=True)
class Grid:
    """Integers for features and vectors.

    Attributes
    ----------
    scale : float
        Integers for a unit of the features.
    vectors : ndarray of shape (n_vectors, n_features)
        Vectors as integers, of one byte if that is exact.
    shift : int
        Bits by which vectors are shifted to the scale of features.
    rounding : ndarray of shape (n_vectors, n_features)
        Rounding errors of the vectors.
    """

    scale: float
    vectors: NDArray[np.generic]
    shift: int
    rounding: FloatArray


def fit_grid(vectors: FloatArray, scale: float) -> Grid:
    """Return vectors as integers, of one byte where that is exact on a coarser scale."""
    for shift in range(16):
        coarse = vectors * (scale / 2.0**shift)
        if np.abs(coarse).max(initial=0.0) <= 127 and (coarse == np.rint(coarse)).all():
            return Grid(scale, coarse.astype(np.int8), shift, np.zeros_like(vectors))
    rounded = np.rint(vectors * scale)
    return Grid(scale, rounded.astype(np.int16), 0, np.abs(vectors - rounded / scale))


def write_fixed_kernel(
    program: Program, kernel: SummedKernel, grid: Grid, vectors: FloatArray, span: float
) -> FixedKernel:
    """Add ``@kernel`` for features up to ``span``; ``vectors`` are those of the model."""
    form = kernel.form
    if form.finish == tiles.EXP2:
        return _write_exponential(program, kernel, grid)
    if form.op == tiles.DOT and form.finish in (tiles.POLY, tiles.IDENTITY):
        return _write_poly(program, kernel, grid, vectors, span)
    if form.op not in (tiles.MIN, tiles.CHI2) or form.finish != tiles.IDENTITY:
        refuse_fixed(kernel)
    return _write_means(program, form, grid, vectors)


def refuse_fixed(kernel: Kernel) -> NoReturn:
    """Refuse a kernel that cannot be computed in fixed point."""
    raise ValueError(
        f"dtype: the {kernel.name!r} kernel has no 'int16' form; export float32, or fit a "
        "classifier with tables, such as AdditiveSVC"
    )


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
    """Add an rbf or exponential chi-square kernel; its values are multiples of 2^-15."""
    gamma = kernel.params()["gamma"]
    d = grid.vectors.shape[1]
    step = 0.5 / grid.scale
    if kernel.form.op == tiles.DOT:
        # The square of the scale of huge features would vanish.
        factor = min(gamma * LOG2_E / grid.scale / grid.scale, LARGEST_FACTOR)
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
    """Add an intersection or chi-square kernel; its values are multiples of a feature's step."""
    d = grid.vectors.shape[1]
    if d > 32767:
        raise ValueError(
            f"dtype: 'int16' kernel values of {d:,} features may overflow 32 bits; up to 32,767 are "
            "allowed. Select features before the fit, or export float32"
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
    """Add a polynomial or linear kernel; its values are shares of the largest possible value."""
    form = kernel.form
    gamma = kernel.params().get("gamma", 1.0)
    degree = form.degree if form.finish == tiles.POLY else 1
    sizes = np.abs(vectors).sum(axis=1)
    top = gamma * span * float(sizes.max(initial=0.0)) + abs(form.shift) or 1.0
    if abs(degree * log2(top)) > MAX_POLY_EXPONENT:
        raise ValueError(
            f"dtype: 'int16' values of the {kernel.name!r} kernel would be shares of {top:.3g} to the "
            f"power {degree}, which float64 cannot hold; scale the features or export float32"
        )
    factor = gamma / (grid.scale**2 * top) * 2.0 ** (2 * POLY_BITS)
    if not 1.0 <= factor < 2.0**62 or degree < 1:
        raise ValueError(
            f"dtype: 'int16' products of the {kernel.name!r} kernel would be multiplied by "
            f"{factor:.3g} * 2^-60, but the factor must be between 1 and 2^62 and the degree at least "
            f"1: the product is too small or too large beside the constant {form.shift:g}; scale the "
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
