"""The model text format of LIBSVM (``svm-train``, ``svm_save_model``) for C-SVC classifiers.

A file is a list of ``key values`` lines, the line ``SV``, then one line per support vector: its
coefficients, then ``index:value`` pairs with indices counted from 1, or ``0:serial`` for a
precomputed kernel. The probability keys ``probA``, ``probB`` and ``prob_density_marks`` are
skipped on reading: decision values and predicted labels do not depend on them.
"""

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from operator import lt
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from widemargin.files.atomic_output import replace_file
from widemargin.files.container import ModelFileError, sort_csr

# Parameters each kernel reads; the others are neither written nor required.
_KERNEL_PARAMETERS = {
    "linear": (),
    "polynomial": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "precomputed": (),
}
# Values of parameters a kernel does not read: LIBSVM's own defaults.
_UNUSED: dict[str, list[Any]] = {"degree": [3], "gamma": [0.0], "coef0": [0.0]}
_TEXT_KEYS = ("svm_type", "kernel_type")
_INTEGER_KEYS = ("degree", "nr_class", "total_sv", "label", "nr_sv")
_REAL_KEYS = ("gamma", "coef0", "rho")
_SKIPPED_KEYS = ("probA", "probB", "prob_density_marks")
_REQUIRED_KEYS = ("svm_type", "kernel_type", "nr_class", "total_sv", "rho", "label", "nr_sv")
# Python's int() and float() take more than C does: underscores, "nan", digits of other scripts.
_NUMBERS = re.compile(r"[-+.:0-9eE ]*")
_MAX_INT = 2**31 - 1
_MAX_INDEX = 2**31 - 2

_Header = dict[str, tuple[int, list[Any]]]


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """A C-SVC classifier as LIBSVM stores it.

    With ``k`` classes there is one decision function per pair ``i < j``, in the order
    ``(0, 1), (0, 2), ..., (k - 2, k - 1)``; a positive value is a vote for ``labels[i]``.

    Attributes
    ----------
    kernel : {"linear", "polynomial", "rbf", "sigmoid", "precomputed"}
        Kernel name.
    degree : int
        Degree of the polynomial kernel; 3 in a file that has none.
    gamma : float
        Kernel coefficient; 0 in a file that has none.
    coef0 : float
        Constant in the polynomial and sigmoid kernels; 0 in a file that has none.
    labels : tuple of int
        Class labels in LIBSVM's order.
    rho : ndarray of shape (k * (k - 1) / 2,)
        The constant that each decision function subtracts.
    n_support : ndarray of shape (k,)
        Number of support vectors per class; the vectors are grouped by class.
    coef : ndarray of shape (k - 1, n_sv)
        Coefficients; for a vector of class ``i``, row ``j - 1`` belongs to the pair with a later
        class ``j`` and row ``j`` to the pair with an earlier class ``j``.
    vectors : csr_matrix of shape (n_sv, n_features)
        Support vectors. The format does not hold the number of features: a model that was read
        has as many as the largest index. For a precomputed kernel the only column holds the
        position of each vector in the training set, counted from 1.
    """

    kernel: str
    degree: int
    gamma: float
    coef0: float
    labels: tuple[int, ...]
    rho: NDArray[np.float64]
    n_support: NDArray[np.int64]
    coef: NDArray[np.float64]
    vectors: csr_matrix


def format_libsvm_model(model: LibsvmModel) -> str:
    """Return the text of a LIBSVM model file, losing no digit.

    Parameters
    ----------
    model : LibsvmModel
        Model to format; one with inconsistent shapes or values that are not finite raises
        ModelFileError.

    Returns
    -------
    str
        Text that `parse_libsvm_model` and LIBSVM read.
    """
    try:
        header = _format_header(model)
        return "\n".join([*header, "SV", *_format_vectors(model, first=len(header) + 1), ""])
    except _LineError as error:
        raise ModelFileError(f"LIBSVM could not read this model: {error}") from error


def write_libsvm_model(path: str | os.PathLike[str], model: LibsvmModel) -> None:
    """Write a model in LIBSVM's format; an existing file is replaced once it is complete.

    Parameters
    ----------
    path : path-like
        Where to write.
    model : LibsvmModel
        Model to write.
    """
    text = format_libsvm_model(model).encode("ascii")
    with replace_file(path) as stream:
        stream.write(text)


def parse_libsvm_model(text: str, source: str = "LIBSVM model") -> LibsvmModel:
    """Parse the text of a LIBSVM model file.

    Parameters
    ----------
    text : str
        Content of the file; it need not be trusted.
    source : str, default="LIBSVM model"
        Name of the file for error messages.

    Returns
    -------
    LibsvmModel
        The model. Text that is not a well-formed C-SVC model raises ModelFileError with the
        number of the line at fault.
    """
    try:
        return _parse_lines(text.split("\n"))
    except _LineError as error:
        raise ModelFileError(f"{source}, {error}") from error


