"""scaling="auto": features in different units, and in one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.preprocessing import MinMaxScaler

import widemargin
from widemargin import AdditiveSVC, AdditiveSVR, IntersectionSVC
from widemargin.files.container import ModelFileError, read_model_file, write_model_file

ESTIMATORS = (AdditiveSVC, IntersectionSVC)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, y, random_state=0)


@pytest.mark.parametrize(
    ("estimator", "scaling"), [(AdditiveSVC, "range"), (IntersectionSVC, "max")]
)
def test_units_do_not_matter(wine, estimator, scaling):
    X, Z, y, yz = wine
    assert X.max() > 100 * np.median(X)
    model = estimator().fit(X, y)
    assert model.scaling_ == scaling
    assert model.score(Z, yz) > 0.95
    units = 2.0 ** np.arange(X.shape[1])
    other = estimator(scaling=scaling).fit(X * units, y)
    assert_allclose(other.decision_function(Z * units), model.decision_function(Z), atol=1e-6)
    assert_array_equal(
        estimator(scaling=scaling).fit(X, y).decision_function(Z), model.decision_function(Z)
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


def test_a_few_narrow_features_have_another_unit():
    """The widest range may be near the median range, but not near that of a third of the features."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 9)) * np.array([1.0, 1.0, 1.0, 300.0, 300.0, 200.0, 300.0, 400.0, 900.0])
    y = X[:, 0] + X[:, 1] > 1.0
    for estimator, scaling in ((AdditiveSVC, "range"), (IntersectionSVC, "max")):
        model = estimator().fit(X, y)
        assert model.scaling_ == scaling
        assert model.score(X, y) > 0.95


def test_many_features_in_one_unit_are_left_as_they_are():
    """Of many words a quarter is rare, which is no reason to count them more."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.geomspace(0.1, 40.0, 800), (100, 800)).astype(float)
    y = np.arange(100) % 2
    assert np.ptp(counts, axis=0).max() > 10 * np.quantile(np.ptp(counts, axis=0), 0.25)
    assert AdditiveSVC(max_iter=20).fit(counts, y).scaling_ is None
    assert IntersectionSVC(max_iter=20).fit(counts, y).scaling_ is None


def test_many_narrow_features_need_bins_of_their_own():
    """In one range for all of them, most of these features would have one bin."""
    rng = np.random.default_rng(0)
    widths = np.geomspace(1.0, 300.0, 400)
    X = rng.normal(size=(200, 400)) * widths
    y = (X / widths)[:, :100].sum(axis=1) > 0.0
    model = IntersectionSVC().fit(X, y)
    assert model.scaling_ == "max"
    assert (
        cross_val_score(model, X, y).mean()
        > cross_val_score(IntersectionSVC(scaling=None), X, y).mean()
    )


@pytest.mark.parametrize("binning", ["uniform", "sqrt", "quantile"])
@pytest.mark.parametrize("kernel", ["chi2", "intersection", "hellinger"])
def test_the_range_is_that_of_a_scaler(wine, kernel, binning):
    X, Z, y, _ = wine
    model = AdditiveSVC(kernel=kernel, binning=binning).fit(X, y)
    assert model.scaling_ == "range"
    assert_array_equal(model.origin_, 0.0)
    scaler = MinMaxScaler(clip=True).fit(X)
    other = AdditiveSVC(kernel=kernel, binning=binning, scaling=None).fit(scaler.transform(X), y)
    expected = other.decision_function(scaler.transform(Z))
    # A value at the border of two bins may get either.
    assert np.median(np.abs(model.decision_function(Z) - expected)) < 1e-2
    assert_array_equal(model.predict(Z), other.predict(scaler.transform(Z)))
    assert_allclose(model.explain(Z).sum(axis=2) + model.intercept_, model.decision_function(Z))
    values, _ = model.shape_functions()[0]
    assert_allclose(values[[0, -1]], [X[:, 0].min(), X[:, 0].max()])
    middle = np.median(Z)
    sparse_rows = sparse.csr_matrix(np.where(middle > Z, 0.0, Z))
    assert_allclose(
        model.decision_function(sparse_rows), model.decision_function(sparse_rows.toarray())
    )


def test_features_that_begin_far_from_zero_are_moved(wine):
    """Chi-square hardly tells values apart that differ by a small share."""
    rng = np.random.default_rng(0)
    X = 100.0 + rng.random((400, 4))
    y = X[:, 0] + X[:, 1] > 201.0
    model = AdditiveSVC().fit(X, y)
    assert model.scaling_ == "range"
    assert model.score(X, y) > 0.97 > AdditiveSVC(scaling=None).fit(X, y).score(X, y) + 0.02
    counts = 50 + rng.integers(0, 20, (400, 4))
    y = counts[:, 0] + counts[:, 1] > 119
    whole = AdditiveSVC().fit(counts, y)
    assert whole.quantiser_.n_bins == 20
    assert_array_equal(whole.quantiser_.low, 50)
    assert whole.score(counts, y) > 0.97
    pairs = AdditiveSVC(interactions=1).fit(counts, y)
    first, _, _ = pairs.interaction_functions()[0]
    assert (first[0], first[-1]) == (50.0, 69.0)


@pytest.mark.parametrize("scaling", ["range", "max", None])
@pytest.mark.parametrize(
    "params",
    [{}, {"kernel": "intersection"}, {"kernel": "jensen_shannon"}, {"interactions": 1}],
    ids=str,
)
def test_whole_numbers_beyond_those_of_training_count_as_the_largest(params, scaling, tmp_path):
    """Also where other columns have larger numbers, and in files and exports."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 10, 300), rng.integers(0, 2000, 300)]).astype(float)
    y = X[:, 0] + X[:, 1] / 200 + rng.normal(size=300) > 10
    model = AdditiveSVC(scaling=scaling, **params).fit(X, y)
    far = np.array([[9.0, 500.0], [15.0, 500.0], [1000.0, 500.0]])
    expected = np.full(3, model.decision_function(far[:1])[0])
    assert_allclose(model.decision_function(far), expected)
    assert_allclose(model.decision_function(sparse.csr_matrix(far)), expected)
    assert_allclose(model.explain(far).sum(axis=1) + model.intercept_[0], expected)
    widemargin.save(model, tmp_path / "model.wm")
    assert_allclose(widemargin.load(tmp_path / "model.wm").decision_function(far), expected)


