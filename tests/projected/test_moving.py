"""Basis vectors that move: derivatives by differences, optima that are known, models people use."""

import pickle
import time
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import OptimizeResult, approx_fprime, minimize
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

import widemargin
from tests.reference import sparse as reference
from widemargin import ProjectedSVC
from widemargin.deadline import OutOfTimeError
from widemargin.kernels import RBF, Linear, Poly
from widemargin.parallel import Workers, open_workers
from widemargin.projected import basis as sparse_columns
from widemargin.projected import moving as sparse_move
from widemargin.projected import search as sparse_search
from widemargin.projected.basis import Columns, KernelRows
from widemargin.projected.machine import Machine
from widemargin.projected.moving import _gradient, _put, move_basis

ALONE = Workers(1, None)
KERNELS = [RBF(0.3), Linear(), Poly(0.5, 1, 1.0), Poly(0.4, 3, 1.0)]


def make_machines(kernel, n=80, seed=0, *, rows=(3, 30), is_held=True, workers=ALONE):
    """Two machines on a basis of rows, with weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    labels = [X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n), X[:, 2] + 0.5 * rng.normal(size=n)]
    cost = 5.0 * rng.uniform(0.5, 2.0, n)
    columns = Columns(KernelRows(kernel, X, workers), is_held=is_held)
    for row in rows:
        columns.append(row, columns.data.column(row))
    return columns, [Machine(columns, np.where(y > 0, 1.0, -1.0), cost) for y in labels]


def total(machines):
    return sum(machine.solution.objective for machine in machines)


def move(columns, machines, tol=1e-7, max_steps=500, show=None):
    return move_basis(columns, machines, tol=tol, max_steps=max_steps, show=show)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("is_held", [True, False])
def test_the_derivative_is_that_of_the_optimum(kernel, is_held):
    columns, machines = make_machines(kernel, is_held=is_held)
    vectors = columns.basis_vectors() + 0.1

    def value(flat):
        _put(flat.reshape(vectors.shape), columns, machines)
        return total(machines)

    by_differences = approx_fprime(vectors.ravel(), value, 1e-6).reshape(vectors.shape)
    _put(vectors, columns, machines)
    found = _gradient(vectors, columns, machines)
    assert_allclose(found, by_differences, rtol=1e-3, atol=1e-4 * np.abs(found).max())


@pytest.mark.parametrize("kernel", KERNELS)
def test_machines_end_at_the_optimum_of_the_vectors(kernel):
    columns, machines = make_machines(kernel)
    before = total(machines)
    moved = move(columns, machines)
    assert total(machines) < before
    assert moved.stop_reason == "converged"
    assert_array_equal(columns.basis_vectors(), moved.vectors)
    points = np.vstack([columns.data.X, moved.vectors])
    rows, K = list(range(len(columns.data), len(points))), kernel.exact(points, points)
    for machine in machines:
        y = np.append(machine.y, np.ones(len(rows)))
        cost = np.append(machine.cost, np.zeros(len(rows)))
        best, _ = reference.minimise(K, rows, y, cost)
        assert_allclose(machine.solution.objective, best, rtol=1e-6)


def test_one_vector_is_enough_for_a_linear_machine():
    columns, (machine, _) = make_machines(Linear(), rows=[3])
    X, y, cost = columns.data.X, machine.y, machine.cost

    def value(v):
        errors = np.maximum(1.0 - y * (X @ v[1:] + v[0]), 0.0)
        pull = -2.0 * cost * y * errors
        return v[1:] @ v[1:] + cost @ errors**2, np.append(pull.sum(), 2.0 * v[1:] + X.T @ pull)

    best = minimize(value, np.zeros(4), jac=True, options={"gtol": 1e-9})
    moved = move(columns, [machine], tol=1e-12)
    assert_allclose(machine.solution.objective, best.fun, rtol=1e-6)
    assert_allclose(machine.solution.u[1] * moved.vectors[0], best.x[1:], rtol=1e-3)


def test_values_computed_again_change_nothing():
    results = []
    for is_held in (True, False):
        columns, machines = make_machines(RBF(0.3), is_held=is_held)
        results.append(move(columns, machines, max_steps=5).vectors)
    assert_allclose(results[1], results[0], rtol=1e-6)


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(sparse_columns, "EXACT_COLUMNS", 0)
    results = []
    for n_jobs in (1, 3):
        with open_workers(n_jobs) as workers:
            columns, machines = make_machines(RBF(0.3), n=1500, workers=workers)
            with mock.patch.object(workers, "run", wraps=workers.run) as run:
                results.append(move(columns, machines, max_steps=5).vectors)
            assert max(call.args[0] for call in run.call_args_list) == 1500
    assert_array_equal(results[1], results[0])


def test_a_search_that_ended_early_goes_on():
    columns, machines = make_machines(RBF(0.3))
    move(columns, machines)
    stopped, their_machines = make_machines(RBF(0.3))
    ends = []

    def end_early(*args, options, **more):
        most = 2 if not ends else options["maxiter"]
        found = minimize(*args, options=options | {"maxiter": most}, **more)
        ends.append(total(their_machines))
        found.status = 0
        return found

    with mock.patch.object(sparse_move, "minimize", end_early):
        move(stopped, their_machines)
    assert ends[0] > 1.01 * total(machines)
    assert_allclose(total(their_machines), total(machines), rtol=1e-3)


def test_float32_values_move_as_far(monkeypatch):
    columns, machines = make_machines(RBF(0.3))
    move(columns, machines)
    monkeypatch.setattr(sparse_columns, "EXACT_COLUMNS", 0)
    others, their_machines = make_machines(RBF(0.3))
    assert not others.data.is_exact
    move(others, their_machines, tol=1e-6)
    assert_allclose(total(their_machines), total(machines), rtol=0.02)


def test_the_best_vectors_are_kept_when_a_limit_is_reached():
    columns, machines = make_machines(RBF(0.3))
    before, seen = total(machines), []
    moved = move(columns, machines, max_steps=2, show=lambda vectors: seen.append(vectors))
    assert moved.stop_reason == "max_iter"
    assert moved.n_steps == len(seen) == 2
    assert total(machines) < before
    columns.data.deadline = time.perf_counter() - 1.0
    still = move(columns, machines)
    assert still.stop_reason == "max_time"
    assert_array_equal(still.vectors, moved.vectors)


@pytest.fixture(scope="module")
def overlapping():
    X, y = make_classification(600, 8, flip_y=0.1, class_sep=0.8, random_state=0)
    return X[:400], y[:400], X[400:], y[400:]


def test_few_moved_vectors_do_what_many_rows_do(overlapping):
    X, y, X_test, y_test = overlapping
    rows = ProjectedSVC(n_basis=8).fit(X, y)
    moved = ProjectedSVC(n_basis=5, move=True).fit(X, y)
    assert moved.n_basis_ == 5
    assert moved.objective_ < rows.objective_
    assert moved.score(X_test, y_test) >= rows.score(X_test, y_test) - 0.02
    assert moved.n_iter_ > ProjectedSVC(n_basis=5).fit(X, y).n_iter_
    K = moved.kernel_.exact(X_test, moved.basis_vectors_)
    assert_allclose(moved.decision_function(X_test), K @ moved.coef_[0] + moved.intercept_[0])
    *_, last = moved.staged_decision_function(X_test)
    assert_allclose(last, moved.decision_function(X_test))


@pytest.mark.parametrize("shared_basis", [True, False])
def test_several_classes_are_moved(shared_basis):
    X, y = load_iris(return_X_y=True)
    model = ProjectedSVC(n_basis=2, move=True, shared_basis=shared_basis).fit(X, y)
    n_vectors = 2 if shared_basis else model.n_basis_.sum()
    assert model.basis_vectors_.shape == (n_vectors, 4)
    assert model.coef_.shape == (3, n_vectors)
    assert_array_equal(np.count_nonzero(model.coef_, axis=1), model.n_basis_)
    rows = ProjectedSVC(n_basis=2, shared_basis=shared_basis).fit(X, y)
    assert (model.objective_ < rows.objective_).all()
    assert model.score(X, y) > 0.9


def test_sparse_data_and_model_files(overlapping, tmp_path):
    X, y, X_test, _ = overlapping
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    dense = ProjectedSVC(n_basis=4, move=True).fit(X, y)
    thin = ProjectedSVC(n_basis=4, move=True).fit(sparse.csr_matrix(X), y)
    assert isinstance(thin.basis_vectors_, np.ndarray)
    decisions = thin.decision_function(sparse.csr_matrix(X_test))
    assert_allclose(decisions, dense.decision_function(X_test), atol=1e-4)
    widemargin.save(thin, tmp_path / "model.wm")
    for again in (widemargin.load(tmp_path / "model.wm"), pickle.loads(pickle.dumps(thin))):
        assert_array_equal(again.decision_function(X_test), thin.decision_function(X_test))


def test_what_cannot_move(overlapping):
    X, y, _, _ = overlapping
    for kernel in ("chi2", "sigmoid", lambda a, b: a @ b.T):
        with pytest.raises(ValueError, match="move: basis vectors can move with the kernels rbf"):
            ProjectedSVC(kernel=kernel, move=True).fit(np.abs(X), y)
    with pytest.raises(ValueError, match="move"):
        ProjectedSVC(move="yes").fit(X, y)
    with pytest.warns(ConvergenceWarning, match="exchanges or moves"):
        ProjectedSVC(n_basis=5, move=True, refine=False, max_iter=1).fit(X, y)


def test_the_size_of_a_basis_that_moves_is_found(overlapping, tmp_path):
    X, y, X_test, y_test = overlapping
    model = ProjectedSVC(n_basis="auto", move=True, random_state=0).fit(X, y)
    assert [point.n_basis for point in model.auto_path_] == [1, 2, 4, 8, 16, 32, 64]
    assert model.n_basis_ < ProjectedSVC(n_basis="auto", random_state=0).fit(X, y).n_basis_
    best = max(point.accuracy for point in model.auto_path_)
    chosen = next(p for p in model.auto_path_ if p.n_basis == model.n_basis_)
    assert best - 0.05 < chosen.accuracy <= best
    assert model.score(X_test, y_test) > 0.8
    widemargin.save(model, tmp_path / "model.wm")
    assert widemargin.load(tmp_path / "model.wm").auto_path_ == model.auto_path_


def test_rows_are_called_separated_only_if_they_are():
    outcomes = set()
    for seed in range(12):
        X = np.random.default_rng(seed).normal(size=(120, 3))
        y = np.where(X[:, 0] + 0.3 * X[:, 1] ** 2 > 0, 1, -1)
        rows = ProjectedSVC(n_basis=15, gamma=0.3).fit(X, y)
        moved = ProjectedSVC(n_basis=15, gamma=0.3, move=True).fit(X, y)
        if rows.stop_reason_ == "separated":
            outcomes.add((moved.stop_reason_, bool(moved.score(X, y) == 1.0)))
    assert outcomes == {("separated", True), ("converged", False)}


@pytest.mark.filterwarnings("ignore:ProjectedSVC made max_iter")
def test_exchanges_and_steps_have_a_limit_each(overlapping):
    """``n_iter_`` counts vectors added, exchanges and steps; ``max_iter`` limits the last two."""
    X, y, _, _ = overlapping
    model = ProjectedSVC(n_basis=6, max_iter=2, tol=1e-8, move=True).fit(X, y)
    assert (model.stop_reason_, model.n_iter_) == ("max_iter", 6 + 2 + 2)


def test_finding_a_size_takes_half_of_the_time(overlapping):
    X, y, _, _ = overlapping
    model = ProjectedSVC(n_basis="auto", move=True, max_time=1000.0)
    with mock.patch.object(ProjectedSVC, "_find_size", return_value=2) as find:
        model.fit(X, y)
    left = find.call_args.args[2].deadline - time.perf_counter()
    assert 300.0 < left < 500.0


def test_time_that_is_up_before_vectors_move(monkeypatch):
    X, y = load_iris(return_X_y=True)
    monkeypatch.setattr(sparse_search, "move_basis", mock.Mock(side_effect=OutOfTimeError))
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = ProjectedSVC(n_basis=5, move=True, max_time=1000.0).fit(X, y)
    assert model.stop_reason_ == "max_time"
    assert len(model.basis_vectors_) == np.sum(model.n_basis_) > 3
    assert_array_equal(model.basis_vectors_, X[model.basis_indices_])


def test_a_negative_objective_ends_the_moves(monkeypatch):
    """J is negative with some kernels that are not positive semidefinite."""
    columns, machines = make_machines(Poly(0.4, 3, -0.5))
    for machine in machines:
        machine.solution = replace(machine.solution, objective=-1.0)
    n_runs = 0

    def find_nothing(value, start, **_):
        nonlocal n_runs
        n_runs += 1
        assert n_runs < 5, "the search starts again though a run has found nothing better"
        return OptimizeResult(x=start, status=0)

    monkeypatch.setattr(sparse_move, "minimize", find_nothing)
    assert move(columns, machines).stop_reason == "converged"
