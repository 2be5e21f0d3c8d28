"""Headers of LIBSVM's model text: ``key values`` lines up to the line ``SV``, and their checks."""

import re
from collections.abc import Iterable
from math import isfinite
from typing import Any, NoReturn

#: Types of models that can be read and written.
SVM_TYPES = ("c_svc", "epsilon_svr", "one_class")
#: Parameters each kernel reads; the others are neither written nor required.
KERNEL_PARAMETERS = {
    "linear": (),
    "polynomial": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "precomputed": (),
}
#: Values of parameters a kernel does not read: LIBSVM's own defaults.
UNUSED: dict[str, list[Any]] = {"degree": [3], "gamma": [0.0], "coef0": [0.0]}
_TEXT_KEYS = ("svm_type", "kernel_type")
_INTEGER_KEYS = ("degree", "nr_class", "total_sv", "label", "nr_sv")
_REAL_KEYS = ("gamma", "coef0", "rho")
_SKIPPED_KEYS = ("probA", "probB", "prob_density_marks")
_REQUIRED_KEYS = ("svm_type", "kernel_type", "nr_class", "total_sv", "rho")
#: Keys that only classifiers have.
CLASS_KEYS = ("label", "nr_sv")
# Python's int() and float() take more than C does: underscores, "nan", digits of other scripts.
_NUMBERS = re.compile(r"[-+.:0-9eE ]*")
#: Largest integer of 32 bits.
MAX_INT = 2**31 - 1

#: Line number and values of each key.
Header = dict[str, tuple[int, list[Any]]]


class LineError(Exception):
    """An error in a line; it becomes a ModelFileError where the name of the file is known."""


def reject_line(line: int, problem: str) -> NoReturn:
    """Raise the error of a line."""
    raise LineError(f"line {line}: {problem}")


def list_kernels() -> str:
    """Return LIBSVM's names of kernels as text."""
    return ", ".join(KERNEL_PARAMETERS)


def parse_header(lines: list[str]) -> tuple[Header, int]:
    """Return line number and values of each key, and the number of the line "SV"."""
    header: Header = {}
    for number, line in enumerate(lines, start=1):
        key, *tokens = line.split() or [""]
        if key == "SV" and not tokens:
            return header, number
        if key in header:
            reject_line(number, f"{key} comes twice")
        header[key] = (number, _parse_values(key, tokens, number))
    reject_line(len(lines), "the file ends before the SV section")


def _parse_values(key: str, tokens: list[str], line: int) -> list[Any]:
    if key in _INTEGER_KEYS:
        return parse_integers(check_numbers(tokens, line), line)
    if key in _REAL_KEYS:
        return parse_reals(check_numbers(tokens, line), line)
    if key in _TEXT_KEYS or key in _SKIPPED_KEYS:
        return tokens
    reject_line(line, f"unknown key {key!r:.80}; this is not a LIBSVM model of a known version")


def check_numbers(tokens: list[str], line: int) -> list[str]:
    """Return the tokens, refusing those with characters that no decimal number has."""
    if not _NUMBERS.fullmatch(" ".join(tokens)):
        reject_line(line, "a field is not a finite number in decimal notation")
    return tokens


def parse_integers(tokens: Iterable[str], line: int) -> list[int]:
    """Return tokens as integers of 32 bits."""
    try:
        numbers = list(map(int, tokens))
    except ValueError:
        reject_line(line, "a field is not an integer")
    if numbers and not -MAX_INT - 1 <= min(numbers) <= max(numbers) <= MAX_INT:
        reject_line(line, "an integer does not fit in 32 bits")
    return numbers


def parse_reals(tokens: Iterable[str], line: int) -> list[float]:
    """Return tokens as finite numbers."""
    try:
        numbers = list(map(float, tokens))
    except ValueError:
        reject_line(line, "a field is not a number")
    if not all(map(isfinite, numbers)):
        reject_line(line, "a field is not a finite number")
    return numbers


def check_header(header: Header, sv_line: int, n_vectors: int) -> None:
    """Refuse a header with keys or values that are missing, contradictory or not supported."""
    missing = [key for key in _REQUIRED_KEYS if key not in header]
    if missing:
        reject_line(sv_line, f"{', '.join(missing)} missing before the SV section")
    _check_type(header, sv_line)
    line, values = header["kernel_type"]
    if len(values) != 1 or values[0] not in KERNEL_PARAMETERS:
        reject_line(line, f"unsupported kernel_type; {list_kernels()} are supported")
    absent = [name for name in KERNEL_PARAMETERS[values[0]] if name not in header]
    if absent:
        reject_line(sv_line, f"{', '.join(absent)} missing for the {values[0]} kernel")
    _check_counts(header, n_vectors)
    if header["svm_type"][1] == ["c_svc"]:
        _check_classes(header)


def _check_type(header: Header, sv_line: int) -> None:
    """Refuse unknown types of models, and keys of classes that are missing or too many."""
    line, values = header["svm_type"]
    if len(values) != 1 or values[0] not in SVM_TYPES:
        reject_line(line, f"unsupported svm_type; {', '.join(SVM_TYPES)} are supported")
    if values == ["c_svc"]:
        missing = [key for key in CLASS_KEYS if key not in header]
        if missing:
            reject_line(sv_line, f"{', '.join(missing)} missing before the SV section")
        return
    for key in CLASS_KEYS:
        if key in header:
            reject_line(
                header[key][0], f"{key} belongs to classifiers, but svm_type is {values[0]}"
            )
    line, values = header["nr_class"]
    if values != [2]:
        reject_line(line, f"nr_class is 2 in models of type {header['svm_type'][1][0]}")


def _check_counts(header: Header, n_vectors: int) -> None:
    for key in ("nr_class", "total_sv", *UNUSED):
        line, values = header.get(key, (0, [0]))
        if len(values) != 1:
            reject_line(line, f"{key} takes one value, found {len(values)}")
    line, (n_classes,) = header["nr_class"]
    if n_classes < 2:
        reject_line(line, "nr_class must be at least 2")
    _check_size(header, "rho", n_classes * (n_classes - 1) // 2)
    line, (total,) = header["total_sv"]
    if total != n_vectors:
        reject_line(line, f"total_sv is {total} but {n_vectors} support vectors follow")


def _check_classes(header: Header) -> None:
    n_classes, total = header["nr_class"][1][0], header["total_sv"][1][0]
    for key in CLASS_KEYS:
        _check_size(header, key, n_classes)
    line, labels = header["label"]
    if len(set(labels)) != n_classes:
        reject_line(line, "a label comes twice")
    line, counts = header["nr_sv"]
    if min(counts) < 0 or sum(counts) != total:
        reject_line(line, f"nr_sv must be non-negative and sum to total_sv, which is {total}")


def _check_size(header: Header, key: str, size: int) -> None:
    line, values = header[key]
    if len(values) != size:
        n_classes = header["nr_class"][1][0]
        reject_line(line, f"{key} takes {size} values for {n_classes} classes, not {len(values)}")
