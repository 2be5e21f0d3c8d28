"""The kernel matrix of a problem and its cache of rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.counting import CountingKernel
from tests.reference import kernels as formulas
from widemargin.exact.kernel_matrix import CachedGram, Gram, make_grams
from widemargin.kernels import RBF, CallableKernel, Chi2, Linear, Precomputed
from widemargin.parallel import Workers, open_workers

ALONE = Workers(1, None)


def draw(n, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def make_gram(X, workers=ALONE, index=None):
    kernel = RBF(0.5)
    return Gram(kernel, kernel.prepare(X), workers, index)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("n_features", [1, 3, 4, 9])
def test_matrix_of_few_points_by_rows(n, n_features):
    X, index = draw(2 * n, n_features), np.arange(2 * n)[::2]
    matrix = make_gram(X, index=index).whole()
    assert not matrix.is_known.any()
    rows = np.arange(0, n, 3)
    matrix.fill(rows)
    matrix.fill(rows[:1])
    assert_array_equal(np.flatnonzero(matrix.is_known), rows)
    K = formulas.rbf(X[index], gamma=0.5)
    assert_allclose(matrix.tiles[0, rows], K[rows], rtol=2e-5)
    assert_array_equal(matrix.tiles[0, rows, rows], 1.0)


@pytest.mark.parametrize("kernel", [RBF(5000.0), Chi2(), RBF(0.5)], ids=["wide", "chi2", "large"])
def test_matrix_of_few_points_at_once(kernel, monkeypatch):
    """Where single rows would have too few digits, are sparse, or would not stay in cache."""
    if kernel == RBF(0.5):
        monkeypatch.setattr("widemargin.kernels.summed.ROW_SOURCE_BYTES", 100)
    X = np.abs(draw(40))
    matrix = Gram(kernel, kernel.prepare(X), ALONE).whole()
    assert matrix.is_known.all()
    assert_allclose(matrix.tiles[0], kernel.exact(X, X), rtol=2e-5, atol=1e-7)


def make_cached(X, n_rows, index=None, kernel=None):
    kernel = kernel or RBF(0.5)
    n = len(X) if index is None else len(index)
    return CachedGram(kernel, kernel.prepare(X), ALONE, 4 * n * n_rows, index)


# Gram


@pytest.mark.parametrize("index", [None, [4, 1, 19, 7]], ids=["all", "some"])
def test_gram_counts_from_zero_within_its_problem(index):
    X = draw(20)
    index = None if index is None else np.array(index)
    gram = make_gram(X, index=index)
    K = formulas.rbf(X if index is None else X[index], gamma=0.5)
    assert len(gram) == len(K)
    assert_allclose(gram.diag, K.diagonal())
    rows, cols = np.array([3, 0]), np.array([1, 2, 3])
    out = np.empty((2, 3), np.float32)
    gram.block(rows, cols, out, ALONE)
    assert_allclose(out, K[np.ix_(rows, cols)], rtol=0, atol=1e-6)
    product = np.array([1.0, 2.0])
    gram.accumulate(rows, cols, np.array([1.0, -2.0, 3.0]), product)
    expected = np.array([1.0, 2.0]) + K[np.ix_(rows, cols)] @ [1.0, -2.0, 3.0]
    assert_allclose(product, expected, rtol=0, atol=1e-5)


# CachedGram


@pytest.mark.parametrize("index", [None, np.arange(39, 4, -1)], ids=["all", "some"])
@pytest.mark.parametrize("n_rows", [1, 3, 40])
def test_cached_gram_equals_gram_under_eviction(n_rows, index):
    X = draw(40)
    plain, cached = make_gram(X, index=index), make_cached(X, n_rows, index)
    rng = np.random.default_rng(1)
    for _ in range(60):
        rows = rng.choice(len(plain), rng.integers(0, 35))
        cols = rng.choice(len(plain), rng.integers(0, 9), replace=False)
        coef = rng.normal(size=len(cols))
        ours, theirs = np.ones(len(rows)), np.ones(len(rows))
        cached.accumulate(rows, cols, coef, ours)
        plain.accumulate(rows, cols, coef, theirs)
        assert_allclose(ours, theirs, rtol=0, atol=1e-5)


def test_cached_gram_with_threads():
    X, coef = draw(5000, 2), np.random.default_rng(0).normal(size=40)
    kernel = RBF(0.5)
    points, cols = kernel.prepare(X), np.arange(0, 4000, 100)
    everyone, out = np.arange(5000), np.zeros(5000)
    with open_workers(3) as workers:
        CachedGram(kernel, points, workers, 4 * 5000 * 7).accumulate(everyone, cols, coef, out)
    assert_allclose(out, formulas.rbf(X, X[cols], gamma=0.5) @ coef, rtol=0, atol=1e-4)


def test_cached_rows_are_not_computed_again(entries):
    X = draw(30)
    cached = make_cached(X, 10, kernel=CountingKernel(0.5))
    cols = np.array([2, 8, 5])
    for _ in range(3):
        cached.accumulate(np.arange(30), cols, np.ones(3), np.zeros(30))
    assert sum(entries) == 3 * 30


def test_row_used_longest_ago_makes_room(entries):
    X = draw(30)
    cached = make_cached(X, 2, kernel=CountingKernel(0.5))

    def entries_for(col):
        entries.clear()
        cached.accumulate(np.arange(30), np.array([col]), np.ones(1), np.zeros(30))
        return sum(entries)

    # The value that a new row shares with the other row kept is copied from there.
    assert [entries_for(col) for col in (0, 1, 0, 2, 0, 1)] == [30, 29, 0, 29, 0, 29]


def test_cached_gram_block_equals_gram_block():
    X = draw(30)
    out, expected = np.empty((2, 30), np.float32), np.empty((2, 30), np.float32)
    for gram, target in ((make_cached(X, 1), out), (make_gram(X), expected)):
        gram.block(np.array([3, 4]), np.arange(30), target, ALONE)
    assert_array_equal(out, expected)


# make_grams


def test_problems_on_all_points_share_a_cache():
    kernel, everyone = Linear(), np.arange(20)
    a, b, c = make_grams(kernel, kernel.prepare(draw(20)), ALONE, [everyone] * 3, 10**6)
    assert isinstance(a, CachedGram)
    assert a is b is c


@pytest.mark.parametrize(("d", "kind"), [(3, Gram), (200, CachedGram)])
def test_problems_on_some_points_are_cached_when_rows_are_expensive(d, kind):
    kernel, indices = Linear(), [np.arange(12), np.arange(8, 20)]
    grams = list(make_grams(kernel, kernel.prepare(draw(20, d)), ALONE, indices, 10**6))
    assert [type(gram) for gram in grams] == [kind, kind]
    assert grams[0] is not grams[1]
    for gram, index in zip(grams, indices, strict=True):
        assert_array_equal(gram.index, index)


@pytest.mark.parametrize(("d", "kind"), [(3, Gram), (200, CachedGram)])
def test_single_problem(d, kind):
    kernel = Linear()
    (gram,) = make_grams(kernel, kernel.prepare(draw(20, d)), ALONE, [np.arange(20)], 10**6)
    assert type(gram) is kind


@pytest.mark.parametrize("index", [np.arange(40), np.arange(10, 30)], ids=["all", "some"])
def test_the_diagonal_is_computed_once_for_all_problems_and_in_blocks(index):
    calls = []

    def function(X, Z):
        calls.append(len(X))
        return X @ Z.T

    X, kernel = draw(40), CallableKernel(function)
    grams = list(make_grams(kernel, kernel.prepare(X), ALONE, [index] * 5, 10**6))
    assert sum(calls) == 40
    assert len(calls) < 5
    for gram in grams:
        assert_allclose(gram.diag, np.square(X[gram.index]).sum(axis=1))


def test_precomputed_problem_on_some_points():
    K = draw(30, 30)
    index, rows, cols = np.arange(5, 30), np.array([0, 24]), np.array([1, 3])
    points = Precomputed().prepare(K + K.T)
    (gram,) = make_grams(Precomputed(), points, ALONE, [index], 10**6)
    out = np.zeros(2)
    gram.accumulate(rows, cols, np.ones(2), out)
    assert_allclose(out, (K + K.T)[np.ix_(index[rows], index[cols])].sum(axis=1), rtol=1e-5)
