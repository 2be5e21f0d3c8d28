"""Checks of the arguments of estimators: numbers, switches and words, with errors that advise."""

import sys
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

#: Largest number that float64 holds.
LARGEST = float(np.finfo(np.float64).max)
#: Names of columns that an error lists.
SHOWN_NAMES = 8


def draw_seed(random_state: Any) -> int:
    """A seed for the generators of a fit."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def is_finite_number(value: Any) -> bool:
    """Whether a value is a number that float64 can hold."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    # Not isfinite, which raises OverflowError for integers beyond float64.
    return is_number and bool(abs(value) <= LARGEST)


def check_number(name: str, value: Any, *, above: float = -np.inf, optional: bool = False) -> None:
    """Refuse anything but a finite number greater than ``above``."""
    if optional and value is None:
        return
    if not is_finite_number(value):
        raise ValueError(f"{name}: {value!r} is not a finite number")
    if value <= above:
        raise ValueError(f"{name}: must be greater than {above:g}, got {value!r}")


def check_integer(name: str, value: Any, *, low: int) -> None:
    """Refuse anything but an integer of at least ``low``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name}: must be an integer of at least {low}, got {value!r}")


def as_floats(name: str, value: Any, wanted: str) -> NDArray[np.float64]:
    """A parameter as an array of float64; ``wanted`` says what to give instead of anything else."""
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: give {wanted}, got {value!r}") from error


def check_columns(
    name: str, columns: Any, n_features: int, feature_names: Any = None
) -> NDArray[np.intp]:
    """Return the numbers of columns that are given by number or by name; all for None."""
    if columns is None:
        return np.arange(n_features)
    given = np.asarray(columns)
    if given.ndim == 1 and given.size and all(isinstance(column, str) for column in columns):
        return _find_names(name, columns, feature_names)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"{name}: give a list of numbers or names of columns, got {columns!r}")
    if given.size and not 0 <= given.min() <= given.max() < n_features:
        raise ValueError(f"{name}: columns are numbered 0 to {n_features - 1}, got {columns!r}")
    return given.astype(np.intp)


def _find_names(name: str, columns: Any, feature_names: Any) -> NDArray[np.intp]:
    """Return the positions of some names among those of the training data."""
    if feature_names is None:
        raise ValueError(
            f"{name}: the training data had no names of columns; give numbers, or fit a DataFrame"
        )
    positions = {known: number for number, known in enumerate(feature_names)}
    unknown = [column for column in columns if column not in positions]
    if unknown:
        known = [str(column) for column in feature_names[:SHOWN_NAMES]]
        more = ", ..." if len(feature_names) > SHOWN_NAMES else ""
        raise ValueError(
            f"{name}: the training data had no columns {unknown!r}; they had {', '.join(known)}{more}"
        )
    return np.array([positions[column] for column in columns], np.intp)


def check_flag(name: str, value: Any) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: must be True or False, got {value!r}")


def check_verbose(value: Any) -> None:
    """Refuse anything but an integer that is not negative, or a switch."""
    if not isinstance(value, bool | np.bool_):
        check_integer("verbose", value, low=0)


def check_callback(value: Any) -> None:
    """Refuse anything but a function, or nothing."""
    if value is not None and not callable(value):
        raise ValueError(f"callback: {value!r} cannot be called; give a function, or None")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse anything but one of the given words."""
    if value not in choices:
        raise ValueError(f"{name}: must be one of {', '.join(map(repr, choices))}, got {value!r}")


def find_user_level() -> int:
    """Return the ``stacklevel`` with which the caller's warning names the line of the user.

    It is that of the first frame outside this package, for warnings that several ways lead to.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("widemargin."):
        frame, level = frame.f_back, level + 1
    return level
