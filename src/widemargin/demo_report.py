"""The table, the bars and the sentences that end the demonstration."""

import sys
from typing import NamedTuple

from widemargin.progress import can_write

BAR_WIDTH = 40
HEAD = ("", "fit (s)", "predict (s)", "accuracy", "support vectors")


class Row(NamedTuple):
    """One line of the table; a fit that was stopped has no model."""

    name: str
    fit_seconds: float
    predict_seconds: float = 0.0
    accuracy: float = 0.0
    n_support: int = 0
    is_stopped: bool = False


def format_table(rows: list[Row]) -> str:
    """Write the measurements as columns."""
    body = [_format_cells(row) for row in rows]
    widths = [max(len(line[i]) for line in [HEAD, *body]) for i in range(len(HEAD))]
    return "\n".join(_align(line, widths) for line in [HEAD, *body])


def _format_cells(row: Row) -> tuple[str, ...]:
    if row.is_stopped:
        return (row.name, f"> {row.fit_seconds:.0f}", "-", "-", "-")
    return (
        row.name,
        f"{row.fit_seconds:.2f}",
        f"{row.predict_seconds:.2f}",
        f"{row.accuracy:.2%}",
        f"{row.n_support:,}",
    )


def _align(cells: tuple[str, ...], widths: list[int]) -> str:
    first, *rest = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([cells[0].ljust(len(first)), *rest])


def format_bars(rows: list[Row]) -> str:
    """Draw the seconds of the fits as bars of proportional lengths."""
    block = "█" if can_write("█", sys.stdout) else "#"
    longest = max(row.fit_seconds for row in rows)
    width = max(len(row.name) for row in rows)
    lines = []
    for row in rows:
        bar = block * max(1, round(BAR_WIDTH * row.fit_seconds / longest))
        seconds = f"{row.fit_seconds:.1f} s"
        label = f"stopped after {row.fit_seconds:.0f} s" if row.is_stopped else seconds
        lines.append(f"{row.name.ljust(width)}  {bar} {label}")
    return "\n".join(lines)


def format_ratios(rows: list[Row]) -> str:
    """Say how many times as fast as the last classifier the others were fitted."""
    *ours, peer = rows
    return "\n".join(_describe_ratio(row, peer) for row in ours)


def _describe_ratio(row: Row, peer: Row) -> str:
    times = f"{peer.fit_seconds / row.fit_seconds:.1f} times as fast as {peer.name}"
    if peer.is_stopped:
        return f"{row.name}: more than {times}, which was stopped after {peer.fit_seconds:.0f} s."
    return f"{row.name}: {times}."
