"""Curves where there are no data: no steps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widemargin import AdditiveSVC

ONE = {"n_jobs": 1, "random_state": 0}
LOW, HIGH = 0.3, 0.7


def with_gap(n=400):
    """Two features, the first of which has no values between `LOW` and `HIGH`."""
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    X[:, 0] = np.where(X[:, 0] < 0.5, LOW * rng.random(n), HIGH + (1 - HIGH) * rng.random(n))
    y = np.sin(8 * X[:, 0]) + X[:, 1] + 0.5 * rng.standard_normal(n) > 0.5
    return X, y.astype(int)


@pytest.mark.parametrize(
    "estimator",
    [
        AdditiveSVC(kernel="intersection", tol=1e-4, max_iter=100_000, **ONE),
        AdditiveSVC(kernel="chi2", C=0.3, monotonic_cst=[-1, 0], tol=1e-3, **ONE),
    ],
)
def test_curves_of_the_intersection_kernel_are_straight_lines_in_gaps(estimator):
    # The integral of the squared slope is least for a straight line.
    X, y = with_gap()
    model = estimator.fit(X, y)
    column = X[:, 0]
    ends = np.array([column[column < 0.5].max(), column[column > 0.5].min()])
    # At the values of the bins: between them curves are level.
    values = model.quantiser_.values(0)
    values = values[(values > ends[0] + 0.01) & (values < ends[1] - 0.01)]
    heights = model._heights(0, values)[0]
    slopes = np.diff(heights) / np.diff(values)
    assert len(slopes) > 20
    assert_allclose(slopes, slopes.mean(), atol=1e-3 * max(1.0, abs(slopes.mean())))
    assert abs(slopes.mean()) > 0.1


@pytest.mark.parametrize("params", [{}, {"interactions": 1}, {"kernel": "hellinger"}])
def test_curves_have_no_steps_in_gaps(params):
    X, y = with_gap()
    model = AdditiveSVC(**ONE, **params).fit(X, y)
    values, heights = model.shape_functions(2000)[0]
    column = X[:, 0]
    is_inside = (values > column[column < 0.5].max()) & (values < column[column > 0.5].min())
    steps = np.abs(np.diff(heights[is_inside]))
    # About a hundred bins are inside.
    assert steps.max() < 6 * np.ptp(heights) / 100
