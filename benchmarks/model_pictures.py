"""Pictures of fitted models that the guides describe."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks.datasets.covtype import load as load_covtype
from widemargin import DCSVC, AdditiveSVC, KernelSVCCV, ProjectedSVC
from widemargin.datasets import DatasetNotFoundError, load
from widemargin.plotting import plot_basis_path, plot_levels, plot_search, plot_shapes


def draw_shapes() -> Any:
    """Curves of six features of the breast cancer data."""
    data = load_breast_cancer(as_frame=True)
    model = AdditiveSVC().fit(data.data, data.target_names[data.target])
    return plot_shapes(model, data.data)


def draw_levels() -> Any:
    """Objective, accuracy and seconds of each level on 20,000 rows of covtype."""
    data = load_covtype("covtype-20k", 20_000)
    model = DCSVC(**data.params, keep_levels=True).fit(data.X_train, data.y_train)
    return plot_levels(model, data.X_test, data.y_test)


def draw_basis_path() -> Any:
    """Objective and accuracy against the number of basis vectors, on a1a."""
    data = load("a1a")
    model = ProjectedSVC(n_basis=60, C=8.0, gamma=0.03).fit(data.X_train, data.y_train)
    return plot_basis_path(model, data.X_test, data.y_test)


def draw_search() -> Any:
    """Scores over C and gamma of digits up to four against the others, with halving."""
    X, y = load_digits(return_X_y=True)
    return plot_search(KernelSVCCV(search="halving", cv=3).fit(X / 16.0, y > 4))


PICTURES: dict[str, Callable[[], Any]] = {
    "shapes.png": draw_shapes,
    "levels.png": draw_levels,
    "basis-path.png": draw_basis_path,
    "search.png": draw_search,
}


def save_pictures(folder: Path) -> None:
    """Save all pictures as PNG; those whose data are not to be had are named and left out."""
    for name, draw in PICTURES.items():
        try:
            figure = draw()
        except DatasetNotFoundError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        figure.savefig(folder / name, dpi=130)
        plt.close(figure)
