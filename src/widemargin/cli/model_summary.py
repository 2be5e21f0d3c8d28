"""A fitted estimator in a few lines of text, for the command."""

from typing import Any

import numpy as np

from widemargin.divide.local_classifiers import LocalClassifiers
from widemargin.kernels import Kernel

#: Parameters that the summary shows, where a model has them.
_PARAMS = ("C", "epsilon", "nu")


def _describe_number(model: Any, name: str) -> str:
    """Return a parameter, and the number that was used if it is a word."""
    value = getattr(model, name)
    return f"{value} ({getattr(model, f'{name}_'):g})" if isinstance(value, str) else f"{value:g}"


def format_model(model: Any) -> str:
    """Return a readable summary of a fitted estimator; of a search that of its final model too."""
    if isinstance(getattr(model, "best_estimator_", None), LocalClassifiers):
        return "\n".join([*_search_lines(model), *_cluster_lines(model)])
    if hasattr(model, "best_estimator_"):
        return "\n".join([*_search_lines(model), format_model(model.best_estimator_)])
    rows = {
        "model": type(model).__name__,
        "kernel": _describe_kernel(model),
        **{name: _describe_number(model, name) for name in _PARAMS if hasattr(model, name)},
        **_output_rows(model),
        "features": f"{model.n_features_in_:,}",
        **_own_rows(model),
        "stopped": model.stop_reason_,
    }
    if hasattr(model, "levels_"):
        rows["level"] = f"{model.level_} ({_clusters(model)})"
    width = max(map(len, rows))
    lines = [f"{name.ljust(width)}  {value}" for name, value in rows.items()]
    return "\n".join([*lines, *_level_table(model)])


def _search_lines(model: Any) -> list[str]:
    """Return what a search has chosen, and how its probabilities are calibrated."""
    chosen = ", ".join(f"{name} = {value:.6g}" for name, value in model.best_params_.items())
    lines = [f"chosen by {model.n_splits_} folds: {chosen}; score {model.best_score_:.6g}"]
    if getattr(model, "calibration", None) is not None:
        lines.append(f"probabilities: {model.calibration}")
    return lines


def _cluster_lines(model: Any) -> list[str]:
    """Return what the clusters of a search have chosen, and what their classifiers are."""
    lines = []
    for number, choice in enumerate(model.clusters_):
        gamma = "" if choice.gamma is None else f", gamma = {choice.gamma:.6g}"
        lines.append(f"cluster {number}, {choice.n_rows:,} rows: C = {choice.C:.6g}{gamma}")
    rows = {
        **_output_rows(model),
        "features": f"{model.n_features_in_:,}",
        "stopped": model.best_estimator_.stop_reason_,
    }
    return lines + [f"{name.ljust(8)}  {value}" for name, value in rows.items()]


def _output_rows(model: Any) -> dict[str, str]:
    """Return what the model predicts: classes or the number of targets; nothing for one class."""
    if hasattr(model, "classes_"):
        shown = ", ".join(map(str, model.classes_[:10]))
        more = " ..." if len(model.classes_) > 10 else ""
        return {"classes": f"{len(model.classes_)}: {shown}{more}"}
    return {} if hasattr(model, "offset_") else {"targets": f"{len(model.intercept_)}"}


def _describe_kernel(model: Any) -> str:
    kernel = getattr(model, "kernel_", getattr(model, "kernel", "intersection"))
    if not isinstance(kernel, Kernel):
        return "power_mean" if kernel is None else str(kernel)
    params = ", ".join(f"{k}={v:g}" for k, v in model.kernel_.params().items())
    return f"{model.kernel_.name} ({params})" if params else str(model.kernel_.name)


def _own_rows(model: Any) -> dict[str, str]:
    """Return the lines that only this kind of model has."""
    if hasattr(model, "support_"):
        return _exact_rows(model)
    return _basis_rows(model) if hasattr(model, "basis_indices_") else _linear_rows(model)


def _basis_rows(model: Any) -> dict[str, str]:
    return {
        "basis vectors": f"{len(model.basis_indices_):,} "
        f"({_per_class(np.atleast_1d(model.n_basis_))})",
        "objective": _summed(model.objective_),
        "changes of basis": f"{model.n_iter_:,}",
    }


def _exact_rows(model: Any) -> dict[str, str]:
    by_class = f" ({_per_class(model.n_support_)})" if hasattr(model, "classes_") else ""
    return {
        "support vectors": f"{len(model.support_):,}{by_class}",
        "objective": _summed(model.objective_),
        "duality gap": _summed(model.duality_gap_),
        "pair updates": f"{int(np.sum(model.n_iter_)):,}",
    }


def _linear_rows(model: Any) -> dict[str, str]:
    rows = {"passes": f"{int(np.max(model.n_iter_)):,}"}
    if hasattr(model, "rank_"):
        rows["rank of the table"] = f"{model.rank_}" if model.rank_ else "the number of bins"
    if hasattr(model, "anchors_"):
        rows["anchors"] = f"{model.anchors_.shape[0]:,}"
    return rows


def _clusters(model: Any) -> str:
    n_clusters = len(model.cluster_intercepts_)
    if n_clusters == 1:
        return "the whole problem" if model.level_ == 0 else "a sample"
    return f"{n_clusters:,} clusters, {model.combine}"


def _level_table(model: Any) -> list[str]:
    """Return a table of the levels of a `DCSVC`, or nothing for other models."""
    records = getattr(model, "levels_", [])
    if not records:
        return []
    head = [
        "level",
        "clusters",
        "largest",
        "support vectors",
        "objective",
        "cluster (s)",
        "solve (s)",
    ]
    body = [
        [
            f"{r.level}", f"{r.n_clusters:,}", f"{r.largest_cluster:,}", f"{r.n_support:,}",
            f"{r.objective:.6g}", f"{r.clustering_seconds:.2f}", f"{r.solving_seconds:.2f}",
        ]
        for r in records
    ]  # fmt: skip
    widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
    return [
        "",
        *("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in [head, *body]),
    ]


def _per_class(counts: Any) -> str:
    shown = ", ".join(f"{count:,}" for count in counts[:10])
    return f"{shown} ..." if len(counts) > 10 else shown


def _summed(values: Any) -> str:
    several = f" (sum over {np.size(values)} problems)" if np.size(values) > 1 else ""
    return f"{float(np.sum(values)):.6g}{several}"
