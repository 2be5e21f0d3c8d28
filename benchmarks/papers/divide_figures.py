"""The figures of DC-SVM drawn anew: one function each, with functions for their panels."""

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchmarks.experiments import Row
from benchmarks.harness import Record
from benchmarks.papers.figures import WIDTH, draw_curve, draw_legend, group_curves, write_plainly
from benchmarks.papers.panels import (
    ACCURACY,
    DIVIDED,
    EXACT,
    INK,
    RANDOM,
    SMALL,
    STATED,
    Measured,
    add_legend,
    column,
    draw_dots,
    name_panel,
    select,
    start_panels,
    use_log,
    write_at,
)
from benchmarks.papers.published import read_stated

#: Accuracies of methods are drawn down to so many points below the best.
SHOWN_POINTS = 22.0


def draw_bound(measured: Measured) -> Figure:
    """Figure 1 of DC-SVM."""
    figure, (plain, log) = start_panels(
        "Loss of objective", "Loss and its bound, log scale", height=3.8
    )
    for partition, look in {"kernel k-means": DIVIDED, "random": RANDOM}.items():
        rows = select(measured.rows, "partition", partition)
        clusters = column(rows, "clusters")
        for axes in (plain, log):
            losses = column(rows, "f(glued) - f(optimum)")
            axes.plot(clusters, losses, **look, label=f"loss, {partition}")
        hollow = {"linestyle": ":", "markerfacecolor": "white", "markeredgecolor": look["color"]}
        log.plot(clusters, column(rows, "bound"), **look | hollow, label=f"bound, {partition}")
    for axes in (plain, log):
        use_log(axes, (16, 32, 64, 128))
        axes.set_xlabel("clusters (log scale)")
    log.set_yscale("log")
    plain.set_ylim(bottom=0)
    plain.set_ylabel("f(glued) - f(optimum)")
    plain.yaxis.set_major_locator(MaxNLocator(5))
    write_plainly(plain.yaxis)
    add_legend(figure, 4)
    return figure


def draw_support(measured: Measured) -> Figure:
    """Figure 2 of DC-SVM, without its panels of time."""
    titles = {"rbf": "RBF kernel", "poly": "Polynomial kernel"}
    kernels = [kernel for kernel in titles if select(measured.rows, "kernel", kernel)]
    figure, panels = plt.subplots(
        len(kernels), 2, figsize=(WIDTH, 2.6 * len(kernels) + 0.6), layout="constrained",
        squeeze=False, sharex=True, sharey=True,
    )  # fmt: skip
    for kernel, pair in zip(kernels, panels, strict=True):
        for axes, measure in zip(pair, ("precision", "recall"), strict=True):
            name_panel(axes, f"{titles[kernel]}: {measure}")
            draw_found(axes, select(measured.rows, "kernel", kernel), f"{measure} (%)")
        pair[0].set_ylabel("%")
    for axes in panels[-1]:
        axes.set_xlabel("clusters of the level (log scale)")
    add_legend(figure, 3)
    return figure


def draw_found(axes: Axes, rows: list[Row], measure: str) -> None:
    """Shares of support vectors by level, for clusters and for the parts of a cascade."""
    for partition, label, look in (
        ("DC-SVM", "DC-SVM", DIVIDED), ("cascade", "cascade", RANDOM)
    ):  # fmt: skip
        found = select(rows, "partition", partition)
        axes.plot(column(found, "clusters"), column(found, measure), **look, label=label)
    for stated in read_stated("dcsvm-figure-2"):
        if "support_found" in stated:
            share = stated["support_found"]
            label = f"paper, DC-SVM: about {share} %, panel not named"
            axes.plot(stated["clusters"], share, **STATED, label=label)
    use_log(axes, (4, 16, 64, 256))


def draw_levels(measured: Measured) -> Figure:
    """Figure 3 of DC-SVM, its panels of covtype."""
    curves = group_curves(measured.cells).get(("covtype", 50_000))
    above = ["objective", "all rows"] if measured.all_levels else ["objective"]
    below = [["methods"] * len(above)] if curves else []
    figure, panels = plt.subplot_mosaic(
        [above, *below], figsize=(WIDTH, 7.4 if curves else 3.3), layout="constrained"
    )
    draw_objective(panels["objective"], measured.rows)
    if measured.all_levels:
        draw_all_levels(panels["all rows"], measured.all_levels)
    if curves:
        draw_methods(panels["methods"], curves)
    return figure


