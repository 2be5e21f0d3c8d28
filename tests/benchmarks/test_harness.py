"""The harness: records arrive one by one, threads are set, and every end is told."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.harness import THREAD_VARIABLES, Job, MeasurementError, Running, run_job

HERE = "tests.benchmarks.test_harness"


def report_environment(word):
    print("a library prints this")
    yield {"word": word, "threads": [os.environ[name] for name in THREAD_VARIABLES]}
    yield {"pid": os.getpid()}


def sleep_after_one_record():
    yield {"number": 1}
    time.sleep(60)


def spend_time_and_memory():
    spent = b"x" * 300_000_000
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    yield {"n_bytes": len(spent)}


def break_down():
    yield {"number": 1}
    raise SystemExit(3)


def test_a_job_runs_in_another_process_with_its_threads():
    done = run_job(Job(f"{HERE}:report_environment", {"word": "now"}, threads=1))
    assert done.records[0] == {"word": "now", "threads": ["1"] * len(THREAD_VARIABLES)}
    assert done.records[1]["pid"] != os.getpid()
    assert done.machine["threads"] == 1
    assert {"cpu", "commit", "date", "versions"} <= done.machine.keys()


def test_time_and_memory_of_the_process_are_recorded():
    process = run_job(Job(f"{HERE}:spend_time_and_memory", {})).process
    assert process["cpu_seconds"] >= 0.2
    assert process["seconds"] >= 0.2
    assert process["peak_rss_bytes"] > 300_000_000


def test_a_job_that_fails_or_is_late_is_told():
    with pytest.raises(MeasurementError, match="the process failed with code 3"):
        run_job(Job(f"{HERE}:break_down", {}))
    with pytest.raises(MeasurementError, match="the process took over"):
        run_job(Job(f"{HERE}:sleep_after_one_record", {}), limit_seconds=0.5)


def start(code):
    return Running(
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    )


def test_records_come_one_by_one_until_the_process_ends():
    with start("print('{\"a\": 1}'); print('{\"a\": 2}')") as running:
        assert [running.wait(20)["a"], running.wait(20)["a"]] == [1, 2]
        assert running.wait(20) is None
        assert running.ended == "failed with code 0"


def test_a_process_that_fails_or_is_late_is_told_apart():
    with start("raise SystemExit(3)") as running:
        assert running.wait(20) is None
        assert running.ended == "failed with code 3"
    with start("import time; time.sleep(60)") as running:
        assert running.wait(0.2) is None
        assert running.ended == "took over 0 s"
        assert running.wait(20) is None


def test_a_limit_that_is_over_before_the_process_starts_is_told_plainly():
    with pytest.raises(MeasurementError, match=r"the process took over 0 s"):
        run_job(Job(f"{HERE}:sleep_after_one_record", {}), limit_seconds=-5.0)
