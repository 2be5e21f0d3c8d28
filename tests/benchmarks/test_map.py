"""The map of C and gamma: cells are judged by coefficients, and a run resumes."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.svm import SVC

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.__main__ import main
from benchmarks.map_cells import C_GRID, GAMMA_GRID, SETS, judge, measure_cell
from benchmarks.map_table import describe_summary, list_faults, render_map, summarise_map
from benchmarks.storage import read_measurements
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks import map_command

MACHINE = {"cpu": "abacus", "commit": "abc", "date": "2026-01-02T03:04:05+00:00"}


def make_record(data="german", C=1, gamma=-2, ratio=4.0, **ours):
    judged = {"cpu_seconds": 0.5, "objective": -10.0, "violation": 5e-4}
    fine = {"stop_reason": "converged", "claimed_objective": -10.0}
    return {
        "data": data, "max_rows": None, "C_log2": C, "gamma_log2": gamma, "n_train": 1000,
        "ratio": ratio, "ours": judged | fine | ours,
        "peer": judged | {"cpu_seconds": 0.5 * ratio}, "machine": MACHINE,
    }  # fmt: skip


@pytest.fixture(scope="module")
def small():
    X, y = make_classification(200, 5, flip_y=0.2, random_state=0)
    return X, np.where(y == 1, 1.0, -1.0)


def test_the_grid_has_210_cells():
    assert len(SETS) * len(C_GRID) * len(GAMMA_GRID) == 210
    assert all(800 <= n_rows <= 3000 for _, n_rows, _ in SETS.values())


def test_a_cell_is_measured(small):
    cell = measure_cell(*small, 1, -2, limit_seconds=30.0)
    assert cell["ours"]["stop_reason"] == "converged"
    assert cell["ours"]["violation"] < 1.01e-3
    assert cell["ours"]["objective"] == pytest.approx(cell["peer"]["objective"], rel=1e-4)
    assert cell["ratio"] == cell["peer"]["cpu_seconds"] / cell["ours"]["cpu_seconds"]
    assert list_faults({"data": "made"} | cell) in ([], ["slower than 1.2x"])


def test_a_model_that_stopped_early_has_a_violation(small):
    X, y = small
    with pytest.warns(ConvergenceWarning):
        model = SVC(C=2.0, gamma=0.25, max_iter=20).fit(X, y)
    assert judge(model, rbf_kernel(X, gamma=0.25), y)["violation"] > 0.1


@pytest.mark.parametrize(
    ("record", "faults"),
    [
        (make_record(), []),
        (make_record(stop_reason="stalled"), ["not converged"]),
        (make_record(violation=0.002), ["violation above tol"]),
        (make_record(objective=-9.9, claimed_objective=-9.9), ["objective higher"]),
        (make_record(objective=-10.1, claimed_objective=-10.1), []),
        (make_record(claimed_objective=-11.0), ["objective_ not true"]),
        (make_record(ratio=0.8), ["slower than 1.2x"]),
        (make_record(ratio=0.85), []),
        ({"data": "german", "outcome": "took over 9 s"}, ["took over 9 s"]),
    ],
)
def test_faults_are_named(record, faults):
    assert list_faults(record) == faults


def test_the_summary_counts_and_averages():
    records = [make_record(ratio=2.0), make_record(gamma=2, ratio=8.0, stop_reason="stalled")]
    summary = summarise_map([*records, make_record("adult", ratio=0.5)])
    assert summary["german"].mean_ratio == pytest.approx(4.0)
    assert summary["german"].faults["not converged"] == 1
    assert summary["all"].n_cells == 3
    assert summary["all"].mean_ratio == pytest.approx(2.0)
    text = describe_summary(summary["all"])
    assert text.startswith("3 cells: 1 not converged, 0 violation above tol")
    assert "1 slower than 1.2x; geometric mean 2.00x, 1.5 s against 5.2 s of LIBSVM" in text


def test_the_page_shows_ratios_and_faults():
    page = render_map(
        [make_record(ratio=0.1), make_record(ratio=2.0), make_record(C=17, ratio=0.5)]
    )
    assert "| 2^1 |  |  | 2.00 |  |  |" in page
    assert "| german | 2^17 | 2^-2 | slower than 1.2x |" in page
    assert "0.10" not in page
    assert "No cell is at fault." in render_map([make_record()])


def test_the_picture_has_a_panel_for_each_set(tmp_path):
    pytest.importorskip("matplotlib", reason="the pictures need matplotlib")
    from benchmarks.map_picture import draw_map, save_map
    from matplotlib import pyplot as plt

    records = [make_record(), make_record("adult", ratio=0.5), make_record("adult", C=17)]
    figure = draw_map(records)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:2] == ["german", "adult"]
    assert [len(axes.get_lines()) for axes in figure.axes[:2]] == [0, 1]
    plt.close(figure)
    save_map(records, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 0


class Pretended:
    """A process that measures some cells and then takes too long."""

    def __init__(self, job, n_cells):
        self.ended = ""
        cells = [make_record(C=C, gamma=gamma) for C, gamma in job.arguments["cells"]]
        for cell in cells:
            del cell["data"], cell["max_rows"], cell["machine"]
        self._records = [{"ready": True}, *cells[:n_cells]]

    def wait(self, seconds, label=""):
        if self._records:
            return self._records.pop(0)
        self.ended = "took over 9 s"
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_a_run_goes_on_after_a_cell_that_failed_and_tries_it_again(monkeypatch, tmp_path, capsys):
    jobs = []

    def start(job):
        jobs.append(job)
        return Pretended(job, 4 if len(jobs) == 1 else 30)

    monkeypatch.setattr(map_command, "start_job", start)
    output = tmp_path / "map.jsonl"
    call = ["map", "--datasets", "german", "--output", str(output)]
    assert main(call) == 1
    assert [len(job.arguments["cells"]) for job in jobs] == [30, 25]
    assert {job.threads for job in jobs} == {1}
    assert [r.get("outcome") for r in read_measurements(output)].count("took over 9 s") == 1
    assert capsys.readouterr().out.startswith("29 cells: 0 not converged")
    assert main(call) == 0
    assert len(jobs) == 3
    assert jobs[-1].arguments["cells"] == [(C_GRID[0], GAMMA_GRID[4])]
    assert main(call) == 0
    assert len(jobs) == 3
    assert main([*call, "--fresh"]) == 0
    assert len(read_measurements(output)) == 30
