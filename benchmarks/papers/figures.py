"""The picture of every large data set: test error against seconds to fit, a curve for each method."""

from collections import defaultdict
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

from benchmarks.papers.cells import Record
from benchmarks.papers.methods import GROUPS

#: Ours stand out; the others are told apart by their markers.
STYLES: dict[str, tuple[str, str]] = {
    "KernelSVC": ("#0b4f9e", "o"),
    "DC-SVM": ("#d1495b", "s"),
    "PSVM": ("#2a9d5c", "D"),
    "AdditiveSVC chi2": ("#8e44ad", "^"),
    "LIBSVM": ("#222222", "*"),
    "LIBSVM on a sample": ("#666666", "x"),
    "CascadeSVM": ("#b08968", "v"),
    "LaSVM": ("#9a8c98", "P"),
    "LLSVM": ("#e09f3e", "<"),
    "FastFood": ("#7fb7be", ">"),
    "LTPU": ("#c9ada7", "h"),
    "SpSVM": ("#8ab17d", "d"),
    "LIBLINEAR": ("#adb5bd", "p"),
}
SETTINGS = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "widemargin",
}
#: A figure needs so many methods to be worth looking at.
MIN_METHODS = 5
#: Errors are drawn up to so many times the least: what is worse says little.
WORST_TIMES_BEST = 12.0


def group_curves(records: list[Record]) -> dict[tuple[str, int], dict[str, list[Record]]]:
    """Measured points by data set, number of rows and method, those of enough methods."""
    curves: dict[tuple[str, int], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record["group"] == "kernel" and "fit_s" in record:
            curves[record["data"], record["rows"]][record["method"]].append(record)
    return {
        key: {name: methods[name] for name in GROUPS["kernel"] if name in methods}
        for key, methods in curves.items()
        if len(methods) >= MIN_METHODS
    }


def draw_error_time(title: str, curves: dict[str, list[Record]]) -> Any:
    """Draw one data set; returns the figure."""
    with plt.rc_context(SETTINGS):
        figure, axes = plt.subplots(figsize=(8.6, 4.8), layout="constrained")
        least = min(error(r) for points in curves.values() for r in points)
        for name, points in curves.items():
            draw_curve(axes, name, points)
        finish_axes(axes, title, least, max(error(r) for p in curves.values() for r in p))
    return figure


def draw_curve(axes: Axes, name: str, points: list[Record]) -> None:
    colour, marker = STYLES[name]
    ours = GROUPS["kernel"][name].is_ours
    points = sorted(points, key=lambda r: float(r["fit_s"]))
    axes.plot(
        [r["fit_s"] for r in points], [error(r) for r in points],
        color=colour, marker=marker, label=name, linewidth=2.6 if ours else 1.2,
        markersize=11 if marker == "*" else 7 if ours else 5.5, zorder=3 if ours else 2,
        linestyle="-" if ours else (0, (4, 1.5)), markeredgecolor="white", markeredgewidth=0.6
        if marker not in "xP" else 0.0,
    )  # fmt: skip


def finish_axes(axes: Axes, title: str, least: float, most: float) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(least / 1.12, min(most * 1.12, least * WORST_TIMES_BEST))
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel("seconds to fit (log scale)")
    axes.set_ylabel("test error, % (log scale)")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    for minor in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        minor(FuncFormatter(lambda y, _: f"{y:.2g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(LogLocator(subs=()))
    axes.grid(True, which="major", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(
        loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, title="bold: widemargin",
        alignment="left",
    )  # fmt: skip


def error(record: Record) -> float:
    """Test error in percent; at least half a row, so that none is off the scale."""
    return max(100.0 - float(record["accuracy"]), 50.0 / float(record["n_test"]))


def draw_all(records: list[Record]) -> dict[str, Any]:
    """All figures by name."""
    return {
        f"{data}-{rows}": draw_error_time(f"{data}, {rows:,} training rows", curves)
        for (data, rows), curves in sorted(group_curves(records).items())
    }


def to_svg(figure: Any) -> str:
    """The text of a figure as SVG, without the header of a file."""
    stream = StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def save_all(records: list[Record], folder: Path) -> list[Path]:
    """Save all figures as PNG."""
    paths = []
    for name, figure in draw_all(records).items():
        paths.append(folder / f"error-time-{name}.png")
        figure.savefig(paths[-1], dpi=130)
        plt.close(figure)
    return paths
