"""Text of C files: numbers, arrays, names, and the memory they need."""

import keyword
import re
import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Types of C by those of NumPy.
C_TYPES = {
    "float32": "float", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint16": "uint16_t", "uint32": "uint32_t",
}  # fmt: skip
#: Words that a C or C++ compiler keeps for itself, besides those of Python.
RESERVED = {
    "auto", "bool", "case", "char", "const", "default", "do", "double", "enum", "extern", "float",
    "goto", "inline", "int", "long", "main", "register", "short", "signed", "sizeof", "static",
    "struct", "switch", "typedef", "union", "unsigned", "void", "volatile",
}  # fmt: skip


@dataclass
class Program:
    """A C file in the making.

    In all texts ``@@`` stands for the prefix of macros, and ``@`` for that of other names, which ends
    in an underscore.

    Attributes
    ----------
    prefix : str
        Beginning of every name.
    arrays, functions : list of str
        Parts of the file.
    flash : int
        Bytes of the arrays.
    stack : int
        Bytes of the local arrays.
    """

    prefix: str
    arrays: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    flash: int = 0
    stack: int = 0

    def array(self, name: str, values: NDArray[Any]) -> None:
        """Add a constant array, written row by row."""
        # C has no empty arrays.
        values = np.ascontiguousarray(values) if np.size(values) else np.zeros(1, values.dtype)
        kind = C_TYPES[values.dtype.name]
        self.flash += values.nbytes
        body = write_numbers(values.ravel())
        self.arrays.append(f"static const {kind} @{name}[{values.size}] = {{\n{body}\n}};\n")

    def function(self, text: str) -> None:
        """Add a function."""
        self.functions.append(textwrap.dedent(text).strip("\n") + "\n")

    def expand(self, text: str) -> str:
        """Text with the prefix in place."""
        return text.replace("@@", self.prefix.upper()).replace("@", f"{self.prefix}_")


def write_numbers(values: NDArray[Any]) -> str:
    """Numbers, several to a line."""
    words = [write_float(v) if values.dtype.kind == "f" else str(int(v)) for v in values]
    return textwrap.fill(
        ", ".join(words), 100, initial_indent="    ", subsequent_indent="    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def write_float(value: Any) -> str:
    """A number as float constant of C."""
    with np.errstate(over="ignore"):
        text = str(np.float32(value))
    if not np.isfinite(float(text)):
        raise ValueError(
            f"model: a number of it is {float(value):g}, which float32 cannot hold; scale the features"
        )
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def make_prefix(stem: str) -> str:
    """A name for C made of a file's."""
    word = re.sub(r"\W", "_", stem, flags=re.ASCII)
    if not re.match(r"[A-Za-z]", word):
        word = f"model_{word}"
    return f"{word}_model" if word in RESERVED or keyword.iskeyword(word) else word
