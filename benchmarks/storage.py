"""Measurements on disk: one JSON object a line."""

import json
from collections.abc import Container
from pathlib import Path
from typing import Any

Measurement = dict[str, Any]


def read_measurements(path: Path) -> list[Measurement]:
    """Read a file of measurements; none if there is no such file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def append_measurement(path: Path, measurement: Measurement) -> None:
    """Add a measurement, so that nothing finished is lost when a later one fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        stream.write(json.dumps(measurement) + "\n")


def replace_measurement(path: Path, measurement: Measurement) -> None:
    """Add a measurement in the place of an earlier one with the same key."""
    kept = [m for m in read_measurements(path) if m["key"] != measurement["key"]]
    write_measurements(path, [*kept, measurement])


def forget_measurements(path: Path, datasets: Container[str], solvers: Container[str]) -> None:
    """Remove the measurements of these data sets by these solvers."""
    measurements = read_measurements(path)
    kept = [m for m in measurements if m["dataset"] not in datasets or m["solver"] not in solvers]
    if len(kept) < len(measurements):
        write_measurements(path, kept)


def write_measurements(path: Path, measurements: list[Measurement]) -> None:
    """Write all measurements of a file anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(m) + "\n" for m in measurements))
