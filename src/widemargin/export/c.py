"""Fitted estimators as C for devices: one file and its header, without allocation of memory."""

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from widemargin import __version__
from widemargin.arguments import check_choice, check_flag, check_number
from widemargin.export.c_fixed import Precision, write_fixed_functions
from widemargin.export.c_float import write_float_functions
from widemargin.export.c_interface import (
    CFiles,
    Labels,
    write_header,
    write_labels,
    write_predictions,
)
from widemargin.export.c_probabilities import write_probabilities
from widemargin.export.c_text import Program, make_prefix
from widemargin.export.description import Description, describe
from widemargin.files.atomic_output import replace_file

DTYPES = ("float32", "int16")
#: Error of a decision, as a share of the margin, above which there is a warning.
MAX_BOUND = 0.5


def to_c(
    model: Any,
    path: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    libm: bool = True,
    input_range: float | None = None,
    verbose: bool = True,
) -> CFiles:
    """Write a fitted estimator as C99: one self-contained file and its header.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator of widemargin, or a pipeline of `StandardScaler`, `MinMaxScaler` or
        `MaxAbsScaler` and one. Of a search its final model is written.
    path : path-like
        File to write, such as ``"model.c"``; the header is beside it. Names in C begin with its stem.
    dtype : {"float32", "int16"}, default="float32"
        Type of the model's numbers. With ``"int16"`` everything after the features is computed with
        integers, and decisions are integer multiples of a unit.
    libm : bool, default=True
        Whether to call ``expf`` where a kernel in float32 needs it; otherwise a table stands in.
    input_range : float, optional
        For ``"int16"`` and kernels: largest size of a feature, after scaling. Beyond it features
        saturate. Twice that of the model's vectors if not given.
    verbose : bool, default=True
        Whether to print how much memory the model takes.

    Returns
    -------
    files : CFiles
        The files, and bytes of flash and RAM.

    Notes
    -----
    ``int NAME_predict(const float *x)`` returns the number of the class, whose label is
    ``NAME_labels[...]``; of a one-class model the labels are -1 and 1. The function of a regression is
    ``void NAME_predict(const float *x, float *targets)``. ``NAME_decide`` computes the decision
    values. A `KernelSVCCV` with ``calibration`` also has
    ``void NAME_predict_proba(const float *x, float *probabilities)`` and ``NAME_calibrate``, which
    takes the decision values. Probabilities are computed in float, those of one-vs-one problems are
    coupled in double, with ``"int16"`` too. The functions allocate no memory and write to no global
    variable, so that any number of threads may call them.

    Every row has an answer. After scaling, a feature that is NaN counts as zero, and a negative one
    counts as zero where the kernel takes none. A feature beyond the limit in the header, such as an
    infinity, counts as that limit.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from widemargin import ProjectedSVC
    >>> from widemargin.export import to_c
    >>> X, y = [[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]
    >>> model = ProjectedSVC(n_basis=2).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = to_c(model, Path(folder) / "tiny.c", verbose=False)
    ...     "tiny_predict" in (Path(folder) / "tiny.h").read_text()
    True
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
        _warn_if_coarse(precision, described)
    else:
        write_float_functions(program, described, libm=libm)
    write_predictions(program, described, dtype, 1.0 if precision is None else precision.unit)
    write_probabilities(
        program, described, dtype, 1.0 if precision is None else precision.unit, libm=libm
    )
    labels = write_labels(described)
    program.flash += 0 if labels is None else labels.n_bytes
    program.stack += 4 * described.n_functions
    files = CFiles(target, target.with_suffix(".h"), program.flash, program.stack, 1.0)
    if precision is not None:
        files = replace(
            files, unit=precision.unit, error_bound=precision.bound,
            input_range=precision.input_range, route_bound=precision.route_bound,
        )  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    header = program.expand(write_header(described, dtype, labels, files))
    source = program.expand(_source(program, described, labels))
    # Neither file is replaced before both are complete.
    with replace_file(files.header) as header_stream, replace_file(target) as source_stream:
        header_stream.write(header.encode())
        source_stream.write(f'#include "{files.header.name}"\n{source}'.encode())
    if verbose:
        print(files)
    return files


def _warn_if_coarse(precision: Precision, described: Description) -> None:
    """Warn if rounding may change decisions by much of what tells predictions apart."""
    margin = described.margin
    if precision.bound > MAX_BOUND * margin.size > 0:
        warnings.warn(
            f"decisions in int16 may be off by {precision.bound:.2g}, where {margin.text} is "
            f"{margin.size:.2g}; compare them on data, lower C, give a smaller input_range, or export "
            "float32",
            UserWarning,
            stacklevel=3,
        )


def _source(program: Program, described: Description, labels: Labels | None) -> str:
    values = ""
    if labels is not None:
        values = f"{labels.declaration} = {{\n{labels.values}\n}};\n\n"
    body = "\n".join([*program.arrays, *program.functions])
    math = "#include <math.h>\n" if "expf(" in body else ""
    return f"""#include <limits.h>
{math}
/* {described.name}, written by widemargin {__version__}. */

#if INT_MAX < 2147483647
#error "an int of 32 bits is needed"
#endif

{values}{body}"""
