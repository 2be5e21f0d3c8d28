"""The tables of the papers with a column of our own, as records that any page can show."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log

from benchmarks.experiments import Row
from benchmarks.freshness import MARK, is_stale
from benchmarks.harness import Record
from benchmarks.papers.methods import GROUPS, Options
from benchmarks.papers.plan import (
    DCSVM_SETTINGS,
    DEFAULT_SETTINGS,
    STUDIES,
    SUBSTITUTES,
    VALUE_METHODS,
)
from benchmarks.papers.published import Published, count_decimals, read_published
from benchmarks.papers.sets import SETS
from benchmarks.papers.verdicts import (
    OTHER_PROBLEMS,
    find_difference,
    judge_accuracy,
    judge_speed,
)
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
#: Names of our sets where they differ from the paper's, also those for methods that see no bins.
RENAMED = {"icd-table-5": {"ijcnn1": "ijcnn1-scaled"}, "dcsvm-table-4": {"mnist8m": "mnist"}}
WITHOUT_BINS = {"icd-table-5": {"ijcnn1": "ijcnn1-original"}}
#: Tables of sizes, and tables in which the same data are used.
SIZES_OF = {"icd-table-4": "icd-table-5", "dcsvm-table-2": "dcsvm-table-4"}
UNAVAILABLE = "not run: the data are not to be had"
#: Test rows of covtype where all training rows are used.
COVTYPE_TEST = 116_202


def show_cells(name: str, cells: list[Record]) -> Shown:
    """A table whose rows are methods on data sets."""
    published = read_published(name)
    rows, used = [], []
    for row in [*published["rows"], *list_substitutes(name, published, cells)]:
        for cell in list_cells(name, row["dataset"], row["method"], cells):
            used.append(cell)
            peer = find_reference(name, row["dataset"], cell, cells)
            compared = compare_row(name, row, published, cell, peer)
            rows.append(compared | show_default(name, row, cell, cells))
    shown = make_shown(name, published, rows, used)
    return replace(shown, notes=[*shown.notes, *extrapolate_reference(name, published, cells)])


def list_substitutes(name: str, published: Published, cells: list[Record]) -> list[Record]:
    """Published rows once more, with the name of other data on which they were measured too."""
    known = SUBSTITUTES.get(name, {})
    found = []
    for row in published["rows"]:
        data, methods = known.get(row["dataset"], ("", ()))
        if row["method"] in methods and any(cell["data"] == data for cell in cells):
            found.append({**row, "dataset": data})
    return found


def rename(name: str, dataset: str, method: str = "") -> str:
    """Our name of a data set of a table, as a method sees it."""
    known = WITHOUT_BINS.get(name, {}) if method in VALUE_METHODS else {}
    return (RENAMED.get(name, {}) | known).get(dataset, dataset)


def list_cells(name: str, dataset: str, method: str, cells: list[Record]) -> list[Record | None]:
    """The cell with most rows, and the one of as many rows as the reference of the table has."""
    best = find_cell(name, dataset, method, cells)
    if best is None or name not in REFERENCES:
        return [best]
    peer = find_cell(name, dataset, REFERENCES[name], cells)
    if peer is None or "fit_s" not in peer or peer["rows"] == best["rows"]:
        return [best]
    same = find_cell(name, dataset, method, cells, peer["rows"])
    return [best] if same is None else [best, same]


def find_reference(
    name: str, dataset: str, cell: Record | None, cells: list[Record]
) -> Record | None:
    """The reference of the table on the same rows, if it ended."""
    if cell is None or name not in REFERENCES:
        return None
    method = REFERENCES[name]
    data = rename(name, dataset, method)
    found = select_cell(cells, data, cell["group"], method, {}, cell["rows"])
    return found if found and "fit_s" in found else None


def extrapolate_reference(name: str, published: Published, cells: list[Record]) -> list[str]:
    """What LIBSVM would take on all rows, where it ended on two smaller numbers of rows."""
    notes = []
    for data in dict.fromkeys(rename(name, row["dataset"]) for row in published["rows"]):
        wanted = {"data": data, "group": "kernel", "method": "LIBSVM", "options": {}}
        ended = [cell for cell in cells if wanted.items() <= cell.items() and "fit_s" in cell]
        ended.sort(key=lambda cell: cell["rows"])
        if len(ended) > 1 and ended[-1]["rows"] < SETS[data].rows:
            notes.append(describe_growth(*ended[-2:], SETS[data].rows))
    return notes


def describe_growth(few: Record, many: Record, rows: int) -> str:
    exponent = log(many["fit_s"] / few["fit_s"]) / log(many["rows"] / few["rows"])
    seconds = many["fit_s"] * (rows / many["rows"]) ** exponent
    total = f"{seconds / 3600.0:,.1f} hours" if seconds >= 3600.0 else f"{seconds:,.0f} s"
    return (
        f"Extrapolated, not measured: LIBSVM takes {few['fit_s']:.2g} s on {few['rows']:,} rows of "
        f"{few['data']} and {many['fit_s']:.3g} s on {many['rows']:,}, which grows with the power "
        f"{exponent:.1f}; if it goes on so, {rows:,} rows take {total}."
    )


def make_shown(
    name: str, published: Published, rows: list[Row], cells: list[Record | None]
) -> Shown:
    """A table with the machine on which the last of its cells was measured."""
    machines = [cell["machine"] for cell in cells if cell]
    last = max(machines, key=lambda machine: str(machine["date"]), default=None)
    return Shown(name, published["title"], published["reference"], rows, published["notes"], last)


def find_cell(
    name: str, dataset: str, method: str, cells: list[Record], rows: int | None = None
) -> Record | None:
    """The measurement of a method of the paper with most rows, or what came of the attempts.

    If ``rows`` are given, the one with as many.
    """
    data = rename(name, dataset, method)
    if not name.startswith("dcsvm"):
        return select_cell(cells, data, "additive", method, {}, rows)
    return select_cell(cells, data, "kernel", *DCSVM_SETTINGS[method], rows)


def select_cell(
    cells: list[Record], data: str, group: str, method: str, options: Options,
    rows: int | None = None,
) -> Record | None:  # fmt: skip
    wanted = {"data": data, "group": group, "method": method, "options": options}
    wanted |= {} if rows is None else {"rows": rows}
    found = [c for c in cells if wanted.items() <= c.items()]
    return max(found, key=lambda c: ("fit_s" in c, c["rows"]), default=None)


def show_default(name: str, row: Record, cell: Record | None, cells: list[Record]) -> Row:
    """What the defaults of the library reach in the place of the paper's algorithm, on its rows."""
    if not name.startswith("dcsvm"):
        return {}
    found: Record | None = None
    if row["method"] in DEFAULT_SETTINGS:
        data = rename(name, row["dataset"])
        rows = cell and cell["rows"]
        found = select_cell(cells, data, "kernel", *DEFAULT_SETTINGS[row["method"]], rows)
    measured = found or {}
    return {
        "our default: accuracy (%)": measured.get("accuracy"),
        "our default: fit (s)": measured.get("fit_s"),
    }


