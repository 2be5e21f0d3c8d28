"""Every kernel against its formula, on every engine and any part of the matrix."""

import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import pairwise

from tests.reference import kernels as formulas
from widemargin.kernels import (
    KERNELS,
    RBF,
    AnovaChi2,
    AnovaIntersection,
    AnovaRBF,
    CallableKernel,
    Chi2,
    ExpChi2,
    Hellinger,
    Intersection,
    JensenShannon,
    Linear,
    Poly,
    PowerMean,
    Precomputed,
    Sigmoid,
    make_kernel,
)
from widemargin.kernels.tiles_fast import exp2_float32, log2_float32
from widemargin.parallel import Workers, open_workers

ALONE = Workers(1, None)
TOLERANCE = 1e-5

#: Kernel object, its formula, and the parameters of the formula.
CASES = {
    "linear": (Linear(), formulas.linear, {}),
    "rbf": (RBF(0.7), formulas.rbf, {"gamma": 0.7}),
    "poly": (Poly(0.3, 3, 1.5), formulas.poly, {"gamma": 0.3, "degree": 3, "coef0": 1.5}),
    "poly-square": (Poly(0.3, 2), formulas.poly, {"gamma": 0.3, "degree": 2}),
    "poly-0": (Poly(0.3, 0, 1.0), formulas.poly, {"gamma": 0.3, "degree": 0, "coef0": 1.0}),
    "sigmoid": (Sigmoid(0.2, -0.4), formulas.sigmoid, {"gamma": 0.2, "coef0": -0.4}),
    "chi2": (Chi2(), formulas.chi2, {}),
    "exp_chi2": (ExpChi2(0.6), formulas.exp_chi2, {"gamma": 0.6}),
    "intersection": (Intersection(), formulas.intersection, {}),
    "hellinger": (Hellinger(), formulas.hellinger, {}),
    "jensen_shannon": (JensenShannon(), formulas.jensen_shannon, {}),
    "power_mean-8": (PowerMean(-8.0), formulas.power_mean, {"p": -8.0}),
    "power_mean-0.5": (PowerMean(-0.5), formulas.power_mean, {"p": -0.5}),
    "power_mean-1": (PowerMean(-1.0), formulas.power_mean, {"p": -1.0}),
    "power_mean-0": (PowerMean(0.0), formulas.power_mean, {"p": 0.0}),
    "power_mean-inf": (PowerMean(-np.inf), formulas.power_mean, {"p": -np.inf}),
    "anova_chi2": (
        AnovaChi2(0.5, 3.0, 7.0),
        formulas.anova_chi2,
        {"weight": 0.5, "curve_mean": 3.0, "pair_mean": 7.0},
    ),
    "anova_intersection": (AnovaIntersection(), formulas.anova_intersection, {}),
    "anova_rbf": (AnovaRBF(0.4, gamma=2.0), formulas.anova_rbf, {"weight": 0.4, "gamma": 2.0}),
}
#: One case for each loop of the compiled code, for the tests that vary something else.
LOOPS = ["linear", "rbf", "poly", "sigmoid", "chi2", "exp_chi2", "intersection", "jensen_shannon",
         "power_mean-8", "anova_chi2", "anova_intersection", "anova_rbf"]  # fmt: skip


def draw(n, d, density=1.0, seed=0):
    """Non-negative features, a share of them zero."""
    rng = np.random.default_rng(seed)
    return rng.random((n, d)) * (rng.random((n, d)) < density)


def give(X, layout, dtype=np.float64):
    X = X.astype(dtype)
    return sparse.csr_matrix(X) if layout == "csr" else X


def assert_kernel_close(actual, expected, scale=None):
    """Equal to 1e-5 of the largest value of the kernel."""
    scale = np.abs(expected).max(initial=1e-30) if scale is None else scale
    assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * scale)


