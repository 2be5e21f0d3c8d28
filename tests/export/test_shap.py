"""Explanations for the package shap, compared with its own exact explainer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from widemargin import AdditiveSVC, IntersectionSVC, KernelSVC
from widemargin.export import to_shap

shap = pytest.importorskip("shap", reason="the package shap is not installed")


@pytest.fixture
def iris_frame():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, y.to_numpy()


def explain_exactly(model, X, background):
    masker = shap.maskers.Independent(np.asarray(background), max_samples=len(background))
    return shap.explainers.Exact(model.decision_function, masker)(np.asarray(X))


@pytest.mark.parametrize("model", [AdditiveSVC(), IntersectionSVC()], ids=["chi2", "intersection"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_values_are_those_of_the_exact_explainer(model, n_classes, iris_frame):
    X, y = iris_frame
    y = y == 1 if n_classes == 2 else y
    model.fit(X.to_numpy(), y)
    ours = to_shap(model, X.to_numpy()[:7], background=X.to_numpy()[::10])
    theirs = explain_exactly(model, X[:7], X[::10])
    assert ours.shape == theirs.shape
    assert_allclose(ours.values, theirs.values, atol=1e-9)
    assert_allclose(ours.base_values, theirs.base_values, atol=1e-9)


def test_without_background_values_are_those_of_explain(iris_frame):
    X, y = iris_frame
    model = AdditiveSVC().fit(X, y == 1)
    found = to_shap(model, X)
    assert_allclose(found.values, model.explain(X))
    assert_allclose(found.base_values + found.values.sum(axis=1), model.decision_function(X))
    assert found.feature_names == list(X.columns)


def test_pipeline_has_the_data_in_their_own_units(iris_frame):
    X, y = iris_frame
    pipeline = make_pipeline(MinMaxScaler(clip=True), AdditiveSVC()).fit(X, y)
    found = to_shap(pipeline, X[:9], background=X)
    assert found.output_names == ["0", "1", "2"]
    assert_allclose(found.data, X[:9])
    total = found.base_values + found.values.sum(axis=1)
    assert_allclose(total, pipeline.decision_function(X[:9]))


def test_other_models_are_refused(iris_frame):
    with pytest.raises(TypeError, match="no sum of curves"):
        to_shap(KernelSVC().fit(*iris_frame), iris_frame[0])


def test_surfaces_are_refused(iris_frame):
    model = AdditiveSVC(interactions=1).fit(*iris_frame)
    with pytest.raises(ValueError, match="interactions=0"):
        to_shap(model, iris_frame[0])


def test_plots_take_it(iris_frame):
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = iris_frame
    found = to_shap(AdditiveSVC().fit(X, y == 1), X, background=X)
    shap.plots.waterfall(found[0], show=False)
    shap.plots.beeswarm(found, show=False)
    plt.close("all")
