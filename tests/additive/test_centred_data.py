"""Kernels for histograms on centred data and on signed columns: moved, with a warning."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import widemargin
from widemargin import AdditiveSVC, PowerMeanSVC
from widemargin.baselines import FourierSVC

MODELS = [
    AdditiveSVC(random_state=0),
    AdditiveSVC(kernel="intersection", scaling="max", random_state=0),
    PowerMeanSVC(random_state=0),
    PowerMeanSVC(lut=True, random_state=0),
    FourierSVC(random_state=0),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=str, indirect=True)


@pytest.fixture(scope="module")
def cells():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture
def model(request):
    return clone(request.param)


def fit(model, X, y):
    with pytest.warns(UserWarning, match=r"X: the data are centred.*MinMaxScaler"):
        return model.fit(X, y)


@each_model
def test_they_are_moved_to_begin_at_zero(cells, model):
    X, y = cells
    least = X[:400].min(axis=0)
    expected = clone(model).fit(X[:400] - least, y[:400])
    fit(model, X[:400], y[:400])
    assert_array_equal(model.origin_, least)
    queries = X[400:]
    assert (queries < least).any()
    moved = np.maximum(queries - least, 0.0)
    assert_allclose(model.decision_function(queries), expected.decision_function(moved), atol=1e-12)
    assert model.score(queries, y[400:]) > 0.85


@each_model
def test_shares_and_curves_are_of_the_features_as_they_are(cells, model):
    X, y = cells
    fit(model, X, y)
    intercept = model.decision_function(X) - model.explain(X).sum(axis=1)
    assert_allclose(intercept, intercept[0], atol=1e-9)
    assert_allclose(model.feature_ranges_, [X.min(axis=0), X.max(axis=0)], atol=1e-12)
    values, heights = model.shape_functions(n_points=50)[7]
    assert_allclose(values[[0, -1]], [X[:, 7].min(), X[:, 7].max()], atol=1e-12)
    row = X[:1].copy()
    row[0, 7] = values[20]
    assert_allclose(model.explain(row)[0, 7], heights[20], atol=1e-9)


@each_model
def test_other_negative_values_are_refused(cells, model):
    X, y = cells
    positive = X - X.min(axis=0)
    one = positive.copy()
    one[3, 2] = -1.0
    with pytest.raises(ValueError, match="Negative values in data X, column 2:"):
        model.fit(one, y)
    for all_columns in (-positive, positive - 0.01, -1.0 - positive):
        with pytest.raises(ValueError, match="Negative values in data X, columns 0, 1, "):
            model.fit(all_columns, y)


@each_model
def test_signed_columns_are_moved(cells, model):
    """Columns with many values on both sides of zero; the others are left as they are."""
    X, y = cells
    mixed = np.hstack([X[:, :15], X[:, 15:] - X[:, 15:].min(axis=0)])
    least = np.concatenate([X[:, :15].min(axis=0), np.zeros(15)])
    expected = clone(model).fit(mixed - least, y)
    with pytest.warns(UserWarning, match=r"X: columns 0, 1, .* have negative values; "):
        model.fit(mixed, y)
    assert_array_equal(model.origin_, least)
    moved = expected.decision_function(mixed - least)
    assert_allclose(model.decision_function(mixed), moved, atol=1e-12)
    mixed[::3, 20] = -9.0  # Now one column has a marker.
    with pytest.raises(ValueError, match="Negative values in data X, column 20: "):
        model.fit(mixed, y)


def test_a_longitude_among_other_units_is_moved():
    """In a table of different units, a column of many negative values needs no positive ones."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(300) - 124.0, 1e5 * rng.random(300), rng.random((300, 3))])
    y = X[:, 0] > -123.5
    with pytest.warns(UserWarning, match="column 0 has negative values"):
        model = AdditiveSVC().fit(X, y)
    assert model.score(X, y) > 0.95
    with pytest.raises(ValueError, match=r'columns 0, 1: .*scaling="range"'):
        AdditiveSVC().fit(X[:, [0, 2, 3]] - np.array([0.0, 1.0, 0.0]), y)


