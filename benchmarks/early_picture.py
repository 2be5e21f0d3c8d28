"""The picture of test error against time to fit, for exact fits, early prediction and samples."""

from pathlib import Path
from typing import Any

from benchmarks.early_data import SETS

#: Beginning of a method's name -> style.
STYLES = {
    "exact": "k*", "sample of": "C7.--", "paper": "C0s", "ours": "C3o-",
}  # fmt: skip
LABELS = {
    "exact": "KernelSVC, all rows", "sample of": "KernelSVC, random samples",
    "paper": "early, as published, 64 clusters", "ours": "early, by default, 64, 16 and 4 clusters",
}  # fmt: skip


def save_picture(measurements: list[dict[str, Any]], path: Path) -> None:
    """Draw one panel for each set that was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    measured = {
        m["experiment"].removeprefix("early-"): m["rows"]
        for m in measurements
        if m["experiment"].removeprefix("early-") in SETS
    }
    figure, axes = plt.subplots(2, 4, figsize=(13, 6), constrained_layout=True)
    for axis, (name, rows) in zip(axes.flat, measured.items(), strict=False):
        _draw_panel(axis, rows)
        axis.set_title(f"{name}, {max(row['rows'] for row in rows):,} rows")
    for axis in axes.flat[len(measured) :]:
        axis.set_axis_off()
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[-1].legend(handles, labels, loc="center")
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _draw_panel(axis: Any, rows: list[dict[str, Any]]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for kind, style in STYLES.items():
        mine = [row for row in rows if row["method"].startswith(kind)]
        mine.sort(key=lambda row: (row["rows"], row["fit (CPU s)"]))
        seconds = [row["fit (CPU s)"] for row in mine]
        errors = [100.0 - row["accuracy (%)"] for row in mine]
        axis.plot(seconds, errors, style, label=LABELS[kind])
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("fit, CPU seconds")
    axis.set_ylabel("test error, %")
