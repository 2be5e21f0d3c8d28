"""Damaged and unusual data files, through the command's reader and the command itself."""

import bz2
import contextlib
import gzip
import io
import warnings

import numpy as np
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from tests.fuzz.cases import Refused, require
from widemargin.cli.command import main
from widemargin.files.data_files import read_table

#: Texts that stand in for a field or a piece of a line.
ODD_TEXTS = (
    "", "nan", "inf", "-inf", "1e999", "1e400", "9" * 400, "0x10", "1_000", "ä", "1,5", "a:b", "3:",
    ":3", "0:1", "-1:2", "99999999999999999999:1", "2147483648:1", "#", "\x00", '"', "'", "qid:1",
    " ", "\t", "True", "1e-400", "\u0661", "--", "1 2", ";",
)  # fmt: skip


def run(case):
    """Write a sound file of some format, damage it in some way, and read it."""
    rng = case.rng
    X = np.round(rng.normal(size=(int(case.power(0.5, 1.5)), case.choose(1, 2, 5))), 3)
    y = np.arange(len(X)) % 2
    kind = case.choose(*FORMATS)
    damage = case.choose("none", "bytes", "cut", "lines", "text")
    case.note("format", kind)
    case.note("damage", damage)
    name, content = FORMATS[kind](case, X, y)
    content = DAMAGES[damage](case, content)
    path = case.folder / name
    path.write_bytes(content)
    case.note("content", repr(content[:200]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.happens(0.2):
            _train(path)
        table = _read(path)
    _check(table)
    if damage == "none":
        require(kind != "foreign", "foreign", f"read as rows and columns {table.X.shape}")
        _check_content(table, X, y)
    return "right"


def _read(path):
    """The table, or a refusal that names the file in one line."""
    try:
        return read_table(path)
    except (ValueError, OSError) as error:
        documented = type(error) is ValueError or isinstance(error, OSError)
        if not (documented and path.name in str(error)):
            raise
        require("\n" not in str(error), "message", f"several lines: {error}")
        raise Refused(str(error)) from error


def _train(path):
    """The command either writes a model or says in plain words why not."""
    out, told = io.StringIO(), io.StringIO()
    command = ["train", str(path), "-o", str(path.with_suffix(".wm")), "--quiet"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        code = main(command)
    said = told.getvalue()
    require(code in (0, 2), "exit code", f"the command ends with {code}: {said}")
    clear = code == 0 or said.startswith("widemargin: ")
    require(clear and "Traceback" not in said, "command", f"unclear: {said}")


def _check(table):
    """A table that a classifier can be given: two dimensions, a label for each row."""
    require(table.X.ndim == 2 and table.X.shape[0] > 0, "table", f"of shape {table.X.shape}")
    require(table.X.dtype.kind in "fiub", "table", f"values of type {table.X.dtype}")
    if table.y is not None:
        require(table.y.shape == (table.X.shape[0],), "table", f"labels {table.y.shape}")
        empty = table.y.dtype.kind in "UO" and (table.y == "").any()
        require(not empty, "empty label", "an empty label becomes a class")


def _check_content(table, X, y):
    """The table holds the numbers that were written."""
    found = table.X.toarray() if sparse.issparse(table.X) else table.X
    require(found.shape == X.shape, "content", f"{found.shape} instead of {X.shape}")
    require(np.allclose(found, X, rtol=1e-12), "content", "values differ")
    if table.y is not None:
        same = np.array_equal(table.y.astype(str), y.astype(str))
        require(same, "content", f"labels {table.y[:3]} instead of {y[:3]}")


#: Without the time of day, so that the seed determines the file.
PACKINGS = {".gz": lambda content: gzip.compress(content, mtime=0), ".bz2": bz2.compress}


def _write_svmlight(case, X, y):
    stream = io.BytesIO()
    # All features of the first row are stored, so that the width of the file is that of the data.
    X[0] = np.where(X[0] == 0, 1.0, X[0])
    dump_svmlight_file(X, y, stream, zero_based=False)
    content = stream.getvalue()
    if case.happens(0.2):
        content = content.replace(b"\n", b"\r\n")
    packing = case.choose("", "", *PACKINGS)
    if packing:
        content = PACKINGS[packing](content)
    return f"data.svm{packing}", content


def _write_csv(case, X, y, *, delimiter=",", decimal=".", ending=".csv", encoding="utf-8"):
    rows = [[str(v).replace(".", decimal) for v in row] for row in X.tolist()]
    rows = [[*row, str(label)] for row, label in zip(rows, y, strict=True)]
    if case.happens(0.6):
        rows.insert(0, [*(f"größe{j}" for j in range(X.shape[1])), "y"])
    text = "\n".join(delimiter.join(row) for row in rows) + "\n"
    return f"data{ending}", text.encode(encoding)


def _write_clear_csv(case, X, y):
    ending, delimiter = case.choose((".csv", ","), (".tsv", "\t"))
    encoding = case.choose("utf-8", "utf-8-sig")
    return _write_csv(case, X, y, delimiter=delimiter, ending=ending, encoding=encoding)


def _write_unclear_csv(case, X, y):
    """Columns between semicolons, perhaps with decimal commas: one column for a naive reader."""
    decimal = case.choose(".", ",")
    return _write_csv(case, X, y, delimiter=";", decimal=decimal)


def _write_encoded_csv(case, X, y):
    """An encoding that the file does not announce."""
    encoding = case.choose("latin-1", "utf-16", "utf-16-le", "cp1252")
    return _write_csv(case, X, y, encoding=encoding)


def _write_npz(case, X, y):
    stream = io.BytesIO()
    names = case.choose(("X", "y"), ("X_train", "y_train"))
    save = case.choose(np.savez, np.savez_compressed)
    save(stream, **dict(zip(names, (X, y), strict=True)))
    return "data.npz", stream.getvalue()


def _write_foreign(case, X, y):
    """Files of other programs under a familiar name."""
    content = case.choose(b"PAR1\x15\x04" + bytes(40), b"PK\x03\x04", b"\x1f\x8b\x08", b"", b"\n\n")
    names = ("data.csv", "data.svm", "data.npz", "data.svm.gz", "data.parquet")
    return case.choose(*names), content


FORMATS = {
    "svmlight": _write_svmlight,
    "csv": _write_clear_csv,
    "semicolons": _write_unclear_csv,
    "encodings": _write_encoded_csv,
    "npz": _write_npz,
    "foreign": _write_foreign,
}


def _alter_bytes(case, content):
    content = bytearray(content)
    for _ in range(int(case.power(0, 1)) if content else 0):
        content[case.rng.integers(len(content))] = case.rng.integers(256)
    return bytes(content)


def _cut(case, content):
    return content[: case.rng.integers(len(content) + 1)]


def _alter_lines(case, content):
    lines = content.split(b"\n")
    for _ in range(case.choose(1, 1, 3)):
        at = int(case.rng.integers(len(lines)))
        lines[at] = case.choose(b"", lines[at] + lines[at], lines[0], b" " + lines[at])
    return b"\n".join(lines)


def _plant_text(case, content):
    """Put an odd text in the place of some field."""
    separator = case.choose(b",", b" ", b"\n")
    pieces = content.split(separator)
    pieces[case.rng.integers(len(pieces))] = case.choose(*ODD_TEXTS).encode()
    return separator.join(pieces)


DAMAGES = {
    "none": lambda case, content: content,
    "bytes": _alter_bytes,
    "cut": _cut,
    "lines": _alter_lines,
    "text": _plant_text,
}