def test_missing_values_do_not_make_negative_ones_rare():
    rng = np.random.default_rng(0)
    X = rng.random((1000, 3))
    X[:, 0] = np.where(np.arange(1000) < 30, rng.normal(size=1000) + 0.2, np.nan)
    with pytest.warns(UserWarning, match="column 0 has negative values"):
        AdditiveSVC(missing="code").fit(X, X[:, 1] > 0.5)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_negative_values_may_be_asked_for(cells, kernel, recwarn):
    X, y = cells
    odd = -np.round(X - X.min(axis=0))
    model = AdditiveSVC(kernel=kernel, scaling="range").fit(odd, y)
    assert_array_equal(model.origin_, odd.min(axis=0))
    expected = AdditiveSVC(kernel=kernel, scaling="range").fit(odd - odd.min(axis=0), y)
    assert_array_equal(
        model.decision_function(odd), expected.decision_function(odd - odd.min(axis=0))
    )
    assert not recwarn
    with pytest.raises(ValueError, match="Negative values in data X, columns 0, 1, "):
        model.fit(sparse.csr_matrix(odd), y)


@pytest.mark.parametrize(("marker", "share"), [(-999.0, 0.02), (-999.0, 0.1), (-1.0, 0.2)])
def test_markers_of_missing_values_are_refused(marker, share):
    rng = np.random.default_rng(0)
    X = rng.random((1000, 8))
    y = X[:, 0] > 0.5
    X[rng.random(X.shape) < share] = marker
    with pytest.raises(ValueError, match="Negative values in data X"):
        AdditiveSVC().fit(X, y)


def test_columns_of_zeros_do_not_matter(digits):
    X, y = digits
    X = StandardScaler().fit_transform(X)
    assert (X == 0).all(axis=0).any()
    assert fit(AdditiveSVC(C=0.1), X, y).score(X, y) > 0.9


def test_weights_equal_repeated_rows(cells):
    X, y = cells
    weights = np.random.default_rng(0).integers(1, 4, len(y))
    middle = np.average(X, axis=0, weights=weights)
    weighted, repeated = AdditiveSVC(), AdditiveSVC()
    with pytest.warns(UserWarning, match="the data are centred"):
        weighted.fit(X - middle, y, weights)
    fit(repeated, np.repeat(X - middle, weights, axis=0), np.repeat(y, weights))
    assert_array_equal(weighted.origin_, repeated.origin_)


@each_model
def test_sparse_data_are_refused_and_sparse_queries_taken(cells, model):
    X, y = cells
    with pytest.raises(ValueError, match="Negative values in data X, columns 0, 1, "):
        model.fit(sparse.csr_matrix(X), y)
    fit(model, X, y)
    assert_array_equal(model.predict(sparse.csr_matrix(X)), model.predict(X))


def test_a_kernel_without_that_need_gets_them_as_they_are(cells, recwarn):
    X, y = cells
    model = AdditiveSVC(kernel=lambda a, b: np.exp(-((a - b) ** 2)), random_state=0).fit(X, y)
    assert not model.origin_.any()
    assert not [w for w in recwarn if "centred" in str(w.message)]


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2]], ids=str, indirect=True)
def test_pieces_keep_the_origin_of_the_first(cells, model):
    X, y = cells
    with pytest.warns(UserWarning, match="the data are centred"):
        model.partial_fit(X[:300], y[:300], classes=[0, 1])
    origin = model.origin_.copy()
    model.partial_fit(X[300:], y[300:])
    assert_array_equal(model.origin_, origin)
    assert_array_equal(origin, X[:300].min(axis=0))


@pytest.mark.parametrize("model", MODELS[:4], ids=str, indirect=True)
def test_a_saved_model_remembers_its_origin(cells, model, tmp_path):
    X, y = cells
    fit(model, X, y)
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert_array_equal(loaded.origin_, model.origin_)
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_a_fit_on_other_data_forgets_it(cells):
    X, y = cells
    model = AdditiveSVC(random_state=0)
    fit(model, X, y)
    model.fit(X - X.min(axis=0), y)
    assert not model.origin_.any()
    with pytest.raises(ValueError, match="Negative values in data X"):
        model.predict(X)
