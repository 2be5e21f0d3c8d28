"""ANOVA kernels: constants of the training rows, definiteness, and the estimators that use them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC, SVR

import widemargin
from tests.reference import kernels as formulas
from widemargin import DCSVC, KernelSVC, KernelSVCCV, KernelSVR, ProjectedSVC
from widemargin.export import to_c
from widemargin.kernels import AnovaChi2, AnovaIntersection, AnovaRBF

KERNELS = {
    "anova_chi2": (AnovaChi2, formulas.anova_chi2, {}),
    "anova_intersection": (AnovaIntersection, formulas.anova_intersection, {}),
    "anova_rbf": (AnovaRBF, formulas.anova_rbf, {"gamma": 3.0}),
}


def interacting(n=160, d=5, seed=0):
    """Rows whose class is an interaction of two features: no sum of curves separates them."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, ((X[:, 0] > 0.5) != (X[:, 1] > 0.5)).astype(int)


def reference_matrix(name, X, Z, weight=0.3):
    """Kernel by its formula, with the means of the diagonals over the rows of X."""
    _, formula, params = KERNELS[name]
    # At weight zero the first sum is alone, and the difference is the second.
    first = np.diag(formula(X, X, weight=0.0, **params)).mean()
    both = np.diag(formula(X, X, weight=1.0, **params)).mean()
    return formula(Z, X, weight=weight, curve_mean=first, pair_mean=both - first, **params)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", KERNELS)
def test_svc_equals_libsvm_on_the_matrix_of_the_formula(name, layout):
    X, y = interacting()
    X[X < 0.1] = 0.0
    Z = interacting(40, seed=1)[0]
    theirs = SVC(kernel="precomputed", C=5.0, tol=1e-6).fit(reference_matrix(name, X, X), y)
    rows = sparse.csr_matrix(X) if layout == "csr" else X
    ours = KernelSVC(kernel=name, C=5.0, tol=1e-6, gamma=3.0).fit(rows, y)
    expected = theirs.decision_function(reference_matrix(name, X, Z))
    assert_allclose(ours.decision_function(Z), expected, atol=1e-4)


@pytest.mark.parametrize("name", KERNELS)
def test_pairs_separate_what_no_sum_of_curves_does(name):
    X, y = interacting()
    pairs = KernelSVC(kernel=name, C=1000.0, gamma=3.0).fit(X, y)
    curves = KernelSVC(kernel=KERNELS[name][0](weight=0.0), C=1000.0).fit(X, y)
    queries = interacting(1000, seed=1)
    assert pairs.score(*queries) > 0.8 > 0.6 > curves.score(*queries)


@pytest.mark.parametrize("name", KERNELS)
def test_svr_equals_libsvm_on_the_matrix_of_the_formula(name):
    X, _ = interacting()
    y = X[:, 0] * X[:, 1] + X[:, 2]
    theirs = SVR(kernel="precomputed", C=5.0, epsilon=0.01, tol=1e-6)
    theirs.fit(reference_matrix(name, X, X), y)
    ours = KernelSVR(kernel=name, C=5.0, epsilon=0.01, tol=1e-6, gamma=3.0).fit(X, y)
    assert_allclose(ours.predict(X), theirs.predict(reference_matrix(name, X, X)), atol=1e-4)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", KERNELS)
def test_constants_are_means_of_the_diagonals(name, layout):
    cls, formula, params = KERNELS[name]
    X = interacting()[0]
    X[X < 0.3] = 0.0
    weights = np.random.default_rng(0).random(len(X))
    kernel = cls(**params).adapt(sparse.csr_matrix(X) if layout == "csr" else X, weights)
    first = np.diag(formula(X, X, weight=0.0, **params))
    pairs = np.diag(formula(X, X, weight=1.0, **params)) - first
    assert_allclose(kernel.curve_mean, np.average(first, weights=weights))
    assert_allclose(kernel.pair_mean, np.average(pairs, weights=weights))
    assert kernel.adapt(10.0 * X, weights) is kernel


