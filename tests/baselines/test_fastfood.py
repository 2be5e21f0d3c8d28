"""FastfoodSVC: projections by Hadamard matrices, kernels in the limit, LIBLINEAR on the features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import hadamard
from scipy.sparse import csr_matrix
from scipy.stats import chi2, kstest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.baselines.data import make_data
from tests.baselines.feature_oracles import TIGHT, assert_linear_machine, repeat_rows
from widemargin.baselines import fastfood_fast as fast
from widemargin.baselines.fastfood import FastfoodSVC, draw_fastfood
from widemargin.baselines.features import compute_features
from widemargin.parallel import open_workers


def project(features, X):
    with open_workers(2) as workers:
        return features.project(X, workers)


def projection_matrix(features):
    """The product of matrices that the projections stand for, block below block."""
    H = hadamard(features.signs.shape[1]).astype(float)
    blocks = [
        H @ np.diag(factors) @ np.eye(len(H))[order] @ H @ np.diag(signs)
        for signs, order, factors in zip(
            features.signs, features.order, features.factors, strict=True
        )
    ]
    return np.diag(features.scale) @ np.vstack(blocks)[: len(features.scale)]


def fourier(features):
    V = projection_matrix(features)[:, : len(features.center)]

    def compute(X):
        angles = (X - features.center) @ V.T
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(V))

    return compute


@pytest.mark.parametrize("size", [1, 2, 8, 64, 1024])
@pytest.mark.parametrize("n_rows", [1, 5, 16])
def test_the_transform_is_a_product_with_the_hadamard_matrix(size, n_rows):
    tile = np.random.default_rng(0).integers(-99, 99, (size, n_rows)).astype(np.float64)
    expected = hadamard(size) @ tile
    flat = tile.ravel()
    fast.transform_tile(flat, size, n_rows)
    assert_array_equal(flat.reshape(size, n_rows), expected)


@pytest.mark.parametrize("n_columns", [1, 3, 16, 100, 700])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_projections_are_the_product_of_the_matrices(n_columns, dtype, rtol):
    X = np.random.default_rng(0).standard_normal((150, n_columns))
    features = draw_fastfood(X.mean(axis=0), 0.3, 3 * n_columns, dtype, 0)
    expected = (X - X.mean(axis=0)) @ projection_matrix(features)[:, :n_columns].T
    assert_allclose(project(features, X), expected, atol=rtol * np.abs(expected).max())
    assert_allclose(project(features, csr_matrix(X)), expected, atol=rtol * np.abs(expected).max())


def test_rows_of_the_matrix_are_as_long_as_gaussian_ones():
    features = draw_fastfood(np.zeros(16), 0.5, 4000, np.float64, 0)
    squares = (projection_matrix(features) ** 2).sum(axis=1)
    assert len(squares) == 2000
    assert kstest(squares, chi2(16).cdf).pvalue > 0.01


def test_products_of_features_tend_to_the_kernel():
    X, _ = make_data(60)
    K = rbf_kernel(X, gamma=0.2)
    errors = []
    for n_features in (256, 4096, 65_536):
        F = compute_features(
            draw_fastfood(np.zeros(6), 0.2, n_features, np.float64, 0), X, np.float64, 1
        )[:, :-1]
        assert F.shape == (60, n_features)
        assert_allclose((F * F).sum(axis=1), 1.0)
        errors.append(np.sqrt(np.mean((F @ F.T - K) ** 2)))
        # A cosine varies by less than one: so does the mean of half as many, but for dependence.
        assert errors[-1] < 2.0 * np.sqrt(2.0 / n_features)
    # Sixteen times the features, a quarter of the error; within chance.
    assert 2.5 < errors[0] / errors[1] < 6.5
    assert 2.5 < errors[1] / errors[2] < 6.5


@pytest.mark.parametrize("n_features", [16, 10])
def test_products_of_features_are_the_kernel_on_average(n_features):
    X, _ = make_data(12)
    K = rbf_kernel(X, gamma=0.2)
    products = []
    for seed in range(400):
        features = draw_fastfood(np.zeros(6), 0.2, n_features, np.float64, seed)
        F = compute_features(features, X, np.float64, 1)[:, :-1]
        products.append(F @ F.T)
    error = np.std(products, axis=0) / np.sqrt(len(products))
    # Sixty-six pairs: more than four standard errors would be no accident.
    assert np.abs(np.mean(products, axis=0) - K).max() < 4.0 * error.max()
    assert error.max() < 0.025


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_is_liblinear_on_these_features(loss, n_classes):
    X, y = make_data(400, n_classes=n_classes)
    model = FastfoodSVC(n_features=59, gamma=0.1, loss=loss, **TIGHT).fit(X[:300], y[:300])
    assert model.n_features_ == 60
    assert model.coef_.shape == (1 if n_classes == 2 else 3, 60)
    assert_linear_machine(model, fourier(model._map), X[:300], y[:300], X[300:])


@pytest.mark.parametrize(
    ("n_columns", "asked", "expected"),
    [(6, 1, 2), (6, 16, 16), (6, 17, 18), (8, 64, 64), (9, 63, 64), (1, 3, 4), (3072, 30, 30)],
)
def test_features_are_as_many_as_asked_for(n_columns, asked, expected):
    assert draw_fastfood(np.zeros(n_columns), 1.0, asked, np.float64, 0).width == expected


def test_what_is_left_out_of_a_block_changes_nothing_else():
    X, _ = make_data(100)
    few, all_ = (draw_fastfood(np.zeros(6), 0.3, n, np.float64, 0) for n in (26, 32))
    assert_array_equal(project(few, X), project(all_, X)[:, :13])


def test_large_problems_have_features_of_float32():
    X, y = make_data(1200)
    model = FastfoodSVC(n_features=256, gamma=0.1, tol=0.01, random_state=0).fit(X, y)
    assert model._map.signs.dtype == np.float32
    F = fourier(model._map)(X)
    assert_allclose(model.expand(X), F, atol=1e-5)
    assert_allclose(model.decision_function(X), F @ model.coef_[0] + model.intercept_[0], atol=1e-3)


def test_data_far_from_zero_keep_their_digits():
    X, y = make_data(600)
    params = {"n_features": 128, "gamma": 0.1, "random_state": 0}
    near = FastfoodSVC(**params).fit(X, y)
    far = FastfoodSVC(**params).fit(X + 1e6, y)
    assert_allclose(far.expand(X + 1e6), near.expand(X), atol=1e-4)


def test_weights_equal_repetition():
    X, y = make_data(300)
    counts, X_more, y_more = repeat_rows(X, y)
    weighted = FastfoodSVC(n_features=64, C=0.5, loss="squared_hinge", **TIGHT).fit(
        X, y, sample_weight=counts
    )
    repeated = FastfoodSVC(n_features=64, C=0.5, loss="squared_hinge", **TIGHT).fit(X_more, y_more)
    assert weighted.gamma_ == pytest.approx(repeated.gamma_)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)


def test_sparse_equals_dense():
    X, y = make_data()
    X[np.abs(X) < 0.7] = 0.0
    params = {"n_features": 64, "gamma": 0.1, **TIGHT}
    dense, sparse = FastfoodSVC(**params).fit(X, y), FastfoodSVC(**params).fit(csr_matrix(X), y)
    assert_allclose(dense.decision_function(X), sparse.decision_function(csr_matrix(X)), atol=1e-6)


def test_labels_may_be_strings():
    X, y = make_data()
    names = np.array(["no", "yes"])[y]
    model = FastfoodSVC(C=10.0, random_state=0).fit(X, names)
    assert_array_equal(model.classes_, ["no", "yes"])
    assert model.score(X, names) > 0.75


def test_the_draw_is_that_of_the_seed():
    X, y = make_data()
    a, b, c = (FastfoodSVC(n_features=32, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert_array_equal(a.decision_function(X), b.decision_function(X))
    assert not np.allclose(a.expand(X), c.expand(X))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_features": 0}, "n_features"),
        ({"n_features": 10.0}, "n_features"),
        ({"C": 0.0}, "C: "),
        ({"gamma": -0.1}, "gamma"),
        ({"loss": "log"}, "loss"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = make_data(40)
    with pytest.raises(ValueError, match=message):
        FastfoodSVC(**params).fit(X, y)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([FastfoodSVC(n_features=32, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
