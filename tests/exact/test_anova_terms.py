"""Terms of ANOVA expansions against sums over support vectors, one pair at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widemargin.exact.anova_terms import AnovaTerms, Levels, choose_levels, list_pairs
from widemargin.exact.expansion import Expansion
from widemargin.kernels import AnovaChi2, AnovaIntersection, AnovaRBF

KERNELS = [AnovaChi2(0.7, 2.0, 3.0), AnovaIntersection(0.4), AnovaRBF(0.5, gamma=2.0)]


def make_terms(kernel, n_vectors=20, d=4, n_functions=2, seed=0, unit=1.0):
    rng = np.random.default_rng(seed)
    vectors, X = rng.random((n_vectors, d)), rng.random((60, d))
    X[:, 0] = rng.integers(0, 5, 60)
    vectors, X = vectors * unit, X * unit
    coef, intercept = rng.normal(size=(n_functions, n_vectors)), rng.normal(size=n_functions)
    model = Expansion(kernel, vectors, np.arange(n_vectors), coef, intercept)
    levels = [choose_levels(column, 16) for column in X.T]
    return model, AnovaTerms(model, levels), levels, X


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_terms_add_up_to_the_decision(kernel):
    model, terms, _, X = make_terms(kernel)
    total = np.tile(terms.intercept, (len(X), 1))
    for j in range(4):
        total += terms.curve(j, X[:, j]).T
    for i, j in list_pairs(np.arange(4)):
        total += np.array([terms.surface((i, j), x[[i]], x[[j]])[:, 0, 0] for x in X])
    assert_allclose(total, model.decide(X, n_jobs=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_contributions_are_curves_and_surfaces(kernel, monkeypatch):
    monkeypatch.setattr("widemargin.exact.anova_terms.BLOCK_VALUES", 1000)
    _, terms, _, X = make_terms(kernel)
    pairs = np.array([[0, 3], [1, 2]])
    blocks = list(terms.contributions(X, pairs))
    assert len(blocks) > 1
    for rows, curves, surfaces in blocks:
        part = X[rows]
        for j in range(4):
            assert_allclose(curves[:, :, j], terms.curve(j, part[:, j]).T, atol=1e-12)
        for k, (i, j) in enumerate(pairs):
            on_grid = terms.surface((i, j), part[:, i], part[:, j])
            assert_allclose(surfaces[:, :, k], np.einsum("fnn->nf", on_grid), atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_terms_have_mean_zero_and_the_variances_that_are_told(kernel):
    _, terms, levels, _ = make_terms(kernel)
    pairs = list_pairs(np.arange(4))
    of_pairs = terms.pair_variances(np.arange(4))
    of_curves = terms.curve_variances()
    for j, level in enumerate(levels):
        heights = terms.curve(j, level.values)
        assert_allclose(heights @ level.shares, 0.0, atol=1e-12)
        assert_allclose(of_curves[:, j], np.square(heights) @ level.shares)
    for k, (i, j) in enumerate(pairs):
        heights = terms.surface((i, j), levels[i].values, levels[j].values)
        assert_allclose(heights @ levels[j].shares, 0.0, atol=1e-12)
        assert_allclose(levels[i].shares @ heights, 0.0, atol=1e-12)
        variance = np.einsum("fij,i,j->f", np.square(heights), levels[i].shares, levels[j].shares)
        assert_allclose(of_pairs[:, k], variance)


def test_variances_of_all_terms_are_the_variance_of_the_function():
    """By brute force on the product of the levels of three features."""
    model, terms, levels, _ = make_terms(KERNELS[0], d=3, n_functions=1)
    grid = np.stack(np.meshgrid(*[level.values for level in levels], indexing="ij"), axis=-1)
    shares = np.einsum("i,j,k->ijk", *[level.shares for level in levels]).ravel()
    decisions = model.decide(grid.reshape(-1, 3), n_jobs=1)[:, 0]
    mean = shares @ decisions
    assert_allclose(terms.intercept, mean)
    total = terms.curve_variances().sum() + terms.pair_variances(np.arange(3)).sum()
    assert_allclose(total, shares @ np.square(decisions - mean))


@pytest.mark.parametrize("unit", [2.0**-480, 2.0**480])
@pytest.mark.parametrize("kernel", [AnovaChi2, AnovaIntersection], ids=lambda kernel: kernel.name)
def test_variances_do_not_depend_on_the_unit(kernel, unit):
    """The kernel divides by its means, so a unit that is a power of two changes nothing."""
    expected = make_terms(kernel(0.7, 2.0, 3.0))[1]
    found = make_terms(kernel(0.7, 2.0 * unit, 3.0 * unit**2), unit=unit)[1]
    assert_allclose(found.curve_variances(), expected.curve_variances())
    features = np.arange(4)
    assert_allclose(found.pair_variances(features), expected.pair_variances(features))


def test_fewer_levels_for_many_pairs_change_little(monkeypatch):
    _, terms, _, _ = make_terms(KERNELS[0])
    full = terms.pair_variances(np.arange(4))
    monkeypatch.setattr("widemargin.exact.anova_terms.PAIR_PRODUCTS", 1.0)
    assert_allclose(terms.pair_variances(np.arange(4)), full, rtol=0.4)


def test_levels_are_distinct_values_or_ranks():
    few = choose_levels(np.array([2.0, 0.0, 2.0, 1.0]), 4)
    assert_allclose(few.values, [0.0, 1.0, 2.0])
    assert_allclose(few.shares, [0.25, 0.25, 0.5])
    column = np.random.default_rng(0).exponential(size=1000)
    many = choose_levels(column, 10)
    assert isinstance(many, Levels)
    assert_allclose(many.values, np.sort(column)[50::100])
    assert_allclose(column[many.rows], many.values)
    assert_allclose(many.shares, 0.1)
