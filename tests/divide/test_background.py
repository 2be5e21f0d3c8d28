"""A background under the clusters: against its quadratic program, its limits, and by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_blobs, make_moons

import widemargin
from tests.reference import kernels as formulas
from widemargin import DCSVC, KernelSVC
from widemargin.divide.background import AUTO_ROWS, count_rows
from widemargin.parallel import Workers

ALONE = Workers(1, None)
PARAMS = {"C": 5.0, "gamma": 1.0, "n_clusters": 4, "n_levels": 1, "stop_level": 1, "tol": 1e-5}


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.25, random_state=0)


def background_coef(model, n):
    background = model._parts.background
    coef = np.zeros(n)
    coef[background.columns] = background.coef[0]
    return coef


@pytest.mark.parametrize("intercept", [False, True])
def test_every_cluster_is_at_the_optimum_of_its_changes(moons, intercept):
    """Minimise 0.5 d'Kd + (f0 - y)'d over lower - b0 <= d <= upper - b0, and sum(d) = 0."""
    X, labels = moons
    y = np.where(labels == 1, 1.0, -1.0)
    model = DCSVC(**PARAMS, background=150, overlap=0.0, n_nearest=1, fit_intercept=intercept).fit(
        X, labels
    )
    K = formulas.rbf(X, gamma=1.0)
    b0, change = background_coef(model, len(y)), np.zeros(len(y))
    change[model.support_] = model.dual_coef_[0]
    f0 = K @ b0 + model._parts.background.intercept[0]
    lower, upper = np.where(y > 0, 0.0, -5.0) - b0, np.where(y > 0, 5.0, 0.0) - b0
    assert np.count_nonzero(b0) < 150
    assert ((change >= lower - 1e-9) & (change <= upper + 1e-9)).all()
    clusters = model._model.find_clusters(model._model.prepare(X), ALONE)
    for c in range(model.levels_[-1].n_clusters):
        at = np.flatnonzero(clusters == c)
        gradient = K[np.ix_(at, at)] @ change[at] + f0[at] - y[at]
        rise = gradient[change[at] < upper[at] - 1e-9]
        fall = gradient[change[at] > lower[at] + 1e-9]
        if intercept:
            assert abs(change[at].sum()) < 1e-6
            assert fall.max() - rise.min() < 1e-3
        else:
            assert rise.min(initial=0.0) > -1e-3
            assert fall.max(initial=0.0) < 1e-3
        decisions = K[np.ix_(at, at)] @ change[at] + f0[at] + model.cluster_intercepts_[c, 0]
        assert_allclose(model.decision_function(X[at]), decisions, atol=1e-4)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_background_of_all_rows_is_the_optimum(moons, intercept):
    """No cluster can improve on it, so that nothing changes."""
    X, y = moons
    model = DCSVC(**PARAMS, background=10**6, fit_intercept=intercept).fit(X, y)
    exact = KernelSVC(C=5.0, gamma=1.0, tol=1e-5, fit_intercept=intercept).fit(X, y)
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=2e-3)
    assert np.abs(model.dual_coef_).sum() < 1e-2 * np.abs(exact.dual_coef_).sum()


def test_without_background_nothing_changes(moons):
    X, y = moons
    alone = {"overlap": 0.0, "n_nearest": 1}
    model = DCSVC(**PARAMS, **alone, background=0).fit(X, y)
    assert model._parts.background is None
    paper = DCSVC(**PARAMS, **alone, background=0, combine="naive").fit(X, y)
    assert_array_equal(model.dual_coef_, paper.dual_coef_)
    changed = DCSVC(**PARAMS, **alone, background=100).fit(X, y)
    assert_array_equal(changed._parts.partition.sample, model._parts.partition.sample)


def test_the_whole_problem_has_no_background(moons):
    model = DCSVC(**{**PARAMS, "stop_level": 0}, background=100, keep_levels=True).fit(*moons)
    assert [stage.parts.background for stage in model._stages[:-1]] == [None]


@pytest.mark.parametrize(
    ("background", "n", "expected"),
    [("auto", 400, 100), ("auto", 10**6, AUTO_ROWS), (300, 1000, 300), (300, 100, 100), (0, 10, 0)],
)
def test_number_of_rows(background, n, expected):
    assert count_rows(background, n) == expected


@pytest.mark.parametrize("form", ["dense", "csr", "precomputed"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes_and_files(form, multi_class, tmp_path):
    X, y = make_blobs(700, centers=6, cluster_std=1.5, random_state=3)
    params = {**PARAMS, "multi_class": multi_class, "fit_intercept": True}
    if form == "precomputed":
        X, params["kernel"] = formulas.rbf(X, gamma=1.0), "precomputed"
    elif form == "csr":
        X = sparse.csr_matrix(X)
    model = DCSVC(**params, background=200).fit(X, y % 3)
    assert model._parts.background.coef.shape[0] == 3
    assert len(model._parts.clusters) > len(model.support_)
    path = tmp_path / "model.wm"
    widemargin.save(model, path)
    loaded = widemargin.load(path)
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.get_params() == model.get_params()


def test_a_class_that_the_sample_misses():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.r_[np.zeros(197), np.ones(200), 2, 2, 2]
    X[y == 1] += 4.0
    X[y == 2] -= 9.0
    for intercept in (False, True):
        model = DCSVC(**PARAMS, background=20, fit_intercept=intercept).fit(X, y)
        assert (model.predict(X[y == 2]) == 2).all()


def test_the_number_of_jobs_does_not_matter(moons):
    one, two = (DCSVC(**PARAMS, background=150, n_jobs=n).fit(*moons) for n in (1, 2))
    assert_array_equal(one.decision_function(moons[0]), two.decision_function(moons[0]))
    assert_array_equal(one.dual_coef_, two.dual_coef_)
