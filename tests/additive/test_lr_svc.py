"""LRSVC against a linear machine on Nystrom's features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info, threadpool_limits

from tests.reference import kernels as reference
from widemargin import LRSVC
from widemargin.additive import anchors as anchor_choice

TIGHT = {"tol": 1e-8, "max_iter": 100_000, "random_state": 0}


def nystrom(kernel, anchors):
    values, vectors = np.linalg.eigh(kernel(anchors, anchors))
    return lambda X: kernel(X, anchors) @ (vectors / np.sqrt(values))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_it_is_a_linear_machine_on_nystrom_features(digits, loss, as_sparse):
    X, y = digits
    X, y, Z = X[:300], y[:300], X[300:500]
    anchors = X[:30]
    features = nystrom(lambda A, B: reference.rbf(A, B, gamma=0.1), anchors)
    form = sparse.csr_matrix if as_sparse else np.asarray
    model = LRSVC(gamma=0.1, anchors=form(anchors), loss=loss, **TIGHT).fit(form(X), y)
    linear = LinearSVC(loss=loss, fit_intercept=False, tol=1e-9, max_iter=10**6)
    linear.fit(features(X), y)
    assert_allclose(
        model.decision_function(form(Z)), linear.decision_function(features(Z)), atol=1e-5
    )
    # The coefficients belong to the kernel's values at the anchors.
    K = reference.rbf(Z, anchors, gamma=0.1)
    assert_allclose(K @ model.coef_.T, model.decision_function(form(Z)), atol=1e-6)


@pytest.mark.parametrize("anchors", ["kmeans", "random"])
def test_chosen_anchors(digits, anchors):
    X, y = digits
    model = LRSVC(C=10.0, anchors=anchors, random_state=0).fit(X[:1000], y[:1000])
    assert model.anchors_.shape == (100, 64)
    assert model.score(X[1000:], y[1000:]) > 0.93


def test_many_anchors_take_float32_tiles(digits):
    X, y = digits
    model = LRSVC(C=10.0, n_anchors=300, random_state=0).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.94


def test_coinciding_anchors_are_one(digits):
    X, y = digits
    X, y = X[:300], y[:300]
    once = LRSVC(anchors=X[:20], gamma=0.1, **TIGHT).fit(X, y)
    twice = LRSVC(anchors=np.vstack([X[:20], X[:20]]), gamma=0.1, **TIGHT).fit(X, y)
    assert_allclose(twice.decision_function(X), once.decision_function(X), atol=1e-4)


def test_symmetric_explanatory_variables_are_nystrom(digits):
    X, y = digits
    X, y = X[:200], y[:200] % 2
    anchors = X[:15]
    own = LRSVC(
        gamma=0.1, anchors=anchors, explanatory=lambda A: reference.rbf(A, anchors, gamma=0.1),
        **TIGHT,
    ).fit(X, y)  # fmt: skip
    plain = LRSVC(gamma=0.1, anchors=anchors, **TIGHT).fit(X, y)
    assert_allclose(own.decision_function(X), plain.decision_function(X), atol=2e-3)


def test_other_explanatory_variables(digits):
    X, y = digits
    anchors = X[:60]

    def explanatory(A):
        return np.hstack([np.ones((len(A), 1)), reference.rbf(A, anchors[:40], gamma=0.1)])

    model = LRSVC(gamma=0.1, anchors=anchors, explanatory=explanatory, random_state=0)
    model.fit(X[:1000], y[:1000])
    assert model.coef_.shape == (10, 41)
    assert model.score(X[1000:], y[1000:]) > 0.85


def test_explanatory_variables_may_be_sparse(digits):
    X, y = digits
    X, y = X[:200], y[:200]
    dense, stored = (
        LRSVC(gamma=0.1, anchors=X[:40], explanatory=form, max_iter=50, random_state=0)
        .fit(X, y)
        .decision_function(X)
        for form in (np.asarray, sparse.csr_matrix)
    )
    assert_allclose(stored, dense)


def test_histogram_kernels_need_histograms(digits):
    X, y = digits
    assert LRSVC(kernel="chi2", random_state=0).fit(X, y).score(X, y) > 0.9
    with pytest.raises(ValueError, match="Negative values in data X"):
        LRSVC(kernel="chi2").fit(X - 0.5, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_anchors": 0}, "n_anchors: must be"),
        ({"anchors": "grid"}, "anchors: must be one of"),
        ({"anchors": np.zeros((3, 2))}, r"anchors: give an array of shape \(n_anchors, 64\)"),
        ({"anchors": np.full((3, 64), np.nan)}, "anchors: there is NaN or infinity"),
        ({"anchors": sparse.csr_matrix(np.full((3, 64), np.inf))}, "anchors: there is NaN"),
        ({"anchors": -np.eye(3, 64), "kernel": "chi2"}, "anchors: there are negative.*0, 1, 2"),
        ({"kernel": lambda A, B: -(A @ B.T)}, r"kernel: .*not positive .* eigenvalue -\d"),
        ({"kernel": lambda A, B: A @ B.T + A[:, 20:21]}, r"not symmetric.*up to \d"),
        ({"kernel": lambda A, B: 0.0 * A @ B.T}, "kernel: the callable is zero"),
        ({"kernel": "precomputed"}, "kernel: anchors need a kernel"),
        ({"explanatory": 3}, "explanatory: must be a function"),
        ({"explanatory": lambda X: X[:1]}, "explanatory: .* return finite numbers"),
    ],
)
def test_bad_parameters(digits, params, message):
    with pytest.raises(ValueError, match=message):
        LRSVC(**params).fit(*digits)


@pytest.mark.parametrize(("n_anchors", "is_alone"), [(5, True), (400, False)])
def test_kmeans_of_few_rows_uses_one_thread(digits, monkeypatch, n_anchors, is_alone):
    """Threads that have next to nothing to do wait for each other, seconds on busy cores."""
    counts = []

    class Recorder(MiniBatchKMeans):
        def fit(self, *args, **kwargs):
            pools = threadpool_info()
            counts.extend(p["num_threads"] for p in pools if p["user_api"] == "openmp")
            return super().fit(*args, **kwargs)

    monkeypatch.setattr(anchor_choice, "MiniBatchKMeans", Recorder)
    X, y = digits
    with threadpool_limits(limits=2, user_api="openmp"):
        LRSVC(n_anchors=n_anchors, max_iter=1, tol=1e3).fit(X, y)
    assert counts
    assert max(counts) == (1 if is_alone else 2)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_huge_values_are_refused():
    X = 1e200 * np.random.default_rng(0).random((60, 3))
    y = X[:, 0] > X[:, 1]
    with pytest.raises(ValueError, match=r"X: the values are so large.*scale the features"):
        LRSVC().fit(X, y)


def test_another_kernel_may_take_what_the_last_could_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] > 0
    model = LRSVC(kernel="chi2").fit(np.abs(X), y)
    assert model.set_params(kernel="rbf").fit(X, y).score(X, y) > 0.8
