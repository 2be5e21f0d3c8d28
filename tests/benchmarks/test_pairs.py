"""Curves and pairs beside EBM: what is chosen, the tables of the guide, limits, and resuming."""

import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

# The harness is not installed with the package, and needs what only its pages use.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
pytest.importorskip("yaml", reason="the published numbers are in YAML files")

from benchmarks.harness import Outcome
from benchmarks.pairs_data import Table
from benchmarks.pairs_models import OURS, choose_pairs_kernel, list_scalers
from benchmarks.storage import read_measurements
from benchmarks.timing import CpuLimitError, call_limited

from benchmarks import experiments, pairs


def make_table(n_rows=120, categories=()):
    """A product of two columns decides; the third column holds two categories."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((2 * n_rows, 2)), rng.integers(0, 2, 2 * n_rows)])
    y = ((X[:, 0] - 0.5) * (X[:, 1] - 0.5) > 0).astype(int)
    return Table(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], categories)


METHODS = [*pairs.QUICK, *pairs.PEERS]


def measure(name, seconds):
    """Both experiments of a set, as they are on file."""
    common = {"rows": 100, "features": 5, "accuracy (%)": 90.0, "log loss": 0.3}
    return [
        {
            "experiment": experiment,
            "rows": [{"method": m, "fit (s)": seconds[m]} | common for m in methods],
        }
        for experiment, methods in ((name, pairs.QUICK), (f"{name}-ebm", pairs.PEERS))
    ]


def test_tables_have_a_row_for_each_set_and_a_column_for_each_method():
    seconds = dict.fromkeys(METHODS, 2.0) | {"EBM": 100.0, "all pairs": 1.0}
    measured = measure("a1a", seconds) + measure("diabetes", seconds)
    tables = {table["experiment"]: table["rows"] for table in pairs.summarise(measured)}
    assert set(tables) == {"accuracy", "log-loss", "seconds"}
    assert [row["data"] for row in tables["accuracy"]] == ["diabetes", "a1a"]
    assert [tables["log-loss"][0][method] for method in METHODS] == ["0.300"] * 7
    assert tables["seconds"][0]["EBM / all pairs"] == "100"
    assert tables["seconds"][0]["EBM / few pairs"] == "50"


def test_a_stopped_fit_is_said_to_be_stopped():
    ours, peers = measure("a1a", dict.fromkeys(METHODS, 2.0))
    peers["rows"] = [{"method": m, "stopped (s)": 600.0} for m in pairs.PEERS]
    tables = {table["experiment"]: table["rows"][0] for table in pairs.summarise([ours, peers])}
    assert tables["accuracy"]["EBM"] == "stopped after 600 s"
    assert tables["seconds"]["EBM / all pairs"] == "> 300"


def test_a_peer_that_was_not_measured_leaves_its_columns_empty():
    ours, _ = measure("a1a", dict.fromkeys(METHODS, 2.0))
    tables = {table["experiment"]: table["rows"][0] for table in pairs.summarise([ours])}
    assert tables["accuracy"]["curves"] == 90.0
    assert not {"EBM", "EBM / all pairs"} & set(tables["seconds"])


def test_pairs_are_not_begun_if_curves_were_stopped(monkeypatch):
    n_begun = 0

    def stop(function, seconds):
        nonlocal n_begun
        n_begun += 1
        raise CpuLimitError

    monkeypatch.setattr(pairs, "call_limited", stop)
    monkeypatch.setattr(pairs, "SETS", {"small": lambda: iter([make_table()])})
    rows = list(pairs.run_peers("small"))
    assert n_begun == 1
    assert [row["stopped (s)"] for row in rows] == [pairs.MAX_SECONDS] * 2


def test_work_ends_at_the_limit_of_processor_seconds():
    def work(seconds):
        began = time.process_time()
        # Compiled code that does not come back to Python for long.
        while time.process_time() - began < seconds:
            sum(range(10**8))
        return seconds

    with pytest.raises(CpuLimitError, match="1 processor seconds"):
        call_limited(partial(work, 20.0), 1)
    assert call_limited(partial(work, 0.0), 1) == 0.0


def test_an_error_of_limited_work_is_told(capfd):
    def fail():
        raise ValueError("the cause")

    with pytest.raises(RuntimeError, match="ended with code 1"):
        call_limited(fail, 10)
    assert "the cause" in capfd.readouterr().err


def test_pairs_are_fitted_where_curves_do_not_help():
    table = make_table()
    right = {
        name: np.mean(fit(table).predict_proba(table.Z).argmax(axis=1) == table.z)
        for name, fit in OURS.items()
    }
    assert max(right["AdditiveSVC()"], right["curves"]) < 0.7
    assert min(right["few pairs"], right["all pairs"]) > 0.8


def test_one_value_of_c_is_left_if_all_rows_took_part():
    _, name, costs = choose_pairs_kernel(make_table())
    assert len(costs) == 1
    assert name in ("chi2", "intersection")


def test_categories_become_indicators_and_numbers_are_scaled():
    table = make_table(categories=(2,))
    for scaler in list_scalers(table):
        scaled = scaler.fit_transform(table.X)
        assert scaled.shape == (120, 4)
        np.testing.assert_array_equal(scaled[:, 1], table.X[:, 2])
        assert scaled.min() >= 0.0
        assert scaled.max() <= 1.0


def test_resuming_leaves_out_what_is_on_file(tmp_path, monkeypatch):
    family = ModuleType("family")
    ran = []

    def run(job):
        ran.append(job.arguments["name"])
        return Outcome([{"method": "m"}], {}, {})

    monkeypatch.setattr(experiments, "run_job", run)
    path = tmp_path / "family.jsonl"
    experiments.run_apart(family, ("a",), path)
    experiments.run_apart(family, ("a", "b"), path, resume=True)
    assert ran == ["a", "b"]
    experiments.run_apart(family, ("a",), path)
    assert ran == ["a", "b", "a"]
    assert sorted(m["experiment"] for m in read_measurements(path)) == ["a", "b"]
