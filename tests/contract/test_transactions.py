"""A fit that fails, wherever it fails, leaves the estimator as it was."""

import inspect
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import widemargin
from widemargin import (
    DCSVC,
    LRSVC,
    AdditiveSVC,
    AdditiveSVCCV,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
    ProjectedSVC,
    baselines,
)

ESTIMATORS = [
    KernelSVC(),
    KernelSVC(kernel="linear", warm_start=True),
    # One thread: which calls the main thread makes must not depend on the others.
    DCSVC(n_levels=1, stop_level=1, n_clusters=2, n_jobs=1),
    DCSVC(keep_levels=True),
    AdditiveSVC(),
    AdditiveSVC(kernel="intersection", solver="sgd"),
    AdditiveSVCCV(Cs=[0.1, 1.0, 10.0], cv=2),
    PowerMeanSVC(),
    IntersectionSVC(),
    IntersectionSVC(multi_class="crammer_singer"),
    IntersectionSVC(solver="primal"),
    LRSVC(n_anchors=10),
    ProjectedSVC(n_basis=3),
    ProjectedSVC(n_basis="auto"),
    baselines.CascadeSVC(),
    baselines.FastfoodSVC(n_features=16),
    baselines.FourierSVC(),
    baselines.LaSVC(),
    baselines.LLSVC(n_landmarks=5),
    baselines.LTPUSVC(n_units=5),
    baselines.PWLSGDSVC(),
    baselines.RSVC(n_basis=5),
    baselines.SIKMASVC(),
    baselines.SpSVC(n_basis=3),
    baselines.SubsampleSVC(),
]
SOURCE = str(Path(widemargin.__file__).parent)
for _estimator in ESTIMATORS:
    # Every fit must make the same calls, in the thread that is watched.
    _steady = {"random_state": 0, "n_jobs": 1}.items()
    _estimator.set_params(**{k: v for k, v in _steady if k in _estimator.get_params()})
#: Moments, as shares of all calls of a fit, at which it is interrupted.
MOMENTS = np.linspace(0.02, 0.99, 8)

for_each = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def wide():
    rng = np.random.default_rng(0)
    X = rng.random((120, 40))
    return X, (X[:, 0] + X[:, 1] > 1).astype(int)


def fit_until(call, fit):
    """Run ``fit``, press Ctrl-C at the given call of the library; returns how many there were."""
    count = 0

    def watch(frame, event, argument):
        nonlocal count
        # An error is ignored in a generator that is being closed.
        is_generator = frame.f_code.co_flags & inspect.CO_GENERATOR
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE) and not is_generator:
            count += 1
            if count == call:
                raise KeyboardInterrupt

    sys.setprofile(watch)
    try:
        fit()
    finally:
        sys.setprofile(None)
    return count


@for_each
def test_a_refused_refit_keeps_the_model(estimator, wide):
    X, y = wide
    model = clone(estimator).fit(X, y)
    before, scores = set(vars(model)), model.decision_function(X)
    with pytest.raises(ValueError, match="class"):
        model.fit(X[:, :2], np.zeros(len(X)))
    assert model.n_features_in_ == X.shape[1]
    assert set(vars(model)) == before
    assert np.array_equal(model.decision_function(X), scores)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :2])


@for_each
def test_a_refused_first_fit_leaves_nothing(estimator, wide):
    X, _ = wide
    model = clone(estimator)
    with pytest.raises(ValueError, match="class"):
        model.fit(X, np.zeros(len(X)))
    assert vars(model) == vars(clone(estimator))
    with pytest.raises(NotFittedError):
        model.predict(X)


@for_each
def test_an_interrupt_at_any_moment_keeps_the_model(estimator, wide):
    X, y = wide
    model = clone(estimator).fit(X, y)
    state, scores = pickle.dumps(vars(model)), model.decision_function(X)
    narrow, other = X[:, :7] * 0.5, 1 - y
    # The first fit to such data may compile, and a first fit of a model makes calls of its own.
    copies = [pickle.loads(pickle.dumps(model)) for _ in range(2)]
    n_calls = min(fit_until(-1, lambda copy=copy: copy.fit(narrow, other)) for copy in copies)
    for share in MOMENTS:
        with pytest.raises(KeyboardInterrupt):
            fit_until(max(1, int(share * n_calls)), lambda: model.fit(narrow, other))
        assert vars(model).keys() == pickle.loads(state).keys()
        assert np.array_equal(model.decision_function(X), scores)
    fresh = clone(estimator)
    with pytest.raises(KeyboardInterrupt):
        fit_until(int(0.5 * n_calls), lambda: fresh.fit(narrow, other))
    with pytest.raises(NotFittedError):
        fresh.predict(narrow)


@pytest.mark.parametrize(
    "estimator",
    [AdditiveSVC(), baselines.LaSVC(), baselines.PWLSGDSVC(), baselines.SIKMASVC()],
    ids=lambda e: type(e).__name__,
)
def test_an_interrupted_piece_keeps_the_model(estimator, wide):
    X, y = wide
    model = clone(estimator).partial_fit(X, y, classes=[0, 1])
    scores, again = model.decision_function(X), pickle.loads(pickle.dumps(model))
    n_calls = fit_until(-1, lambda: again.partial_fit(X, 1 - y))
    for share in MOMENTS:
        with pytest.raises(KeyboardInterrupt):
            fit_until(max(1, int(share * n_calls)), lambda: model.partial_fit(X, 1 - y))
        assert np.array_equal(model.decision_function(X), scores)


@pytest.mark.parametrize("estimator", [KernelSVC(), DCSVC(), ProjectedSVC(n_basis=3)])
def test_a_callback_that_raises_keeps_the_model(estimator, wide):
    X, y = wide
    model = clone(estimator).fit(X, y)
    scores = model.decision_function(X)

    def stop(_):
        raise RuntimeError("enough")

    model.set_params(callback=stop)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(X[:, :2], y)
    assert np.array_equal(model.decision_function(X), scores)
