"""Pictures of fitted models. Needs matplotlib: ``pip install 'widemargin[plot]'``."""

from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin.estimators.dc_svc import DCSVC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colours that stay apart for colour-blind readers and in grey.
BLUE, ORANGE, GREY = "#2166ac", "#e08214", "#4d4d4d"
#: Keeps numbers readable where a line passes behind them.
LABEL_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}


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
        Panels side by side: the objective, the accuracy if data are given, and seconds.
    """
    if (X is None) != (y is None):
        raise ValueError("X, y: give both, or neither")
    plt = _import_pyplot()
    records = model.levels_
    panels = ["objective", "seconds"] if X is None else ["objective", "accuracy", "seconds"]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(4.2 * len(panels), 3.4), layout="constrained", squeeze=False
    )
    by_name = dict(zip(panels, axes[0], strict=True))
    at = np.arange(len(records))
    names = [f"{r.n_clusters:,}" for r in records]
    _draw_line(
        by_name["objective"], at, [r.objective for r in records], "Dual objective of the level"
    )
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
    axis.legend(frameon=False, fontsize=8)
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
