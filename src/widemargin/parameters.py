"""Parameters as the classes of estimators declare them, for checks, the command line and tests.

The signature of an estimator declares types and defaults. The attribute ``_choices`` of a class
declares the words that a parameter may be; a class has the declarations of the classes above it too.
"""

from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from widemargin.arguments import check_choice

#: Words that parameters may be, by parameter.
Choices = Mapping[str, tuple[Any, ...]]
#: Types that an option of the command line can have.
SIMPLE_TYPES = (bool, int, float, str)


def find_choices(cls: type) -> dict[str, tuple[Any, ...]]:
    """Return the words that the parameters of an estimator class may be, by parameter."""
    choices: dict[str, tuple[Any, ...]] = {}
    for base in reversed(cls.__mro__):
        choices |= vars(base).get("_choices", {})
    return choices


def check_choices(estimator: Any) -> None:
    """Refuse parameters that are none of the words that the class of the estimator declares."""
    old_words = getattr(estimator, "_old_words", {})
    for name, choices in find_choices(type(estimator)).items():
        value = getattr(estimator, name)
        if value not in old_words.get(name, ()):
            check_choice(name, value, choices)


def find_types(cls: type) -> dict[str, set[type]]:
    """Return the simple types that each parameter of an estimator class may have."""
    hints = get_type_hints(vars(cls)["__init__"])
    hints.pop("return")
    return {
        name: {kind for kind in (get_args(hint) or (hint,)) if kind in SIMPLE_TYPES}
        for name, hint in hints.items()
    }
