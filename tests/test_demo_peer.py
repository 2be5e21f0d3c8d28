"""``SVC`` in a process of its own."""

import numpy as np
import pytest
from sklearn.svm import SVC

from widemargin.demo_peer import fit_svc


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.random((400, 3))
    return X, (X.sum(axis=1) > 1.5).astype(int)


def test_result_is_that_of_svc(data):
    X, y = data
    row = fit_svc({"C": 2.0, "gamma": 1.0}, X, y, X, y, max_seconds=60)
    peer = SVC(C=2.0, gamma=1.0).fit(X, y)
    assert not row.is_stopped
    assert row.accuracy == peer.score(X, y)
    assert row.n_support == len(peer.support_)


def test_fit_is_stopped(data, capsys):
    X = np.random.default_rng(1).normal(size=(20_000, 20))
    y = np.arange(20_000) % 2
    row = fit_svc({"C": 1e3, "gamma": 0.1}, X, y, X[:9], y[:9], max_seconds=0.5)
    assert row.is_stopped
    assert row.fit_seconds == 0.5
    assert "stopped after" in capsys.readouterr().err


def test_refused_parameters_are_an_error(data):
    X, y = data
    with pytest.raises(OSError, match="SVC ended without a result"):
        fit_svc({"C": -1.0, "gamma": 1.0}, X, y, X, y, max_seconds=60)
