"""What the page of a model shows: its curves, surfaces and some rows, as records of plain numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline

from widemargin.additive.pair_model import TIMES, PairModel
from widemargin.bands import CurveBands
from widemargin.curve_svg import Panel, Surface, describe_value, format_number, round_levels
from widemargin.model_page import Example, Share
from widemargin.pipeline_curves import PipelineCurves, find_categories, find_curves

#: A feature with so many values or fewer is drawn as points.
FEW_VALUES = 10
#: Categories that are drawn, the most frequent ones.
MAX_SHOWN = 8
#: Bars of the data under a curve.
N_BARS = 40
#: Features that an explained row names.
N_SHARES = 8
#: What a reader should know about a score on given rows.
SCORE_NOTE = "If the model was trained on these rows, it will do less well on new ones."

FloatArray = NDArray[np.float64]


def name_classes(model: Any, given: Any) -> list[str]:
    """Return the names of the classes of a model: as given, or its labels; none for a regression."""
    labels = [str(label) for label in getattr(model, "classes_", [])]
    if given is None:
        return labels
    if not labels:
        raise ValueError(f"class_names: {type(model).__name__} has no classes; leave it out")
    if isinstance(given, str) or len(given) != len(labels):
        raise ValueError(
            f"class_names: {given!r} was given for {len(labels)} classes; give a list with a name for "
            f"each of them, in the order of classes_: {', '.join(labels)}"
        )
    return [str(name) for name in given]


def name_page(estimator: str, classes: list[str]) -> str:
    """Return the title of the page."""
    named = f"{', '.join(classes[:4])}{', …' if len(classes) > 4 else ''}"
    return f"{estimator}: {named}" if classes else estimator


def name_target(classes: list[str]) -> str:
    """Return what the curves add up to."""
    if not classes:
        return "the prediction"
    return f"the score for {classes[1]}" if len(classes) == 2 else "the score of each class"


def list_facts(model: Any, X: Any, y: Any) -> list[tuple[str, str]]:
    """What the head of a page says about a model."""
    last = model[-1] if isinstance(model, Pipeline) else model
    is_classifier = hasattr(last, "classes_")
    facts = [("Columns", f"{last.n_features_in_:,}")]
    facts += [("Classes", f"{len(last.classes_):,}")] if is_classifier else []
    if X is not None:
        facts.append(("Rows", f"{X.shape[0] if hasattr(X, 'shape') else len(X):,}"))
    if y is not None:
        score = model.score(X, y)
        facts.append(
            ("Right on these rows", f"{100.0 * score:.1f} %")
            if is_classifier
            else ("R2 on these rows", format_number(score, 3))
        )
    kernel = getattr(last, "kernel", None)
    facts += [("Kernel", kernel)] if isinstance(kernel, str) else []
    facts += [("C", format_number(last.C_))] if hasattr(last, "C_") else []
    return facts


def make_panel(
    curves: Any,
    feature: int,
    name: str,
    importance: float,
    column: FloatArray | None,
    shown: list[int],
    centres: FloatArray,
    bands: CurveBands | None,
) -> Panel:
    """Return the panel of one feature.

    Parameters
    ----------
    curves : estimator or PipelineCurves
        Has the curves.
    feature : int
        Number of the feature.
    name, importance
        Of the feature.
    column : ndarray of shape (n_samples,) or None
        The values of the feature in the data.
    shown : list of int
        Decision functions whose curves are shown.
    centres : ndarray of shape (n_shown,)
        What is subtracted from the curves.
    bands : CurveBands or None
        Bands of the curves.
    """
    categories = find_categories(curves, feature)
    if categories is not None:
        return _make_category_panel(
            curves, feature, name, importance, column, shown, centres, bands, categories
        )
    present = None if column is None else column[~np.isnan(column)]
    distinct = None if present is None else np.unique(present)
    is_line = distinct is None or len(distinct) > FEW_VALUES
    values, _ = curves.shape_functions(features=[feature])[0]
    if distinct is not None and not is_line:
        values = distinct
    heights = curves._heights(feature, values)[shown] - centres[:, None]
    bars, width = _count_values(present, distinct)
    return Panel(
        name, importance, values, heights, is_line=is_line,
        missing=_find_missing(curves, feature, column, shown, centres), bars=bars, bar_width=width,
        band=move_band(bands, feature, values, shown, centres),
    )  # fmt: skip


def _make_category_panel(
    curves: Any, feature: int, name: str, importance: float, column: FloatArray | None,
    shown: list[int], centres: FloatArray, bands: CurveBands | None, categories: NDArray[Any],
) -> Panel:  # fmt: skip
    """Return the panel of a feature with categories: the most frequent ones."""
    n = len(categories)
    counts: Any = np.zeros(n)
    if column is not None:
        # Unknown categories have the number behind the last.
        counts = np.bincount(column[~np.isnan(column)].astype(np.intp), minlength=n + 1)[:n]
    kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_SHOWN])
    codes = kept.astype(np.float64)
    places = np.arange(len(kept), dtype=np.float64)
    return Panel(
        name, importance, places,
        curves._heights(feature, codes)[shown] - centres[:, None], is_line=False,
        labels=[str(categories[k]) for k in kept],
        note="" if len(kept) == n else f"the {len(kept)} most frequent of {n} categories",
        missing=_find_missing(curves, feature, column, shown, centres),
        bars=None if column is None else (places, counts[kept].astype(np.float64)), bar_width=0.6,
        band=move_band(bands, feature, codes, shown, centres),
    )  # fmt: skip


def _find_missing(
    curves: Any, feature: int, column: FloatArray | None, shown: list[int], centres: FloatArray
) -> FloatArray | None:
    """Return what a missing value of a feature adds, if the data have any."""
    if column is None or not np.isnan(column).any():
        return None
    found: FloatArray = curves._heights(feature, np.array([np.nan]))[shown, 0] - centres
    return found


def move_band(
    bands: CurveBands | None, feature: int, values: Any, shown: list[int], centres: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Return both ends of a band around a curve from which ``centres`` were subtracted."""
    found = None if bands is None else bands.at(feature, values)
    if bands is None or found is None:
        return None
    shift = (bands.centres[shown, feature] - centres)[:, None]
    return found[0][shown] + shift, found[1][shown] + shift