def describe_code(cell: Record | None) -> str | None:
    """The commit that a cell measured, marked if the code it measured has changed since."""
    if cell is None:
        return None
    return f"{cell['machine']['commit']}{'' if is_present_code(cell) else MARK}"


def is_present_code(cell: Record) -> bool:
    """Whether a cell was measured with the code as it is now."""
    return not is_stale(cell["machine"], GROUPS[cell["group"]][cell["method"]].module)


def compare_row(
    name: str,
    row: Record,
    published: Published,
    cell: Record | None,
    peer: Record | None,
) -> Row:
    """A published row beside ours; ``peer`` is the reference of the table on the same rows."""
    dataset, method = row["dataset"], row["method"]
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
        speeds = compare_speeds(row, published, measured, peer, reference)
        shown |= dict(
            zip((f"paper: {reference} / it", f"here: {reference} / it"), speeds, strict=True)
        )
    shown["verdict"] = state_verdict(name, row, published, cell, shown)
    shown["code"] = describe_code(cell)
    return {key: value for key, value in shown.items() if key in columns_of(published, shown)}


def columns_of(published: Published, shown: Row) -> list[str]:
    """Leave out columns of measures that the table does not print."""
    printed = {key for row in published["rows"] for key in row}
    hidden = [key for measure, key in (("accuracy", "accuracy (%)"), ("fit_s", "fit (s)"))
              if measure not in printed for key in (f"paper: {key}", f"here: {key}")]  # fmt: skip
    return [key for key in shown if key not in hidden]


def compare_speeds(
    row: Record, published: Published, measured: Record, peer: Record | None, reference: str
) -> tuple[float | None, float | None]:
    """How many times faster than the reference, in the paper and here on as many rows."""
    dataset = row["dataset"]
    theirs = next(
        (r for r in published["rows"] if (r["dataset"], r["method"]) == (dataset, reference)), {}
    )
    paper = theirs["fit_s"] / row["fit_s"] if "fit_s" in theirs and "fit_s" in row else None
    return paper, peer["fit_s"] / measured["fit_s"] if peer and measured else None