def read_libsvm_model(path: str | os.PathLike[str]) -> LibsvmModel:
    """Read a LIBSVM model file.

    Parameters
    ----------
    path : path-like
        File written by LIBSVM or by `write_libsvm_model`; it need not be trusted.

    Returns
    -------
    LibsvmModel
        The model; see `parse_libsvm_model` for the errors.
    """
    text = Path(path).read_bytes().decode("ascii", errors="replace")
    return parse_libsvm_model(text, source=os.fspath(path))


class _LineError(Exception):
    """An error in a line; it becomes a ModelFileError where the name of the file is known."""


def _reject(line: int, problem: str) -> NoReturn:
    raise _LineError(f"line {line}: {problem}")


def _format_header(model: LibsvmModel) -> list[str]:
    if model.kernel not in _KERNEL_PARAMETERS:
        raise ModelFileError(f"unknown kernel {model.kernel!r}; LIBSVM has {_list_kernels()}")
    header: dict[str, Iterable[Any]] = {
        "svm_type": ["c_svc"],
        "kernel_type": [model.kernel],
        **{name: [getattr(model, name)] for name in _KERNEL_PARAMETERS[model.kernel]},
        "nr_class": [len(model.labels)],
        "total_sv": [model.vectors.shape[0]],
        "rho": np.ravel(model.rho),
        "label": model.labels,
        "nr_sv": np.ravel(model.n_support),
    }
    lines = [" ".join([key, *map(_format_value, values)]) for key, values in header.items()]
    # Read back, so that what is refused on reading is never written.
    parsed, sv_line = _parse_header([*lines, "SV"])
    _check_header(parsed, sv_line, n_vectors=model.vectors.shape[0])
    return lines


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.17g}"


def _format_vectors(model: LibsvmModel, first: int) -> Iterator[str]:
    expected = (len(model.labels) - 1, model.vectors.shape[0])
    if model.coef.shape != expected:
        raise ModelFileError(f"coef must have shape {expected}, not {model.coef.shape}")
    vectors = sort_csr(model.vectors)
    if not (np.isfinite(model.coef).all() and np.isfinite(vectors.data).all()):
        raise ModelFileError("coefficients and support vectors must be finite")
    check_entries = _get_entry_check(model.kernel)
    columns = (vectors.indices.astype(np.int64) + _get_first_index(model.kernel)).tolist()
    values = vectors.data.astype(np.float64).tolist()
    bounds = vectors.indptr.tolist()
    for row, coefs in enumerate(model.coef.T.tolist()):
        entries = slice(bounds[row], bounds[row + 1])
        check_entries(columns[entries], values[entries], first + row + 1)
        pairs = zip(columns[entries], values[entries], strict=True)
        yield " ".join([*map(_format_value, coefs), *(f"{i}:{v:.17g}" for i, v in pairs)])


def _list_kernels() -> str:
    return ", ".join(_KERNEL_PARAMETERS)


def _get_entry_check(kernel: str) -> Callable[[list[int], list[float], int], None]:
    return _check_serial if kernel == "precomputed" else _check_indices


def _get_first_index(kernel: str) -> int:
    return 0 if kernel == "precomputed" else 1


def _parse_lines(lines: list[str]) -> LibsvmModel:
    header, first = _parse_header(lines)
    end = len(lines)
    while end > first and not lines[end - 1].strip():
        end -= 1
    _check_header(header, sv_line=first, n_vectors=end - first)
    kernel = header["kernel_type"][1][0]
    n_classes = len(header["label"][1])
    coef, vectors = _parse_vectors(lines, first, end, n_classes - 1, kernel)
    parameters = {name: header.get(name, (0, unused))[1][0] for name, unused in _UNUSED.items()}
    return LibsvmModel(
        kernel=kernel,
        **parameters,
        labels=tuple(header["label"][1]),
        rho=np.array(header["rho"][1], dtype=np.float64),
        n_support=np.array(header["nr_sv"][1], dtype=np.int64),
        coef=coef,
        vectors=vectors,
    )


def _parse_header(lines: list[str]) -> tuple[_Header, int]:
    """Return line number and values of each key, and the number of the line "SV"."""
    header: _Header = {}
    for number, line in enumerate(lines, start=1):
        key, *tokens = line.split() or [""]
        if key == "SV" and not tokens:
            return header, number
        if key in header:
            _reject(number, f"{key} comes twice")
        header[key] = (number, _parse_values(key, tokens, number))
    _reject(len(lines), "the file ends before the SV section")


def _parse_values(key: str, tokens: list[str], line: int) -> list[Any]:
    if key in _INTEGER_KEYS:
        return _parse_integers(_check_numbers(tokens, line), line)
    if key in _REAL_KEYS:
        return _parse_reals(_check_numbers(tokens, line), line)
    if key in _TEXT_KEYS or key in _SKIPPED_KEYS:
        return tokens
    _reject(line, f"unknown key {key!r:.80}; this is not a LIBSVM model of a known version")


