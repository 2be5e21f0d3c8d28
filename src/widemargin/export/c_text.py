"""Text of C files: numbers, arrays and names, and the bytes that they take."""

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
#: Keywords of C and C++ that are not keywords of Python.
RESERVED = {
    "auto", "bool", "case", "char", "const", "default", "do", "double", "enum", "extern", "float",
    "goto", "inline", "int", "long", "main", "register", "short", "signed", "sizeof", "static",
    "struct", "switch", "typedef", "union", "unsigned", "void", "volatile",
}  # fmt: skip


@dataclass
class Program:
    """A C file that is being written.

    In all texts ``@@`` stands for the prefix of macros, and ``@`` for the prefix of other names and
    an underscore.

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
        """Add a constant array in row-major order."""
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
        """Return text with the prefix in place of ``@@`` and ``@``."""
        return text.replace("@@", self.prefix.upper()).replace("@", f"{self.prefix}_")


def write_numbers(values: NDArray[Any]) -> str:
    """Return numbers as text, several to a line."""
    words = [write_float(v) if values.dtype.kind == "f" else str(int(v)) for v in values]
    return textwrap.fill(
        ", ".join(words), 100, initial_indent="    ", subsequent_indent="    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def write_float(value: Any) -> str:
    """Return a number as a float constant of C."""
    with np.errstate(over="ignore"):
        text = str(np.float32(value))
    if not np.isfinite(float(text)):
        raise ValueError(
            f"model: it contains {float(value):g}, which float32 cannot hold; scale the features"
        )
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def make_prefix(stem: str) -> str:
    """Return a valid C name that begins like the name of a file."""
    word = re.sub(r"\W", "_", stem, flags=re.ASCII)
    if not re.match(r"[A-Za-z]", word):
        word = f"model_{word}"
    return f"{word}_model" if word in RESERVED or keyword.iskeyword(word) else word