def state_verdict(
    name: str, row: Record, published: Published, cell: Record | None, shown: Row
) -> str:
    """One row in words. Accuracy decides where the table has it, else the relative speed."""
    data = rename(name, row["dataset"])
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
    if not difference and name.startswith("dcsvm"):
        difference = OTHER_PROBLEMS.get(row["method"], "")
    if difference:
        return f"not comparable: {difference}"
    if "accuracy" in row:
        decimals = count_decimals(name, row["dataset"])
        return judge_accuracy(cell["accuracy"], row["accuracy"], cell["n_test"], decimals)
    paper, here = (shown.get(f"{where}: {REFERENCES[name]} / it") for where in ("paper", "here"))
    return judge_speed(here, paper) if here and paper else "not comparable: no reference"


def show_sizes(name: str) -> Shown:
    """A table of the data themselves."""
    published = read_published(name)
    rows = []
    for row in published["rows"]:
        data = rename(SIZES_OF[name], row["dataset"])
        here = SETS[data].rows if data in SETS else None
        rows.append({
            "data": row["dataset"],
            "paper: training rows": row["n_train"],
            "here: training rows": here,
            "verdict": judge_size(row, data),
        })  # fmt: skip
    return Shown(name, published["title"], published["reference"], rows, published["notes"])


def judge_size(row: Record, data: str) -> str:
    if data not in SETS:
        return UNAVAILABLE
    if row.get("uncertain"):
        return "not comparable: a misprint, see the notes"
    same = SETS[data].rows == row["n_train"]
    return "reproduced" if same else f"not comparable: {SETS[data].differs}"


def show_combine(study: list[Row], published: Published) -> list[Row]:
    """Table 1 of DC-SVM."""
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
            "verdict": judge_combine(row, ours),
        })  # fmt: skip
    return rows


def judge_combine(row: Record, ours: Row | None) -> str:
    if row["dataset"] not in SETS:
        return UNAVAILABLE
    if ours is None:
        return "not run"
    decimals = count_decimals("dcsvm-table-1", row["dataset"])
    return judge_accuracy(ours["accuracy (%)"], row["accuracy"], COVTYPE_TEST, decimals)


def show_sparse(study: list[Row], published: Published) -> list[Row]:
    """Tables 2 to 4 of PSVM, at its parameters.

    The accuracy is a mean where one fit would be an accident: over 20 divisions where the paper's is
    not published, and over five seeds of SpSVM's candidates.
    """
    ours = {(r["data"], r["model"]): r for r in study if "model" in r}
    divided = {(r["data"], r["method"]): r for r in study if "mean (%)" in r}
    seeded = {r["data"]: r["test (%)"] for r in study if r.get("range (%)")}
    sizes = {r["data"]: r["test rows"] for r in study if "test rows" in r}
    rows = []
    for row in published["rows"]:
        data, method = row["dataset"], row["method"]
        found = ours[data, method]
        accuracy, verdict, mean_of = found["test (%)"], found["test accuracy"], "one fit"
        if (data, method) in divided:
            division = divided[data, method]
            accuracy, mean_of = division["mean (%)"], "20 divisions"
            if not verdict.startswith("not comparable"):
                verdict = division["verdict"]
        elif method == "SpSVM" and data in seeded:
            accuracy, mean_of = seeded[data], "5 seeds"
            decimals = count_decimals(f"psvm-table-{published['table']}", data)
            verdict = judge_accuracy(accuracy, row["accuracy"], sizes[data], decimals)
        rows.append({
            "data": data,
            "method": method,
            "paper: vectors": found["paper: vectors"],
            "here: vectors": found["vectors"],
            "paper: accuracy (%)": row["accuracy"],
            "here: accuracy (%)": accuracy,
            "mean of": mean_of,
            "test rows": sizes.get(data),
            "paper: fit (s)": row["fit_s"],
            "here: fit (s)": found["fit (s)"],
            "verdict": verdict,
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
    "pmsvm-table-5": show_traffic,
    "psvm-table-2": show_sparse,
    "psvm-table-3": show_sparse,
    "psvm-table-4": show_sparse,
}


def is_present_study(name: str, machine: Record | None) -> bool:
    """Whether the experiments behind a table or figure measured the code as it is now."""
    modules = [module for study in STUDIES[name] for module in study.modules]
    return machine is None or not any(is_stale(machine, module) for module in modules)


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
