"""Panels of curves: which curves to draw, how much they matter, and how a panel looks."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from widemargin.additive.mixins import CurvesMixin
from widemargin.page_content import FEW_VALUES
from widemargin.pipeline_curves import find_categories

#: Colours that stay apart for colour-blind readers and in grey.
BLUE, ORANGE, GREY = "#2166ac", "#e08214", "#4d4d4d"
#: Between these percentiles of the data curves are drawn in full.
OUTER_PERCENT = (1, 99)
#: Values whose shares are computed at a time.
BLOCK_VALUES = 2**22


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


def take_columns(X: Any, chosen: Any) -> Any:
    """Some columns of the data as given, shape (n_chosen, n_samples)."""
    if sparse.issparse(X):
        return X.tocsc()[:, chosen].toarray().T.astype(np.float64)
    columns = X.iloc[:, chosen] if hasattr(X, "iloc") else np.asarray(X)[:, chosen]
    return np.asarray(columns, np.float64).T


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


def name_categories(axis: Any, labels: list[str]) -> None:
    """Write the names of categories under the axis."""
    is_few = len(labels) <= FEW_VALUES
    axis.set_xticks(
        range(len(labels)),
        labels,
        rotation=30 if is_few else 90,
        ha="right" if is_few else "center",
    )


def place_missing(model: CurvesMixin, feature: int, present: Any) -> tuple[Any, Any, Any]:
    """What to draw of missing values: an open circle to the right of the others."""
    at = present.max() + 0.12 * (np.ptp(present) or 1.0)
    heights = model._heights(feature, np.array([np.nan]))
    style = {"ls": "", "marker": "o", "ms": 7, "mfc": "none", "mew": 1.8, "gid": "missing"}
    return np.array([at]), heights, style


def name_missing(axis: Any, at: float) -> None:
    """Write what the circle of missing values stands for."""
    axis.annotate(
        "missing", (at, 1.0), xycoords=("data", "axes fraction"), ha="center", va="top", color=GREY,
        fontsize=8,
    )  # fmt: skip


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
    axis.set_title(name, loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelbottom=True, labelleft=True)
    if column is None:
        return
    _draw_density(axis, column)
    if (column == np.floor(column)).all():
        axis.xaxis.get_major_locator().set_params(integer=True)


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
