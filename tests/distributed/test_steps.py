"""The small quadratic program of step lengths, compared with a general solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

from widemargin.distributed.steps import choose_steps


@pytest.mark.parametrize("seed", range(5))
def test_the_minimum_is_that_of_a_general_solver(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(5, 4))
    curvature, slope, limit = root @ root.T, -rng.random(5), rng.uniform(0.2, 3.0, 5)

    def objective(t):
        return slope @ t + 0.5 * t @ curvature @ t

    found = choose_steps(curvature, slope, limit)
    best = minimize(objective, np.zeros(5), bounds=[(0.0, top) for top in limit], tol=1e-12)
    assert (found >= 0).all()
    assert (found <= limit).all()
    assert objective(found) <= best.fun + 1e-8


def test_steps_of_nothing_are_not_made():
    np.testing.assert_array_equal(
        choose_steps(np.zeros((2, 2)), np.zeros(2), np.full(2, np.inf)), [0.0, 0.0]
    )
