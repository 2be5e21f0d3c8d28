"""scaling="auto": features in different units, and in one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split

import widemargin
from widemargin import AdditiveSVC, IntersectionSVC
from widemargin.files.container import ModelFileError, read_model_file, write_model_file

ESTIMATORS = (AdditiveSVC, IntersectionSVC)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, y, random_state=0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_units_do_not_matter(wine, estimator):
    X, Z, y, yz = wine
    assert X.max() > 100 * np.median(X)
    model = estimator().fit(X, y)
    assert model.scaling_ == "max"
    assert model.score(Z, yz) > 0.95
    units = 2.0 ** np.arange(X.shape[1])
    other = estimator(scaling="max").fit(X * units, y)
    assert_allclose(other.decision_function(Z * units), model.decision_function(Z), atol=1e-6)
    assert_array_equal(
        estimator(scaling="max").fit(X, y).decision_function(Z), model.decision_function(Z)
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_unit_is_left_as_it_is(wine, estimator):
    pixels, labels = load_digits(n_class=3, return_X_y=True)
    model = estimator().fit(pixels, labels)
    assert model.scaling_ is None
    same = estimator(scaling=None).fit(pixels, labels)
    assert_array_equal(model.decision_function(pixels), same.decision_function(pixels))
    # Sparse data are counts in one unit.
    X, _, y, _ = wine
    assert estimator().fit(sparse.csr_matrix(X), y).scaling_ is None
    assert estimator().fit(np.ones((4, 2)) * np.arange(4)[:, None], [0, 0, 1, 1]).scaling_ is None


def test_bins_of_a_feature_end_at_its_own_quantile():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(400) - 5.0, 1e4 * rng.random(400), rng.random(400) < 0.01])
    X[:3, 2] = 1.0
    y = X[:, 0] > -4.5
    model = IntersectionSVC(n_bins=10).fit(X, y)
    assert_allclose(model.quantiser_.low, X.min(axis=0))
    tops = np.quantile(X, 0.975, axis=0, method="inverted_cdf")
    tops[2] = 1.0  # Most values are the smallest.
    assert_allclose(model.quantiser_.low + model.quantiser_.span, tops)
    assert model.score(X, y) > 0.9


def test_callable_kernels_are_not_scaled(wine):
    X, _, y, _ = wine
    model = AdditiveSVC(kernel=lambda a, b: np.minimum(a, b), n_bins=50).fit(X, y)
    assert model.scaling_ is None


def test_pieces_keep_the_scaling_of_the_first(wine, tmp_path):
    X, Z, y, _ = wine
    model = AdditiveSVC().partial_fit(X[:60], y[:60], classes=[0, 1, 2])
    assert model.scaling_ == "max"
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert loaded.scaling_ == "max"
    # Later pieces of one unit change nothing of it.
    piece = np.tile(X[60:, :1], (1, X.shape[1]))
    model.partial_fit(piece, y[60:])
    loaded.partial_fit(piece, y[60:])
    assert model.scaling_ == "max"
    assert_array_equal(loaded.decision_function(Z), model.decision_function(Z))


def test_chunks_are_scaled_like_all_rows(wine):
    X, Z, y, _ = wine
    model = AdditiveSVC().fit_chunks([(X[:70], y[:70]), (X[70:], y[70:])])
    assert model.scaling_ == "max"
    whole = AdditiveSVC().fit(X, y)
    assert_allclose(model.decision_function(Z), whole.decision_function(Z))


def test_damaged_scaling_is_refused(wine, tmp_path):
    X, _, y, _ = wine
    path = tmp_path / "model.wm"
    widemargin.save(IntersectionSVC().fit(X, y), path)
    file = read_model_file(path)
    write_model_file(path, file.kind, file.meta | {"scaling": "std"}, file.arrays)
    with pytest.raises(ModelFileError, match="scaling: must be 'max' or None"):
        widemargin.load(path)


@pytest.mark.parametrize("model", [AdditiveSVC(), IntersectionSVC()])
@pytest.mark.parametrize("unit", [1e-7, 1e-20, 1e-200])
def test_tiny_features_are_scaled(model, unit):
    """Beside the constant of the intercept, kernel values of 1e-16 and less would be lost."""
    rng = np.random.default_rng(0)
    X = rng.random((200, 3))
    y = X[:, 0] + X[:, 1] > 1.0
    assert model.fit(unit * X, y).score(unit * X, y) > 0.95
