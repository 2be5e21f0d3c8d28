"""`KernelSVRCV` against `GridSearchCV` with scikit-learn's `SVR`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import scale
from sklearn.svm import SVR

from widemargin import KernelSVR, KernelSVRCV

GRID = {"C": [0.1, 1.0, 10.0], "epsilon": [0.0, 0.05, 0.3], "gamma": [0.01, 0.1]}


def draw(name):
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        return scale(X), scale(y)
    X, y = make_friedman1(300, noise=1.0, random_state=0)
    return scale(X), scale(y)


@pytest.mark.parametrize("name", ["diabetes", "friedman"])
@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
def test_chosen_cells_and_scores_are_those_of_grid_search(name, scoring):
    X, y = draw(name)
    ours = KernelSVRCV(
        Cs=GRID["C"], gammas=GRID["gamma"], epsilons=GRID["epsilon"], scoring=scoring, tol=1e-4
    ).fit(X, y)
    theirs = GridSearchCV(SVR(tol=1e-4), GRID, scoring=scoring).fit(X, y)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    assert ours.best_params_ == theirs.best_params_
    for fold in range(5):
        key = f"split{fold}_test_score"
        assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], atol=5e-4)
    assert ours.scores_.shape == (2, 3, 3, 5)
    assert_allclose(ours.predict(X), theirs.predict(X), atol=5e-3)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-3)


def test_several_targets_and_held_out_predictions():
    X, y = draw("diabetes")
    Y = np.column_stack([y, -2.0 * y + X[:, 0]])
    model = KernelSVRCV(
        Cs=[1.0, 10.0], gammas=[0.01], epsilons=[0.1], cv=KFold(3), keep_decisions=True
    ).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    for train, test in KFold(3).split(X):
        plain = KernelSVR(**model.best_params_).fit(X[train], Y[train])
        assert_allclose(model.decision_oof_[test], plain.predict(X[test]), atol=2e-2)


def test_a_grid_from_the_data_follows_the_scale_of_the_targets():
    X, y = draw("friedman")
    small = KernelSVRCV(Cs=4, gammas=3, epsilons=2, cv=3).fit(X, y)
    large = KernelSVRCV(Cs=4, gammas=3, epsilons=2, cv=3).fit(X, 1000.0 * y)
    assert small.best_score_ > 0.6
    assert large.best_score_ == pytest.approx(small.best_score_, abs=0.01)
    assert_allclose(large.epsilons_, 1000.0 * small.epsilons_, rtol=0.01)


def test_weights_equal_repeated_rows():
    X, y = draw("diabetes")
    X, y = X[:120], y[:120]
    weights, groups = np.arange(120) % 3, np.arange(120) % 4
    rows = np.repeat(np.arange(120), weights)
    folds = [[(np.flatnonzero(g != k), np.flatnonzero(g == k)) for k in range(4)]
             for g in (groups, groups[rows])]  # fmt: skip
    params = {"Cs": [1.0, 10.0], "gammas": [0.01], "epsilons": [0.1], "tol": 1e-5}
    weighted = KernelSVRCV(cv=folds[0], **params).fit(X, y, sample_weight=weights)
    repeated = KernelSVRCV(cv=folds[1], **params).fit(X[rows], y[rows])
    assert_allclose(weighted.scores_, repeated.scores_, atol=1e-4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epsilons": [-0.1]}, "epsilons: values must be finite and not be negative"),
        ({"epsilons": 0}, "epsilons: give at least one value"),
        ({"scoring": "accuracy_of_mine"}, "accuracy_of_mine"),
        ({"cv": [(np.arange(10), [])]}, "cv: fold 0 has 10 training rows and 0 held-out rows"),
    ],
)
def test_bad_input(params, message):
    X, y = draw("diabetes")
    with pytest.raises(ValueError, match=message):
        KernelSVRCV(**{"Cs": [1.0], "gammas": [0.1], **params}).fit(X, y)


def test_kernel_values_that_overflow_are_refused():
    X = 1e200 * np.random.default_rng(0).random((60, 2))
    with pytest.raises(ValueError, match="kernel: values of the 'poly' kernel reach"):
        KernelSVRCV(kernel="poly", Cs=[1.0], gammas=[0.1, 1.0], cv=2).fit(X, X[:, 0] / 1e200)
