"""Calibration curves and coupling against their definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from widemargin.exact.calibration import calibrate, couple_pairs, fit_sigmoid
from widemargin.problem import class_pairs


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_sigmoid_minimises_its_loss(scale):
    rng = np.random.default_rng(0)
    f = scale * rng.normal(size=300)
    is_positive = rng.random(300) < 1 / (1 + np.exp(-2 * f / scale - 0.5))
    weights = rng.uniform(0.5, 2, 300)
    n, p = weights[~is_positive].sum(), weights[is_positive].sum()
    target = np.where(is_positive, (p + 1) / (p + 2), 1 / (n + 2))

    def loss(params):
        values = params[0] * f / scale + params[1]
        return weights @ (np.logaddexp(0, values) - target * values)

    curve = fit_sigmoid(f, is_positive, weights)
    best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    assert_allclose([curve.slope * scale, curve.offset], best.x, atol=1e-5)


def test_the_sigmoid_of_separable_classes_is_finite():
    f = np.r_[-np.ones(20), np.ones(30)]
    curve = fit_sigmoid(f, f > 0, np.ones(50))
    # Platt's targets are met exactly.
    assert_allclose(curve(np.array([-1.0, 1.0])), [1 / 22, 31 / 32], atol=1e-6)


@pytest.mark.parametrize("n_classes", [3, 4, 7])
def test_coupling_minimises_its_objective(n_classes):
    rng = np.random.default_rng(n_classes)
    pairs = class_pairs(n_classes)
    values = rng.uniform(0.05, 0.95, size=(5, len(pairs)))
    found = couple_pairs(values, n_classes)
    assert_allclose(found.sum(axis=1), 1.0)
    for row, p in zip(values, found, strict=True):
        of_pair = dict(zip(pairs, row, strict=True))

        def objective(p, of_pair=of_pair):
            # r_ab = 1 - value is the probability of a among a and b; both orders count.
            return 2 * sum((r * p[a] - (1 - r) * p[b]) ** 2 for (a, b), r in of_pair.items())

        best = minimize(
            objective, np.full(n_classes, 1 / n_classes), method="SLSQP",
            bounds=[(0, 1)] * n_classes, options={"ftol": 1e-14},
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        )  # fmt: skip
        assert_allclose(p, best.x, atol=1e-4)


def test_coupling_recovers_consistent_pairs():
    p = np.array([[0.5, 0.3, 0.2], [0.05, 0.05, 0.9]])
    values = np.column_stack([p[:, b] / (p[:, a] + p[:, b]) for a, b in class_pairs(3)])
    assert_allclose(couple_pairs(values, 3), p, atol=1e-9)


@pytest.mark.parametrize("one_vs_one", [True, False])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_weights_equal_repeated_rows(method, one_vs_one):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    decisions = rng.normal(size=(200, 3))
    decisions[np.arange(200), labels] += 1.0
    if one_vs_one:
        decisions = np.column_stack([decisions[:, b] - decisions[:, a] for a, b in class_pairs(3)])
    weights = rng.integers(1, 4, 200)
    rows = np.repeat(np.arange(200), weights)
    weighted = calibrate(method, decisions, labels, weights.astype(float), 3, one_vs_one)
    repeated = calibrate(method, decisions[rows], labels[rows], np.ones(len(rows)), 3, one_vs_one)
    assert_allclose(weighted.probabilities(decisions), repeated.probabilities(decisions), atol=1e-6)


@pytest.mark.parametrize("one_vs_one", [True, False])
def test_temperature_has_the_least_log_loss(one_vs_one):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 300)
    decisions = rng.normal(size=(300, 3))
    decisions[np.arange(300), labels] += 1.0
    if one_vs_one:
        decisions = np.column_stack([decisions[:, b] - decisions[:, a] for a, b in class_pairs(3)])

    def pair_loss(factor):
        total = 0.0
        for p, (a, b) in enumerate(class_pairs(3)):
            margin = decisions[:, p] * np.select([labels == b, labels == a], [1.0, -1.0], np.nan)
            total += np.nansum(np.logaddexp(0, -factor * margin))
        return total

    def softmax_loss(factor):
        values = factor * decisions
        return np.sum(np.log(np.exp(values).sum(axis=1)) - values[np.arange(300), labels])

    found = calibrate("temperature", decisions, labels, np.ones(300), 3, one_vs_one).curves[0].slope
    loss = pair_loss if one_vs_one else softmax_loss
    factors = np.linspace(0.1, 3.0, 2901)
    assert found == pytest.approx(factors[np.argmin([loss(f) for f in factors])], abs=2e-3)
