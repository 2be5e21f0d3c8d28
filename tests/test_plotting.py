"""Plots show what the model holds."""

import sys
import tracemalloc
from copy import copy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from widemargin import (
    DCSVC,
    LRSVC,
    AdditiveSVC,
    IntersectionSVC,
    KernelSVCCV,
    KernelSVRCV,
    ProjectedSVC,
    plotting,
)
from widemargin.plotting import plot_shapes, show_model

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


def test_shapes_say_where_the_data_are():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.exponential(size=800), rng.integers(0, 3, 800), rng.random(800) < 0.3])
    y = X[:, 0] + X[:, 1] + X[:, 2] > 2
    model = AdditiveSVC(scaling="max", random_state=0).fit(X, y)
    for form in (np.asarray, sparse.csr_matrix):
        figure = plot_shapes(model, form(X))
        panels = {axis.get_title(loc="left"): axis for axis in figure.axes[:3]}
        # Faint everywhere, and in full between the outer hundredths.
        faint, full, _ = panels["feature 0"].lines
        assert faint.get_alpha() < 0.5
        assert_allclose(faint.get_xdata()[[0, -1]], [X[:, 0].min(), X[:, 0].max()])
        assert_allclose(full.get_xdata()[[0, -1]], np.percentile(X[:, 0], [1, 99]))
        # Points where there are values, and nothing between.
        for j, n_values in ((1, 3), (2, 2)):
            points = panels[f"feature {j}"].lines[0]
            assert_allclose(points.get_xdata(), np.arange(n_values))
            assert points.get_linestyle() == "None"
            queries = np.zeros((n_values, 3))
            queries[:, j] = np.arange(n_values)
            expected = model.explain(queries)[:, j] - model.explain(X)[:, j].mean()
            assert_allclose(points.get_ydata(), expected, atol=1e-9)
        bars = [[bar.get_height() for bar in axis.patches] for axis in figure.axes if axis.patches]
        assert sorted(map(len, bars)) == [2, 3, 40]
        roots = next(heights for heights in bars if len(heights) == 2)
        assert_allclose(roots, np.sqrt(np.bincount(X[:, 2].astype(int))))


