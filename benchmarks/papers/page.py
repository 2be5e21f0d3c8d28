"""The results page: one HTML document that loads nothing, for reading in a browser."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from benchmarks.experiments import Row
from benchmarks.experiments import show as show_value
from benchmarks.papers.cells import Record
from benchmarks.papers.figures import draw_all, to_svg
from benchmarks.papers.report import (
    INTRODUCTION,
    PAPERS,
    VERDICTS,
    Report,
    count_verdicts,
    describe_machine,
    name_exhibit,
)
from benchmarks.papers.tables import Shown

FOLDER = Path(__file__).parent
TITLE = "widemargin: the papers' tables, measured"
LEAD = (
    "widemargin is a Python library of large-scale kernel support vector machines. Here is what its "
    "benchmarks measured, beside the numbers that four papers print."
)
RULES = "How verdicts are made"
#: Nothing may be loaded, whatever text the measurements hold.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
#: What matplotlib writes for files of their own: where to find its home page, and style for all.
FILE_ONLY = re.compile(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", re.DOTALL)
IDENTIFIER = re.compile(r'(\bid="|href="#|url\(#)')
POWER_OF_TWO = re.compile(r"2\^(-?\d{1,3})")
DECIMAL = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")


def write_page(report: Report) -> str:
    """The document.

    Parameters
    ----------
    report : Report
        What was measured.

    Returns
    -------
    str
        HTML with its style, script and pictures inside.
    """
    pictures = draw_pictures(report.cells)
    main = tag(
        "main",
        tag("section", tag("h2", RULES), tag("p", prose(INTRODUCTION)), id="verdicts"),
        render_summary(report.shown),
        FILTER,
        render_pictures(pictures, report.cells),
        *(render_paper(paper, report) for paper in PAPERS),
    )
    contents = render_contents(pictures, report.shown)
    body = tag("div", render_header(report), contents, main, class_="sheet")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">',
            render_head(),
            tag("body", body, tag("script", "\n", (FOLDER / "page.js").read_text())),
            "</html>\n",
        ]
    )


def render_head() -> str:
    return f"""<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{text(TITLE)}</title>
