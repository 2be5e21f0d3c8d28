"""Plots show what the model holds."""

import sys
from copy import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from widemargin import DCSVC, AdditiveSVC, IntersectionSVC, ProjectedSVC, plotting
from widemargin.plotting import plot_shapes

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra 'plot'")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def fitted():
    X, y = make_moons(800, noise=0.2, random_state=0)
    return DCSVC(gamma=1.0, n_levels=2, keep_levels=True).fit(X, y), X, y


def test_levels(fitted):
    model, X, y = fitted
    figure = plotting.plot_levels(model, X, y)
    objective, accuracy, seconds = figure.axes
    assert_line(objective, [record.objective for record in model.levels_])
    assert_line(accuracy, [100 * np.mean(labels == y) for labels in model.staged_predict(X)])
    heights = [bar.get_height() for bar in seconds.patches]
    expected = [r.clustering_seconds for r in model.levels_]
    expected += [r.solving_seconds for r in model.levels_]
    np.testing.assert_allclose(heights, expected)
    assert [label.get_text() for label in objective.get_xticklabels()] == ["16", "4", "1"]


def test_levels_say_which_objective_they_show(fitted):
    objective, _ = plotting.plot_levels(fitted[0]).axes
    assert "kernel zero between its clusters" in objective.get_title(loc="left")


def test_levels_of_a_model_that_is_not_fitted():
    with pytest.raises(NotFittedError):
        plotting.plot_levels(DCSVC())


@pytest.mark.parametrize("n_levels", [1, 8])
def test_levels_do_not_cover_each_other(fitted, n_levels):
    model = copy(fitted[0])
    # At the same height, where their numbers are closest.
    model.levels_ = [replace(model.levels_[0], objective=-12345.6)] * n_levels
    figure = plotting.plot_levels(model)
    figure.canvas.draw()
    objective, seconds = figure.axes
    boxes = [text.get_window_extent() for text in objective.texts]
    assert len(boxes) == n_levels
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))
    legend = seconds.get_legend().get_window_extent()
    assert not any(legend.overlaps(bar.get_window_extent()) for bar in seconds.patches)


def test_basis_path(cancer):
    X, y = cancer
    model = ProjectedSVC(n_basis=9).fit(X[::2], y[::2])
    path = model.basis_path(X[1::2], y[1::2])
    objective, accuracy = plotting.plot_basis_path(model, X[1::2], y[1::2]).axes
    n_sizes = len(path) - 1
    assert_line(objective, [point.objective for point in path[:n_sizes]])
    assert_line(accuracy, [100 * point.accuracy for point in path[:n_sizes]])
    np.testing.assert_allclose(
        objective.lines[1].get_xydata(), [[model.n_basis_, model.objective_]]
    )
    assert len(plotting.plot_basis_path(model).axes) == 1
    with pytest.raises(ValueError, match="give both, or neither"):
        plotting.plot_basis_path(model, X)


def test_basis_path_of_a_pipeline(cancer):
    X, y = cancer
    steps = make_pipeline(MinMaxScaler(), ProjectedSVC(n_basis=5)).fit(X[::2], y[::2])
    _, accuracy = plotting.plot_basis_path(steps, X[1::2], y[1::2]).axes
    assert accuracy.lines[1].get_ydata()[0] == 100 * steps.score(X[1::2], y[1::2])
    with pytest.raises(TypeError, match="model: a AdditiveSVC has no basis path"):
        plotting.plot_basis_path(AdditiveSVC().fit(np.abs(X), y))


def test_basis_path_of_an_automatic_size(cancer):
    X, y = cancer
    model = ProjectedSVC(n_basis="auto", random_state=0).fit(X, y)
    _, accuracy = plotting.plot_basis_path(model).axes
    assert_line(accuracy, [100 * point.accuracy for point in model.auto_path_])
    assert f"chosen: {model.n_basis_}" in accuracy.get_legend().get_texts()[-1].get_text()


def assert_line(axis, values):
    np.testing.assert_allclose(axis.lines[0].get_ydata(), values)


def test_levels_without_data(fitted):
    model, X, _ = fitted
    assert len(plotting.plot_levels(model).axes) == 2
    with pytest.raises(ValueError, match="both"):
        plotting.plot_levels(model, X)


def test_missing_matplotlib(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"widemargin\[plot\]"):
        plotting.plot_levels(fitted[0])


def test_shapes_show_the_features_that_matter(digits):
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"pixel {j}" for j in range(64)])
    model = AdditiveSVC(random_state=0).fit(frame, y == 3)
    figure = plot_shapes(model, frame, n_features=4)
    panels = [axis for axis in figure.axes if axis.get_title(loc="left")]
    shares = np.abs(model.explain(frame) - model.explain(frame).mean(axis=0)).mean(axis=0)
    expected = [f"pixel {j}" for j in np.argsort(-shares)[:4]]
    assert [axis.get_title(loc="left") for axis in panels] == expected
    values, heights = panels[0].lines[0].get_data()
    j = int(expected[0].split()[1])
    assert_allclose(values, model.shape_functions()[j][0])
    assert_allclose(heights, model.shape_functions()[j][1] - model.explain(frame)[:, j].mean())


def test_shapes_of_several_classes(digits):
    X, y = digits
    model = IntersectionSVC(random_state=0).fit(X, y)
    figure = plot_shapes(model, n_features=5, classes=[3, 8])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["3", "8"]
    assert len(figure.axes[0].lines) == 3
    with pytest.raises(ValueError, match=r"classes: .* are not among"):
        plot_shapes(model, classes=[11])
    with pytest.raises(ValueError, match="n_features: must be"):
        plot_shapes(model, n_features=0)