def test_shapes_of_wide_data_take_little_memory():
    X = sparse.random(60, 5000, 0.01, format="csr", random_state=0)
    y = np.arange(60) % 4
    model = AdditiveSVC(C=0.1, random_state=0).fit(X, y)
    plot_shapes(model, X)
    for data in (None, X):
        tracemalloc.start()
        plot_shapes(model, data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # All curves would take 41 MB, all shares 10.
        assert peak < 8e6


def test_curves_of_some_features(digits):
    model = AdditiveSVC(random_state=0).fit(*digits)
    every = model.shape_functions()
    for found, j in zip(model.shape_functions(features=[20, 3]), (20, 3), strict=True):
        assert_allclose(found[0], every[j][0])
        assert_allclose(found[1], every[j][1])
    assert model.shape_functions(features=[]) == []
    for features in ([64], [-1]):
        with pytest.raises(ValueError, match="features: columns are numbered 0 to 63"):
            model.shape_functions(features=features)
    for features in (3, [0.5], ["pixel"]):
        with pytest.raises(ValueError, match="features: "):
            model.shape_functions(features=features)


def test_shapes_refuse_what_has_none(digits, cancer):
    with pytest.raises(TypeError, match="model: a LRSVC has no curves"):
        plot_shapes(LRSVC(random_state=0).fit(*cancer))
    several = AdditiveSVC(random_state=0).fit(*digits)
    with pytest.raises(ValueError, match="classes: give a list of labels"):
        plot_shapes(several, classes=3)
    two = AdditiveSVC(random_state=0).fit(digits[0], digits[1] > 4)
    for classes, message in (([7], "are not among"), ([False], "of two classes there are")):
        with pytest.raises(ValueError, match=message):
            plot_shapes(two, classes=classes)
    assert len(plot_shapes(two, classes=[True], n_features=1).axes[0].lines) == 2


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


def test_plot_search_shows_every_cell(iris):
    X, y = iris
    model = KernelSVCCV(Cs=[10.0, 0.1, 1.0], gammas=[0.1, 0.5], cv=3).fit(X, y)
    figure = plotting.plot_search(model)
    surface, line = figure.axes[:2]
    image = surface.images[0].get_array()
    order = np.argsort(model.Cs_)
    np.testing.assert_allclose(image, model.scores_.mean(axis=2)[:, order])
    assert [text.get_text() for text in surface.get_xticklabels()] == ["0.1", "1", "10"]
    assert [text.get_text() for text in surface.get_yticklabels()] == ["0.1", "0.5"]
    chosen = surface.collections[-1].get_offsets()[0]
    assert image[int(chosen[1]), int(chosen[0])] == model.best_score_
    assert len(line.lines) == 2


def test_plot_search_without_gamma_and_with_epsilon(iris):
    X, y = iris
    linear = KernelSVCCV(Cs=[0.1, 1.0], kernel="linear", cv=3).fit(X, y)
    assert plotting.plot_search(linear).axes[0].images[0].get_array().shape == (1, 2)
    model = KernelSVRCV(Cs=[0.1, 1.0], gammas=[0.1], epsilons=[0.01, 0.1], cv=3)
    model.fit(X[:, :3], X[:, 3])
    image = plotting.plot_search(model).axes[0].images[0].get_array()
    at = [0.01, 0.1].index(model.epsilon_)
    np.testing.assert_allclose(image, model.scores_.mean(axis=3)[:, :, at])


@pytest.mark.parametrize("shapes", [{"degree": [1, 3]}, {"degree": [1, 3], "coef0": [0.0, 1.0]}])
def test_plot_search_shows_the_chosen_degree_and_coef0(shapes, iris):
    model = KernelSVCCV(kernel="poly", Cs=[0.1, 1.0], gammas=[0.1], cv=3, **shapes).fit(*iris)
    image = plotting.plot_search(model).axes[0].images[0].get_array()
    np.testing.assert_allclose(image, model.scores_.mean(axis=2))


def test_shapes_of_chosen_features_of_a_pipeline(cancer):
    X = pd.DataFrame(cancer[0][:, :5], columns=list("abcde"))
    pipeline = make_pipeline(MinMaxScaler(clip=True), AdditiveSVC(random_state=0)).fit(X, cancer[1])
    figure = plot_shapes(pipeline, X, features=["d", "b"])
    panels = [axis for axis in figure.axes if axis.get_title(loc="left")]
    assert [axis.get_title(loc="left") for axis in panels] == ["d", "b"]
    values, heights = panels[0].lines[0].get_data()
    assert_allclose([values[0], values[-1]], [X.d.min(), X.d.max()])
    scaled = pipeline[0].transform(X)
    middle = pipeline[-1].explain(scaled)[:, 3].mean()
    ((_, expected),) = pipeline[-1].shape_functions(features=[3])
    assert_allclose(heights, expected - middle, atol=1e-9)
    assert len(plot_shapes(pipeline, n_features=2).axes) == 2


def draw_boxes(figure, texts):
    """Return where texts are in a drawn picture, those that are empty left out."""
    figure.canvas.draw()
    return [text.get_window_extent() for text in texts if text.get_text() and text.get_visible()]


@pytest.fixture(scope="module")
def paired():
    """A table of numbers, missing values and categories, with labels of pairs and of three classes."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "income": rng.lognormal(11.0, 0.7, 500),
        "year": rng.integers(1990, 2020, 500).astype(float),
        "region": pd.Categorical(rng.choice(["north coast", "desert"], 500)),
    })  # fmt: skip
    X.loc[rng.random(500) < 0.2, "income"] = np.nan
    sign = np.where(X.region == "desert", 1.0, -1.0)
    score = (X.year - 2005) / 5 * sign - (X.income.fillna(2e5) > 7e4) * sign
    return X, np.digitize(score, [-1.0, 1.0])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shapes_show_pairs(paired, n_classes):
    X, classes = paired
    y = classes if n_classes == 3 else classes > 0
    model = AdditiveSVC(missing="code", categorical_features="from_dtype", interactions=2)
    model.fit(X, y)
    figure = plot_shapes(model, X)
    maps = [axis for axis in figure.axes if axis.collections and axis.get_title(loc="left")]
    assert len(maps) == 2
    sizes = np.abs(model.explain(X) - model.explain(X).mean(axis=0)).reshape(500, -1, 5)
    sizes = sizes.mean(axis=0)[:, 3:]
    for axis, k in zip(maps, np.argsort(-sizes.mean(axis=0)), strict=True):
        i, j = model.interactions_[k]
        first, second = X.columns[i], X.columns[j]
        title = axis.get_title(loc="left")
        assert title.split("\n")[0] == f"{first} and {second}"
        most = sizes[:, k].argmax()
        assert n_classes == 2 or title.endswith(f"for class {most}")
        levels, _, heights = model.interaction_functions()[k]
        mean = model.explain(X).reshape(500, -1, 5)[:, most, 3 + k].mean()
        expected = (heights if n_classes == 2 else heights[most]) - mean
        drawn = axis.collections[0].get_array()
        assert_allclose(drawn.compressed().reshape(expected.T.shape), expected.T)
        if first == "income":
            # Missing values stand behind a gap.
            assert drawn.shape[1] == len(levels) + 1
            assert axis.get_xticklabels()[-1].get_text() == "missing"
    assert not [axis for axis in plot_shapes(model, X, n_pairs=0).axes if axis.collections]


def test_ticks_of_large_numbers_do_not_touch(paired):
    X, classes = paired
    model = AdditiveSVC(missing="code", categorical_features="from_dtype").fit(X, classes)
    figure = plot_shapes(model, X, features=["income", "year", "region"])
    for axis in figure.axes[:3]:
        boxes = draw_boxes(figure, axis.get_xticklabels())
        assert not any(a.overlaps(b) for a, b in pairwise(boxes))
    texts = {text.get_text(): text for text in figure.axes[0].get_xticklabels()}
    assert any(name.endswith("00,000") for name in texts)
    (circle, *_) = [line for line in figure.axes[0].lines if line.get_gid() == "missing"]
    assert_allclose(texts["missing"].get_position()[0], circle.get_xdata()[0])
    assert not figure.axes[0].texts


def test_a_column_without_any_value_is_drawn_without_data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((80, 2))
    model = AdditiveSVC(missing="code").fit(X, X[:, 0] > 0.5)
    X[:, 1] = np.nan
    figure = plot_shapes(model, X)
    # One panel has a second axis for the histogram.
    assert len(figure.axes) == 3
    show_model(model, X, path=tmp_path / "page.html")
    assert "feature 1" in (tmp_path / "page.html").read_text(encoding="utf-8")