<style>
{(FOLDER / "page.css").read_text()}</style>
</head>"""


#: The script shows it.
FILTER = """\
<div class="filter" id="filter" hidden>
<label for="filter-text">Filter rows</label>
<input id="filter-text" type="search" placeholder="data set, method, verdict" autocomplete="off">
<output id="filter-count" for="filter-text"></output>
</div>"""


# Elements.


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


# The top of the page.


def render_contents(pictures: dict[str, str], shown: list[Shown]) -> str:
    entries = [
        tag("li", link("verdicts", RULES)),
        tag("li", link("summary", "Summary")),
        tag("li", link("error-time", "Error against time"),
            tag("ul", *(tag("li", link(name_picture(p), describe_set(p))) for p in pictures))),
    ]  # fmt: skip
    for paper, title in PAPERS.items():
        exhibits = [tag("li", link(s.name, name_exhibit(s.name))) for s in select(paper, shown)]
        entries.append(tag("li", link(paper, title), tag("ul", *exhibits)))
    return tag("nav", tag("h2", "Contents"), tag("ul", *entries), class_="contents", id="contents")


def render_header(report: Report) -> str:
    return tag(
        "header",
        tag("h1", text(TITLE)),
        tag("p", text(LEAD), class_="lead"),
        render_headline(report.shown),
        render_facts(report),
    )


def render_headline(shown: list[Shown]) -> str:
    counts = add_counts(shown)
    chips = " ".join(chip(verdict, counts[verdict]) for verdict in order_verdicts(counts))
    return tag("p", "Rows of tables, and figures: ", chips, class_="headline") if chips else ""


def render_facts(report: Report) -> str:
    """When and with what it was measured."""
    machine = report.machine
    dates = sorted(r["machine"]["date"][:10] for r in report.cells) or [machine["date"][:10]]
    commits = dict.fromkeys(str(r["machine"]["commit"]) for r in reversed(report.cells))
    facts = {
        "Measured": " to ".join(dict.fromkeys((dates[0], dates[-1]))),
        "Machine": f"{machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 1e9:.0f} GB of memory, {machine['system']}",
        "Versions": ", ".join(f"{name} {v}" for name, v in machine["versions"].items()),
        "Commit": ", ".join(commits) or str(machine["commit"]),
    }
    listed = [tag("div", tag("dt", text(k)), tag("dd", text(v))) for k, v in facts.items()]
    return tag("dl", *listed, class_="facts")


def render_summary(shown: list[Shown]) -> str:
    """Counts of verdicts by table and figure, with sums for every paper."""
    verdicts = order_verdicts(add_counts(shown))
    heads = [tag("th", text(v), scope="col", class_="number") for v in verdicts]
    bodies = []
    for paper, title in PAPERS.items():
        exhibits = select(paper, shown)
        rows = [render_count_row(paper, title, "", add_counts(exhibits), verdicts, "paper")]
        rows += [
            render_count_row(s.name, name_exhibit(s.name), s.title, count_verdicts(s), verdicts, "")
            for s in exhibits
        ]
        bodies.append(tag("tbody", *rows))
    head = tag("thead", tag("tr", tag("th", "Table or figure", scope="col"), *heads))
    table = tag("table", head, *bodies, class_="summary")
    return tag("section", tag("h2", "Summary"), wrap_table(table, "Summary"), id="summary")


def render_count_row(
    target: str, name: str, title: str, counts: Counter[str], verdicts: list[str], kind: str
) -> str:
    described = tag("span", text(title), class_="title") if title else ""
    cells = [
        tag("td", chip(verdict, counts[verdict]), class_="number")
        if counts[verdict]
        else tag("td", class_="number none")
        for verdict in verdicts
    ]
    first = tag("th", link(target, name), " ", described, scope="row")
    return tag("tr", first, *cells, class_=kind)


def select(paper: str, shown: list[Shown]) -> list[Shown]:
    return [s for s in shown if s.name.startswith(f"{paper}-")]


# Verdicts.


def add_counts(shown: Iterable[Shown]) -> Counter[str]:
    return sum((count_verdicts(s) for s in shown), Counter())


def order_verdicts(counts: Counter[str]) -> list[str]:
    """The verdicts that occur, known ones first."""
    return [v for v in VERDICTS if counts[v]] + sorted(v for v in counts if v not in VERDICTS)


def split_verdict(statement: str) -> tuple[str, str]:
    """A statement as its verdict, empty if none is known, and the remark after it."""
    verdict = max((v for v in VERDICTS if statement.startswith(v)), key=len, default="")
    return verdict, statement[len(verdict) :].lstrip(" :,")


def chip(verdict: str, count: int | None = None) -> str:
    number = "" if count is None else tag("b", f"{count:,}") + " "
    label = tag("span", text(verdict), class_="label")
    return tag("span", number, label, class_=f"chip {slug(verdict)}")


def render_verdict(statement: str) -> str:
    verdict, remark = split_verdict(statement)
    shown = chip(verdict) if verdict else ""
    return shown + (" " + tag("span", text(remark), class_="remark") if remark else "")


# Tables.


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
        kind = "number" if column.is_number else "words"
        head = tag("th", text(column.label), scope="col", class_=f"{kind} {edge(column)}",
                   data_column=number, **span)  # fmt: skip
        (below if column.group else top).append(head)
        if column.group and column.label == "paper":
            top.append(tag("th", text(column.group), scope="colgroup", colspan=2, class_="group"))
    return [tag("tr", *heads) for heads in (top, below) if heads]


def edge(column: Column) -> str:
    """The class of columns that begin or end a group."""
    return {"paper": "left", "here": "right"}.get(column.label, "") if column.group else ""


def render_cell(column: Column, value: Any, is_first: bool) -> str:
    name, scope = ("th", {"scope": "row"}) if is_first else ("td", {})
    if column.key == "verdict" and value is not None:
        return tag(name, render_verdict(str(value)), class_="verdict", **scope)
    number = read_number(value) if column.is_number else None
    sorted_by = {} if number is None else {"data_value": repr(number)}
    kind = f"{'number' if column.is_number else 'words'} {edge(column)}".strip()
    return tag(name, text(show_value(value)), class_=kind, **scope, **sorted_by)


# Papers.


def render_paper(paper: str, report: Report) -> str:
    exhibits = [render_exhibit(s, report.machine) for s in select(paper, report.shown)]
    return tag("section", tag("h2", text(PAPERS[paper])), *exhibits, id=paper, class_="paper")


def render_exhibit(shown: Shown, machine: Record) -> str:
    """A table or figure of a paper."""
    name = name_exhibit(shown.name)
    counts = count_verdicts(shown)
    remarks, notes = sort_notes(shown.notes)
    chips = " ".join(chip(v, counts[v]) for v in order_verdicts(counts)) if not remarks else ""
    heading = tag("h3", tag("span", text(name), class_="exhibit"), " ", text(shown.title))
    parts = [heading, tag("p", text(shown.reference), ".", class_="reference"), *remarks]
    if chips:
        parts.append(tag("p", chips, class_="counts"))
    if shown.rows:
        context = "" if "data" in shown.rows[0] else shown.title
        parts.append(render_table(shown.rows, f"{name}: {shown.title}", context))
    else:
        parts.append(tag("p", "Nothing was measured."))
    parts += [render_notes(notes), render_machine(shown.machine, machine)]
    return tag("article", *parts, id=shown.name)


def sort_notes(notes: list[str]) -> tuple[list[str], list[str]]:
    """What a figure claims, and our verdict, as paragraphs; and the other notes."""
    remarks, others = [], []
    for note in notes:
        kind, _, words = note.partition(": ")
        if kind == "Claim":
            remarks.append(tag("p", tag("b", "Claim"), " ", text(words), class_="claim"))
        elif kind == "Verdict":
            remarks.append(tag("p", tag("b", "Here"), " ", render_verdict(words), class_="claim"))
        else:
            others.append(note)
    return remarks, others


def render_notes(notes: list[str]) -> str:
    if not notes:
        return ""
    counted = "1 note" if len(notes) == 1 else f"{len(notes)} notes"
    listed = tag("ul", *(tag("li", prose(note)) for note in notes))
    return tag("details", tag("summary", counted), listed, class_="notes")


def render_machine(machine: Record | None, usual: Record) -> str:
    """What it was measured with, if that differs from the rest of the page."""
    if machine is None or all(machine[key] == usual[key] for key in ("cpu", "commit")):
        return ""
    return tag("p", "Measured with ", text(describe_machine(machine)), ".", class_="machine")


# Pictures of error against time.


def draw_pictures(cells: list[Record]) -> dict[str, str]:
    """Pictures as SVG, by name."""
    pictures = {}
    for name, figure in draw_all(cells).items():
        pictures[name] = embed_svg(to_svg(figure), name_picture(name), describe_picture(name))
        plt.close(figure)
    return pictures


def embed_svg(svg: str, identifier: str, label: str) -> str:
    """SVG that can be in a page with others: ids are its own, and it has a name."""
    svg = IDENTIFIER.sub(rf"\g<1>{identifier}--", FILE_ONLY.sub("", svg))
    named = f'<svg role="img" aria-label="{text(label)}"'
    begin, _, rest = svg.partition("<svg")[2].partition(">")
    return f"{named}{begin}>{tag('title', text(label))}{rest}"


def name_picture(name: str) -> str:
    return f"error-time-{slug(name)}"


def describe_set(name: str) -> str:
    """``"covtype-50000"`` as words."""
    data, _, rows = name.rpartition("-")
    return f"{data}, {int(rows):,} rows"


def describe_picture(name: str) -> str:
    return f"Test error against seconds to fit on {describe_set(name)}"


def render_pictures(pictures: dict[str, str], cells: list[Record]) -> str:
    parts = [tag("h2", "Error against time")]
    for name, svg in pictures.items():
        wanted = [c for c in cells if c["group"] == "kernel" and f"{c['data']}-{c['rows']}" == name]
        parts.append(render_picture(name, svg, wanted))
    if not pictures:
        parts.append(tag("p", "Too few methods were measured on one data set for a picture."))
    return tag("section", *parts, id="error-time")


def render_picture(name: str, svg: str, cells: list[Record]) -> str:
    """A picture, what did not finish, and all points in a table."""
    measured = [c for c in cells if "fit_s" in c]
    unfinished = [c for c in cells if "fit_s" not in c]
    label = describe_picture(name)
    chart = tag("div", svg, class_="chart", role="group", tabindex=0, aria_label=label)
    caption = tag("figcaption", render_caption(name, measured), render_unfinished(unfinished))
    rows = [make_point(c) for c in measured]
    points = tag("details", tag("summary", f"All {len(rows)} points"),
                 render_table(rows, f"Points of {describe_set(name)}", describe_set(name)),
                 class_="points")  # fmt: skip
    parts = [tag("h3", text(describe_set(name))), tag("figure", chart, caption), points]
    return tag("article", *parts, id=name_picture(name))


def render_caption(name: str, measured: list[Record]) -> str:
    data, _, rows = name.rpartition("-")
    tests = " or ".join(f"{n:,}" for n in sorted({c["n_test"] for c in measured}))
    words = (
        f"{data}, {int(rows):,} training and {tests} test rows. Across: seconds to fit. Upwards: test "
        "error in percent. Both axes are logarithmic; further left and lower is better. A marker is "
        "one setting of a method, and a line joins the settings. Bold lines are widemargin's. Errors "
        "far above the least are off the picture; the table has all points."
    )
    return tag("p", text(words))


def render_unfinished(cells: list[Record]) -> str:
    """Fits without a result, by what came of them."""
    outcomes = defaultdict(list)
    for cell in cells:
        setting = describe_options(cell["options"])
        method = cell["method"]
        outcomes[cell["outcome"]].append(f"{method} ({setting})" if setting else method)
    if not outcomes:
        return tag("p", "All fits finished.")
    listed = [tag("li", text(f"{o}: {', '.join(found)}")) for o, found in outcomes.items()]
    return tag("p", "Not in the picture, because they did not finish:") + tag("ul", *listed)


def describe_options(options: Record) -> str:
    return ", ".join(f"{name} = {value}" for name, value in options.items())


#: Columns of the points, and where they come from.
POINT: dict[str, Callable[[Record], Any]] = {
    "method": lambda cell: cell["method"],
    "setting": lambda cell: describe_options(cell["options"]),
    "fit (s)": lambda cell: cell["fit_s"],
    "predict (s)": lambda cell: cell["predict_s"],
    "accuracy (%)": lambda cell: cell["accuracy"],
    "vectors": lambda cell: cell["n_vectors"],
    "peak memory (GB)": lambda cell: cell["peak_gb"],
}


def make_point(cell: Record) -> Row:
    return {column: read(cell) for column, read in POINT.items()}
