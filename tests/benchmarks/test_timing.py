"""The clock of the benchmarks: the best of the repeats, and long calls run once."""

import sys
from pathlib import Path

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import timing


def pretend_clock(monkeypatch, seconds):
    """Each call takes the next of these seconds, by both clocks."""
    now = [0.0]
    left = list(seconds)

    def call():
        now[0] += left.pop(0)
        return len(left)

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(timing.time, "process_time", lambda: 2 * now[0])
    return call


def test_the_best_of_short_calls_counts(monkeypatch):
    found = timing.time_call(pretend_clock(monkeypatch, [3.0, 1.0, 2.0]), 3, 10.0)
    assert (found.seconds, found.cpu_seconds, found.value) == (1.0, 2.0, 0)


def test_a_long_call_runs_once(monkeypatch):
    found = timing.time_call(pretend_clock(monkeypatch, [30.0, 1.0]), 3, 10.0)
    assert (found.seconds, found.value) == (30.0, 1)


def test_a_call_runs_once_unless_told_otherwise(monkeypatch):
    assert timing.time_call(pretend_clock(monkeypatch, [3.0, 1.0])).value == 1
