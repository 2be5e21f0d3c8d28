"""Data whose numbers are hard: far from the origin, in different units, or out of range."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from tests.reference import svm_dual
from tests.reference.kernels import to_dense
from widemargin import DCSVC, LRSVC, KernelSVC, KernelSVR, ProjectedSVC
from widemargin.budget import Budget, StopReason
from widemargin.exact import float64_finish
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.float64_finish import ExactMatrix, finish_exactly, finish_in_float64
from widemargin.exact.solution import judge as judge_variables
from widemargin.kernel_arguments import _variance
from widemargin.kernels import RBF, ExpChi2, Linear


def gaussian(X, gamma):
    """RBF kernel from differences, without scalar products."""
    return np.exp(-gamma * np.square(X[:, None] - X[None]).sum(axis=2))


def judge(model, K, y):
    """Objective, duality gap and violation of a fitted model, all from a float64 kernel matrix."""
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    coef, upper = np.zeros(len(y)), np.full(len(y), float(model.C))
    coef[model.support_] = to_dense(model.dual_coef_)[0]
    return (
        svm_dual.objective(K, sign, coef),
        svm_dual.duality_gap(K, sign, upper, coef, model.intercept_[0]),
        svm_dual.violation(K, sign, upper, coef, True),
    )


@pytest.mark.parametrize("n", [150, 1000, 3100])
@pytest.mark.parametrize("offset", [1e7, 1e8, 1e9])
def test_rows_far_from_the_origin(n, offset):
    X, y = make_moons(n, noise=0.1, random_state=0)
    near = KernelSVC(gamma=10.0).fit(X, y)
    far = KernelSVC(gamma=10.0).fit(X + np.array([offset, 0.0]), y)
    assert far.score(X + np.array([offset, 0.0]), y) > 0.98
    assert_allclose(far.objective_, near.objective_, rtol=1e-3)


@pytest.mark.parametrize("as_sparse", [False, True])
def test_one_wild_value(as_sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = (X[:, 1] > 0).astype(int)
    X[0, 0] = 1e15
    model = KernelSVC(gamma=1.0).fit(sparse.csr_matrix(X) if as_sparse else X, y)
    objective, gap, violation = judge(model, gaussian(X, 1.0), y)
    assert_allclose(model.objective_, objective, rtol=1e-4)
    assert violation < 2e-3
    assert gap < 0.1


@pytest.mark.parametrize("kernel", [RBF(3.0), ExpChi2(3.0)], ids=lambda k: k.name)
def test_tiles_of_far_rows_equal_the_formula(kernel):
    rng = np.random.default_rng(0)
    X = 1e8 + rng.random((30, 4))
    square = np.square(X[:, None] - X[None])
    if kernel.name == "exp_chi2":
        X = np.where(rng.random(X.shape) < 0.5, 1e6 + 10.0 * rng.random(X.shape), 0.0)
        total = X[:, None] + X[None]
        square = np.square(X[:, None] - X[None])
        square = np.divide(square, total, out=np.zeros_like(square), where=total > 0)
    expected = np.exp(-3.0 * square.sum(axis=2))
    assert_allclose(kernel(X), expected, rtol=1e-5, atol=1e-37)
    assert_allclose(kernel(sparse.csr_matrix(X)), expected, rtol=1e-5, atol=1e-37)
    assert_allclose(kernel.exact(X, X), expected, rtol=1e-6, atol=1e-300)


def test_wide_sparse_rows_far_apart_are_refused():
    X = sparse.random_array((600, 300_000), density=1e-4, random_state=0, format="csr") * 1e8
    with pytest.raises(ValueError, match="X: the sparse rows are so far apart"):
        KernelSVC(gamma=1.0).fit(X, np.arange(600) % 2)


@pytest.mark.parametrize("kernel", ["rbf", "exp_chi2"])
@pytest.mark.parametrize("gamma", ["scale", 1.0])
@pytest.mark.parametrize("n", [50, 500])
def test_values_whose_squares_overflow_are_refused(kernel, gamma, n):
    rng = np.random.default_rng(0)
    X = 1e186 * rng.random((n, 3))
    with pytest.raises(ValueError, match="X: the values are so large"):
        KernelSVC(kernel=kernel, gamma=gamma).fit(X, np.arange(n) % 2)


@pytest.mark.parametrize(
    "model",
    [KernelSVC(), KernelSVR(), DCSVC(), LRSVC(n_anchors=5), ProjectedSVC(n_basis=3)],
    ids=repr,
)
@pytest.mark.parametrize("n", [50, 500])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_scalar_products_that_overflow_are_refused(model, n, form):
    """Every diagonal entry is tanh(inf) = 1, yet infinities of both signs add up to NaN elsewhere."""
    X = np.random.default_rng(0).normal(size=(n, 3))
    model.set_params(kernel="sigmoid", gamma=1.0)
    for size in (1e25, 1e160, 1e300):
        with pytest.raises(ValueError, match="X: the values are so large that scalar products"):
            model.fit(form(size * X), np.arange(n) % 2)


def test_data_that_hardly_vary_are_refused_by_scale():
    X = 1e-157 * np.random.default_rng(0).random((50, 3))
    with pytest.raises(ValueError, match="gamma: 'scale' needs data that vary"):
        KernelSVC().fit(X, np.arange(50) % 2)


@pytest.mark.parametrize("weights", ["equal", "random"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_the_variance_of_data_far_from_the_origin(weights, as_sparse):
    rng = np.random.default_rng(0)
    X = 1e9 + rng.normal(size=(50, 4))
    w = np.ones(50) if weights == "equal" else rng.integers(1, 4, 50).astype(float)
    expected = np.var(np.repeat(X, w.astype(int), axis=0))
    found = _variance(sparse.csr_matrix(X) if as_sparse else X, w)
    assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("n", [100, 1500])
@pytest.mark.parametrize("value", [1e13, 1e39, 1e150])
def test_queries_out_of_range_have_finite_answers(kernel, n, value):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    model = KernelSVC(kernel=kernel).fit(X, y)
    ordinary = model.decision_function(X[:5])
    queries = np.vstack([value * X[:3], X[:5]])
    if kernel == "poly" and value > 1e100:
        with pytest.raises(ValueError, match="X: row 0 has values so large"):
            model.decision_function(queries)
        return
    scores = model.decision_function(queries)
    assert np.isfinite(scores).all()
    assert np.array_equal(scores[3:], ordinary)
    if kernel != "sigmoid":
        peer = SVC(kernel=kernel).fit(X, y)
        assert np.array_equal(np.sign(scores[:3]), np.sign(peer.decision_function(queries[:3])))


def test_early_models_refuse_what_overflows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    model = DCSVC(kernel="linear", n_levels=1, stop_level=1).fit(X, (X[:, 0] > 0).astype(int))
    with pytest.raises(ValueError, match="X: row 1 has values so large"):
        model.predict(np.vstack([X[:1], 1e200 * X[:1]]))


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_diabetes])
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_the_optimum_of_raw_features_is_the_one_that_is_reported(load, C):
    X, y = load(return_X_y=True)
    y = (y > np.median(y)).astype(int) if load is load_diabetes else (y > 0).astype(int)
    model = KernelSVC(kernel="linear", C=C).fit(X, y)
    objective, gap, violation = judge(model, X @ X.T, y)
    assert model.stop_reason_ == "converged"
    assert violation < 2e-3
    assert_allclose(model.objective_, objective, rtol=1e-6)
    assert_allclose(model.duality_gap_, gap, rtol=1e-2, atol=1e-6 * abs(objective))


@pytest.mark.parametrize("n", [200, 201, 400])
def test_hard_problems_on_both_sides_of_a_size(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) * [1.0, 10.0, 100.0, 1000.0, 10000.0]
    y = rng.integers(0, 2, n)
    model = KernelSVC(kernel="linear").fit(X, y)
    assert model.stop_reason_ == "converged"
    assert judge(model, X @ X.T, y)[2] < 2e-3
    assert model.n_iter_ < 2000 * n


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_hopeless_problem_of_three_rows_ends():
    X = 1e8 + np.array([[0.1], [0.7], [0.3]])
    model = DCSVC(C=10.0, kernel="linear")
    model.fit(X, [0, 1, 0])
    assert model.n_iter_ < 10_000
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("log_c", [9, 13, 17])
@pytest.mark.parametrize("log_gamma", [-10, -2, 2])
def test_a_large_C_ends_at_the_optimum_that_is_reported(log_c, log_gamma):
    rng = np.random.default_rng(1)
    X = rng.random((500, 6))
    y = (np.sin(6.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=500) > 0.5).astype(int)
    C, gamma = 2.0**log_c, 2.0**log_gamma
    model = KernelSVC(C=C, gamma=gamma).fit(X, y)
    peer = SVC(C=C, gamma=gamma).fit(X, y)
    K = gaussian(X, gamma)
    objective, gap, violation = judge(model, K, y)
    assert model.stop_reason_ == "converged"
    assert violation < 1.1e-3
    assert objective <= judge(peer, K, y)[0] * (1.0 - 1e-6)
    assert_allclose(model.objective_, objective, rtol=1e-5)
    assert_allclose(model.duality_gap_, gap, rtol=1e-3, atol=1e-5 * abs(objective))


class RecordedMatrix(ExactMatrix):
    """An `ExactMatrix` that remembers the sizes of the square blocks it was asked for."""

    def __init__(self, *args):
        super().__init__(*args)
        self.sizes = []

    def block(self, rows, cols):
        if rows is cols:
            self.sizes.append(len(rows))
        return super().block(rows, cols)


@pytest.mark.parametrize(("limits", "most"), [({"cache_bytes": 32 * 50**2}, 50), ({}, 4000)])
def test_variables_optimised_together_fit_into_memory(limits, most):
    X, y = load_breast_cancer(return_X_y=True)
    everyone, sign = np.arange(len(y)), 2.0 * y - 1.0
    K = RecordedMatrix(Linear(), X, everyone)
    dual = classification_dual(everyone, sign, np.ones(len(y)), intercept=True)
    start = judge_variables(dual, np.zeros(len(y)), -sign)
    finish_in_float64(K, dual, start, Budget(max_iter=2000, **limits))
    assert 0 < max(K.sizes) <= most


def test_no_time_for_the_finish_leaves_the_better_constant():
    X, y = load_breast_cancer(return_X_y=True)
    everyone, sign = np.arange(len(y)), 2.0 * y - 1.0
    K = RecordedMatrix(Linear(), X, everyone)
    dual = classification_dual(everyone, sign, np.ones(len(y)), intercept=True)
    start = judge_variables(dual, np.zeros(len(y)), -sign)
    found = finish_in_float64(K, dual, start, Budget(deadline=0.0))
    assert found.stop_reason == "max_time"
    assert K.sizes == []
    assert found.intercept == 1.0


@pytest.mark.parametrize(("C", "gamma"), [(32.0, 2.0), (2.0**12, 2.0), (2.0**15, 8.0)])
def test_the_figures_of_a_large_problem_are_those_of_float64(C, gamma):
    """More rows than are all checked, and a C that float32 kernel values are too coarse for."""
    X, y = make_moons(4000, noise=0.3, random_state=0)
    model = KernelSVC(C=C, gamma=gamma).fit(X, y)
    objective, gap, violation = judge(model, rbf_kernel(X, gamma=gamma), y)
    assert model.stop_reason_ == "converged"
    assert_allclose(model.objective_, objective, rtol=1e-8)
    assert_allclose(model.duality_gap_, gap, rtol=1e-6, atol=1e-8 * abs(objective))
    assert violation < 1e-3


def test_rows_left_out_of_the_check_are_taken_in_when_they_violate(monkeypatch):
    monkeypatch.setattr(float64_finish, "_find_checked", lambda dual, found, error: np.arange(300))
    X, y = make_moons(1000, noise=0.3, random_state=0)
    sign, everyone = 2.0 * y - 1.0, np.arange(1000)
    dual = classification_dual(everyone, sign, np.full(1000, 100.0), intercept=True)
    start = replace(judge_variables(dual, np.zeros(1000), -sign), stop_reason=StopReason.STALLED)
    K = ExactMatrix(RBF(2.0), X, everyone)
    found = finish_exactly(K, 1.0, dual, start, Budget())
    matrix = rbf_kernel(X, gamma=2.0)
    assert found.stop_reason == "converged"
    assert svm_dual.violation(matrix, sign, np.full(1000, 100.0), found.coef, True) < 1e-3
    assert_allclose(found.gradient, matrix @ found.coef - sign, atol=1e-8)


def test_a_check_that_would_cost_too_much_says_how_far_float32_may_be_off(monkeypatch):
    monkeypatch.setattr(float64_finish, "MAX_VALUES", 1000)
    X, y = make_moons(1000, noise=0.3, random_state=0)
    sign, everyone = 2.0 * y - 1.0, np.arange(1000)
    dual = classification_dual(everyone, sign, np.full(1000, 1e4), intercept=True)
    matrix = rbf_kernel(X, gamma=2.0)
    coef = 1e4 * np.random.default_rng(0).random(1000) * sign
    rough = judge_variables(dual, coef, matrix.astype(np.float32) @ coef - sign)
    found = finish_exactly(ExactMatrix(RBF(2.0), X, everyone), 1.0, dual, rough, Budget())
    assert_array_equal(found.coef, coef)
    true = judge_variables(dual, coef, matrix @ coef - sign)
    assert 0 < abs(true.violation - found.violation) < 2 * found.violation_error


def test_a_distant_time_limit_does_not_change_the_figures(monkeypatch):
    monkeypatch.setattr(float64_finish, "FEW_VALUES", 100)
    X, y = make_moons(2500, noise=0.5, random_state=0)
    model = KernelSVC(C=2.0**13, gamma=0.001, max_time=1000.0).fit(X, y)
    assert model.violation_error_ == 0.0
    without = KernelSVC(C=2.0**13, gamma=0.001).fit(X, y)
    assert_allclose(model.objective_, without.objective_, rtol=1e-6)


@pytest.mark.parametrize("n", [150, 400])
@pytest.mark.parametrize("estimator", [KernelSVC, KernelSVR])
def test_a_number_added_to_all_kernel_values_changes_nothing(estimator, n):
    """With an intercept the dual variables sum to zero, so the number cancels."""
    X, y = make_moons(n, noise=0.3, random_state=0)
    # Multiples of 2^-20, so that the sum with 2^30 is exact in float64.
    K = np.round(gaussian(X, 2.0) * 2**20) / 2**20
    model = estimator(C=100.0, kernel="precomputed", tol=1e-6)
    near, far = clone(model).fit(K, y), clone(model).fit(K + 2.0**30, y)
    assert far.stop_reason_ == near.stop_reason_ == "converged"
    assert_allclose(far.objective_, near.objective_, rtol=1e-9)
    assert_allclose(far.intercept_, near.intercept_, atol=1e-5)


@pytest.mark.parametrize("n", [150, 400])
def test_additive_kernel_of_rows_far_from_the_origin(n):
    X, _ = make_moons(n, noise=0.3, random_state=0)
    y = 0.007 * np.sin(3.0 * X[:, 0])
    far = 6e8 + 1e4 * X
    model = KernelSVR(C=12.0, epsilon=0.0, kernel="power_mean", gamma=0.003, tol=1e-4).fit(far, y)
    assert model.stop_reason_ == "converged"
    assert model.duality_gap_ < model.tol * model.C * n


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("offset", [1e3, 6e5])
def test_a_linear_kernel_of_rows_far_from_zero(as_sparse, offset):
    """With an intercept, the problem is that of the rows less their mean."""
    rng = np.random.default_rng(0)
    X = 2.0**-10 * np.round(2.0**10 * rng.normal(size=(300, 2)) * 3.0)
    y = (X[:, 0] + 2.0 * rng.normal(size=300) > 0).astype(int)
    far = sparse.csr_matrix(X + offset) if as_sparse else X + offset
    params = {"kernel": "linear", "C": 1000.0, "tol": 1e-5}
    near = SVC(**params).fit(X, y)
    found = KernelSVC(**params).fit(far, y)
    assert found.stop_reason_ == "converged"
    objective = 0.5 * np.square(near.coef_).sum() - np.abs(near.dual_coef_).sum()
    # Within what `tol` allows either of them.
    assert_allclose(found.objective_, objective, atol=1e-5 * np.abs(near.dual_coef_).sum())
    assert_allclose(found.duality_gap_, 0.0, atol=1e-5 * 300 * 1000.0)
    coef = found.coef_.toarray() if as_sparse else found.coef_
    assert_allclose(coef, near.coef_, atol=1e-3)
