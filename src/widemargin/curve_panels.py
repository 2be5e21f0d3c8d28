"""Panels of curves: which curves to draw, how much they matter, and how a panel looks."""

from collections.abc import Iterator
from itertools import pairwise
from textwrap import fill
from typing import Any

import numpy as np
from scipy import sparse

from widemargin.additive.mixins import CurvesMixin
from widemargin.bands import CurveBands
from widemargin.curve_svg import MAX_NAME, format_number, place_ticks, shorten
from widemargin.page_content import FEW_VALUES, move_band
from widemargin.pipeline_curves import find_categories

#: Colours that stay apart for colour-blind readers and in grey.
BLUE, ORANGE, GREY = "#2166ac", "#e08214", "#4d4d4d"
#: Size of letters below a panel, characters that fit there, and points for names that are turned.
LETTER, N_CHARACTERS, NAMES_WIDTH = 9.0, 36, 200.0
#: Characters of a line of a title.
TITLE_CHARACTERS = 34
#: Share of the range of a feature that is free on either side of its curve.
END_SHARE = 0.03
#: Between these percentiles of the data curves are drawn in full.
OUTER_PERCENT = (1, 99)
#: Values whose shares are computed at a time.
BLOCK_VALUES = 2**22


def check_width(model: Any, X: Any) -> Any:
    """Return data as an array or table that has the columns of the training data."""
    X = X if hasattr(X, "shape") else np.asarray(X)
    found = X.shape[1] if len(X.shape) == 2 else None
    if found != model.n_features_in_:
        raise ValueError(
            f"X: give rows with the {model.n_features_in_:,} columns of the training data, got the "
            f"shape {X.shape}"
        )
    return X


def name_features(model: Any) -> list[str]:
    """Return the names of the features of a model, or their numbers if it has none."""
    default = [f"feature {j}" for j in range(model.n_features_in_)]
    return [str(name) for name in getattr(model, "feature_names_in_", default)]


def find_classes(model: Any, classes: Any) -> list[int]:
    """Positions of the decision functions to show."""
    if not hasattr(model, "classes_"):
        if classes is not None:
            raise ValueError("classes: a regression has no classes; leave classes out")
        return [0]
    known = model.classes_
    if classes is None:
        return [0] if len(known) == 2 else list(range(len(known)))
    if np.ndim(classes) != 1 or len(classes) == 0:
        raise ValueError(
            f"classes: give a list of labels, such as [{known[-1]!r}], got {classes!r}"
        )
    found = [np.flatnonzero(known == label) for label in classes]
    if any(len(f) == 0 for f in found):
        raise ValueError(f"classes: {classes!r} are not among those of the model, {known}")
    positions = [int(f[0]) for f in found]
    if len(known) == 2:
        if 1 not in positions:
            raise ValueError(
                f"classes: of two classes there are the curves of {known[1]!r} only, and those of "
                f"{known[0]!r} are their negatives; leave classes out"
            )
        return [0]
    return positions


def weigh_curves(model: CurvesMixin, shown: list[int]) -> tuple[Any, Any]:
    """Importance of every feature by the height of its curves, and zeros for their averages."""
    d = model.n_features_in_
    importance = np.empty(d)
    for j in range(d):
        # One at a time: all curves of wide data take more memory than the model.
        _, heights = model.shape_functions(features=[j])[0]
        importance[j] = np.ptp(np.atleast_2d(heights)[shown], axis=1).mean()
    return importance, np.zeros((d, len(shown)))


def weigh_shares(model: CurvesMixin, X: Any, shown: list[int]) -> tuple[Any, Any]:
    """Importance of every feature, the mean size of what it adds to data, and its averages."""
    queries = model._check_queries(X)
    d = queries.shape[1]
    importance, centres = np.empty(d), np.empty((d, len(shown)))
    for j, (values, weights) in enumerate(_column_values(queries)):
        heights = model._model.curve(j, values)[shown]
        centres[j] = heights @ weights
        importance[j] = (np.abs(heights - centres[j][:, None]) @ weights).mean()
    return importance, centres


