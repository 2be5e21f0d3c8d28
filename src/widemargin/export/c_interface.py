"""What a program sees of an exported model: labels, prediction functions and the header file."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from widemargin import __version__
from widemargin.export.c_text import Program, write_float, write_numbers
from widemargin.export.description import CurveSum, Description, LogSum
from widemargin.export.limits import find_limit
from widemargin.problem import class_pairs


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
        Local arrays while a row is predicted; there is no other memory.
    unit : float
        The value of the integer one in a decision: 1.0 for float32.
    error_bound : float or None
        For int16: how far a decision may be from that of the model, for features within
        ``input_range``. Of an early `DCSVC`: in the same cluster. Of tables: unless float arithmetic
        puts a value on the border of two bins into the other one.
    input_range : float or None
        For int16: largest size of a feature, after scaling; beyond it features saturate. None if
        there is no limit.
    route_bound : float or None
        For int16 and an early `DCSVC`: how far the values by which a row is assigned to a group may be
        from those of the model. A row goes to the cluster of a group whose value is less than the
        largest by at most twice this bound, so that a row on the border between clusters may go to
        either.
    """

    source: Path
    header: Path
    flash_bytes: int
    ram_bytes: int
    unit: float
    error_bound: float | None = None
    input_range: float | None = None
    route_bound: float | None = None

    def __str__(self) -> str:
        bound = "" if self.error_bound is None else f", decisions within {self.error_bound:.2g}"
        if self.input_range is not None:
            bound += f" for features (as scaled) up to {self.input_range:.4g}, where they saturate"
        return (
            f"{self.source} and {self.header.name}: {self.flash_bytes:,} bytes of flash for the model "
            f"(and some for code), {self.ram_bytes:,} bytes of RAM{bound}"
        )


@dataclass(frozen=True)
class Labels:
    """The array of labels in C: its declaration, its values and their bytes."""

    declaration: str
    values: str
    n_bytes: int


def write_labels(described: Description) -> Labels | None:
    """Return labels as integers of 32 bits where they fit, else as texts; None without classes."""
    classes = described.classes
    if not described.has_classes:
        return None
    integers = classes.astype(np.int32) if classes.dtype.kind in "biuf" else None
    if integers is not None and (integers == classes).all():
        numbers = write_numbers(integers)
        return Labels("const int32_t @labels[@@_N_CLASSES]", numbers, integers.nbytes)
    texts = [_quote(str(label)) for label in classes]
    n_bytes = sum(len(str(label).encode()) + 1 + 4 for label in classes)
    return Labels(
        "const char *const @labels[@@_N_CLASSES]", "    " + ",\n    ".join(texts), n_bytes
    )


def _quote(text: str) -> str:
    """Return a string constant of C; octal escapes stand for bytes beyond ASCII."""
    parts = []
    for byte in text.encode("utf-8"):
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?@'
        parts.append(chr(byte) if plain else f"\\{byte:03o}")
    return '"' + "".join(parts) + '"'


def write_predictions(program: Program, described: Description, dtype: str, unit: float) -> None:
    """Add ``@predict``, and ``@classify`` if there are classes.

    ``unit`` is the value of the integer one in a decision.
    """
    if described.has_classes:
        _write_classify(program, described, dtype)
    number, steps = name_type(dtype), write_steps(dtype)
    if described.has_classes:
        program.function(
            f"int @predict(const float *x)\n{{\n    {number} decisions[@@_N_FUNCTIONS];\n{steps}\n"
            "    return @classify(decisions);\n}\n"
        )
    elif dtype == "float32":
        program.function(
            "void @predict(const float *x, float *targets)\n{\n    @decide(x, targets);\n}\n"
        )
    else:
        program.function(
            f"""
void @predict(const float *x, float *targets)
{{
    {number} decisions[@@_N_FUNCTIONS];
{steps}
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        targets[p] = (float)decisions[p] * {_write_unit(unit)};
    }}
}}
"""
        )


def _write_unit(unit: float) -> str:
    if unit < np.finfo(np.float32).tiny:
        raise ValueError(
            f"model: its targets are multiples of {unit:.3g}, which float32 cannot hold; scale the "
            "targets"
        )
    return write_float(unit)


def name_type(dtype: str) -> str:
    """Return the type of decision values in C."""
    return "float" if dtype == "float32" else "int32_t"


def write_steps(dtype: str) -> str:
    """Return the statements from the features ``x`` to ``decisions``."""
    if dtype == "float32":
        return "    @decide(x, decisions);"
    return "    int16_t q[@@_N_FEATURES];\n    @quantise(x, q);\n    @sum(q, decisions);"


