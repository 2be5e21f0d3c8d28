"""Blocks that one-vs-one problems share: the same matrices as computed for each problem alone."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.svm import SVC

from widemargin import KernelSVC
from widemargin.budget import Budget
from widemargin.exact import several_problems
from widemargin.exact.shared_blocks import BlockGram, group_rows, share_blocks
from widemargin.kernels import RBF, CallableKernel, Precomputed
from widemargin.memory import Buffers
from widemargin.parallel import Workers, open_workers

ALONE = Workers(1, None)


def draw_classes(n=330, n_classes=4, n_features=1200, seed=0):
    """Rows so wide that kernel values are expensive."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    centers = rng.normal(size=(n_classes, n_features))
    return centers[y] + 2.0 * rng.normal(size=(n, n_features)), y


def pair_indices(y):
    pairs = combinations(np.unique(y), 2)
    return [np.flatnonzero((y == a) | (y == b)) for a, b in pairs]


def share(kernel, X, indices, budget=None, workers=ALONE):
    points = kernel.prepare(X)
    budget = Budget() if budget is None else budget
    return points, share_blocks(kernel, points, workers, indices, budget, Buffers())


def test_groups_are_the_classes():
    y = np.array([2, 0, 1, 1, 0, 2, 2, 0, 3])
    groups = group_rows(9, pair_indices(y))
    assert {tuple(rows) for rows in groups.rows} == {(1, 4, 7), (2, 3), (0, 5, 6), (8,)}
    assert len(groups.pairs) == 4 + 6
    for index, order, members in zip(pair_indices(y), groups.orders, groups.members, strict=True):
        assert_array_equal(index[order], np.concatenate([groups.rows[g] for g in members]))


def test_rows_that_no_problem_has_meet_nobody():
    groups = group_rows(7, [np.array([1, 2, 3]), np.array([3, 5])])
    assert groups is None  # {1, 2}, {3} and {5}: more than the problems.
    groups = group_rows(7, [np.array([1, 2, 5]), np.array([5, 2, 1])])
    assert [tuple(rows) for rows in groups.rows] == [(0, 3, 4, 6), (1, 2, 5)]
    assert groups.pairs == [(1, 1)]


@pytest.mark.parametrize(
    ("kernel", "form"),
    [
        (RBF(1e-3), np.asarray),
        (RBF(1e-3), sparse.csr_matrix),
        (CallableKernel(lambda X, Z: X @ Z.T + 1.0), np.asarray),
    ],
)
def test_matrices_of_problems_are_those_of_the_kernel(kernel, form):
    X, y = draw_classes()
    X[np.abs(X) < 2.5] = 0.0
    indices = pair_indices(y)
    points, shared = share(kernel, form(X), indices)
    for index, order, members in zip(
        indices, shared.groups.orders, shared.groups.members, strict=True
    ):
        gram = BlockGram(kernel, points, ALONE, shared, members, Buffers())
        got = np.empty((len(index), len(index)), np.float32)
        gram.fill_whole(got)
        rows = X[index[order]]
        assert_allclose(got, kernel.exact(rows, rows), rtol=2e-5)


def test_every_value_is_computed_once(monkeypatch):
    X, y = draw_classes()
    counted, block = [], RBF.block

    def count(self, a, rows, b, cols, out, workers):
        counted.append(len(rows) * len(cols))
        block(self, a, rows, b, cols, out, workers)

    monkeypatch.setattr(RBF, "block", count)
    share(RBF(1e-3), X, pair_indices(y))
    sizes = np.bincount(y)
    assert sum(counted) == (sizes.sum() ** 2 + np.sum(sizes**2)) // 2


def test_blocks_are_shared_only_where_that_saves_values():
    X, y = draw_classes()
    kernel, indices = RBF(1e-3), pair_indices(y)
    assert share(kernel, X, indices)[1] is not None
    assert share(kernel, X, indices[:1])[1] is None
    assert share(kernel, X, [np.arange(50), np.arange(50, 99)])[1] is None  # Nothing in common.
    assert share(kernel, X, indices, Budget(cache_bytes=10**5))[1] is None
    assert share(kernel, X, indices, Budget(deadline=0.0))[1] is None
    assert share(kernel, X[:, :3], indices)[1] is None  # Cheap values.
    assert share(Precomputed(), X @ X.T, indices)[1] is None
    rng = np.random.default_rng(0)
    anyhow = [np.sort(rng.choice(330, 200, replace=False)) for _ in range(9)]
    assert share(kernel, X, anyhow)[1] is None


def test_blocks_do_not_depend_on_the_number_of_threads():
    X, y = draw_classes()
    kernel, indices = RBF(1e-3), pair_indices(y)
    _, alone = share(kernel, X, indices)
    with open_workers(2) as workers:
        _, together = share(kernel, X, indices, workers=workers)
    for pair in alone.groups.pairs:
        assert_array_equal(alone.blocks[pair], together.blocks[pair])


@pytest.mark.parametrize("intercept", [True, False])
def test_one_vs_one_reaches_the_optimum_of_each_pair(intercept, monkeypatch):
    """With shared blocks, objectives are those of LIBSVM (without intercept: of each pair alone)."""
    X, y = draw_classes(n=900, n_classes=3)
    used, solve_shared = [], several_problems.BlockGram

    def note(*args):
        used.append(args)
        return solve_shared(*args)

    monkeypatch.setattr(several_problems, "BlockGram", note)
    options = {"C": 2.0, "gamma": 1e-3, "tol": 1e-4, "fit_intercept": intercept}
    models = [KernelSVC(n_jobs=n, **options).fit(X, y) for n in (1, 2)]
    assert len(used) == 2 * 3
    assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)
    pairs = combinations(range(3), 2)
    for p, (a, b) in enumerate(pairs):
        at = (y == a) | (y == b)
        if intercept:
            peer = SVC(C=2.0, gamma=1e-3, tol=1e-4).fit(X[at], y[at])
            K = RBF(1e-3).exact(peer.support_vectors_, peer.support_vectors_)
            signed = peer.dual_coef_[0]
            best = 0.5 * signed @ K @ signed - np.abs(signed).sum()
        else:
            best = KernelSVC(**options).fit(X[at], y[at]).objective_
        assert models[0].objective_[p] == pytest.approx(best, rel=1e-6)


def test_a_warm_start_is_sorted_too():
    X, y = draw_classes(n=900, n_classes=3)
    model = KernelSVC(C=2.0, gamma=1e-3, warm_start=True).fit(X, y)
    assert model.n_iter_.sum() > 0
    assert model.fit(X, y).n_iter_.sum() == 0
