"""Lines about the progress of fits: the last one says how the fit ended, in logs as in terminals."""

import io
import re

import numpy as np
import pytest

import widemargin
from widemargin import baselines
from widemargin.progress import Bar, can_write, draw_bar, show_passes

CLASSES = [
    getattr(home, name)
    for home in (widemargin, baselines)
    for name in home.__all__
    if isinstance(getattr(home, name), type)
]
LOUD = [cls for cls in CLASSES if "verbose" in cls().get_params()]
FEW = {
    "KernelSVCCV": {"Cs": 2, "gammas": 2, "cv": 2},
    "KernelSVRCV": {"Cs": 2, "gammas": 2, "cv": 2},
}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def data():
    X = np.random.default_rng(0).random((80, 3))
    return X, (X.sum(axis=1) > 1.5).astype(int)


@pytest.mark.parametrize("cls", LOUD, ids=lambda cls: cls.__name__)
def test_last_line_in_a_log_says_that_the_fit_is_done(cls, data, capsys):
    cls(verbose=1, **FEW.get(cls.__name__, {})).fit(*data)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("[widemargin]")
    assert re.search(r"done after \d+\.\d s$", lines[-1])


def test_last_line_of_an_interrupted_fit(capsys):
    def press_control_c():
        with show_passes(1) as show:
            show(3, 0.5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        press_control_c()
    assert re.search(r"pass 3  violation 0.5  stopped after \d+\.\d s\n$", capsys.readouterr().err)


def test_last_line_replaces_the_others_in_a_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with show_passes(1) as show:
        show(1, 0.5)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("s\n")
    assert "\r[widemargin] pass 1  violation 0.5  done after" in text


def test_nothing_is_written_without_verbose(capsys):
    with show_passes(0) as show:
        assert show is None
    assert capsys.readouterr().err == ""


def test_bar_in_a_terminal():
    stream = Terminal()
    bar = Bar("work", stream)
    bar._began -= 1.0
    bar.show(0.5, "half")
    bar.close()
    assert "\rwork " + 15 * "█" + 15 * "░" + " half" in stream.getvalue()
    assert re.search(r"\rwork:  done after 1\.\d s *\n$", stream.getvalue())


def test_bar_in_a_log_is_one_line():
    stream = io.StringIO()
    bar = Bar("work", stream)
    bar.show(0.5)
    bar.close("3 functions compiled")
    assert re.fullmatch(r"work:  3 functions compiled after \d\.\d s\n", stream.getvalue())


def test_bar_without_block_characters():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert draw_bar(0.3, 10, stream) == "###......."
    assert draw_bar(2.0, 4, stream) == "####"
    assert not can_write("█", stream)
