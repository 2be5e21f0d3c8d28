"""Fixed cases of every target; ``python -m tests.fuzz --minutes 60`` tries new ones."""

import os

import pytest

from tests.fuzz.runner import describe, run_batch
from tests.fuzz.worker import FAILURES

#: Seconds that a case may take here, where code may have to be compiled for it.
CASE_SECONDS = 200.0
SEEDS = {
    "model_files": range(200),
    "data_files": range(300),
    # Seed 13 is a linear kernel on badly scaled data, which takes too long.
    "fits": [seed for seed in range(40) if seed != 13],
    "interrupts": [0, 1],
    # Limits on iterations and memory only: other work on the machine spoils limits on time.
    "limits": [0, 1, 6, 7, 9, 10, 17, 18, 21, 34],
    "exports": range(10),
}


@pytest.mark.skipif(os.name == "nt", reason="workers are sent signals that Windows does not have")
@pytest.mark.parametrize("target", SEEDS)
def test_fixed_cases(target):
    seeds = SEEDS[target]
    reports = list(run_batch(target, seeds, seconds=600.0, case_seconds=CASE_SECONDS))
    assert [report.seed for report in reports] == list(seeds)
    found = [describe(report) for report in reports if report.verdict in FAILURES]
    assert not found, "\n".join(found)
    assert any(report.verdict in ("right", "skipped") for report in reports)
