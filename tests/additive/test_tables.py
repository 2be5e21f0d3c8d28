"""Codes and tables: what feature values become before any solver sees them."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.kernel_approximation import AdditiveChi2Sampler

from tests.reference import additive as reference
from widemargin.additive import quantiles as selection
from widemargin.additive.power_mean_table import PAPER_ANCHORS, chebyshev_anchors, regression_tables
from widemargin.additive.quantiles import find_quantile
from widemargin.additive.quantiser import (
    Quantiser,
    fit_quantiser,
    measure_ranges,
    row_chunks,
    weighted_quantiles,
)
from widemargin.additive.scalar_kernels import check_scalar_kernel, make_scalar_kernel
from widemargin.additive.spectral_table import EVEN_SHARE, MAX_LANDMARKS, spectral_table
from widemargin.kernels import RBF, Chi2

GRID = (np.arange(1000) + 0.5) / 1000


def fit(X, n_bins=256, spacing="auto", per_feature=True):
    ranges = measure_ranges(row_chunks(X))
    weights = np.ones(X.shape[0])
    return fit_quantiser(ranges, n_bins, spacing, per_feature=per_feature, X=X, weights=weights)


def rounded(quantiser, X):
    codes = quantiser.encode(X).values.reshape(X.shape)
    return quantiser.low + quantiser.span * quantiser.grid[codes]


def test_whole_numbers_are_their_own_codes():
    X = np.random.default_rng(0).integers(0, 300, (50, 4)).astype(float)
    quantiser = fit(X)
    codes = quantiser.encode(X)
    assert codes.values.dtype == np.uint16
    assert_array_equal(codes.values.reshape(X.shape), X)


@pytest.mark.parametrize("spacing", ["uniform", "sqrt", "quantile"])
@pytest.mark.parametrize("n_bins", [16, 256, 1000])
def test_values_are_rounded_to_the_nearest_bin(spacing, n_bins):
    X = np.random.default_rng(0).random((500, 3)) * [1, 10, 100]
    quantiser = fit(X, n_bins, spacing)
    assert quantiser.encode(X).values.itemsize == (1 if n_bins <= 256 else 2)
    for j in range(3):
        values = quantiser.values(j)
        nearest = np.abs(X[:, j, None] - values).min(axis=1)
        gaps = np.diff(values).max()
        # Spaced by the square root, positions are rounded there: a little off the middle of gaps.
        slack = 0.6 * gaps if spacing == "sqrt" else 1e-9
        assert (np.abs(rounded(quantiser, X)[:, j] - X[:, j]) <= nearest + slack).all()


def test_quantiles_fill_bins_evenly():
    X = np.random.default_rng(0).random((2000, 2)) ** 4
    codes = fit(X, 16, "quantile", per_feature=False).encode(X).values
    counts = np.bincount(codes, minlength=16)
    assert counts[1:-1].min() > 100
    assert counts[1:-1].max() < 600


def test_values_beyond_the_range_are_clipped():
    quantiser = fit(np.array([[0.0, 0.5], [0.25, 1.5]]))
    codes = quantiser.encode(np.array([[9.0, 9.0], [-9.0, -9.0]])).values
    assert_array_equal(codes, [255, 255, 0, 0])


def test_sparse_data_have_the_codes_of_dense():
    rng = np.random.default_rng(0)
    X = rng.random((40, 7)) * (rng.random((40, 7)) < 0.4)
    quantiser = fit(X)
    stored = sparse.csr_matrix(X)
    codes = quantiser.encode(stored)
    assert codes.is_sparse
    assert not quantiser.encode(X).is_sparse
    dense = np.zeros(X.shape, int)
    dense[X != 0] = codes.values
    assert_array_equal(dense, quantiser.encode(X).values.reshape(X.shape))
    assert quantiser.zero_code == 0


def test_features_may_be_constant():
    X = np.array([[0.0, 0.3], [0.0, 0.3]])
    assert_allclose(rounded(fit(X), X), X)


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=2, max_size=30),
    spacing=st.sampled_from(["uniform", "sqrt", "quantile", "auto"]),
)
def test_codes_keep_the_order_of_values(values, spacing):
    X = np.array(values)[:, None]
    codes = fit(X, 64, spacing).encode(X).values.astype(int)
    order = np.argsort(X.ravel(), kind="stable")
    assert (np.diff(codes[order]) >= 0).all()


@settings(max_examples=50, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), min_size=1, max_size=12),
    level=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.975, 1.0]),
)
def test_a_weight_counts_as_repetition(pairs, level):
    values, weights = np.array(pairs, float).T
    repeated = np.repeat(values, weights.astype(int))
    expected = np.quantile(repeated, level, method="inverted_cdf")
    assert weighted_quantiles(values, weights, np.array([level]))[0] == expected


@settings(max_examples=50, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(
            st.sampled_from([0.0, -0.0, 1e-300, 0.1, 3.0]) | st.floats(-1e30, 1e30),
            st.integers(1, 4),
        ),
        min_size=1, max_size=12,
    ),
    share=st.sampled_from([1e-9, 0.1, 0.5, 0.975, 1.0]),
    kind=st.sampled_from([np.float32, np.float64]),
    above=st.sampled_from([-np.inf, 0.0]),
)  # fmt: skip
def test_a_quantile_is_found_without_a_copy(pairs, share, kind, above):
    values, weights = np.array(pairs).T
    X = np.column_stack([values, np.zeros(len(values)), values[::-1]]).astype(kind)
    repeated = np.repeat(X, weights.astype(int), axis=0).ravel()
    counted = repeated[repeated > above]
    if len(counted) == 0:
        return
    expected = np.quantile(counted, share, method="inverted_cdf")
    for form in (np.asarray, sparse.csr_matrix, np.asfortranarray):
        for n_copied in (0, 10**6):
            with mock.patch.object(selection, "COPIED_VALUES", n_copied):
                assert find_quantile(form(X), weights, share, above) == expected


def test_bins_may_be_cut_off():
    quantiser = Quantiser(np.zeros(1), np.ones(1), np.linspace(0, 1, 11), "uniform", cut=True)
    codes = quantiser.encode(np.array([[0.0], [0.09], [0.1001], [0.99], [1.0]])).values
    assert_array_equal(codes, [0, 0, 1, 9, 10])


@pytest.mark.parametrize(("rank", "error"), [(3, 2.6e-4), (4, 6e-5), (6, 4e-6)])
def test_spectral_tables_are_as_good_as_promised(rank, error):
    kernel = make_scalar_kernel("chi2")
    table = spectral_table(kernel, GRID, np.ones(1000), rank).table
    exact = reference.chi2(GRID[:, None], GRID[None, :])
    mean_error = np.abs(table @ table.T - exact).mean()
    assert mean_error < error
    if rank == 3:
        sampler = AdditiveChi2Sampler(sample_steps=2).fit_transform(GRID[:, None])
        assert np.abs(sampler @ sampler.T - exact).mean() > 100 * mean_error


@pytest.mark.parametrize("name", ["chi2", "jensen_shannon", "power_mean", "hellinger"])
def test_spectral_tables_vanish_at_zero(name):
    grid = np.linspace(0, 1, 256) ** 2
    spectrum = spectral_table(make_scalar_kernel(name, -2.0), grid, np.ones(256), None)
    assert_allclose(spectrum.table[0], 0.0, atol=1e-12)
    assert spectrum.rank <= (8 if name == "power_mean" else 4)
    assert spectrum.left_out < 1e-3


def test_many_bins_follow_from_fewer():
    kernel = make_scalar_kernel("chi2")
    grid = np.linspace(0, 1, 3000) ** 2
    assert len(grid) > MAX_LANDMARKS
    table = spectral_table(kernel, grid, np.ones(3000), 12).table
    exact = kernel(grid[::37], grid[::37])
    assert_allclose(table[::37] @ table[::37].T, exact, atol=2e-6)


@pytest.mark.parametrize("largest", [1000, 2000, 4000])
def test_small_counts_are_exact_beside_large_ones(largest):
    kernel = make_scalar_kernel("chi2")
    numbers = np.arange(largest + 1.0)
    counts = np.exp(-numbers / 3.0)
    counts[0], counts[-1] = 0.0, 1e-6
    table = spectral_table(kernel, numbers / largest, counts, None).table[:6] * largest**0.5
    assert_allclose(table @ table.T, kernel(numbers[:6], numbers[:6]), rtol=0.01)


@pytest.mark.parametrize("decay", [3.0, 300.0, np.inf])
def test_what_a_table_leaves_out_is_told(decay):
    """Of all bins, not of the landmarks alone."""
    kernel = make_scalar_kernel("chi2")
    grid = np.arange(4001) / 4000
    counts = np.exp(-np.arange(4001) / decay)
    spectrum = spectral_table(kernel, grid, counts, 8)
    share = (1.0 - EVEN_SHARE) * counts / counts.sum() + EVEN_SHARE / len(grid)
    lost = share @ (grid - np.square(spectrum.table).sum(axis=1)) / (share @ grid)
    assert_allclose(spectrum.left_out, lost, rtol=1e-6, atol=1e-12)


def test_frequent_bins_are_approximated_best():
    kernel = make_scalar_kernel("intersection")
    low = np.where(GRID < 0.1, 1.0, 1e-6)
    exact = kernel(GRID[:100], GRID[:100])
    errors = [
        np.abs(t[:100] @ t[:100].T - exact).mean()
        for t in (spectral_table(kernel, GRID, w, 4).table for w in (low, np.ones(1000)))
    ]
    assert errors[0] < 0.5 * errors[1]


def test_regression_is_the_formula_of_the_paper():
    """Eq. 40; the mean deviation on a uniform grid is near the 5.5e-3 that the paper reports."""
    chi2 = make_scalar_kernel("chi2")
    x = np.linspace(0, 1, 201)[1:-1]
    read, write = regression_tables(chi2, x, np.array(PAPER_ANCHORS), 0.05)
    assert 5e-3 < np.abs(read @ write.T - chi2(x, x)).mean() < 8e-3
    by_hand = reference.regression_kernel(x[:, None], x[None, :], PAPER_ANCHORS, 0.05, -1.0)
    assert_allclose(read @ write.T, by_hand, atol=1e-10)


def test_chebyshev_anchors():
    m = 4
    roots = [np.cos((2 * i - 1) * np.pi / (2 * (m + 1))) for i in range(1, m + 2)]
    assert_allclose(chebyshev_anchors(m + 1), sorted((1 + np.array(roots)) / 2))


def test_more_anchors_approximate_better():
    chi2 = make_scalar_kernel("chi2")
    x = np.linspace(0.01, 1, 200)
    errors = []
    for n_anchors in (3, 4, 5, 6):
        read, write = regression_tables(chi2, x, chebyshev_anchors(n_anchors), 0.05)
        errors.append(np.abs(read @ write.T / chi2(x, x) - 1).mean())
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("p", [-np.inf, -8.0, -1.0, -0.1, 0.0])
def test_power_means_are_their_formula(p):
    x = np.array([0.001, 0.2, 0.7, 1.0])
    kernel = make_scalar_kernel("power_mean", p)
    assert_allclose(kernel(x, x), reference.power_mean(x[:, None], x[None, :], p), rtol=1e-12)


def test_kernels_that_are_none_are_refused():
    with pytest.raises(ValueError, match="not additive"):
        make_scalar_kernel("rbf")
    with pytest.raises(ValueError, match="not additive"):
        make_scalar_kernel(RBF(1.0))
    assert make_scalar_kernel(Chi2()).name == "chi2"
    grid = np.linspace(0, 1, 20)
    with pytest.raises(ValueError, match=r"not symmetric.*differ by up to"):
        check_scalar_kernel(make_scalar_kernel(lambda x, y: x + 2 * y), grid)
    with pytest.raises(ValueError, match=r"not positive semidefinite.*eigenvalue -"):
        check_scalar_kernel(make_scalar_kernel(lambda x, y: np.abs(x - y)), grid)
    with pytest.raises(ValueError, match="shape"):
        make_scalar_kernel(lambda x, y: x)(grid, grid)
    with pytest.raises(ValueError, match="NaN"):
        make_scalar_kernel(lambda x, y: np.log(x + y - 1))(grid, grid)
