"""`AdditiveSVC(categorical_features=...)`: categories with heights of their own."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import widemargin
from tests.reference import kernels as formulas
from widemargin import AdditiveSVC
from widemargin.bands import curve_bands
from widemargin.category_codes import MAX_CATEGORIES
from widemargin.distributed import DaskAdditiveSVC
from widemargin.export import to_c
from widemargin.files.container import ModelFileError
from widemargin.plotting import plot_shapes, show_model

ONE = {"n_jobs": 1, "random_state": 0}


def people(n=200, seed=0):
    """A count, two columns of categories, and a class that depends on all of them."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 9, n).astype(np.float64)
    town = rng.choice(["Oslo", "Bergen", "Rome", "<Bern>"], n)
    size = rng.choice([36, 40, 44], n)
    good = np.isin(town, ["Oslo", "Rome"])
    y = np.where(age + 6 * good + (size == 40) * 3 + 2 * rng.standard_normal(n) > 8, "yes", "no")
    return pd.DataFrame({"age": age, "town": town, "size": size}), y


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
@pytest.mark.parametrize("missing", ["error", "code"])
def test_equals_the_exact_svm_with_a_delta_kernel(kernel, missing):
    X, y = people()
    delta = sum(np.equal.outer(X[c].to_numpy(), X[c].to_numpy()) for c in ("town", "size"))
    if missing == "code":
        X["town"] = X["town"].where(np.arange(200) % 9 > 0)
        gaps = X["town"].isna().to_numpy()
        delta = np.equal.outer(X["size"].to_numpy(), X["size"].to_numpy()).astype(float)
        delta += np.equal.outer(X["town"].to_numpy(), X["town"].to_numpy()) & ~gaps[:, None]
        delta += 0.05 * np.outer(gaps, gaps)
    model = AdditiveSVC(
        kernel=kernel, C=0.2, loss="hinge", tol=1e-5, max_iter=100_000, rank=64, scaling=None,
        n_bins=1000, categorical_features=["town", "size"], missing=missing, **ONE,
    ).fit(X, y)  # fmt: skip
    K = getattr(formulas, kernel)(X[["age"]].to_numpy()) + delta
    theirs = SVC(kernel="precomputed", C=0.2, tol=1e-8).fit(K, y)
    assert_allclose(model.decision_function(X), theirs.decision_function(K), atol=5e-3)


def test_names_numbers_masks_and_types_mean_the_same():
    X, y = people()
    model = AdditiveSVC(categorical_features=["size", "town"], **ONE).fit(X, y)
    expected = model.decision_function(X)
    assert list(model.feature_names_in_) == ["age", "town", "size"]
    for given in ([1, 2], [False, True, True], np.array([2, 1])):
        other = AdditiveSVC(categorical_features=given, **ONE).fit(X, y)
        assert_array_equal(other.decision_function(X), expected)
    typed = X.astype({"town": "category", "size": "category"})
    other = AdditiveSVC(categorical_features="from_dtype", **ONE).fit(typed, y)
    assert_array_equal(other.decision_function(typed), expected)
    array = X.to_numpy(dtype=object)
    other = AdditiveSVC(categorical_features=[1, 2], **ONE).fit(array, y)
    assert_array_equal(other.decision_function(array), expected)
    numbers = X.assign(town=X["town"].map({"Oslo": 7, "Bergen": -3, "Rome": 0, "<Bern>": 5}))
    other = AdditiveSVC(categorical_features=[1, 2], **ONE).fit(numbers.to_numpy(), y)
    assert_allclose(other.decision_function(numbers.to_numpy()), expected, atol=0.1)


def test_without_categories_nothing_changes():
    X, y = people()
    numbers = X[["age", "size"]]
    plain = AdditiveSVC(**ONE).fit(numbers, y)
    for given in ("from_dtype", [], [False, False]):
        other = AdditiveSVC(categorical_features=given, **ONE).fit(numbers, y)
        assert_array_equal(other.decision_function(numbers), plain.decision_function(numbers))
        assert other.categories_ == [None, None]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_curves_shares_and_unseen_categories(n_classes):
    X, y = people()
    y = np.where((X["size"] == 36) & (n_classes == 3), "other", y)
    model = AdditiveSVC(categorical_features=["town"], **ONE).fit(X, y)
    assert_array_equal(model.categories_[1], ["<Bern>", "Bergen", "Oslo", "Rome"])
    names, heights = model.shape_functions(features=["town"])[0]
    heights = np.atleast_2d(heights)
    assert_array_equal(names, model.categories_[1])
    shares = model.explain(X).reshape(200, -1, 3)
    for k, name in enumerate(names):
        found = shares[(X["town"] == name).to_numpy()][:, :, 1]
        assert_allclose(found, np.tile(heights[:, k], (len(found), 1)))
    if n_classes == 2:
        assert heights[0, 2:].min() > heights[0, :2].max()
    total = shares.sum(axis=2) + model.intercept_
    assert_allclose(total, model.decision_function(X).reshape(200, -1), atol=1e-10)
    strange = X[:5].assign(town=["Paris", "Oslo", "oslo", "", "Rome"])
    assert_array_equal(model.explain(strange).reshape(5, -1, 3)[[0, 2, 3], :, 1], 0.0)


