"""Fits that run out of time: at least as good as the largest class."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.reference import svm_dual
from widemargin import DCSVC, KernelSVC, load, save
from widemargin.exact.largest_class import name_largest_class
from widemargin.kernels import RBF
from widemargin.problem import split_one_vs_one
from widemargin.validation import validate_problem

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def draw(n_classes, seed):
    """Features of very different units, all positive: a few steps leave most rows on one side."""
    rng = np.random.default_rng(seed)
    X = rng.random((3000, 6)) * [3000, 300, 50, 1, 1, 500] + [2000, 0, 0, 0, 0, 10]
    return X, np.digitize(X[:, 2] + 10.0 * rng.normal(size=3000), [25, 40, 50][: n_classes - 1])


@pytest.mark.parametrize("cls", [KernelSVC, DCSVC])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_a_late_fit_has_as_many_rows_right(cls, multi_class, n_classes, intercept, seed, tmp_path):
    X, y = draw(n_classes, seed)
    params = {"kernel": "linear", "fit_intercept": intercept, "multi_class": multi_class}
    model = (
        cls(**params, max_time=1e-6, keep_levels=True)
        if cls is DCSVC
        else cls(**params, max_time=1e-6)
    )
    model.fit(X, y)
    assert model.stop_reason_ == "max_time"
    assert model.score(X, y) >= np.bincount(y).max() / 3000
    assert (np.abs(model.dual_coef_) <= model.C).all()
    assert np.all(np.asarray(model.objective_) <= 0.0)
    save(model, tmp_path / "model.wm")
    assert_allclose(load(tmp_path / "model.wm").decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("intercept", [False, True])
def test_the_solutions_are_feasible_and_judged_in_float64(intercept):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.repeat([0, 1, 2], [10, 30, 20])
    problem = validate_problem(KernelSVC(), X, y, None, None, precomputed=False)
    subproblems = split_one_vs_one(problem)
    solutions = name_largest_class(RBF(0.5), problem, subproblems, 2.0, intercept=intercept)
    for sub, found in zip(subproblems, solutions, strict=True):
        K, upper = RBF(0.5).exact(X[sub.index], X[sub.index]), np.full(len(sub.y), 2.0)
        assert (sub.y * found.coef >= 0.0).all()
        assert (sub.y * found.coef <= upper).all()
        assert_allclose(found.objective, svm_dual.objective(K, sub.y, found.coef), rtol=1e-9)
        gap = svm_dual.duality_gap(K, sub.y, upper, found.coef, found.intercept)
        assert_allclose(found.duality_gap, gap, rtol=1e-9)
        # No other size of these variables has a lower objective.
        for factor in (0.9, 1.1):
            assert found.objective <= svm_dual.objective(K, sub.y, factor * found.coef)
        larger = 1 if 1 in (sub.negative, sub.positive) else 2
        assert (
            np.sign(K @ found.coef + found.intercept) == (1.0 if sub.positive == larger else -1.0)
        ).all()
