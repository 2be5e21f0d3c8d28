"""Tables 5 to 10 of DC-SVM: its methods at 25 pairs of C and gamma, and what its levels cost."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.experiments import Row
from benchmarks.harness import Record
from benchmarks.papers.plan import (
    DCSVM_SETTINGS,
    DEFAULT_SETTINGS,
    GRID_DATA,
    GRID_POWERS,
    at_powers,
)
from benchmarks.papers.published import count_decimals, read_published
from benchmarks.papers.sets import SETS
from benchmarks.papers.tables import UNAVAILABLE, Shown, describe_code, make_shown, select_cell
from benchmarks.papers.verdicts import OTHER_PROBLEMS, find_difference, judge_accuracy


def find_grid_cell(
    cells: list[Record], data: str, setting: tuple[str, Record], C: int, gamma: int
) -> Record | None:
    """The fit of a method with powers of two as C and gamma."""
    method, options = setting
    return select_cell(cells, data, "kernel", method, at_powers(options, C, gamma))


def show_grid(name: str, cells: list[Record]) -> Shown:
    """A table of every pair of C and gamma on one data set."""
    published, data = read_published(name), GRID_DATA[name]
    rows, used = [], []
    for row in published["rows"]:
        powers = row["C_log2"], row["gamma_log2"]
        cell = find_grid_cell(cells, data, DCSVM_SETTINGS[row["method"]], *powers)
        default = DEFAULT_SETTINGS.get(row["method"])
        ours = find_grid_cell(cells, data, default, *powers) if default else None
        used.append(cell)
        rows.append(compare_pair(name, row, cell or {}, ours or {}))
    return make_shown(name, published, rows, used)


def compare_pair(name: str, row: Record, cell: Record, ours: Record) -> Row:
    """A published row beside the paper's algorithm and beside our default."""
    return {
        "C": f"2^{row['C_log2']}",
        "gamma": f"2^{row['gamma_log2']}",
        "method": row["method"],
        "rows here": cell.get("rows"),
        "paper: accuracy (%)": row.get("accuracy"),
        "here: accuracy (%)": cell.get("accuracy"),
        "paper: fit (s)": row.get("fit_s"),
        "here: fit (s)": cell.get("fit_s"),
        "verdict": judge_pair(name, row, cell),
        "our default: accuracy (%)": ours.get("accuracy"),
        "our default: fit (s)": ours.get("fit_s"),
        "code": describe_code(cell or None),
    }


def judge_pair(name: str, row: Record, cell: Record) -> str:
    data = row["dataset"]
    if not cell:
        return "not run"
    if "missing" in row:
        return f"not comparable: {row['missing']} in the paper"
    if "fit_s" not in cell:
        return f"not comparable: {cell['outcome']} here"
    difference = find_difference(SETS[data].differs, cell["rows"], SETS[data].rows)
    difference = difference or OTHER_PROBLEMS.get(row["method"], "")
    if difference:
        return f"not comparable: {difference}"
    decimals = count_decimals(name, data)
    return judge_accuracy(cell["accuracy"], row["accuracy"], cell["n_test"], decimals)


def show_totals(cells: list[Record]) -> Shown:
    """Table 5: seconds of all pairs, added up."""
    published = read_published("dcsvm-table-5")
    rows, used = [], []
    for row in published["rows"]:
        found = [
            find_grid_cell(cells, row["dataset"], DCSVM_SETTINGS[row["method"]], C, gamma)
            for C in GRID_POWERS
            for gamma in GRID_POWERS
        ]
        used += found
        rows.append(add_up(row, [cell for cell in found if cell]))
    return make_shown("dcsvm-table-5", published, rows, used)


def add_up(row: Record, cells: list[Record]) -> Row:
    """The sum of the fits, of which those that were stopped count with their limit."""
    n_pairs = len(GRID_POWERS) ** 2
    n_stopped = sum("fit_s" not in cell for cell in cells)
    is_whole = len(cells) == n_pairs
    verdict = "not run" if not cells else "not comparable: another machine"
    rows = min((cell["rows"] for cell in cells), default=0)
    if cells and rows < SETS[row["dataset"]].rows:
        verdict = f"not comparable: {rows:,} of {SETS[row['dataset']].rows:,} rows"
    if cells and not is_whole:
        verdict = f"not comparable: {len(cells)} of {n_pairs} pairs were measured"
    if n_stopped:
        verdict += f"; {n_stopped} fits were stopped and count with their limit"
    return {
        "data": row["dataset"],
        "method": row["method"],
        "paper: 25 fits (s)": row["total_s"],
        "here: 25 fits (s)": (
            sum(cell.get("fit_s", cell["limit_s"]) for cell in cells) if is_whole else None
        ),
        "verdict": verdict if row["dataset"] in SETS else UNAVAILABLE,
    }


def show_levels(cells: list[Record]) -> Shown:
    """Table 6: what clustering costs beside solving, level by level, on the set of the table."""
    published, setting = read_published("dcsvm-table-6"), DCSVM_SETTINGS["DC-SVM"]
    cell = select_cell(cells, "covtype", "kernel", *setting, SETS["covtype"].rows)
    found = {level["level"]: level for level in (cell or {}).get("levels", [])}
    rows = []
    for row in published["rows"]:
        ours = found.get(row["level"], {})
        rows.append({
            "level": row["level"],
            "paper: clusters": row["clusters"],
            "here: clusters": ours.get("clusters"),
            "paper: clustering (s)": row["clustering_s"],
            "here: clustering (s)": ours.get("clustering (s)"),
            "paper: solving (s)": row["solve_s"],
            "here: solving (s)": ours.get("solving (s)"),
            "verdict": judge_level(ours),
            "code": describe_code(cell),
        })  # fmt: skip
    return make_shown("dcsvm-table-6", published, rows, [cell])


def judge_level(ours: Record) -> str:
    """Clustering takes less time than solving at every level of the table."""
    if not ours:
        return "not run"
    is_less = ours["clustering (s)"] <= ours["solving (s)"]
    return (
        f"{'reproduced' if is_less else 'worse'}: clustering takes {'less' if is_less else 'more'}"
    )


def show_unavailable(name: str) -> Shown:
    """A table whose data are not to be had."""
    published = read_published(name)
    shown = make_shown(name, published, [], [])
    return replace(shown, notes=[f"Verdict: {UNAVAILABLE}", *shown.notes])


GRID_TABLES: dict[str, Callable[[list[Record]], Shown]] = {
    "dcsvm-table-5": show_totals,
    "dcsvm-table-6": show_levels,
    "dcsvm-table-8": lambda _: show_unavailable("dcsvm-table-8"),
    **{name: partial(show_grid, name) for name in GRID_DATA},
}