def draw_objective(axes: Axes, rows: list[Row]) -> None:
    """Relative error of the objective after every level but the last, which has none."""
    objectives = np.array(column(rows, "objective of the whole problem"))
    errors = (objectives[:-1] - objectives[-1]) / abs(objectives[-1])
    *seconds, last = column(rows, "seconds so far")
    axes.plot(seconds, errors, **DIVIDED)
    label_clusters(axes, rows[:-1], errors, 4)
    axes.axvline(last, color=DIVIDED["color"], linestyle=":")
    write_at(axes, "optimum", (last, errors[0]), (-4, 0))
    for stated in read_stated("dcsvm-figure-3"):
        if "relative_error" in stated:
            words = f"{stated['relative_error']:g} in under {stated['fit_s_below']:,} s"
            axes.text(
                0.04, 0.06, f"paper, all rows:\n{words}", transform=axes.transAxes, size=SMALL
            )
    axes.set_yscale("log")
    write_plainly(axes.yaxis)
    use_log(axes, (1, 2, 5, 10))
    axes.margins(0.12)
    name_panel(axes, "Objective, 50,000 rows", "seconds (log scale)", "relative error (log scale)")


def label_clusters(axes: Axes, rows: list[Row], heights: list[float], up: float) -> None:
    """Write at points of levels how many clusters these have."""
    for row, height in zip(rows, heights, strict=True):
        words = f"{row['clusters']} clusters" if row is rows[0] else str(row["clusters"])
        write_at(axes, words, (row["seconds so far"], height), (7, up))


def draw_all_levels(axes: Axes, rows: list[Row]) -> None:
    """Accuracy by level, beside what the paper states."""
    accuracies = column(rows, "accuracy (%)")
    axes.plot(column(rows, "seconds so far"), accuracies, **DIVIDED)
    label_clusters(axes, rows, accuracies, -4)
    for stated in read_stated("dcsvm-figure-3"):
        for key, word, marker, right in (
            ("fit_s_below", "under", "<", 9), ("fit_s_above", "over", ">", -9)
        ):  # fmt: skip
            if key in stated and "accuracy" in stated:
                point = stated[key], stated["accuracy"]
                axes.plot(*point, **STATED | {"marker": marker})
                words = f"paper:\n{stated['method']},\n{word} {point[0]:,} s"
                write_at(axes, words, point, (right, 0))
    use_log(axes, (10, 1_000, 100_000))
    axes.margins(0.2)
    name_panel(axes, "Accuracy of DCSVC(), all rows", "seconds (log scale)", ACCURACY)


def draw_methods(axes: Axes, curves: dict[str, list[Record]]) -> None:
    """Accuracy of all methods, but for what is far below the best."""
    for name, points in curves.items():
        draw_curve(axes, name, points, lambda cell: float(cell["accuracy"]))
    best = max(cell["accuracy"] for points in curves.values() for cell in points)
    axes.set_ylim(best - SHOWN_POINTS, best + 1.5)
    use_log(axes, (0.1, 1, 10))
    name_panel(axes, "Accuracy, 50,000 rows, all methods", "seconds to fit (log scale)", ACCURACY)
    draw_legend(axes)


def draw_poly(measured: Measured) -> Figure:
    """Figure 4 of DC-SVM, its accuracy on covtype, and speeds."""
    figure, (accuracy, speed) = start_panels("Accuracy", "How many times as fast", height=3.6)
    for number, row in enumerate(measured.rows):
        point = row["fit (s)"], row["accuracy (%)"]
        accuracy.plot(*point, **(DIVIDED if row["model"].startswith("DC-SVM") else EXACT))
        write_at(accuracy, row["model"], point, (0, 8 if number % 2 else -8))
    use_log(accuracy, (1, 10, 100))
    accuracy.margins(x=0.3, y=0.25)
    accuracy.set_xlabel("seconds to fit (log scale)")
    accuracy.set_ylabel(ACCURACY)
    draw_speed(speed, measured.rows)
    return figure


def draw_speed(axes: Axes, rows: list[Row]) -> None:
    """Divide and conquer against the other solvers, here and as the paper states."""
    seconds = {row["model"]: row["fit (s)"] for row in rows}
    here = [
        (f"{method}\nthan {peer}", seconds[peer] / seconds[method], DIVIDED)
        for method in ("DC-SVM", "DC-SVM (early)")
        for peer in ("LIBSVM", "LaSVM", "KernelSVC")
    ]
    limit = STATED | {"marker": ">"}
    stated = [
        (f"paper: {row['method']} than\n{row['against']}", row["speedup_above"], limit)
        for row in read_stated("dcsvm-figure-4")
    ]
    draw_dots(axes, [*stated, *here])
    axes.axvline(1.0, color=INK, linewidth=1)
    use_log(axes, (1, 10, 100))
    axes.set_xlabel("times as fast (log scale)")
