"""Plots show what the model holds."""

import sys

import numpy as np
import pytest
from sklearn.datasets import make_moons

from widemargin import DCSVC, plotting

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
