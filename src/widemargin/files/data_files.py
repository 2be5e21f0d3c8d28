"""Reading tables for the command line: svmlight text, CSV and npz."""

import bz2
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.datasets import read_part
from widemargin.files.csv_text import parse_csv

#: Stands for standard input in place of a file.
STANDARD_INPUT = "-"
#: Formats of text that may be asked for; "auto" goes by the ending of a name, or by the content.
FORMATS = ("auto", "svmlight", "csv")
CSV_ENDINGS = (".csv", ".tsv")
NPZ_ENDING = ".npz"
_COMPRESSED: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
#: First bytes of files that are not text, with advice for each.
_BINARY = {
    b"PAR1": "a Parquet file; convert it, for example with pandas.read_parquet(...).to_csv(...)",
    b"ARROW1": "an Arrow file; convert it to CSV or npz",
    b"PK\x03\x04": "a zip archive or an Excel workbook; save it as CSV (an .npz needs that ending)",
    b"\xd0\xcf\x11\xe0": "an Excel workbook; save it as CSV",
    b"\x1f\x8b": "compressed with gzip; its name must end in .gz",
    b"BZh": "compressed with bzip2; its name must end in .bz2",
    b"\xfd7zXZ": "compressed with xz; decompress it first",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; decompress it first",
    b"\x93NUMPY": "a single NumPy array; store X and y with numpy.savez",
    b"\x89HDF": "an HDF5 file; convert it to CSV or npz",
    b"\xff\xfe": "text in UTF-16; save it as UTF-8",
    b"\xfe\xff": "text in UTF-16; save it as UTF-8",
    b"widemargin-model": "a model file; give the data",
}
#: Bytes that are looked at to tell text from something else.
_SNIFFED_BYTES = 4096
#: Exceptions that decompression raises for a truncated or damaged file.
_DAMAGE = (EOFError, zlib.error, OSError)
#: Integers that float64 holds without rounding.
_EXACT = 2.0**53


class Table(NamedTuple):
    """Rows of a file. ``y`` holds labels or targets, and is None if there are none."""

    X: Any
    y: NDArray[Any] | None
    feature_names: list[str] | None


class Source(NamedTuple):
    """An input: its name for errors, and a function that opens it from the start."""

    name: str
    open: Callable[[], Any]


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    n_features: int | None = None,
    form: str = "auto",
    delimiter: str | None = None,
    kind: str = "classes",
) -> Table:
    """Read a file of rows.

    Parameters
    ----------
    path : path-like
        ``.csv`` or ``.tsv`` (one row a line, a header line if none of its fields is a number),
        ``.npz`` (arrays ``X`` and ``y``, or ``X_train`` and ``y_train``), or anything else as
        svmlight/LIBSVM text; text may be compressed (``.gz``, ``.bz2``). ``"-"`` reads svmlight text
        or CSV from standard input.
    label : str, optional
        Name or number (from 0; negative from the end) of the CSV column with the labels; the last
        one if not given.
    n_features : int, optional
        Width the data must have. A CSV file with exactly as many columns has no labels, unless
        ``label`` names the column.
    form : {"auto", "svmlight", "csv"}, default="auto"
        Format. ``"auto"`` goes by the ending of the file's name, and by the content of standard input.
    delimiter : str, optional
        Separator of the fields of a CSV file; found from the data if not given.
    kind : {"classes", "numbers", "none"}, default="classes"
        What the labels are: classes, the targets of a regression, or nothing that is needed. With
        ``"none"`` the labels are dropped, and a CSV file has none unless ``label`` names the column.

    Returns
    -------
    Table
        The rows. What cannot be read raises ValueError with the file, the line where it is known, and
        what to do.
    """
    source, ending = _find_source(path)
    if form == "auto" and ending == NPZ_ENDING:
        return _with_labels(Table(*read_part(Path(path)), None), kind, source.name)
    try:
        _refuse_binary(source)
        if form == "auto":
            by_name = "csv" if ending in CSV_ENDINGS else "svmlight"
            form = _guess_form(source) if source.name == "standard input" else by_name
        if form == "svmlight":
            return _with_labels(_read_svmlight(source, n_features), kind, source.name)
        with source.open() as stream:
            content = stream.read()
    except _DAMAGE as error:
        raise ValueError(
            f"{source.name}: the file is damaged or incomplete ({error}); restore or download it again"
        ) from error
    table = Table(*parse_csv(content, source.name, label, n_features, delimiter, kind))
    return _with_labels(table, kind, source.name)


def _with_labels(table: Table, kind: str, name: str) -> Table:
    """Return the table with the labels that are needed: none, or none but numbers."""
    if kind == "none":
        return table._replace(y=None)
    if kind == "numbers" and table.y is not None and table.y.dtype.kind not in "biuf":
        raise ValueError(
            f"{name}: the labels are of type {table.y.dtype}, but a regression needs numbers; store "
            "the targets as numbers"
        )
    return table


