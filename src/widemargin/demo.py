"""The demonstration: the exact solver and divide and conquer next to scikit-learn's ``SVC``."""

import sys
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import SVC

from widemargin.datasets import load
from widemargin.divide.dc_svc import DCSVC
from widemargin.exact.kernel_svc import KernelSVC

IMAGE_SIDE = 8


class Row(NamedTuple):
    """One line of the table."""

    name: str
    fit_seconds: float
    predict_seconds: float
    accuracy: float
    n_support: int
    duality_gap: float | None


def run_demo(dataset: str, *, C: float, gamma: float | str) -> None:
    """Train all classifiers on a data set, showing progress, and print a table."""
    X_train, y_train, X_test, y_test, title = prepare_data(dataset)
    print(f"{title}: {X_train.shape[0]:,} training rows, {X_test.shape[0]:,} test rows,")
    print(f"{X_train.shape[1]} features, {len(np.unique(y_train))} classes; rbf kernel, C={C:g}\n")
    models = {
        "widemargin KernelSVC": KernelSVC(C=C, gamma=gamma, verbose=1),
        "widemargin DCSVC, exact": DCSVC(C=C, gamma=gamma, n_levels=1, verbose=1),
        "widemargin DCSVC, early": DCSVC(C=C, gamma=gamma, n_levels=1, stop_level=1, verbose=1),
        "scikit-learn SVC": SVC(C=C, gamma=gamma, cache_size=1000),
    }
    _warm_up(list(models.values())[:-1], X_train, y_train)
    rows = []
    for name, model in models.items():
        print(f"{name} is training ...", file=sys.stderr)
        rows.append(_measure(name, model, X_train, y_train, X_test, y_test))
    print("\n" + format_rows(rows))


def prepare_data(dataset: str) -> tuple[Any, Any, Any, Any, str]:
    """Train and test parts, scaled, and a title. Digits become a larger set by shifting images."""
    data = load(dataset)
    X_train, y_train, title = data.X_train, data.y_train, f"{dataset} ({data.source})"
    if dataset == "digits":
        X_train, y_train = shift_images(X_train, y_train)
        title = "digits, each training image also shifted by a pixel in 8 directions"
    scaler = MaxAbsScaler().fit(X_train.astype(np.float64))
    scaled = [scaler.transform(X.astype(np.float64)) for X in (X_train, data.X_test)]
    return scaled[0], y_train, scaled[1], data.y_test, title


def shift_images(X: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Images of digits at their place and moved by one pixel in all eight directions."""
    images = np.pad(X.reshape(-1, IMAGE_SIDE, IMAGE_SIDE), ((0, 0), (1, 1), (1, 1)))
    end = IMAGE_SIDE
    moved = [images[:, r : r + end, c : c + end] for r in range(3) for c in range(3)]
    return np.concatenate(moved).reshape(-1, IMAGE_SIDE**2), np.tile(y, len(moved))


def _warm_up(models: list[Any], X: Any, y: NDArray[Any]) -> None:
    """Compile before the clock runs; the result is cached on disk for the next time."""
    print("compiling (on first use, once per machine) ...", file=sys.stderr)
    labels = np.unique(y)
    few = np.concatenate([np.flatnonzero(y == label)[:30] for label in labels])
    # Problems of few and of many rows are solved by different loops.
    two_classes = np.flatnonzero(np.isin(y, labels[:2]))
    for rows in (few, two_classes):
        for model in models:
            clone(model).set_params(verbose=0).fit(X[rows], y[rows]).predict(X[rows])


def _measure(
    name: str, model: Any, X_train: Any, y_train: Any, X_test: Any, y_test: NDArray[Any]
) -> Row:
    began = time.perf_counter()
    model.fit(X_train, y_train)
    fitted = time.perf_counter()
    predicted = model.predict(X_test)
    done = time.perf_counter()
    gap = getattr(model, "duality_gap_", None)
    return Row(
        name,
        fitted - began,
        done - fitted,
        float(np.mean(predicted == y_test)),
        len(model.support_),
        None if gap is None else float(np.sum(gap)),
    )


def format_rows(rows: list[Row]) -> str:
    """A small table, and how much faster than the last row the others fit."""
    head = ("", "fit (s)", "predict (s)", "accuracy", "support vectors", "duality gap")
    body = [
        (
            row.name,
            f"{row.fit_seconds:.2f}",
            f"{row.predict_seconds:.3f}",
            f"{row.accuracy:.2%}",
            f"{row.n_support:,}",
            "-" if row.duality_gap is None else f"{row.duality_gap:.2g}",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    lines = [_align(line, widths) for line in [head, *body]]
    *ours, theirs = rows
    ratios = [
        f"{row.name} fits {theirs.fit_seconds / row.fit_seconds:.1f} times as fast here."
        for row in ours
    ]
    return "\n".join([*lines, "", *ratios])


def _align(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *rest = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([cells[0].ljust(len(first)), *rest])