def _column_values(X: Any) -> Iterator[tuple[Any, Any]]:
    """Values of every column and their weights, of sum one; zeros of a sparse one are one value."""
    n = X.shape[0]
    if sparse.issparse(X):
        X = X.tocsc()
        for first, last in pairwise(X.indptr):
            weights = np.full(last - first + 1, 1.0 / n)
            weights[-1] = 1.0 - (last - first) / n
            yield np.append(X.data[first:last], 0.0), weights
        return
    step, weights = max(1, BLOCK_VALUES // n), np.full(n, 1.0 / n)
    for start in range(0, X.shape[1], step):
        # Columns of a block lie together: one by one, every row would be fetched again.
        for values in np.array(X[:, start : start + step].T, np.float64, order="C"):
            yield values, weights


def take_columns(X: Any, chosen: Any) -> list[Any]:
    """Some columns of the data as given; None for those without any value."""
    if sparse.issparse(X):
        columns = X.tocsc()[:, chosen].toarray()
    else:
        columns = X.iloc[:, chosen] if hasattr(X, "iloc") else np.asarray(X)[:, chosen]
    found = np.asarray(columns, np.float64).T
    return [None if np.isnan(column).all() else column for column in found]


def make_pieces(model: CurvesMixin, feature: int, column: Any) -> list[tuple[Any, Any, Any]]:
    """What to draw of one feature: values, heights of all functions, and style; the main one last."""
    categories = find_categories(model, feature)
    if categories is not None:
        codes = np.arange(len(categories), dtype=np.float64)
        return [(codes, model._heights(feature, codes), {"ls": "", "marker": "o", "ms": 6})]
    if column is not None and len(distinct := _find_distinct(column)) <= FEW_VALUES:
        # A line would pass through values that do not exist.
        return [(distinct, model._heights(feature, distinct), {"ls": "", "marker": "o", "ms": 6})]
    values, heights = model.shape_functions(features=[feature])[0]
    heights = np.atleast_2d(heights)
    if column is None:
        return [(values, heights, {"lw": 2})]
    low, high = np.clip(np.percentile(column, OUTER_PERCENT), values[0], values[-1])
    inner = np.concatenate([[low], values[(values > low) & (values < high)], [high]])
    return [
        (values, heights, {"lw": 1.2, "alpha": 0.4}),
        (inner, model._heights(feature, inner), {"lw": 2.2}),
    ]


def place_missing(model: CurvesMixin, feature: int, present: Any) -> tuple[Any, Any, Any]:
    """What to draw of missing values: an open circle to the right of the others."""
    n_steps = min(max(len(_find_distinct(present)) - 1, 1), 5)
    at = present.max() + (np.ptp(present) or 1.0) / n_steps
    heights = model._heights(feature, np.array([np.nan]))
    style = {"ls": "", "marker": "o", "ms": 6, "mfc": "none", "mew": 1.8, "gid": "missing"}
    return np.array([at]), heights, style


def draw_curves(
    axis: Any, model: Any, feature: int, name: str, column: Any, shown: list[int], centres: Any,
    bands: CurveBands | None, colours: Any,
) -> None:  # fmt: skip
    """Draw the panel of one feature: curves of the functions ``shown``, less ``centres``.

    ``column`` has the values of the feature in the data, or is None.
    """
    present: Any = None if column is None else column[~np.isnan(column)]
    pieces = make_pieces(model, feature, present)
    values = pieces[0][0]
    if column is not None and len(present) < len(column):
        pieces = [place_missing(model, feature, present), *pieces]
    for k, function in enumerate(shown):
        colour = colours[k % len(colours)]
        band = move_band(bands, feature, pieces[-1][0], [function], centres[[k]])
        if band is not None:
            draw_band(axis, pieces[-1], band, colour)
        for at, heights, style in pieces:
            axis.plot(at, heights[function] - centres[k], color=colour, **style)
        if len(shown) > 1:
            axis.lines[-1].set_label(str(model.classes_[function]))
    finish_panel(axis, name, present)
    has_missing = pieces[0][2].get("gid") == "missing"
    n_characters = N_CHARACTERS - (len("missing") + 2 if has_missing else 0)
    ticks, labels, style = _name_values(model, feature, values, present, n_characters)
    if has_missing:
        ticks, labels = name_missing(ticks, labels, values[0], float(pieces[0][0][0]))
    axis.set_xticks(ticks, labels, **style)


def _name_values(
    model: Any, feature: int, values: Any, present: Any, n_characters: int
) -> tuple[list[float], list[str], dict[str, Any]]:
    """Return values or categories of a feature to name under its panel, and the style of names."""
    categories = find_categories(model, feature)
    if categories is not None:
        names = [shorten(str(category), MAX_NAME) for category in categories]
        return list(range(len(names))), names, style_names(names)
    is_whole = present is not None and bool((present == np.floor(present)).all())
    free = END_SHARE * (values[-1] - values[0])
    ticks, labels = place_ticks(
        values[0] - free, values[-1] + free, n_characters, is_whole=is_whole
    )
    return ticks, labels, {"fontsize": LETTER}


def name_missing(
    ticks: list[float], labels: list[str], start: float, at: float, *, is_log: bool = False
) -> tuple[list[float], list[str]]:
    """Name missing values too, at the end of an axis, and leave out numbers that this would cover."""
    name, places = "missing", np.array([start, *ticks, at])
    places = np.log(places) if is_log else places
    free = N_CHARACTERS * (places[-1] - places[1:-1]) / (places[-1] - places[0])
    kept = [k for k, label in enumerate(labels) if free[k] > 0.5 * len(label + name) + 1]
    return [*(ticks[k] for k in kept), at], [*(labels[k] for k in kept), name]


def style_names(names: list[str]) -> dict[str, Any]:
    """Return how names of categories are written below a panel: turned if they are long."""
    # Beside the names there may be the word for missing values.
    n_characters = (len(names) + 1) * (max(map(len, names)) + 1)
    size = min(LETTER, NAMES_WIDTH / len(names))
    if n_characters <= N_CHARACTERS:
        return {"fontsize": size}
    if len(names) <= FEW_VALUES:
        return {"fontsize": size, "rotation": 30, "ha": "right"}
    return {"fontsize": size, "rotation": 90}


def draw_band(axis: Any, piece: tuple[Any, Any, Any], band: tuple[Any, Any], colour: Any) -> None:
    """Draw the band of a line, or a whisker at each point."""
    values, _, style = piece
    lower, upper = band[0][0], band[1][0]
    if style.get("ls") == "":
        axis.vlines(values, lower, upper, color=colour, alpha=0.5, lw=2)
    else:
        axis.fill_between(values, lower, upper, color=colour, alpha=0.2, lw=0)


def finish_panel(axis: Any, name: str, column: Any) -> None:
    """Title, zero, and the spread of the data if there are some."""
    axis.axhline(0.0, color=GREY, lw=0.8, ls=":")
    axis.set_title(fill(name, TITLE_CHARACTERS), loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelbottom=True, labelleft=True)
    axis.yaxis.set_major_formatter(lambda height, _: format_number(height))
    if column is not None:
        _draw_density(axis, column)


def _find_distinct(column: Any) -> Any:
    """Distinct values, or the first few if there are many."""
    if len(np.unique(column[: 10 * FEW_VALUES])) > FEW_VALUES:
        return np.unique(column[: 10 * FEW_VALUES])
    return np.unique(column)


def _draw_density(axis: Any, column: Any) -> None:
    """Bars along the lower edge: square roots of how many values there are, so that few show too."""
    distinct = _find_distinct(column)
    if len(distinct) <= FEW_VALUES:
        at, counts = np.unique(column, return_counts=True)
        width: Any = 0.5 * np.diff(at).min() if len(at) > 1 else 1.0
    else:
        counts, edges = np.histogram(column, bins=40)
        at, width = 0.5 * (edges[:-1] + edges[1:]), np.diff(edges)
    heights = np.sqrt(counts)
    under = axis.twinx()
    under.bar(at, heights, width=width, color=ORANGE, alpha=0.35, zorder=0)
    under.set_ylim(0, 5.0 * max(heights.max(), 1))
    under.axis("off")
    axis.set_zorder(under.get_zorder() + 1)
    axis.patch.set_visible(False)
