"""The tables of the papers with a column of our own, as records that any page can show."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.experiments import Row
from benchmarks.harness import Record
from benchmarks.papers.plan import DCSVM_SETTINGS, STUDIES
from benchmarks.papers.published import Published, read_published
from benchmarks.papers.sets import SETS
from benchmarks.papers.verdicts import find_difference, judge_accuracy, judge_speed
from benchmarks.storage import read_measurements


@dataclass(frozen=True)
class Shown:
    """A table or figure as it is shown.

    Attributes
    ----------
    name : str
        Such as ``"dcsvm-table-3"``.
    title, reference : str
        What it is about, and where it was published.
    rows : list of dict
        Columns of every row, in order.
    notes : list of str
        Remarks.
    machine : dict or None
        What the last of it was measured with; None if nothing was measured.
    """

    name: str
    title: str
    reference: str
    rows: list[Row]
    notes: list[str]
    machine: Record | None = None


#: The method that speeds are relative to, by table.
REFERENCES = {
    "dcsvm-table-3": "LIBSVM",
    "dcsvm-table-4": "LIBSVM",
    "pmsvm-table-3": "LIBLINEAR",
    "icd-table-1": "LIBLINEAR",
    "icd-table-3": "LIBSVM+HIK",
    "icd-table-5": "LIBSVM+HIK",
}
#: Names of our sets where they differ from the paper's.
RENAMED = {"icd-table-5": {"ijcnn1": "ijcnn1-scaled"}, "dcsvm-table-4": {"mnist8m": "mnist"}}
UNAVAILABLE = "not run: the data are not to be had"


def show_cells(name: str, cells: list[Record]) -> Shown:
    """A table whose rows are methods on data sets."""
    published = read_published(name)
    here = {
        (row["dataset"], row["method"]): find_cell(name, row["dataset"], row["method"], cells)
        for row in published["rows"]
    }
    rows = [compare_row(name, row, published, here) for row in published["rows"]]
    machines = [cell["machine"] for cell in here.values() if cell]
    last = max(machines, key=lambda machine: str(machine["date"]), default=None)
    return Shown(name, published["title"], published["reference"], rows, published["notes"], last)


def find_cell(name: str, dataset: str, method: str, cells: list[Record]) -> Record | None:
    """The measurement with most rows, or what came of the attempts."""
    data = RENAMED.get(name, {}).get(dataset, dataset)
    options: dict[str, Any] = {}
    group = "additive"
    if name.startswith("dcsvm"):
        group = "kernel"
        method, options = DCSVM_SETTINGS[method]
    wanted = {"data": data, "group": group, "method": method, "options": options}
    found = [c for c in cells if wanted.items() <= c.items()]
    return max(found, key=lambda c: ("fit_s" in c, c["rows"]), default=None)


def compare_row(
    name: str,
    row: Record,
    published: Published,
    here: dict[tuple[str, str], Record | None],
) -> Row:
    """A published row beside ours."""
    dataset, method = row["dataset"], row["method"]
    cell = here[dataset, method]
    measured = cell if cell is not None and "fit_s" in cell else {}
    shown: Row = {
        "data": dataset,
        "method": method,
        "rows here": cell["rows"] if cell else None,
        "paper: accuracy (%)": row.get("accuracy"),
        "here: accuracy (%)": measured.get("accuracy"),
        "paper: fit (s)": row.get("fit_s"),
        "here: fit (s)": measured.get("fit_s"),
    }
    reference = REFERENCES.get(name)
    if reference:
        speeds = compare_speeds(row, published, here, reference)
        shown |= dict(
            zip((f"paper: {reference} / it", f"here: {reference} / it"), speeds, strict=True)
        )
    shown["verdict"] = state_verdict(name, row, published, cell, shown)
    return {key: value for key, value in shown.items() if key in columns_of(published, shown)}


def columns_of(published: Published, shown: Row) -> list[str]:
    """Leave out columns of measures that the table does not print."""
    printed = {key for row in published["rows"] for key in row}
    hidden = [key for measure, key in (("accuracy", "accuracy (%)"), ("fit_s", "fit (s)"))
              if measure not in printed for key in (f"paper: {key}", f"here: {key}")]  # fmt: skip
    return [key for key in shown if key not in hidden]


def compare_speeds(
    row: Record,
    published: Published,
    here: dict[tuple[str, str], Record | None],
    reference: str,
) -> tuple[float | None, float | None]:
    """How many times faster than the reference, in the paper and here on as many rows."""
    dataset = row["dataset"]
    theirs = next(
        (r for r in published["rows"] if (r["dataset"], r["method"]) == (dataset, reference)), {}
    )
    ours, cell = here.get((dataset, reference)), here[dataset, row["method"]]
    paper = theirs["fit_s"] / row["fit_s"] if "fit_s" in theirs and "fit_s" in row else None
    is_measured = ours and cell and "fit_s" in ours and "fit_s" in cell
    if not (is_measured and ours["rows"] == cell["rows"]):
        return paper, None
    return paper, ours["fit_s"] / cell["fit_s"]


def state_verdict(
    name: str, row: Record, published: Published, cell: Record | None, shown: Row
) -> str:
    """One row in words. Accuracy decides where the table has it, else the relative speed."""
    data = RENAMED.get(name, {}).get(row["dataset"], row["dataset"])
    if data not in SETS:
        return UNAVAILABLE
    if "missing" in row:
        return f"not comparable: {row['missing']} in the paper"
    if cell is None:
        return "not run"
    if "fit_s" not in cell:
        return f"not comparable: {cell['outcome']} here, on {cell['rows']:,} rows"
    paper_rows = published["settings"].get(row["dataset"], {}).get("n_train")
    difference = find_difference(SETS[data].differs, cell["rows"], paper_rows)
    if difference:
        return f"not comparable: {difference}"
    if "accuracy" in row:
        return judge_accuracy(cell["accuracy"], row["accuracy"], cell["n_test"])
    paper, here = (shown.get(f"{where}: {REFERENCES[name]} / it") for where in ("paper", "here"))
    return judge_speed(here, paper) if here and paper else "not comparable: no reference"


def show_sizes(name: str) -> Shown:
    """A table of the data themselves."""
    published = read_published(name)
    rows = []
    for row in published["rows"]:
        data = RENAMED["icd-table-5"].get(row["dataset"], row["dataset"])
        here = SETS[data].rows if data in SETS else None
        verdict = "reproduced" if here == row["n_train"] else "worse: other rows"
        if row.get("uncertain"):
            verdict = "not comparable: a misprint, see the notes"
        rows.append({
            "data": row["dataset"],
            "paper: training rows": row["n_train"],
            "here: training rows": here,
            "verdict": verdict if here else UNAVAILABLE,
        })  # fmt: skip
    return Shown(name, published["title"], published["reference"], rows, published["notes"])


def show_combine(study: list[Row], published: Published) -> list[Row]:
    """Table 1 of DC-SVM, on 100,000 rows."""
    words = {"naive": "naive", "early": "early", "Bayesian": "bcm"}
    rows = []
    for row in published["rows"]:
        word = words[row["method"].split()[0]]
        ours = next(
            (r for r in study if r["model"] == f"{word}, k = {row['clusters']}"), None
        ) if row["dataset"] == "covtype" else None  # fmt: skip
        rows.append({
            "data": row["dataset"],
            "clusters": row["clusters"],
            "method": row["method"],
            "paper: accuracy (%)": row["accuracy"],
            "here: accuracy (%)": ours and ours["accuracy (%)"],
            "paper: ms a query": row["ms_per_query"],
            "here: ms a query": ours and ours["ms a query"],
            "verdict": f"not comparable: {ours['rows']:,} of 464,810 rows" if ours else UNAVAILABLE,
        })  # fmt: skip
    return rows


def show_grid(study: list[Row], published: Published) -> list[Row]:
    """Table 7 of DC-SVM. The optimum of LIBSVM is that of our exact solver."""
    ours = {(r["C"], r["gamma"]): r for r in study}
    columns = {"DC-SVM (early)": "early", "DC-SVM": "exact"}
    rows = []
    for row in published["rows"]:
        found = ours.get((f"2^{row['C_log2']}", f"2^{row['gamma_log2']}"))
        column = columns.get(row["method"])
        if found is None or column is None:
            continue
        here = found[f"{column} accuracy (%)"]
        rows.append({
            "C": f"2^{row['C_log2']}",
            "gamma": f"2^{row['gamma_log2']}",
            "method": row["method"],
            "paper: accuracy (%)": row["accuracy"],
            "here: accuracy (%)": here,
            "paper: fit (s)": row["fit_s"],
            "here: fit (s)": found[f"{column} fit (s)"],
            "verdict": judge_accuracy(here, row["accuracy"], 91_701),
        })  # fmt: skip
    return rows


def show_totals(study: list[Row], published: Published) -> list[Row]:
    """Table 5 of DC-SVM: sums over the grid of Table 7."""
    sums = {
        "DC-SVM (early)": sum(r["early fit (s)"] for r in study),
        "DC-SVM": sum(r["exact fit (s)"] for r in study),
    }
    rows = []
    for row in published["rows"]:
        here = sums.get(row["method"]) if row["dataset"] == "ijcnn1" else None
        verdict = "not comparable: another machine" if here else "not run"
        rows.append({
            "data": row["dataset"],
            "method": row["method"],
            "paper: 25 fits (s)": row["total_s"],
            "here: 25 fits (s)": here,
            "verdict": verdict if row["dataset"] != "webspam" else UNAVAILABLE,
        })  # fmt: skip
    return rows


def show_levels(study: list[Row], published: Published) -> list[Row]:
    """Table 6 of DC-SVM: what clustering costs beside solving."""
    rows = []
    for row, ours in zip(published["rows"], study, strict=True):
        word = "less" if ours["clustering (s)"] <= ours["solving (s)"] else "more"
        rows.append({
            "level": row["level"],
            "paper: clusters": row["clusters"],
            "here: clusters": ours["clusters"],
            "paper: clustering (s)": row["clustering_s"],
            "here: clustering (s)": ours["clustering (s)"],
            "paper: solving (s)": row["solve_s"],
            "here: solving (s)": ours["solving (s)"],
            "verdict": f"{'reproduced' if word == 'less' else 'worse'}: clustering takes {word}",
        })  # fmt: skip
    return rows


def show_sparse(study: list[Row], published: Published) -> list[Row]:
    """Tables 2 to 4 of PSVM, at its parameters."""
    ours = {(r["data"], r["model"]): r for r in study}
    rows = []
    for row in published["rows"]:
        found = ours[row["dataset"], row["method"]]
        rows.append({
            "data": row["dataset"],
            "method": row["method"],
            "paper: vectors": found["paper: vectors"],
            "here: vectors": found["vectors"],
            "paper: accuracy (%)": row["accuracy"],
            "here: accuracy (%)": found["test (%)"],
            "paper: fit (s)": row["fit_s"],
            "here: fit (s)": found["fit (s)"],
            "verdict": found["test accuracy"],
        })  # fmt: skip
    return rows


def show_traffic(study: list[Row], published: Published) -> list[Row]:
    """Table V of PmSVM: nanoseconds and bytes in place of instructions and cache misses."""
    ours = {row["method"]: row for row in study}
    theirs = {row["method"]: count_instructions(row) for row in published["rows"]}
    rows = []
    for method, instructions in theirs.items():
        here = ours[method]["ns a value"]
        paper, ratio = instructions / theirs["fm"], here / ours["fm"]["ns a value"]
        rows.append({
            "method": method,
            "paper: instructions a value": instructions,
            "here: ns a value": here,
            "paper: share of fm": paper,
            "here: share of fm": ratio,
            "here: bytes stored a value": ours[method]["bytes stored a value"],
            "verdict": judge_speed(1.0 / ratio, 1.0 / paper),
        })  # fmt: skip
    return rows


def count_instructions(row: Record) -> int:
    return int(row["instructions_gradient"] + row["instructions_update"])


STUDY_TABLES: dict[str, Callable[[list[Row], Published], list[Row]]] = {
    "dcsvm-table-1": show_combine,
    "dcsvm-table-5": show_totals,
    "dcsvm-table-6": show_levels,
    "dcsvm-table-7": show_grid,
    "pmsvm-table-5": show_traffic,
    "psvm-table-2": show_sparse,
    "psvm-table-3": show_sparse,
    "psvm-table-4": show_sparse,
}


def read_study(name: str) -> tuple[list[Row], Record | None]:
    """Rows of the experiments behind a table, and what the last was measured with."""
    names = [study.name for study in STUDIES[name]]
    found = [
        measured
        for results in dict.fromkeys(study.family.RESULTS for study in STUDIES[name])
        for measured in read_measurements(results)
        if measured["experiment"] in names
    ]
    rows = [row for measured in found for row in measured["rows"]]
    return rows, max((m["machine"] for m in found), key=lambda m: str(m["date"]), default=None)


def show_study(name: str) -> Shown:
    """A table that an experiment of its own shows."""
    published = read_published(name)
    study, machine = read_study(name)
    rows = STUDY_TABLES[name](study, published) if study else []
    return Shown(
        name, published["title"], published["reference"], rows, published["notes"], machine
    )
