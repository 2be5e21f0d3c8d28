"""Measurements know which code they measured."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.freshness import (
    MARK,
    MEASURED,
    SOURCES,
    collect_modules,
    dump_statements,
    fingerprint_module,
    fingerprint_sources,
    is_stale,
    locate,
)
from benchmarks.machine import ROOT, describe_machine
from benchmarks.papers.methods import GROUPS
from benchmarks.storage import read_measurements
from benchmarks.suites import SUITES
from benchmarks.summary import summarise
from benchmarks.tables import render_full_table, render_short_table

PLAIN = "def add(a, b):\n    return a + b\n"


def test_words_do_not_change_a_fingerprint():
    told = '"""A module."""\n\ndef add(a, b):\n    """Add."""\n    # Why.\n    return (a +\n  b)\n'
    assert dump_statements(told) == dump_statements(PLAIN)
    assert dump_statements(PLAIN.replace("+", "-")) != dump_statements(PLAIN)


def test_the_text_of_an_error_does_not_change_a_fingerprint():
    one = "if a:\n    raise ValueError('one')\n"
    assert dump_statements(one) == dump_statements(one.replace("one", "other"))
    assert dump_statements(one) != dump_statements(one.replace("if a", "if b"))


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("exact/machine.py", True),
        ("kernels/__init__.py", True),
        ("kernels/sums.py", True),
        ("kernels/anova.py", False),
        ("exact/tuner.py", False),
        ("files.py", False),
    ],
)
def test_what_an_estimator_imports_changes_its_fingerprint(tmp_path, changed, matters):
    modules = {
        "exact/machine.py": "from widemargin.kernels import add\nfrom widemargin.files import f\n",
        "exact/tuner.py": "from widemargin.exact.machine import add\n",
        "kernels/__init__.py": (
            "from widemargin.kernels.sums import add\nfrom widemargin.kernels.anova import pairs\n"
        ),
        "kernels/anova.py": PLAIN,
        "kernels/sums.py": PLAIN,
        "files.py": PLAIN,
    }
    for name, text in modules.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = fingerprint_module("exact.machine", tmp_path)
    (tmp_path / changed).write_text(modules[changed] + "more = 1\n")
    assert (fingerprint_module("exact.machine", tmp_path) != before) == matters


def test_every_measured_estimator_is_found():
    for module in MEASURED:
        name = f"widemargin.{module}"
        assert Path(import_module(name).__file__) in collect_modules(locate(name, SOURCES), SOURCES)


def test_every_method_of_ours_is_watched():
    modules = {m.module for methods in GROUPS.values() for m in methods.values()}
    modules |= {suite.module for suite in SUITES.values()}
    assert modules - {None} == set(MEASURED)


def test_only_the_estimator_that_was_measured_makes_it_stale():
    machine = describe_machine()
    assert not any(is_stale(machine, module) for module in MEASURED)
    machine["sources"] = fingerprint_sources() | {"exact.kernel_svc": "other"}
    assert is_stale(machine, "exact.kernel_svc")
    assert not is_stale(machine, "divide.dc_svc")
    assert is_stale({}, "divide.dc_svc")
    assert not is_stale({}, None)


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
