"""The model text format of LIBSVM (``svm-train``, ``svm_save_model``).

C-SVC classifiers, epsilon-SVR and one-class models can be read and written; nu-SVC and nu-SVR
cannot. A file is a list of ``key values`` lines, the line ``SV``, then one line per support vector:
its coefficients, then ``index:value`` pairs with indices counted from 1, or ``0:serial`` for a
precomputed kernel. Only classifiers have the keys ``label`` and ``nr_sv``. The probability keys
``probA``, ``probB`` and ``prob_density_marks`` are skipped on reading: decision values and predicted
labels do not depend on them.
"""

import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import lt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from widemargin.files.atomic_output import replace_file
from widemargin.files.container import ModelFileError, sort_csr
from widemargin.files.libsvm_header import (
    CLASS_KEYS,
    KERNEL_PARAMETERS,
    MAX_INT,
    UNUSED,
    LineError,
    check_header,
    check_numbers,
    list_kernels,
    parse_header,
    parse_integers,
    parse_reals,
    reject_line,
)

_MAX_INDEX = 2**31 - 2


@dataclass(frozen=True, eq=False)
class LibsvmModel:
    """A model as LIBSVM stores it.

    The only function of an epsilon-SVR or one-class model is the sum of its coefficients times
    kernel values, less ``rho[0]``. With ``k`` classes a C-SVC has one decision function per pair
    ``i < j``, in the order ``(0, 1), (0, 2), ..., (k - 2, k - 1)``; a positive value is a vote for
    ``labels[i]``.

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
        Class labels in LIBSVM's order; empty without classes.
    rho : ndarray of shape (k * (k - 1) / 2,) or (1,)
        The constant that each decision function subtracts.
    n_support : ndarray of shape (k,) or (0,)
        Number of support vectors per class; the vectors are grouped by class.
    coef : ndarray of shape (k - 1, n_sv) or (1, n_sv)
        Coefficients; for a vector of class ``i``, row ``j - 1`` belongs to the pair with a later
        class ``j`` and row ``j`` to the pair with an earlier class ``j``.
    vectors : csr_matrix of shape (n_sv, n_features)
        Support vectors. The format does not hold the number of features: a model that was read
        has as many as the largest index. For a precomputed kernel the only column holds the
        position of each vector in the training set, counted from 1.
    svm_type : {"c_svc", "epsilon_svr", "one_class"}
        What the model is.
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
    svm_type: str = "c_svc"


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
    except LineError as error:
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
        The model. Text that is not a well-formed model of a known type raises ModelFileError with the
        number of the line at fault.
    """
    try:
        return _parse_lines(text.split("\n"))
    except LineError as error:
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


def _format_header(model: LibsvmModel) -> list[str]:
    if model.kernel not in KERNEL_PARAMETERS:
        raise ModelFileError(f"unknown kernel {model.kernel!r}; LIBSVM has {list_kernels()}")
    header: dict[str, Iterable[Any]] = {
        "svm_type": [model.svm_type],
        "kernel_type": [model.kernel],
        **{name: [getattr(model, name)] for name in KERNEL_PARAMETERS[model.kernel]},
        "nr_class": [_count_rows(model.labels) + 1],
        "total_sv": [model.vectors.shape[0]],
        "rho": np.ravel(model.rho),
    }
    if model.svm_type == "c_svc":
        header |= {"label": model.labels, "nr_sv": np.ravel(model.n_support)}
    elif model.labels or len(model.n_support):
        raise ModelFileError(f"a model of type {model.svm_type!r:.80} has no classes")
    lines = [" ".join([key, *map(_format_value, values)]) for key, values in header.items()]
    # Read back, so that what is refused on reading is never written.
    parsed, sv_line = parse_header([*lines, "SV"])
    check_header(parsed, sv_line, n_vectors=model.vectors.shape[0])
    return lines


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.17g}"


def _format_vectors(model: LibsvmModel, first: int) -> Iterator[str]:
    expected = (_count_rows(model.labels), model.vectors.shape[0])
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


def _count_rows(labels: tuple[int, ...] | list[int]) -> int:
    """Return the number of coefficients of a support vector."""
    return len(labels) - 1 if labels else 1


def _get_entry_check(kernel: str) -> Callable[[list[int], list[float], int], None]:
    return _check_serial if kernel == "precomputed" else _check_indices


def _get_first_index(kernel: str) -> int:
    return 0 if kernel == "precomputed" else 1


def _parse_lines(lines: list[str]) -> LibsvmModel:
    header, first = parse_header(lines)
    end = len(lines)
    while end > first and not lines[end - 1].strip():
        end -= 1
    check_header(header, sv_line=first, n_vectors=end - first)
    kernel = header["kernel_type"][1][0]
    labels, n_support = (header.get(key, (0, []))[1] for key in CLASS_KEYS)
    coef, vectors = _parse_vectors(lines, first, end, _count_rows(labels), kernel)
    parameters = {name: header.get(name, (0, unused))[1][0] for name, unused in UNUSED.items()}
    return LibsvmModel(
        kernel=kernel,
        **parameters,
        labels=tuple(labels),
        rho=np.array(header["rho"][1], dtype=np.float64),
        n_support=np.array(n_support, dtype=np.int64),
        coef=coef,
        vectors=vectors,
        svm_type=header["svm_type"][1][0],
    )


def _parse_vectors(
    lines: list[str], first: int, end: int, n_coefs: int, kernel: str
) -> tuple[NDArray[np.float64], csr_matrix]:
    """Parse ``lines[first:end]`` in one pass."""
    check_entries = _get_entry_check(kernel)
    coefs, values, columns, bounds = array("d"), array("d"), array("i"), array("q", [0])
    for line in range(first + 1, end + 1):
        tokens = check_numbers(lines[line - 1].split(), line)
        if len(tokens) < n_coefs:
            reject_line(line, f"a support vector needs {n_coefs} coefficients")
        coefs.extend(parse_reals(tokens[:n_coefs], line))
        pairs = [token.partition(":") for token in tokens[n_coefs:]]
        indices = parse_integers((index for index, _, _ in pairs), line)
        row = parse_reals((value for _, _, value in pairs), line)
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
        reject_line(line, "the indices do not increase")
    if indices and not 1 <= indices[0] <= indices[-1] <= _MAX_INDEX:
        reject_line(line, f"an index is not between 1 and {_MAX_INDEX}")


def _check_serial(indices: list[int], values: list[float], line: int) -> None:
    if indices != [0] or not (values[0].is_integer() and 1 <= values[0] <= MAX_INT):
        reject_line(line, "a support vector of a precomputed kernel must be 0:serial, serial >= 1")
