"""SpSVC: scores by brute force, optima by L-BFGS, and what every estimator owes its users."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.baselines.data import make_data
from tests.baselines.primal import minimise_primal, with_ones
from widemargin.baselines import SpSVC
from widemargin.baselines.spsvm import RowValues, score_candidates
from widemargin.kernels import RBF, make_kernel
from widemargin.parallel import open_workers
from widemargin.projected.basis import Columns, KernelRows
from widemargin.projected.machine import Machine


def measure(model, X, sign, cost, function=0):
    """J of one function by its definition, and of the optimum on its basis.

    With ``K_B = R R'`` and ``v = R' w`` the penalty ``w' K_B w`` is ``v'v``; the bias has none.
    """
    basis = np.flatnonzero(model.coef_[function])
    B = model.basis_vectors_[basis]
    K, K_B = rbf_kernel(X, B, gamma=model.gamma), rbf_kernel(B, gamma=model.gamma)
    w = model.coef_[function, basis]
    errors = np.maximum(1 - sign * (K @ w + model.intercept_[function]), 0)
    features = with_ones(np.linalg.solve(np.linalg.cholesky(K_B), K.T).T)
    penalty = np.append(0.0, np.ones(len(w)))
    return w @ K_B @ w + cost @ errors**2, minimise_primal(features, penalty, sign, cost)


@pytest.mark.parametrize(("C", "gamma"), [(0.1, 0.05), (1.0, 0.3), (100.0, 0.3)])
def test_coefficients_are_the_optimum_on_the_basis(C, gamma):
    X, y = make_data()
    model = SpSVC(n_basis=15, C=C, gamma=gamma, random_state=0).fit(X, y)
    value, optimum = measure(model, X, 2 * y - 1, np.full(len(y), C))
    assert model.n_basis_ == 15 == len(model.basis_indices_)
    assert_allclose(model.objective_, value, rtol=1e-8)
    assert_allclose(value, optimum, rtol=1e-6)
    assert_array_equal(model.basis_vectors_, X[model.basis_indices_])


def test_coefficients_of_every_class_are_the_optimum():
    X, y = make_blobs(240, centers=3, cluster_std=1.5, random_state=0)
    model = SpSVC(n_basis=6, C=10.0, gamma=0.1, random_state=0).fit(X, y)
    assert model.decision_function(X).shape == (240, 3)
    for c in range(3):
        sign = np.where(y == c, 1, -1)
        value, optimum = measure(model, X, sign, np.full(len(y), 10.0), c)
        assert_allclose(model.objective_[c], value, rtol=1e-8)
        assert_allclose(value, optimum, rtol=1e-6)
    assert_array_equal(model.n_basis_, [6, 6, 6])
    assert model.score(X, y) > 0.75


def grow_machine(data, y, cost, rows):
    machine = Machine(Columns(data), y, cost)
    for row in rows:
        machine.columns.append(row, data.column(row))
        machine.append()
        machine.settle()
    return machine


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("name", "C"), [("rbf", 0.01), ("rbf", 1.0), ("rbf", 1e4), ("linear", 1.0), ("poly", 10.0)]
)
@pytest.mark.parametrize("n_basis", [0, 4])
def test_scores_equal_brute_force(name, C, n_basis, n_jobs):
    X, y = make_data(120)
    sign = np.where(y == 1, 1.0, -1.0)
    cost = C * np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    kernel = make_kernel(name, gamma=0.2, degree=3, coef0=1.0)
    candidates = np.arange(20, 80)
    with open_workers(n_jobs) as workers:
        data = KernelRows(kernel, X, workers)
        machine = grow_machine(data, sign, cost, range(n_basis))
        values = RowValues(data, 10**8)
        falls = score_candidates(
            machine, values.take(candidates), machine.columns.kernel_at(candidates),
            values.data.diag[candidates], scale=values.data.diag.max(), workers=workers,
        )  # fmt: skip
    K = kernel.exact(X, X)
    w, errors = machine.solution.u[1:], machine.solution.errors

    def objective(t, row):
        norm = w @ K[:n_basis, :n_basis] @ w + 2 * t * w @ K[row, :n_basis] + t * t * K[row, row]
        return norm + cost @ np.maximum(errors - t * sign * K[row], 0) ** 2

    now = objective(0.0, 0)
    assert_allclose(now, machine.solution.objective, rtol=1e-9)
    best = [minimize_scalar(objective, args=(row,), tol=1e-12).fun for row in candidates]
    assert_allclose(falls, now - np.array(best), rtol=1e-3, atol=1e-6 * now)


def test_the_candidate_with_the_highest_score_is_added():
    X, y = make_data(150)
    sign = np.where(y == 1, 1.0, -1.0)
    model = SpSVC(n_basis=1, C=2.0, gamma=0.3, n_candidates=150).fit(X, y)
    K, errors = rbf_kernel(X, gamma=0.3), 1 - sign * sign.mean()

    def objective(t, row):
        return t * t + 2.0 * np.sum(np.maximum(errors - t * sign * K[row], 0) ** 2)

    values = [minimize_scalar(objective, args=(row,), tol=1e-12).fun for row in range(len(y))]
    assert model.basis_indices_[0] == np.argmin(values)


def test_values_are_computed_once_where_they_fit():
    X, _ = make_data(200)
    with open_workers(1) as workers:
        data = KernelRows(RBF(0.3), X, workers)
        held, again = RowValues(data, 4 * 200 * 200), RowValues(data, 100)
        for rows in (np.array([3, 7, 150]), np.array([7, 199, 3, 0])):
            assert_allclose(held.take(rows), rbf_kernel(X[rows], X, gamma=0.3), rtol=1e-4)
            assert_array_equal(held.take(rows), again.take(rows))


def test_large_data_have_values_of_float32(monkeypatch):
    monkeypatch.setattr("widemargin.projected.basis.EXACT_COLUMNS", 0)
    X, y = make_data()
    model = SpSVC(n_basis=15, C=10.0, gamma=0.3, memory=1000, random_state=0).fit(X, y)
    value, optimum = measure(model, X, 2 * y - 1, np.full(len(y), 10.0))
    assert_allclose(model.objective_, value, rtol=1e-5)
    assert_allclose(value, optimum, rtol=1e-5)


def test_more_vectors_and_more_candidates_lower_the_objective():
    X, y = make_data(600)
    params = {"C": 10.0, "gamma": 0.2}
    by_size = [SpSVC(n_basis=n, random_state=0, **params).fit(X, y).objective_ for n in (5, 10, 20)]
    assert by_size[0] > by_size[1] > by_size[2]
    by_draw = [
        np.mean([
            SpSVC(n_basis=10, n_candidates=n, random_state=seed, **params).fit(X, y).objective_
            for seed in range(5)
        ])
        for n in (1, 20, 600)
    ]  # fmt: skip
    assert by_draw[0] > by_draw[1] > by_draw[2]


def test_weights_equal_repetition():
    X, y = make_data(80)
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    params = {"n_basis": 12, "C": 3.0, "gamma": 0.3, "n_candidates": 500}
    weighted = SpSVC(**params).fit(X, y, sample_weight=counts)
    repeated = SpSVC(**params).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-8)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-5)
    assert counts[weighted.basis_indices_].min() > 0


def test_class_weights_multiply_the_cost():
    X, y = make_data()
    params = {"n_basis": 8, "C": 2.0, "gamma": 0.3, "random_state": 0}
    a = SpSVC(class_weight={0: 1.0, 1: 5.0}, **params).fit(X, y)
    b = SpSVC(**params).fit(X, y, sample_weight=np.where(y == 1, 5.0, 1.0))
    assert_allclose(a.decision_function(X), b.decision_function(X))


def test_sparse_equals_dense():
    X, y = make_data()
    X[np.abs(X) < 0.7] = 0.0
    params = {"n_basis": 10, "gamma": 0.3, "random_state": 0}
    dense, sparse = SpSVC(**params).fit(X, y), SpSVC(**params).fit(csr_matrix(X), y)
    assert_array_equal(dense.basis_indices_, sparse.basis_indices_)
    assert_allclose(dense.decision_function(X), sparse.decision_function(csr_matrix(X)), rtol=1e-6)


def test_number_of_threads_does_not_matter():
    X, y = make_data(2000)
    params = {"n_basis": 10, "gamma": 0.3, "random_state": 0}
    one, two = (SpSVC(n_jobs=n, **params).fit(X, y) for n in (1, 2))
    assert_array_equal(one.coef_, two.coef_)


def test_labels_may_be_strings():
    X, y = make_data()
    names = np.array(["no", "yes"])[y]
    params = {"n_basis": 8, "random_state": 0}
    model = SpSVC(**params).fit(X, names)
    assert_array_equal(model.classes_, ["no", "yes"])
    assert_array_equal(model.predict(X) == "yes", SpSVC(**params).fit(X, y).predict(X) == 1)


def test_dependent_candidates_are_skipped():
    X, y = make_data(40)
    repeated = np.repeat(X, 5, axis=0)
    with pytest.warns(ConvergenceWarning, match="n_basis=60"):
        model = SpSVC(n_basis=60, gamma=0.5, random_state=0).fit(repeated, np.repeat(y, 5))
    assert model.stop_reason_ == "rank"
    assert model.n_basis_ == 40
    assert len(np.unique(model.basis_vectors_, axis=0)) == 40


def test_a_linear_kernel_has_no_more_vectors_than_features():
    X, y = make_data()
    with pytest.warns(ConvergenceWarning, match="no more than 6 independent"):
        model = SpSVC(kernel="linear", n_basis=20, random_state=0).fit(X, y)
    assert model.n_basis_ == 6
    optimum = minimise_primal(with_ones(X), np.append(0.0, np.ones(6)), 2 * y - 1, np.ones(len(y)))
    assert_allclose(model.objective_, optimum, rtol=1e-6)


def test_rows_without_information_leave_the_constant():
    y = np.array([0, 1, 1, 1])
    with pytest.warns(ConvergenceWarning, match="no more than 0 independent"):
        model = SpSVC(kernel="linear", n_basis=2).fit(np.zeros((4, 3)), y)
    assert_array_equal(model.predict(np.ones((2, 3))), [1, 1])


def test_too_many_vectors_are_as_many_as_there_are():
    X, y = make_data(30)
    with pytest.warns(ConvergenceWarning, match="n_basis=31"):
        model = SpSVC(n_basis=31, gamma=0.5).fit(X, y)
    assert model.n_basis_ == 30


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_basis": 0}, "n_basis"),
        ({"n_basis": 2.5}, "n_basis"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"C": 0.0}, "C: "),
        ({"kernel": "precomputed"}, "kernel"),
        ({"memory": "much"}, "memory"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = make_data(40)
    with pytest.raises(ValueError, match=message):
        SpSVC(**params).fit(X, y)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([SpSVC(n_basis=20)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
