"""What the pictures of the papers' figures share: looks of curves, panels, axes, legends and dots."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from benchmarks.experiments import Row
from benchmarks.harness import Record
from benchmarks.papers.figures import STYLES, WIDTH, draw_grid, write_plainly

Look = dict[str, Any]
ACCURACY = "test accuracy, %"
DASHED = (0, (4, 1.5))
#: Size of letters within panels.
SMALL = 8.5


def make_look(colour: str, marker: str, **more: Any) -> Look:
    return {
        "color": colour, "marker": marker, "linewidth": 2.2, "markersize": 7,
        "markeredgecolor": "white", "markeredgewidth": 0.6, **more,
    }  # fmt: skip


#: What papers state is black and hollow.
INK = "#111111"
STATED: Look = {
    "color": INK, "linestyle": "none", "marker": "o", "markerfacecolor": "white", "markersize": 8,
    "markeredgewidth": 1.5, "zorder": 4,
}  # fmt: skip
DIVIDED = make_look(*STYLES["DC-SVM"])
RANDOM = make_look("#555555", "X", linestyle=DASHED)
EXACT = POWER_MEAN = make_look(*STYLES["KernelSVC"])
SPECTRAL = make_look(*STYLES["AdditiveSVC chi2"])
FOURIER = make_look(*STYLES["LaSVM"])
NYSTROEM = make_look(*STYLES["LLSVM"])
BINS = make_look(*STYLES["DC-SVM"])
LINEAR = make_look(*STYLES["LIBLINEAR"], linestyle=DASHED)


@dataclass(frozen=True)
class Measured:
    """What a picture can show.

    Attributes
    ----------
    rows : list of dict
        Rows of the figure's own experiment.
    cells : list of dict
        Fits of methods on data sets.
    all_levels : list of dict
        Levels of DC-SVM on all rows of covtype; empty if not on file.
    """

    rows: list[Row]
    cells: list[Record]
    all_levels: list[Row]


def start_panels(*titles: str, height: float) -> tuple[Figure, list[Axes]]:
    """Panels side by side, each with a title and a grid."""
    figure, axes = plt.subplots(
        1, len(titles), figsize=(WIDTH, height), layout="constrained", squeeze=False
    )
    for panel, title in zip(axes[0], titles, strict=True):
        name_panel(panel, title)
    return figure, list(axes[0])


def name_panel(axes: Axes, title: str, x: str = "", y: str = "") -> None:
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    draw_grid(axes)


def add_legend(figure: Figure, n_columns: int) -> None:
    """An entry below the figure for each label of its panels."""
    found = [axes.get_legend_handles_labels() for axes in figure.axes]
    entries = {
        label: h for handles, labels in found for h, label in zip(handles, labels, strict=True)
    }
    figure.legend(
        entries.values(), entries.keys(), loc="outside lower left", ncols=n_columns, frameon=False,
        fontsize=9, columnspacing=1.4,
    )  # fmt: skip


def use_log(axes: Axes, ticks: Iterable[float]) -> None:
    """Logarithms across, with plain numbers at some places alone."""
    axes.set_xscale("log")
    axes.set_xticks(list(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    write_plainly(axes.xaxis)


def write_at(
    axes: Axes, words: str, point: tuple[float, float], offset: tuple[float, float]
) -> None:
    """Words beside a point, as many printer's points away, on the side of the offset."""
    right, up = offset
    sides = {-1: "right", 0: "center", 1: "left"}, {-1: "top", 0: "center", 1: "bottom"}
    axes.annotate(
        words, point, offset, textcoords="offset points", fontsize=SMALL,
        ha=sides[0][(right > 0) - (right < 0)], va=sides[1][(up > 0) - (up < 0)],
    )  # fmt: skip


def draw_dots(axes: Axes, dots: list[tuple[str, float, Look]]) -> None:
    """A line for each name, from above, with dots at values."""
    names = list(dict.fromkeys(name for name, _, _ in dots))
    for name, value, look in dots:
        axes.plot(value, names.index(name), **look | {"linestyle": "none"})
    axes.set_yticks(range(len(names)), names, fontsize=SMALL)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params("y", length=0)


def column(rows: list[Row], name: str) -> list[Any]:
    return [row[name] for row in rows]


def select(rows: list[Row], name: str, value: object) -> list[Row]:
    return [row for row in rows if row[name] == value]
