"""CSV text as numbers and labels: separator, decimal comma and header are found from the data."""

import csv
import io
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Separators that are looked for, the usual one first, with the name that an option has for them.
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t"}
#: Rows, and characters at most, that decide about the separator.
_SAMPLED_ROWS = 200
_HEAD_CHARACTERS = 2**22
_DECIMAL_COMMA = re.compile(r"\s*[-+]?[0-9]*,[0-9]+([eE][-+]?[0-9]+)?\s*")
_CUT_DECIMAL = re.compile(r"[0-9]+[;\t]")
# Not \s, which is also the separators 0x1c to 0x1f: int does not take these.
_INTEGER = re.compile(r"[ \t\r]*[-+]?[0-9]{1,18}[ \t\r]*")


class _Rows(NamedTuple):
    """Rows of a file as texts, with the line each one ends on."""

    header: list[str] | None
    fields: list[list[str]]
    lines: list[int]

    @property
    def width(self) -> int:
        return len(self.fields[0]) if self.fields else 0


@dataclass(frozen=True)
class _LabelColumn:
    """Which column holds the labels: the one with a name or number, or else the last, or none."""

    name: str | None
    n_features: int | None
    kind: str

    def is_absent(self, rows: _Rows) -> bool:
        """Return whether all columns are features."""
        return self.name is None and (self.kind == "none" or self.n_features == rows.width)

    def find(self, rows: _Rows) -> int | None:
        """Return the column, or None if there is no such column."""
        if self.name is None:
            return rows.width - 1
        if rows.header is not None and self.name in rows.header:
            return rows.header.index(self.name)
        is_number = self.name.removeprefix("-").isdecimal()
        inside = is_number and -rows.width <= int(self.name) < rows.width
        return int(self.name) % rows.width if inside else None


def parse_csv(
    content: bytes,
    name: str,
    label: str | None = None,
    n_features: int | None = None,
    delimiter: str | None = None,
    kind: str = "classes",
) -> tuple[NDArray[np.float64], NDArray[Any] | None, list[str] | None]:
    """Read CSV text in UTF-8.

    Parameters
    ----------
    content : bytes
        The text. A decimal comma is understood where the separator is not a comma.
    name : str
        Name of the file for errors.
    label : str, optional
        Name or number of the column with the labels; the last one if not given.
    n_features : int, optional
        If the file has exactly as many columns and ``label`` is not given, it has no labels.
    delimiter : str, optional
        Separator; found from the first rows if not given.
    kind : {"classes", "numbers", "none"}, default="classes"
        What the labels are. With ``"none"`` a file has no labels unless ``label`` names the column.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
        Finite numbers.
    y : ndarray of shape (n_rows,) or None
        Labels: numbers if they are to be numbers, else integers if all are, else texts.
    feature_names : list of str or None
        Names from the header, if there is one.
    """
    text = _decode(content, name)
    column = _LabelColumn(label, n_features, kind)
    if delimiter is None:
        delimiter = _find_delimiter(text, name, column)
    rows = _read_rows(text, delimiter, name)
    _check_widths(rows, name, column)
    if column.is_absent(rows):
        return _to_numbers(rows, None, delimiter, name), None, rows.header
    at = column.find(rows)
    if at is None:
        raise ValueError(
            f"label: {name} has no column {label!r:.80}; give a name of its header or a number"
        )
    names = None if rows.header is None else rows.header[:at] + rows.header[at + 1 :]
    X = _to_numbers(rows, at, delimiter, name)
    if kind == "numbers":
        return X, _to_targets(rows, at, delimiter, name), names
    return X, _to_labels(rows, at, name), names


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name}, line {line}: the byte 0x{content[error.start]:02x} is not UTF-8; save the file "
            "as UTF-8, for example with iconv -f latin1 -t utf-8"
        ) from error