def _count_values(present: FloatArray | None, distinct: FloatArray | None) -> tuple[Any, float]:
    """Return where the values of a feature are and how many, and the width of a bar."""
    if present is None or distinct is None or len(present) == 0:
        return None, 0.0
    if len(distinct) <= FEW_VALUES:
        width = 0.5 * float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0
        return np.unique(present, return_counts=True), width
    counts, edges = np.histogram(present, bins=N_BARS)
    return (0.5 * (edges[1:] + edges[:-1]), counts.astype(np.float64)), float(edges[1] - edges[0])


def weigh_pairs(curves: Any, X: Any, shown: list[int]) -> tuple[FloatArray, FloatArray]:
    """Mean size of what every pair adds to data, and its averages, of shape (n_pairs, n_shown).

    Without data sizes are differences between the highest and the lowest point, and averages are zero.
    """
    model = curves._model
    if not isinstance(model, PairModel):
        return np.empty((0, len(shown))), np.empty((0, len(shown)))
    if X is None:
        sizes = np.ptp(model.heights[shown], axis=(2, 3)).T
        return sizes, np.zeros(sizes.shape)
    added = model.pair_contributions(curves._check_queries(X))[:, shown]
    centres = added.mean(axis=0)
    return np.abs(added - centres).mean(axis=0).T, centres.T


def make_surfaces(
    curves: Any, weights: tuple[FloatArray, FloatArray], names: list[str], n_pairs: int,
    shown: list[int], functions: list[str],
) -> list[Surface]:  # fmt: skip
    """Return the surfaces of an `AdditiveSVC` with interactions, the most important first.

    ``weights`` is what `weigh_pairs` found. Of several decision functions, with the names
    ``functions``, a surface is that of the one to which the pair adds most.
    """
    sizes, centres = weights
    importance = sizes.mean(axis=1)
    given = _find_surfaces(curves) if len(sizes) else []
    found = []
    for k in np.argsort(-importance, kind="stable")[:n_pairs]:
        first, second = (round_levels(values) for values in given[k][:2])
        heights = given[k][2]
        i, j = curves._model.pairs[k]
        most = int(sizes[k].argmax())
        is_one = heights.ndim == 2
        surface = (heights if is_one else heights[shown[most]]) - centres[k, most]
        name = "" if is_one else f"class {functions[shown[most]]}"
        pair = (names[i], names[j])
        found.append(Surface(pair, float(importance[k]), first, second, surface, name))
    return found


