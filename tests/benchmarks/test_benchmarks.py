"""The benchmark harness: its measures are right, and its tables say what was measured."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.__main__ import main
from benchmarks.freshness import fingerprint_sources
from benchmarks.records import BenchmarkData
from benchmarks.run import Plan, run_plan
from benchmarks.settings import LONG_FIT_SECONDS
from benchmarks.solvers import load_solver
from benchmarks.storage import append_measurement, read_measurements

from benchmarks import experiments, objective, pages, run, suites

SOLVERS = [
    "widemargin",
    "sklearn",
    pytest.param(
        "intelex",
        marks=pytest.mark.skipif(
            find_spec("sklearnex") is None, reason="scikit-learn-intelex is not installed"
        ),
    ),
]


def make_data(n_classes):
    X, y = (load_breast_cancer if n_classes == 2 else load_iris)(return_X_y=True)
    X = StandardScaler().fit_transform(X).astype(np.float32)
    return BenchmarkData("small", X, y, X, y, {"C": 2.0, "gamma": 0.1})


@pytest.fixture(scope="module", params=[2, 3])
def data(request):
    return make_data(request.param)


def fit_expansion(data, solver_name):
    solver = load_solver(solver_name)
    model = solver.make_model("exact", data.params).fit(data.X_train, data.y_train)
    return model, solver.extract_expansion(model, data.y_train)


def measure_slowly(data, expansion):
    """Objective and gap of all pairs by the textbook, on the full kernel matrix."""
    X = data.X_train.astype(np.float64)
    objectives, gaps = [], []
    pairs = [(i, j) for j in range(3) for i in range(j) if j <= data.y_train.max()]
    for coef, constant, (i, j) in zip(
        expansion.coef, expansion.intercept, sorted(pairs), strict=True
    ):
        rows = np.flatnonzero((data.y_train == i) | (data.y_train == j))
        beta = np.zeros(len(X))
        beta[expansion.support] = coef
        sign = np.where(data.y_train[rows] == j, 1, -1)
        K = rbf_kernel(X[rows], gamma=data.params["gamma"])
        assert not np.delete(beta, rows).any()
        norm = 0.5 * beta[rows] @ K @ beta[rows]
        hinge = np.maximum(0, 1 - sign * (K @ beta[rows] + constant)).sum()
        objectives.append(norm - np.abs(coef).sum())
        gaps.append(norm + data.params["C"] * hinge + objectives[-1])
    return sum(objectives), sum(gaps)


@pytest.mark.parametrize("solver_name", SOLVERS)
def test_measures_follow_their_definition(data, solver_name):
    _, expansion = fit_expansion(data, solver_name)
    measures = objective.measure_classifier(data, expansion)
    expected_objective, expected_gap = measure_slowly(data, expansion)
    assert measures["objective"] == pytest.approx(expected_objective, rel=1e-12)
    assert measures["duality_gap"] == pytest.approx(expected_gap, rel=1e-6)
    assert 0 < measures["duality_gap"] < 0.01 * abs(expected_objective)
    assert measures["infeasibility"] < 1e-5
    assert measures["n_support"] == len(expansion.support)


@pytest.mark.parametrize("solver_name", SOLVERS)
def test_expansion_decides_as_its_model(data, solver_name):
    model, expansion = fit_expansion(data, solver_name)
    rows = np.arange(len(data.y_train))
    decisions = objective.multiply_kernel(data, expansion, rows) + expansion.intercept
    votes = np.zeros((len(rows), len(model.classes_)))
    pairs = [(i, j) for i in range(len(model.classes_)) for j in range(i + 1, len(model.classes_))]
    for p, pair in enumerate(pairs):
        np.add.at(votes, (rows, np.where(decisions[:, p] > 0, pair[1], pair[0])), 1)
    np.testing.assert_array_equal(votes.argmax(axis=1), model.predict(data.X_train))


@pytest.mark.parametrize("solver_name", SOLVERS)
def test_objective_agrees_with_libsvm(data, solver_name):
    theirs = objective.measure_classifier(data, fit_expansion(data, "sklearn")[1])["objective"]
    ours = objective.measure_classifier(data, fit_expansion(data, solver_name)[1])["objective"]
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_objective_agrees_with_the_estimator(data):
    model, expansion = fit_expansion(data, "widemargin")
    measures = objective.measure_classifier(data, expansion)
    assert measures["objective"] == pytest.approx(np.sum(model.objective_), rel=1e-5)


@pytest.mark.parametrize("solver_name", SOLVERS)
def test_sparse_rows_measure_like_dense_ones(solver_name):
    dense = make_data(3)
    sparse = BenchmarkData(
        "sparse", csr_matrix(dense.X_train), dense.y_train, None, dense.y_test, dense.params
    )
    measures = [
        objective.measure_classifier(d, fit_expansion(d, solver_name)[1]) for d in (dense, sparse)
    ]
    assert measures[0]["objective"] == pytest.approx(measures[1]["objective"], rel=1e-5)


def test_gap_is_left_out_when_it_would_take_too_long(data, monkeypatch):
    _, expansion = fit_expansion(data, "sklearn")
    full = objective.measure_classifier(data, expansion)
    monkeypatch.setattr(objective, "MAX_GAP_ENTRIES", 1)
    monkeypatch.setattr(objective, "BLOCK_BYTES", 1)
    short = objective.measure_classifier(data, expansion)
    assert short["duality_gap"] is None
    assert short["objective"] == pytest.approx(full["objective"], rel=1e-12)


def test_a_suite_measures_everything(data, monkeypatch):
    monkeypatch.setattr(suites, "touch_memory", lambda: None)
    record = suites.measure_data("exact", data, "widemargin")
    assert record["fit_seconds"] > 0
    assert record["predict_seconds"] > 0
    assert record["accuracy"] > 0.95
    assert record["peak_rss_bytes"] > 10**7
    assert record["warnings"] == []
    assert json.loads(json.dumps(record)) == record


def make_measurement(dataset, solver, repeat=1, fit_seconds=1.0, objective=-100.0):
    return {
        "suite": "exact", "dataset": dataset, "solver": solver, "repeat": repeat,
        "n_train": 1000, "n_test": 10, "n_features": 3, "fit_seconds": fit_seconds,
        "predict_seconds": fit_seconds / 2, "accuracy": 0.9, "n_support": 50,
        "objective": objective, "duality_gap": None, "peak_rss_bytes": 10**9,
        "machine": {
            "sources": fingerprint_sources(),
            "cpu": "abacus", "cores": 2, "memory_bytes": 2**33, "versions": {"numpy": "2.0"},
            "commit": "abc", "date": "2026-01-02T03:04:05+00:00",
        },
    }  # fmt: skip


def render(root, measurements):
    """Render the exact suite in a folder of its own; returns the page."""
    results = root / "benchmarks" / "results"
    for measurement in measurements:
        append_measurement(results / "exact.jsonl", measurement)
    (root / "docs").mkdir(exist_ok=True)
    if not (root / "README.md").exists():
        (root / "README.md").write_text(
            "a\n<!-- benchmark:exact -->\nold\n<!-- /benchmark:exact -->\nb\n"
        )
    assert main(["render", "--root", str(root), "--only", "suites"]) == 0
    return (root / "docs" / pages.SUITE_PAGES["exact"]).read_text()


#: Two repeats of ours; on the second set a ratio just below its target.
MEASURED = [
    make_measurement("easy", "widemargin", 1, 2.0),
    make_measurement("easy", "widemargin", 2, 1.0),
    make_measurement("easy", "sklearn", 1, 12.0),
    make_measurement("easy", "intelex", 1, 4.0),
    make_measurement("hard", "widemargin", 1, 1.0),
    make_measurement("hard", "sklearn", 1, 9.99),
]


def test_page_takes_the_best_repeat_and_judges_targets(tmp_path):
    page = render(tmp_path, MEASURED)
    assert "| easy | 1,000 | 3 | LIBSVM | 12.00 |" in page
    assert "| easy | 1,000 | 3 | widemargin | 1.00 | 0.50 |" in page
    assert "easy: all targets are met: fit 10x LIBSVM met (12.0x)" in page
    assert "hard: not all targets are met: fit 10x LIBSVM missed (9.9x)" in page
    assert "fit 3x intelex not measured" in page
    assert "abacus, 2 cores, 8 GiB. numpy 2.0. Measured 2026-01-02, commit abc." in page


def test_no_target_is_met_at_another_objective(tmp_path):
    ours = make_measurement("set", "widemargin", objective=-99.9)
    page = render(tmp_path, [ours, make_measurement("set", "sklearn", fit_seconds=99.0)])
    assert "no target counts as met" in page


def test_short_table_replaces_only_what_is_marked(tmp_path):
    render(tmp_path, MEASURED)
    render(tmp_path, [])
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("a\n<!-- benchmark:exact -->\n| dataset")
    assert text.endswith("|\n<!-- /benchmark:exact -->\nb\n")
    assert "| easy | 1,000 x 3 | 12.0 | 4.0 | 1.0 | 12.0 | 4.0 |" in text
    assert "old" not in text


def test_missing_markers_are_reported(tmp_path):
    (tmp_path / "README.md").write_text("nothing here")
    with pytest.raises(ValueError, match="markers"):
        render(tmp_path, MEASURED)


def test_run_resumes_and_spares_slow_peers(tmp_path, monkeypatch):
    asked = []

    def pretend(plan, dataset, solver, label):
        asked.append((dataset, solver))
        measurement = make_measurement(dataset, solver, fit_seconds=LONG_FIT_SECONDS + 1)
        return {key: value for key, value in measurement.items() if key != "repeat"}

    monkeypatch.setattr(run, "measure_apart", pretend)
    plan = Plan("exact", ("a9a",), ("sklearn", "widemargin"), 2, tmp_path / "r.jsonl")
    assert run_plan(plan) == 0
    assert asked == [("a9a", "sklearn"), ("a9a", "widemargin"), ("a9a", "widemargin")]
    run_plan(plan)
    assert len(asked) == 3
    run_plan(Plan("exact", ("a9a",), ("widemargin",), 1, plan.output, fresh=True))
    assert len(asked) == 4
    kept = [(m["solver"], m["repeat"]) for m in read_measurements(plan.output)]
    assert kept == [("sklearn", 1), ("widemargin", 1)]


def test_spent_budget_begins_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "measure_apart", lambda *_: pytest.fail("began a measurement"))
    plan = Plan("exact", ("a9a",), ("sklearn",), 1, tmp_path / "r.jsonl", budget_seconds=-1.0)
    assert run_plan(plan) == 0


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["exact", "--datasets", "ijcnn2"])
    assert "'ijcnn2' is none of ijcnn1, a9a" in capsys.readouterr().err


def test_marked_tables_are_filled():
    page = "before\n<!-- table:growth: b, a -->\nold\n<!-- /table -->\nafter"
    measurements = [{"experiment": "growth", "rows": [{"a": 1000, "b": 0.5}, {"a": 2, "b": None}]}]
    filled = experiments.render_into(page, measurements)
    lines = filled.splitlines()
    assert lines[2:6] == ["| b | a |", "| --- | --- |", "| 0.50 | 1,000 |", "|  | 2 |"]
    assert "old" not in filled
    assert experiments.render_into(filled, measurements) == filled
    assert experiments.render_into(page, []) == page
