"""The suite of early prediction: its data, its rows, the summary of the guide, and the picture."""

import sys
from pathlib import Path

import numpy as np
import pytest

# The harness is not installed with the package, and needs what only its pages use.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
pytest.importorskip("matplotlib", reason="the picture needs matplotlib")
pytest.importorskip("yaml", reason="the published numbers are in YAML files")

from benchmarks.early_data import SETS, make_gauss
from benchmarks.early_picture import save_picture

from benchmarks import early


def make_row(method, seconds, accuracy, uses=""):
    return {
        "method": method, "rows": 1000, "fit (CPU s)": seconds, "predict (CPU s)": 0.1,
        "accuracy (%)": accuracy, "uses": uses,
    }  # fmt: skip


@pytest.fixture
def measurements():
    rows = [
        make_row("sample of 2,500", 0.1, 80.0), make_row("sample of the same time", 1.0, 85.0),
        make_row("ours, 64 clusters", 1.1, 90.0, "64 clusters"),
        make_row("ours, 16 clusters", 2.0, 91.0, "16 clusters"),
        make_row("paper, 64 clusters", 3.0, 88.0, "64 clusters"), make_row("exact", 9.0, 92.0),
    ]  # fmt: skip
    return [
        {"experiment": "early-gauss", "rows": rows},
        {"experiment": "covtype-growth", "rows": [{"rows": 1}]},
    ]


def test_the_summary_has_one_row_for_each_set(measurements):
    (row,) = early.summarise(measurements)
    assert row["data"] == "gauss, 1,000"
    assert [row[f"{name} (%)"] for name in ("exact", "paper", "ours", "sample")] == [
        92.0, 88.0, 90.0, 85.0
    ]  # fmt: skip
    assert row["ours (s)"] == 1.1
    assert row["ours uses"] == "64 clusters"


def test_the_picture_has_a_panel_for_each_set(measurements, tmp_path):
    save_picture(measurements, tmp_path / "early.png")
    assert (tmp_path / "early.png").stat().st_size > 1000


def test_a_sample_of_the_same_time_has_rows_of_the_set(monkeypatch):
    """The number of rows follows the power law of the time to fit."""

    def measure(data, n_rows):
        return make_row("sample", (n_rows / 1e4) ** 1.6, 80.0) | {"rows": n_rows}

    monkeypatch.setattr(early, "measure_sample", measure)
    data = make_gauss(30_000)
    assert abs(early.measure_same_time(data, 1.0)["rows"] - 10_000) < 10
    assert early.measure_same_time(data, 1e6)["rows"] == 30_000


def test_the_data_without_clusters_have_two_classes():
    data = make_gauss(500)
    assert data.X_train.shape == (500, 20)
    assert set(np.unique(data.y_train)) == {-1, 1}


def test_every_set_has_an_experiment_that_says_what_it_measures():
    for name in SETS:
        assert "DCSVC(**PAPER)" in str(early.EXPERIMENTS[f"early-{name}"].__doc__)
    assert {"covtype-growth", "covtype-early-splits", "letters-levels"} <= set(early.EXPERIMENTS)


def test_what_a_model_uses():
    data = make_gauss(600)
    model = early.make_early(data.params, 1).fit(data.X_train, data.y_train)
    assert early.describe_choice(model) == "4 clusters and a sample"
    plain = early.make_early(data.params, 1, background=0).fit(data.X_train, data.y_train)
    assert early.describe_choice(plain) == "4 clusters"
    assert early.describe_choice(early.make_exact(data.params)) == ""
