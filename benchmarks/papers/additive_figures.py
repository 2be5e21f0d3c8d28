"""The figures of PmSVM and ICD drawn anew: one function each, with functions for their panels."""

import re
from math import log2

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchmarks.additive_tables import (
    FIXED,
    GRID,
    NYSTROEM_ANCHORS,
    PAPER_TABLE,
    make_tables,
)
from benchmarks.experiments import Row
from benchmarks.papers.figures import write_plainly
from benchmarks.papers.panels import (
    ACCURACY,
    BINS,
    DASHED,
    FOURIER,
    INK,
    LINEAR,
    NYSTROEM,
    POWER_MEAN,
    SMALL,
    SPECTRAL,
    STATED,
    Look,
    Measured,
    add_legend,
    column,
    draw_dots,
    select,
    start_panels,
    use_log,
    write_at,
)
from benchmarks.papers.published import read_published, read_stated
from widemargin.additive.scalar_kernels import make_scalar_kernel

#: Looks of the surfaces of kernels, and of the distance of two.
HEIGHTS: Look = {"levels": np.linspace(0.0, 1.0, 11), "cmap": "cividis", "extend": "both"}
DISTANCES: Look = {"levels": 8, "cmap": "Purples"}


def draw_surface(measured: Measured) -> Figure:
    """Figure 1 of PmSVM, and the difference of its surfaces."""
    kernel = make_scalar_kernel("chi2")
    read, write = make_tables()[PAPER_TABLE](kernel)
    some = np.linspace(0, len(GRID) - 1, 51).astype(int)
    exact, found = kernel(GRID[some], GRID[some]), read[some] @ write[some].T
    figure, panels = start_panels("Kernel", "PmSVM, 3 anchors", "Difference", height=3.2)
    for axes, values, look in zip(
        panels, (exact, found, np.abs(found - exact)), (HEIGHTS, HEIGHTS, DISTANCES), strict=True
    ):
        shades = axes.contourf(GRID[some], GRID[some], values.T, **look)
        axes.set(aspect="equal", xlim=(0, 1), ylim=(0, 1), xlabel="x", ylabel="y")
        axes.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        bar = figure.colorbar(shades, ax=axes, location="bottom", ticks=MaxNLocator(4))
        bar.ax.tick_params(labelsize=SMALL)
    bar.set_label(describe_mean(measured.rows), fontsize=SMALL)
    return figure


def describe_mean(rows: list[Row]) -> str:
    """The mean of the difference, plain and relative, here and in the paper."""
    (here,) = select(rows, "table", PAPER_TABLE)
    (stated,) = read_stated("pmsvm-figure-1")
    return (
        f"mean {here['chi2: mean']:.1e}, paper {stated['mean_deviation']:.1e}\n"
        f"relative {here['chi2: relative (%)']:.2f} %, paper {stated['mean_relative_deviation']} %"
    )


#: Looks of approximations by the first word of their names.
FAMILIES = {
    "PmSVM": POWER_MEAN, "Fourier": FOURIER, "spectral": SPECTRAL, "Nystroem": NYSTROEM,
}  # fmt: skip
#: The Nystroem embedding with all its numbers.
WHOLE_EMBEDDING = f"Nystroem, {NYSTROEM_ANCHORS} anchors, {NYSTROEM_ANCHORS} numbers"
#: Approximations by three numbers a value.
SLICES = {PAPER_TABLE: "-", "Fourier map, 3 columns": DASHED, "spectral, rank 3": (0, (1.5, 1))}


def find_look(table: str) -> Look:
    return FAMILIES[re.split(r"\W", table)[0]]


def draw_slice(_: Measured) -> Figure:
    """Figure 2 of PmSVM, and mean deviations."""
    kernel = make_scalar_kernel("intersection")
    exact = kernel(GRID, GRID[FIXED : FIXED + 1])[:, 0]
    found = {}
    for name, make in make_tables().items():
        # The whole embedding has no visible error: the table has its number.
        if "Chi2" not in name and name != WHOLE_EMBEDDING:
            read, write = make(kernel)
            found[name] = read @ write[FIXED]
    figure, (curves, dots) = start_panels(
        "Kernel of x and 0.09", "How far away on average", height=4.5
    )
    curves.plot(GRID, exact, color=INK, linewidth=4, alpha=0.3, label="min(x, 0.09)")
    for name, style in SLICES.items():
        look = find_look(name) | {"marker": "", "linestyle": style}
        curves.plot(GRID, found[name], **look, label=name)
    curves.set_xlabel("x")
    draw_deviations(dots, {name: float(np.abs(f - exact).mean()) for name, f in found.items()})
    add_legend(figure, 2)
    return figure


