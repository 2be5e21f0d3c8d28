"""The papers' figures drawn anew from what was measured, with the numbers that the papers state."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from benchmarks import divide
from benchmarks.papers.additive_figures import (
    draw_anchors,
    draw_cost,
    draw_power,
    draw_slice,
    draw_surface,
)
from benchmarks.papers.divide_figures import draw_bound, draw_levels, draw_poly, draw_support
from benchmarks.papers.figures import SETTINGS, save_figures
from benchmarks.papers.panels import Measured
from benchmarks.papers.report import Report, render_picture
from benchmarks.papers.tables import Shown
from benchmarks.storage import read_measurements

#: Experiment with the levels of our default on all rows of covtype.
ALL_LEVELS = "covtype-exact"


@dataclass(frozen=True)
class Picture:
    """How to draw a figure.

    Attributes
    ----------
    draw : callable
        ``draw(measured)`` returns the figure.
    columns : tuple of str
        What every row must have.
    caption : str
        What is seen.
    """

    draw: Callable[[Measured], Figure]
    columns: tuple[str, ...]
    caption: str


def draw_exhibits(report: Report) -> dict[str, Figure]:
    """Figures by exhibit, of those whose data are on file."""
    all_levels = [
        row
        for measured in read_measurements(divide.RESULTS)
        if measured["experiment"] == ALL_LEVELS
        for row in measured["rows"]
    ]
    with plt.rc_context(SETTINGS):
        return {
            shown.name: PICTURES[shown.name].draw(Measured(shown.rows, report.cells, all_levels))
            for shown in report.shown
            if is_drawable(shown)
        }


def save_exhibits(report: Report, folder: Path) -> dict[str, str]:
    """Save the figures as PNG; returns Markdown that shows them, by exhibit."""
    figures = draw_exhibits(report)
    paths = save_figures(figures, folder)
    return {
        name: render_picture(path, PICTURES[name].caption)
        for name, path in zip(figures, paths.values(), strict=True)
    }


def is_drawable(shown: Shown) -> bool:
    if shown.name not in PICTURES or not shown.rows:
        return False
    needed = set(PICTURES[shown.name].columns)
    return all(needed <= row.keys() for row in shown.rows)


PICTURES: dict[str, Picture] = {
    "dcsvm-figure-1": Picture(
        draw_bound,
        ("clusters", "partition", "f(glued) - f(optimum)", "bound"),
        "What is lost by solving clusters apart, against their number: for clusters of kernel k-means "
        "and for random ones of the same sizes. On the right also the bounds.",
    ),
    "dcsvm-figure-2": Picture(
        draw_support,
        ("kernel", "clusters", "partition", "precision (%)", "recall (%)"),
        "Precision and recall of the support vectors that each level finds, for DC-SVM and for a "
        "cascade with as many parts. The paper says about 90 % with 256 clusters, and names no panel.",
    ),
    "dcsvm-figure-3": Picture(
        draw_levels,
        ("clusters", "seconds so far", "objective of the whole problem"),
        "Objective and test accuracy against time. Points of DC-SVM are levels, with their numbers of "
        "clusters; triangles are limits that the paper states and point to where its times are; other "
        "methods are as in the pictures of error against time.",
    ),
    "dcsvm-figure-4": Picture(
        draw_poly,
        ("model", "fit (s)", "accuracy (%)"),
        "Test accuracy against seconds to fit, and how many times as fast as other solvers divide and "
        "conquer is, here and in the paper.",
    ),
    "pmsvm-figure-1": Picture(
        draw_surface,
        ("table", "chi2: mean", "chi2: relative (%)"),
        "The chi-squared kernel on the unit square, its approximation with the three anchors of the "
        "paper, and how far they are apart.",
    ),
    "pmsvm-figure-2": Picture(
        draw_slice,
        ("table",),
        "The intersection kernel of x and 0.09, approximations by three numbers a value, and mean "
        "deviations of these and others beside those that the paper states.",
    ),
    "pmsvm-figure-3": Picture(
        draw_power,
        ("p", "fit (s)", "accuracy (%)"),
        "Test accuracy and seconds to fit against the exponent of the power mean: -1 is the "
        "chi-squared kernel, -8 is close to the intersection kernel.",
    ),
    "pmsvm-figure-4": Picture(
        draw_anchors,
        ("table", "chi2: mean", "chi2: relative (%)"),
        "Deviations from the chi-squared kernel on a uniform grid, against the number of anchors or "
        "the rank of spectral tables. The triangle is a limit that the paper states for its data.",
    ),
    "icd-figure-1": Picture(
        draw_cost,
        (
            "C / default",
            "IntersectionSVC (%)",
            "AdditiveSVC chi2 (%)",
            "PowerMeanSVC p=-8 (%)",
            "LinearSVC (%)",
        ),
        "Test accuracy on caltech101 against C, relative to the default of each method. The dotted "
        "line is where the paper says that ICD becomes stable.",
    ),
}
