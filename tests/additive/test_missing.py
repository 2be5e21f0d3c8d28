"""`AdditiveSVC(missing="code")`: missing values with heights of their own beside the curves."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

import widemargin
from tests.reference import kernels as formulas
from widemargin import AdditiveSVC
from widemargin.distributed import DaskAdditiveSVC
from widemargin.export import to_c, to_onnx
from widemargin.files.container import ModelFileError

ONE = {"n_jobs": 1, "random_state": 0, "missing": "code"}


def with_gaps(n=200, d=4, seed=0):
    """Counts whose first column is missing more often in the second class; the last has no gaps."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 10, (n, d)).astype(np.float64)
    y = (X[:, 1] + rng.integers(0, 6, n) > 7).astype(int)
    is_missing = rng.random((n, d)) < 0.1
    is_missing[:, 0] |= rng.random(n) < 0.6 * y
    is_missing[:, -1] = False
    return np.where(is_missing, np.nan, X), y


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
@pytest.mark.parametrize("scaling", [None, "max"])
def test_equals_the_exact_svm_with_a_delta_kernel_of_missing_values(kernel, scaling):
    X, y = with_gaps()
    X[:, 2] *= 1.0 if scaling is None else 100.0
    C = 0.05 if scaling is None else 0.5
    model = AdditiveSVC(
        kernel=kernel, C=C, loss="hinge", tol=1e-6, max_iter=100_000, rank=64, n_bins=1000,
        scaling=scaling, **ONE,
    ).fit(X, y)  # fmt: skip
    largest = np.nanmax(X, axis=0)
    unit = np.ones(4) if scaling is None else largest
    gaps = np.isnan(X)
    filled = np.where(gaps, np.nanquantile(X, 0.5, axis=0, method="inverted_cdf"), X) / unit
    both = sum(0.05 * largest[j] / unit[j] * np.outer(gaps[:, j], gaps[:, j]) for j in range(4))
    K = sum(getattr(formulas, kernel)(filled[:, [j]]) for j in range(4)) + both
    theirs = SVC(kernel="precomputed", C=C, tol=1e-8).fit(K, y)
    assert_allclose(model.decision_function(X), theirs.decision_function(K), atol=5e-3)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_shares_curves_and_heights_agree(kernel, n_classes):
    X, y = with_gaps(300)
    y = y + (X[:, 3] > 6) * (n_classes - 2)
    model = AdditiveSVC(kernel=kernel, **ONE).fit(X, y)
    shares = model.explain(X).reshape(len(X), -1, 4)
    total = shares.sum(axis=2) + model.intercept_
    assert_allclose(total, model.decision_function(X).reshape(len(X), -1), atol=1e-10)
    heights = np.atleast_2d(model.missing_heights_)
    for j in range(3):
        gaps = np.isnan(X[:, j])
        assert_allclose(shares[gaps][:, :, j], np.tile(heights[:, j], (gaps.sum(), 1)))
        assert_allclose(model._heights(j, np.array([np.nan]))[:, 0], heights[:, j])
    # What a median adds, if no value was missing in training.
    at = np.flatnonzero(X[:, 3] == np.quantile(X[:, 3], 0.5, method="inverted_cdf"))[0]
    assert_allclose(heights[:, 3], shares[at, :, 3])
    lows = [values[0] for values, _ in model.shape_functions()]
    assert_array_equal(lows, np.nanmin(X, axis=0))


def test_that_a_value_is_missing_can_tell_the_classes_apart():
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 2)), rng.integers(0, 2, 300)
    X[y == 1, 0] = np.nan
    model = AdditiveSVC(**ONE).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.missing_heights_[0] > np.nanmax(model.explain(X[y == 0])[:, 0])


def test_without_missing_values_the_model_is_the_same():
    X, y = with_gaps()
    X = np.nan_to_num(X)
    plain = AdditiveSVC(**ONE | {"missing": "error"}).fit(X, y)
    coded = AdditiveSVC(**ONE).fit(X, y)
    assert_array_equal(coded.decision_function(X), plain.decision_function(X))
    by_csr = AdditiveSVC(**ONE).fit(sparse.csr_matrix(X), y)
    assert_allclose(by_csr.decision_function(X), plain.decision_function(X), atol=0.05)
    assert_array_equal(coded.coef_, plain.coef_)


def test_values_missing_by_chance_count_as_medians():
    rng = np.random.default_rng(0)
    X = rng.random((2000, 2)) + 1.0
    y = (X[:, 0] + X[:, 1] > 3.0).astype(int)
    X[rng.random(2000) < 0.3, 0] = np.nan
    model = AdditiveSVC(**ONE).fit(X, y)
    median, low, high = model._heights(0, np.array([1.5, 1.0, 2.0]))[0]
    assert abs(model.missing_heights_[0] - median) < 0.1 * abs(high - low)


