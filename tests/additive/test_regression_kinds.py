"""`AdditiveSVR` with missing values and with categories."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVR

import widemargin
from widemargin import AdditiveSVR, plotting
from widemargin.additive.indicator_columns import MISSING_WEIGHT
from widemargin.bands import curve_bands
from widemargin.export import to_c

KINDS = {"missing": "code", "categorical_features": "from_dtype", "n_jobs": 1}


def houses(n=300, seed=0):
    """Prices that depend on an area with gaps, on a place, and on noise."""
    rng = np.random.default_rng(seed)
    area, place = rng.integers(0, 12, n).astype(float), rng.integers(0, 4, n)
    price = 3.0 * np.sqrt(area) + np.array([0.0, 5.0, -2.0, 1.0])[place] + rng.normal(size=n)
    no_area, no_place = rng.random(n) < 0.2, rng.random(n) < 0.1
    price[no_area] += 4.0
    places = np.array(["hill", "sea", "town", "wood"], object)[place]
    frame = pd.DataFrame({
        "area": np.where(no_area, np.nan, area),
        "place": pd.Categorical(np.where(no_place, None, places)),
        "age": rng.integers(0, 50, n),
    })  # fmt: skip
    return frame, price


@pytest.fixture(scope="module")
def fitted():
    frame, price = houses()
    return AdditiveSVR(**KINDS).fit(frame, price), frame, price


def test_gaps_and_categories_help(fitted):
    model, _, _ = fitted
    new, price = houses(1000, seed=1)
    as_numbers = new.assign(place=new["place"].cat.codes + 1.0, area=new["area"].fillna(6.0))
    frame, known = houses()
    plain = frame.assign(place=frame["place"].cat.codes + 1.0, area=frame["area"].fillna(6.0))
    before = AdditiveSVR(n_jobs=1).fit(plain, known).score(as_numbers, price)
    assert model.score(new, price) > before + 0.05
    assert model.missing_heights_.shape == (3,)
    assert list(model.categories_[1]) == ["hill", "sea", "town", "wood"]


def test_equals_the_svr_with_the_kernel():
    frame, price = houses(121)
    options = {"C": 2.0, "epsilon": 0.3, "loss": "epsilon_insensitive"}
    model = AdditiveSVR(
        kernel="intersection", rank=64, scaling="max", tol=1e-6, max_iter=100_000, n_bins=1000,
        **options, **KINDS,
    ).fit(frame, price)  # fmt: skip
    area, place = frame["area"], frame["place"].to_numpy()
    filled = area.fillna(area.quantile(interpolation="lower")).to_numpy() / area.max()
    age = frame["age"].to_numpy() / frame["age"].max()
    no_place = frame["place"].isna().to_numpy()
    gaps = np.outer(area.isna(), area.isna()) + np.outer(no_place, no_place)
    K = np.minimum.outer(filled, filled) + np.minimum.outer(age, age) + MISSING_WEIGHT * gaps
    K += (place[:, None] == place) & ~no_place[:, None]
    theirs = SVR(kernel="precomputed", C=2.0, epsilon=0.3, tol=1e-8).fit(K, price)
    assert_allclose(model.predict(frame), theirs.predict(K), atol=5e-3 * np.ptp(price))


def test_shares_add_up_and_unknown_categories_add_nothing(fitted):
    model, frame, _ = fitted
    new = frame.head(20).copy()
    new["place"] = new["place"].cat.add_categories("moon").where(np.arange(20) % 4 > 0, "moon")
    shares = model.explain(new)
    assert_allclose(shares.sum(axis=1) + model.intercept_[0], model.predict(new), atol=1e-9)
    assert_array_equal(shares[::4, 1], 0.0)


def test_files_bands_pages_and_exports(fitted, tmp_path):
    model, frame, price = fitted
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    assert [list(map(str, known)) for known in loaded.categories_[1:2]] == [
        ["hill", "sea", "town", "wood"]
    ]
    bands = curve_bands(model, frame, price, n_boot=3)
    plotting.show_model(model, X=frame, y=price, bands=bands, path=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "wood" in page
    assert "missing" in page
    with pytest.raises(ValueError, match="missing values and categories cannot be exported"):
        to_c(model, tmp_path / "model.c")


def test_a_stopped_fit_is_judged_on_the_features():
    frame, price = houses()
    with pytest.warns(UserWarning, match="max_iter=1"):
        model = AdditiveSVR(max_iter=1, **KINDS).fit(frame, price)
    assert model.score(frame, price) >= 0.0


def test_what_is_refused():
    frame, price = houses(50)
    with pytest.raises(ValueError, match="contains NaN"):
        AdditiveSVR().fit(frame[["area"]], price)
    with pytest.raises(ValueError, match="missing: must be one of"):
        AdditiveSVR(missing="ignore").fit(frame[["area"]], price)
    with pytest.raises(ValueError, match="missing: not available with a callable kernel"):
        AdditiveSVR(missing="code", kernel=np.minimum).fit(frame[["area"]], price)
    with pytest.raises(ValueError, match="all values are missing in column 0"):
        AdditiveSVR(missing="code").fit(frame[["area"]] * np.nan, price)
    with pytest.raises(ValueError, match="categorical_features: sparse data"):
        AdditiveSVR(categorical_features=[0]).fit(sparse.eye(50, format="csr"), price)


def test_folds_differ_in_what_is_missing():
    frame, price = houses(200)
    scores = cross_val_score(AdditiveSVR(**KINDS), frame, price, error_score="raise")
    assert scores.mean() > 0.5
