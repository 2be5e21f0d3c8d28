"""The headline claims are judged by measurements."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("yaml")
pytest.importorskip("matplotlib")

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.papers.headlines import (
    HEADLINES,
    NOT_MEASURED,
    judge_sparse,
    judge_steadiness,
    summarise_headlines,
)
from benchmarks.papers.report import SHOWN, show

from tests.benchmarks.test_papers import record

EARLY = "Early prediction is over 100 times as fast as LIBSVM at nearly the same accuracy"


def judge(claim, cells):
    shown = [show(name, cells) for name in SHOWN]
    rows = {row["claim"]: row for row in summarise_headlines(cells, shown)}
    return rows[claim]


def test_every_paper_has_a_headline():
    assert {headline.paper for headline in HEADLINES} == {"DC-SVM", "PmSVM", "ICD", "PSVM"}
    assert len(HEADLINES) == 10


def test_a_claim_needs_measurements_of_both_sides():
    assert judge(EARLY, [record()])["verdict"] == NOT_MEASURED


@pytest.mark.parametrize(
    ("seconds", "accuracy", "verdict"),
    [(0.05, 98.5, "holds"), (0.05, 97.0, "does not hold"), (1.0, 98.5, "does not hold")],
)
def test_early_prediction_must_be_fast_and_accurate(seconds, accuracy, verdict):
    rows = 464_810
    cells = [
        record("covtype", rows=rows, fit_s=10.0, accuracy=98.7),
        record(
            "covtype", "DC-SVM", rows, options={"stop_level": 3}, fit_s=seconds, accuracy=accuracy
        ),
    ]
    assert judge(EARLY, cells)["verdict"] == verdict


def test_a_smaller_problem_does_not_refute_a_claim_about_a_large_one():
    cells = [record(), record(method="DC-SVM", options={"stop_level": 3}, fit_s=1.0)]
    row = judge(EARLY, cells)
    assert row["verdict"] == "not decided"
    assert "464,810 rows" in row["why"]


def test_all_rows_are_told_where_libsvm_did_not_end_on_them():
    early = {"stop_level": 3}
    cells = [
        record("covtype", rows=50_000, fit_s=10.0),
        record("covtype", "DC-SVM", 50_000, options=early, fit_s=1.0),
        record("covtype", "DC-SVM", 464_810, options=early, fit_s=577.0, accuracy=96.0),
    ]
    row = judge(EARLY, cells)
    assert row["here"].startswith("10.0 times on covtype, 50,000 rows")
    assert "takes 577 s here and has 96.00 %" in row["why"]


def make_grid_pair(rows, seconds):
    """DC-SVM and LIBSVM at one pair of C and gamma."""
    at = {"C": 2.0, "gamma": 2.0}
    return [
        record(method="DC-SVM", rows=rows, options={"stop_level": 0} | at, fit_s=seconds),
        record(rows=rows, options=at, outcome="took over 9 s"),
    ]


@pytest.mark.parametrize(("rows", "verdict"), [(49_990, "holds"), (5_000, "holds in part")])
def test_settings_on_fewer_rows_hold_in_part(rows, verdict):
    row = judge("DC-SVM is faster than LIBSVM in 96 of 100 settings", make_grid_pair(rows, 1.0))
    assert row["verdict"] == verdict
    assert "1 of its fits were stopped" in row["why"]


def test_the_exact_solver_without_division_stands_beside_dc_svm():
    cells = [
        record(fit_s=10.0), record(method="DC-SVM", options={"stop_level": 3}, fit_s=1.0),
        record(method="KernelSVC", options={"tol": 1e-3}, fit_s=2.0, accuracy=98.0),
    ]  # fmt: skip
    assert "KernelSVC, not divided, 5.0 times, 98.00 %" in judge(EARLY, cells)["here"]


@pytest.mark.parametrize(("last", "verdict"), [(63.9, "holds"), (61.0, "does not hold")])
def test_icd_is_steady_from_a_tenth_of_its_default(last, verdict):
    rows = [
        {"C / default": c, "IntersectionSVC (%)": a, "LinearSVC (%)": 59.0}
        for c, a in ((0.01, 10.0), (0.1, 63.7), (1.0, last))
    ]
    assert judge_steadiness([], {"icd-figure-1": SimpleNamespace(rows=rows)}).verdict == verdict


def test_a_sparse_machine_is_as_accurate_within_two_standard_errors():
    def row(data, method, accuracy):
        return {"data": data, "method": method, "here: vectors": 10, "test rows": 2175,
                "here: accuracy (%)": accuracy, "verdict": "reproduced"}  # fmt: skip

    shown = {
        "psvm-table-2": SimpleNamespace(rows=[row(d, "LIBSVM", 90.0) for d in ("a", "b")]),
        "psvm-table-3": SimpleNamespace(rows=[row("a", "PSVM", 88.9), row("b", "PSVM", 85.0)]),
    }
    found = judge_sparse([], shown)
    assert found.verdict == "holds in part"
    assert "on 1 of 2 sets" in found.here
    assert found.why == "5.0 points less on b."
