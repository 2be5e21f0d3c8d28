"""Estimates of costs: how they grow, and what they count."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widemargin.divide.costs import (
    PROBLEM_COST,
    SUPPORT_GROWTH,
    estimate_exact,
    estimate_levels,
    estimate_sample,
    estimate_trial,
    estimate_whole,
    grow_support,
)
from widemargin.divide.probe import limit_background
from widemargin.divide.records import Plan

PLAN = Plan(
    n_clusters=4, n_levels=3, stop_level=3, sample_size=1000, adaptive=True, refine=True,
    n_jobs=1, seed=0, background=5000, is_measured=True,
)  # fmt: skip


def test_support_vectors_grow_slower_than_rows_and_shrink_with_them():
    assert_allclose(grow_support(np.array([100.0]), 0.5), [50.0])
    assert_allclose(grow_support(np.array([100.0]), 8.0), [100.0 * 8.0**SUPPORT_GROWTH])


def test_an_exact_fit_costs_the_kernel_between_rows_and_support_vectors():
    one = estimate_exact(np.array([10.0]), np.array([100.0]))
    assert_allclose(estimate_exact(np.array([10.0, 20.0]), np.array([100.0, 50.0])), 2 * one)


def test_small_problems_of_several_classes_share_kernel_values():
    one, small = np.full(1, 100.0), np.full(3, 100.0)
    assert estimate_whole(one, 10.0 * one) == estimate_exact(one, 10.0 * one)
    assert estimate_whole(small, 10.0 * small) < estimate_exact(small, 10.0 * small)
    assert estimate_whole(small, 100.0 * small) == estimate_exact(small, 100.0 * small)


def test_levels_cost_sampled_rows_problems_and_clusters():
    cheap = estimate_levels(0.0, 1, 10_000, PLAN, 0.5)
    # Half of the 1,000 sampled rows are the centres of merged groups.
    assert_allclose(cheap, 10_000 * 500 + 64 * PROBLEM_COST)
    plain = estimate_levels(0.0, 1, 10_000, replace(PLAN, is_plain=True), 0.5)
    assert_allclose(plain - cheap, 10_000 * 500)
    # More clusters have fewer support vectors, and a trial costs a part of them.
    assert estimate_levels(1e12, 1, 10_000, PLAN, 0.5) < 0.1e12
    assert 0 < estimate_trial(1e12, 1, 10_000, PLAN) < 0.05e12


def test_a_sample_costs_its_solution_and_decision_values_at_all_rows():
    support, rows = np.array([100.0]), np.array([1000.0])
    cost = estimate_sample(support, rows, 1000, 50_000)
    assert cost > estimate_exact(support, rows) + 50_000 * 100
    # No more vectors than rows, however many problems share them.
    many = estimate_sample(np.full(50, 100.0), np.full(50, 1000.0), 1000, 50_000)
    assert many < 50 * cost


@pytest.mark.parametrize(
    ("share", "sizes", "level", "measured", "background"),
    [
        (0.25, [50_000], 3, True, 5000),
        (0.96, [464_810], 3, True, 5000),
        (0.15, [2300] * 325, 3, True, 5000),
        (0.15, [2300] * 11, 3, False, 0),
        (0.25, [50_000], 1, False, 5000),
    ],
    ids=["ijcnn1", "covtype", "26 classes", "few rows", "4 clusters"],
)
def test_what_is_too_expensive_is_left_out(share, sizes, level, measured, background):
    n_points = max(sizes) if len(sizes) == 1 else 30_000
    plan = Plan(**{**PLAN.__dict__, "n_levels": level, "stop_level": level})
    limited = limit_background(share, sizes, n_points, plan)
    assert limited.is_measured is measured
    assert limited.background == background
