"""The results of a search in the format of scikit-learn's `GridSearchCV`."""

from itertools import product
from typing import Any

import numpy as np
from scipy.stats import rankdata

from widemargin.budget import StopReason, worst_reason
from widemargin.exact.search_grid import Shape
from widemargin.exact.search_surface import Cell, FloatArray, Surface


def list_cells(surface: Surface) -> list[Cell]:
    """All cells in the order of `ParameterGrid`: by C, then epsilon, then gamma."""
    n_gammas, n_epsilons, n_costs = surface.grid.shape
    return [(g, e, c) for c, e, g in product(range(n_costs), range(n_epsilons), range(n_gammas))]


def make_cv_results(surface: Surface) -> dict[str, Any]:
    """Results of all cells, one entry each.

    Besides the entries of `GridSearchCV` there are ``stop_reason`` (the worst of all folds),
    ``note`` (why a cell was not evaluated on all rows), ``n_rows`` (training rows of the largest
    sample that the cell was evaluated on) and ``sample_test_score`` (its mean score there, for cells
    that were not evaluated on all rows).
    """
    cells = list_cells(surface)
    at = tuple(np.array(cells).T)
    results: dict[str, Any] = {}
    for name, seconds in (("fit", surface.fit_seconds), ("score", surface.score_seconds)):
        results[f"mean_{name}_time"] = seconds[at].mean(axis=1)
        results[f"std_{name}_time"] = seconds[at].std(axis=1)
    params = [surface.params(cell) for cell in cells]
    for name in sorted(params[0]):
        results[f"param_{name}"] = np.ma.MaskedArray([p[name] for p in params], mask=False)
    results["params"] = params
    for fold in range(surface.n_folds):
        results[f"split{fold}_test_score"] = surface.scores[at][:, fold]
    means = surface.means[at]
    results["mean_test_score"] = means
    results["std_test_score"] = np.where(
        surface.is_complete[at], surface.scores[at].std(axis=1), np.nan
    )
    results["rank_test_score"] = _rank(means)
    results["stop_reason"] = np.array([_worst(surface.stop_reasons[cell]) for cell in cells])
    results["note"] = surface.notes[at].astype(str)
    results["n_rows"] = surface.n_rows[at]
    results["sample_test_score"] = surface.sample_scores[at]
    return results


def join_results(parts: dict[Shape, dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """Results of the searches of several shapes, one after another.

    ``names`` are the parameters in which the shapes differ.
    """
    joined: dict[str, Any] = {}
    results = list(parts.values())
    for name in results[0]:
        columns = [part[name] for part in results]
        if name == "params":
            joined[name] = [
                params | {each: getattr(shape, each) for each in names}
                for shape, part in parts.items()
                for params in part[name]
            ]
        else:
            join = np.ma.concatenate if name.startswith("param_") else np.concatenate
            joined[name] = join(columns)
    for each in names:
        values = [params[each] for params in joined["params"]]
        joined[f"param_{each}"] = np.ma.MaskedArray(values, mask=False)
    joined["rank_test_score"] = _rank(joined["mean_test_score"])
    return joined


def _worst(reasons: Any) -> str:
    known = [StopReason(reason) for reason in reasons if reason]
    return str(worst_reason(known)) if known else ""


def _rank(means: FloatArray) -> Any:
    """Ranks from 1 for the highest score; cells without a score come last."""
    if np.isnan(means).all():
        return np.ones(len(means), np.int32)
    filled = np.nan_to_num(means, nan=np.nanmin(means) - 1.0)
    return rankdata(-filled, method="min").astype(np.int32)