def _read_rows(text: str, delimiter: str, name: str, n_rows: int | None = None) -> _Rows:
    """Split text into rows and fields, without blank rows."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    fields, lines = [], []
    try:
        for row in islice((row for row in reader if row), n_rows):
            fields.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(
            f"{name}, line {reader.line_num}: not readable as CSV ({error}); look for a quotation "
            "mark that is not closed"
        ) from error
    header = None
    if fields and all(_parse_number(field, delimiter) is None for field in fields[0]):
        header = fields.pop(0)
        lines.pop(0)
    return _Rows(header, fields, lines)


def _find_delimiter(text: str, name: str, column: _LabelColumn) -> str:
    """Return the only separator that makes the first rows numbers, or else the most likely one."""
    head = _take_head(text)
    sampled = {}
    for delimiter in DELIMITERS.values():
        # By a wrong separator a row may not be readable at all.
        with suppress(ValueError):
            sampled[delimiter] = _read_rows(head, delimiter, name, _SAMPLED_ROWS)
    good = [d for d, rows in sampled.items() if _is_table(rows, d, column)]
    if len(good) > 1 or (good == [","] and _cuts_decimals(sampled[","], column)):
        raise ValueError(
            f"{name}, line {sampled[good[0]].lines[0]}: the fields can be separated in more than one "
            f"way; say which with --delimiter {', '.join(DELIMITERS)}"
        )
    # If no separator gives numbers, the error for the first field that is no number helps more.
    return good[0] if good else max(sampled, key=lambda d: _evenness(sampled[d]), default=",")


def _take_head(text: str) -> str:
    """Return the complete lines at the beginning of a text, or all of it if its first line is long."""
    end = text.rfind("\n", 0, _HEAD_CHARACTERS)
    return text if len(text) <= _HEAD_CHARACTERS or end < 0 else text[: end + 1]


def _evenness(rows: _Rows) -> float:
    """Return the share of rows with the most frequent number of fields; zero if that number is one."""
    width, count = Counter(map(len, rows.fields)).most_common(1)[0] if rows.fields else (1, 0)
    return count / len(rows.fields) if width > 1 else 0.0


def _is_table(rows: _Rows, delimiter: str, column: _LabelColumn) -> bool:
    """Return whether all rows have several fields, which are numbers but for the labels."""
    if _evenness(rows) < 1.0 or (rows.header is not None and len(rows.header) != rows.width):
        return False
    has_labels = not column.is_absent(rows)
    at = column.find(rows) if has_labels else None
    if has_labels and at is None:
        return False
    # Labels that are to be numbers tell separators apart as features do.
    places = _features(rows, None if column.kind == "numbers" else at)
    numbers = (_parse_number(row[place], delimiter) for row in rows.fields for place in places)
    return None not in numbers


def _cuts_decimals(rows: _Rows, column: _LabelColumn) -> bool:
    """Return whether labels begin like the second half of a decimal, in rows such as ``1,5;0``."""
    at = column.find(rows)
    n_cut = sum(1 for row in rows.fields if at is not None and _CUT_DECIMAL.match(row[at]))
    return 2 * n_cut >= len(rows.fields)


def _features(rows: _Rows, at: int | None) -> list[int]:
    """Return the columns of features."""
    return [column for column in range(rows.width) if column != at]


def _check_widths(rows: _Rows, name: str, column: _LabelColumn) -> None:
    if not rows.fields:
        raise ValueError(f"{name}: the file has no rows of data")
    if rows.header is not None and len(rows.header) != rows.width:
        raise ValueError(
            f"{name}, line {rows.lines[0]}: {rows.width} fields, but the header has "
            f"{len(rows.header)}; give every column one name, or say with --delimiter how fields are "
            "separated"
        )
    for line, row in zip(rows.lines, rows.fields, strict=True):
        if len(row) != rows.width:
            raise ValueError(
                f"{name}, line {line}: {len(row)} fields instead of {rows.width}; correct the line, "
                "or say with --delimiter how fields are separated"
            )
    if rows.width == 1 and not column.is_absent(rows):
        raise ValueError(
            f"{name}, line {rows.lines[0]}: there is only one column; separate the fields by commas, "
            "semicolons or tabs"
        )


def _to_labels(rows: _Rows, at: int, name: str) -> NDArray[Any]:
    """Return the labels as integers if all are integers, else as texts."""
    texts = [row[at] for row in rows.fields]
    for line, text in zip(rows.lines, texts, strict=True):
        if not text.strip():
            raise ValueError(
                f"{name}, line {line}: the label is empty; fill it in or remove the row"
            )
    return np.array([int(t) for t in texts] if all(map(_INTEGER.fullmatch, texts)) else texts)


def _to_targets(rows: _Rows, at: int, delimiter: str, name: str) -> NDArray[np.float64]:
    """Return the labels as finite numbers."""
    numbers = [_parse_number(row[at], delimiter) for row in rows.fields]
    for line, row, number in zip(rows.lines, rows.fields, numbers, strict=True):
        if number is None or not isfinite(number):
            raise ValueError(
                f"{name}, line {line}: the target {row[at]!r:.80} is not a finite number, as a "
                "regression needs; correct it, remove the row, or say with --label which column holds "
                "the targets"
            )
    return np.array(numbers, np.float64)


def _to_numbers(rows: _Rows, at: int | None, delimiter: str, name: str) -> NDArray[np.float64]:
    """Return the fields as finite numbers, without column ``at``."""
    fields = rows.fields if at is None else [row[:at] + row[at + 1 :] for row in rows.fields]
    if delimiter != "," and any("," in field for row in fields for field in row):
        _refuse_points(rows, at, name)
        fields = [[field.replace(",", ".") for field in row] for row in fields]
    try:
        X = np.array(fields, dtype=np.float64)
    except ValueError as error:
        raise _explain_field(rows, at, delimiter, name) from error
    if not np.isfinite(X).all():
        raise _explain_field(rows, at, delimiter, name)
    return X


def _refuse_points(rows: _Rows, at: int | None, name: str) -> None:
    """Refuse decimal points beside decimal commas: one of them may separate thousands."""
    for line, row in zip(rows.lines, rows.fields, strict=True):
        for column in _features(rows, at):
            if "." in row[column]:
                raise ValueError(
                    f"{name}, line {line}: {row[column]!r:.80} has a point, but other numbers have a "
                    "comma; write all decimals with a point, and do not separate thousands"
                )


def _explain_field(rows: _Rows, at: int | None, delimiter: str, name: str) -> ValueError:
    """Return the error for the first field that is not a finite number."""
    line, column, text = next(
        (line, column, row[column])
        for line, row in zip(rows.lines, rows.fields, strict=True)
        for column in _features(rows, at)
        if (number := _parse_number(row[column], delimiter)) is None or not isfinite(number)
    )
    if not text.strip():
        problem = "is empty; fill it in or remove the row"
    elif _parse_number(text, delimiter) is not None:
        problem = "is not a finite number; fill it in or remove the row"
    elif _DECIMAL_COMMA.fullmatch(text):
        problem = "has a comma; write decimals with a point, and do not separate thousands"
    elif any(separator in text for separator in DELIMITERS.values()):
        problem = "is not a number; say with --delimiter how fields are separated"
    else:
        problem = "is not a number; encode categories as numbers first"
    where = column if rows.header is None else repr(rows.header[column])
    return ValueError(f"{name}, line {line}: {text!r:.80} in column {where} {problem}")


def _parse_number(text: str, delimiter: str) -> float | None:
    """Return a field as number; a comma is a decimal comma where it does not separate fields."""
    if delimiter != "," and _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return None