@cache
def border_case(name, density):
    """Points and kernel matrix whose sides are just past the sides of a tile."""
    kernel, formula, params = CASES[name]
    X, Z = draw(257, 33, density, seed=1), draw(1025, 33, density, seed=2)
    a = kernel.prepare(X)
    return kernel, a, kernel.prepare(Z, like=a), formula(X, Z, **params)


@pytest.mark.parametrize("density", [1.0, 0.2], ids=["full", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "layouts",
    [("dense", "dense"), ("dense", "csr"), ("csr", "dense"), ("csr", "csr")],
    ids="-".join,
)
@pytest.mark.parametrize("name", CASES)
def test_matrix_equals_formula_for_every_input(name, layouts, dtype, density):
    kernel, formula, params = CASES[name]
    X = give(draw(23, 9, density, seed=3), layouts[0], dtype)
    Z = give(draw(17, 9, density, seed=4), layouts[1], dtype)
    assert_kernel_close(kernel(X, Z), formula(X, Z, **params))


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "sigmoid", "anova_rbf"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_negative_features(name, layout):
    kernel, formula, params = CASES[name]
    X = give(draw(20, 6) - 0.5, layout)
    assert_kernel_close(kernel(X), formula(X, **params))


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize(
    "name", ["chi2", "intersection", "hellinger", "jensen_shannon", "power_mean-8"]
)
def test_values_of_histograms_that_differ_much(name, layout):
    """A mean of two numbers is as exact where one is a million million times the other."""
    kernel, formula, params = CASES[name]
    X = 10.0 ** np.random.default_rng(0).uniform(-6, 12, (40, 1))
    expected = formula(X, **params)
    assert_allclose(kernel(give(X, layout)), expected, rtol=TOLERANCE)


@pytest.mark.parametrize("dtypes", [(np.float32, np.float64), (np.float64, np.float32)])
@pytest.mark.parametrize("name", ["rbf", "chi2"])
def test_queries_of_another_dtype(name, dtypes):
    kernel, formula, params = CASES[name]
    X, Z = draw(12, 4).astype(dtypes[0]), draw(9, 4, seed=1).astype(dtypes[1])
    assert_kernel_close(kernel(X, Z), formula(X, Z, **params))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CASES)
