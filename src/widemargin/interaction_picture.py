"""The picture of a model with an ANOVA kernel: curves of features and maps of pairs of features."""

from typing import Any

import numpy as np

from widemargin.interactions import Decomposition, Surface

#: A feature with so many values or fewer is drawn as points.
FEW_VALUES = 10
#: Colours of a decision function, and of further ones.
BLUE, GREY = "#2166ac", "#4d4d4d"
#: Ratio of the largest value to the median beyond which an axis is logarithmic.
SKEWED = 8.0
#: Panels beside each other, and their size in inches.
N_COLUMNS, PANEL = 3, (4.2, 3.1)


def draw_terms(parts: Decomposition, n_features: int, n_pairs: int, plt: Any) -> Any:
    """Draw the curves and surfaces with the largest share of the variance."""
    ranked = [term for term in parts.rank_terms() if len(term.features) == 1][:n_features]
    surfaces = parts.interaction_functions(n_pairs)
    n_columns = min(N_COLUMNS, max(len(ranked), len(surfaces)))
    curve_rows = -(-len(ranked) // n_columns)
    n_rows = curve_rows - (-len(surfaces) // n_columns)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(PANEL[0] * n_columns, PANEL[1] * n_rows), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for axis in axes.ravel():
        axis.set_visible(False)
    curve_axes = axes[:curve_rows].ravel()[: len(ranked)]
    for axis, term in zip(curve_axes, ranked, strict=True):
        _draw_curve(axis, parts, term, plt)
    _share_heights(curve_axes)
    top = max((float(np.abs(surface.heights).max()) for surface in surfaces), default=0.0) or 1.0
    pair_axes = axes[curve_rows:].ravel()[: len(surfaces)]
    for axis, surface in zip(pair_axes, surfaces, strict=True):
        image = _draw_surface(axis, parts, surface, top)
    if len(surfaces):
        bar = figure.colorbar(image, ax=list(axes[curve_rows:].ravel()), shrink=0.9)
        bar.outline.set_visible(False)
        bar.set_label("adds to the score")
    names = parts.function_names
    towards = f" for {names[0]}" if len(names) == 1 and names[0] != "prediction" else ""
    figure.supylabel(f"adds to the score{towards} (the average = 0)", fontsize=10)
    if len(names) > 1:
        lines, labels = curve_axes[0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="outside right center", frameon=False)
    return figure


def _draw_curve(axis: Any, parts: Decomposition, term: Any, plt: Any) -> None:
    values, heights = parts.shape_functions(term.features)[0]
    colours = [BLUE] if len(parts.function_names) == 1 else plt.get_cmap("tab10").colors
    is_few = len(values) <= FEW_VALUES
    style = {"ls": "", "marker": "o", "ms": 6} if is_few else {"lw": 2.0}
    for k, row in enumerate(np.atleast_2d(heights)):
        colour, label = colours[k % len(colours)], parts.function_names[k]
        axis.plot(values, row, color=colour, label=label, **style)
    if not is_few:
        # A tick at every level: an equal share of the data lies between two of them.
        axis.plot(
            values, np.zeros(len(values)), "|", color=GREY, ms=6, alpha=0.6,
            transform=axis.get_xaxis_transform(),
        )  # fmt: skip
    axis.axhline(0.0, color=GREY, lw=0.8, ls=":")
    _finish(axis, f"{term.names[0]}  ({100 * term.share:.1f} %)", values)


def _share_heights(axes: Any) -> None:
    """Give all curves the same scale, so that their heights can be compared."""
    limits = np.array([axis.get_ylim() for axis in axes])
    for axis in axes:
        axis.set_ylim(limits[:, 0].min(), limits[:, 1].max())


def _draw_surface(axis: Any, parts: Decomposition, surface: Surface, top: float) -> Any:
    """Draw a surface as a map, of the function in which it is highest."""
    heights = surface.heights if surface.heights.ndim == 3 else surface.heights[None]
    function = int(np.abs(heights).max(axis=(1, 2)).argmax())
    x, y = (_edges(values) for values in surface.values)
    image = axis.pcolormesh(x, y, heights[function].T, cmap="RdBu_r", vmin=-top, vmax=top)
    image.set_rasterized(True)
    axis.set_xlabel(surface.names[0], fontsize=9)
    axis.set_ylabel(surface.names[1], fontsize=9)
    which = f", {parts.function_names[function]}" if len(heights) > 1 else ""
    if _is_skewed(surface.values[1]):
        axis.set_yscale("log")
    both = f"{surface.names[0]} and {surface.names[1]}"
    _finish(axis, f"{both}  ({100 * surface.share:.1f} %{which})", surface.values[0])
    return image


def _edges(values: Any) -> Any:
    """Ends of the cells around some values, in the middle between neighbours."""
    if len(values) == 1:
        return np.array([values[0] - 0.5, values[0] + 0.5])
    middle = 0.5 * (values[1:] + values[:-1])
    return np.concatenate([[values[0]], middle, [values[-1]]])


def _is_skewed(values: Any) -> bool:
    """Return whether most positive values would be crowded at the lower end of an axis."""
    return bool(values[0] > 0 and values[-1] > SKEWED * values[len(values) // 2])


def _finish(axis: Any, title: str, values: Any) -> None:
    if _is_skewed(values):
        axis.set_xscale("log")
    axis.set_visible(True)
    axis.set_title(title, loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