@pytest.mark.parametrize("model", [AdditiveSVC(), AdditiveSVR(), AdditiveSVC(scaling="range")])
def test_values_below_those_of_training_count_as_the_smallest(wine, model):
    X, _, y, _ = wine
    decide = model.fit(X, y).predict if isinstance(model, AdditiveSVR) else model.fit(X, y).explain
    low = X[:3].copy()
    low[:, [0, 5]] = X[:, [0, 5]].min(axis=0)
    below = low.copy()
    below[:, 0], below[:, 5] = -1.0, 1e-3
    assert model.scaling_ == "range"
    assert_allclose(decide(below), decide(low), rtol=1e-12)
    assert_allclose(decide(sparse.csr_matrix(below)), decide(low), rtol=1e-12)


def test_a_fold_may_have_no_negative_value():
    rng = np.random.default_rng(0)
    X = rng.random((150, 3))
    y = X.sum(axis=1) > 1.5
    X[0, 0] = -0.5
    scores = cross_val_score(AdditiveSVC(scaling="range"), X, y, cv=3, error_score="raise")
    assert scores.min() > 0.85
    # A column that begins at zero is checked, whatever others do.
    X[:, 1] -= 0.5
    X[0, 0] = 0.0
    with pytest.warns(UserWarning, match="column 1 has negative values"):
        model = AdditiveSVC().fit(X, y)
    with pytest.raises(ValueError, match="Negative values in data X, column 0: "):
        model.predict([[-999.0, 0.1, 0.1]])


def test_categories_and_gaps_do_not_decide_where_numbers_begin():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((200, 8)) + 100.0, rng.integers(0, 30, 200)])
    y = X[:, 0] > 100.5
    model = AdditiveSVC(categorical_features=[8]).fit(X, y)
    assert model.scaling_ == "range"
    assert model.score(X, y) > 0.95
    X = rng.random((200, 5))
    X[:, 4] += 30.0
    gaps = X.copy()
    gaps[::7, 4] = np.nan
    assert AdditiveSVC().fit(X, y).scaling_ == AdditiveSVC(missing="code").fit(gaps, y).scaling_


def test_pairs_are_chosen_among_features_that_count_from_their_smallest_value():
    rng = np.random.default_rng(0)
    X = np.column_stack([1000.0 + rng.random((500, 2)), 50.0 + 10.0 * rng.random((500, 3))])
    y = (X[:, 0] > 1000.5) == (X[:, 1] > 1000.5)
    model = AdditiveSVC(interactions=1).fit(X, y)
    assert model.scaling_ == "range"
    assert_array_equal(model.interactions_, [[0, 1]])
    assert model.score(X, y) > 0.9


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
    assert model.scaling_ == "range"
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert loaded.scaling_ == "range"
    # Later pieces of one unit change nothing of it.
    piece = np.tile(X[60:, :1], (1, X.shape[1]))
    model.partial_fit(piece, y[60:])
    loaded.partial_fit(piece, y[60:])
    assert model.scaling_ == "range"
    assert_array_equal(loaded.decision_function(Z), model.decision_function(Z))


def test_chunks_are_scaled_like_all_rows(wine):
    X, Z, y, _ = wine
    model = AdditiveSVC().fit_chunks([(X[:70], y[:70]), (X[70:], y[70:])])
    assert model.scaling_ == "range"
    whole = AdditiveSVC().fit(X, y)
    assert_allclose(model.decision_function(Z), whole.decision_function(Z))


def test_damaged_scaling_is_refused(wine, tmp_path):
    X, _, y, _ = wine
    path = tmp_path / "model.wm"
    widemargin.save(IntersectionSVC().fit(X, y), path)
    file = read_model_file(path)
    write_model_file(path, file.kind, file.meta | {"scaling": "std"}, file.arrays)
    with pytest.raises(ModelFileError, match="scaling: must be 'range', 'max' or None"):
        widemargin.load(path)


@pytest.mark.parametrize("model", [AdditiveSVC(), IntersectionSVC()])
@pytest.mark.parametrize("unit", [1e-7, 1e-20, 1e-200])
def test_tiny_features_are_scaled(model, unit):
    """Beside the constant of the intercept, kernel values of 1e-16 and less would be lost."""
    rng = np.random.default_rng(0)
    X = rng.random((200, 3))
    y = X[:, 0] + X[:, 1] > 1.0
    assert model.fit(unit * X, y).score(unit * X, y) > 0.95
