"""Everything measured for the papers, ready to be shown, and its Markdown page."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.experiments import Row, render_rows
from benchmarks.freshness import MARK
from benchmarks.harness import Record
from benchmarks.papers.claims import CLAIMS, show_claim
from benchmarks.papers.grid_tables import GRID_TABLES
from benchmarks.papers.headlines import summarise_headlines
from benchmarks.papers.plan import DCSVM_SETTINGS, DEFAULT_SETTINGS, STUDIES
from benchmarks.papers.tables import (
    SIZES_OF,
    STUDY_TABLES,
    Shown,
    is_present_study,
    show_cells,
    show_sizes,
    show_study,
)
from benchmarks.settings import TOL
from benchmarks.storage import read_measurements

PAPERS = {
    "dcsvm": "DC-SVM: divide and conquer",
    "pmsvm": "PmSVM: power mean kernels",
    "icd": "ICD: histogram intersection kernel",
    "psvm": "PSVM: sparse machines",
}
#: All that is shown, in order.
SHOWN = (
    *(f"dcsvm-table-{n}" for n in range(1, 11)), *(f"dcsvm-figure-{n}" for n in (1, 2, 3, 4)),
    *(f"pmsvm-table-{n}" for n in (3, 4, 5)), *(f"pmsvm-figure-{n}" for n in (1, 2, 3, 4)),
    "pmsvm-statement-1", "pmsvm-statement-2",
    *(f"icd-table-{n}" for n in (1, 2, 3, 4, 5)), "icd-figure-1",
    "icd-statement-1",
    *(f"psvm-table-{n}" for n in (2, 3, 4)),
)  # fmt: skip
#: Verdicts begin with one of these.
VERDICTS = (
    "reproduced", "reproduced in part", "better", "worse", "not reproduced", "not comparable",
    "not run",
)  # fmt: skip


@dataclass(frozen=True)
class Report:
    """What was measured.

    Attributes
    ----------
    cells : list of dict
        Fits of methods on data sets, the last of each kind.
    shown : list of Shown
        Tables and figures beside the published numbers.
    machine : dict
        What the last fit was measured with.
    """

    cells: list[Record]
    shown: list[Shown]
    machine: Record


def make_report(results: Path) -> Report:
    """Read the measurements and compare them with the papers."""
    cells = list({record["key"]: record for record in read_measurements(results)}.values())
    if not cells:
        raise ValueError(f"{results} has no measurements; run `python -m benchmarks papers` first")
    return Report(cells, [show(name, cells) for name in SHOWN], cells[-1]["machine"])


def show(name: str, cells: list[Record]) -> Shown:
    if name in CLAIMS:
        return show_claim(name)
    if name in SIZES_OF:
        return show_sizes(name)
    if name in GRID_TABLES:
        return GRID_TABLES[name](cells)
    return show_study(name) if name in STUDY_TABLES else show_cells(name, cells)


def count_verdicts(shown: Shown) -> Counter[str]:
    """How many rows have each verdict; a figure has one for all."""
    statements = [str(row["verdict"]) for row in shown.rows if "verdict" in row]
    if not statements:
        statements = [n.removeprefix("Verdict: ") for n in shown.notes if n.startswith("Verdict: ")]
    return Counter(name_verdict(statement) for statement in statements)


def name_verdict(statement: str) -> str:
    """The verdict that a statement begins with."""
    return max((v for v in VERDICTS if statement.startswith(v)), key=len, default=statement)


#: Columns of the short table: a method at one setting.
SHORT: dict[str, tuple[str, Record]] = {
    "KernelSVC": ("KernelSVC", {"tol": TOL}),
    "DCSVC early": DEFAULT_SETTINGS["DC-SVM (early)"],
    **{
        name: DCSVM_SETTINGS[name]
        for name in ("LIBSVM", "LaSVM", "CascadeSVM", "LLSVM", "FastFood")
    },
}


def summarise_methods(cells: list[Record]) -> list[Row]:
    """One row a large data set on which all were tried: accuracy and seconds, or what came of it."""
    rows: list[Row] = []
    for data, n_rows in dict.fromkeys(
        (c["data"], c["rows"]) for c in cells if c["group"] == "kernel"
    ):
        row: Row = {"data": f"{data}, {n_rows:,} rows"}
        for column, (method, options) in SHORT.items():
            wanted = {"data": data, "rows": n_rows, "method": method, "options": options}
            found = next((c for c in cells if wanted.items() <= c.items()), None)
            row[column] = None if found is None else describe_cell(found)
        if None not in row.values():
            rows.append(row)
    return rows


def describe_cell(cell: Record) -> str:
    if "fit_s" not in cell:
        return str(cell["outcome"])
    return f"{cell['accuracy']:.1f} %, {cell['fit_s']:.2g} s"


def describe_counts(shown: Shown) -> str:
    return ", ".join(f"{n} {verdict}" for verdict, n in count_verdicts(shown).most_common())


def name_exhibit(name: str) -> str:
    """``"dcsvm-table-3"`` as ``"Table 3"``."""
    _, kind, number = name.split("-")
    return f"{kind.capitalize()} {number}"


def describe_machine(machine: Record) -> str:
    return f"{machine['cpu']}, commit {machine['commit']}, {machine['date'][:10]}"


def render_markdown(
    report: Report, pictures: list[Path], drawn: dict[str, str] | None = None
) -> str:
    """The page of all tables and figures; ``drawn`` has pictures of exhibits, as Markdown."""
    parts = ["# The papers' tables, measured", "", "## The headline claims", ""]
    parts += render_rows(summarise_headlines(report.cells, report.shown))
    parts += ["", "## How verdicts are made", "", INTRODUCTION, "", "## Error against time", ""]
    for path in pictures:
        name = path.stem.removeprefix("error-time-")
        parts.append(f"- {render_picture(path, f'test error against seconds to fit, {name}')}")
    for paper, title in PAPERS.items():
        parts += ["", f"## {title}"]
        for shown in report.shown:
            if shown.name.startswith(paper):
                parts += render_shown(shown, report.machine, (drawn or {}).get(shown.name))
    return "\n".join(parts) + "\n"


def render_picture(path: Path, words: str) -> str:
    """Name a picture that is built beside the page, and say what it shows."""
    return f"`docs/_build/{path.name}`: {words}"


def render_shown(shown: Shown, machine: Record, picture: str | None) -> list[str]:
    lines = ["", f"### {name_exhibit(shown.name)}: {shown.title}", ""]
    lines += [picture, ""] if picture else []
    lines.append(f"{shown.reference}.")
    if count_verdicts(shown):
        lines += ["", f"In short: {describe_counts(shown)}."]
    lines += ["", *(render_rows(shown.rows) if shown.rows else ["Nothing was measured."]), ""]
    lines += [f"- {note}" for note in shown.notes]
    is_present = shown.name not in STUDIES or is_present_study(shown.name, shown.machine)
    mark = "" if is_present else f" {MARK}"
    return [*lines, "", f"{describe_machine(shown.machine or machine)}{mark}."]


INTRODUCTION = """\
Measured by `python -m benchmarks papers` and set beside the published numbers. Verdicts are about
test accuracy where a table has it: "reproduced" means a difference of at most two standard errors of
the test set and half a unit of the last digit that the table prints. Tables of times alone are judged
by the speed relative to one method of the table, within a factor of 1.5, because machines differ.
"Not comparable" says why. Methods of others are our own implementations in `widemargin.baselines`,
but for LIBSVM and LIBLINEAR, which are scikit-learn's. Both have an intercept, and so have CascadeSVM,
LaSVM and KernelSVC. LIBSVM in the tables of DC-SVM is "not comparable" for that: the paper left the
intercept out. Table 6 of DC-SVM is judged by whether clustering takes less time than solving, PSVM on
sets without a published division by the mean of 20 divisions and two standard deviations.

Fits of tables have one thread, and their seconds are processor seconds, which other work on the
machine changes little. Experiments of their own have wall seconds: Figures 3 and 4 and Table 1 of
DC-SVM, with two threads, and, with one, Table 5, Figure 3 and the statements of PmSVM, Statement 1 of
ICD and the tables of PSVM. So have the levels in Table 6 of DC-SVM.

"DC-SVM" is the algorithm as published, `DCSVC(**widemargin.divide.PAPER)`: every level, clusters of
plain two-step kernel k-means, and for early prediction 256 clusters before 64. "Our default" is
`DCSVC()`. The column "code" and the line below a table have the commit that was measured; † marks
measurements of code that has changed since.

Pictures are not kept in the repository. `python -m benchmarks render` draws them from the same
measurements in `docs/_build`, and writes `docs/_build/results.html`, a page of all tables to sort and
filter."""
