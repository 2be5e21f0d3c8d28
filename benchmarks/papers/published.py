"""What the papers print: one YAML file a table in ``published/``."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "published"
Published = dict[str, Any]


@cache
def read_published(name: str) -> Published:
    """Read a table, such as ``"dcsvm-table-3"``, or the figures of a paper, ``"dcsvm-figures"``."""
    published: Published = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return published


def read_claim(name: str) -> str:
    """What a paper says a figure shows, or states; ``name`` is such as ``"dcsvm-figure-1"``."""
    paper, kind, number = name.split("-")
    return str(read_published(f"{paper}-{kind}s")["claim"][number])


def read_stated(name: str) -> list[dict[str, Any]]:
    """Numbers that a paper states about a figure; ``name`` is such as ``"dcsvm-figure-1"``."""
    paper, kind, number = name.split("-")
    return [row for row in read_published(f"{paper}-{kind}s")["rows"] if row[kind] == number]


def read_notes(name: str) -> list[str]:
    """Remarks on a figure or statement: those that begin with its name, such as "Figure 1 - ...".

    "Figures 1 and 2 - ..." are remarks on both.
    """
    paper, kind, number = name.split("-")
    found = []
    for note in read_published(f"{paper}-{kind}s")["notes"]:
        head, dash, _ = note.partition(" - ")
        if dash and head.startswith(kind.capitalize()) and number in re.findall(r"\d+", head):
            found.append(note)
    return found


def count_decimals(name: str, dataset: str) -> int:
    """How many decimals a table prints of the accuracies on a data set."""
    accuracies = [
        str(row["accuracy"])
        for row in read_published(name)["rows"]
        if row["dataset"] == dataset and "accuracy" in row
    ]
    return max(len(text.partition(".")[2]) for text in accuracies)
