"""Declarations of what model files hold, with one checked reader and one writer for all of them.

An estimator's schema is a tuple of `Field` for its arrays and a tuple of `Entry` for the plain values
of its header. A dimension of a shape is a number or a name. `read_fields` binds a name to the size it
meets first and requires that size wherever the name occurs again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.files.container import pack_csr, require, unpack_csr
from widemargin.kernels import Kernel

#: Types of features, which estimators keep in the type of the training data.
FLOATS = (np.float32, np.float64)


@dataclass(frozen=True)
class Context:
    """Sizes and kernel that the shapes and rules of fields refer to.

    Attributes
    ----------
    sizes : dict of str to int
        Sizes of named dimensions; `read_fields` adds those it binds.
    kernel : Kernel or None
        The kernel of the model, if it has one.
    """

    sizes: dict[str, int] = field(default_factory=dict)
    kernel: Kernel | None = None


#: Returns what is wrong with the values of an array, or an empty text.
Rule = Callable[[NDArray[Any], Context], str]


def finite(values: NDArray[Any], context: Context) -> str:
    """Allow finite numbers."""
    return "" if np.isfinite(values).all() else "holds NaN or infinity"


def anything(values: NDArray[Any], context: Context) -> str:
    """Allow all numbers, for figures that a model of another library lacks and stores as NaN."""
    return ""


def in_domain(values: NDArray[Any], context: Context) -> str:
    """Allow finite features that the kernel is defined for."""
    kernel = context.kernel
    problem = finite(values, context)
    if not problem and kernel is not None and kernel.needs_nonnegative and (values < 0).any():
        return f"holds negative values, which the {kernel.name!r} kernel refuses"
    return problem


def at_least(low: int) -> Rule:
    """Return the rule that allows numbers from ``low`` on."""

    def check(values: NDArray[Any], context: Context) -> str:
        return "" if (values >= low).all() else f"holds a number below {low}"

    return check


def below(size: str) -> Rule:
    """Return the rule that allows positions in a dimension of the named size."""

    def check(values: NDArray[Any], context: Context) -> str:
        inside = (values >= 0).all() and (values < context.sizes[size]).all()
        return "" if inside else f"holds a number that is not a position among {size}"

    return check


def in_unit_interval(values: NDArray[Any], context: Context) -> str:
    """Numbers from zero to one."""
    return "" if ((values >= 0) & (values <= 1)).all() else "holds a number that is not from 0 to 1"


def positive(values: NDArray[Any], context: Context) -> str:
    """Allow finite numbers above zero."""
    return finite(values, context) or (
        "" if (values > 0).all() else "holds a number of zero or less"
    )


@dataclass(frozen=True)
class Field:
    """One array of a model file.

    Attributes
    ----------
    name : str
        Name of the array in the file.
    dtype : type or tuple of type
        Its type, or the types it may have.
    shape : tuple of int or str
        Its dimensions: numbers, or names of sizes.
    rule : callable
        Says what is wrong with its values.
    attribute : str
        Where the object that is saved keeps it; a name with dots leads through attributes. Empty for
        the name with an underscore behind it.
    may_be_sparse : bool
        Whether the file may hold a CSR matrix in its place.
    may_be_empty : bool
        Whether dimensions may be zero.
    is_optional : bool
        Whether a file may lack it.
    or_number : bool
        Whether an estimator with a single value keeps a number in place of an array.
    """

    name: str
    dtype: type | tuple[type, ...]
    shape: tuple[int | str, ...]
    rule: Rule = finite
    attribute: str = ""
    may_be_sparse: bool = False
    may_be_empty: bool = False
    is_optional: bool = False
    or_number: bool = False

    @property
    def path(self) -> str:
        """Where the object that is saved keeps the array."""
        return self.attribute or f"{self.name}_"


@dataclass(frozen=True)
class Entry:
    """One plain value in the header of a model file: its name and whether a value is allowed."""

    name: str
    allows: Callable[[Any], bool]


def is_positive_integer(value: Any) -> bool:
    """Tell whether a JSON value is an integer above zero; true and false are not."""
    return type(value) is int and value > 0


def is_width(value: Any) -> bool:
    """Tell whether a JSON value is a number of features that a row in memory can have."""
    return is_positive_integer(value) and value <= np.iinfo(np.intp).max // 8


def is_flag(value: Any) -> bool:
    """Tell whether a JSON value is true or false."""
    return type(value) is bool


def one_of(choices: Sequence[str]) -> Callable[[Any], bool]:
    """Return a function that tells whether a JSON value is one of some texts."""
    return lambda value: isinstance(value, str) and value in choices


def read_entries(entries: Sequence[Entry], meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a header by name, refusing a file that lacks one or has a wrong one."""
    for entry in entries:
        good = entry.name in meta and entry.allows(meta[entry.name])
        require(good, f"entry {entry.name!r} is missing or wrong")
    return {entry.name: meta[entry.name] for entry in entries}


def read_fields(
    fields: Sequence[Field], arrays: Mapping[str, Any], context: Context
) -> dict[str, Any]:
    """Return the arrays of a file by name, refusing a file in which one is missing or wrong.

    Optional arrays that the file lacks are left out. Sizes that are met first are added to
    ``context.sizes``.
    """
    found = {}
    for each in fields:
        array = arrays.get(each.name)
        if each.may_be_sparse and f"{each.name}_data" in arrays:
            array = unpack_csr(each.name, arrays)
        if array is None and each.is_optional:
            continue
        require(array is not None, f"array {each.name!r} is missing")
        _check_array(each, array, context)
        found[each.name] = array
    return found


def _check_array(each: Field, array: Any, context: Context) -> None:
    types = each.dtype if isinstance(each.dtype, tuple) else (each.dtype,)
    require(array.dtype in types, f"array {each.name!r} has the wrong type")
    fits = len(array.shape) == len(each.shape)
    fits = fits and (each.may_be_empty or 0 not in array.shape)
    require(fits, f"array {each.name!r} has the wrong shape")
    for size, declared in zip(array.shape, each.shape, strict=True):
        is_name = isinstance(declared, str)
        expected = context.sizes.setdefault(str(declared), size) if is_name else declared
        differs = f": {declared} is {expected!s:.20}, not {size}" if is_name else ""
        require(size == expected, f"array {each.name!r} has the wrong shape{differs}")
    problem = each.rule(array.data if sparse.issparse(array) else array, context)
    require(not problem, f"array {each.name!r} {problem}")


def write_fields(fields: Sequence[Field], source: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays that a file stores of an object, which `read_fields` reads back."""
    arrays: dict[str, NDArray[Any]] = {}
    for each in fields:
        if each.is_optional and getattr(source, each.path, None) is None:
            continue
        value = attrgetter(each.path)(source)
        if sparse.issparse(value):
            arrays |= pack_csr(each.name, value)
        else:
            dtype = None if isinstance(each.dtype, tuple) else each.dtype
            arrays[each.name] = np.atleast_1d(np.asarray(value, dtype))
    return arrays


def set_attributes(model: Any, fields: Sequence[Field], found: Mapping[str, Any]) -> None:
    """Give a model the arrays that were read, under the names from which they were written."""
    for each in fields:
        if each.name in found:
            array = found[each.name]
            is_number = each.or_number and len(array) == 1
            setattr(model, each.path, array[0].item() if is_number else array)
