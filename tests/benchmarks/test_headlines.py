"""The headline claims are judged by measurements."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("yaml")
pytest.importorskip("matplotlib")

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.papers.headlines import HEADLINES, NOT_MEASURED, summarise_headlines
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