def _write_classify(program: Program, described: Description, dtype: str) -> None:
    """Add ``@classify``: the class that decision values amount to."""
    zero = "0.0f" if dtype == "float32" else "0"
    if described.rule == "sign":
        # Fixed point rounds by more than the threshold of a one-class model.
        least = write_float(described.threshold) if dtype == "float32" else zero
        body = f"    return decisions[0] >= {least};"
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
    program.function(f"int @classify(const {name_type(dtype)} *decisions)\n{{\n{body}\n}}\n")


def write_header(described: Description, dtype: str, labels: Labels | None, files: CFiles) -> str:
    """Return the text of the header file."""
    number = name_type(dtype)
    query = "float *x" if dtype == "float32" else "int16_t *q"
    return f"""/* {described.name} in {dtype}, written by widemargin {__version__}.
 *
 * Constants: {files.flash_bytes} bytes. Local arrays: {files.ram_bytes} bytes.
 *
{_extremes(described, files)}
{_list_features(described)} */
#ifndef @@_H
#define @@_H

#include <stdint.h>

#define @@_N_FEATURES {described.n_features}
{_declare_sizes(described)}
#ifdef __cplusplus
extern "C" {{
#endif
{_declare_labels(labels)}{_declare_units(files)}
/* Decision values of all functions. */
void @decide(const {query}, {number} *decisions);
{_declare_predictions(described, number)}
#ifdef __cplusplus
}}
#endif

#endif
"""


def _list_features(described: Description) -> str:
    """Return the names of the features as lines of a comment."""
    if described.feature_names is None:
        return ""
    names = enumerate(described.feature_names)
    return " *\n * Features:\n" + "".join(f" *   {j}: {_comment(name)}\n" for j, name in names)


def _declare_sizes(described: Description) -> str:
    n_functions = f"#define @@_N_FUNCTIONS {described.n_functions}\n"
    if described.has_classes:
        return f"#define @@_N_CLASSES {len(described.classes)}\n{n_functions}"
    return f"#define @@_N_TARGETS {described.n_functions}\n{n_functions}"


def _declare_labels(labels: Labels | None) -> str:
    if labels is None:
        return ""
    return f"\n/* Labels of the classes. */\nextern {labels.declaration};\n"


def _declare_units(files: CFiles) -> str:
    """Return the unit, the error bound and the range of a model in fixed point."""
    if files.error_bound is None:
        return ""
    limit = ""
    if files.input_range is not None:
        limit = (
            "/* For features up to this size, after scaling; beyond, they saturate. */\n"
            f"#define @@_INPUT_RANGE {files.input_range!r}\n"
        )
    route = ""
    if files.route_bound is not None:
        route = (
            "/* The cluster of a row is that of a group whose value is less than the largest by at\n"
            " * most twice this bound; the error bound holds for the functions of that cluster. */\n"
            f"#define @@_ROUTE_BOUND {files.route_bound!r}\n"
        )
    return f"""
/* A decision times this is that of the model, within the bound. */
#define @@_UNIT {files.unit!r}
#define @@_ERROR_BOUND {files.error_bound!r}
{limit}{route}
/* Features as integers. */
void @quantise(const float *x, int16_t *q);
"""


def _declare_predictions(described: Description, number: str) -> str:
    if not described.has_classes:
        return """
/* Predicted targets of a row of features. */
void @predict(const float *x, float *targets);
"""
    return f"""
/* Number of the class that decisions amount to. */
int @classify(const {number} *decisions);

/* Number of the class of a row of features. */
int @predict(const float *x);
{_declare_probabilities(described, number)}"""


def _declare_probabilities(described: Description, number: str) -> str:
    if described.calibration is None:
        return ""
    return f"""
/* Probabilities of all classes from decisions. */
void @calibrate(const {number} *decisions, float *probabilities);

/* Probabilities of all classes for a row of features. */
void @predict_proba(const float *x, float *probabilities);
"""


def _extremes(described: Description, files: CFiles) -> str:
    """Return how NaN, infinite and very large features are treated, as lines of a comment."""
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
            "An integer that @quantise never returns counts as the nearest that it returns."
        )
    return "\n".join(f" * {line}" for line in lines)


def _comment(text: str) -> str:
    """Return text that cannot end or begin a comment."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    for pair, apart in (("*/", "* /"), ("/*", "/ *"), ("??", "? ?"), ("@", "(at)")):
        plain = plain.replace(pair, apart)
    return plain
