"""The picture of the map: a panel for each set, the ratio of times as colour, faults as crosses."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.colors import TwoSlopeNorm

from benchmarks.harness import Record
from benchmarks.map_cells import C_GRID, GAMMA_GRID
from benchmarks.map_table import list_faults

#: Ratios are shown as powers of two within these.
LEAST, MOST = -3.0, 6.0


def draw_map(records: list[Record]) -> Any:
    """Draw all sets; returns the figure."""
    names = list(dict.fromkeys(record["data"] for record in records))
    n_columns = min(4, len(names))
    n_lines = -(-len(names) // n_columns)
    figure, axes = plt.subplots(
        n_lines, n_columns, figsize=(2.6 * n_columns + 1.2, 2.7 * n_lines), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    norm = TwoSlopeNorm(0.0, LEAST, MOST)
    for name, panel in zip(names, axes.flat, strict=False):
        cells = [record for record in records if record["data"] == name]
        image = draw_panel(panel, name, cells, norm)
    for panel in list(axes.flat)[len(names) :]:
        panel.set_axis_off()
    bar = figure.colorbar(image, ax=axes, label="time of LIBSVM / ours")
    ticks = range(int(LEAST), int(MOST) + 1)
    bar.set_ticks(list(ticks), labels=[f"{2.0**tick:g}" for tick in ticks])
    return figure


def draw_panel(panel: Any, name: str, cells: list[Record], norm: TwoSlopeNorm) -> Any:
    ratios = np.full((len(C_GRID), len(GAMMA_GRID)), np.nan)
    for record in cells:
        at = C_GRID.index(record["C_log2"]), GAMMA_GRID.index(record["gamma_log2"])
        if "ratio" in record:
            ratios[at] = np.clip(np.log2(record["ratio"]), LEAST, MOST)
        if list_faults(record):
            panel.plot(at[1], at[0], "x", color="black")
    image = panel.imshow(ratios, cmap="RdBu", norm=norm, origin="lower", aspect="auto")
    panel.set_title(name, loc="left")
    panel.set_xticks(range(len(GAMMA_GRID)), [f"$2^{{{gamma}}}$" for gamma in GAMMA_GRID])
    panel.set_yticks(range(len(C_GRID)), [f"$2^{{{C}}}$" for C in C_GRID])
    panel.set_xlabel("gamma")
    panel.set_ylabel("C")
    return image


def save_map(records: list[Record], path: Path) -> None:
    """Save the picture as PNG."""
    latest = {(r["data"], r["C_log2"], r["gamma_log2"]): r for r in records}
    figure = draw_map(list(latest.values()))
    figure.savefig(path, dpi=130)
    plt.close(figure)
