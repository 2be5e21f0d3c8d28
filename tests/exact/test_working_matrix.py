"""The matrix of a working set: whatever enters and leaves, it holds the kernel of its members."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.counting import CountingKernel
from tests.reference import kernels as formulas
from widemargin.exact import pair_moves_fast
from widemargin.exact import working_matrix as working_module
from widemargin.exact.kernel_matrix import CachedGram, Gram
from widemargin.exact.working_matrix import WorkingMatrix
from widemargin.kernels import RBF
from widemargin.parallel import Workers, open_workers

ALONE = Workers(1, None)
# Python cannot call the compiled function, only its source.
tile_of = pair_moves_fast.tile_of.py_func


def draw(n, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def make_gram(X, workers=ALONE):
    kernel = RBF(0.5)
    return Gram(kernel, kernel.prepare(X), workers)


def mark(n, index):
    mask = np.zeros(n, bool)
    mask[index] = True
    return mask


@pytest.fixture(params=[8192, 40, 7], ids=["one tile", "some tiles", "many tiles"])
def tile_side(request, monkeypatch):
    """Sizes at which small matrices have several tiles, parts and strips."""
    monkeypatch.setattr(working_module, "MAX_SIDE", request.param)
    if request.param < 8192:
        monkeypatch.setattr(working_module, "PART", 16)
        monkeypatch.setattr(working_module, "STRIP", 5)


def assert_matrix_of_members(working, K):
    members, side = working.members, working.tiles.shape[2]
    assert len(set(members)) == len(members)
    matrix = np.empty((len(members), len(members)))
    for i in range(len(members)):
        for j in range(0, len(members), side):
            part = matrix[i, j : j + side]
            part[:] = working.tiles[tile_of(i // side, j // side), i % side, : len(part)]
    assert_allclose(matrix, K[np.ix_(members, members)], rtol=0, atol=1e-5)
    assert_array_equal(matrix, matrix.T)
    assert_array_equal(matrix.diagonal(), 1.0)


def test_tiles_are_numbered_ring_by_ring():
    for side in range(1, 6):
        numbers = [tile_of(i, j) for i in range(side) for j in range(side)]
        assert sorted(numbers) == list(range(side * side))


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("max_members", [200, 119, 60], ids=["roomy", "tight", "small"])
@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("seed", range(3))
def test_working_matrix_after_any_changes(seed, max_members, n_threads):
    X = draw(200, seed=seed)
    K = formulas.rbf(X, gamma=0.5)
    rng = np.random.default_rng(seed)
    with open_workers(n_threads) as workers:
        working = WorkingMatrix(make_gram(X, workers), 4 * max_members**2)
        for _ in range(25):
            room = working.max_members
            wanted = mark(200, rng.choice(200, rng.integers(0, room + 1), replace=False))
            working.change_members(wanted)
            assert len(working.members) <= room <= max_members
            assert set(np.flatnonzero(wanted)) <= set(working.members)
            assert_matrix_of_members(working, K)


@pytest.mark.parametrize(
    "sets",
    [
        [range(50), range(50, 100)],
        [range(100), range(40, 60)],
        [range(0, 100, 2), range(100)],
        [range(80), range(20, 100), range(20), range(100)],
        [range(100), [], range(100)],
        [[7], [99], [7, 99], [0]],
    ],
    ids=["replace", "drop", "grow", "both", "empty", "single"],
)
@pytest.mark.usefixtures("tile_side")
def test_working_matrix_grows_and_drops(sets):
    X = draw(100)
    K = formulas.rbf(X, gamma=0.5)
    working = WorkingMatrix(make_gram(X), 10**6)
    for wanted in sets:
        working.change_members(mark(100, list(wanted)))
        assert set(wanted) <= set(working.members)
        assert_matrix_of_members(working, K)


def test_unwanted_members_leave_when_their_place_is_needed():
    working = WorkingMatrix(make_gram(draw(100)), 4 * 60**2)
    working.change_members(mark(100, range(50)))
    working.change_members(mark(100, range(2, 49)))
    assert set(working.members) == set(range(50))
    working.change_members(mark(100, range(2, 64 - 2)))
    assert set(working.members) == set(range(2, 62))


def test_the_matrix_becomes_smaller_when_few_members_are_wanted():
    working = WorkingMatrix(make_gram(draw(100)), 10**6)
    working.change_members(mark(100, range(100)))
    working.change_members(mark(100, range(20, 90)))
    assert set(working.members) == set(range(20, 90))


def test_working_matrix_across_strips():
    X = draw(1300, 2)
    K = formulas.rbf(X, gamma=0.5)
    sizes = [0, 33, 700, 1300]
    with open_workers(3) as workers:
        working = WorkingMatrix(make_gram(X, workers), 10**8)
        for start, stop in pairwise(sizes):
            working.change_members(mark(1300, range(start, stop)) | mark(1300, working.members))
            assert_matrix_of_members(working, K)


def test_kept_entries_are_not_computed_again(entries):
    kernel, X = CountingKernel(0.5), draw(400)
    working = WorkingMatrix(Gram(kernel, kernel.prepare(X), ALONE), 10**7)
    working.change_members(mark(400, range(390)))
    entries.clear()
    working.change_members(mark(400, range(400)))
    assert sum(entries) <= 10 * 400


def test_values_are_copied_from_rows_that_are_kept(entries):
    kernel, X = CountingKernel(0.5), draw(60)
    gram = CachedGram(kernel, kernel.prepare(X), ALONE, 10**6)
    everyone = np.arange(60)
    gram.accumulate(everyone, everyone[:40], np.ones(40), np.zeros(60))
    entries.clear()
    working = WorkingMatrix(gram, 10**6)
    working.change_members(mark(60, range(50)))
    assert sum(entries) == 50 * 10
    assert_matrix_of_members(working, formulas.rbf(X, gamma=0.5))


@pytest.mark.parametrize(("cache_bytes", "max_members"), [(0, 2), (4 * 50**2, 50), (10**9, 100)])
@pytest.mark.usefixtures("tile_side")
def test_working_matrix_stays_within_its_bytes(cache_bytes, max_members):
    working = WorkingMatrix(make_gram(draw(100)), cache_bytes)
    assert 0.9 * max_members <= working.max_members <= max_members
    assert working.tiles.nbytes <= max(cache_bytes, 16)


@pytest.mark.parametrize("n_cols", [0, 1, 4, 7])
def test_working_matrix_product(n_cols):
    X = draw(4200, 2)
    with open_workers(2) as workers:
        working = WorkingMatrix(make_gram(X, workers), 10**9)
        working.change_members(mark(4200, range(4200)))
        rng = np.random.default_rng(0)
        cols, change = rng.choice(4200, n_cols, replace=False), rng.normal(size=n_cols)
        out = np.ones(4200)
        working.accumulate(cols, change, out)
    expected = 1.0 + formulas.rbf(X, X[working.members[cols]], gamma=0.5)[working.members] @ change
    assert_allclose(out, expected, rtol=0, atol=1e-5)
