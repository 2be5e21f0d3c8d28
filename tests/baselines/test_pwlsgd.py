"""PWLSGDSVC: the same steps in plain NumPy, LIBLINEAR on the encodings, and bad input."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.baselines.data import make_data
from widemargin.baselines.pwlsgd import PWLSGDSVC

REGULARISERS = ["difference", "identity"]


def encode(X, train, n_segments, regulariser):
    """Dense encodings with a constant, the knots evenly from the least to the largest value."""
    columns = []
    for x, seen in zip(X.T, train.T, strict=True):
        knots = np.linspace(seen.min(), seen.max(), n_segments + 1)
        if regulariser == "identity":
            hats = np.eye(n_segments + 1)[1:]
            columns += [np.interp(x, knots, hat) for hat in hats]
        else:
            steps = [np.clip((x - a) / (b - a), 0, 1) for a, b in pairwise(knots)]
            columns += [step / np.sqrt(n_segments) for step in steps]
    return np.column_stack([*columns, np.ones(len(X))])


def make_orders(seed, n, n_passes):
    rng = np.random.default_rng(np.random.RandomState(seed).randint(2**31 - 1))
    return np.concatenate([rng.permutation(n) for _ in range(n_passes)])


def run_steps(A, sign, weights, order, alpha, eta0, radius):
    w = np.zeros(A.shape[1])
    for t, i in enumerate(order, 1):
        rate = 1 / (alpha * (t + eta0))
        slope = weights[i] * sign[i] if sign[i] * (A[i] @ w) < 1 else 0.0
        w = (1 - rate * alpha) * w + rate * slope * A[i]
        length = np.linalg.norm(w)
        if slope and length > radius:
            w *= radius / length
    return w


def heights_of(w, n_segments, regulariser):
    w = w[:-1].reshape(-1, n_segments)
    return w if regulariser == "identity" else np.cumsum(w, axis=1) / np.sqrt(n_segments)


@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_steps_are_those_of_plain_numpy(regulariser, project, form):
    X, y = make_data(120, n_features=5)
    X[np.abs(X) < 0.3] = 0.0
    model = PWLSGDSVC(
        C=2.0, n_segments=7, regulariser=regulariser, eta0=3.0, project=project, max_iter=3,
        class_weight={0: 2.0, 1: 0.5}, random_state=4,
    ).fit(form(X), y)  # fmt: skip
    A, weights = encode(X, X, 7, regulariser), np.where(y == 0, 2.0, 0.5)
    alpha = 1 / (2.0 * len(y))
    radius = np.sqrt(weights.mean() / alpha) if project else np.inf
    order = make_orders(4, len(y), 3)
    w = run_steps(A, 2 * y - 1, weights, order, alpha, 3.0, radius)
    assert_allclose(model.heights_[0, :, 1:], heights_of(w, 7, regulariser), rtol=1e-8, atol=1e-10)
    assert_array_equal(model.heights_[0, :, 0], 0)
    assert_allclose(model.intercept_, w[-1:], rtol=1e-8)
    Z = 1.5 * make_data(120, 1, n_features=5)[0]
    assert_allclose(
        model.decision_function(form(Z)), encode(Z, X, 7, regulariser) @ w, rtol=1e-7, atol=1e-9
    )
    assert model.t_ == 3 * len(y)


def test_projection_takes_part():
    X, y = make_data(120, n_features=5)
    models = [
        PWLSGDSVC(C=100.0, max_iter=1, project=project, random_state=0).fit(X, y)
        for project in (True, False)
    ]
    assert np.abs(models[0].heights_ - models[1].heights_).max() > 1e-3


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_every_class_is_set_against_the_rest(iris, regulariser):
    X, y = iris
    model = PWLSGDSVC(n_segments=4, regulariser=regulariser, max_iter=2, random_state=0).fit(X, y)
    A, order = encode(X, X, 4, regulariser), make_orders(0, len(y), 2)
    alpha = 1 / len(y)
    for c in range(3):
        sign = np.where(y == c, 1, -1)
        w = run_steps(A, sign, np.ones(len(y)), order, alpha, 1.0, np.sqrt(1 / alpha))
        assert_allclose(model.decision_function(X)[:, c], A @ w, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize("C", [0.02, 0.2])
def test_many_passes_come_near_the_optimum_of_liblinear(regulariser, C):
    X, y = make_data(300, n_features=5)
    sign, A = 2 * y - 1, encode(X, X, 10, regulariser)
    linear = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=10**6).fit(A, y)
    w = linear.coef_[0]
    optimum = 0.5 * w @ w + C * np.maximum(1 - sign * (A @ w), 0).sum()
    model = PWLSGDSVC(
        C=C, n_segments=10, regulariser=regulariser, max_iter=2000, random_state=0
    ).fit(X, y)
    length = model._model.squared_lengths(regulariser == "difference")[0]
    reached = 0.5 * length + C * np.maximum(1 - sign * model.decision_function(X), 0).sum()
    assert optimum <= reached * (1 + 1e-6)
    assert reached < 1.01 * optimum


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_zeros_of_histograms_cost_nothing(digits, regulariser):
    """Sparse data, also of one precision less, give the model of dense ones."""
    X, y = digits
    model = PWLSGDSVC(regulariser=regulariser, max_iter=2, random_state=0).fit(X[:300], y[:300])
    thin = clone(model).fit(csr_matrix(X[:300], dtype=np.float32), y[:300])
    assert thin._model.place(csr_matrix(X)).values.size == np.count_nonzero(X)
    assert_allclose(thin.heights_, model.heights_, rtol=1e-9, atol=1e-12)
    assert_allclose(
        thin.decision_function(csr_matrix(X)), model.decision_function(X), rtol=1e-9, atol=1e-9
    )


def test_curves_add_up_to_decisions(digits):
    X, y = digits
    model = PWLSGDSVC(C=0.1, random_state=0).fit(X[:1000], y[:1000])
    shares = model.explain(csr_matrix(X[:20]))
    assert_allclose(shares.sum(axis=2) + model.intercept_, model.decision_function(X[:20]))
    values, heights = model.shape_functions(21)[20]
    assert_allclose(values, model.knots_[20])
    assert_allclose(heights, model.heights_[:, 20])
    assert model.score(X[1000:], y[1000:]) > 0.9


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_pieces_go_on_where_the_last_ended(regulariser):
    """A first piece that holds the range, then another: steps in their orders, one after the other."""
    X, y = make_data(120, n_features=5)
    model = PWLSGDSVC(n_segments=5, regulariser=regulariser, alpha=0.01, random_state=0)
    model.partial_fit(X, y, classes=[0, 1])
    model.partial_fit(csr_matrix(X[:50]), y[:50])
    order = np.concatenate([make_orders(0, len(y), 1), make_orders(0, 50, 1)])
    A = encode(X, X, 5, regulariser)
    w = run_steps(A, 2 * y - 1, np.ones(len(y)), order, 0.01, 1.0, 10.0)
    assert_allclose(model.decision_function(X), A @ w, rtol=1e-7, atol=1e-9)
    assert (model.t_, model.n_seen_) == (170, 170)


def test_tolerance_ends_the_passes(cancer):
    X, y = cancer
    model = PWLSGDSVC(C=0.01, tol=0.05, max_iter=500, random_state=0).fit(X, y)
    assert model.stop_reason_ == "converged"
    assert 1 < model.n_iter_ < 500
    with pytest.warns(ConvergenceWarning, match="tol=1e-08"):
        PWLSGDSVC(tol=1e-8, max_iter=2, random_state=0).fit(X, y)


def test_seeds_names_and_copies(iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = PWLSGDSVC(random_state=3).fit(X, names)
    assert_array_equal(clone(model).fit(X, names).heights_, model.heights_)
    assert np.abs(PWLSGDSVC(random_state=4).fit(X, names).heights_ - model.heights_).max() > 0
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert model.score(X, names) > 0.9


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0}, "C: must be greater than 0"),
        ({"alpha": -1.0}, "alpha: must be greater than 0"),
        ({"eta0": 0}, "eta0: must be greater than 0"),
        ({"tol": 0.0}, "tol: must be greater than 0"),
        ({"n_segments": 0}, "n_segments: must be an integer"),
        ({"max_iter": 0}, "max_iter: must be an integer"),
        ({"regulariser": "ridge"}, "regulariser: must be one of 'difference', 'identity'"),
    ],
)
def test_bad_parameters(iris, params, message):
    with pytest.raises(ValueError, match=message):
        PWLSGDSVC(**params).fit(*iris)


def test_bad_pieces(iris):
    X, y = iris
    with pytest.raises(ValueError, match="classes: the first call"):
        PWLSGDSVC().partial_fit(X, y)
    with pytest.raises(TypeError, match="sample_weight"):
        PWLSGDSVC().fit(X, y, sample_weight=np.ones(len(y)))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [PWLSGDSVC(random_state=0), PWLSGDSVC(regulariser="identity", random_state=0)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
