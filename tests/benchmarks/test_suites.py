"""Regression and one-class: models of all solvers are judged alike, and parameters are chosen once."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.datasets import regression
from benchmarks.harness import Outcome
from benchmarks.objective import measure_one_class, measure_regressor
from benchmarks.records import BenchmarkData
from benchmarks.run import Plan, choose_parameters
from benchmarks.solvers import load_solver
from benchmarks.storage import append_measurement, read_measurements
from benchmarks.suites import SUITES
from benchmarks.summary import find_ratio

from benchmarks import run, suites

INTELEX = pytest.mark.skipif(
    find_spec("sklearnex") is None, reason="scikit-learn-intelex is not installed"
)
CASES = [
    ("regression", "sklearn"),
    ("regression", "widemargin"),
    pytest.param("regression", "intelex", marks=INTELEX),
    ("novelty", "sklearn"),
    ("novelty", "widemargin"),
]
PARAMS = {
    "regression": {"C": 2.0, "gamma": 0.3, "epsilon": 0.1},
    "novelty": {"nu": 0.2, "gamma": 0.3},
}
MEASURES = {"regression": measure_regressor, "novelty": measure_one_class}


def make_data(suite):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=200)
    return BenchmarkData("made", X[:150], y[:150], X[150:], y[150:], PARAMS[suite])


def fit(suite, solver_name, data):
    solver = load_solver(solver_name)
    model = solver.make_model(suite, data.params).fit(data.X_train, data.y_train)
    return model, solver.extract_expansion(model, data.y_train)


@pytest.mark.parametrize(("suite", "solver"), CASES)
def test_every_solver_is_at_the_optimum_of_the_same_problem(suite, solver):
    data = make_data(suite)
    measures = MEASURES[suite](data, fit(suite, solver, data)[1])
    reference = MEASURES[suite](data, fit(suite, "sklearn", data)[1])
    assert measures["objective"] == pytest.approx(reference["objective"], rel=1e-4)
    assert measures["violation"] < 1.1e-3
    assert measures["infeasibility"] < 1e-6
    assert -1e-12 <= measures["duality_gap"] < 1e-2 * abs(reference["objective"])


@pytest.mark.parametrize("suite", MEASURES)
def test_objective_agrees_with_the_estimator(suite):
    data = make_data(suite)
    model, expansion = fit(suite, "widemargin", data)
    measures = MEASURES[suite](data, expansion)
    assert measures["objective"] == pytest.approx(model.objective_, rel=1e-5)
    assert measures["duality_gap"] == pytest.approx(model.duality_gap_, abs=1e-3)


@pytest.mark.parametrize("suite", MEASURES)
def test_a_wrong_model_is_noticed(suite):
    data = make_data(suite)
    _, expansion = fit(suite, "sklearn", data)
    expansion.coef[:] *= 0.5
    measures = MEASURES[suite](data, expansion)
    assert measures["violation"] > 0.01
    assert measures["duality_gap"] > 0.01


def test_sparse_rows_measure_like_dense_ones():
    dense = make_data("regression")
    sparse = BenchmarkData(
        "sparse", csr_matrix(dense.X_train), dense.y_train, None, dense.y_test, dense.params
    )
    _, expansion = fit("regression", "sklearn", dense)
    measures = [measure_regressor(data, expansion)["violation"] for data in (dense, sparse)]
    assert measures[0] == pytest.approx(measures[1], abs=1e-9)


@pytest.mark.parametrize(("suite", "solver"), CASES[:2] + CASES[3:])
def test_a_suite_measures_everything(suite, solver, monkeypatch):
    monkeypatch.setattr(suites, "touch_memory", lambda: None)
    record = suites.measure_data(suite, make_data(suite), solver)
    assert {"fit_seconds", "fit_cpu_seconds", "peak_rss_bytes", "violation"} <= record.keys()
    quality = record[SUITES[suite].quality[0]]
    assert (0.1 < quality < 0.6) if suite == "regression" else (0.05 < quality < 0.5)


def test_parameters_are_chosen_once(tmp_path, monkeypatch):
    asked = []

    def pretend(job, label):
        asked.append(job)
        return Outcome([{"params": {"C": 2.0}, "cv_rmse": 0.5}], {}, {"cpu": "abacus"})

    monkeypatch.setattr(run, "run_job", pretend)
    plan = Plan(
        "regression", ("bike",), ("sklearn",), 1, tmp_path / "r.jsonl",
        parameters=tmp_path / "parameters.jsonl",
    )  # fmt: skip
    for _ in range(2):
        assert choose_parameters(plan, "bike") == {"C": 2.0}
    assert [job.arguments for job in asked] == [{"dataset": "bike"}]
    (kept,) = read_measurements(plan.parameters)
    assert (kept["suite"], kept["dataset"], kept["cv_rmse"]) == ("regression", "bike", 0.5)


def test_a_sample_has_the_parameters_of_its_set(tmp_path, monkeypatch):
    plan = Plan(
        "regression", ("bike-6k",), ("sklearn",), 1, tmp_path / "r.jsonl",
        parameters=tmp_path / "parameters.jsonl",
    )  # fmt: skip
    kept = {"suite": "regression", "dataset": "bike", "params": {"C": 2.0}}
    append_measurement(plan.parameters, kept)
    assert choose_parameters(plan, "bike-6k") == {"C": 2.0}


def test_a_sample_has_the_first_training_rows_of_its_set(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    monkeypatch.setitem(regression.SETS, "made", lambda: (X, y))
    monkeypatch.setitem(regression.SAMPLES, "made-50", ("made", 50))
    whole, sample = regression.load("made"), regression.load("made-50")
    assert sample.X_train.shape == (50, 3)
    assert whole.X_train.shape == (160, 3)
    # Both are the same rows on other scales.
    correlation = np.corrcoef(whole.y_train[:50], sample.y_train)[0, 1]
    assert correlation == pytest.approx(1.0)
    assert sample.y_train.std() == pytest.approx(1.0)


def test_times_of_one_thread_are_processor_seconds():
    results = {
        solver: {"suite": "novelty", "fit_seconds": 1.0, "fit_cpu_seconds": seconds}
        for solver, seconds in (("sklearn", 8.0), ("widemargin", 2.0))
    }
    assert find_ratio(results, "fit", "sklearn") == 4.0
    for each in results.values():
        each["suite"] = "exact"
    assert find_ratio(results, "fit", "sklearn") == 1.0


def test_the_choice_is_the_setting_of_least_error(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    monkeypatch.setitem(regression.SETS, "made", lambda: (X, np.sin(3 * X[:, 0])))
    monkeypatch.setattr(regression, "C_GRID", (-6, 4))
    monkeypatch.setattr(regression, "GAMMA_GRID", (-8, 2))
    monkeypatch.setattr(regression, "EPSILON_GRID", (0.05, 2.0))
    (chosen,) = regression.choose_parameters("made")
    assert chosen["params"] == {"C": 16.0, "gamma": 2.0, "epsilon": 0.05}
    assert chosen["cv_rmse"] < 0.3
    assert chosen["cv_settings"] == 8


def test_features_and_targets_have_variance_one_on_the_training_rows(monkeypatch):
    X = np.arange(600.0).reshape(200, 3) ** 2
    X[:, 1] = 7.0
    monkeypatch.setitem(regression.SETS, "made", lambda: (X, 100.0 + X[:, 0]))
    data = regression.load("made")
    assert data.X_train.shape == (160, 3)
    np.testing.assert_allclose(data.X_train.std(axis=0), [1.0, 0.0, 1.0], rtol=1e-5)
    np.testing.assert_allclose([data.y_train.mean(), data.y_train.std()], [0.0, 1.0], atol=1e-9)
