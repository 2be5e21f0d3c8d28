"""LLSVC: Nystrom's features by NumPy, LIBLINEAR on them, and the kernel SVM in the limit."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.baselines.data import make_data
from tests.baselines.feature_oracles import TIGHT, assert_linear_machine, repeat_rows
from tests.reference import kernels as reference
from widemargin import KernelSVC
from widemargin.additive.anchor_model import find_inverse_root
from widemargin.baselines import features as shared
from widemargin.baselines.features import choose_centres, merge_rows
from widemargin.baselines.llsvm import LLSVC
from widemargin.problem import Problem


def nystrom(kernel, landmarks):
    """Features by the singular value decomposition, as scikit-learn's Nystroem makes them."""
    U, s, Vt = np.linalg.svd(kernel(landmarks, landmarks))
    return lambda X: kernel(X, landmarks) @ (U / np.sqrt(s) @ Vt).T


def rbf(A, B):
    return rbf_kernel(A, B, gamma=0.3)


def make_problem(X, weights=None):
    n = X.shape[0]
    weights = np.ones(n) if weights is None else weights.astype(float)
    return Problem(X, np.arange(n) % 2, np.arange(2), weights, weights, np.arange(n))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_it_is_liblinear_on_nystrom_features(loss, C):
    X, y = make_data(400)
    model = LLSVC(n_landmarks=25, C=C, gamma=0.3, loss=loss, **TIGHT).fit(X[:300], y[:300])
    features = nystrom(rbf, model.landmarks_)
    assert_linear_machine(model, features, X[:300], y[:300], X[300:])


def test_every_class_has_a_machine():
    X, y = make_data(400, n_classes=3)
    class_weight = {0: 2.0, 1: 1.0, 2: 0.5}
    model = LLSVC(
        n_landmarks=20, gamma=0.3, class_weight=class_weight, loss="squared_hinge", **TIGHT
    )
    model.fit(X[:300], y[:300])
    assert model.coef_.shape == (3, 20)
    features = nystrom(rbf, model.landmarks_)
    # LIBLINEAR has class weights for the class asked about only.
    weights = np.array([class_weight[label] for label in y[:300]])
    assert_linear_machine(model, features, X[:300], y[:300], X[300:], weights)


def test_weights_take_part():
    X, y = make_data(400)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, 300)
    model = LLSVC(n_landmarks=20, gamma=0.3, **TIGHT)
    model.fit(X[:300], y[:300], sample_weight=weights)
    features = nystrom(rbf, model.landmarks_)
    assert_linear_machine(model, features, X[:300], y[:300], X[300:], weights)


@pytest.mark.parametrize("n_landmarks", [40, 250])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("rbf", rbf),
        ("poly", lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.3, coef0=1.0)),
        ("chi2", reference.chi2),
        (rbf, rbf),
    ],
)
def test_products_of_features_are_nystroms_approximation(name, function, n_landmarks):
    X, y = make_data(600)
    X = np.abs(X)
    model = LLSVC(
        n_landmarks=n_landmarks, kernel=name, gamma=0.3, degree=2, coef0=1.0, random_state=0
    )
    F = model.fit(X, y).expand(X)
    K_XL, K_L = function(X, model.landmarks_), function(model.landmarks_, model.landmarks_)
    approximate = K_XL @ np.linalg.pinv(K_L, rcond=1e-12 if n_landmarks == 40 else 1e-8) @ K_XL.T
    assert model.landmarks_.shape == (n_landmarks, 6)
    assert_allclose(F @ F.T, approximate, atol=1e-3 * approximate.max())


def test_all_rows_as_landmarks_give_the_kernel_svm():
    X, y = make_data(180)
    model = LLSVC(n_landmarks=1000, C=2.0, gamma=0.3, **TIGHT).fit(X, y)
    K = rbf(X, X)
    assert_allclose(model.expand(X) @ model.expand(X).T, K, atol=1e-9)
    # The constant feature adds one to the kernel.
    peer = KernelSVC(kernel="precomputed", C=2.0, fit_intercept=False, tol=1e-8).fit(K + 1.0, y)
    assert_allclose(model.decision_function(X), peer.decision_function(K + 1.0), atol=1e-5)


def test_eigenvalues_that_are_errors_are_left_out():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 5))
    R = find_inverse_root(A @ A.T, is_float32=False)
    assert R.shape == (30, 5)
    assert_allclose(R @ R.T, np.linalg.pinv(A @ A.T, rcond=1e-10), atol=1e-10)


def test_large_problems_have_features_of_float32(monkeypatch):
    X, y = make_data(1500)
    model = LLSVC(n_landmarks=300, C=10.0, gamma=0.3, tol=0.01, random_state=0)
    dtypes = []
    descend = LLSVC._descend

    def spy(self, problem, rows, norms, deadline):
        dtypes.append(rows.plain_read.dtype)
        assert rows.plain_read.base is not None  # A view of the features, not a copy.
        return descend(self, problem, rows, norms, deadline)

    monkeypatch.setattr(LLSVC, "_descend", spy)
    coarse = model.fit(X, y).decision_function(X)
    fine = model.set_params(tol=1e-6, max_iter=10**5).fit(X, y).decision_function(X)
    assert dtypes == [np.float32, np.float64]
    assert_allclose(coarse, fine, atol=0.1)


