"""Oracles for linear machines on explicit features."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.svm import LinearSVC

#: Settings of our descent, and of LIBLINEAR's, for answers that can be compared.
TIGHT = {"tol": 1e-6, "max_iter": 30_000, "random_state": 0}
PEER_TIGHT = {"tol": 1e-7, "max_iter": 10**6, "random_state": 0}


def assert_linear_machine(model, features, X, y, Z, weights=None):
    """The model decides as LIBLINEAR does on features computed by the test; weights of all rows."""
    peer = LinearSVC(C=model.C, loss=model.loss, intercept_scaling=1.0, **PEER_TIGHT)
    peer.fit(features(X), y, sample_weight=weights)
    expected = peer.decision_function(features(Z))
    assert_allclose(model.decision_function(Z), expected, atol=2e-4 * np.abs(expected).max())
    shown = model.expand(Z) @ model.coef_.T + model.intercept_
    assert_allclose(
        model.decision_function(Z), shown.reshape(expected.shape), atol=1e-5 * np.abs(shown).max()
    )


def repeat_rows(X, y, seed=0):
    """Whole weights, some zero, and the data with every row repeated so often, in another order."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, len(y))
    order = rng.permutation(np.repeat(np.arange(len(y)), counts))
    return counts, X[order], y[order]
