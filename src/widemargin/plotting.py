"""Pictures of fitted models. Needs matplotlib: ``pip install 'widemargin[plot]'``."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_columns, check_integer
from widemargin.bands import CurveBands
from widemargin.curve_panels import (
    BLUE,
    GREY,
    ORANGE,
    check_width,
    draw_curves,
    find_classes,
    name_features,
    take_columns,
    weigh_curves,
    weigh_shares,
)
from widemargin.divide.dc_svc import DCSVC
from widemargin.exact.search_base import KernelSearch
from widemargin.files.atomic_output import replace_file
from widemargin.interaction_picture import draw_maps, draw_terms, make_axes
from widemargin.interactions import Decomposition, decompose, has_terms
from widemargin.model_page import Page, render_page
from widemargin.page_content import (
    SCORE_NOTE,
    explain_rows,
    list_facts,
    make_panel,
    make_surfaces,
    name_classes,
    name_page,
    name_target,
    weigh_pairs,
)
from widemargin.pipeline_curves import find_curves, has_curves, take_numbers
from widemargin.projected.projected_svc import ProjectedSVC
from widemargin.search_picture import draw_search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Keeps numbers readable where a line passes behind them.
LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}

#: Inches that the number beside a level takes.
LEVEL_WIDTH = 0.75


def plot_levels(model: DCSVC, X: Any = None, y: Any = None) -> "Figure":
    """Draw what each level of a divide-and-conquer fit reached and what it cost.

    Parameters
    ----------
    model : DCSVC
        A fitted classifier.
    X, y : array-like, optional
        Data on which to show the accuracy of every level; the model must have been fitted with
        ``keep_levels=True``.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Panels side by side: the objective, the accuracy if data are given, and seconds. Each level
        minimises an objective of its own, with the kernel taken as zero between its clusters: a line
        that rises towards one cluster, the whole problem, is no sign of trouble.
    """
    if (X is None) != (y is None):
        raise ValueError("X, y: give both, or neither")
    check_is_fitted(model)
    plt = _import_pyplot()
    records = model.levels_
    panels = ["objective", "seconds"] if X is None else ["objective", "accuracy", "seconds"]
    width = max(4.2, LEVEL_WIDTH * len(records))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(width * len(panels), 3.4), layout="constrained", squeeze=False
    )
    by_name = dict(zip(panels, axes[0], strict=True))
    at = np.arange(len(records))
    names = [f"{r.n_clusters:,}" for r in records]
    _draw_line(
        by_name["objective"], at, [r.objective for r in records],
        "Dual objective of the level\n(kernel zero between its clusters)",
    )  # fmt: skip
    if X is not None:
        accuracy = [100.0 * np.mean(labels == y) for labels in model.staged_predict(X)]
        _draw_line(by_name["accuracy"], at, accuracy, "Accuracy (%)", "{:.2f}")
    _draw_seconds(by_name["seconds"], at, records)
    for axis in axes[0]:
        axis.set_xticks(at, names)
        axis.set_xlabel("Clusters at the level")
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.12)
    return figure


def plot_shapes(
    model: Any,
    X: Any = None,
    *,
    n_features: int = 6,
    features: Any = None,
    classes: Any = None,
    n_pairs: int = 3,
    bands: CurveBands | None = None,
) -> "Figure":
    """Draw the curves of an additive model: what each feature adds to the decision.

    Of an `AdditiveSVC` with interactions, and of a model with an ANOVA kernel, it draws surfaces of
    pairs of features as maps too.

    Parameters
    ----------
    model : AdditiveSVC, AdditiveSVR, IntersectionSVC, PowerMeanSVC, Pipeline or Decomposition
        A fitted estimator, a search over its parameters, or a pipeline that ends in an estimator after
        scalers. An estimator or pipeline with an ANOVA kernel, with ``X``, or what
        `widemargin.interactions.decompose` returned for it.
    X : array-like or sparse matrix, optional
        Data, such as those of training. They say which features matter most (the mean size of what
        they add), where the average is, from which curves are then drawn, and how values are spread:
        the square root of their number is drawn underneath, curves are faint outside the middle 98 %,
        and of a feature with ten values or less there is a point for each. An open circle to the right
        shows what missing values add. Without data the features
        with the highest curves are shown.
    n_features : int, default=6
        How many features to show, the most important ones.
    features : array-like of int or str, optional
        Which features to show instead, by number or by name.
    classes : array-like, optional
        With more than two classes: whose curves to show; all if not given. An ANOVA kernel with
        ``multi_class="ovo"`` has curves for each two of these classes, or of one class for each
        other. Of its curves the six largest are drawn.
    n_pairs : int, default=3
        Pairs of features to show as maps after the curves, the most important ones, if the model has
        pairs. With more than two classes a map shows the class in which the pair adds most.
    bands : CurveBands, optional
        Bands of the curves, from `widemargin.bands.curve_bands`. Not for ANOVA kernels.

    Returns
    -------
    figure : matplotlib.figure.Figure
        One panel for each feature, the most important first, and one for each pair.
    """
    check_integer("n_features", n_features, low=1)
    check_integer("n_pairs", n_pairs, low=0)
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Decomposition) or has_terms(model):
        plt = _import_pyplot()
        return draw_terms(_find_terms(model, X), n_features, n_pairs, features, classes, plt)
    if not has_curves(model):
        raise TypeError(
            f"model: a {type(model).__name__} has no curves; give an AdditiveSVC, AdditiveSVR, "
            "IntersectionSVC or PowerMeanSVC, or a KernelSVC with an ANOVA kernel"
        )
    check_is_fitted(model)
    model = find_curves(model)
    plt = _import_pyplot()
    shown = find_classes(model, classes)
    X, importance, centres = _weigh_features(model, X, shown)
    top = np.argsort(-importance, kind="stable")[:n_features]
    names = name_features(model)
    if features is not None:
        known = getattr(model, "feature_names_in_", None)
        top = check_columns("features", features, model.n_features_in_, known)
    columns = [None] * len(top) if X is None else take_columns(take_numbers(model, X), top)
    surfaces = make_surfaces(
        model, weigh_pairs(model, X, shown), names, n_pairs, shown, name_classes(model, None)
    )
    figure, curve_axes, map_axes = make_axes(len(top), len(surfaces), plt)
    colours = [BLUE] if len(shown) == 1 else plt.get_cmap("tab10").colors
    for axis, j, column in zip(curve_axes, top, columns, strict=True):
        draw_curves(axis, model, int(j), names[j], column, shown, centres[j], bands, colours)
    target = _name_sum(model)
    draw_maps(figure, map_axes, surfaces, [""] * len(surfaces), target)
    about = "the average" if X is not None else "zero"
    figure.supylabel(f"adds to {target} ({about} = 0)", fontsize=10)
    if len(shown) > 1:
        handles, labels = curve_axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False, title="class")
    return figure


def show_model(
    model: Any,
    X: Any = None,
    y: Any = None,
    path: str | os.PathLike[str] = "model.html",
    *,
    class_names: Any = None,
    bands: CurveBands | None = None,
    n_features: int = 12,
    n_pairs: int = 6,
    n_examples: int = 4,
) -> Path:
    """Write a page that shows an additive model: what matters, its curves, and explained rows.

    The page is one HTML file that needs no network, for screens of any size, light and dark. It needs
    no matplotlib.

    Parameters
    ----------
    model : AdditiveSVC, AdditiveSVR, IntersectionSVC, PowerMeanSVC or Pipeline
        A fitted estimator, a search over its parameters, or a pipeline that ends in an estimator after
        scalers.
    X : array-like or sparse matrix, optional
        Data, such as those of training, with the meaning that they have in `plot_shapes`. Rows of
        these are explained.
    y : array-like, optional
        Their labels or targets: the page then says how many are predicted right, or R2, and explains
        an error.
    path : path-like, default="model.html"
        The file.
    class_names : array-like of str, optional
        Names of the classes on the page, in the order of ``classes_``; the labels if not given.
    bands : CurveBands, optional
        Bands of the curves, from `widemargin.bands.curve_bands`.
    n_features : int, default=12
        How many curves to show, the most important ones.
    n_pairs : int, default=6
        How many surfaces to show, if the model has any.
    n_examples : int, default=4
        How many rows to explain: the surest ones, an error, one in doubt, and others.

    Returns
    -------
    path : Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_breast_cancer
    >>> from widemargin import AdditiveSVC
    >>> from widemargin.plotting import show_model
    >>> data = load_breast_cancer(as_frame=True)
    >>> model = AdditiveSVC().fit(data.data, data.target)
    >>> folder = Path(tempfile.mkdtemp())
    >>> page = show_model(
    ...     model, data.data, data.target, folder / "model.html", class_names=data.target_names
    ... )
    >>> "the score for benign" in page.read_text(encoding="utf-8")
    True
    """
    model = getattr(model, "best_estimator_", model)
    if not has_curves(model):
        raise TypeError(
            f"model: a {type(model).__name__} has no curves; give an AdditiveSVC, AdditiveSVR, "
            "IntersectionSVC or PowerMeanSVC"
        )
    if X is None and y is not None:
        raise ValueError("y: labels need the rows they belong to; give X too")
    check_is_fitted(model)
    for name, number in (("n_features", n_features), ("n_examples", n_examples)):
        check_integer(name, number, low=1)
    check_integer("n_pairs", n_pairs, low=0)
    curves = find_curves(model)
    shown = find_classes(curves, None)
    X, importance, centres = _weigh_features(curves, X, shown)
    names = name_features(curves)
    top = np.argsort(-importance, kind="stable")[:n_features]
    columns = [None] * len(top) if X is None else take_columns(take_numbers(curves, X), top)
    last = model[-1] if isinstance(model, Pipeline) else model
    classes = name_classes(last, class_names)
    panels = [
        make_panel(curves, int(j), names[j], float(importance[j]), column, shown, centres[j], bands)
        for j, column in zip(top, columns, strict=True)
    ]
    of_pairs = weigh_pairs(curves, X, shown)
    all_centres = np.concatenate([centres, of_pairs[1]])
    page = Page(
        title=name_page(type(last).__name__, classes),
        facts=list_facts(model, X, y),
        note="" if y is None else SCORE_NOTE,
        target=name_target(classes),
        about="zero" if X is None else "the average",
        classes=[] if len(shown) == 1 else classes,
        panels=panels,
        surfaces=make_surfaces(curves, of_pairs, names, n_pairs, shown, classes),
        examples=(
            [] if X is None else explain_rows(model, X, y, names, all_centres, n_examples, classes)
        ),
        has_bands=bands is not None,
    )  # fmt: skip
    with replace_file(path) as stream:
        stream.write(render_page(page).encode("utf-8"))
    return Path(path)


def plot_basis_path(model: ProjectedSVC | Pipeline, X: Any = None, y: Any = None) -> "Figure":
    """Draw how objective and accuracy change with the size of the basis.

    Parameters
    ----------
    model : ProjectedSVC or Pipeline
        A fitted classifier, or a pipeline that ends in one.
    X, y : array-like, optional
        Data that the model was not fitted to, to show the accuracy of every size. Without, a model
        fitted with ``n_basis="auto"`` shows the rows it held out.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Panels side by side: the objective, and the accuracy if there are data.
    """
    if (X is None) != (y is None):
        raise ValueError("X, y: give both, or neither")
    check_is_fitted(model)
    if isinstance(model, Pipeline):
        X = X if X is None or len(model) == 1 else model[:-1].transform(X)
        model = model[-1]
    if not isinstance(model, ProjectedSVC):
        raise TypeError(f"model: a {type(model).__name__} has no basis path; give a ProjectedSVC")
    plt = _import_pyplot()
    growing = model._path.objective.sum(axis=1)
    judged = None
    if X is not None:
        judged = model.basis_path(X, y)
    elif hasattr(model, "auto_path_"):
        judged = model.auto_path_
    n_panels = 1 if judged is None else 2
    figure, axes = plt.subplots(
        1, n_panels, figsize=(4.8 * n_panels, 3.4), layout="constrained", squeeze=False
    )
    left = axes[0, 0]
    left.plot(np.arange(1, len(growing) + 1), growing, color=BLUE, label="growing")
    size = int(np.max(model.n_basis_))
    _mark(left, size, float(np.sum(model.objective_)), "final")
    left.set_title("Objective", loc="left")
    if judged is not None:
        _draw_accuracy(axes[0, 1], judged, size, is_final_known=X is not None)
    for axis in axes[0]:
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_xlabel(
            "Basis vectors" if np.size(model.n_basis_) == 1 else "Basis vectors a class"
        )
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    return figure


def plot_search(model: KernelSearch) -> "Figure":
    """Draw the scores of a search over C and gamma.

    Parameters
    ----------
    model : KernelSVCCV or KernelSVRCV
        A fitted search.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Left: mean scores of all cells, which were dropped, and the chosen one; scores below the 10 %
        quantile have one colour. Right: scores along C near the chosen gamma.
    """
    return draw_search(model, _import_pyplot())


def _draw_accuracy(axis: Any, path: list[Any], size: int, *, is_final_known: bool) -> None:
    growing = path[:-1] if is_final_known else path
    sizes, accuracy = zip(
        *((point.n_basis, 100.0 * point.accuracy) for point in growing), strict=True
    )
    axis.plot(sizes, accuracy, color=BLUE, label="growing" if is_final_known else "rows held out")
    axis.set_title("Accuracy (%)", loc="left")
    if is_final_known:
        _mark(axis, size, 100.0 * path[-1].accuracy, "final")
    else:
        axis.axvline(size, color=ORANGE, lw=1.2, ls="--", label=f"chosen: {size}")


def _mark(axis: Any, x: float, y: float, label: str) -> None:
    axis.plot([x], [y], "o", color=ORANGE, label=f"{label}: {x:,.0f} vectors, {y:,.4g}")


def _find_terms(model: Any, X: Any) -> Decomposition:
    """Return the terms of a model with an ANOVA kernel."""
    if isinstance(model, Decomposition):
        return model
    if X is None:
        raise ValueError(
            "X: give the training rows; terms of an ANOVA kernel depend on how values are spread"
        )
    return decompose(model, X)


def _weigh_features(model: Any, X: Any, shown: list[int]) -> tuple[Any, Any, Any]:
    """Return the data, the importance of every feature, and averages of its curves."""
    if X is None:
        return None, *weigh_curves(model, shown)
    X = check_width(model, X)
    return X, *weigh_shares(model, X, shown)


def _name_sum(model: Any) -> str:
    """What the curves of a model add up to."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return "the prediction"
    return f"the score for {classes[1]}" if len(classes) == 2 else "the score"


