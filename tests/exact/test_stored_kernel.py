"""Stored kernel matrices against the kernels in float64."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from widemargin.exact.stored_kernel import KernelSeries
from widemargin.kernels import RBF, Chi2, ExpChi2, Linear, Poly, Sigmoid
from widemargin.parallel import open_workers

N = 150


def draw(kind):
    X = np.random.default_rng(0).uniform(size=(N, 12))
    if kind == "mostly zero":
        X[X < 0.8] = 0.0
    if kind == "sparse":
        X[X < 0.8] = 0.0
        return sparse.csr_matrix(X)
    return X


SERIES = {
    "rbf": [RBF(0.01), RBF(1.0), RBF(30.0)],
    # Norms so large that float32 would lose digits.
    "narrow rbf": [RBF(1.0), RBF(3000.0)],
    "exp_chi2": [ExpChi2(0.1), ExpChi2(2.0)],
    "poly": [Poly(0.5, 3, 1.0), Poly(2.0, 3, 1.0)],
    "sigmoid": [Sigmoid(0.1, 0.5), Sigmoid(1.0, 0.5)],
    "linear": [Linear()],
    "chi2": [Chi2()],
}


@pytest.mark.parametrize("kind", ["dense", "mostly zero", "sparse"])
@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("n_fit", [0, 1, 5])
def test_all_kernels(name, kind, n_fit):
    X, kernels = draw(kind), SERIES[name]
    everyone = np.arange(N)
    with open_workers(2) as workers:
        series = KernelSeries(kernels, X, 4 * N * N * n_fit, 2, workers)
        for number, kernel in enumerate(kernels):
            rows = series.rows(number, workers)
            found = np.empty((N, N), np.float32)
            rows.kernel.block(rows.points, everyone, rows.points, everyone, found, workers)
            exact = kernel.exact(X, X)
            assert_allclose(found, exact, rtol=2e-5, atol=2e-6 * np.abs(exact).max())
            assert_allclose(rows.kernel.diag(rows.points), np.diagonal(exact), rtol=1e-6)
            assert_allclose(rows.kernel.exact(X[:3], X), exact[:3])


@pytest.mark.parametrize("n_functions", [1, 3])
@pytest.mark.parametrize(("n_rows", "n_cols"), [(100, 20), (20, 100), (50, 50)])
def test_products_with_coefficients(n_rows, n_cols, n_functions):
    rng = np.random.default_rng(1)
    X, coef = draw("dense"), rng.normal(size=(n_cols, n_functions))
    a, b = rng.permutation(N)[:n_rows], rng.permutation(N)[:n_cols]
    with open_workers(2) as workers:
        rows = KernelSeries([RBF(0.3), RBF(1.0)], X, 10**9, 1, workers).rows(1, workers)
        out = np.ones((n_rows, n_functions))
        rows.kernel.accumulate(rows.points, a, rows.points, b, coef, out, workers)
    assert_allclose(out, 1.0 + RBF(1.0).exact(X[a], X[b]) @ coef, rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match="no other rows"):
        rows.kernel.prepare(X)
