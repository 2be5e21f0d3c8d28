"""Elements of HTML, verdicts as chips, and tables that can be sorted."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from math import isfinite
from typing import Any

from benchmarks.experiments import Row
from benchmarks.experiments import show as show_value
from benchmarks.papers.report import VERDICTS, count_verdicts, name_verdict
from benchmarks.papers.tables import Shown

POWER_OF_TWO = re.compile(r"2\^(-?\d{1,3})")
DECIMAL = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")


def tag(name: str, *content: str, **attributes: str | int) -> str:
    """An element. Content is markup; attributes are text, ``class_`` and ``aria_sort`` their names."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items()
    )
    return f"<{name}{given}>{''.join(content)}</{name}>"


def text(value: object) -> str:
    """Text as markup."""
    return escape(str(value))


def prose(words: str) -> str:
    """Text as markup, with code between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(words))


def link(target: str, words: str) -> str:
    return tag("a", text(words), href=f"#{target}")


def slug(words: str) -> str:
    """Text as an id or class."""
    return re.sub(r"[^\w-]+", "-", words)


def add_counts(shown: Iterable[Shown]) -> Counter[str]:
    return sum((count_verdicts(s) for s in shown), Counter())


def order_verdicts(counts: Counter[str]) -> list[str]:
    """The verdicts that occur, known ones first."""
    return [v for v in VERDICTS if counts[v]] + sorted(v for v in counts if v not in VERDICTS)


def split_verdict(statement: str) -> tuple[str, str]:
    """A statement as its verdict, empty if none is known, and the remark after it."""
    verdict = name_verdict(statement)
    if verdict not in VERDICTS:
        return "", statement
    return verdict, statement[len(verdict) :].lstrip(" :,")


def chip(verdict: str, count: int | None = None) -> str:
    number = "" if count is None else tag("b", f"{count:,}") + " "
    label = tag("span", text(verdict), class_="label")
    return tag("span", number, label, class_=f"chip {slug(verdict)}")


def render_verdict(statement: str) -> str:
    verdict, remark = split_verdict(statement)
    shown = chip(verdict) if verdict else ""
    return shown + (" " + tag("span", text(remark), class_="remark") if remark else "")


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    key : str
        What rows call it.
    group, label : str
        What its head says; columns of the paper and of ours are in a group of two.
    is_number : bool
        Whether its values are numbers.
    """

    key: str
    group: str
    label: str
    is_number: bool


def make_columns(rows: list[Row]) -> list[Column]:
    """The columns of all rows, in order of appearance."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    columns = []
    for before, key, after in zip(["", *keys], keys, [*keys[1:], ""], strict=False):
        side, _, measure = key.partition(": ")
        is_paired = f"paper: {measure}" in (before, key) and f"here: {measure}" in (key, after)
        group, label = (name_measure(measure), side) if is_paired else ("", name_measure(key))
        values = [row[key] for row in rows if row.get(key) is not None]
        is_number = all(read_number(v) is not None for v in values)
        columns.append(Column(key, group, label, is_number))
    return columns


def name_measure(measure: str) -> str:
    """Say ``"LIBSVM / it"``, which is a ratio of times, in words."""
    reference = measure.removesuffix(" / it")
    return measure if reference == measure else f"speed-up over {reference}"


def read_number(value: Any) -> float | None:
    """A number, also one that is written as text; None if it is none."""
    if isinstance(value, int | float):
        return float(value) if isfinite(value) else None
    power = POWER_OF_TWO.fullmatch(str(value))
    if power:
        return 2.0 ** int(power[1])
    return float(value) if DECIMAL.fullmatch(str(value)) else None


def render_table(rows: list[Row], name: str, context: str) -> str:
    """A table that can be sorted and filtered; rows are also found by the words of the context."""
    columns = make_columns(rows)
    begins = find_groups([row.get(columns[0].key) for row in rows])
    body = []
    for row, kind in zip(rows, begins, strict=True):
        cells = [render_cell(c, row.get(c.key), c is columns[0]) for c in columns]
        body.append(tag("tr", *cells, **({"class_": "begins"} if kind else {})))
    head = tag("thead", *render_heads(columns))
    table = tag("table", head, tag("tbody", *body), class_="data", data_context=context)
    return wrap_table(table, name)


def find_groups(values: list[Any]) -> list[bool]:
    """Which values begin a group of equal ones; none if there are no such groups."""
    begins = [a != b for a, b in zip([object(), *values], values, strict=False)]
    return begins if not all(begins) else [False] * len(values)


def wrap_table(table: str, name: str) -> str:
    """Wide tables scroll sideways within."""
    return tag("div", table, class_="scroll", role="region", tabindex=0, aria_label=name)


def render_heads(columns: list[Column]) -> list[str]:
    """One row of heads, or two if there are columns in groups."""
    is_grouped = any(c.group for c in columns)
    top, below = [], []
    for number, column in enumerate(columns):
        span = {"rowspan": 2} if is_grouped and not column.group else {}
        head = tag("th", text(column.label), scope="col", class_=describe_column(column),
                   data_column=number, **span)  # fmt: skip
        (below if column.group else top).append(head)
        if column.group and column.label == "paper":
            top.append(tag("th", text(column.group), scope="colgroup", colspan=2, class_="group"))
    return [tag("tr", *heads) for heads in (top, below) if heads]


def describe_column(column: Column) -> str:
    """The classes of its cells."""
    kind = "number" if column.is_number else "words"
    return f"{kind} {'left' if column.label == 'paper' else 'right'}" if column.group else kind


def render_cell(column: Column, value: Any, is_first: bool) -> str:
    name, scope = ("th", {"scope": "row"}) if is_first else ("td", {})
    if column.key == "verdict" and value is not None:
        return tag(name, render_verdict(str(value)), class_="verdict", **scope)
    number = read_number(value) if column.is_number else None
    sorted_by = {} if number is None else {"data_value": repr(number)}
    shown = text(show_value(value))
    return tag(name, shown, class_=describe_column(column), **scope, **sorted_by)
