"""Reading tables for the command line: svmlight text, CSV and npz."""

import csv
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.datasets import read_part

#: Endings of svmlight files may be anything; these are the two other formats.
CSV_ENDINGS = (".csv", ".tsv")
NPZ_ENDING = ".npz"


class Table(NamedTuple):
    """Rows of a file. ``y`` is None when the file has no labels."""

    X: Any
    y: NDArray[Any] | None
    feature_names: list[str] | None


def read_table(
    path: str | os.PathLike[str], *, label: str | None = None, n_features: int | None = None
) -> Table:
    """Read a file of rows.

    Parameters
    ----------
    path : path-like
        ``.csv`` or ``.tsv`` (one row a line, a header line if it is not all numbers), ``.npz``
        (arrays ``X`` and ``y``, or ``X_train`` and ``y_train``), or anything else as
        svmlight/LIBSVM text, also compressed (``.gz``, ``.bz2``).
    label : str, optional
        Name or number (from 0; negative from the end) of the CSV column with the labels; the last
        one if not given.
    n_features : int, optional
        Width the data must have. A CSV file with exactly as many columns has no labels.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{file}: there is no such file")
    if file.suffix.lower() in CSV_ENDINGS:
        return _read_csv(file, label, n_features)
    if file.suffix.lower() == NPZ_ENDING:
        return Table(*read_part(file), None)
    return _read_svmlight(file, n_features)


def _read_svmlight(file: Path, n_features: int | None) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(file), n_features=n_features, zero_based=False)
    except ValueError as error:
        raise ValueError(f"{file}: not readable as svmlight/LIBSVM text ({error})") from error
    integers = np.array_equal(y, np.round(y))
    return Table(X, y.astype(np.int64) if integers else y, None)


def _read_csv(file: Path, label: str | None, n_features: int | None) -> Table:
    with file.open(newline="", encoding="utf-8-sig") as stream:
        delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
        rows = [row for row in csv.reader(stream, delimiter=delimiter) if row]
    if not rows:
        raise ValueError(f"{file}: the file is empty")
    header = None if any(map(_is_number, rows[0])) else rows.pop(0)
    width = len(rows[0]) if rows else 0
    for number, row in enumerate(rows, start=1 if header is None else 2):
        if len(row) != width:
            raise ValueError(f"{file}, line {number}: {len(row)} fields instead of {width}")
    if label is None and n_features == width:
        return Table(_to_numbers(file, rows, header), None, header)
    at = _find_column(file, label, header, width)
    y = _parse_labels([row.pop(at) for row in rows])
    names = None if header is None else header[:at] + header[at + 1 :]
    return Table(_to_numbers(file, rows, names), y, names)


def _find_column(file: Path, label: str | None, header: list[str] | None, width: int) -> int:
    if label is None:
        return width - 1
    if header is not None and label in header:
        return header.index(label)
    if label.lstrip("-").isdigit() and -width <= int(label) < width:
        return int(label) % width
    raise ValueError(
        f"label: {file} has no column {label!r}; give a name of its header or a number"
    )


def _to_numbers(file: Path, rows: list[list[str]], names: list[str] | None) -> NDArray[np.float64]:
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError:
        for number, row in enumerate(rows, start=1 if names is None else 2):
            for column, text in enumerate(row):
                if not _is_number(text):
                    name = column if names is None else repr(names[column])
                    raise ValueError(
                        f"{file}, line {number}: {text!r} in column {name} is not a number; encode "
                        "categories as numbers first"
                    ) from None
        raise


def _parse_labels(texts: list[str]) -> NDArray[Any]:
    """Integers if all are, else the texts."""
    try:
        return np.array([int(text) for text in texts])
    except ValueError:
        return np.array(texts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