def test_missing_categories_need_leave():
    X, y = people()
    X["town"] = X["town"].where(X["town"] != "Rome", None)
    with pytest.raises(ValueError, match="contains NaN"):
        AdditiveSVC(categorical_features=["town"]).fit(X, y)
    model = AdditiveSVC(categorical_features=["town"], missing="code", **ONE).fit(X, y)
    assert len(model.categories_[1]) == 3
    gaps = X["town"].isna().to_numpy()
    assert_allclose(model.explain(X)[gaps, 1], model.missing_heights_[1])
    empty = X.assign(town=None)
    with pytest.raises(ValueError, match=r"all values are missing in column 1 \('town'\)"):
        AdditiveSVC(categorical_features=["town"], missing="code").fit(empty, y)
    array = X.to_numpy(dtype=object)
    other = AdditiveSVC(categorical_features=[1], missing="code", **ONE).fit(array, y)
    assert_array_equal(other.decision_function(array), model.decision_function(X))


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_files_keep_categories_and_exports_refuse_them(kernel, tmp_path):
    X, y = people()
    model = AdditiveSVC(
        kernel=kernel, categorical_features=["town", "size"], monotonic_cst={"age": 1}, **ONE
    ).fit(X, y)
    widemargin.save(model, tmp_path / "model.wm")
    back = widemargin.load(tmp_path / "model.wm")
    assert back.get_params() == model.get_params()
    assert_array_equal(back.decision_function(X), model.decision_function(X))
    assert_array_equal(back.categories_[2], [36, 40, 44])
    assert (np.diff(back.shape_functions()[0][1]) >= 0).all()
    with pytest.raises(ValueError, match="missing values and categories cannot be exported"):
        to_c(model, tmp_path / "model.c")
    mask = clone(model).set_params(categorical_features=[False, True, True]).fit(X, y)
    widemargin.save(mask, tmp_path / "mask.wm")
    assert widemargin.load(tmp_path / "mask.wm").categorical_features == [False, True, True]
    mask._coder.categories[0][:] = "Oslo"
    widemargin.save(mask, tmp_path / "mask.wm")
    with pytest.raises(ModelFileError, match="array 'categories_1' is missing or wrong"):
        widemargin.load(tmp_path / "mask.wm")


def test_pictures_pages_and_bands_name_categories(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    X, y = people()
    X.loc[0, "town"] = "once"
    model = AdditiveSVC(categorical_features=["town"], **ONE).fit(X, y)
    bands = curve_bands(model, X, y, n_boot=5)
    k = list(model.categories_[1]).index("Oslo")
    height = model.shape_functions(features=[1])[0][1][k] - bands.centres[0, 1]
    lower, upper = bands.at(1, [k])
    assert lower[0, 0] - 0.3 < height < upper[0, 0] + 0.3
    figure = plot_shapes(model, X, features=["town", "age"], bands=bands)
    labels = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert labels == list(model.categories_[1])
    assert_allclose(figure.axes[0].lines[0].get_ydata()[k], height, atol=1e-9)
    text = show_model(model, X, y, tmp_path / "page.html", bands=bands).read_text("utf-8")
    assert "Oslo" in text
    assert "&lt;Bern&gt;" in text
    assert "<Bern>" not in text


def test_folds_may_lack_a_category():
    X, y = people()
    X.loc[0, "town"] = "once"
    model = AdditiveSVC(categorical_features=["town"], **ONE)
    assert cross_val_score(model, X, y, error_score="raise").mean() > 0.7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("town", 'categorical_features: give "from_dtype"'),
        (["city"], "categorical_features: the training data had no columns"),
        ([3], "categorical_features: columns are numbered 0 to 2"),
        ([True], "categorical_features: the mask has shape"),
        ([1, 1], "categorical_features: .* names a column twice"),
        ([1.5], "categorical_features: give a list"),
    ],
)
def test_wrong_columns_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        AdditiveSVC(categorical_features=given).fit(*people())


def test_wrong_categories_are_refused():
    X, y = people(2 * MAX_CATEGORIES)
    many = X.assign(town=[str(i) for i in range(len(X))])
    with pytest.raises(ValueError, match=r"column 1 \('town'\) has 512 categories"):
        AdditiveSVC(categorical_features=["town"]).fit(many, y)
    mixed = X.assign(town=np.where(X["town"] == "Rome", 1, X["town"].astype(object)))
    with pytest.raises(ValueError, match=r"column 1 \('town'\) holds texts and numbers"):
        AdditiveSVC(categorical_features=["town"]).fit(mixed, y)
    with pytest.raises(ValueError, match="categorical_features: sparse data"):
        AdditiveSVC(categorical_features=[0]).fit(sparse.eye(len(y), format="csr"), y)
    with pytest.raises(ValueError, match="monotonic_cst: categories have no order, but column 1"):
        AdditiveSVC(categorical_features=["town"], monotonic_cst=[0, 1, 0]).fit(X, y)


def test_callable_kernels_take_no_categories():
    with pytest.raises(ValueError, match=r"categorical_features"):
        AdditiveSVC(categorical_features=["town"], kernel=np.minimum).fit(*people())


def test_pieces_and_clusters_are_refused():
    X, y = people()
    model = AdditiveSVC(categorical_features=["size"])
    with pytest.raises(AttributeError) as found:
        model.partial_fit(X[["age", "size"]], y, classes=["no", "yes"])
    assert "categorical_features: partial_fit" in str(found.value.__cause__)
    with pytest.raises(ValueError, match="categorical_features: fit_chunks"):
        model.fit_chunks([(X[["age", "size"]], y)])
    with pytest.raises(ValueError, match="categorical_features: not available on a cluster"):
        DaskAdditiveSVC(categorical_features=["size"]).fit(X, y)


def test_data_of_another_width_are_refused():
    X, y = people()
    model = AdditiveSVC(categorical_features=[1, 2], **ONE).fit(X.to_numpy(dtype=object), y)
    with pytest.raises(ValueError, match="X has 1 features"):
        model.predict([[1.0]])
    with pytest.raises(ValueError, match="feature names"):
        AdditiveSVC(categorical_features=["town"]).fit(X, y).predict(X[["age", "town"]])
