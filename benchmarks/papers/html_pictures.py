"""Pictures in a page of HTML: the papers' figures; error against time, with all its points."""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from matplotlib import pyplot as plt

from benchmarks.experiments import Row
from benchmarks.harness import Record
from benchmarks.papers.figures import draw_all, to_svg
from benchmarks.papers.html import render_table, slug, tag, text
from benchmarks.papers.paper_figures import PICTURES, draw_exhibits
from benchmarks.papers.report import Report

#: What matplotlib writes for files of their own: where to find its home page, and style for all.
FILE_ONLY = re.compile(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", re.DOTALL)
IDENTIFIER = re.compile(r'(\bid="|href="#|url\(#)')


def draw_pictures(cells: list[Record]) -> dict[str, str]:
    """Pictures as SVG, by name."""
    pictures = {}
    for name, figure in draw_all(cells).items():
        pictures[name] = embed_svg(to_svg(figure), name_picture(name), describe_picture(name))
        plt.close(figure)
    return pictures


def draw_exhibit_pictures(report: Report) -> dict[str, str]:
    """Pictures of the papers' figures with captions, by exhibit."""
    titles = {shown.name: shown.title for shown in report.shown}
    pictures = {}
    for name, figure in draw_exhibits(report).items():
        chart = wrap_chart(embed_svg(to_svg(figure), name, titles[name]), titles[name])
        caption = tag("figcaption", tag("p", text(PICTURES[name].caption)))
        pictures[name] = tag("figure", chart, caption)
        plt.close(figure)
    return pictures


def wrap_chart(svg: str, label: str) -> str:
    """A picture that scrolls sideways where it does not fit."""
    return tag("div", svg, class_="chart", role="group", tabindex=0, aria_label=label)


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
    chart = wrap_chart(svg, describe_picture(name))
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
        "one setting of a method, faint if another setting is faster and better; a line joins the "
        "rest. Bold lines are widemargin's. Errors far above the least are off the picture; the table "
        "has all points."
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