def test_blocks_of_rows_do_not_matter(monkeypatch):
    X, y = make_data(500)
    params = {"n_landmarks": 30, "gamma": 0.3, "random_state": 0}
    whole = LLSVC(**params).fit(X, y)
    monkeypatch.setattr(shared, "BLOCK_VALUES", 500)
    parts = LLSVC(**params).fit(X, y)
    assert_allclose(parts.expand(X), whole.expand(X), atol=1e-6)
    assert_allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("convert", [np.asarray, csr_matrix])
def test_equal_rows_are_merged(convert):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (500, 4)).astype(float)
    weights = rng.integers(1, 4, 500).astype(float)
    rows, sums = merge_rows(convert(X), weights, rng)
    assert len(rows) == len(np.unique(X, axis=0)) == len(np.unique(X[rows], axis=0))
    for row, total in zip(rows, sums, strict=True):
        assert total == weights[(X[row] == X).all(axis=1)].sum()


def test_centres_are_those_of_repeated_rows():
    X, y = make_data(400)
    counts, X_more, _ = repeat_rows(X, y)
    kept = counts > 0
    weighted = choose_centres(make_problem(X[kept], counts[kept]), 30, 0)
    repeated = choose_centres(make_problem(X_more), 30, 0)
    assert_allclose(weighted, repeated, atol=1e-12)


def test_centres_are_close_to_the_rows(monkeypatch):
    X, _ = make_data(2000)
    monkeypatch.setattr(shared, "KMEANS_ROWS", 500)
    centres = choose_centres(make_problem(X), 40, 0)
    drawn = X[np.random.default_rng(0).choice(len(X), 40, replace=False)]

    def error(Z):
        return ((X[:, None] - Z) ** 2).sum(axis=2).min(axis=1).mean()

    assert centres.shape == (40, 6)
    assert error(centres) < 0.9 * error(drawn)


def test_weights_equal_repetition():
    X, y = make_data(300)
    counts, X_more, y_more = repeat_rows(X, y)
    params = {"n_landmarks": 30, "C": 0.5, "loss": "squared_hinge", **TIGHT}
    weighted = LLSVC(**params).fit(X, y, sample_weight=counts)
    repeated = LLSVC(**params).fit(X_more, y_more)
    assert_allclose(weighted.landmarks_, repeated.landmarks_, atol=1e-10)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)


def test_sparse_equals_dense():
    X, y = make_data()
    X[np.abs(X) < 0.7] = 0.0
    params = {"n_landmarks": 30, "gamma": 0.3, **TIGHT}
    dense, sparse = LLSVC(**params).fit(X, y), LLSVC(**params).fit(csr_matrix(X), y)
    # k-means takes another way through sparse data; the features are the same functions.
    assert_allclose(dense.landmarks_, sparse.landmarks_, atol=1e-6)
    assert_allclose(dense.decision_function(csr_matrix(X)), dense.decision_function(X), atol=1e-6)
    assert_allclose(sparse.decision_function(csr_matrix(X)), sparse.decision_function(X), atol=1e-6)


def test_labels_may_be_strings_and_models_are_pickled():
    X, y = make_data()
    names = np.array(["no", "yes"])[y]
    model = LLSVC(n_landmarks=30, random_state=0).fit(X, names)
    assert_array_equal(model.classes_, ["no", "yes"])
    assert model.score(X, names) > 0.8
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.decision_function(X), model.decision_function(X))


def test_the_draw_is_that_of_the_seed():
    X, y = make_data()
    a, b, c = (LLSVC(n_landmarks=20, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert_array_equal(a.landmarks_, b.landmarks_)
    assert not np.array_equal(a.landmarks_, c.landmarks_)


def test_a_warm_start_goes_on():
    X, y = make_data()
    model = LLSVC(n_landmarks=30, tol=1e-4, warm_start=True, random_state=0, max_iter=10**5)
    first = model.fit(X, y).n_iter_
    assert model.fit(X, y).n_iter_ < first


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_landmarks": 0}, "n_landmarks"),
        ({"n_landmarks": 2.5}, "n_landmarks"),
        ({"C": -1.0}, "C: "),
        ({"loss": "log"}, "loss"),
        ({"tol": 0.0}, "tol"),
        ({"gamma": -1.0}, "gamma"),
        ({"kernel": "precomputed"}, "kernel"),
        ({"kernel": "nothing"}, "kernel"),
        ({"kernel": "chi2"}, "Negative values"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = make_data(40)
    with pytest.raises(ValueError, match=message):
        LLSVC(**params).fit(X, y)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        LLSVC(n_landmarks=20, random_state=0),
        LLSVC(n_landmarks=5, loss="squared_hinge", random_state=0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
