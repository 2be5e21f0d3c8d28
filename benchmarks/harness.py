"""The one way to measure: a job in a fresh process with a set number of threads.

Memory, threads and patches of one measurement do not reach the next. ``benchmarks.worker`` is the
process; what it yields arrives here record by record.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.machine import ROOT, describe_machine
from benchmarks.settings import THREADS

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
#: Seconds that a process has to clean up after its last record.
EXIT_SECONDS = 10.0
Record = dict[str, Any]


class MeasurementError(Exception):
    """A measurement ended without a result."""


@dataclass(frozen=True)
class Job:
    """What runs in a process of its own.

    Attributes
    ----------
    function : str
        ``module:name`` of a function that yields records.
    arguments : dict
        Its arguments, in values that JSON has.
    threads : int
        The most threads that any library in the process may take.
    environment : dict
        Further environment variables of the process.
    """

    function: str
    arguments: Record
    threads: int = THREADS
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a job yielded.

    Attributes
    ----------
    records : list of dict
        What the function yielded.
    process : dict
        Wall seconds, processor seconds and peak memory of the whole process.
    machine : dict
        Hardware, versions, commit, date and number of threads.
    """

    records: list[Record]
    process: Record
    machine: Record


def run_job(job: Job, limit_seconds: float | None = None, label: str = "") -> Outcome:
    """Run a job to its end; ``limit_seconds`` is the most that the job may take in all."""
    # Described before, in case the sources change while a long measurement runs.
    machine = describe_job(job)
    began = time.monotonic()
    records: list[Record] = []
    with start_job(job) as running:
        while True:
            left = None
            if limit_seconds is not None:
                left = max(limit_seconds - (time.monotonic() - began), 0.0)
            record = running.wait(left, label)
            if record is None:
                raise MeasurementError(f"the process {running.ended}")
            if "process" in record:
                running.wait(EXIT_SECONDS)
                return Outcome(records, record["process"], machine)
            records.append(record)


def describe_job(job: Job) -> Record:
    """Machine, software and threads of a job."""
    return describe_machine() | {"threads": job.threads}


def start_job(job: Job) -> "Running":
    """Start the process of a job; use it as a context, which ends the process."""
    threads = dict.fromkeys(THREAD_VARIABLES, str(job.threads))
    environment = os.environ | threads | job.environment
    text = json.dumps({"function": job.function, "arguments": job.arguments})
    command = [sys.executable, "-m", "benchmarks.worker", text]
    return Running(
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    )


class Running:
    """The records of a process, each awaited for a limited time.

    Attributes
    ----------
    ended : str
        Why there are no more records; empty while there may be.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.ended = ""
        self._process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._began = time.monotonic()
        threading.Thread(target=self._read, daemon=True).start()

    def wait(self, seconds: float | None, label: str = "") -> Record | None:
        """Return the next record; None, after ending the process, if there is none in time."""
        if self.ended:
            return None
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = 1.0 if end is None else min(1.0, end - time.monotonic())
            try:
                line = self._lines.get(timeout=max(left, 0.0))
                break
            except queue.Empty:
                if end is not None and time.monotonic() >= end:
                    self.ended = f"took over {seconds:.0f} s"
                    self._process.kill()
                    return None
                self._show_time(label)
        if line is None:
            self.ended = f"failed with code {self._process.wait()}"
            return None
        return json.loads(line)

    def _show_time(self, label: str) -> None:
        """Show the seconds that pass on a terminal."""
        if label and sys.stderr.isatty():
            seconds = time.monotonic() - self._began
            print(f"\r{label} ... {seconds:.0f} s", end="", file=sys.stderr, flush=True)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