@pytest.mark.parametrize("name", ["anova_chi2", "anova_intersection"])
def test_units_of_the_data_do_not_matter(name):
    X, y = interacting()
    model = KernelSVC(kernel=name, C=5.0).fit(X, y)
    scaled = KernelSVC(kernel=name, C=5.0).fit(1e6 * X, y)
    assert_allclose(
        scaled.decision_function(1e6 * X), model.decision_function(X), rtol=1e-3, atol=1e-3
    )


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(KERNELS)),
    st.integers(1, 12),
    st.integers(1, 6),
    st.floats(0.0, 10.0),
    st.integers(0, 2**32 - 1),
)
def test_kernel_matrices_are_positive_semidefinite(name, n, d, weight, seed):
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(n, d)) * (rng.random((n, d)) < 0.7)
    kernel = KERNELS[name][0](weight=weight).adapt(X, np.ones(n))
    K = kernel.exact(X, X)
    assert_allclose(K, K.T, rtol=1e-12)
    assert np.linalg.eigvalsh(K)[0] >= -1e-10 * max(np.trace(K), 1.0)


@pytest.mark.parametrize("name", ["anova_chi2", "anova_intersection"])
def test_wide_sparse_rows(name):
    X = sparse.random(129, 2100, 0.02, format="csr", random_state=1)
    Z = sparse.random(67, 2100, 0.02, format="csr", random_state=2)
    kernel = KERNELS[name][0]().adapt(X, np.ones(129))
    assert_allclose(kernel(X, Z), kernel.exact(X, Z), atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e-120, 1e140])
@pytest.mark.parametrize("name", ["anova_chi2", "anova_intersection"])
def test_exact_values_of_sparse_rows_are_those_of_dense_rows(name, scale):
    rng = np.random.default_rng(0)
    X, Z = (scale * rng.exponential(size=(n, 30)) * (rng.random((n, 30)) < 0.3) for n in (17, 11))
    X[3], Z[5] = 0.0, 0.0
    kernel = KERNELS[name][0]().adapt(X, np.ones(len(X)))
    found = kernel.exact(sparse.csr_matrix(X), sparse.csr_matrix(Z))
    assert_allclose(found, kernel.exact(X, Z), rtol=1e-13)
    assert not found[3].any()
    assert not found[:, 5].any()
    # The value of a row does not depend on the others.
    alone = kernel.exact(sparse.csr_matrix(X[[7]]), sparse.csr_matrix(Z))
    assert_allclose(alone[0], found[7], rtol=0)


def test_radial_kernel_far_from_the_origin():
    X = interacting()[0]
    kernel = AnovaRBF(gamma=4.0).adapt(X, np.ones(len(X)))
    assert_allclose(kernel(X + 1e6), kernel.exact(X, X), atol=1e-5)
    X[0] = 1e9
    assert_allclose(kernel(X), kernel.exact(X, X), atol=1e-5)


def test_radial_kernel_refuses_sparse_data_that_dense_rows_make_too_large():
    X = sparse.csr_matrix((3000, 60_000))
    with pytest.raises(ValueError, match=r"would take 1\.3 GiB as dense rows; use 'anova_chi2'"):
        AnovaRBF().prepare(X)


@pytest.mark.parametrize("name", KERNELS)
def test_rows_with_one_feature_have_no_pairs(name):
    X = np.array([[1.0], [2.0], [4.0], [5.0]])
    model = KernelSVC(kernel=name, C=100.0).fit(X, [0, 0, 1, 1])
    assert model.score(X, [0, 0, 1, 1]) == 1.0
    assert model.kernel_.pair_mean == model.kernel_.curve_mean**2


@pytest.mark.parametrize("weight", [-0.1, np.inf, np.nan])
def test_weights_that_make_no_kernel_are_refused(weight):
    with pytest.raises(ValueError, match="weight: give a finite number that is not negative"):
        AnovaChi2(weight=weight)


def test_values_too_large_for_products_are_refused():
    with pytest.raises(ValueError, match="'anova_chi2' kernel overflow; scale the features"):
        KernelSVC(kernel="anova_chi2", gamma=1.0).fit([[1e200, 1e200], [1.0, 2.0]], [0, 1])


def test_negative_features_are_refused():
    with pytest.raises(ValueError, match=r"column 1: the 'anova_intersection' kernel needs"):
        KernelSVC(kernel="anova_intersection").fit([[1.0, -1.0], [1.0, 2.0]], [0, 1])


