"""The choice among clusters, a sample, both and the whole problem, on held-out rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import widemargin
from widemargin import DCSVC, KernelSVC
from widemargin.divide.cluster_models import EarlyModel
from widemargin.divide.costs import TRIED_PROBLEMS
from widemargin.divide.records import Plan
from widemargin.divide.trial import (
    CLUSTER_SHARE,
    HELD_OUT,
    LEAST_GAIN,
    SAMPLE_GAIN,
    SMALL_PART,
    choose_models,
    count_sample,
    draw_trial,
)
from widemargin.exact.dual_problem import classification_dual
from widemargin.exact.expansion import Expansion
from widemargin.exact.solution import Solution
from widemargin.export import to_c

N = 40_000
PLAN = Plan(
    n_clusters=16, n_levels=1, stop_level=1, sample_size=1000, adaptive=True, refine=True,
    n_jobs=1, seed=0, is_measured=True,
)  # fmt: skip


def make_duals(n=N):
    rng = np.random.default_rng(1)
    labels = np.where(rng.random(n) > 0.5, 1.0, -1.0)
    return [classification_dual(np.arange(n), labels, np.ones(n), intercept=False)]


def make_solution(coef):
    return Solution(coef, np.empty(0), 0.0, 0.0, 0.0, 0.0)


def draw_small(duals, n_clusters=16):
    return draw_trial(np.arange(N, dtype=np.int32) % n_clusters, n_clusters, duals, 0)


def test_held_out_rows_are_rows_of_tried_clusters():
    duals = make_duals()
    trial = draw_small(duals)
    assert len(trial.trained) == 16 // CLUSTER_SHARE
    for inside, outside in zip(trial.trained, trial.held_out, strict=True):
        both = np.sort(np.concatenate([inside, outside]))
        assert len(np.unique(both % 16)) == 1
        assert_array_equal(both, np.arange(both[0], N, 16))
        assert len(outside) == len(both) // HELD_OUT
    at, rows = trial.tested_places[0]
    assert_array_equal(trial.tested[rows], duals[0].index[at])


def test_some_of_many_problems_are_tried():
    everyone = np.arange(N)
    duals = [
        classification_dual(everyone[p::40], np.where(everyone[p::40] % 3, 1.0, -1.0),
                            np.ones(N // 40), intercept=False)
        for p in range(40)
    ]  # fmt: skip
    trial = draw_small(duals)
    assert len(np.unique(trial.problems)) == TRIED_PROBLEMS == len(trial.tested_places)
    for p, (at, rows) in zip(trial.problems, trial.tested_places, strict=True):
        assert_array_equal(trial.tested[rows], duals[p].index[at])


def test_the_loss_is_the_hinge_loss_weighted_by_cost():
    rng = np.random.default_rng(0)
    labels, cost = np.where(rng.random(N) > 0.5, 1.0, -1.0), rng.random(N)
    duals = [classification_dual(np.arange(N), labels, cost, intercept=False)]
    trial = draw_small(duals)
    values = rng.normal(size=(len(trial.tested), 1))
    expected = np.maximum(0.0, 1.0 - labels[trial.tested] * values[:, 0])
    assert_allclose(trial.measure(duals, values), np.average(expected, weights=cost[trial.tested]))


@pytest.mark.parametrize(
    ("alone", "small", "both", "large", "on_top", "expected", "worth"),
    [
        (0.2, 0.5, 0.2, None, None, (0, True), 0.8),
        (0.2, 0.5, LEAST_GAIN * 0.2 + 1e-3, None, None, (0, True), 0.8),
        (0.2, 0.5, LEAST_GAIN * 0.2 - 1e-3, 0.3, 0.1, (1, True), 0.8),
        (0.2, 0.2 / SAMPLE_GAIN - 1e-3, 0.2, 0.15, 0.2, (1, False), 0.8),
        (0.4, 0.3, 0.4, 0.2, 0.25, (1, False), 0.8),
        (0.4, 0.3, 0.2, 0.2, LEAST_GAIN * 0.2 + 1e-3, (1, False), 0.8),
        (0.4, 0.3, 0.2, 0.2, 0.1, (1, True), 0.8),
        (0.2, 0.5, 0.1, 0.3, 0.19, (0, True), 0.8),
        (0.4, 0.3, 0.2, 0.2, 0.1, (1, False), 0.6),
        (0.4, 0.3, 0.2, None, None, (0, False), 0.1),
    ],
    ids=[
        "clusters",
        "little gain",
        "gain",
        "sample that promises more",
        "sample",
        "little on top",
        "both",
        "clusters after all",
        "both for too much",
        "sample for too much",
    ],
)
def test_the_smallest_loss_is_chosen(
    alone, small, both, large, on_top, expected, worth, monkeypatch
):
    """Decision values are such that every model has the loss that the case says."""
    monkeypatch.setattr("widemargin.divide.trial.WORTH_SHARE", worth)
    monkeypatch.setattr("widemargin.divide.trial.SAMPLE_SHARE", min(worth, 0.45))
    duals = make_duals(N)
    trial = draw_small(duals)
    order = np.setdiff1d(np.arange(N), trial.tested)
    n_small, n_clusters = count_sample(len(order)) // SMALL_PART, len(trial.trained)
    labels, n_tested = duals[0].labels, len(trial.tested)
    # The clusters alone come first; then a sample, and the clusters on top of it.
    losses = {0: alone, n_small: small, n_small + 1: both, -1: large, -2: on_top}
    state = {"sample": 0, "large": False}

    def solve(duals, rows):
        if len(rows) > len(trial.trained[0]):
            state["sample"] = len(rows)
            state["large"] = len(rows) != n_small
        coef = np.zeros(N)
        coef[rows[::4]] = 1.0 if len(rows) > len(trial.trained[0]) else 2.0
        return [make_solution(coef)]

    def decide(duals, solutions, rows):
        is_sample = solutions[0].coef.max() == 1.0
        if is_sample:
            loss = losses[-1] if state["large"] else losses[n_small]
        elif state["sample"] == 0:
            loss = losses[0]
        else:
            below = losses[-1] if state["large"] else losses[n_small]
            goal = losses[-2] if state["large"] else losses[n_small + 1]
            return (labels[rows] * (below - goal))[:, None]
        return (labels[rows] * (1.0 - loss))[:, None]

    assert n_tested > 100
    assert n_small > max(map(len, trial.trained))
    assert n_clusters == 4
    choice = choose_models(trial, duals, order, PLAN, solve, decide)
    n_rows, uses_clusters = expected
    assert (choice.background is not None) == bool(n_rows)
    assert choice.uses_clusters is uses_clusters


def test_the_sample_grows_with_the_root_of_the_rows():
    assert count_sample(1_000_000) == 100_000
    assert count_sample(10_000) == count_sample(10_000) == 10_000
    assert count_sample(500) == 500


def draw_gauss(n):
    """Features without clusters, a label that all of them decide, and a wide kernel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + 2000, 10))
    y = X[:, 0] * X[:, 1] + X.sum(axis=1) + rng.normal(size=len(X)) > 0
    return X[:n], y[:n], X[n:], y[n:]


