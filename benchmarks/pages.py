"""``python -m benchmarks render``: every page and picture from what is on file.

Tables go into the Markdown pages of ``docs`` and into the README, and are kept. Pictures and the page
``results.html`` go to ``docs/_build`` and are not kept, but for two pictures that pages show.
"""

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    additive,
    additive_svr,
    distributed,
    divide,
    early,
    experiments,
    glass_box,
    map_table,
    pairs,
    projected,
    tune,
)
from benchmarks.machine import ROOT
from benchmarks.papers.report import make_report, render_markdown, summarise_methods
from benchmarks.render import render_page, replace_marked
from benchmarks.storage import read_measurements
from benchmarks.summary import summarise
from benchmarks.tables import render_short_table

#: The pictures that the README and the guide of `DCSVC` show.
README_PICTURE, EARLY_PICTURE = "error-time-covtype-50000.png", "early.png"
#: Suite -> its page.
SUITE_PAGES = {
    "exact": "benchmarks.md",
    "regression": "regression-measurements.md",
    "novelty": "novelty-measurements.md",
}
#: Suite -> the guide that shows its short table.
SUITE_GUIDES = {"regression": "regression.md", "novelty": "novelty.md"}
#: Family -> its module, its page, and the page whose marked tables it fills.
FAMILY_PAGES = {
    "divide": (divide, "divide-measurements.md", "divide-and-conquer.md"),
    "early": (early, "early-measurements.md", "divide-and-conquer.md"),
    "additive": (additive, "additive-measurements.md", "additive.md"),
    "additive-svr": (additive_svr, "additive-regression-measurements.md", "additive-regression.md"),
    "projected": (projected, "sparse-measurements.md", "sparse.md"),
    "tune": (tune, "tuning-measurements.md", "tuning.md"),
    "pairs": (pairs, "interactions-measurements.md", "interactions.md"),
    "glass-box": (glass_box, "glass-box-measurements.md", "glass-box.md"),
    "distributed": (distributed, "distributed-measurements.md", "distributed.md"),
}


class Folders:
    """Where results are read and pages are written, all in one folder of the project."""

    def __init__(self, root: Path) -> None:
        self.results = root / "benchmarks" / "results"
        self.docs = root / "docs"
        self.built = self.docs / "_build"
        self.readme = root / "README.md"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("render", help="write all pages and pictures from what is on file")
    parser.set_defaults(command=render_all)
    parser.add_argument(
        "--only", choices=tuple(PARTS), action="append", help="some of the parts (default: all)"
    )
    parser.add_argument(
        "--root", type=Path, default=ROOT, help="folder with benchmarks, docs and README.md"
    )


def render_all(options: argparse.Namespace) -> int:
    folders = Folders(options.root)
    folders.built.mkdir(parents=True, exist_ok=True)
    for name in options.only or PARTS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        PARTS[name](folders)
    return 0


def render_suites(folders: Folders) -> None:
    """Write the page of every suite that was measured, and the short table of the README."""
    for suite, page in SUITE_PAGES.items():
        measurements = read_measurements(folders.results / f"{suite}.jsonl")
        if not measurements:
            print(f"{suite}: nothing was measured, so no page", file=sys.stderr)
            continue
        (folders.docs / page).write_text(render_page(measurements))
        if suite == "exact":
            replace_marked(folders.readme, suite, render_short_table(summarise(measurements)))
        elif suite in SUITE_GUIDES:
            table = render_short_table(summarise(measurements))
            replace_marked(folders.docs / SUITE_GUIDES[suite], suite, table)


def render_families(folders: Folders) -> None:
    """Write the page of every family of experiments, and fill the tables of its guide."""
    for name, (family, page, guide) in FAMILY_PAGES.items():
        measurements = read_measurements(folders.results / f"{name}.jsonl")
        (folders.docs / page).write_text(experiments.render(family, measurements))
        path = folders.docs / guide
        if family is early:
            measurements.append({"experiment": "early", "rows": early.summarise(measurements)})
        if family is pairs:
            measurements += pairs.summarise(measurements)
        if family is distributed:
            estimated = distributed.estimate_cost(measurements)
            measurements.append({"experiment": "cost", "rows": estimated})
        path.write_text(experiments.render_into(path.read_text(), measurements))


def render_papers(folders: Folders) -> None:
    """Write the tables of the papers as Markdown, as HTML and as pictures."""
    # Matplotlib is needed for pictures only.
    from benchmarks.papers.figures import save_all
    from benchmarks.papers.page import write_page
    from benchmarks.papers.paper_figures import save_exhibits

    report = make_report(folders.results / "papers.jsonl")
    pictures = save_all(report.cells, folders.built)
    drawn = save_exhibits(report, folders.built)
    (folders.docs / "papers.md").write_text(render_markdown(report, pictures, drawn))
    (folders.built / "results.html").write_text(write_page(report))
    rows = [{"experiment": "methods", "rows": summarise_methods(report.cells)}]
    folders.readme.write_text(experiments.render_into(folders.readme.read_text(), rows))
    for path in pictures:
        if path.name == README_PICTURE:
            shutil.copy(path, folders.docs / README_PICTURE)


def render_map(folders: Folders) -> None:
    """Write the map of C and gamma as a table and as a picture."""
    measurements = read_measurements(folders.results / "map.jsonl")
    if not measurements:
        print("map: nothing was measured, so no page", file=sys.stderr)
        return
    from benchmarks.map_picture import save_map

    (folders.docs / "map.md").write_text(map_table.render_map(measurements))
    save_map(measurements, folders.built / "map.png")


def render_models(folders: Folders) -> None:
    """Draw the fitted models that the guides describe."""
    from benchmarks.early_picture import save_picture
    from benchmarks.model_pictures import save_pictures

    save_pictures(folders.built)
    measurements = read_measurements(folders.results / "early.jsonl")
    save_picture(measurements, folders.docs / EARLY_PICTURE)


PARTS: dict[str, Callable[[Folders], None]] = {
    "suites": render_suites,
    "families": render_families,
    "map": render_map,
    "papers": render_papers,
    "models": render_models,
}