def test_centred_data_may_have_missing_values():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = (X[:, 0] > 0).astype(int)
    X -= X.mean(axis=0)
    X[rng.random(X.shape) < 0.1] = np.nan
    with pytest.warns(UserWarning, match="the data are centred") as found:
        model = AdditiveSVC(**ONE).fit(X, y)
    assert found[0].filename == __file__
    assert_allclose(model.origin_, np.nanmin(X, axis=0))
    assert model.score(X, y) > 0.9
    assert_allclose(
        model.explain(X).sum(axis=1) + model.intercept_, model.decision_function(X), atol=1e-10
    )


def test_all_missing_columns_are_refused_by_name():
    X, y = with_gaps(50)
    frame = pd.DataFrame(X, columns=["age", "height", "weight", "income"])
    frame["height"] = np.nan
    with pytest.raises(ValueError, match=r"all values are missing in column 1 \('height'\)"):
        AdditiveSVC(**ONE).fit(frame, y)
    weights = np.ones(50)
    weights[~np.isnan(X[:, 0])] = 0.0
    with pytest.raises(ValueError, match="all values are missing in column 0"):
        AdditiveSVC(**ONE).fit(X, y, sample_weight=weights)


def test_missing_values_are_errors_unless_asked_for():
    X, y = with_gaps(50)
    with pytest.raises(ValueError, match="contains NaN"):
        AdditiveSVC().fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        AdditiveSVC(**ONE).fit(np.where(np.isnan(X), np.inf, X), y)
    with pytest.raises(ValueError, match="contains NaN"):
        AdditiveSVC(**ONE).fit(sparse.csr_matrix(X), y)
    with pytest.raises(ValueError, match="missing: must be one of"):
        AdditiveSVC(missing="ignore").fit(X, y)
    plain = AdditiveSVC().fit(np.nan_to_num(X), y).set_params(missing="code")
    with pytest.raises(ValueError, match="contains NaN"):
        plain.predict(X)
    assert AdditiveSVC(**ONE).__sklearn_tags__().input_tags.allow_nan
    assert not AdditiveSVC().__sklearn_tags__().input_tags.allow_nan


def test_callable_kernels_take_no_missing_values():
    with pytest.raises(ValueError, match=r"missing: .* callable"):
        AdditiveSVC(**ONE, kernel=np.minimum).fit(*with_gaps(50))


def test_pieces_and_clusters_are_refused():
    X, y = with_gaps(50)
    with pytest.raises(AttributeError) as found:
        AdditiveSVC(**ONE).partial_fit(X, y, classes=[0, 1])
    assert "missing: partial_fit" in str(found.value.__cause__)
    with pytest.raises(ValueError, match="missing: fit_chunks"):
        AdditiveSVC(**ONE).fit_chunks([(np.nan_to_num(X), y)])
    with pytest.raises(ValueError, match="missing: not available on a cluster"):
        DaskAdditiveSVC(missing="code").fit(X, y)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_files_keep_them_and_exports_refuse_them(kernel, tmp_path):
    X, y = with_gaps()
    model = AdditiveSVC(kernel=kernel, **ONE).fit(X, y)
    widemargin.save(model, tmp_path / "model.wm")
    back = widemargin.load(tmp_path / "model.wm")
    assert_array_equal(back.decision_function(X), model.decision_function(X))
    assert_array_equal(back.missing_heights_, model.missing_heights_)
    for export in (lambda: to_c(model, tmp_path / "model.c"), lambda: to_onnx(model)):
        with pytest.raises(ValueError, match="missing values and categories cannot be exported"):
            export()
    assert_array_equal(clone(model).fit(X, y).decision_function(X), model.decision_function(X))


def test_a_file_of_another_kind_is_refused(tmp_path):
    X, y = with_gaps()
    model = AdditiveSVC(**ONE | {"missing": "error"}).fit(np.nan_to_num(X), y)
    model.missing = "code"
    widemargin.save(model, tmp_path / "model.wm")
    with pytest.raises(ModelFileError, match="no heights of missing values"):
        widemargin.load(tmp_path / "model.wm")


def test_rare_missing_values_do_not_stop_a_cross_validation():
    X, y = with_gaps(200)
    X[:, 1:] = np.nan_to_num(X[:, 1:])
    X[7, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cross_val_score(AdditiveSVC(**ONE), X, y, error_score="raise").mean() > 0.8


def test_weights_are_repetitions():
    check_sample_weight_equivalence_on_dense_data("AdditiveSVC", AdditiveSVC(**ONE, tol=1e-6))
    X, y = with_gaps(60)
    weights = np.arange(60) % 3
    model = AdditiveSVC(**ONE, tol=1e-8, max_iter=100_000).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=1e-5)
