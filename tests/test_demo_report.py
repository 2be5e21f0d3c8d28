"""The table, the bars and the sentences of the demonstration."""

import io

import pytest

from widemargin.demo_report import Row, format_bars, format_ratios, format_table

OURS = Row("ours", 2.0, 0.25, 0.875, 1234)
PEER = Row("peer", 20.0, 3.0, 0.875, 1235)
STOPPED = Row("peer", 60.0, is_stopped=True)


def test_table():
    lines = format_table([OURS, PEER]).splitlines()
    assert lines[1].split() == ["ours", "2.00", "0.25", "87.50%", "1,234"]
    assert len({len(line) for line in lines}) == 1
    assert format_table([OURS, STOPPED]).splitlines()[2].split() == [
        "peer",
        ">",
        "60",
        "-",
        "-",
        "-",
    ]


@pytest.mark.parametrize(("encoding", "block"), [("utf-8", "█"), ("ascii", "#")])
def test_bars_are_proportional(monkeypatch, encoding, block):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    ours, peer = format_bars([OURS, STOPPED]).splitlines()
    assert ours == f"ours  {block} 2.0 s"
    assert peer == f"peer  {40 * block} stopped after 60 s"


def test_sentences():
    assert format_ratios([OURS, PEER]) == "ours: 10.0 times as fast as peer."
    stopped = "ours: more than 30.0 times as fast as peer, which was stopped after 60 s."
    assert format_ratios([OURS, STOPPED]) == stopped
