"""L-BFGS of several problems at once, compared with a general solver and with known minima."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from widemargin.distributed.lbfgs import minimise


def squared_hinge(rows, C, w):
    margin = np.maximum(1.0 - rows @ w, 0.0)
    return 0.5 * w @ w + C * margin @ margin, w - 2.0 * C * rows.T @ margin


@pytest.mark.parametrize("seed", range(3))
def test_minima_are_those_of_a_general_solver(seed):
    rng = np.random.default_rng(seed)
    problems = [rng.normal(size=(40, 6)) + 0.3 for _ in range(3)]

    def evaluate(points):
        both = [squared_hinge(rows, 5.0, w) for rows, w in zip(problems, points, strict=True)]
        return np.array([value for value, _ in both]), np.array([slope for _, slope in both])

    found = minimise(
        evaluate, np.zeros((3, 6)), lambda now: np.linalg.norm(now.gradient, axis=1) < 1e-7
    )
    for rows, w, value in zip(problems, found.point, found.value, strict=True):
        best = scipy_minimize(lambda v, rows=rows: squared_hinge(rows, 5.0, v)[0], np.zeros(6))
        assert value <= best.fun + 1e-8
        assert np.linalg.norm(squared_hinge(rows, 5.0, w)[1]) < 1e-6


def test_a_limit_stops_at_once():
    calls = []

    def evaluate(points):
        calls.append(points)
        return 0.5 * (points**2).sum(axis=1), points

    found = minimise(evaluate, np.ones((2, 3)), lambda now: None)
    assert len(calls) == 1
    np.testing.assert_array_equal(found.point, np.ones((2, 3)))
