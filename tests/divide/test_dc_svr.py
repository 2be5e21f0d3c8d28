"""`DCSVR`: the optimum of `KernelSVR`, early prediction, files."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score

from tests.reference import kernels as formulas
from widemargin import DCSVR, KernelSVR, load, save

EARLY = {"C": 5.0, "gamma": 0.5, "n_levels": 1, "n_clusters": 4, "stop_level": 1}


def draw(n=800, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def data():
    return draw()


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_last_level_is_the_optimum_of_the_whole_problem(data, fit_intercept):
    params = {"C": 5.0, "gamma": 0.5, "tol": 1e-5, "fit_intercept": fit_intercept}
    divided = DCSVR(**params, n_levels=2).fit(*data)
    whole = KernelSVR(**params).fit(*data)
    assert divided.stop_reason_ == "converged"
    assert [record.level for record in divided.levels_] == [2, 1, 0]
    assert_allclose(divided.objective_, whole.objective_, rtol=1e-6)
    assert_allclose(divided.predict(data[0]), whole.predict(data[0]), atol=1e-3)


def test_early_prediction_is_that_of_the_cluster(data):
    """Paper's version, Eq. 11: the expansion and the intercept of the query's own cluster."""
    X, y = data
    model = DCSVR(**EARLY, overlap=0.0, n_nearest=1, tol=1e-5).fit(X, y)
    assert model.level_ == 1
    K = formulas.rbf(X, X[model.support_], gamma=0.5)
    by_cluster = np.array(
        [
            K[:, model.support_clusters_ == c] @ model.dual_coef_[0, model.support_clusters_ == c]
            + model.cluster_intercepts_[c, 0]
            for c in range(len(model.cluster_intercepts_))
        ]
    )
    found = model.predict(X)
    assert (np.abs(by_cluster - found).min(axis=0) < 1e-4).all()
    # Each cluster is the optimum of its own points.
    for c in range(len(by_cluster)):
        assert abs(model.dual_coef_[0, model.support_clusters_ == c].sum()) < 1e-8


def test_early_prediction_is_nearly_as_good(data):
    X, y = draw(800, seed=1)
    early, exact = DCSVR(**EARLY).fit(*data), KernelSVR(C=5.0, gamma=0.5).fit(*data)
    assert r2_score(y, early.predict(X)) > r2_score(y, exact.predict(X)) - 0.03


def test_several_targets_and_sparse_rows(data):
    X, y = data
    Y = np.column_stack([y, -2.0 * y, X[:, 0]])
    model = DCSVR(**EARLY).fit(sparse.csr_matrix(X), Y)
    assert model.predict(X).shape == (800, 3)
    assert_allclose(model.predict(X), DCSVR(**EARLY).fit(X, Y).predict(X), atol=0.05)


def test_staged_predictions_end_with_the_model(data):
    X, y = data
    model = DCSVR(C=5.0, gamma=0.5, n_levels=2, keep_levels=True).fit(X, y)
    staged = list(model.staged_predict(X))
    assert len(staged) == 3
    assert_array_equal(staged[-1], model.predict(X))


@pytest.mark.parametrize("stop_level", [0, 1])
def test_files_keep_predictions(data, stop_level, tmp_path):
    X, y = data
    model = DCSVR(**{**EARLY, "stop_level": stop_level}).fit(X, y)
    save(model, tmp_path / "model.wm")
    again = load(tmp_path / "model.wm")
    assert type(again) is DCSVR
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.n_iter_ == model.n_iter_


def test_answers_do_not_depend_on_the_number_of_jobs(data):
    one, two = (DCSVR(**EARLY, n_jobs=n).fit(*data) for n in (1, 2))
    assert_array_equal(one.dual_coef_, two.dual_coef_)


def test_what_needs_a_single_expansion_is_refused_above_level_0(data, tmp_path):
    model = DCSVR(**{**EARLY, "gamma": "scale"}, kernel="linear").fit(*data)
    with pytest.raises(ValueError, match="hold no clusters; fit with stop_level=0"):
        model.to_libsvm(tmp_path / "model")
    with pytest.raises(AttributeError, match="weights for each cluster"):
        _ = model.coef_
    with pytest.raises(TypeError, match="use KernelSVR"):
        DCSVR.from_libsvm(tmp_path / "model")


@pytest.mark.parametrize(
    ("params", "message"),
    [({"combine": "bcm"}, "combine"), ({"overlap": -1.0}, "overlap"), ({"stop_level": 9}, "stop")],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        DCSVR(**params).fit(*draw(30))


def test_clones_have_all_parameters():
    model = DCSVR(**EARLY, overlap=0.5, epsilon=0.3, callback=None)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("combine", ["early", "naive"])
@pytest.mark.parametrize("overlap", [0.0, 0.2])
def test_a_late_fit_is_no_worse_than_the_mean(combine, overlap, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((3000, 5))
    y = (np.sin(6 * X[:, 0]) + rng.normal(size=3000) > 0.5).astype(float)
    Y = np.column_stack([y, 100.0 + 10.0 * X[:, 1]])
    model = DCSVR(C=1000.0, stop_level=2, max_time=1e-6, combine=combine, overlap=overlap)
    model.fit(X, Y)
    assert model.stop_reason_ == "max_time"
    assert r2_score(Y, model.predict(X), multioutput="raw_values").min() >= -1e-6
    save(model, tmp_path / "model.wm")
    assert_array_equal(load(tmp_path / "model.wm").predict(X), model.predict(X))


@pytest.mark.parametrize("max_iter", [1, 10, 50, 100, 200, 300, 400, 500, 600])
def test_moves_in_float64_count_too(max_iter):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(93, 5))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=93)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DCSVR(C=4.5, max_iter=max_iter).fit(X, y)
    assert model.n_iter_ <= max_iter