def _check_numbers(tokens: list[str], line: int) -> list[str]:
    if not _NUMBERS.fullmatch(" ".join(tokens)):
        _reject(line, "a field is not a finite number in decimal notation")
    return tokens


def _parse_integers(tokens: Iterable[str], line: int) -> list[int]:
    try:
        numbers = list(map(int, tokens))
    except ValueError:
        _reject(line, "a field is not an integer")
    if numbers and not -_MAX_INT - 1 <= min(numbers) <= max(numbers) <= _MAX_INT:
        _reject(line, "an integer does not fit in 32 bits")
    return numbers


def _parse_reals(tokens: Iterable[str], line: int) -> list[float]:
    try:
        numbers = list(map(float, tokens))
    except ValueError:
        _reject(line, "a field is not a number")
    if not all(map(isfinite, numbers)):
        _reject(line, "a field is not a finite number")
    return numbers


def _check_header(header: _Header, sv_line: int, n_vectors: int) -> None:
    missing = [key for key in _REQUIRED_KEYS if key not in header]
    if missing:
        _reject(sv_line, f"{', '.join(missing)} missing before the SV section")
    line, values = header["svm_type"]
    if values != ["c_svc"]:
        _reject(line, "unsupported svm_type; only c_svc is supported")
    line, values = header["kernel_type"]
    if len(values) != 1 or values[0] not in _KERNEL_PARAMETERS:
        _reject(line, f"unsupported kernel_type; {_list_kernels()} are supported")
    absent = [name for name in _KERNEL_PARAMETERS[values[0]] if name not in header]
    if absent:
        _reject(sv_line, f"{', '.join(absent)} missing for the {values[0]} kernel")
    _check_counts(header, n_vectors)


def _check_counts(header: _Header, n_vectors: int) -> None:
    for key in ("nr_class", "total_sv", *_UNUSED):
        line, values = header.get(key, (0, [0]))
        if len(values) != 1:
            _reject(line, f"{key} takes one value, found {len(values)}")
    line, (n_classes,) = header["nr_class"]
    if n_classes < 2:
        _reject(line, "nr_class must be at least 2")
    sizes = {"rho": n_classes * (n_classes - 1) // 2, "label": n_classes, "nr_sv": n_classes}
    for key, size in sizes.items():
        line, values = header[key]
        if len(values) != size:
            _reject(line, f"{key} takes {size} values for {n_classes} classes, not {len(values)}")
    line, labels = header["label"]
    if len(set(labels)) != n_classes:
        _reject(line, "a label comes twice")
    line, (total,) = header["total_sv"]
    if total != n_vectors:
        _reject(line, f"total_sv is {total} but {n_vectors} support vectors follow")
    line, counts = header["nr_sv"]
    if min(counts) < 0 or sum(counts) != total:
        _reject(line, f"nr_sv must be non-negative and sum to total_sv, which is {total}")


def _parse_vectors(
    lines: list[str], first: int, end: int, n_coefs: int, kernel: str
) -> tuple[NDArray[np.float64], csr_matrix]:
    """Parse ``lines[first:end]`` in one pass."""
    check_entries = _get_entry_check(kernel)
    coefs, values, columns, bounds = array("d"), array("d"), array("i"), array("q", [0])
    for line in range(first + 1, end + 1):
        tokens = _check_numbers(lines[line - 1].split(), line)
        if len(tokens) < n_coefs:
            _reject(line, f"a support vector needs {n_coefs} coefficients")
        coefs.extend(_parse_reals(tokens[:n_coefs], line))
        pairs = [token.partition(":") for token in tokens[n_coefs:]]
        indices = _parse_integers((index for index, _, _ in pairs), line)
        row = _parse_reals((value for _, _, value in pairs), line)
        check_entries(indices, row, line)
        columns.extend(indices)
        values.extend(row)
        bounds.append(len(values))
    indices_array = np.array(columns, dtype=np.int32) - _get_first_index(kernel)
    shape = (end - first, int(indices_array.max(initial=-1)) + 1)
    vectors = csr_matrix((np.array(values), indices_array, np.array(bounds)), shape=shape)
    return np.array(coefs).reshape(-1, n_coefs).T.copy(), vectors


def _check_indices(indices: list[int], values: list[float], line: int) -> None:
    if not all(map(lt, indices, indices[1:])):
        _reject(line, "the indices do not increase")
    if indices and not 1 <= indices[0] <= indices[-1] <= _MAX_INDEX:
        _reject(line, f"an index is not between 1 and {_MAX_INDEX}")


def _check_serial(indices: list[int], values: list[float], line: int) -> None:
    if indices != [0] or not (values[0].is_integer() and 1 <= values[0] <= _MAX_INT):
        _reject(line, "a support vector of a precomputed kernel must be 0:serial, serial >= 1")
