"""The sparse solver against closed forms, a general minimiser and exhaustive search."""

from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from tests.reference import sparse as reference
from widemargin.kernels import RBF, Chi2, Linear
from widemargin.parallel import Workers, open_workers
from widemargin.projected import basis as sparse_columns
from widemargin.projected import candidates as sparse_candidates
from widemargin.projected.basis import Columns, KernelRows
from widemargin.projected.candidates import Candidates
from widemargin.projected.machine import Machine
from widemargin.projected.scores import Scores
from widemargin.projected.search import Selector, draw_candidates
from widemargin.projected.selection import Search

ALONE = Workers(1, None)


def make_problem(n=80, d=4, seed=0, gamma=0.3, C=5.0):
    """Overlapping classes with weights, and their kernel matrix."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = [1.0, -1.0]
    cost = C * rng.uniform(0.5, 2.0, n)
    kernel = RBF(gamma)
    return X, y, cost, kernel, kernel.exact(X, X)


def make_machine(X, y, cost, kernel, rows, *, ridge=False):
    columns = Columns(KernelRows(kernel, X, ALONE), is_ridge=ridge)
    machine = Machine(columns, y, cost)
    for row in rows:
        columns.append(row, columns.data.column(row))
        machine.append()
        machine.settle()
    return machine


def select(X, y, cost, kernel, n_basis, *, is_held=True, **options):
    columns = Columns(KernelRows(kernel, X, ALONE), is_held=is_held)
    machines = [Machine(columns, labels, cost) for labels in np.atleast_2d(y)]
    search = Search(n_basis, **options)
    rng = np.random.default_rng(0)
    candidates = draw_candidates(columns.data, search, rng)
    selector = Selector(columns, machines, search, lambda: candidates, rng)
    return selector.run(), selector


@given(
    seed=st.integers(0, 10**6), n=st.integers(8, 60), n_basis=st.integers(1, 7),
    log_c=st.floats(-3, 4), ridge=st.booleans(),
)  # fmt: skip
@settings(deadline=None, max_examples=40, derandomize=True)
def test_a_machine_is_at_the_optimum_of_its_basis(seed, n, n_basis, log_c, ridge):
    X, y, cost, kernel, K = make_problem(n, seed=seed, C=10.0**log_c)
    rows = list(np.random.default_rng(seed).choice(n, n_basis, replace=False))
    machine = make_machine(X, y, cost, kernel, rows, ridge=ridge)
    best, _ = reference.minimise(K, rows, y, cost, ridge=ridge)
    u = np.append(machine.intercept, machine.solution.u[1:])
    value, gradient = reference.objective(K, rows, y, cost, u, ridge=ridge)
    assert_allclose(machine.solution.objective, value, rtol=1e-9)
    assert value <= best * (1 + 1e-7)
    assert np.abs(gradient).max() <= 1e-6 * (1 + cost.sum())


def test_updates_equal_the_closed_forms():
    X, y, cost, kernel, K = make_problem()
    machine = make_machine(X, y, cost, kernel, [3, 30, 11, 62, 7])
    columns = machine.columns

    def check():
        support = np.flatnonzero(machine.support)
        rows = columns.rows
        w, b, value, q, lines = reference.solve_fixed(K, rows, y, cost, support)
        assert_allclose(machine.intercept, b, rtol=1e-8)
        assert_allclose(machine.solution.u[1:], w, rtol=1e-8)
        assert_allclose(machine.solution.objective, value, rtol=1e-10)
        # From columns without their means to kernel values as they are.
        back = np.eye(len(w) + 1)
        back[0, 1:] = -columns.means
        inverse = back @ np.linalg.inv(machine.factor @ machine.factor.T) @ back.T
        assert_allclose(1.0 / inverse[0, 0], q, rtol=1e-7)
        assert_allclose(-inverse[1:, 0] / inverse[0, 0], lines, rtol=1e-6, atol=1e-9)

    check()
    for at, row in [(0, 45), (3, 12), (4, 70), (1, 3)]:
        old = columns.column(at)
        columns.replace(at, row, columns.data.column(row))
        machine.exchange(at, old)
        machine.settle()
        check()
    for at in (2, 0):
        old = columns.column(at)
        columns.remove(at)
        machine.remove(at, old)
        machine.settle()
        check()


def test_distance_from_the_span_of_a_basis():
    X, _, _, kernel, K = make_problem()
    columns = Columns(KernelRows(kernel, X, ALONE))

    def check(row, leaving=None):
        rows = [r for at, r in enumerate(columns.rows) if at != leaving]
        alone = K[row, row]
        if rows:
            alone -= K[row, rows] @ np.linalg.solve(K[np.ix_(rows, rows)], K[rows, row])
        assert_allclose(columns.distance(row, K[:, row], leaving), alone, rtol=1e-9)
        assert_allclose(columns.penalty[1:, 1:], K[np.ix_(columns.rows, columns.rows)], rtol=1e-12)
        assert not columns.penalty[0].any()

    for row in (5, 17, 40, 63):
        check(row)
        columns.append(row, K[:, row])
        check(2)
    check(2, leaving=1)
    columns.replace(1, 33, K[:, 33])
    check(2)
    columns.remove(0)
    check(2)
    columns.restore([5, 17, 8])
    check(2)


@pytest.mark.parametrize("is_exact", [True, False])
def test_scores_are_what_changes_are_worth_with_the_same_support_vectors(is_exact):
    X, y, cost, kernel, K = make_problem(40)
    rows = [3, 30, 11, 20]
    machine = make_machine(X, y, cost, kernel, rows)
    data, everyone = machine.columns.data, np.arange(40)
    with mock.patch.object(sparse_candidates, "EXACT_ROWS", 10**6 if is_exact else 0):
        scores = Scores(machine, Candidates(data, everyone, 10**9))
    support = np.flatnonzero(machine.support)

    def value(basis):
        return reference.solve_fixed(K, list(basis), y, cost, support)[2]

    now = value(rows)
    # Else kernel values are those of float32.
    rtol = 1e-6 if is_exact else 2e-3
    gains, falls = scores.gains(), scores.exchanges()
    others = [z for z in range(40) if z not in rows]
    assert_allclose(gains[others], [now - value([*rows, z]) for z in others], rtol=rtol)
    assert_allclose(gains[rows], 0.0)
    losses = [value(np.delete(rows, i)) - now for i in range(4)]
    assert_allclose(machine.losses, losses, rtol=1e-6)
    for i in range(4):
        expected = [now - value([*np.delete(rows, i), z]) for z in others]
        assert_allclose(falls[i, others], expected, rtol=10 * rtol, atol=rtol * now)


def test_losses_are_equation_61_with_the_inverse_of_h():
    """PSVM Eq. 61 prints an entry of H; Eq. 58 and the objective itself need one of inv(H)."""
    X, y, _, kernel, K = make_problem(40)
    C, rows = 5.0, [3, 30, 11, 20]
    cost = np.full(40, C)
    machine = make_machine(X, y, cost, kernel, rows)
    support = np.flatnonzero(machine.support)
    columns, ones = K[np.ix_(support, rows)], np.ones(len(support))
    H = K[np.ix_(rows, rows)] / C + columns.T @ columns
    q = C * (ones @ ones - ones @ columns @ np.linalg.solve(H, columns.T @ ones))
    lines = np.linalg.solve(H, columns.T @ ones)
    w = machine.solution.u[1:]
    inverse = C * w**2 / (np.linalg.inv(H).diagonal() + C * lines**2 / q)
    printed = C * w**2 / (H.diagonal() + C * lines**2 / q)
    now = reference.solve_fixed(K, rows, y, cost, support)[2]
    rises = [
        reference.solve_fixed(K, [r for r in rows if r != row], y, cost, support)[2] - now
        for row in rows
    ]
    assert_allclose(inverse, rises, rtol=1e-7)
    assert_allclose(machine.losses, inverse, rtol=1e-7)
    assert not np.isclose(printed, rises, rtol=0.1).any()


def test_the_first_basis_vector_is_that_of_procedure_1():
    X, y, cost, kernel, K = make_problem()
    result, _ = select(X, y, cost, kernel, 1, refine=False)
    share = cost / cost.sum()
    centred = K - share @ K
    labels = y - share @ y
    eta = K.diagonal() + cost @ centred**2
    score = ((cost * labels) @ centred) ** 2 / eta
    assert result.path[0].rows == (int(np.argmax(score)),)


@pytest.mark.parametrize("seed", range(8))
def test_no_single_exchange_lowers_the_objective_of_a_refined_basis(seed):
    X, y, cost, kernel, K = make_problem(30, seed=seed)
    result, _ = select(X, y, cost, kernel, 4, tol=1e-9)
    final = result.final
    rows = list(final.rows)
    assert len(rows) == 4
    best, _ = reference.minimise(K, rows, y, cost)
    assert_allclose(final.objective[0], best, rtol=1e-7)
    for i in range(4):
        for z in set(range(30)) - set(rows):
            others = [*rows[:i], z, *rows[i + 1 :]]
            machine = make_machine(X, y, cost, kernel, others)
            assert machine.solution.objective >= final.objective[0] * (1 - 1e-8)


def test_refining_helps_and_never_hurts():
    X, y, cost, kernel, _ = make_problem(200, seed=3)
    forward, _ = select(X, y, cost, kernel, 12, refine=False)
    refined, _ = select(X, y, cost, kernel, 12, tol=1e-6)
    assert refined.path[-1].objective == forward.final.objective
    assert refined.final.objective[0] < forward.final.objective[0]
    assert refined.n_exchanges > 0
    values = [stage.objective[0] for stage in forward.path]
    assert (np.diff(values) < 0).all()


def test_drift_is_noticed_and_repaired():
    X, y, cost, kernel, K = make_problem()
    machine = make_machine(X, y, cost, kernel, [3, 30, 11])
    before = machine.n_rebuilt
    machine._M[1, 2] *= 1.001
    machine._M[2, 1] *= 1.001
    machine.columns.append(50, machine.columns.data.column(50))
    machine.append()
    machine.settle()
    assert machine.n_rebuilt > before
    best, _ = reference.minimise(K, [3, 30, 11, 50], y, cost)
    assert_allclose(machine.solution.objective, best, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4, 1e6])
def test_large_and_small_kernel_values(scale):
    X, y, cost, _, _ = make_problem(60, seed=4)
    kernel = Linear()
    machine = make_machine(scale * X, y, cost * scale**-2, kernel, [0, 1, 2, 3])
    plain = make_machine(X, y, cost, kernel, [0, 1, 2, 3])
    # The same problem in another unit: w is smaller by the square.
    assert_allclose(machine.solution.objective * scale**2, plain.solution.objective, rtol=1e-6)
    assert_allclose(machine.intercept, plain.intercept, rtol=1e-5)


@pytest.mark.parametrize("offset", [0.0, 10.0, 100.0, 1000.0])
def test_an_offset_of_the_features_is_the_bias_own_business(offset):
    rng = np.random.default_rng(0)
    X = rng.random((200, 5))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=200) > 0.8, 1.0, -1.0)
    result, _ = select(X + offset, y, np.ones(200), Linear(), 6)
    assert len(result.final.rows) >= 5
    assert result.final.objective[0] < 100.0


def test_dependent_points_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1.0, -1.0)
    result, _ = select(X, y, np.ones(60), Linear(), 10)
    assert result.stop_reason == "rank"
    assert len(result.final.rows) == 3
    twice = np.vstack([X[:6], X[:6], X[:6]])
    # Two points of each pair of equal ones have different labels, so nothing separates them.
    labels = np.where(np.arange(18) < 9, 1.0, -1.0)
    result, _ = select(twice, labels, np.ones(18), RBF(0.5), 12)
    assert result.stop_reason == "rank"
    assert len(set(np.array(result.final.rows) % 6)) == len(result.final.rows) == 6


def test_growing_stops_and_shrinks_when_the_rows_are_separated():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 6.0])
    y = np.repeat([1.0, -1.0], 40)
    result, _ = select(X, y, np.ones(80), RBF(0.05), 20)
    assert result.stop_reason == "separated"
    assert len(result.path) < 20
    assert result.final.n_wrong[0] == 0
    kept, _ = select(X, y, np.ones(80), RBF(0.05), 20, refine=False)
    assert kept.final.n_wrong[0] == 0


def test_shrinking_ends_with_a_basis_that_separates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    X += 0.5 * np.sign(X)
    result, selector = select(X, y, np.full(60, 10.0), RBF(0.5), 20)
    assert result.final.n_wrong[0] == 0
    assert 1 < len(result.final.rows) < len(result.path)
    # What went before is whole again, not just its numbers.
    machine = selector.machines[0]
    best, _ = reference.minimise(RBF(0.5).exact(X, X), list(result.final.rows), y, machine.cost)
    assert_allclose(machine.solution.objective, best, rtol=1e-6)
    assert_array_equal(machine.support, machine.solution.errors > 0)


def test_few_candidates_are_drawn_again():
    X, y, cost, kernel, _ = make_problem(60, gamma=2.0)
    result, _ = select(X, y, cost, kernel, 30, n_candidates=3, refine=False)
    assert len(result.final.rows) == 30 or result.stop_reason == "separated"


def test_rows_that_are_all_the_same():
    y = np.tile([1.0, -1.0, 1.0], 5)
    result, _ = select(np.ones((15, 2)), y, np.ones(15), RBF(1.0), 4)
    assert (result.stop_reason, len(result.final.rows)) == ("rank", 1)
    with pytest.raises(ValueError, match="no row has a positive kernel value"):
        select(np.zeros((15, 2)), y, np.ones(15), Linear(), 4)


@pytest.mark.parametrize("held", [True, False])
def test_float32_values_choose_as_well(held):
    X, y, cost, kernel, _ = make_problem(300, seed=2)
    exact, _ = select(X, y, cost, kernel, 15)
    few = {"EXACT_ROWS": 0, "TILE_ROWS": 64, "TILE_COLUMNS": 128}
    with (
        mock.patch.multiple(sparse_candidates, **few),
        mock.patch.object(sparse_columns, "EXACT_COLUMNS", 0),
    ):
        other, _ = select(X, y, cost, kernel, 15, max_bytes=10**9 if held else 1)
    assert other.path[0].rows == exact.path[0].rows
    assert_allclose(other.final.objective, exact.final.objective, rtol=5e-3)


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("n_candidates", [None, 40])
def test_values_of_the_basis_computed_again_choose_the_same(is_exact, n_candidates, monkeypatch):
    X, y, cost, kernel, _ = make_problem(200, seed=3)
    monkeypatch.setattr(sparse_columns, "COPIED_VALUES", 500)
    if not is_exact:
        monkeypatch.setattr(sparse_columns, "EXACT_COLUMNS", 0)
        monkeypatch.setattr(sparse_candidates, "EXACT_ROWS", 0)
    options = {"n_candidates": n_candidates, "max_bytes": 1}
    held, _ = select(X, y, cost, kernel, 12, **options)
    computed, selector = select(X, y, cost, kernel, 12, is_held=False, **options)
    assert computed.n_exchanges > 0
    assert computed.final.rows == held.final.rows
    assert_allclose(computed.final.coef, held.final.coef, rtol=1e-4)
    assert_allclose(computed.final.objective, held.final.objective, rtol=1e-6)
    columns = selector.columns
    assert_allclose(columns.values(slice(None))[:, 3], columns.column(3), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("is_held", [True, False])
def test_a_basis_that_no_longer_separates_gives_way_to_the_last_that_did(is_held):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    result, selector = select(X, y, np.full(60, 100.0), RBF(0.3), 12, is_held=is_held)
    machine, columns = selector.machines[0], selector.columns
    assert machine.is_separated
    # Fewer vectors were tried, and exchanged.
    assert result.n_exchanges > 0
    assert result.final.rows == result.path[-1].rows
    K = RBF(0.3).exact(X, X[columns.rows])
    decisions = K @ machine.solution.u[1:] + machine.intercept
    assert_allclose(1.0 - y * decisions, machine.solution.errors, atol=1e-8)


def test_threads_do_not_change_the_choice():
    X, y, cost, kernel, _ = make_problem(300, seed=2)
    results = []
    for n_jobs in (1, 2, 3):
        with open_workers(n_jobs) as workers:
            columns = Columns(KernelRows(kernel, X, workers))
            machines = [Machine(columns, y, cost)]
            rng = np.random.default_rng(0)
            draw = partial(draw_candidates, columns.data, Search(10), rng)
            selector = Selector(columns, machines, Search(10), draw, rng)
            results.append(selector.run().final)
    for other in results[1:]:
        assert other.rows == results[0].rows
        assert_array_equal(other.coef, results[0].coef)


def test_machines_share_a_basis():
    X, y, cost, kernel, K = make_problem(100, seed=1)
    second = np.where(X[:, 2] > 0.3, 1.0, -1.0)
    result, _ = select(X, np.vstack([y, second]), cost, kernel, 8, tol=1e-6)
    for labels, value in zip((y, second), result.final.objective, strict=True):
        best, _ = reference.minimise(K, list(result.final.rows), labels, cost)
        assert_allclose(value, best, rtol=1e-6)


def test_drawn_candidates_come_near():
    X, y, cost, kernel, _ = make_problem(400, seed=5)
    every, _ = select(X, y, cost, kernel, 15)
    drawn, _ = select(X, y, cost, kernel, 15, n_candidates=59)
    assert drawn.final.objective[0] < 1.05 * every.final.objective[0]


def test_sparse_rows_are_dense_rows():
    X, y, cost, _, _ = make_problem(60)
    X = np.maximum(X, 0.0)
    for kernel in (RBF(0.3), Chi2()):
        dense, _ = select(X, y, cost, kernel, 6)
        thin, _ = select(sparse.csr_matrix(X), y, cost, kernel, 6)
        assert thin.final.rows == dense.final.rows
        assert_allclose(thin.final.coef, dense.final.coef, rtol=1e-6)
