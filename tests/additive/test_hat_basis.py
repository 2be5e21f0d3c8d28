"""Products of the heights of hats are the intersection kernel, on any grid."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widemargin.additive.coded_rows import (
    bin_rows,
    coefs_by_class,
    decide,
    find_indicators,
    zero_coefs,
)
from widemargin.additive.coded_rows_fast import add_rows, make_room
from widemargin.additive.codes import dense_codes, thin_codes
from widemargin.additive.curves import bin_offsets
from widemargin.additive.hat_basis import (
    LEFT_OUT,
    extend_grid,
    hat_heights,
    hat_rows,
    hats_to_curves,
)
from widemargin.parallel import open_workers

GRIDS = {
    "whole": np.arange(101.0),
    "two": np.arange(2.0),
    "power of two": np.arange(129.0),
    "uneven": np.cumsum(np.random.default_rng(0).random(78)) - 0.1,
}


@pytest.mark.parametrize("name", GRIDS)
def test_line_and_hats_are_the_minimum(name):
    grid = np.concatenate([[0.0], GRIDS[name][1:]])
    depth = int(np.ceil(np.log2(len(grid) - 1)))
    extended, codes = extend_grid(grid, depth), np.arange(len(grid))
    kernel = np.outer(grid, grid) / extended[2**depth]
    for t in range(depth):
        middle, height = hat_heights(extended, codes, t)
        kernel += np.outer(height, height) * (middle[:, None] == middle)
    assert_allclose(kernel, np.minimum.outer(grid, grid), atol=1e-12 * grid[-1])


def make_rows(dtype, *, is_thin=False, n_bins=60):
    """Rows of 12 features: some short, one an indicator, one always zero."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, n_bins, (40, 12)) * (rng.random((40, 12)) < 0.4)
    values[:, 0] = 7 * (values[:, 0] > 20)
    values[:, 1] = 0
    values[:, 2] = np.minimum(values[:, 2], 3)
    codes = dense_codes(values.astype(np.uint8))
    codes = thin_codes(codes) if is_thin else codes
    offsets, scale = bin_offsets(codes), rng.random(12) + 0.5
    levels = np.arange(float(n_bins))
    rows = bin_rows(
        codes, offsets, levels, scale, None, dtype, is_indicator=find_indicators(codes, offsets)
    )
    return rows, np.minimum(values[:, None], values[None]) @ scale


@pytest.mark.parametrize("is_thin", [False, True])
@pytest.mark.parametrize("n_classes", [1, 3, 11, 20])
def test_rows_of_hats_are_read_and_added(is_thin, n_classes):
    rows, kernel = make_rows(np.float64, is_thin=is_thin)
    hats = hat_rows(rows, 1e-6)
    assert hats.shifts.max() == 0
    alpha = np.random.default_rng(2).random((40, n_classes))
    coef, extra = zero_coefs(hats, n_classes), np.zeros((n_classes, 0))
    labels, positives = np.zeros(40, np.int64), np.zeros(n_classes, np.int64)
    add_rows(hats, labels, positives, alpha, make_room(hats, n_classes, np.float64), coef, extra)
    by_class = coefs_by_class(hats, coef, n_classes)
    with open_workers(1) as workers:
        found = decide(hats, by_class, extra, workers)
        assert_allclose(found, kernel @ alpha)
        curves = hats_to_curves(hats, by_class, rows)
        assert_allclose(decide(rows, curves, extra, workers), kernel @ alpha)


def test_loose_tolerance_leaves_out_little():
    rows, kernel = make_rows(np.float32, n_bins=250)
    hats = hat_rows(rows, 0.1)
    assert hats.shifts.max() >= 1
    assert hats.offsets[-1] < rows.offsets[-1]
    coef = np.eye(len(kernel), dtype=np.float32)
    flat = zero_coefs(hats, len(kernel))
    room = make_room(hats, len(kernel), np.float32)
    labels, positives = np.zeros(40, np.int64), np.zeros(40, np.int64)
    extra = np.zeros((40, 0), np.float32)
    add_rows(hats, labels, positives, coef.astype(float), room, flat, extra)
    with open_workers(1) as workers:
        found = decide(hats, coefs_by_class(hats, flat, 40), extra, workers)
    error = np.diag(kernel) - np.diag(found)
    # A share of the variance, which is less than the trace, for a tolerance of 0.1.
    assert 0 < error.sum() < 0.1 * LEFT_OUT * np.trace(kernel)
    assert_allclose(found, kernel, atol=0.1 * LEFT_OUT * np.diag(kernel).mean())