def test_exact_matrix_keeps_float64_precision(name):
    kernel, formula, params = CASES[name]
    X, Z = draw(11, 6, 0.6, seed=1), sparse.csr_matrix(draw(7, 6, 0.6, seed=2))
    assert_allclose(kernel.exact(X, Z), formula(X, Z, **params), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_held_have_exact_values(name, layout):
    kernel, formula, params = CASES[name]
    X, Z = draw(11, 6, 0.6, seed=1), draw(7, 6, 0.6, seed=2)
    rows, expected = kernel.hold_exactly(layout(X)), formula(X, X, **params)
    assert_allclose(rows.column(4), expected[:, 4], rtol=1e-12, atol=1e-14)
    between = formula(X, Z, **params)
    for some in (np.array([3, 0, 9]), slice(2, 8)):
        assert_allclose(rows.between(some, Z), between[some], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("density", [1.0, 0.2], ids=["full", "sparse"])
@pytest.mark.parametrize("name", LOOPS)
def test_block_across_tile_borders(name, density):
    kernel, a, b, expected = border_case(name, density)
    out = np.full(expected.shape, np.nan, np.float32)
    kernel.block(a, np.arange(len(a)), b, np.arange(len(b)), out, ALONE)
    assert_kernel_close(out, expected)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("density", [1.0, 0.2], ids=["full", "sparse"])
@pytest.mark.parametrize("name", LOOPS)
def test_accumulate_across_tile_borders(name, density, n_columns, n_threads):
    kernel, a, b, expected = border_case(name, density)
    rows, cols = np.arange(len(a)), np.arange(len(b))
    coef = np.random.default_rng(5).normal(size=(len(b), n_columns))
    out = np.ones((len(a), n_columns))
    with open_workers(n_threads) as workers:
        kernel.accumulate(a, rows, b, cols, coef, out, workers)
    scale = np.abs(expected).max() * np.abs(coef).sum(axis=0).max()
    assert_kernel_close(out, 1.0 + expected @ coef, scale)


@pytest.mark.parametrize("name", ["linear", "rbf", "chi2", "power_mean-8"])
def test_wide_sparse_data(name):
    kernel, formula, params = CASES[name]
    X = give(draw(129, 2100, 0.02, seed=1), "csr")
    Z = give(draw(67, 2100, 0.02, seed=2), "csr")
    expected = formula(X, Z, **params)
    assert_kernel_close(kernel(X, Z), expected)
    a = kernel.prepare(X)
    b = kernel.prepare(Z, like=a)
    coef, out = np.ones((67, 2)), np.zeros((129, 2))
    kernel.accumulate(a, np.arange(129), b, np.arange(67), coef, out, ALONE)
    assert_kernel_close(out, expected @ coef, np.abs(expected).max() * 67)


SUBSETS = {
    "few": ([4], [7]),
    "unordered": ([256, 0, 31, 30], [1024, 3, 2, 1023, 0]),
    "repeated": ([5, 5, 6], [9, 9]),
    "no-rows": ([], [1, 2]),
    "no-columns": ([1, 2], []),
    "nothing": ([], []),
    "many": (list(range(256, 99, -1)), list(range(3, 1025, 2))),
}


@pytest.mark.parametrize("subset", SUBSETS)
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("density", [1.0, 0.2], ids=["full", "sparse"])
@pytest.mark.parametrize("name", ["rbf", "chi2", "anova_chi2"])
def test_parts_of_the_matrix(name, density, n_threads, subset):
    kernel, a, b, expected = border_case(name, density)
    rows, cols = (np.array(index, np.intp) for index in SUBSETS[subset])
    expected = expected[np.ix_(rows, cols)]
    out = np.full((len(rows), len(cols) + 2), -7.0, np.float32)
    coef, product = np.ones((len(cols), 1)), np.full((len(rows), 1), 2.0)
    with open_workers(n_threads) as workers:
        kernel.block(a, rows, b, cols, out, workers)
        kernel.accumulate(a, rows, b, cols, coef, product, workers)
    assert_kernel_close(out[:, : len(cols)], expected, scale=10.0)
    assert_array_equal(out[:, len(cols) :], -7.0)
    assert_kernel_close(product, 2.0 + expected @ coef, scale=10.0 * max(len(cols), 1))


@pytest.mark.parametrize("density", [1.0, 0.2], ids=["full", "sparse"])
@pytest.mark.parametrize("name", CASES)
def test_diagonal(name, density):
    kernel, formula, params = CASES[name]
    X = draw(40, 9, density)
    expected = formula(X, **params).diagonal()
    assert_kernel_close(kernel.diag(kernel.prepare(X)), expected)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize(
    ("kernel", "theirs"),
    [
        (Linear(), pairwise.linear_kernel),
        (RBF(0.3), lambda X, Z: pairwise.rbf_kernel(X, Z, 0.3)),
        (Poly(0.3, 4, 0.5), lambda X, Z: pairwise.polynomial_kernel(X, Z, 4, 0.3, 0.5)),
        (Sigmoid(0.3, 0.5), lambda X, Z: pairwise.sigmoid_kernel(X, Z, 0.3, 0.5)),
        (ExpChi2(0.3), lambda X, Z: pairwise.chi2_kernel(X, Z, 0.3)),
        (
            Chi2(),
            lambda X, Z: (
                0.5 * (X.sum(axis=1)[:, None] + Z.sum(axis=1) + pairwise.additive_chi2_kernel(X, Z))
            ),
        ),
    ],
    ids=["linear", "rbf", "poly", "sigmoid", "exp_chi2", "chi2"],
)
def test_matrix_equals_scikit_learn(kernel, theirs, layout):
    X, Z = draw(40, 12, 0.7, seed=6), draw(30, 12, 0.7, seed=7)
    assert_kernel_close(kernel(give(X, layout), give(Z, layout)), theirs(X, Z))


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_small_tangents_keep_their_digits(layout):
    """A model multiplies tangents with coefficients up to C, so their relative error counts."""
    X = np.linspace(0.01, 3.0, 200)[:, None]
    for gamma in (1e-6, 1e-3, 0.01, 0.03, 0.1):
        found = Sigmoid(gamma, 0.0)(give(X, layout))
        np.testing.assert_allclose(found, np.tanh(gamma * X * X.T), rtol=5e-7)


@pytest.mark.parametrize("spread", [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("norm", [1.0, 60.0, 1e4])
def test_rbf_of_near_duplicates_far_from_the_origin(norm, layout, spread):
    rng = np.random.default_rng(8)
    corners = rng.normal(size=(4, 30)) * (rng.random((4, 30)) < (0.2 if layout == "csr" else 1.0))
    corners *= np.sqrt(norm) / np.linalg.norm(corners, axis=1)[:, None]
    X = np.repeat(corners, 12, axis=0)
    X += spread / np.sqrt(30) * rng.normal(size=X.shape) * (X != 0)
    assert_allclose(RBF(1.0)(give(X, layout)), formulas.rbf(X, gamma=1.0), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("norm", [1.0, 60.0, 1e4])
def test_exp_chi2_of_near_duplicates_with_large_sums(norm):
    rng = np.random.default_rng(8)
    X = np.repeat(rng.random((4, 20)), 10, axis=0)
    X += 0.03 / np.sqrt(norm) * rng.random(X.shape)
    X *= norm / X.sum(axis=1)[:, None]
    expected = formulas.exp_chi2(X, gamma=1.0)
    assert_allclose(ExpChi2(1.0)(X), expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("cls", [RBF, ExpChi2])
def test_exact_duplicates_give_one(cls, layout, gamma):
    X = np.repeat(draw(5, 40, 0.2 if layout == "csr" else 1.0), 3, axis=0)
    K = cls(gamma)(give(X, layout))
    same = np.repeat(np.repeat(np.eye(5, dtype=bool), 3, axis=0), 3, axis=1)
    assert_allclose(K[same], 1.0, rtol=0, atol=TOLERANCE)
    assert (K <= 1.0).all()


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize(
    ("kernel", "value"),
    [(RBF(0.0), 1.0), (ExpChi2(0.0), 1.0), (Poly(0.0, 3, 2.0), 8.0), (Sigmoid(0.0), 0.0)],
    ids=lambda kernel: getattr(kernel, "name", None),
)
def test_gamma_zero_is_constant(kernel, value, layout):
    assert_array_equal(kernel(give(draw(6, 5), layout)), np.float32(value))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_zero_rows_and_columns(name, layout):
    kernel, formula, params = CASES[name]
    X = draw(15, 8, 0.5)
    X[[0, 7, 14]] = 0.0
    X[:, [2, 5]] = 0.0
    assert_kernel_close(kernel(give(X, layout)), formula(X, **params), scale=10.0)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_all_zeros(name, layout):
    kernel, formula, params = CASES[name]
    X = np.zeros((4, 3))
    assert_kernel_close(kernel(give(X, layout)), formula(X, **params), scale=1.0)


@pytest.mark.parametrize("name", CASES)
def test_values_too_small_for_float32_count_as_zero(name):
    kernel, formula, params = CASES[name]
    X = draw(8, 5)
    X[:, [1, 3]] = 1e-50
    assert_kernel_close(kernel(X), formula(X, **params))


@pytest.mark.parametrize("name", CASES)
def test_stored_zeros_and_unsorted_indices(name):
    kernel, formula, params = CASES[name]
    data = np.array([0.0, 0.5, 0.25, 0.0, 1.0, 0.75])
    X = sparse.csr_matrix((data, [2, 0, 3, 1, 2, 0], [0, 2, 3, 6]), shape=(3, 4))
    assert_kernel_close(kernel(X), formula(X, **params))


@pytest.mark.parametrize("p", [-1e-4, -0.01, -100.0, -1e4])
def test_power_mean_near_its_limits(p):
    X = draw(12, 6, 0.8)
    assert_kernel_close(PowerMean(p)(X), formulas.power_mean(X, p=p))


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("name", ["chi2", "intersection", "hellinger", "jensen_shannon",
                                  "power_mean-8"])  # fmt: skip
def test_additive_kernels_are_homogeneous(name, scale):
    kernel, formula, params = CASES[name]
    X = draw(12, 6, 0.8)
    assert_kernel_close(kernel(scale * X), scale * formula(X, **params))


def test_queries_with_features_the_training_points_lack():
    X, Z = np.zeros((3, 70)), draw(5, 70, 0.3)
    X[:, 0] = [0.2, 0.4, 0.6]
    a = Chi2().prepare(X)
    b = Chi2().prepare(Z, like=a)
    out = np.empty((5, 3), np.float32)
    Chi2().block(b, np.arange(5), a, np.arange(3), out, ALONE)
    assert_kernel_close(out, formulas.chi2(Z, X))


@pytest.mark.parametrize(("low", "high", "error"), [(-20, 0, 1.2e-7), (-126, 127.4, 1.2e-7)])
def test_exp2_float32_is_accurate(low, high, error):
    x = np.linspace(low, high, 10001).astype(np.float32)
    values = np.array([exp2_float32(v) for v in x], np.float64)
    assert_allclose(values, np.exp2(x.astype(np.float64)), rtol=error)


@pytest.mark.parametrize("x", [-126.5, -1e4, -np.inf])
def test_exp2_float32_vanishes_below_its_range(x):
    assert 0.0 <= exp2_float32(np.float32(x)) < 2e-38


def test_log2_float32_is_accurate():
    x = np.concatenate([np.logspace(-37, 38, 10001), np.linspace(0.5, 2.0, 10001)])
    x = x.astype(np.float32)
    values = np.array([log2_float32(v) for v in x], np.float64)
    # A rounding of the result itself, and the error that the series may have.
    expected = np.log2(x.astype(np.float64))
    assert_allclose(values, expected, rtol=np.finfo(np.float32).eps, atol=2e-7)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_make_kernel_by_name_ignores_parameters_it_does_not_take(name):
    kernel = make_kernel(name, gamma=0.5, degree=2, coef0=1.0)
    assert type(kernel) is KERNELS[name]
    assert kernel.params().get("gamma", 0.5) == 0.5
    assert kernel.params().get("degree", 2) == 2


def test_make_kernel_keeps_objects_and_wraps_callables():
    kernel = RBF(2.0)
    assert make_kernel(kernel, gamma=1.0) is kernel
    assert make_kernel(pairwise.linear_kernel).function is pairwise.linear_kernel


@pytest.mark.parametrize("kernel", ["gaussian", "RBF", "callable", "", None, 3, ["rbf"]])
def test_make_kernel_refuses_what_it_does_not_know(kernel):
    with pytest.raises(ValueError, match=r"kernel: .* use one of .*rbf"):
        make_kernel(kernel, gamma=1.0)


def test_callable_kernel_equals_the_function():
    X, Z = draw(20, 3), draw(9, 3, seed=1)
    kernel = CallableKernel(lambda A, B: A @ B.T + 1.0)
    a, b = kernel.prepare(X), kernel.prepare(Z)
    rows, cols = np.array([3, 3, 0]), np.array([8, 1])
    out, product = np.empty((3, 2), np.float32), np.ones((3, 2))
    kernel.block(a, rows, b, cols, out, ALONE)
    kernel.accumulate(a, rows, b, cols, np.eye(2), product, ALONE)
    expected = X[rows] @ Z[cols].T + 1.0
    assert_kernel_close(out, expected)
    assert_allclose(product, 1.0 + expected, rtol=1e-12)
    assert_allclose(kernel.diag(a), (X * X).sum(axis=1) + 1.0, rtol=1e-12)


def test_callable_kernel_gets_sparse_rows_as_they_are():
    X = give(draw(8, 5, 0.3), "csr")
    kernel = CallableKernel(lambda A, B: (A @ B.T).toarray())
    assert_kernel_close(kernel(X), formulas.linear(X))


def test_callable_kernel_in_several_tiles(monkeypatch):
    monkeypatch.setattr("widemargin.kernels.custom.TILE_ENTRIES", 30)
    X = draw(20, 3)
    assert_kernel_close(CallableKernel(pairwise.linear_kernel)(X), formulas.linear(X))


@pytest.mark.parametrize("subset", [([], [0, 1]), ([0, 1], []), ([], [])])
def test_callable_kernel_that_refuses_empty_arrays(subset):
    kernel = CallableKernel(pairwise.rbf_kernel)
    points = kernel.prepare(draw(4, 2))
    rows, cols = (np.array(index, np.intp) for index in subset)
    product = np.full((len(rows), 1), 3.0)
    kernel.block(points, rows, points, cols, np.empty((len(rows), len(cols)), np.float32), ALONE)
    kernel.accumulate(points, rows, points, cols, np.ones((len(cols), 1)), product, ALONE)
    assert_array_equal(product, 3.0)


@pytest.mark.parametrize(
    "function",
    [lambda A, B: np.ones(len(A)), lambda A, B: np.ones((len(B), len(A))), lambda A, B: 1.0],
    ids=["vector", "transposed", "scalar"],
)
def test_callable_of_wrong_shape_is_refused(function):
    with pytest.raises(ValueError, match=r"kernel: the callable returned .* return shape \(5, 3\)"):
        CallableKernel(function)(draw(5, 2), draw(3, 2))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_callable_that_returns_non_finite_values_is_refused(bad):
    kernel = CallableKernel(lambda A, B: np.full((len(A), len(B)), bad))
    with pytest.raises(ValueError, match="NaN or infinity"):
        kernel(draw(5, 2))
    with pytest.raises(ValueError, match="NaN or infinity"):
        kernel.diag(kernel.prepare(draw(5, 2)))


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precomputed_kernel(dtype, n_threads):
    rng = np.random.default_rng(0)
    K = rng.normal(size=(700, 50)).astype(dtype)
    rows, cols = rng.permutation(700), np.array([49, 0, 7, 7])
    kernel, coef = Precomputed(), rng.normal(size=(4, 2))
    points = kernel.prepare(K)
    out, product = np.empty((700, 4), np.float32), np.ones((700, 2))
    with open_workers(n_threads) as workers:
        kernel.block(points, rows, points, cols, out, workers)
        kernel.accumulate(points, rows, points, cols, coef, product, workers)
    expected = K[np.ix_(rows, cols)]
    assert_array_equal(out, expected.astype(np.float32))
    assert_allclose(product, 1.0 + expected @ coef, rtol=1e-5, atol=1e-5)
    assert_array_equal(kernel.diag(points), K.diagonal())


@pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_matrix])
def test_numbers_beyond_float32_need_float64(as_matrix):
    X = np.zeros((5, 3))
    X[0, 0] = 1e60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        points = RBF(1.0).prepare(as_matrix(X))
    assert points.values.dtype == points.norms.dtype == np.float64
    assert np.isfinite(points.norms).all()


@pytest.mark.parametrize("kernel", [Poly(20.0, 2, 1.0), RBF(0.5), Chi2()])
def test_products_with_few_columns_are_as_precise_as_with_one(kernel):
    """Sums of many functions are of float32; those of two to eight are not."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(600, 4)))
    points, rows = kernel.prepare(X), np.arange(600)
    coef = rng.normal(size=(600, 8))
    together, alone = np.zeros((600, 8)), np.zeros((600, 8))
    kernel.accumulate(points, rows, points, rows, coef, together, ALONE)
    for m in range(8):
        one = np.zeros((600, 1))
        kernel.accumulate(points, rows, points, rows, coef[:, [m]], one, ALONE)
        alone[:, m] = one[:, 0]
    assert_array_equal(together, alone)
