"""Fitted classifiers as C for devices: one file and its header, no memory to allocate."""

import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from widemargin import __version__
from widemargin.export.c_fixed import write_fixed_functions
from widemargin.export.c_float import write_float_functions
from widemargin.export.c_text import Program, make_prefix, write_float, write_numbers
from widemargin.export.description import CurveSum, Description, LogSum, describe
from widemargin.export.limits import find_limit
from widemargin.files.atomic_output import replace_file
from widemargin.problem import class_pairs
from widemargin.validation import check_choice, check_flag, check_number

DTYPES = ("float32", "int16")
#: Error of a decision from which on there is a warning.
MAX_BOUND = 0.5


@dataclass(frozen=True)
class CFiles:
    """The files that `to_c` wrote.

    Attributes
    ----------
    source, header : Path
        The files.
    flash_bytes : int
        Constants of the model. Code comes on top: about a kilobyte with ``-Os`` on a Cortex-M.
    ram_bytes : int
        Local arrays while a row is classified; there are no others.
    unit : float
        The value of the number one in a decision: 1.0 for float32.
    error_bound : float or None
        For int16: how far a decision may be from that of the model, for features within
        ``input_range``. Of a `DCSVC`: within the same cluster. Of tables: unless float arithmetic
        puts a value on the border of two bins into the other one.
    input_range : float or None
        For int16: largest size of a feature, after scaling; beyond it features saturate. None if
        there is no limit.
    """

    source: Path
    header: Path
    flash_bytes: int
    ram_bytes: int
    unit: float
    error_bound: float | None = None
    input_range: float | None = None

    def __str__(self) -> str:
        bound = "" if self.error_bound is None else f", decisions within {self.error_bound:.2g}"
        if self.input_range is not None:
            bound += f" for features (as scaled) up to {self.input_range:.4g}, where they saturate"
        return (
            f"{self.source} and {self.header.name}: {self.flash_bytes:,} bytes of flash for the model "
            f"(and some for code), {self.ram_bytes:,} bytes of RAM{bound}"
        )


def to_c(
    model: Any,
    path: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    libm: bool = True,
    input_range: float | None = None,
    verbose: bool = True,
) -> CFiles:
    """Write a fitted classifier as C99: one self-contained file and its header.

    Parameters
    ----------
    model : classifier or Pipeline
        A fitted classifier of widemargin, or a pipeline of `StandardScaler`, `MinMaxScaler` or
        `MaxAbsScaler` and one.
    path : path-like
        File to write, such as ``"model.c"``; the header is beside it. Names in C begin with its stem.
    dtype : {"float32", "int16"}, default="float32"
        Type of the model's numbers. With ``"int16"`` everything after the features is computed with
        whole numbers, and decisions are whole multiples of a unit.
    libm : bool, default=True
        Whether to call ``expf`` where a kernel in float32 needs it; otherwise a table stands in.
    input_range : float, optional
        For ``"int16"`` and kernels: largest size of a feature, after scaling. Beyond it features
        saturate. Twice that of the model's vectors if not given.
    verbose : bool, default=True
        Whether to print what the model takes.

    Returns
    -------
    files : CFiles
        The files, and bytes of flash and RAM.

    Notes
    -----
    ``int NAME_predict(const float *x)`` gives the number of the class, whose label is
    ``NAME_labels[...]``; ``NAME_decide`` gives the decisions. Nothing is allocated and nothing global
    is written, so that any number of threads may call it.

    Every row has an answer. After scaling, a feature that is NaN counts as zero, and a negative one
    counts as zero where the kernel takes none. A feature beyond the limit in the header, such as an
    infinity, counts as that limit.
    """
    check_choice("dtype", dtype, DTYPES)
    check_flag("libm", libm)
    check_number("input_range", input_range, above=0, optional=True)
    described = describe(model)
    target = Path(path)
    target = target if target.suffix == ".c" else target.with_name(f"{target.name}.c")
    if set(target.name) & set('"\n\r'):
        raise ValueError(f"path: {target.name!r} cannot stand in an #include; use another name")
    program = Program(make_prefix(target.stem))
    precision = None
    if dtype == "int16":
        precision = write_fixed_functions(program, described, input_range)
        if precision.bound > MAX_BOUND:
            warnings.warn(
                f"decisions in int16 may be off by {precision.bound:.2g}, where the margin of a class "
                "is 1; compare them on data, lower C, give a smaller input_range, or export float32",
                UserWarning,
                stacklevel=2,
            )
    else:
        write_float_functions(program, described, libm=libm)
    _write_classify(program, described, dtype)
    labels = _write_labels(described)
    program.flash += labels.n_bytes
    program.stack += 4 * described.n_functions
    files = CFiles(target, target.with_suffix(".h"), program.flash, program.stack, 1.0)
    if precision is not None:
        files = replace(
            files, unit=precision.unit, error_bound=precision.bound,
            input_range=precision.input_range,
        )  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    header = program.expand(_header(described, dtype, labels, files))
    source = program.expand(_source(program, described, labels))
    # Neither file is replaced before both are complete.
    with replace_file(files.header) as header_stream, replace_file(target) as source_stream:
        header_stream.write(header.encode())
        source_stream.write(f'#include "{files.header.name}"\n{source}'.encode())
    if verbose:
        print(files)
    return files


@dataclass(frozen=True)
class _Labels:
    declaration: str
    values: str
    n_bytes: int