def draw_deviations(axes: Axes, here: dict[str, float]) -> None:
    """Mean deviations in the paper, then those here."""
    stated = [
        (f"paper: {row['method']}", row["mean_deviation"], STATED)
        for row in read_stated("pmsvm-figure-2")
    ]
    draw_dots(axes, [*stated, *((name, value, find_look(name)) for name, value in here.items())])
    use_log(axes, (0.001, 0.003, 0.01, 0.03))
    axes.set_xlabel("mean deviation (log scale)")


def draw_power(measured: Measured) -> Figure:
    """Figure 3 of PmSVM."""
    figure, panels = start_panels("Accuracy, scene15", "Time to fit, scene15", height=3.2)
    exponents = [log2(-float(p)) for p in column(measured.rows, "p")]
    for axes, name in zip(panels, ("accuracy (%)", "fit (s)"), strict=True):
        axes.plot(exponents, column(measured.rows, name), **POWER_MEAN)
        axes.set_xticks(exponents, map(name_power, exponents), fontsize=SMALL)
        axes.set_xlabel("p (log scale)")
    # Wide enough that tenths of a point do not look like much.
    accuracies = column(measured.rows, "accuracy (%)")
    panels[0].set_ylim(min(accuracies) - 2.5, max(accuracies) + 2.5)
    panels[0].set_ylabel(ACCURACY)
    panels[1].set_ylim(0, 1.25 * max(column(measured.rows, "fit (s)")))
    panels[1].set_ylabel("seconds")
    return figure


def name_power(exponent: float) -> str:
    """The p of ``log2(-p)``, such as ``"-1/16"``."""
    return f"-{2**exponent:g}" if exponent >= 0 else f"-1/{2**-exponent:g}"


def draw_anchors(measured: Measured) -> Figure:
    """Figure 4 of PmSVM, its deviations."""
    figure, panels = start_panels("Mean relative deviation", "Mean deviation", height=3.6)
    for word, label in {
        "Chebyshev": "PmSVM, Chebyshev anchors", "spectral": "AdditiveSVC, spectral tables"
    }.items():  # fmt: skip
        rows = [row for row in measured.rows if word in row["table"]]
        sizes = [int(re.findall(r"\d+", table)[0]) for table in column(rows, "table")]
        look = find_look(rows[0]["table"])
        for axes, name in zip(panels, ("chi2: relative (%)", "chi2: mean"), strict=True):
            axes.semilogy(sizes, column(rows, name), **look, label=label)
            axes.set_xlabel("anchors, or rank")
    for stated in read_stated("pmsvm-figure-4"):
        below = stated["mean_relative_deviation_below"]
        label = f"paper: below {below} % on its data"
        panels[0].plot(stated["n_anchors"], below, **STATED | {"marker": "v"}, label=label)
    panels[0].set_ylabel("% (log scale)")
    write_plainly(panels[0].yaxis)
    panels[1].set_ylabel("log scale")
    add_legend(figure, 3)
    return figure


def draw_cost(measured: Measured) -> Figure:
    """Figure 1 of ICD, its panel of caltech101."""
    figure, (axes,) = start_panels("Accuracy against C, caltech101", height=4.0)
    factors = column(measured.rows, "C / default")
    for name, look in {
        "IntersectionSVC": BINS, "AdditiveSVC chi2": SPECTRAL, "PowerMeanSVC p=-8": POWER_MEAN,
        "LinearSVC": LINEAR,
    }.items():  # fmt: skip
        axes.plot(factors, column(measured.rows, f"{name} (%)"), **look, label=name)
    default = read_published("icd-figures")["settings"]["figure_1a"]["C_0"]
    for stated in read_stated("icd-figure-1"):
        place = stated["stable_from_C"] / default
        axes.axvline(place, color=INK, linestyle=":")
        words = f"paper: {stated['method']} stable from here,\nC = {stated['stable_from_C']:g}"
        write_at(axes, words, (place, axes.get_ylim()[0]), (6, 6))
    use_log(axes, factors)
    axes.set_xlabel("C / default (log scale)")
    axes.set_ylabel(ACCURACY)
    add_legend(figure, 3)
    return figure
