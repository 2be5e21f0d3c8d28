"""Options of ``widemargin train``: one for each parameter of an estimator that text can hold."""

import argparse
from collections.abc import Callable
from typing import Any

import widemargin
from widemargin.cli.options import ESTIMATORS
from widemargin.parameters import find_choices, find_types

#: Parameters without an option: a command fits once, ``--quiet`` stands for ``verbose``, and some are
#: there for scripts written for scikit-learn only.
_LEFT_OUT = {"verbose", "warm_start", "shrinking", "cache_size", "probability"}
#: Parameters that are switches on the command line, although they may also be words.
_SWITCHES = {"fit_intercept"}
#: Further help of some options.
_HELP = {
    "C": "number or scale",
    "gamma": "number, scale or auto",
    "memory": "for example '2 GB'",
    "n_basis": "number, share, '4 kB' or auto",
    "candidates": "number, share, all or auto",
    "class_weight": "balanced",
}


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add an option for each parameter of the estimators that is a number, a word or a switch."""
    classes = [getattr(widemargin, name) for name in ESTIMATORS]
    types = [find_types(cls) for cls in classes]
    for name in sorted(set().union(*types) - _LEFT_OUT):
        kinds = set().union(*(found.get(name, set()) for found in types))
        if name == "random_state":
            kinds = {int}
        if not kinds:
            continue
        text = _describe(name, [cls for cls in classes if name in cls().get_params(deep=False)])
        if kinds == {bool} or name in _SWITCHES:
            parser.add_argument(
                *_flags(name), action=argparse.BooleanOptionalAction, default=None, help=text
            )
        else:
            parser.add_argument(*_flags(name), type=_make_reader(kinds), default=None, help=text)


def take_parameters(args: argparse.Namespace, estimator: str) -> dict[str, Any]:
    """Return the parameters that were given, refusing those that the estimator does not have."""
    by_class = {
        name: set(getattr(widemargin, name)().get_params(deep=False)) for name in ESTIMATORS
    }
    names = set().union(*by_class.values()) - _LEFT_OUT
    given = {name: vars(args)[name] for name in sorted(names) if vars(args).get(name) is not None}
    foreign = sorted(set(given) - by_class[estimator])
    if foreign:
        owners = [name for name in ESTIMATORS if foreign[0] in by_class[name]]
        raise ValueError(
            f"--{foreign[0].replace('_', '-')}: {estimator} has no such parameter; leave it out, "
            f"or add --estimator {' or '.join(owners)}"
        )
    return given


def _flags(name: str) -> list[str]:
    """Return the names of an option: with hyphens, and with the underscores of the parameter."""
    return list(dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"]))


def _describe(name: str, owners: list[type]) -> str:
    """Return the help of an option: its words, and the estimators that have it if not all do."""
    words = {word: None for cls in owners for word in find_choices(cls).get(name, ()) if word}
    parts = [_HELP.get(name, ""), ", ".join(map(str, words))]
    if len(owners) < len(ESTIMATORS):
        parts.append(f"of {', '.join(cls.__name__ for cls in owners)}")
    return "; ".join(part for part in parts if part)


def _make_reader(kinds: set[type]) -> Callable[[str], Any]:
    """Return a function that reads a number if there may be one, and else a word if it may be."""
    numbers = [kind for kind in (int, float) if kind in kinds]
    if str not in kinds and len(numbers) == 1:
        return numbers[0]

    def read(text: str) -> Any:
        for kind in numbers:
            try:
                return kind(text)
            except ValueError:
                continue
        if str not in kinds:
            raise ValueError(text)
        return text

    return read