def _find_surfaces(curves: Any) -> Any:
    """Return the surfaces of a model, with values in the units of its input."""
    if not isinstance(curves, PipelineCurves):
        return curves.interaction_functions()
    return [
        (_restore_units(curves, i, first), _restore_units(curves, j, second), heights)
        for (i, j), (first, second, heights) in zip(
            curves._model.pairs, curves._last.interaction_functions(), strict=True
        )
    ]


def _restore_units(curves: PipelineCurves, feature: int, values: FloatArray) -> FloatArray:
    """Return values of a feature that a pipeline has scaled, in the units of its input."""
    rows = np.tile(curves._last.feature_ranges_[0], (len(values), 1))
    rows[:, feature] = values
    restored: FloatArray = curves._steps.inverse_transform(rows)[:, feature]
    return restored


def choose_rows(scores: FloatArray, truth: NDArray[Any] | None, n_rows: int) -> list[int]:
    """Choose rows to explain: the surest ones, those in doubt, and errors if the truth is known.

    ``scores`` has the shape (n,) or (n, n_classes), ``truth`` is whether the prediction is right.
    """
    if scores.ndim == 2:
        ordered = np.sort(scores, axis=1)
        sure = ordered[:, -1] - ordered[:, -2]
        extremes = [int(sure.argmax())]
    else:
        sure = np.abs(scores)
        extremes = [int(scores.argmax()), int(scores.argmin())]
    wanted = [*extremes, int(sure.argmin())]
    if truth is not None and not truth.all():
        wanted.insert(1, int(np.where(truth, -np.inf, sure).argmax()))
    step = max(1, len(scores) // max(n_rows, 1))
    wanted += list(range(0, len(scores), step))
    return list(dict.fromkeys(wanted))[:n_rows]


def explain_rows(
    model: Any, X: Any, y: Any, names: list[str], centres: FloatArray, n_rows: int,
    classes: list[str],
) -> list[Example]:  # fmt: skip
    """Explain some rows: the scores of the classes predicted for them, or the predictions.

    ``centres`` has the averages of what features, and then pairs, add to each decision function.
    """
    curves, predicted = find_curves(model), model.predict(X)
    truth = None if y is None else np.asarray(y)
    is_classifier = hasattr(model, "classes_")
    called = dict(zip(model.classes_.tolist(), classes, strict=True)) if is_classifier else {}
    if is_classifier:
        scores = model.decision_function(X)
        chosen = choose_rows(scores, None if truth is None else predicted == truth, n_rows)
    else:
        scores = predicted
        chosen = choose_rows(predicted - predicted.mean(), None, n_rows)
    found = []
    for i in chosen:
        function = 0 if scores.ndim == 1 else int(scores[i].argmax())
        title = _name_row(i, predicted[i], None if truth is None else truth[i], called)
        row = curves._check_queries(X.iloc[[i]] if hasattr(X, "iloc") else X[[i]])
        values = describe_values(X, i)
        found.append(explain_row(curves, row, names, centres[:, function], function, title, values))
    return found


def _name_row(row: int, predicted: Any, truth: Any, called: dict[Any, str]) -> str:
    """Say which row it is, what is predicted for it, and what is true if that is known."""
    said, is_so = (
        called.get(value, value) if called or value is None else format_number(float(value))
        for value in (predicted, truth)
    )
    return f"Row {row}: predicted {said}" + ("" if truth is None else f", is {is_so}")


def explain_row(
    curves: Any, row: Any, names: list[str], centres: FloatArray, function: int, title: str,
    values: list[str],
) -> Example:  # fmt: skip
    """Explain the score of one row, given as the curves take it."""
    model = curves._model
    sizes = model.contributions(row)[0, function] - centres
    average = float(model.intercept[function] + centres.sum())
    pairs: Any = model.pairs if isinstance(model, PairModel) else []
    all_names = names + [TIMES.join(names[k] for k in pair) for pair in pairs]
    all_values = values + [", ".join(values[k] for k in pair) for pair in pairs]
    top = np.argsort(-np.abs(sizes), kind="stable")[:N_SHARES]
    listed = [Share(all_names[k], all_values[k], float(sizes[k])) for k in top]
    rest = float(sizes.sum() - sizes[top].sum())
    return Example(title, average, listed, rest if len(sizes) > len(top) else 0.0)


def describe_values(X: Any, row: int) -> list[str]:
    """Return the values of a row as given, as text."""
    if sparse.issparse(X):
        values: Any = X[[row]].toarray()[0]
    else:
        values = X.iloc[row] if hasattr(X, "iloc") else np.asarray(X)[row]
    return [describe_value(value) for value in values]
