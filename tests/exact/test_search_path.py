"""Solutions along growing costs against single fits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widemargin.budget import Budget, StopReason
from widemargin.exact import search_path
from widemargin.exact.search_folds import Fold, FoldProblem
from widemargin.exact.search_path import PathSettings, walk_costs
from widemargin.exact.stored_kernel import KernelSeries
from widemargin.kernels import RBF
from widemargin.parallel import Workers

COSTS = np.array([0.1, 1.0, 30.0])


def walk(n_train, n_test, n_problems, kept_rows, monkeypatch, tol=1e-4):
    """Decision values of held-out rows for all costs; the data and targets of the problems."""
    rng = np.random.default_rng(0)
    n = n_train + n_test
    X = rng.normal(size=(n, 3))
    targets = [np.sign(np.sin(2.0 * X[:, p]) + 0.5 * rng.normal(size=n)) for p in range(n_problems)]
    train, test = np.arange(n_train), np.arange(n_train, n)
    fold = Fold(tuple(FoldProblem(train, t[train], np.ones(n_train)) for t in targets), test)
    alone = Workers(1, None)
    rows = KernelSeries([RBF(0.5), RBF(1.0)], X, 10**9, 1, alone).rows(1, alone)
    budget = Budget(tol, cache_bytes=10**9, all_or_nothing=True)
    settings = PathSettings(budget, intercept=True, seed=0)
    monkeypatch.setattr(search_path, "KEPT_ROWS", kept_rows)
    steps = list(walk_costs(rows, fold, COSTS, settings, alone))
    assert all(step.stop_reason is StopReason.CONVERGED for step in steps)
    return [step.decisions for step in steps], X, targets


@pytest.mark.parametrize("kept_rows", [0, 10**6])
def test_decisions_are_those_of_libsvm(kept_rows, monkeypatch):
    from sklearn.svm import SVC

    found, X, targets = walk(500, 100, 2, kept_rows, monkeypatch)
    for cost, decisions in zip(COSTS, found, strict=True):
        for p, target in enumerate(targets):
            peer = SVC(C=cost, gamma=1.0, tol=1e-4).fit(X[:500], target[:500])
            assert_allclose(decisions[:, p], peer.decision_function(X[500:]), atol=5e-3)


def test_a_matrix_that_is_kept_serves_more_rows_than_one_that_is_computed(monkeypatch):
    kept, *_ = walk(2200, 50, 1, 10**6, monkeypatch, tol=1e-3)
    others, *_ = walk(2200, 50, 1, 0, monkeypatch, tol=1e-3)
    for one, other in zip(kept, others, strict=True):
        assert_allclose(one, other, atol=0.02)
