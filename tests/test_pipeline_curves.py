"""Curves of pipelines, in the units of the data."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, MinMaxScaler, PowerTransformer

from widemargin import AdditiveSVC, IntersectionSVC
from widemargin.pipeline_curves import PipelineCurves


@pytest.fixture
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return X, y.to_numpy()


SCALERS = [MinMaxScaler(clip=True), MaxAbsScaler(), PowerTransformer()]


@pytest.mark.parametrize("scaler", SCALERS, ids=lambda scaler: type(scaler).__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_curves_add_up_to_the_decision(wine, scaler, n_classes):
    X, y = wine
    y = y == 1 if n_classes == 2 else y
    pipeline = make_pipeline(scaler, IntersectionSVC(random_state=0)).fit(X, y)
    curves = PipelineCurves(pipeline)
    values = X.to_numpy()[:40]
    total = sum(curves._heights(j, values[:, j]) for j in range(X.shape[1]))
    expected = pipeline.decision_function(X.iloc[:40])
    assert_allclose(total.T + pipeline[-1].intercept_, expected.reshape(40, -1), atol=1e-8)


def test_ranges_are_those_of_the_data(wine):
    X, y = wine
    pipeline = make_pipeline(MinMaxScaler(clip=True), AdditiveSVC()).fit(X, y)
    ((values, heights),) = PipelineCurves(pipeline).shape_functions(50, features=["proline"])
    assert_allclose([values[0], values[-1]], [X.proline.min(), X.proline.max()])
    assert heights.shape == (3, 50)


def test_arrays_without_names(wine):
    X, y = wine
    pipeline = make_pipeline(MinMaxScaler(clip=True), AdditiveSVC()).fit(X.to_numpy(), y == 0)
    assert len(PipelineCurves(pipeline).shape_functions()) == 13
    with pytest.raises(ValueError, match="no names of columns"):
        PipelineCurves(pipeline).shape_functions(features=["proline"])


def test_steps_that_mix_columns_are_refused(wine):
    X, y = wine
    pipeline = make_pipeline(PCA(13), MinMaxScaler(clip=True), AdditiveSVC()).fit(X, y)
    with pytest.raises(ValueError, match="mixes columns"):
        PipelineCurves(pipeline)


def test_steps_without_inverse_are_refused():
    class Squares(FunctionTransformer):
        inverse_transform = None

        def __getattribute__(self, name):
            if name == "inverse_transform":
                raise AttributeError(name)
            return super().__getattribute__(name)

    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(Squares(np.square), AdditiveSVC()).fit(X, y)
    with pytest.raises(ValueError, match="no inverse_transform"):
        PipelineCurves(pipeline)


def test_names_that_are_unknown(wine):
    X, y = wine
    model = AdditiveSVC(scaling="max").fit(X, y)
    both = model.shape_functions(features=["hue", "ash"])
    assert_allclose(both[1][1], model.shape_functions(features=[2])[0][1])
    with pytest.raises(ValueError, match=r"no columns \['huge'\]"):
        model.shape_functions(features=["huge"])
    assert isinstance(X, pd.DataFrame)