def _write_labels(described: Description) -> _Labels:
    """Whole numbers of 32 bits as such, all else as text."""
    classes = described.classes
    whole = classes.astype(np.int32) if classes.dtype.kind in "biuf" else None
    if whole is not None and (whole == classes).all():
        return _Labels("const int32_t @labels[@@_N_CLASSES]", write_numbers(whole), whole.nbytes)
    texts = [_quote(str(label)) for label in classes]
    n_bytes = sum(len(str(label).encode()) + 1 + 4 for label in classes)
    return _Labels(
        "const char *const @labels[@@_N_CLASSES]", "    " + ",\n    ".join(texts), n_bytes
    )


def _quote(text: str) -> str:
    """A string constant of C; bytes beyond ASCII as octal escapes, which end by themselves."""
    parts = []
    for byte in text.encode("utf-8"):
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?@'
        parts.append(chr(byte) if plain else f"\\{byte:03o}")
    return '"' + "".join(parts) + '"'


def _write_classify(program: Program, described: Description, dtype: str) -> None:
    """Add ``@classify`` and ``@predict``."""
    number = "float" if dtype == "float32" else "int32_t"
    zero = "0.0f" if dtype == "float32" else "0"
    if described.rule == "sign":
        body = f"    return decisions[0] >= {zero};"
    elif described.rule == "argmax":
        body = """    int best = 0;
    for (int p = 1; p < @@_N_FUNCTIONS; p++) {
        if (decisions[p] > decisions[best]) {
            best = p;
        }
    }
    return best;"""
    else:
        pairs = np.array(class_pairs(len(described.classes)), np.uint16)
        program.array("pairs", pairs)
        program.stack += 2 * len(described.classes)
        body = f"""    uint16_t votes[@@_N_CLASSES] = {{0}};
    int best = 0;
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        votes[@pairs[2 * p + (decisions[p] >= {zero})]]++;
    }}
    for (int c = 1; c < @@_N_CLASSES; c++) {{
        if (votes[c] > votes[best]) {{
            best = c;
        }}
    }}
    return best;"""
    program.function(f"int @classify(const {number} *decisions)\n{{\n{body}\n}}\n")
    if dtype == "float32":
        steps = "    @decide(x, decisions);"
    else:
        steps = "    int16_t q[@@_N_FEATURES];\n    @quantise(x, q);\n    @sum(q, decisions);"
    program.function(
        f"int @predict(const float *x)\n{{\n    {number} decisions[@@_N_FUNCTIONS];\n{steps}\n"
        "    return @classify(decisions);\n}\n"
    )


def _header(described: Description, dtype: str, labels: _Labels, files: CFiles) -> str:
    number = "float" if dtype == "float32" else "int32_t"
    query = "float *x" if dtype == "float32" else "int16_t *q"
    extremes = _extremes(described, files)
    fixed = ""
    if files.error_bound is not None:
        limit = ""
        if files.input_range is not None:
            limit = (
                "/* For features up to this size, after scaling; beyond, they saturate. */\n"
                f"#define @@_INPUT_RANGE {files.input_range!r}\n"
            )
        fixed = f"""
/* A decision times this is that of the model, within the bound. */
#define @@_UNIT {files.unit!r}
#define @@_ERROR_BOUND {files.error_bound!r}
{limit}
/* Features as whole numbers. */
void @quantise(const float *x, int16_t *q);
"""
    names = ""
    if described.feature_names is not None:
        listed = "\n".join(
            f" *   {j}: {_comment(name)}" for j, name in enumerate(described.feature_names)
        )
        names = f" *\n * Features:\n{listed}\n"
    return f"""/* {described.name} in {dtype}, written by widemargin {__version__}.
 *
 * Constants: {files.flash_bytes} bytes. Local arrays: {files.ram_bytes} bytes.
 *
{extremes}
{names} */
#ifndef @@_H
#define @@_H

#include <stdint.h>

#define @@_N_FEATURES {described.n_features}
#define @@_N_CLASSES {len(described.classes)}
#define @@_N_FUNCTIONS {described.n_functions}

#ifdef __cplusplus
extern "C" {{
#endif

/* Labels of the classes. */
extern {labels.declaration};
{fixed}
/* Decision values of all functions. */
void @decide(const {query}, {number} *decisions);

/* Number of the class that decisions amount to. */
int @classify(const {number} *decisions);

/* Number of the class of a row of features. */
int @predict(const float *x);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _extremes(described: Description, files: CFiles) -> str:
    """What features mean that no training row has, as lines of a comment."""
    if isinstance(described.functions, CurveSum | LogSum):
        largest = "An infinite feature counts as the end of its curve."
    elif files.error_bound is not None:
        largest = "An infinite feature counts as the end of @@_INPUT_RANGE."
    else:
        limit = write_float(find_limit(described.functions))
        largest = f"A feature beyond {limit}, or -{limit}, counts as that number."
    lines = [
        "Every row has an answer, with finite decisions. A feature that is NaN after scaling",
        f"counts as zero. {largest}",
    ]
    if files.error_bound is not None:
        lines.append(
            "A whole number that @quantise never gives counts as the nearest that it gives."
        )
    return "\n".join(f" * {line}" for line in lines)


def _comment(text: str) -> str:
    """Text that can stand in a comment."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    for pair, apart in (("*/", "* /"), ("/*", "/ *"), ("??", "? ?"), ("@", "(at)")):
        plain = plain.replace(pair, apart)
    return plain


def _source(program: Program, described: Description, labels: _Labels) -> str:
    body = "\n".join([*program.arrays, *program.functions])
    math = "#include <math.h>\n" if "expf(" in body else ""
    return f"""#include <limits.h>
{math}
/* {described.name}, written by widemargin {__version__}. */

#if INT_MAX < 2147483647
#error "an int of 32 bits is needed"
#endif

{labels.declaration} = {{
{labels.values}
}};

{body}"""
