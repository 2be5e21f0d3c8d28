"""What the machines on features, bases and parts of the rows have in common."""

import pickle
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import random_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from tests.baselines.data import make_data
from tests.test_parallel import blas_threads
from widemargin import LRSVC
from widemargin.additive import anchor_model as regression
from widemargin.baselines import (
    LLSVC,
    LTPUSVC,
    RSVC,
    FastfoodSVC,
    FourierSVC,
    SpSVC,
    SubsampleSVC,
    features,
)
from widemargin.kernels import RBF

#: With so many vectors that kernel values are those of tiles.
TILED = [LLSVC(n_landmarks=220, random_state=0), LTPUSVC(n_units=220, random_state=0)]
THREADED = [
    *TILED,
    FastfoodSVC(n_features=90, random_state=0),
    RSVC(n_basis=210, random_state=0),
    SpSVC(n_basis=5, random_state=0),
]


def name_of(model):
    return type(model).__name__


@pytest.mark.parametrize("model", THREADED, ids=name_of)
def test_number_of_threads_changes_no_bit(model):
    X, y = make_data(4000)
    Z = make_data(4000, 1)[0]
    one, two, three = (
        clone(model).set_params(n_jobs=n, gamma=0.3).fit(X, y).decision_function(Z)
        for n in (1, 2, 3)
    )
    assert_array_equal(one, two)
    assert_array_equal(one, three)


@pytest.mark.parametrize("model", [*THREADED, SubsampleSVC(random_state=0)], ids=name_of)
def test_pickles_hold_nothing_that_predictions_leave_behind(model):
    X, y = make_data(300)
    model = clone(model).fit(X, y)
    size = len(pickle.dumps(model))
    decisions = model.decision_function(X)
    content = pickle.dumps(model)
    assert len(content) == size
    assert_array_equal(pickle.loads(content).decision_function(X), decisions)


def count_calls(monkeypatch, owner, name):
    calls, function = [], getattr(owner, name)

    def spy(*args, **kwargs):
        calls.append(kwargs)
        return function(*args, **kwargs)

    monkeypatch.setattr(owner, name, spy)
    return calls


@pytest.mark.parametrize(
    "model", [*TILED, LRSVC(anchors="random", n_anchors=220, random_state=0)], ids=name_of
)
def test_vectors_are_prepared_once(monkeypatch, model):
    X, y = make_data(300)
    model = clone(model).fit(X, y)
    monkeypatch.setattr(regression, "DECIDE_ROWS", 100)
    prepared = count_calls(monkeypatch, RBF, "prepare")
    pools = count_calls(monkeypatch, regression, "open_workers")
    for _ in range(2):
        model.decision_function(X)
    assert sum("like" not in call for call in prepared) == 1
    assert len(pools) == (2 if isinstance(model, LRSVC) else 0)


@pytest.mark.parametrize(
    "model",
    [
        LTPUSVC(n_units=30),
        FastfoodSVC(n_features=32),
        FourierSVC(),
    ],
    ids=name_of,
)
def test_a_warm_start_goes_on(model):
    X, y = make_data()
    model = clone(model).set_params(tol=1e-4, warm_start=True, random_state=0, max_iter=10**5)
    first = model.fit(np.abs(X), y).n_iter_
    assert model.fit(np.abs(X), y).n_iter_ < first


def test_features_take_their_part_of_the_time(monkeypatch):
    X, y = make_data()
    compute = features.compute_features

    def dawdle(*args):
        time.sleep(0.2)
        return compute(*args)

    monkeypatch.setattr(features, "compute_features", dawdle)
    model = LLSVC(n_landmarks=30, C=100.0, tol=1e-12, max_iter=10**6, max_time=0.1)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, y)
    assert (model.n_iter_, model.stop_reason_) == (1, "max_time")
    assert model.score(X, y) > 0.5


def test_fits_side_by_side_give_blas_its_threads_back():
    X, y = make_data(400)

    def fit():
        for seed in range(4):
            LTPUSVC(n_units=40, n_jobs=1, random_state=seed).fit(X, y)

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        threads = [threading.Thread(target=fit) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert blas_threads() == before


def test_wide_sparse_rows_are_not_cut_into_blocks(monkeypatch):
    X = random_array((50, 10**6), density=1e-5, rng=0, format="csr")
    monkeypatch.setattr(features, "split_rows", None)
    rows, weights = features.merge_rows(X, np.ones(50), np.random.default_rng(0))
    assert_array_equal(np.sort(rows), np.arange(50))
    assert_array_equal(weights, 1.0)
