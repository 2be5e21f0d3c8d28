"""The results page: one HTML document that loads nothing, for reading in a browser."""

from collections import Counter
from pathlib import Path

from benchmarks.harness import Record
from benchmarks.papers.html import (
    add_counts,
    chip,
    link,
    order_verdicts,
    prose,
    render_table,
    render_verdict,
    tag,
    text,
    wrap_table,
)
from benchmarks.papers.html_pictures import (
    describe_set,
    draw_exhibit_pictures,
    draw_pictures,
    name_picture,
    render_pictures,
)
from benchmarks.papers.report import (
    INTRODUCTION,
    PAPERS,
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
    drawn = draw_exhibit_pictures(report)
    main = tag(
        "main",
        tag("section", tag("h2", RULES), *render_introduction(), id="verdicts"),
        render_summary(report.shown),
        FILTER,
        render_pictures(pictures, report.cells),
        *(render_paper(paper, report, drawn) for paper in PAPERS),
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


def render_introduction() -> list[str]:
    return [tag("p", prose(paragraph)) for paragraph in INTRODUCTION.split("\n\n")]


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


def render_paper(paper: str, report: Report, drawn: dict[str, str]) -> str:
    exhibits = [
        render_exhibit(s, report.machine, drawn.get(s.name, ""))
        for s in select(paper, report.shown)
    ]
    return tag("section", tag("h2", text(PAPERS[paper])), *exhibits, id=paper, class_="paper")


def render_exhibit(shown: Shown, machine: Record, picture: str) -> str:
    """A table or figure of a paper."""
    name = name_exhibit(shown.name)
    counts = count_verdicts(shown)
    remarks, notes = sort_notes(shown.notes)
    chips = " ".join(chip(v, counts[v]) for v in order_verdicts(counts)) if not remarks else ""
    heading = tag("h3", tag("span", text(name), class_="exhibit"), " ", text(shown.title))
    parts = [heading, tag("p", text(shown.reference), ".", class_="reference"), *remarks]
    if chips:
        parts.append(tag("p", chips, class_="counts"))
    parts.append(picture)
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