def _draw_line(axis: Any, at: Any, values: list[float], title: str, text: str = "{:,.5g}") -> None:
    axis.plot(at, values, "o-", color=BLUE)
    axis.set_title(title, loc="left")
    axis.margins(y=0.2)
    for x, value in zip(at, values, strict=True):
        axis.annotate(
            text.format(value), (x, value), textcoords="offset points", xytext=(0, 8),
            ha="center", color=GREY, fontsize=8, bbox=LABEL_BOX,
        )  # fmt: skip


def _draw_seconds(axis: Any, at: Any, records: list[Any]) -> None:
    clustering = np.array([r.clustering_seconds for r in records])
    solving = np.array([r.solving_seconds for r in records])
    axis.bar(at, clustering, 0.6, color=ORANGE, label="clustering")
    axis.bar(at, solving, 0.6, bottom=clustering, color=BLUE, label="solving")
    axis.set_title("Seconds", loc="left")
    # Beside the title: inside there may be a bar wherever one looks.
    axis.legend(
        frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.2,
    )  # fmt: skip
    for x, total in zip(at, clustering + solving, strict=True):
        axis.annotate(
            f"{total:.2g}", (x, total), textcoords="offset points", xytext=(0, 3), ha="center",
            color=GREY, fontsize=8,
        )  # fmt: skip
    axis.margins(y=0.15)


def _import_pyplot() -> Any:
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib; install it with: pip install 'widemargin[plot]'"
        ) from error
    return plt
