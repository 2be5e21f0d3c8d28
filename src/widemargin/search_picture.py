"""The picture of a search over C and gamma; `widemargin.plotting` offers it to users."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin.exact.search_base import KernelSearch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colour of cells without a score on all rows, and of what is marked.
UNKNOWN, MARK = "#d9d9d9", "#e08214"
#: Most numbers that an axis shows.
MOST_TICKS = 6


def draw_search(model: KernelSearch, plt: Any) -> "Figure":
    """Draw the scores of all cells, and how they and their folds vary along C."""
    check_is_fitted(model)
    grid = _SearchGrid(model)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.4), layout="constrained")
    _draw_surface(left, figure, grid)
    _draw_best_line(right, grid)
    return figure


class _SearchGrid:
    """Scores of a search as matrices with a row for each gamma and a column for each C."""

    def __init__(self, model: Any) -> None:
        results = model.cv_results_
        self.costs, self.gammas = np.sort(model.Cs_), np.sort(model.gammas_)
        chosen = np.ones(len(results["params"]), bool)
        for name in {"epsilon", "degree", "coef0"} & set(model.best_params_):
            chosen &= np.asarray(results[f"param_{name}"]) == model.best_params_[name]
        cells = np.flatnonzero(chosen)
        c = np.searchsorted(self.costs, np.asarray(results["param_C"], float)[cells])
        g = np.zeros(len(cells), int)
        if "param_gamma" in results:
            g = np.searchsorted(self.gammas, np.asarray(results["param_gamma"], float)[cells])
        shape = (len(self.gammas), len(self.costs))
        self.means, self.spread, self.samples = (np.full(shape, np.nan) for _ in range(3))
        self.means[g, c] = results["mean_test_score"][cells]
        self.spread[g, c] = results["std_test_score"][cells]
        self.samples[g, c] = results["sample_test_score"][cells]
        self.is_dropped, self.is_stopped = np.zeros(shape, bool), np.zeros(shape, bool)
        self.is_dropped[g, c] = [note.startswith("dropped") for note in results["note"][cells]]
        reasons = results["stop_reason"][cells]
        self.is_stopped[g, c] = (reasons != "converged") & (reasons != "")
        at = int(np.flatnonzero(cells == model.best_index_)[0])
        self.best = (int(g[at]), int(c[at]))


def _draw_surface(axis: Any, figure: Any, grid: _SearchGrid) -> None:
    axis.set_facecolor(UNKNOWN)
    known = grid.means[np.isfinite(grid.means)]
    low = float(np.quantile(known, 0.1)) if len(known) else 0.0
    image = axis.imshow(grid.means, origin="lower", aspect="auto", cmap="viridis", vmin=low)
    figure.colorbar(image, ax=axis, label="Mean score over the folds", extend="min")
    for mask, marker, label in (
        (grid.is_dropped, "x", "dropped on a sample"),
        (grid.is_stopped, "s", "solver did not converge"),
    ):
        rows, columns = np.nonzero(mask)
        if len(rows):
            axis.scatter(columns, rows, marker=marker, s=18, c="#4d4d4d", linewidths=1, label=label)
    axis.scatter(
        grid.best[1], grid.best[0], marker="o", s=130, facecolors="none", edgecolors=MARK,
        linewidths=2.5, label="chosen",
    )  # fmt: skip
    _label_axis(axis.set_xticks, axis.set_xlabel, grid.costs, "C")
    _label_axis(axis.set_yticks, axis.set_ylabel, grid.gammas, "gamma")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False, fontsize=8)


def _label_axis(set_ticks: Any, set_label: Any, values: Any, name: str) -> None:
    at = _choose_ticks(len(values))
    has_values = not np.isnan(values).any()
    set_ticks(at, [_write_number(values[i]) if has_values else "" for i in at])
    set_label(name if has_values else "")


def _choose_ticks(n_values: int) -> Any:
    """Numbers of the values that an axis shows."""
    return np.arange(0, n_values, -(-n_values // MOST_TICKS))


def _write_number(value: float) -> str:
    """Three digits, without an exponent up to a million: labels with one run into each other."""
    return f"{value:.3g}" if not 1000 <= value < 1e6 else f"{float(f'{value:.3g}'):.0f}"


def _draw_best_line(axis: Any, grid: _SearchGrid) -> None:
    """Scores along C at the chosen gamma and its neighbours, with the spread of the folds."""
    for g in range(max(0, grid.best[0] - 1), min(len(grid.gammas), grid.best[0] + 2)):
        is_best = g == grid.best[0]
        name = "" if np.isnan(grid.gammas[g]) else f"gamma = {grid.gammas[g]:.3g}"
        colour = MARK if is_best else "#92c5de" if g < grid.best[0] else "#2166ac"
        axis.plot(grid.costs, grid.means[g], "o-", color=colour, label=name, markersize=4)
        if is_best:
            low, high = grid.means[g] - grid.spread[g], grid.means[g] + grid.spread[g]
            axis.fill_between(grid.costs, low, high, color=colour, alpha=0.2, linewidth=0)
    axis.set_xscale("log")
    shown = grid.costs[_choose_ticks(len(grid.costs))]
    axis.set_xticks(shown, [_write_number(cost) for cost in shown])
    axis.set_xticks([], minor=True)
    axis.set_xlim(grid.costs[0] / 1.2, grid.costs[-1] * 1.2)
    axis.set_xlabel("C")
    axis.set_ylabel("Mean score, and spread of the folds")
    axis.spines[["top", "right"]].set_visible(False)
    if not np.isnan(grid.gammas).any():
        axis.legend(frameon=False)
