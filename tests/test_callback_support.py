"""Callbacks of scikit-learn with our estimators."""

import io
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import widemargin
from widemargin import DCSVC, AdditiveSVC, KernelSVC, KernelSVR

callback = pytest.importorskip("sklearn.callback", reason="callbacks need scikit-learn 1.9")

CASES = {
    "KernelSVC": {},
    "DCSVC": {"n_levels": 1, "stop_level": 1},
    "KernelSVR": {},
    "DCSVR": {"n_levels": 1, "stop_level": 1},
    "AdditiveSVC": {},
    "AdditiveSVR": {},
    "AdditiveSVCCV": {"Cs": 2, "cv": 2},
    "AdditiveSVRCV": {"Cs": 2, "cv": 2},
    "IntersectionSVC": {},
    "PowerMeanSVC": {},
    "LRSVC": {"n_anchors": 5},
    "ProjectedSVC": {"n_basis": 3},
    "KernelSVCCV": {"Cs": 2, "gammas": 2, "cv": 2},
    "KernelSVRCV": {"Cs": 2, "gammas": 2, "cv": 2},
}


class Recorder:
    """Notes every call."""

    def __init__(self):
        self.calls = []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.calls.append(f"end {context.task_name}")
        if fitted_estimator is not None:
            self.score = fitted_estimator.score(X, y)


@pytest.fixture
def data():
    X = np.random.default_rng(0).random((300, 3))
    return X, (X.sum(axis=1) > 1.5).astype(int)


def make(name):
    return getattr(widemargin, name)(**CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_tasks_of_a_fit(name, data):
    recorder = Recorder()
    model = make(name).set_callbacks(recorder).fit(*data)
    calls = recorder.calls
    assert calls[:2] == ["setup", "begin fit"]
    assert calls[-2:] == ["end fit", "teardown"]
    assert calls.count("begin round") == calls.count("end round") > 0
    assert recorder.score == model.score(*data)


@pytest.mark.parametrize("name", CASES)
def test_callbacks_do_not_change_the_model(name, data):
    plain, observed = make(name).fit(*data), make(name).set_callbacks(Recorder()).fit(*data)
    np.testing.assert_array_equal(plain.predict(data[0]), observed.predict(data[0]))
    assert set(vars(observed)) - set(vars(plain)) == {"_skl_callbacks"}


@pytest.mark.parametrize("name", ["KernelSVC", "DCSVC", "AdditiveSVC"])
def test_scoring_monitor(name, data):
    monitor = callback.ScoringMonitor(scoring="accuracy")
    weights = np.linspace(0.5, 2.0, len(data[1]))
    model = make(name).set_callbacks(monitor).fit(*data, weights)
    (entry,) = monitor.get_logs().data
    assert entry["accuracy"] == model.score(*data, weights)
    assert entry["estimator_name"] == name


@pytest.mark.parametrize("name", ["KernelSVC", "DCSVC", "AdditiveSVC"])
def test_progress_bar(name, data, capsys):
    pytest.importorskip("rich")
    make(name).set_callbacks(callback.ProgressBar()).fit(*data)
    assert f"{name} - fit" in capsys.readouterr().out


def test_grid_search(data):
    monitor = callback.ScoringMonitor(scoring="accuracy")
    recorder = Recorder()
    model = AdditiveSVC().set_callbacks(monitor)
    search = GridSearchCV(model, {"C": [0.1, 10.0]}, cv=2).set_callbacks(recorder).fit(*data)
    assert search.best_score_ > 0.8
    assert len([row for row in monitor.get_logs().data if "accuracy" in row]) == 5
    assert recorder.calls[-1] == "teardown"


def test_pipeline(data):
    recorder = Recorder()
    make_pipeline(MinMaxScaler(), KernelSVC().set_callbacks(recorder)).fit(*data)
    assert recorder.calls[-1] == "teardown"


def test_refused_fit_ends_the_callbacks_and_leaves_the_model(data):
    X, y = data
    recorder = Recorder()
    model = KernelSVC().set_callbacks(recorder).fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X * np.nan, y)
    assert recorder.calls[-1] == "teardown"
    assert recorder.calls.count("teardown") == 2
    assert vars(model) == before


def test_clone_pickle_and_save(data, tmp_path):
    model = KernelSVR().set_callbacks(callback.ScoringMonitor(scoring="r2")).fit(*data)
    clone(model).fit(*data)
    again = pickle.loads(pickle.dumps(model))
    widemargin.save(again, tmp_path / "m.wm")
    loaded = widemargin.load(tmp_path / "m.wm")
    np.testing.assert_array_equal(loaded.predict(data[0]), model.predict(data[0]))


def test_pieces_are_no_fits(data):
    recorder = Recorder()
    AdditiveSVC().set_callbacks(recorder).partial_fit(*data, classes=[0, 1])
    assert recorder.calls == []


def test_own_callback_and_progress_line_go_on(data, monkeypatch):
    stream, states, recorder = io.StringIO(), [], Recorder()
    monkeypatch.setattr("sys.stderr", stream)
    model = DCSVC(n_levels=1, stop_level=1, verbose=2, callback=states.append)
    model.set_callbacks(recorder).fit(*data)
    assert len(states) == recorder.calls.count("end round")
    assert stream.getvalue().count("\n") == len(states) + 1
