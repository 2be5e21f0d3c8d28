"""C in units of the kernel, and intercepts without penalty, against LIBSVM on the same kernel."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.svm import SVC

import widemargin
from widemargin import AdditiveSVC, IntersectionSVC, PowerMeanSVC

ESTIMATORS = (AdditiveSVC, IntersectionSVC, PowerMeanSVC)


def intersection(A, B):
    return np.minimum(A[:, None], B).sum(axis=2)


def chi2(A, B):
    """2 x y / (x + y), summed over the features: (x + y) / 2 less half of the chi-square distance."""
    sums = (A.sum(axis=1)[:, None] + B.sum(axis=1)) / 2
    return sums + additive_chi2_kernel(A, B) / 2


CASES = [
    (IntersectionSVC, intersection, {}),
    (AdditiveSVC, intersection, {"kernel": "intersection"}),
    (AdditiveSVC, chi2, {"rank": 16}),
]


@pytest.fixture(scope="module")
def digits():
    """300 rows, of which one in ten is positive, so that the intercept matters; and other rows.

    The values of these are within those of the first.
    """
    X, y = load_digits(return_X_y=True)
    Z = np.minimum(X[300:600], X[:300].max(axis=0))
    return X[:300], (y[:300] == 3).astype(int), Z, y


@pytest.mark.parametrize(("estimator", "kernel", "params"), CASES)
@pytest.mark.parametrize("C", [1e-4, 0.01])
def test_free_intercept_is_that_of_libsvm(digits, estimator, kernel, params, C):
    X, y, Z, _ = digits
    model = estimator(
        C=C, loss="hinge", fit_intercept="free", tol=1e-6, max_iter=20_000, **params
    ).fit(X, y)
    theirs = SVC(C=C, kernel="precomputed", tol=1e-8).fit(kernel(X, X), y)
    assert model.stop_reason_ == "converged"
    assert model.C_ == C
    expected = theirs.decision_function(kernel(Z, X))
    np.testing.assert_allclose(model.decision_function(Z), expected, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-4)


def test_free_intercept_with_squared_hinge_loss(digits):
    """The squared hinge adds 1 / (2 C) to the diagonal of the matrix; its bounds are infinite."""
    X, y, _, _ = digits
    C = 1e-3
    K = intersection(X, X)
    model = IntersectionSVC(C=C, fit_intercept="free", tol=1e-7, max_iter=20_000).fit(X, y)
    theirs = SVC(C=1e6, kernel="precomputed", tol=1e-8).fit(K + np.eye(len(X)) / (2 * C), y)
    alpha = np.zeros(len(X))
    alpha[theirs.support_] = theirs.dual_coef_[0]
    np.testing.assert_allclose(model.decision_function(X), K @ alpha + theirs.intercept_, atol=1e-4)


@pytest.mark.parametrize(("estimator", "_", "params"), CASES[:2])
def test_free_intercept_of_large_constants(estimator, _, params):
    """A constant feature changes nothing beside a free intercept, and much beside a penalised one."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, (200, 5)).astype(float)
    y = (X[:, 0] + X[:, 1] > 13).astype(int)
    shifted = np.column_stack([X, np.full(len(X), 30.0)])
    fits = [estimator(C=0.01, tol=1e-7, max_iter=20_000, **params).fit(A, y) for A in (X, shifted)]
    decisions = [fits[0].decision_function(X), fits[1].decision_function(shifted)]
    np.testing.assert_allclose(*decisions, atol=1e-4)
    np.testing.assert_allclose(fits[1].explain(shifted)[:, -1], 0.0, atol=1e-4)


def test_free_intercept_of_sparse_rows_and_power_means(digits):
    """PmSVM's regression is approximate, but the dual variables of both classes must add up alike."""
    X, y, Z, _ = digits
    params = {"C": 0.01, "tol": 1e-4, "max_iter": 5000}
    dense = PowerMeanSVC(**params).fit(X / 16, y)
    thin = PowerMeanSVC(**params).fit(sparse.csr_matrix(X / 16), y)
    assert dense.intercept_[0] != 0
    np.testing.assert_allclose(thin.intercept_, dense.intercept_, atol=1e-3)
    np.testing.assert_allclose(
        thin.decision_function(Z / 16), dense.decision_function(Z / 16), atol=1e-2
    )
    none = PowerMeanSVC(fit_intercept=False, **params).fit(X / 16, y)
    assert none.intercept_[0] == 0


def test_warm_start_keeps_the_free_intercept(digits):
    X, y, _, _ = digits
    model = AdditiveSVC(C=0.01, warm_start=True, tol=1e-4).fit(X, y)
    passes, intercept = model.n_iter_, model.intercept_
    model.fit(X, y)
    assert model.n_iter_ < passes / 2
    np.testing.assert_allclose(model.intercept_, intercept, atol=1e-3)


