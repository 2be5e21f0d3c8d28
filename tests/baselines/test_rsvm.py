"""RSVC: optima by L-BFGS, random bases, and what every estimator owes its users."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from tests.baselines.data import make_data
from tests.baselines.primal import minimise_primal, with_ones
from tests.test_parallel import blas_threads
from widemargin.baselines import RSVC, rsvm
from widemargin.baselines.features import merge_rows
from widemargin.projected.machine import Machine


def measure(model, X, sign, cost, function=0):
    """J of one function by its definition, and of the optimum on its basis."""
    A = with_ones(rbf_kernel(X, model.basis_vectors_, gamma=model.gamma))
    u = np.append(model.intercept_[function], model.coef_[function])
    errors = np.maximum(1 - sign * (A @ u), 0)
    return u @ u + cost @ errors**2, minimise_primal(A, np.ones(len(u)), sign, cost)


@pytest.mark.parametrize(("C", "gamma"), [(0.1, 0.05), (1.0, 0.3), (100.0, 0.3)])
def test_coefficients_are_the_optimum_on_the_basis(C, gamma):
    X, y = make_data()
    model = RSVC(n_basis=25, C=C, gamma=gamma, random_state=0).fit(X, y)
    value, optimum = measure(model, X, 2 * y - 1, np.full(len(y), C))
    assert model.n_basis_ == 25 == len(model.basis_indices_)
    assert_allclose(model.objective_, value, rtol=1e-8)
    assert_allclose(value, optimum, rtol=1e-6)
    assert_array_equal(model.basis_vectors_, X[model.basis_indices_])


def test_all_classes_share_one_basis():
    X, y = make_blobs(240, centers=3, cluster_std=1.5, random_state=0)
    model = RSVC(n_basis=15, C=10.0, gamma=0.1, random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 15)
    for c in range(3):
        sign = np.where(y == c, 1, -1)
        value, optimum = measure(model, X, sign, np.full(len(y), 10.0), c)
        assert_allclose(model.objective_[c], value, rtol=1e-8)
        assert_allclose(value, optimum, rtol=1e-6)
    assert model.score(X, y) > 0.75


def test_weights_take_part_in_the_optimum():
    X, y = make_data()
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(y))
    model = RSVC(n_basis=25, C=2.0, gamma=0.3, random_state=0).fit(X, y, sample_weight=weights)
    value, optimum = measure(model, X, 2 * y - 1, 2.0 * weights)
    assert_allclose(model.objective_, value, rtol=1e-8)
    assert_allclose(value, optimum, rtol=1e-6)


def test_weights_equal_repetition():
    X, y = make_data(80)
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    params = {"n_basis": 0.3, "C": 3.0, "gamma": 0.3, "random_state": 0}
    weighted = RSVC(**params).fit(X, y, sample_weight=counts)
    repeated = RSVC(**params).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-8)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-6)
    assert counts[weighted.basis_indices_].min() > 0


def test_class_weights_multiply_the_cost():
    X, y = make_data()
    params = {"C": 2.0, "gamma": 0.3, "random_state": 0}
    a = RSVC(class_weight={0: 1.0, 1: 5.0}, **params).fit(X, y)
    b = RSVC(**params).fit(X, y, sample_weight=np.where(y == 1, 5.0, 1.0))
    assert_allclose(a.decision_function(X), b.decision_function(X))


def test_sparse_equals_dense():
    X, y = make_data()
    X[np.abs(X) < 0.7] = 0.0
    dense = RSVC(random_state=0, gamma=0.3).fit(X, y)
    sparse = RSVC(random_state=0, gamma=0.3).fit(csr_matrix(X), y)
    assert_array_equal(dense.basis_indices_, sparse.basis_indices_)
    assert_allclose(dense.decision_function(X), sparse.decision_function(csr_matrix(X)), rtol=1e-6)


def test_large_data_have_values_of_float32(monkeypatch):
    monkeypatch.setattr("widemargin.projected.basis.EXACT_COLUMNS", 0)
    X, y = make_data()
    model = RSVC(n_basis=20, gamma=0.3, random_state=0).fit(X, y)
    value, optimum = measure(model, X, 2 * y - 1, np.ones(len(y)))
    assert_allclose(model.objective_, value, rtol=1e-5)
    assert_allclose(value, optimum, rtol=1e-5)


def test_memory_bounds_training():
    X, y = make_data(4000)
    RSVC(n_basis=3).fit(X[:50], y[:50])
    tracemalloc.start()
    RSVC(n_basis=400, memory="13 MB", random_state=0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Besides, matrices of the size of the basis and blocks of values.
    assert peak < 26_000_000
    with pytest.raises(ValueError, match=r"memory: .* 12,800,000 bytes, more than '12 MB'"):
        RSVC(n_basis=400, memory="12 MB").fit(X, y)


def test_machines_are_solved_by_all_threads_of_blas(monkeypatch):
    X, y = make_data()
    seen = []

    def spy(*args):
        seen.append(blas_threads())
        return Machine(*args)

    monkeypatch.setattr(rsvm, "Machine", spy)
    with threadpool_limits(2, user_api="blas"):
        RSVC(n_basis=5).fit(X, y)
        assert seen == [blas_threads()]


def test_there_are_no_iterations_to_count():
    X, y = make_data(60)
    assert not hasattr(RSVC().fit(X, y), "n_iter_")


def test_labels_may_be_strings():
    X, y = make_data()
    names = np.array(["no", "yes"])[y]
    model = RSVC(random_state=0).fit(X, names)
    assert_array_equal(model.classes_, ["no", "yes"])
    assert_array_equal(model.predict(X) == "yes", RSVC(random_state=0).fit(X, y).predict(X) == 1)


def test_the_draw_is_that_of_the_seed():
    X, y = make_data()
    a, b, c = (RSVC(n_basis=20, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert_array_equal(a.basis_indices_, b.basis_indices_)
    assert not np.array_equal(a.basis_indices_, c.basis_indices_)


@pytest.mark.parametrize("convert", [np.asarray, csr_matrix, lambda X: X.astype(np.float32)])
def test_one_of_equal_rows_is_kept(convert):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (500, 4)).astype(float)
    rows, weights = merge_rows(convert(X), np.ones(len(X)), rng)
    assert len(rows) == len(np.unique(X, axis=0)) == len(np.unique(X[rows], axis=0))
    assert weights.sum() == len(X)


def test_repeated_rows_are_drawn_once():
    X, y = make_data(20)
    model = RSVC(n_basis=0.5, gamma=0.5, random_state=0)
    model.fit(np.repeat(X, 30, axis=0), np.repeat(y, 30))
    assert model.n_basis_ == 10
    assert len(np.unique(model.basis_vectors_, axis=0)) == 10


def test_too_many_vectors_are_as_many_as_there_are():
    X, y = make_data(30)
    with pytest.warns(ConvergenceWarning, match="n_basis=31"):
        model = RSVC(n_basis=31, gamma=0.5).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert model.stop_reason_ == "rank"
    assert model.n_basis_ == 30


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_basis": 0}, "n_basis"),
        ({"n_basis": 0.0}, "n_basis"),
        ({"n_basis": 1.5}, "n_basis"),
        ({"n_basis": True}, "n_basis"),
        ({"n_basis": "4 kB"}, "n_basis"),
        ({"C": -1.0}, "C: "),
        ({"kernel": "precomputed"}, "kernel"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"memory": "much"}, "memory"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = make_data(40)
    with pytest.raises(ValueError, match=message):
        RSVC(**params).fit(X, y)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([RSVC()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