def _find_source(path: str | os.PathLike[str]) -> tuple[Source, str]:
    """Return the input at a path and its extension, without that of a compression."""
    if os.fspath(path) == STANDARD_INPUT:
        return _hold("standard input", sys.stdin.buffer), ""
    file = Path(path)
    ending = file.suffix.lower()
    if file.is_fifo():
        with file.open("rb") as stream:
            return _hold(str(file), stream), ending
    if not file.exists():
        raise FileNotFoundError(f"{file}: there is no such file")
    if not file.is_file():
        raise ValueError(f"{file}: not a regular file; give the path of a file, or - for a pipe")
    # Opened here, so that a file that may not be read is not taken for a damaged one.
    with file.open("rb"):
        pass
    if ending in _COMPRESSED:
        opener = _COMPRESSED[ending]
        return Source(str(file), lambda: opener(file)), Path(file.stem).suffix.lower()
    return Source(str(file), lambda: file.open("rb")), ending


def _hold(name: str, stream: BinaryIO) -> Source:
    content = stream.read()
    return Source(name, lambda: io.BytesIO(content))


def _refuse_binary(source: Source) -> None:
    with source.open() as stream:
        start = stream.read(_SNIFFED_BYTES)
    for beginning, description in _BINARY.items():
        if start.startswith(beginning):
            raise ValueError(f"{source.name}: {description}")
    if b"\0" in start:
        raise ValueError(
            f"{source.name}: the file holds binary data, not text; convert it to svmlight text, CSV "
            "or npz"
        )
    if not start.strip():
        raise ValueError(f"{source.name}: the file is empty")


def _guess_form(source: Source) -> str:
    """Return the format of text from standard input, by its first line with a pair or a separator."""
    with source.open() as stream:
        for line in stream:
            text = line.partition(b"#")[0]
            if any(part.partition(b":")[0].isdigit() and b":" in part for part in text.split()[1:]):
                return "svmlight"
            if any(separator in text for separator in (b",", b";", b"\t")):
                return "csv"
    raise ValueError(
        f"{source.name}: there are neither index:value pairs nor separated fields; say what it is "
        "with --format svmlight or --format csv"
    )


class _CountedLines:
    """Lines of a stream, counted so that an error can name the line where a parser stopped."""

    def __init__(self, stream: Any) -> None:
        self.n_lines = 0
        self._stream = stream
        # scikit-learn takes objects that can be read; it uses the lines only.
        self.read = stream.read

    def __iter__(self) -> Iterator[bytes]:
        for line in self._stream:
            self.n_lines += 1
            yield line


def _read_svmlight(source: Source, n_features: int | None) -> Table:
    from sklearn.datasets import load_svmlight_file

    with source.open() as stream:
        lines = _CountedLines(stream)
        try:
            X, y = load_svmlight_file(lines, zero_based=False)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"{source.name}, line {lines.n_lines}: not readable as svmlight/LIBSVM text "
                f"({error}); correct the line, or give --format csv if these are separated fields"
            ) from error
    if not len(y):
        raise ValueError(f"{source.name}: the file has no rows")
    _check_svmlight(source, X, y, n_features)
    if n_features is not None:
        X.resize(X.shape[0], n_features)
    integers = np.array_equal(y, np.round(y)) and np.abs(y).max() <= _EXACT
    return Table(X, y.astype(np.int64) if integers else y, None)


def _check_svmlight(source: Source, X: Any, y: NDArray[Any], n_features: int | None) -> None:
    width = X.shape[1] if n_features is None else n_features
    bad_label, bad_value = ~np.isfinite(y), ~np.isfinite(X.data)
    too_far = X.indices >= width
    if bad_label.any():
        row = int(bad_label.argmax())
        problem = f"the label {y[row]} is not a finite number; correct it or remove the line"
    elif bad_value.any():
        row = _find_row(X, bad_value)
        problem = "a value is not a finite number; fill it in or remove the line"
    elif too_far.any():
        row = _find_row(X, too_far)
        problem = (
            f"there is a feature {X.indices[too_far.argmax()] + 1}, but the model has {width} "
            "features; give data with the features that it was trained on"
        )
    else:
        return
    raise ValueError(f"{source.name}, line {_find_line(source, row)}: {problem}")


def _find_row(X: Any, marked: NDArray[np.bool_]) -> int:
    """Return the row of the first stored value that is marked."""
    return int(np.searchsorted(X.indptr, marked.argmax(), side="right")) - 1


def _find_line(source: Source, row: int) -> int:
    """Return the number of the line that holds a row, counting blank lines and comments."""
    with source.open() as stream:
        lines = enumerate(stream, start=1)
        numbers = (number for number, line in lines if line.partition(b"#")[0].strip())
        return next(islice(numbers, row, None))
