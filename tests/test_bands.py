"""Bands of curves, from fits to samples of the data."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import check_random_state, resample

from widemargin import AdditiveSVC, KernelSVC
from widemargin.bands import curve_bands


def waves(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    return X, np.where(X[:, 0] + 0.4 * rng.standard_normal(n) > 0.5, "yes", "no")


def test_bands_are_quantiles_of_fits_to_samples():
    X, y = waves()
    model = AdditiveSVC(n_jobs=1).fit(X, y)
    bands = curve_bands(model, X, y, n_boot=5, level=0.5, features=[2, 0], random_state=3)
    assert_array_equal(bands.features, [2, 0])
    rng = check_random_state(3)
    values = model.shape_functions(features=[0])[0][0]
    drawn = []
    for _ in range(5):
        fitted = clone(model).fit(*resample(X, y, stratify=y, random_state=rng))
        drawn.append(fitted._heights(0, values)[0] - fitted.explain(X)[:, 0].mean())
    assert_allclose(bands.values[1], values)
    assert_allclose(bands.lower[1][0], np.quantile(drawn, 0.25, axis=0), atol=1e-10)
    assert_allclose(bands.upper[1][0], np.quantile(drawn, 0.75, axis=0), atol=1e-10)
    assert_allclose(bands.centres[0], model.explain(X).mean(axis=0), atol=1e-10)
    lower, upper = bands.at(0, values[:7])
    assert_allclose(lower, bands.lower[1][:, :7])
    assert_allclose(upper, bands.upper[1][:, :7])
    assert bands.at(1, values) is None


def test_more_data_make_narrower_bands_that_hold_the_curve():
    widths = []
    for n in (200, 3200):
        X, y = waves(n)
        model = AdditiveSVC(n_jobs=1).fit(X, y)
        bands = curve_bands(model, X, y, features=[0])
        curve = model.shape_functions(features=[0])[0][1] - bands.centres[0, 0]
        is_inside = (bands.lower[0][0] <= curve) & (curve <= bands.upper[0][0])
        assert is_inside.mean() > 0.7
        widths.append(np.mean(bands.upper[0] - bands.lower[0]))
    # A sixteenth of the rows would make bands four times as wide.
    assert widths[0] > 2 * widths[1]


def test_several_classes_pipelines_names_and_missing_values():
    X, y = waves()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    labels = (3 * X[:, 1]).astype(int)
    pipeline = make_pipeline(MinMaxScaler(clip=True), AdditiveSVC(n_jobs=1)).fit(frame, labels)
    before = pipeline.decision_function(frame)
    bands = curve_bands(pipeline, frame, labels, n_boot=3, features=["b"])
    assert bands.lower[0].shape == (3, 256)
    assert_array_equal(pipeline.decision_function(frame), before)
    frame.iloc[::7, 0] = np.nan
    model = AdditiveSVC(missing="code", n_jobs=1).fit(frame, y)
    assert np.isfinite(curve_bands(model, frame, y, n_boot=3).upper[0]).all()


def test_samples_of_centred_data_take_the_origin_of_the_model():
    X, y = waves(100)
    X -= X.mean(axis=0)
    with pytest.warns(UserWarning, match="centred"):
        model = AdditiveSVC(n_jobs=1).fit(X, y)
    bands = curve_bands(model, X, y)
    plain = AdditiveSVC(n_jobs=1).fit(X - model.origin_, y)
    expected = curve_bands(plain, X - model.origin_, y)
    assert_allclose(bands.values[1], expected.values[1] + model.origin_[1])
    assert_allclose(bands.lower[1], expected.lower[1], atol=1e-10)


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame], ids=["array", "table"])
def test_categories_beside_a_column_that_is_moved(make):
    """Categories are no numbers, even if they look like negative ones."""
    rng = np.random.default_rng(0)
    group = rng.integers(-1, 2, 200)
    rows = np.column_stack([rng.normal(size=200), group])
    y = 2.0 * (group == -1) - 1.5 * (group == 0) + 0.3 * rows[:, 0] > 0
    model = AdditiveSVC(categorical_features=[1], scaling="range", n_jobs=1).fit(make(rows), y)
    bands = curve_bands(model, make(rows), y)
    heights = model.shape_functions(features=[1])[0][1]
    centred = heights - model.explain(make(rows))[:, 1].mean()
    assert (np.abs(bands.lower[1][0] - centred) < 0.5 * np.ptp(heights)).all()
    assert bands.upper[1][0].argmax() == centred.argmax()


def test_texts_beside_a_column_that_is_moved():
    rng = np.random.default_rng(0)
    town = np.array(["Bern", "Oslo", "Rome"])[rng.integers(0, 3, 200)]
    frame = pd.DataFrame({"warmth": rng.normal(size=200), "town": town})
    y = (frame["warmth"] > 0) ^ (frame["town"] == "Rome")
    model = AdditiveSVC(categorical_features=["town"], scaling="range", n_jobs=1).fit(frame, y)
    assert curve_bands(model, frame, y, n_boot=3).lower[1].shape == (1, 3)


def test_wrong_arguments_are_refused():
    X, y = waves(60)
    model = AdditiveSVC(n_jobs=1).fit(X, y)
    for params, message in [
        ({"n_boot": 1}, "n_boot: must be an integer of at least 2"),
        ({"level": 1.0}, "level: must be below 1"),
        ({"level": 0.0}, "level: must be greater than 0"),
        ({"features": [5]}, "features: columns are numbered 0 to 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            curve_bands(model, X, y, **params)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        curve_bands(model, X, y[:-1])
    with pytest.raises(TypeError, match="model: a KernelSVC has no curves"):
        curve_bands(KernelSVC().fit(X, y), X, y)
