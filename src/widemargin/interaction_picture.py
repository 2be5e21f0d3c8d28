"""The picture of curves and of pairs: panels of curves, then maps of pairs of features."""

from textwrap import fill
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from widemargin.arguments import check_columns
from widemargin.curve_panels import (
    BLUE,
    GREY,
    LETTER,
    N_CHARACTERS,
    ORANGE,
    TITLE_CHARACTERS,
    find_classes,
    name_missing,
    style_names,
)
from widemargin.curve_svg import (
    MAX_NAME,
    Surface,
    describe_value,
    format_number,
    place_ticks,
    shorten,
)
from widemargin.interactions import Decomposition, last_estimator
from widemargin.page_content import FEW_VALUES
from widemargin.problem import class_pairs

#: Ratio of the largest value to the median beyond which an axis is logarithmic.
SKEWED = 8.0
#: Panels beside each other, and their size in inches.
N_COLUMNS, PANEL = 3, (4.2, 3.1)
#: Decision functions whose curves are drawn, the largest ones.
MOST_FUNCTIONS = 6
#: The gap before the missing values of a map and their end, as shares of the range of numbers.
MISSING_ENDS = (0.06, 0.30)
#: Ticks of a logarithmic axis, at most.
MOST_TICKS = 4


def make_axes(n_curves: int, n_maps: int, plt: Any) -> tuple[Any, Any, Any]:
    """Return a figure with panels of curves, which share their heights, and of maps below them."""
    n_columns = min(N_COLUMNS, max(n_curves, n_maps))
    curve_rows, map_rows = -(-n_curves // n_columns), -(-n_maps // n_columns)
    n_rows = curve_rows + map_rows
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(PANEL[0] * n_columns, PANEL[1] * n_rows), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    curve_axes, map_axes = axes[:curve_rows].ravel(), axes[curve_rows:].ravel()
    for axis in [*curve_axes[n_curves:], *map_axes[n_maps:]]:
        axis.set_visible(False)
    for axis in curve_axes[1:n_curves]:
        axis.sharey(curve_axes[0])
    return figure, curve_axes[:n_curves], map_axes[:n_maps]


def draw_terms(
    parts: Decomposition, n_features: int, n_pairs: int, features: Any, classes: Any, plt: Any
) -> Any:
    """Draw the curves and surfaces with the largest share of the variance."""
    curves = [term for term in parts.rank_terms() if len(term.features) == 1]
    if features is None:
        curves = curves[:n_features]
    else:
        by_feature = {term.features[0]: term for term in curves}
        names = parts.feature_names
        curves = [by_feature[j] for j in check_columns("features", features, len(names), names)]
    allowed = _find_functions(parts, classes)
    shown = _find_largest(parts, [term.features[0] for term in curves], allowed)
    surfaces = parts.interaction_functions(n_pairs)
    figure, curve_axes, map_axes = make_axes(len(curves), len(surfaces), plt)
    for axis, term in zip(curve_axes, curves, strict=True):
        _draw_curve(axis, parts, term, shown, plt)
    target = _name_target(parts)
    maps = [_choose_function(parts, surface, allowed) for surface in surfaces]
    draw_maps(figure, map_axes, maps, [_name_share(s.share) for s in surfaces], target)
    figure.supylabel(f"adds to {target} (the average = 0)", fontsize=10)
    figure.supxlabel(f"Percentages are shares of the variance of {target}.", fontsize=9)
    if len(parts.function_names) > 1:
        few = len(shown) < len(allowed)
        title = f"the {len(shown)} largest of {len(allowed)}" if few else None
        lines, labels = curve_axes[0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="outside right center", frameon=False, title=title)
    return figure


def draw_maps(
    figure: Any, axes: Any, surfaces: list[Surface], notes: list[str], target: str
) -> None:
    """Draw surfaces as maps with one scale of colours; ``notes`` are parts of their titles."""
    if not surfaces:
        return
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("heights", [ORANGE, "white", BLUE])
    top = max(float(np.abs(surface.heights).max()) for surface in surfaces) or 1.0
    for axis, surface, note in zip(axes, surfaces, notes, strict=True):
        image = _draw_map(axis, surface, top, colours)
        which = f"for {surface.function}" if surface.function else ""
        lines = [" and ".join(surface.names), ", ".join(filter(None, [note, which]))]
        title = "\n".join(fill(line, TITLE_CHARACTERS) for line in lines if line)
        axis.set_title(title, loc="left", fontsize=10)
    bar = figure.colorbar(image, ax=list(axes), shrink=0.9)
    bar.outline.set_visible(False)
    bar.set_label(f"adds to {target}")
    bar.ax.yaxis.set_major_formatter(lambda height, _: format_number(height))


def _find_functions(parts: Decomposition, classes: Any) -> list[int]:
    """Return the decision functions of some classes: between these if they are one-vs-one."""
    n = len(parts.function_names)
    if classes is None:
        return list(range(n))
    model = last_estimator(parts._model)
    chosen = find_classes(model, classes)
    if n == 1 or not model._one_vs_one:
        return chosen
    pairs = class_pairs(len(model.classes_))
    if len(chosen) == 1:
        return [k for k, pair in enumerate(pairs) if chosen[0] in pair]
    return [k for k, pair in enumerate(pairs) if set(pair) <= set(chosen)]


def _find_largest(parts: Decomposition, features: list[int], allowed: list[int]) -> list[int]:
    """Return the decision functions whose curves of some features are the largest."""
    curves = [np.atleast_2d(heights) for _, heights in parts.shape_functions(features)]
    sizes = sum(np.ptp(heights[allowed], axis=1) for heights in curves)
    return [allowed[k] for k in np.sort(np.argsort(-sizes, kind="stable")[:MOST_FUNCTIONS])]


def _name_target(parts: Decomposition) -> str:
    """Return what the terms add up to."""
    if is_regressor(last_estimator(parts._model)):
        return "the prediction"
    names = parts.function_names
    is_named = len(names) == 1 and names[0] != "prediction"
    return f"the score for {names[0]}" if is_named else "the score"


def _name_share(share: float) -> str:
    return "below 0.1 %" if share < 0.001 else f"{100 * share:.1f} %"


def _choose_function(parts: Decomposition, surface: Any, allowed: list[int]) -> Surface:
    """Return the surface of the function in which it is highest."""
    stack = surface.heights if surface.heights.ndim == 3 else surface.heights[None]
    function = allowed[int(np.abs(stack[allowed]).max(axis=(1, 2)).argmax())]
    name = parts.function_names[function] if len(stack) > 1 else ""
    first, second = surface.values
    return Surface(surface.names, surface.share, first, second, stack[function], name)


def _draw_curve(axis: Any, parts: Decomposition, term: Any, shown: list[int], plt: Any) -> None:
    values, heights = parts.shape_functions(term.features)[0]
    colours = [BLUE] if len(parts.function_names) == 1 else plt.get_cmap("tab10").colors
    is_few = len(values) <= FEW_VALUES
    style = {"ls": "", "marker": "o", "ms": 6} if is_few else {"lw": 2.0}
    for k, function in enumerate(shown):
        label = parts.function_names[function]
        axis.plot(values, np.atleast_2d(heights)[function], color=colours[k], label=label, **style)
    if not is_few:
        # A tick at every level: an equal share of the data lies between two of them.
        axis.plot(
            values, np.zeros(len(values)), "|", color=GREY, ms=6, alpha=0.6,
            transform=axis.get_xaxis_transform(),
        )  # fmt: skip
    axis.axhline(0.0, color=GREY, lw=0.8, ls=":")
    axis.yaxis.set_major_formatter(lambda height, _: format_number(height))
    if _is_skewed(values):
        axis.set_xscale("log")
    axis.set_xticks(*_place_numbers(values), fontsize=LETTER)
    axis.minorticks_off()
    title = fill(f"{term.names[0]}  ({_name_share(term.share)})", TITLE_CHARACTERS)
    axis.set_title(title, loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_map(axis: Any, surface: Surface, top: float, colours: Any) -> Any:
    """Draw a surface as a map; missing values stand behind a gap."""
    heights = surface.heights
    for side, values in enumerate((surface.first, surface.second)):
        if _has_gap(values):
            heights = np.insert(heights, -1, np.nan, axis=side)
    x, y = (_find_edges(values) for values in (surface.first, surface.second))
    image = axis.pcolormesh(x, y, heights.T, cmap=colours, vmin=-top, vmax=top)
    image.set_rasterized(True)
    axis.set_xlabel(shorten(surface.names[0], TITLE_CHARACTERS), fontsize=9)
    axis.set_ylabel(shorten(surface.names[1], TITLE_CHARACTERS), fontsize=9)
    if _is_skewed(surface.first):
        axis.set_xscale("log")
    if _is_skewed(surface.second):
        axis.set_yscale("log")
    ticks, labels = _place_levels(surface.first, x)
    is_numeric = surface.first.dtype.kind == "f"
    if _has_gap(surface.first):
        is_log = _is_skewed(surface.first)
        ticks, labels = name_missing(ticks[:-1], labels[:-1], x[0], ticks[-1], is_log=is_log)
    axis.set_xticks(ticks, labels, **({"fontsize": LETTER} if is_numeric else style_names(labels)))
    axis.set_yticks(*_place_levels(surface.second, y), fontsize=LETTER)
    axis.minorticks_off()
    axis.spines[["top", "right"]].set_visible(False)
    return image


def _place_levels(values: Any, edges: Any) -> tuple[list[float], list[str]]:
    """Return where the levels of a feature are named, and their names."""
    if values.dtype.kind != "f":
        names = [shorten(describe_value(value), MAX_NAME) for value in values]
        return list(range(len(values))), names
    ticks, labels = _place_numbers(values[~np.isnan(values)])
    if not _has_gap(values):
        return ticks, labels
    return [*ticks, float(edges[-2:].mean())], [*labels, "missing"]


def _place_numbers(values: Any) -> tuple[list[float], list[str]]:
    """Return ticks and their labels for an axis of numbers, which may be logarithmic."""
    if not _is_skewed(values):
        is_whole = bool((values == np.floor(values)).all())
        return place_ticks(values[0], values[-1], N_CHARACTERS, is_whole=is_whole)
    powers = 10.0 ** np.arange(np.floor(np.log10(values[0])), np.log10(values[-1]) + 1)
    for steps in ([1, 2, 5], [1, 3], [1]):
        ticks = np.outer(powers, steps).ravel()
        ticks = ticks[(ticks >= values[0]) & (ticks <= values[-1])]
        if len(ticks) <= MOST_TICKS:
            break
    ticks = ticks[:: -(-len(ticks) // MOST_TICKS)]
    return ticks.tolist(), [format_number(tick) for tick in ticks]


def _find_edges(values: Any) -> Any:
    """Return the ends of the cells of levels, with a gap before missing values beside numbers."""
    if values.dtype.kind != "f":
        return np.arange(len(values) + 1) - 0.5
    present = values[~np.isnan(values)]
    if len(present) == 1:
        edges = np.array([present[0] - 0.5, present[0] + 0.5])
    else:
        middle = 0.5 * (present[1:] + present[:-1])
        edges = np.concatenate([present[:1], middle, present[-1:]])
    if not _has_gap(values):
        return edges
    ends = np.array(MISSING_ENDS)
    if _is_skewed(values):
        return np.append(edges, edges[-1] * (edges[-1] / edges[0]) ** ends)
    return np.append(edges, edges[-1] + (edges[-1] - edges[0]) * ends)


def _has_gap(values: Any) -> bool:
    return bool(values.dtype.kind == "f" and len(values) > 1 and np.isnan(values[-1]))


def _is_skewed(values: Any) -> bool:
    """Return whether most positive values would be crowded at the lower end of an axis."""
    if values.dtype.kind != "f":
        return False
    present = values[~np.isnan(values)]
    return bool(
        len(present) and present[0] > 0 and present[-1] > SKEWED * present[len(present) // 2]
    )
