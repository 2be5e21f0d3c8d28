"""Types of command line arguments."""

import argparse
from collections.abc import Callable, Iterable


def list_of(names: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """Make a parser of comma-separated names."""

    def parse_names(text: str) -> tuple[str, ...]:
        chosen = tuple(text.split(","))
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(names)}")
        return chosen

    return parse_names