def test_gamma_scale_is_that_of_one_feature():
    X, y = interacting()
    assert_allclose(KernelSVC(kernel="anova_rbf").fit(X, y).kernel_.gamma, 1.0 / X.var())


@pytest.mark.parametrize("kernel", [*KERNELS, AnovaChi2(weight=2.0), AnovaRBF(gamma=2.0)], ids=str)
def test_models_are_saved_and_loaded(kernel, tmp_path):
    X, y = interacting()
    model = KernelSVC(kernel=kernel, C=5.0).fit(X, y)
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert loaded.kernel_ == model.kernel_
    assert loaded.kernel == kernel
    assert_allclose(loaded.decision_function(X), model.decision_function(X), rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_tuner_chooses_like_a_loop_over_fits(name):
    X, y = interacting()
    costs = [1.0, 100.0, 1000.0]
    gammas = [3.0] if name == "anova_rbf" else 10
    tuned = KernelSVCCV(kernel=name, Cs=costs, gammas=gammas, cv=4).fit(X, y)
    kernel = tuned.best_estimator_.kernel_
    scores = [cross_val_score(KernelSVC(kernel=kernel, C=C), X, y, cv=4).mean() for C in costs]
    assert_allclose(tuned.best_score_, max(scores), atol=0.02)
    assert tuned.score(X, y) > 0.9


def test_tuner_finds_widths_of_single_features():
    X, y = interacting()
    tuned = KernelSVCCV(kernel="anova_rbf", Cs=3, gammas=4, cv=3).fit(X, y)
    assert tuned.gammas_.min() * X.var() < 1.0 < tuned.gammas_.max() * X.var()
    assert tuned.score(X, y) > 0.9


def test_divide_and_conquer_and_sparse_models():
    X, y = interacting(600)
    exact = KernelSVC(kernel="anova_chi2", C=5.0, fit_intercept=False, tol=1e-5).fit(X, y)
    divided = DCSVC(kernel="anova_chi2", C=5.0, n_levels=2, tol=1e-5, skip_levels=False).fit(X, y)
    assert_allclose(divided.decision_function(X), exact.decision_function(X), atol=1e-2)
    small = ProjectedSVC(n_basis=40, kernel="anova_chi2", C=1000.0).fit(X, y)
    assert small.score(X, y) > 0.9


def test_fixed_point_export_is_refused(tmp_path):
    X, y = interacting()
    model = KernelSVC(kernel="anova_chi2").fit(X, y)
    with pytest.raises(ValueError, match="the 'anova_chi2' kernel has no 'int16' form"):
        to_c(model, tmp_path / "model.c", dtype="int16")


@pytest.mark.parametrize("name", ["anova_chi2", "anova_intersection"])
def test_tiny_values_are_scaled_or_refused(name):
    X, y = interacting(300)
    usual = KernelSVC(kernel=name, tol=1e-6).fit(X, y)
    tiny = KernelSVC(kernel=name, tol=1e-6).fit(1e-100 * X, y)
    assert_allclose(tiny.decision_function(1e-100 * X), usual.decision_function(X), atol=1e-5)
    with pytest.raises(ValueError, match="X: the values are so small"):
        KernelSVC(kernel=name).fit(1e-200 * X, y)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e30])
def test_rows_with_one_feature_of_any_scale(scale):
    X = scale * np.diag(np.arange(1.0, 41.0))
    y = np.arange(40) % 2
    model = KernelSVC(kernel="anova_chi2", gamma=1.0).fit(X, y)
    kernel = model.kernel_
    assert_allclose(kernel.exact(X, X), X / kernel.curve_mean, rtol=1e-12)
    assert np.isfinite(model.decision_function(X)).all()


def test_squares_that_overflow_are_refused():
    """Different values beyond the largest would be clipped to the same value."""
    X = 1e206 * np.random.default_rng(0).integers(0, 4, (40, 3))
    y = (X[:, 0] > 1e206).astype(int)
    with pytest.raises(ValueError, match=r"X: the values are so far apart .* scale the features"):
        KernelSVC(kernel="anova_rbf", gamma=1.0).fit(X, y)