@pytest.fixture(scope="module")
def gauss():
    return draw_gauss(20_000)


@pytest.fixture(scope="module")
def sampled(gauss):
    X, y, _, _ = gauss
    return DCSVC(C=1.0, gamma=0.1, n_levels=3, stop_level=3, n_jobs=1).fit(X, y)


def test_data_without_clusters_are_predicted_by_a_sample(gauss, sampled):
    """A model of the sample or of all rows, and no less accurate than a quarter of the rows."""
    X, y, Z, z = gauss
    assert isinstance(sampled._model, Expansion)
    quarter = KernelSVC(C=1.0, gamma=0.1, fit_intercept=False).fit(X[::4], y[::4])
    assert sampled.score(Z, z) >= quarter.score(Z, z)
    assert sampled.levels_[-1].n_clusters == 1


def test_tight_clusters_are_predicted_by_clusters():
    rng = np.random.default_rng(0)
    centres = 30.0 * rng.normal(size=(300, 5))
    which = rng.integers(300, size=12_000)
    X = centres[which] + rng.normal(size=(12_000, 5))
    y = rng.normal(size=(300, 5))[which]
    y = ((X - centres[which]) * y).sum(axis=1) + rng.normal(size=12_000) > 0
    model = DCSVC(C=1.0, gamma=0.3, n_levels=3, stop_level=3, n_jobs=1).fit(X, y)
    assert isinstance(model._model, EarlyModel)
    assert model._parts.background is None
    assert model.levels_[-1].n_clusters > 40


def test_the_number_of_jobs_does_not_matter(gauss, sampled):
    X, y, Z, _ = gauss
    two = DCSVC(C=1.0, gamma=0.1, n_levels=3, stop_level=3, n_jobs=2).fit(X, y)
    assert_array_equal(two.decision_function(Z), sampled.decision_function(Z))


def test_a_sample_is_saved_and_exported(gauss, sampled, tmp_path):
    _, _, Z, _ = gauss
    widemargin.save(sampled, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert loaded.level_ == sampled.level_
    assert_array_equal(loaded.decision_function(Z), sampled.decision_function(Z))
    to_c(sampled, tmp_path / "model.c", verbose=False)


def test_levels_that_are_asked_for_are_kept(gauss):
    X, y, _, _ = gauss
    model = DCSVC(C=1.0, gamma=0.1, n_levels=3, stop_level=3, skip_levels=False, n_jobs=1)
    assert isinstance(model.fit(X, y)._model, EarlyModel)
