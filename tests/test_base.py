"""What the bases of the one-vs-rest classifiers promise for all of them."""

import time
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from widemargin import LRSVC, AdditiveSVC, IntersectionSVC, PowerMeanSVC, ProjectedSVC
from widemargin.base import OneVsRest
from widemargin.baselines import LLSVC, PWLSGDSVC, SIKMASVC, FourierSVC, LaSVC

CURVES = [AdditiveSVC, IntersectionSVC, PowerMeanSVC, FourierSVC, PWLSGDSVC, SIKMASVC]
ONLINE = [AdditiveSVC, PowerMeanSVC, FourierSVC, PWLSGDSVC, SIKMASVC]


def fail(*args):
    raise MemoryError


@pytest.mark.parametrize(
    ("model", "step"),
    [
        (AdditiveSVC(), "_fit_quantiser"),
        (AdditiveSVC(solver="sgd"), "_choose_table"),
        (IntersectionSVC(solver="dual"), "_measure"),
        (IntersectionSVC(multi_class="crammer_singer"), "_measure"),
        (PowerMeanSVC(), "_represent"),
        (LRSVC(), "_choose_anchors"),
        (LLSVC(n_landmarks=20), "_choose_map"),
    ],
)
def test_all_of_a_fit_counts_against_max_time(monkeypatch, digits, model, step):
    X, y = digits
    function = getattr(type(model), step)

    def dawdle(self, *args):
        time.sleep(0.15)
        return function(self, *args)

    monkeypatch.setattr(type(model), step, dawdle)
    model = clone(model).set_params(C=10.0, tol=1e-12, max_iter=10**6, max_time=0.1)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X[:300], y[:300])
    assert (np.max(model.n_iter_), model.stop_reason_) == (1, "max_time")


def test_a_clock_that_is_set_does_not_end_a_fit(monkeypatch, digits):
    X, y = digits
    days = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: 86_400.0 * next(days))
    model = AdditiveSVC(max_time=1000.0, random_state=0).fit(X[:300], y[:300])
    assert model.stop_reason_ == "converged"


@pytest.mark.parametrize("cls", CURVES)
def test_curves_of_models_that_are_not_fitted(digits, cls):
    with pytest.raises(NotFittedError):
        cls().explain(digits[0])
    with pytest.raises(NotFittedError):
        cls().shape_functions()


@pytest.mark.parametrize("cls", ONLINE)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_first_fit_that_fails_leaves_the_classifier_unfitted(monkeypatch, digits, cls, method):
    X, y = digits[0][:100], digits[1][:100]
    model = cls(random_state=0)
    learn = model.fit if method == "fit" else partial(model.partial_fit, classes=np.arange(10))
    with monkeypatch.context() as patch:
        patch.setattr(cls, "_measure", fail)
        with pytest.raises(MemoryError):
            learn(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    # Other classes, and fewer features.
    model.partial_fit(X[:, :30], y > 4, classes=[False, True])
    again = clone(model).partial_fit(X[:, :30], y > 4, classes=[False, True])
    assert_array_equal(model.decision_function(X[:, :30]), again.decision_function(X[:, :30]))
    assert model.n_seen_ == 100


def test_a_kernel_that_is_none_is_no_first_piece(digits):
    X, y = digits[0][:100], digits[1][:100]
    model = AdditiveSVC(kernel=lambda x, y: x - y)
    with pytest.raises(ValueError, match="kernel: "):
        model.partial_fit(X, y, classes=np.arange(10))
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.set_params(kernel="chi2").partial_fit(X, y > 4, classes=[False, True])
    assert_array_equal(model.classes_, [False, True])


def test_a_piece_that_fails_changes_nothing(monkeypatch, digits):
    X, y = digits[0][:100], digits[1][:100]
    for cls, step in ((PWLSGDSVC, "_pass"), (SIKMASVC, "_make_primal")):
        model = cls(random_state=0).partial_fit(X, y, classes=np.arange(10))
        before = model.decision_function(X)
        with monkeypatch.context() as patch:
            patch.setattr(cls, step, fail)
            with pytest.raises(MemoryError):
                model.partial_fit(X, y)
        assert (model.n_seen_, model.t_) == (100, 100)
        assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("cls", [*ONLINE, LaSVC])
def test_balanced_weights_need_all_data(digits, cls):
    X, y = digits
    model = cls(class_weight="balanced", random_state=0)
    with pytest.raises(ValueError, match=r"class_weight: 'balanced' needs all data .* a dict"):
        model.partial_fit(X[:50], y[:50] % 2, classes=[0, 1])
    assert model.fit(X[:50], y[:50] % 2).score(X[:50], y[:50] % 2) > 0.7


@pytest.mark.parametrize(
    ("cls", "params"),
    [
        (PWLSGDSVC, {"project": "maybe"}),
        (PWLSGDSVC, {"fit_intercept": "no"}),
        (SIKMASVC, {"fit_intercept": 1}),
        (AdditiveSVC, {"fit_intercept": None}),
        (PowerMeanSVC, {"lut": "no"}),
        (LRSVC, {"warm_start": "no"}),
        (ProjectedSVC, {"refine": "no"}),
        (ProjectedSVC, {"verbose": "x"}),
        (LaSVC, {"verbose": "x"}),
        (LLSVC, {"verbose": "x"}),
        (IntersectionSVC, {"verbose": -1}),
        (LLSVC, {"verbose": None}),
        (PWLSGDSVC, {"n_jobs": 0}),
        (SIKMASVC, {"n_jobs": "all"}),
    ],
)
def test_switches_and_counts_are_checked_first(digits, cls, params):
    with pytest.raises(ValueError, match=f"^{next(iter(params))}: "):
        cls(**params).fit(*digits)


def test_switches_may_be_those_of_numpy(digits, capsys):
    X, y = digits
    model = PWLSGDSVC(project=np.True_, max_iter=1, random_state=0).fit(X[:50], y[:50])
    same = PWLSGDSVC(project=True, max_iter=1, random_state=0).fit(X[:50], y[:50])
    assert_array_equal(model.heights_, same.heights_)
    AdditiveSVC(verbose=True).fit(X[:50], y[:50])
    assert "pass" in capsys.readouterr().err


def test_a_pass_over_a_piece_has_no_violation(digits):
    X, y = digits
    model = AdditiveSVC(random_state=0).fit(X[:100], y[:100])
    assert model.violation_ > 0
    model.partial_fit(X[:100], y[:100])
    assert not hasattr(model, "violation_")
    assert (model.n_iter_, model.stop_reason_) == (1, "max_iter")


def test_a_base_is_no_classifier():
    with pytest.raises(TypeError, match="abstract"):
        OneVsRest()
