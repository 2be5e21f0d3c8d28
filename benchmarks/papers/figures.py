"""The picture of every large data set: test error against seconds to fit, a curve for each method."""

from collections import defaultdict
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator

from benchmarks.harness import Record
from benchmarks.papers.methods import GROUPS

#: Ours stand out; the others are told apart by their markers.
STYLES: dict[str, tuple[str, str]] = {
    "KernelSVC": ("#0b4f9e", "o"),
    "DCSVC": ("#c1121f", "s"),
    "DC-SVM": ("#e07a5f", "H"),
    "PSVM": ("#1b7f47", "D"),
    "AdditiveSVC chi2": ("#7b2cbf", "^"),
    "LIBSVM": ("#111111", "*"),
    "LIBSVM on a sample": ("#555555", "X"),
    "CascadeSVM": ("#9c6644", "v"),
    "LaSVM": ("#d17b0f", "P"),
    "LLSVM": ("#0f8b8d", "<"),
    "FastFood": ("#4d7ea8", ">"),
    "LTPU": ("#a44a8c", "h"),
    "SpSVM": ("#6a994e", "d"),
    "LIBLINEAR": ("#7d8597", "p"),
}
SETTINGS = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "widemargin",
}
#: Width of a figure in inches, the same for all: so letters have the same size everywhere.
WIDTH = 7.2
#: A figure needs so many methods to be worth looking at.
MIN_METHODS = 5
#: Errors are drawn up to so many times the least: what is worse says little.
WORST_TIMES_BEST = 12.0


def group_curves(records: list[Record]) -> dict[tuple[str, int], dict[str, list[Record]]]:
    """Measured points by data set, number of rows and method, those of enough methods.

    Points of the grids, which have a C and gamma of their own, are left out.
    """
    curves: dict[tuple[str, int], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        is_measured = record["group"] == "kernel" and "fit_s" in record
        if is_measured and "C" not in record["options"]:
            curves[record["data"], record["rows"]][record["method"]].append(record)
    return {
        key: {name: methods[name] for name in STYLES if name in methods}
        for key, methods in curves.items()
        if len(methods) >= MIN_METHODS
    }


def draw_error_time(title: str, curves: dict[str, list[Record]]) -> Any:
    """Draw one data set; returns the figure."""
    with plt.rc_context(SETTINGS):
        figure, axes = plt.subplots(figsize=(WIDTH, 5.9), layout="constrained")
        least = min(error(r) for points in curves.values() for r in points)
        for name, points in curves.items():
            draw_curve(axes, name, points)
        finish_axes(axes, title, least, max(error(r) for p in curves.values() for r in p))
    return figure


def error(record: Record) -> float:
    """Test error in percent; at least half a row, so that none is off the scale."""
    return max(100.0 - float(record["accuracy"]), 50.0 / float(record["n_test"]))


def draw_curve(
    axes: Axes, name: str, points: list[Record], measure: Callable[[Record], float] = error
) -> None:
    """A marker for every setting, faint where another is faster and better; a line joins the rest."""
    colour, marker = STYLES[name]
    ours = GROUPS["kernel"][name].is_ours
    best = find_frontier(points)
    worse = [point for point in points if point not in best]
    look: dict[str, Any] = {
        "color": colour, "marker": marker, "zorder": 3 if ours else 2, "markeredgecolor": "white",
        "markeredgewidth": 0.6, "markersize": 13 if marker == "*" else 8 if ours else 6.5,
    }  # fmt: skip
    axes.plot(
        *locate(best, measure), **look, label=name, linewidth=2.8 if ours else 1.1,
        linestyle="-" if ours else (0, (4, 1.5)),
    )  # fmt: skip
    axes.plot(*locate(worse, measure), **look, linestyle="none", alpha=0.3)


def find_frontier(points: list[Record]) -> list[Record]:
    """Points that no faster one equals in error, the fastest first."""
    frontier: list[Record] = []
    for point in sorted(points, key=lambda r: float(r["fit_s"])):
        if not frontier or error(point) < error(frontier[-1]):
            frontier.append(point)
    return frontier


def locate(
    points: list[Record], measure: Callable[[Record], float]
) -> tuple[list[float], list[float]]:
    return [point["fit_s"] for point in points], [measure(point) for point in points]


def finish_axes(axes: Axes, title: str, least: float, most: float) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(least / 1.12, min(most * 1.12, least * WORST_TIMES_BEST))
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel("seconds to fit (log scale)")
    axes.set_ylabel("test error, % (log scale)")
    write_plainly(axes.xaxis)
    for minor in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        minor(FuncFormatter(lambda y, _: f"{y:.2g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    axes.yaxis.set_minor_locator(LogLocator(subs=()))
    draw_grid(axes)
    draw_legend(axes)


def write_plainly(axis: Axis) -> None:
    """Numbers without powers of ten."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))


def draw_grid(axes: Axes) -> None:
    axes.grid(True, which="major", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


def draw_legend(axes: Axes) -> None:
    """Methods below the figure, ours in bold."""
    legend = axes.figure.legend(
        loc="outside lower left", ncols=4, frameon=False, fontsize=9, columnspacing=1.4
    )
    for text in legend.get_texts():
        if GROUPS["kernel"][text.get_text()].is_ours:
            text.set_fontweight("bold")


def draw_all(records: list[Record]) -> dict[str, Any]:
    """All figures by name."""
    return {
        f"{data}-{rows}": draw_error_time(f"{data}, {rows:,} training rows", curves)
        for (data, rows), curves in sorted(group_curves(records).items())
    }


def to_svg(figure: Any) -> str:
    """The text of a figure as SVG, without the header of a file."""
    stream = StringIO()
    with plt.rc_context(SETTINGS):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def save_all(records: list[Record], folder: Path) -> list[Path]:
    """Save all figures as PNG."""
    figures = {f"error-time-{name}": figure for name, figure in draw_all(records).items()}
    return list(save_figures(figures, folder).values())


def save_figures(figures: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Save figures as PNG under their names, and close them; returns where they are."""
    paths = {name: folder / f"{name}.png" for name in figures}
    for name, figure in figures.items():
        figure.savefig(paths[name], dpi=130)
        plt.close(figure)
    return paths
