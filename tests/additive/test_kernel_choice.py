"""The linear kernel on bins beside LIBLINEAR, and the choice between it and intersection."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.svm import LinearSVC

import widemargin
from widemargin import IntersectionSVC
from widemargin.additive.kernel_choice import N_FOLDS, choose_by_folds, deal_folds
from widemargin.problem import Problem

TIGHT = {"C": 0.01, "tol": 1e-8, "max_iter": 100_000, "n_jobs": 1}


def make_counts(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, (200, 12)) * (rng.random((200, 12)) < 0.6) * 1.0
    return X, np.digitize(X[:, :4].sum(axis=1) + rng.normal(0, 2, 200), [6.0, 10.0])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_kernel_is_a_linear_machine(form, loss, n_classes):
    X, y = make_counts()
    y = np.minimum(y, n_classes - 1)
    model = IntersectionSVC(kernel="linear", loss=loss, fit_intercept=False, **TIGHT)
    model.fit(form(X), y)
    peer = LinearSVC(loss=loss, C=0.01, fit_intercept=False, tol=1e-9, max_iter=10**6)
    peer.fit(X / np.sqrt(7.0), y)
    assert_allclose(
        model.decision_function(form(X)), peer.decision_function(X / np.sqrt(7.0)), atol=2e-5
    )
    assert model.kernel_ == "linear"
    slopes = np.diff(model.tables_, axis=2)
    assert_allclose(slopes, slopes[:, :, :1] * np.ones(slopes.shape[2]), atol=1e-12)


def test_linear_kernel_takes_negative_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = X @ [1.0, -1.0, 0.5, 0.0, 0.0] > 0
    model = IntersectionSVC(kernel="linear", n_jobs=1).fit(X, y)
    assert model.score(X, y) > 0.95
    shares = model.explain(X).sum(axis=1) + model.intercept_
    assert_allclose(shares, model.decision_function(X), atol=1e-9)
    assert_allclose(
        model.decision_function(sparse.csr_matrix(X)), model.decision_function(X), atol=1e-12
    )


@pytest.mark.parametrize("is_curved", [True, False])
def test_auto_takes_the_kernel_of_the_data(is_curved):
    rng = np.random.default_rng(1)
    X = rng.random((900, 30))
    score = np.abs(X[:, 0] - 0.5) - 0.25 if is_curved else X @ rng.normal(size=30)
    y = score > np.median(score)
    model = IntersectionSVC(kernel="auto", n_jobs=1).fit(X[:300], y[:300])
    assert model.kernel_ == ("intersection" if is_curved else "linear")
    chosen = IntersectionSVC(kernel=model.kernel_, n_jobs=1).fit(X[:300], y[:300])
    assert_array_equal(model.decision_function(X), chosen.decision_function(X))


def test_auto_is_saved_and_repeatable(tmp_path):
    X, y = make_counts(3)
    model = IntersectionSVC(kernel="auto", random_state=5, n_jobs=1).fit(X, y)
    again = IntersectionSVC(kernel="auto", random_state=5, n_jobs=1).fit(X, y)
    assert model.kernel_ == again.kernel_
    assert_array_equal(model.decision_function(X), again.decision_function(X))
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert loaded.kernel_ == model.kernel_
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_auto_needs_the_dual():
    X, y = make_counts()
    for kernel in ("linear", "auto"):
        with pytest.raises(ValueError, match=r"kernel: .* needs solver='dual'"):
            IntersectionSVC(kernel=kernel, solver="primal").fit(X, y)


def test_auto_works_with_classes_of_one_row():
    X = make_counts()[0]
    for some in ([0, 1], list(range(12))):
        labels = np.where(np.arange(len(some)) == 0, 7, 8)
        model = IntersectionSVC(kernel="auto", n_jobs=1).fit(X[some], labels)
        assert model.kernel_ in ("linear", "intersection")


def test_folds_have_a_share_of_every_class():
    labels = np.repeat([0, 1, 2], [30, 9, 3])
    fold = deal_folds(labels, 0)
    counts = np.array([np.bincount(labels[fold == k], minlength=3) for k in range(N_FOLDS)])
    assert_array_equal(counts, [[10, 3, 1]] * N_FOLDS)


def test_weights_count_in_the_choice():
    n = 30
    labels = np.arange(n) % 2
    weights = np.where(np.arange(n) < 6, 10.0, 1.0)
    problem = Problem(
        np.arange(n, dtype=float)[:, None], labels, np.array([0, 1]), weights, weights, np.arange(n)
    )

    def predict(name, train, test):
        few = test.X[:, 0] < 6
        return np.where(few == (name == "few"), test.labels, 1 - test.labels)

    assert choose_by_folds(problem, ("most", "few"), predict, 0) == "few"
