"""The quick guard: what it says about ratios, and that it measures what it says."""

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

# The harness is not installed with the package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.harness import MeasurementError

from benchmarks import quick, quick_contests, quick_data

MACHINE = {"cpu": "abacus", "commit": "abc", "date": "2026-01-02T03:04:05+00:00"}


def make_row(what="fit: A vs B", ratio=4.0, accuracy=90.0):
    return {
        "what": what, "threads": "2 / 1", "ours (s)": 0.5, "peer (s)": 0.5 * ratio, "ratio": ratio,
        "accuracy (%)": accuracy, "peer accuracy (%)": 89.5,
    }  # fmt: skip


def make_record(*rows):
    return {"machine": MACHINE, "rows": list(rows)}


def parse(*arguments):
    parser = argparse.ArgumentParser()
    quick.add_parser(parser.add_subparsers())
    return parser.parse_args(["quick", *map(str, arguments)])


def run(*arguments):
    options = parse(*arguments)
    return options.command(options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "quick.json"


@pytest.fixture
def pretend(monkeypatch):
    """Plays records back, one for each measurement of a family; names what was asked for."""

    def play(**records):
        asked = []

        def measure(family, scale):
            asked.append(family)
            record = records[family].pop(0)
            if isinstance(record, MeasurementError):
                raise record
            return record

        monkeypatch.setattr(quick, "measure_apart", measure)
        return asked

    return play


def save(path, **records):
    quick.save_reference(path, records)


@pytest.mark.parametrize(
    ("ratio", "accuracy", "verdict"),
    [
        (4.0, 90.0, "ok"),
        (9.0, 99.0, "ok"),
        (2.81, 89.51, "ok"),
        (2.6, 90.0, "slower: ratio fell by 35 %"),
        (4.0, 89.2, "less accurate: by 0.8 points"),
        (2.0, 89.0, "slower: ratio fell by 50 %, less accurate: by 1.0 points"),
    ],
)
def test_verdicts(ratio, accuracy, verdict):
    found = quick.judge(make_row(ratio=ratio, accuracy=accuracy), make_row(), tolerance=0.3)
    assert found == verdict
    assert quick.is_fine(found) == (verdict == "ok")


def test_tolerance_is_a_choice():
    assert quick.judge(make_row(ratio=2.6), make_row(), tolerance=0.4) == "ok"
    assert quick.judge(make_row(ratio=3.5), make_row(), tolerance=0.1) != "ok"


def test_what_is_not_on_file_is_not_judged():
    assert quick.judge(make_row(ratio=0.01), None, tolerance=0.3) == "no reference"
    assert quick.is_fine("no reference")


def test_a_good_run_is_measured_once(path, pretend, capsys):
    save(path, exact=make_record(make_row()))
    asked = pretend(exact=[make_record(make_row(ratio=3.8))])
    assert run("--reference", path, "--only", "exact") == 0
    assert asked == ["exact"]
    printed = capsys.readouterr().out
    assert "-5 %  ok" in printed
    assert "Reference: commit abc, 2026-01-02, abacus." in printed


def test_a_bad_ratio_must_be_bad_twice(path, pretend):
    save(path, exact=make_record(make_row()), sparse=make_record(make_row()))
    bad, good = make_record(make_row(ratio=1.0)), make_record(make_row())
    asked = pretend(exact=[bad, good], sparse=[good])
    assert run("--reference", path, "--only", "exact,sparse") == 0
    assert asked == ["exact", "exact", "sparse"]
    pretend(exact=[bad, bad], sparse=[good])
    assert run("--reference", path, "--only", "exact,sparse") == 1


def test_the_better_of_two_measurements_counts_row_by_row(path, pretend, capsys):
    save(path, exact=make_record(make_row("first"), make_row("second")))
    pretend(
        exact=[
            make_record(make_row("first", 1.0), make_row("second", 5.0)),
            make_record(make_row("first", 3.0), make_row("second", 2.0)),
        ]
    )
    assert run("--reference", path, "--only", "exact") == 0
    first, second = capsys.readouterr().out.splitlines()[2:4]
    assert first.endswith("3.00       4.00   -25 %  ok")
    assert second.endswith("5.00       4.00   +25 %  ok")


def test_speed_does_not_make_up_for_accuracy(path, pretend):
    save(path, exact=make_record(make_row()))
    careless = make_record(make_row(ratio=40.0, accuracy=80.0))
    pretend(exact=[careless, make_record(make_row(ratio=3.0))])
    assert run("--reference", path, "--only", "exact") == 0
    pretend(exact=[careless, careless])
    assert run("--reference", path, "--only", "exact") == 1


def test_a_bad_run_says_which_side_moved(path, pretend, capsys):
    save(path, exact=make_record(make_row()))
    pretend(exact=[make_record(make_row(ratio=1.0)), make_record(make_row(ratio=2.0))])
    assert run("--reference", path, "--only", "exact") == 1
    printed = capsys.readouterr().out
    assert "slower: ratio fell by 50 %" in printed
    assert "fit: A vs B: ours 0.50 s, was 0.50; peer 1.00 s, was 2.00." in printed


def test_without_a_file_nothing_is_judged(path, pretend, capsys):
    pretend(exact=[make_record(make_row())])
    assert run("--reference", path, "--only", "exact") == 0
    printed = capsys.readouterr().out
    assert "does not exist, so nothing was judged" in printed
    assert not path.exists()


def test_changed_names_are_told(path, pretend, capsys):
    save(path, exact=make_record(make_row("old name")), sparse=make_record(make_row("elsewhere")))
    pretend(exact=[make_record(make_row("new name", 0.1))])
    assert run("--reference", path, "--only", "exact") == 0
    printed = capsys.readouterr().out
    assert "On file but not measured: exact, old name." in printed
    assert "no reference" in printed
    assert "elsewhere" not in printed


def test_a_failure_does_not_lose_the_other_families(path, pretend, capsys):
    pretend(exact=[MeasurementError("its process ended with code -11")], sparse=[
        make_record(make_row())
    ])  # fmt: skip
    assert run("--reference", path, "--only", "exact,sparse", "--save") == 1
    printed = capsys.readouterr().out
    assert "exact failed: its process ended with code -11." in printed
    assert "fit: A vs B" in printed
    assert "Nothing was saved." in printed
    assert not path.exists()


def test_if_all_fail_there_is_no_table(path, pretend):
    pretend(exact=[MeasurementError("no")])
    assert run("--reference", path, "--only", "exact") == 1


def test_saving_replaces_the_families_measured_and_keeps_the_others(path, pretend):
    save(path, exact=make_record(make_row()), sparse=make_record(make_row()))
    asked = pretend(exact=[make_record(make_row(ratio=1.0))])
    assert run("--reference", path, "--only", "exact", "--save") == 0
    assert asked == ["exact"]
    saved = json.loads(path.read_text())
    assert saved["exact"]["rows"][0]["ratio"] == 1.0
    assert saved["sparse"]["rows"][0]["ratio"] == 4.0
    assert saved["exact"]["machine"] == MACHINE


def test_table_is_aligned():
    measured = {"exact": make_record(make_row(), make_row("fit: a longer name", 12.0))}
    table = quick.tabulate(measured, {"exact": make_record(make_row())}, 0.3)
    head, *lines = quick.render_table(table).splitlines()
    assert [line.index("2 / 1") for line in lines] == [head.index("threads") + 2] * 2
    words = "exact fit: A vs B 2 / 1 0.50 2.00 90.00 / 89.50 4.00 4.00 +0 % ok"
    assert " ".join(lines[0].split()) == words
    assert lines[1].endswith("no reference")


def test_unknown_families_are_refused(capsys):
    with pytest.raises(SystemExit):
        parse("--only", "exact,fast")
    assert "'fast' is none of exact, divide, additive, sparse" in capsys.readouterr().err


def test_models_are_run_in_turns_and_the_best_run_counts(monkeypatch):
    data = quick_data.make_census(100, 100)
    contest = quick_contests.Contest(data, {"ours": "ours"}, "peer", "peer", 1)
    seconds = {"ours": [3.0, 1.0, 2.0], "peer": [4.0, 5.0, 9.0]}
    order = []

    def pretend_run(model, _):
        order.append(model)
        accuracy = 90.0 - len(order)
        return {"fit": seconds[model].pop(0), "predict": 0.0, "accuracy": accuracy}

    monkeypatch.setattr(quick_contests, "warm_up", lambda *_: None)
    monkeypatch.setattr(quick_contests, "time_model", pretend_run)
    best = quick_contests.time_models(contest)
    # The peer has taken 9 seconds after two runs.
    assert order == ["peer", "ours", "peer", "ours", "ours"]
    assert best["ours"] == {"fit": 1.0, "predict": 0.0, "accuracy": 85.0}
    assert best["peer"]["fit"] == 4.0


@pytest.mark.parametrize("family", quick_contests.FAMILIES)
def test_data_are_the_same_every_time_and_of_the_size_asked_for(family):
    for first, second in zip(
        quick_contests.FAMILIES[family].contests(0.01),
        quick_contests.FAMILIES[family].contests(0.01),
        strict=True,
    ):
        assert f"{len(first.data.y_train):,}" in first.data.name
        assert (first.data.X_train != second.data.X_train).sum() == 0
        np.testing.assert_array_equal(first.data.y_test, second.data.y_test)
        assert set(first.data.y_train) == set(first.data.y_test)


def test_terrain_needs_a_kernel():
    data = quick_data.make_terrain(1500, 1500)
    scores = [
        SVC(C=10.0, gamma=gamma).fit(data.X_train, data.y_train).score(data.X_test, data.y_test)
        for gamma in (1e-4, 8.0)
    ]
    assert scores[1] > scores[0] + 0.05


def test_images_stay_on_one_side():
    data = quick_data.make_digits(6000)
    assert data.X_train.shape == (6000, 64)
    assert len(data.y_test) == 5 * 1797 - 6000
    images = data.X_train.reshape(-1, 5, 8, 8)
    np.testing.assert_array_equal(images[:, 0, 1:], images[:, 2, :-1])
    np.testing.assert_array_equal(images[:, 0, :, :-1], images[:, 3, :, 1:])


def test_intersection_is_a_sum_of_minima():
    rng = np.random.default_rng(0)
    A, B = rng.random((7, 5)), rng.random((4, 5))
    expected = pairwise_kernels(A, B, metric=lambda a, b: np.minimum(a, b).sum())
    np.testing.assert_allclose(quick_contests.intersect(A, B), expected)


def test_smallest_family_from_end_to_end(path, capfd):
    what = "fit: ProjectedSVC vs SpSVC on all rows, census 100"
    save(path, sparse=make_record(make_row(what, ratio=1e-6, accuracy=50.0)))
    tiny = ("--reference", path, "--only", "sparse", "--scale", 0.05)
    assert run(*tiny) == 0
    captured = capfd.readouterr()
    (line,) = (line for line in captured.out.splitlines() if what in line)
    assert line.split()[-1] == "ok"
    ours, peer, accuracy = (float(word) for word in line.partition("1 / 1")[2].split()[:3])
    assert min(ours, peer) > 0
    assert 60 < accuracy < 100
    assert "sparse ..." in captured.err


def test_a_crash_is_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(MeasurementError, match="the process failed with code 1"):
        quick.measure_apart("sparse", 0.05)


def test_endless_families_are_ended(monkeypatch):
    monkeypatch.setattr(quick, "MAX_FAMILY_SECONDS", 0.01)
    with pytest.raises(MeasurementError, match="the process took over 0 s"):
        quick.measure_apart("sparse", 0.05)
