"""Runs one measurement in a fresh process."""

import json
import os
import subprocess
import sys
import time
from typing import Any

from benchmarks.settings import THREADS

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class MeasurementError(Exception):
    """A measurement ended without a result."""


def measure_apart(dataset: str, solver: str, max_rows: int | None, label: str) -> dict[str, Any]:
    """Measure in a fresh process, so that memory, threads and patches do not leak."""
    command = [sys.executable, "-m", "benchmarks.worker", dataset, solver]
    if max_rows is not None:
        command.append(str(max_rows))
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(THREADS))
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        output = await_output(process, label, began)
    if process.returncode:
        raise MeasurementError(f"the process ended with code {process.returncode}")
    return json.loads(output.splitlines()[-1])


def await_output(process: "subprocess.Popen[str]", label: str, began: float) -> str:
    """Wait for a process, showing the seconds that pass on a terminal."""
    while True:
        try:
            return process.communicate(timeout=1.0)[0]
        except subprocess.TimeoutExpired:
            if sys.stderr.isatty():
                seconds = time.monotonic() - began
                print(f"\r{label} ... {seconds:.0f} s", end="", file=sys.stderr, flush=True)
