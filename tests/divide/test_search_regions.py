"""Searches of large data on regions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.model_selection import StratifiedKFold

import widemargin
from widemargin import DCSVC, KernelSVC, KernelSVCCV
from widemargin.divide import kernel_svc_cv, search_regions
from widemargin.divide.search_regions import draw_regions, fit_region_rows
from widemargin.exact import search_base
from widemargin.kernels import RBF
from widemargin.validation import validate_problem


@pytest.fixture
def small_regions(monkeypatch):
    monkeypatch.setattr(search_regions, "REGION_ROWS", 250)
    monkeypatch.setattr(search_regions, "N_REGIONS", 3)


@pytest.fixture(scope="module")
def moons():
    return make_moons(1500, noise=0.25, random_state=0)


def make_problem(X, y):
    return validate_problem(KernelSVCCV(), X, y, None, None, precomputed=False)


def test_a_region_holds_the_nearest_rows_of_a_row(moons, small_regions):
    X, y = moons
    problem = make_problem(X, y)
    splits = list(StratifiedKFold(3).split(X, y))
    regions = draw_regions(RBF(0.1), problem, splits, 250, seed=0)
    assert len(regions.splits) == 9
    for number in range(3):
        own = regions.splits[3 * number : 3 * number + 3]
        held_out = np.concatenate([regions.problem.kept[test] for _, test in own])
        assert len(np.unique(held_out)) == len(held_out) == 250
        # All rows of a ball: no other row is nearer to its centre than the farthest of them.
        distances = np.square(X[held_out][:, None] - X).sum(axis=2)
        n_nearer = (distances < distances[:, held_out].max(axis=1)[:, None]).sum(axis=1)
        assert n_nearer.min() == 249
        for (train, test), (all_train, all_test) in zip(own, splits, strict=True):
            assert np.isin(regions.problem.kept[train], all_train).all()
            assert np.isin(regions.problem.kept[test], all_test).all()
    assert_array_equal(regions.problem.X, X[regions.problem.kept])


def test_classes_that_a_region_lacks_get_their_nearest_rows(small_regions):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(900, 2)), rng.normal(30.0, 1.0, size=(100, 2))])
    y = np.repeat(["near", "far"], [900, 100])
    problem = make_problem(X, y)
    regions = draw_regions(RBF(1e-3), problem, list(StratifiedKFold(2).split(X, y)), 80, seed=1)
    for train, _ in regions.splits:
        counts = np.bincount(regions.problem.labels[train], minlength=2)
        assert (counts >= 5).all()


def test_memory_bounds_the_regions():
    assert fit_region_rows(10**6, 10**10) == 2000
    assert fit_region_rows(300, 10**10) == 300
    assert fit_region_rows(10**6, 8 * (6 * 500) ** 2) == 500
    with pytest.raises(ValueError, match="memory: too small"):
        fit_region_rows(10**6, 10**6)


@pytest.mark.parametrize("final", [KernelSVC, DCSVC])
def test_a_search_on_regions(moons, small_regions, monkeypatch, tmp_path, final):
    X, y = moons
    if final is DCSVC:
        monkeypatch.setattr(kernel_svc_cv, "EXACT_ROWS", 1000)
        monkeypatch.setattr(kernel_svc_cv, "CLUSTER_ROWS", 400)
    grid = {"Cs": [1.0, 30.0], "gammas": [0.001, 1.0, 1000.0], "cv": 3}
    model = KernelSVCCV(**grid, search="regions", calibration="sigmoid", keep_decisions=True)
    model.fit(X, y)
    assert type(model.best_estimator_) is final
    assert model.search_ == "regions"
    assert model.scores_.shape == (3, 2, 9)
    full = KernelSVCCV(**grid, search="grid").fit(X, y)
    assert model.gamma_ == full.gamma_ == 1.0
    assert abs(model.score(X, y) - full.score(X, y)) < 0.02
    inside = ~np.isnan(model.decision_oof_[:, 0])
    assert 250 <= inside.sum() <= 750
    values = model.predict_proba(X)
    assert_allclose(values.sum(axis=1), 1.0)
    # Calibrated on regions, but for all rows.
    assert abs(values[:, 1].mean() - y.mean()) < 0.05
    widemargin.save(model, tmp_path / "m.wm")
    assert_array_equal(widemargin.load(tmp_path / "m.wm").predict_proba(X), values)


def test_auto_searches_regions_where_memory_is_short(moons, small_regions, monkeypatch):
    monkeypatch.setattr(search_base, "REGION_ROWS", 1000)
    X, y = moons
    model = KernelSVCCV(Cs=[1.0], gammas=[1.0], cv=3, memory="20 MB").fit(X, y)
    assert model.search_ == "regions"
    assert KernelSVCCV(Cs=[1.0], gammas=[1.0], cv=3).fit(X, y).search_ == "grid"


def test_weights_of_classes_are_those_of_all_rows(moons, small_regions):
    X, y = moons
    y = np.where((y == 1) & (np.arange(len(y)) % 4 > 0), 0, y)
    balanced = KernelSVCCV(
        Cs=[1.0], gammas=[1.0], cv=3, search="regions", class_weight="balanced"
    ).fit(X, y)
    given = dict(enumerate(len(y) / (2.0 * np.bincount(y))))
    same = KernelSVCCV(Cs=[1.0], gammas=[1.0], cv=3, search="regions", class_weight=given).fit(X, y)
    assert_allclose(balanced.scores_, same.scores_)


def test_precomputed_matrices_have_no_regions(moons):
    X, y = moons
    with pytest.raises(ValueError, match="search: a precomputed"):
        KernelSVCCV(kernel="precomputed", search="regions").fit(X[:50] @ X[:50].T, y[:50])


@pytest.mark.parametrize("n", [6, 40])
def test_few_rows_are_one_region(n):
    X, y = make_moons(n, noise=0.1, random_state=0)
    params = {"Cs": [1.0, 10.0], "gammas": [0.5, 2.0], "cv": 2}
    found = KernelSVCCV(search="regions", **params).fit(X, y)
    grid = KernelSVCCV(search="grid", **params).fit(X, y)
    assert_array_equal(found.cv_results_["mean_test_score"], grid.cv_results_["mean_test_score"])