def scaled_cost(estimator, X):
    """C times the mean of the diagonal: more than 10 for a smooth kernel of few varying features."""
    n_varied = np.count_nonzero(X.max(axis=0) > X.min(axis=0))
    assert 10 < n_varied < 64
    times = max(1.0, min((64 / n_varied) ** 2, 10.0, len(X) / 150))
    return 10.0 if estimator is IntersectionSVC else 10.0 * times


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scaled_cost_is_the_number_divided_by_the_mean_of_the_diagonal(digits, estimator):
    X, y, _, _ = digits
    model = estimator().fit(X, y)
    # k(x, x) of the intersection and of chi2 is the sum of the features.
    mean = X.sum(axis=1).mean()
    assert model.kernel_mean_ == pytest.approx(mean, rel=1e-3)
    assert pytest.approx(scaled_cost(estimator, X) / model.kernel_mean_) == model.C_
    same = estimator(C=model.C_).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))


@pytest.mark.parametrize(
    ("params", "d", "number"),
    [
        ({}, 64, 10.0), ({}, 100, 10.0), ({}, 40, 25.6), ({}, 10, 100.0),
        ({"kernel": "jensen_shannon"}, 32, 40.0), ({"kernel": "intersection"}, 10, 10.0),
        ({"kernel": np.minimum}, 10, 10.0),
    ],
)  # fmt: skip
def test_few_features_of_smooth_kernels_have_a_larger_cost(params, d, number):
    X = np.random.default_rng(0).random((1500, d))
    y = np.arange(1500) % 2
    model = AdditiveSVC(max_iter=5, **params).fit(X, y)
    assert pytest.approx(number) == model.C_ * model.kernel_mean_
    few = AdditiveSVC(max_iter=5, **params).fit(X[:300], y[:300])
    assert pytest.approx(min(number, 20.0)) == few.C_ * few.kernel_mean_


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scaled_cost_does_not_depend_on_the_unit(digits, estimator):
    X, y, Z, _ = digits
    ours, larger = estimator().fit(X, y), estimator().fit(8 * X, y)
    assert pytest.approx(ours.C_, rel=1e-6) == 8 * larger.C_
    np.testing.assert_allclose(
        larger.decision_function(8 * Z), ours.decision_function(Z), atol=2e-2
    )


def test_scaled_cost_counts_weights_as_repeated_rows(digits):
    X, y, _, _ = digits
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    weighted = AdditiveSVC().fit(X, y, sample_weight=weights)
    repeated = AdditiveSVC().fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert pytest.approx(repeated.C_) == weighted.C_


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_all_solvers_of_the_intersection_kernel_use_the_same_scale(digits, solver):
    X, y, _, _ = digits
    model = IntersectionSVC(solver=solver, fit_intercept=False).fit(X, y)
    at_once = IntersectionSVC(multi_class="crammer_singer").fit(X, y)
    assert pytest.approx(at_once.C_) == model.C_


@pytest.mark.parametrize("params", [{"solver": "primal"}, {"multi_class": "crammer_singer"}])
def test_solvers_without_intercept_refuse_one(digits, params):
    X, y, _, _ = digits
    assert not IntersectionSVC(**params).fit(X, y).intercept_.any()
    with pytest.raises(ValueError, match="fit_intercept: 'free' needs solver='dual'"):
        IntersectionSVC(fit_intercept="free", **params).fit(X, y)


@pytest.mark.parametrize("estimator", [AdditiveSVC, PowerMeanSVC])
def test_partial_fit_takes_the_scale_from_the_first_piece(digits, estimator):
    X, y, _, _ = digits
    model = estimator().partial_fit(X[:100] / 16, y[:100], classes=[0, 1])
    cost = model.C_
    model.partial_fit(X[100:] / 160, y[100:])
    assert cost == model.C_
    expected = scaled_cost(estimator, X[:100]) / (X[:100] / 16).sum(axis=1).mean()
    assert cost == pytest.approx(expected, rel=1e-2)


def test_pieces_of_a_fit_have_one_scale(digits):
    X, y, _, _ = digits
    pieces = AdditiveSVC().fit_chunks([(X[:100], y[:100]), (X[100:], y[100:])])
    assert pytest.approx(AdditiveSVC().fit(X, y).C_) == pieces.C_


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_wrong_costs_and_intercepts_are_refused(digits, estimator):
    X, y, _, _ = digits
    for C in ("auto", 0.0, -1.0):
        with pytest.raises(ValueError, match="C: must be"):
            estimator(C=C).fit(X, y)
    with pytest.raises(ValueError, match="fit_intercept: must be one of"):
        estimator(fit_intercept="penalised").fit(X, y)


def test_rows_of_zeros_have_a_cost():
    model = AdditiveSVC().fit(np.zeros((4, 2)), [0, 1, 0, 1])
    assert model.kernel_mean_ == 1.0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_model_files_hold_the_scale(digits, estimator, tmp_path):
    X, y, _, _ = digits
    model = estimator().fit(X, y)
    widemargin.save(model, tmp_path / "model")
    loaded = widemargin.load(tmp_path / "model")
    assert (loaded.C, loaded.C_, loaded.kernel_mean_) == ("scale", model.C_, model.kernel_mean_)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
