"""CascadeSVC: rounds end at the optimum, one pass does not go below it, and records add up."""

import io
import pickle
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.reference.svm_dual import objective, violation
from widemargin import KernelSVC
from widemargin.baselines import cascade_layers as cascade_module
from widemargin.baselines.cascade import CascadeSVC
from widemargin.baselines.cascade_layers import Cascade, count_layers, split_rows
from widemargin.exact import descent_state as box_qp
from widemargin.exact.dual_problem import classification_dual


def laplacian(A, B):
    return np.exp(-0.2 * cdist(A, B, "cityblock"))


KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.3},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.2},
    "callable": {"kernel": laplacian},
}


def make_data(n=850, seed=0):
    return make_classification(
        n, 6, n_informative=4, n_redundant=0, flip_y=0.1, class_sep=0.7, random_state=seed
    )


def dense_coef(model, n):
    """Signed dual variables of all training rows."""
    coef = np.zeros(n)
    coef[model.support_] = model.dual_coef_[0]
    return coef


@pytest.mark.parametrize("kernel", KERNELS)
def test_rounds_end_at_the_optimum_of_libsvm(kernel):
    X, y = make_data()
    params = KERNELS[kernel] | {"tol": 1e-4}
    model = CascadeSVC(max_rounds=None, random_state=0, **params).fit(X, y)
    peer = SVC(**params).fit(X, y)
    K = peer.kernel(X, X) if callable(peer.kernel) else model.kernel_.exact(X, X)
    sign = 2.0 * y - 1.0
    optimum = objective(K, sign, dense_coef(peer, len(y)))
    assert model.stop_reason_ == "converged"
    assert model.n_rounds_ > 1
    assert_allclose(model.objective_, optimum, rtol=1e-5)
    assert_allclose(objective(K, sign, dense_coef(model, len(y))), optimum, rtol=1e-5)
    assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rounds_end_at_the_optimum_without_intercept(kernel):
    X, y = make_data()
    params = KERNELS[kernel] | {"fit_intercept": False}
    model = CascadeSVC(max_rounds=None, random_state=0, **params).fit(X, y)
    assert_allclose(model.objective_, KernelSVC(**params).fit(X, y).objective_, rtol=1e-5)
    assert_array_equal(model.intercept_, 0.0)


@pytest.mark.parametrize("intercept", [True, False])
def test_no_row_violates_the_conditions_after_the_last_round(intercept):
    X, y = make_data()
    model = CascadeSVC(gamma=0.3, C=3.0, max_rounds=None, fit_intercept=intercept, random_state=1)
    model.fit(X, y)
    K, upper = rbf_kernel(X, gamma=0.3), np.full(len(y), 3.0)
    left = violation(K, 2.0 * y - 1.0, upper, dense_coef(model, len(y)), intercept)
    assert left < 1.1e-3
    assert 0 <= model.duality_gap_ < 1e-2 * abs(model.objective_)


