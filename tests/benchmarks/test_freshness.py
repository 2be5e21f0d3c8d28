"""Measurements know which code they measured."""

import sys
from pathlib import Path

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.freshness import (
    FOLDERS,
    MARK,
    dump_statements,
    fingerprint_folder,
    fingerprint_sources,
    is_stale,
)
from benchmarks.machine import ROOT, describe_machine
from benchmarks.storage import read_measurements
from benchmarks.summary import summarise
from benchmarks.tables import render_full_table, render_short_table

PLAIN = "def add(a, b):\n    return a + b\n"


def test_words_do_not_change_a_fingerprint():
    told = '"""A module."""\n\ndef add(a, b):\n    """Add."""\n    # Why.\n    return (a +\n  b)\n'
    assert dump_statements(told) == dump_statements(PLAIN)
    assert dump_statements(PLAIN.replace("+", "-")) != dump_statements(PLAIN)


def test_a_changed_module_changes_the_fingerprint_of_its_folder(tmp_path):
    folders = [tmp_path / name for name in ("one", "other")]
    for folder, text in zip(folders, (PLAIN, PLAIN.replace("a + b", "b + a")), strict=True):
        folder.mkdir()
        (folder / "sum.py").write_text(text)
    one, other = map(fingerprint_folder, folders)
    assert one != other


def test_only_folders_that_a_measurement_names_make_it_stale():
    machine = describe_machine()
    assert set(machine["sources"]) == set(FOLDERS)
    assert not is_stale(machine, FOLDERS)
    machine["sources"] = fingerprint_sources() | {"exact": "other"}
    assert is_stale(machine, ("kernels", "exact"))
    assert not is_stale(machine, ("additive",))
    assert is_stale({}, ("additive",))
    assert not is_stale({}, ())


def exact_measurements():
    return read_measurements(ROOT / "benchmarks" / "results" / "exact.jsonl")


def test_a_table_marks_seconds_of_older_code():
    measurements = exact_measurements()
    for m in measurements:
        m["machine"] = {**m["machine"], "sources": fingerprint_sources()}
    summary = summarise(measurements)
    assert MARK not in render_short_table(summary) + render_full_table(summary)
    ours = next(m for m in measurements if m["solver"] == "widemargin")
    ours["machine"]["sources"] = {}
    only = summarise([ours])
    assert render_short_table(only).count(MARK) == render_full_table(only).count(MARK) == 1


def test_the_readme_shows_the_present_code():
    """If this fails: ``python -m benchmarks exact --solvers widemargin --fresh``, then ``render``."""
    assert MARK not in render_short_table(summarise(exact_measurements()))
