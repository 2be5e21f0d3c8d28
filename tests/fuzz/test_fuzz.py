"""Fixed cases of every target; ``python -m tests.fuzz --minutes 60`` tries new ones."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict

import numpy as np
import pytest

import widemargin
from tests.fuzz.cases import is_refusal
from tests.fuzz.limits import allow_iterations
from tests.fuzz.runner import _follow, _stop, describe, run_batch
from tests.fuzz.worker import FAILURES, Report

needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows does not have these signals")

#: Seconds that a case may take here, where code may have to be compiled for it.
CASE_SECONDS = 200.0
SEEDS = {
    "model_files": range(200),
    "data_files": range(200),
    "fits": range(40),
    "interrupts": [0, 1],
    # Limits on iterations and memory only: other work on the machine spoils limits on time.
    "limits": [0, 6, 9, 17, 21],
    "exports": range(6),
}


@needs_signals
@pytest.mark.parametrize("target", SEEDS)
def test_fixed_cases(target):
    seeds = SEEDS[target]
    reports = list(run_batch(target, seeds, seconds=600.0, case_seconds=CASE_SECONDS))
    assert [report.seed for report in reports] == list(seeds)
    found = [describe(report) for report in reports if report.verdict in FAILURES]
    assert not found, "\n".join(found)
    assert any(report.verdict in ("right", "skipped") for report in reports)


@pytest.mark.filterwarnings("ignore:ProjectedSVC made max_iter=3")
def test_vectors_added_to_a_basis_do_not_count_as_exchanges():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=300) > 0
    model = widemargin.ProjectedSVC(n_basis=20, max_iter=3, tol=1e-8).fit(X, y)
    assert model.stop_reason_ == "max_iter"
    assert model.n_iter_ == allow_iterations(model) == 23


def follow(last_words):
    """Reports of a worker whose first case is right, and that does something else in the second."""
    first = json.dumps(asdict(Report("fits", 0, "right")))
    second = [json.dumps({"begins": 1}), json.dumps({"note": ["data", "few"]})]
    code = f"import os, time\nfor line in {[first, *second]}: print(line, flush=True)\n{last_words}"
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", code], stdout=subprocess.PIPE,
            stderr=errors, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            return list(_follow(process, "fits", errors, case_seconds=1.0))
        finally:
            _stop(process)


@needs_signals
@pytest.mark.parametrize(
    ("last_words", "verdict", "error"),
    [("os.abort()", "crashed", "SIGABRT"), ("os._exit(3)", "crashed", "exit 3"),
     ("time.sleep(60)", "hung", ""), ("while True: pass", "hung", "")],
)  # fmt: skip
def test_lost_worker_is_a_finding(last_words, verdict, error):
    right, lost = follow(last_words)
    assert (right.seed, right.verdict) == (0, "right")
    assert (lost.seed, lost.verdict, lost.error) == (1, verdict, error)
    assert lost.notes == {"data": "few"}
    assert "python -m tests.fuzz --target fits --seed 1" in describe(lost)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("C: must be greater than 0, got -1"), True),
        (ValueError("Input X contains NaN."), True),
        (ValueError("matmul: Input operand 1 has a mismatch"), False),
        (ValueError("could not convert string to float: 'x'"), False),
        (np.linalg.LinAlgError("X: singular matrix"), False),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "path: bad"), False),
        (OverflowError("gamma: too large"), False),
    ],
)
def test_refusals_are_documented_and_name_the_argument(error, expected):
    assert is_refusal(error) == expected