@pytest.mark.parametrize("seed", range(3))
def test_one_pass_is_feasible_and_not_below_the_optimum(seed):
    X, y = make_data(seed=seed)
    params = {"gamma": 0.3, "C": 3.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CascadeSVC(random_state=seed, **params).fit(X, y)
    coef, sign = dense_coef(model, len(y)), 2.0 * y - 1.0
    optimum = KernelSVC(tol=1e-6, **params).fit(X, y).objective_
    assert (model.stop_reason_, model.n_rounds_) == ("max_rounds", 1)
    assert_allclose(model.objective_, objective(rbf_kernel(X, gamma=0.3), sign, coef), rtol=1e-5)
    assert optimum < model.objective_ < 0.5 * optimum
    assert abs(coef.sum()) < 1e-8
    assert (sign * coef >= 0).all()
    assert np.abs(coef).max() <= 3.0
    assert_array_equal(model.support_vectors_, X[model.support_])


def test_objective_falls_from_round_to_round():
    X, y = make_data()
    objectives = []
    for rounds in (1, 2, 3):
        model = CascadeSVC(gamma=0.3, C=3.0, max_rounds=rounds, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            objectives.append(model.fit(X, y).objective_)
    assert objectives[0] > objectives[1] >= objectives[2] * (1 + 1e-6)


def test_too_few_rounds_are_told():
    X, y = make_data()
    with pytest.warns(ConvergenceWarning, match="max_rounds=2"):
        model = CascadeSVC(gamma=0.3, C=3.0, max_rounds=2, random_state=0).fit(X, y)
    assert model.stop_reason_ == "max_rounds"


def test_records_add_up():
    X, y = make_data()
    model = CascadeSVC(gamma=0.3, n_layers=2, random_state=0).fit(X, y)
    assert [layer.n_sets for layer in model.layers_] == [4, 2, 1]
    assert model.layers_[0].n_rows == len(y)
    for below, above in zip(model.layers_[:-1], model.layers_[1:], strict=True):
        assert above.n_rows == below.n_support
    assert model.layers_[-1].n_support == len(model.support_) == model.n_support_.sum()
    assert all(layer.seconds > 0 for layer in model.layers_)


def test_records_are_those_of_every_problems_last_round():
    X, y = make_blobs([700, 450, 240], centers=None, cluster_std=3.0, random_state=0)
    model = CascadeSVC(gamma=0.1, max_rounds=None, random_state=0).fit(X, y)
    assert len(set(model.n_rounds_)) > 1
    # Problems of 1,150, 940 and 690 rows: four parts each of the first two, two of the third.
    assert [layer.n_sets for layer in model.layers_] == [4 + 4, 2 + 2 + 2, 3]
    assert model.layers_[-1].n_support == np.count_nonzero(model.dual_coef_)


def test_later_rounds_feed_support_vectors_to_every_part():
    X, y = make_data()
    model = CascadeSVC(gamma=0.3, n_layers=2, max_rounds=None, random_state=0).fit(X, y)
    # Each of four parts misses the vectors of the three others, and nobody else's.
    n_fed = (model.layers_[0].n_rows - len(y)) / 3
    assert abs(n_fed - len(model.support_)) <= 3


def test_parts_are_disjoint_and_hold_both_classes():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(1000) < 0.03, 1.0, -1.0)
    parts = split_rows(y, 8, rng)
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    positives = [np.count_nonzero(y[part] > 0) for part in parts]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert max(positives) - min(positives) <= 1
    assert min(positives) > 0


@pytest.mark.parametrize(
    ("n_negative", "n_positive", "expected"),
    [(100, 99, 0), (200, 199, 0), (200, 200, 1), (10_000, 7, 1), (10_000, 8, 2), (10_000, 1, 0)],
)
def test_small_problems_have_fewer_layers(n_negative, n_positive, expected):
    y = np.repeat([-1.0, 1.0], [n_negative, n_positive])
    assert count_layers(y, 5) == expected
    assert count_layers(y, 0) == 0


def test_undivided_problem_is_solved_exactly():
    X, y = make_data(150)
    model = CascadeSVC(gamma=0.3).fit(X, y)
    peer = KernelSVC(gamma=0.3).fit(X, y)
    assert model.stop_reason_ == "converged"
    assert len(model.layers_) == 1
    assert_allclose(model.objective_, peer.objective_, rtol=1e-12)


def test_standstill_without_vectors_on_the_margin_is_overcome():
    """All support vectors at their bounds, violators in different parts: a pair is fed back."""
    y = np.repeat([-1.0, 1.0], 4)
    dual = classification_dual(np.arange(8), y, np.ones(8), intercept=True)
    cascade = Cascade(dual, 0, np.random.default_rng(0))
    cascade.n_rounds = 1
    coef = np.array([-1.0, 0, 0, 0, 1.0, 0, 0, 0])
    gradient = np.array([0.0, 5.0, 1.0, 1.0, 0.0, -1.0, -6.0, -1.0])
    cascade.solution = replace(cascade.solution, coef=coef, gradient=gradient)
    cascade.parts = [np.array([0, 1, 4, 5]), np.array([2, 3, 6, 7])]
    cascade.start_round()
    # Row 6 would rise most; rows 1 to 3, negative and at zero, may fall, and 1 would most.
    for part in cascade.make_duals():
        assert {0, 1, 4, 6} <= set(part.index)


def test_fit_overcomes_a_standstill(monkeypatch):
    """One row a class is far off, and every row but that is at its bound after one round.

    Each part has a row more of one class than of the other, and leaves one out. With this split
    these are the two far off, one in each part.
    """
    x = np.append(np.linspace(0.8, 1.2, 200), 5.0)
    X, y = np.concatenate([x, -x])[:, None], np.repeat([1, 0], len(x))
    model = CascadeSVC(kernel="linear", C=1e-4, n_layers=1, max_rounds=None, random_state=6)
    assert model.fit(X, y).stop_reason_ == "converged"
    assert_allclose(np.abs(dense_coef(model, len(y))), 1e-4)
    monkeypatch.setattr(Cascade, "_find_worst_pair", lambda _: np.empty(0, np.intp))
    with pytest.warns(ConvergenceWarning):
        assert model.fit(X, y).stop_reason_ == "stalled"


def test_rounds_end_where_tol_is_out_of_reach(monkeypatch):
    monkeypatch.setattr(box_qp, "ROUND_MOVES", 2)
    X, y = make_data(450)
    with pytest.warns(ConvergenceWarning, match="tol"):
        model = CascadeSVC(gamma=0.3, tol=1e-12, max_rounds=None, random_state=0).fit(X, y)
    assert model.stop_reason_ == "stalled"
    assert_allclose(model.objective_, KernelSVC(gamma=0.3).fit(X, y).objective_, rtol=1e-6)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_many_classes(scheme):
    X, y = make_blobs([900, 500, 120], centers=None, cluster_std=3.0, random_state=0)
    params = {"gamma": 0.1, "multi_class": scheme}
    model = CascadeSVC(max_rounds=None, random_state=0, **params).fit(X, y)
    peer = KernelSVC(**params).fit(X, y)
    assert model.n_rounds_.shape == (3,)
    assert_allclose(model.objective_, peer.objective_, rtol=1e-5)
    assert (model.predict(X) == peer.predict(X)).mean() > 0.995


def test_precomputed_kernel_sparse_data_and_float32():
    X, y = make_data()
    X[np.abs(X) < 0.7] = 0.0
    params = {"gamma": 0.3, "random_state": 0}
    dense = CascadeSVC(**params).fit(X, y)
    given = CascadeSVC(kernel="precomputed", random_state=0).fit(rbf_kernel(X, gamma=0.3), y)
    for other in (CascadeSVC(**params).fit(data, y) for data in (csr_matrix(X), np.float32(X))):
        assert_allclose(other.objective_, dense.objective_, rtol=1e-4)
    assert_allclose(given.objective_, dense.objective_, rtol=1e-4)


def test_weights_of_rows_and_classes_scale_the_cost():
    X, y = make_data()
    params = {"gamma": 0.3, "max_rounds": None, "random_state": 0}
    weights = np.where(y == 1, 3.0, 0.5)
    by_row = CascadeSVC(**params).fit(X, y, sample_weight=weights)
    by_class = CascadeSVC(class_weight={0: 0.5, 1: 3.0}, **params).fit(X, y)
    peer = KernelSVC(gamma=0.3).fit(X, y, sample_weight=weights)
    assert_allclose(by_row.objective_, peer.objective_, rtol=1e-5)
    assert_allclose(by_class.objective_, peer.objective_, rtol=1e-5)


def test_fits_repeat_and_travel():
    X, y = make_data()
    names = np.array(["no", "yes"])[y]
    a, b, c = (CascadeSVC(gamma=0.3, random_state=s).fit(X, names) for s in (0, 0, 1))
    assert_array_equal(a.decision_function(X), b.decision_function(X))
    assert not np.array_equal(a.support_, c.support_)
    assert_array_equal(pickle.loads(pickle.dumps(a)).predict(X), a.predict(X))
    assert_array_equal(clone(a).fit(X, names).support_, a.support_)
    assert set(a.predict(X)) == {"no", "yes"}


@pytest.mark.parametrize("n_layers", [0, 3])
def test_threads_give_the_same_answer(n_layers):
    X, y = make_data(4000)
    one, two, three = (
        CascadeSVC(gamma=0.3, n_layers=n_layers, random_state=0, n_jobs=n)
        .fit(X, y)
        .decision_function(X)
        for n in (1, 2, 3)
    )
    assert_array_equal(two, one)
    assert_array_equal(three, one)


def test_time_limit_leaves_a_model():
    X, y = make_data()
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = CascadeSVC(gamma=0.3, C=1e3, max_time=1e-6, random_state=0).fit(X, y)
    assert model.stop_reason_ == "max_time"
    assert abs(dense_coef(model, len(y)).sum()) < 1e-6
    assert np.isfinite(model.decision_function(X)).all()


def test_progress_is_shown(capsys):
    X, y = make_data()
    CascadeSVC(gamma=0.3, random_state=0, verbose=2).fit(X, y)
    assert "problem 4/4" in capsys.readouterr().err


def test_progress_line_is_closed_after_an_interrupt(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    solve = cascade_module.solve_problems

    def press_control_c(*args, **kwargs):
        solve(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(cascade_module, "solve_problems", press_control_c)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(KeyboardInterrupt):
        CascadeSVC(verbose=1).fit(*make_data(60))
    shown = sys.stderr.getvalue()
    assert shown.startswith("\r[widemargin]")
    assert shown.endswith("\n")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_layers": -1}, "n_layers"),
        ({"n_layers": 1.5}, "n_layers"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_rounds": "converged"}, "max_rounds"),
        ({"C": 0.0}, "C: "),
        ({"tol": 0.0}, "tol"),
        ({"max_time": -1.0}, "max_time"),
        ({"multi_class": "both"}, "multi_class"),
        ({"fit_intercept": "no"}, "fit_intercept"),
        ({"kernel": "rbs"}, "kernel"),
        ({"memory": 100}, "memory"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = make_data(60)
    with pytest.raises(ValueError, match=message):
        CascadeSVC(**params).fit(X, y)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([CascadeSVC(random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
