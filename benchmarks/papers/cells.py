"""Cells of the tables: one method on one data set at one setting, measured in a process apart."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.isolate import THREAD_VARIABLES
from benchmarks.machine import describe_machine
from benchmarks.papers.methods import Options
from benchmarks.settings import THREADS

#: Seconds that loading and compiling may take beside the limit of a fit.
PREPARATION_SECONDS = 180.0
Record = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One method on one data set at several settings, the fastest first."""

    data: str
    rows: int
    group: str
    method: str
    settings: tuple[Options, ...]

    def key(self, options: Options) -> str:
        """What tells a cell from all others."""
        chosen = ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
        return f"{self.group}/{self.data}-{self.rows}/{self.method}/{chosen}"


def run_task(task: Task, limit_seconds: float, keep: Callable[[Record], None]) -> None:
    """Measure all settings; ``keep`` gets a record of each as soon as there is one.

    A fit or a prediction that takes longer than the limit is stopped, and slower settings are not
    tried.
    """
    machine = describe_machine()
    with start_worker(task) as answers:
        answers.wait(PREPARATION_SECONDS)
        not_tried = f"the warm-up {answers.ended}" if answers.ended else ""
        for options in task.settings:
            answers.wait(limit_seconds)  # The fit, then the prediction.
            measured = answers.wait(limit_seconds)
            found = measured or {"options": options, "outcome": not_tried or answers.ended}
            keep(describe(task, options) | found | {"machine": machine})
            if answers.ended and not not_tried:
                not_tried = f"not tried: a faster setting {answers.ended}"


def describe(task: Task, options: Options) -> Record:
    fields = asdict(task)
    fields.pop("settings")
    return {"key": task.key(options)} | fields


class Answers:
    """Lines of JSON from a process, each awaited for a limited time.

    Attributes
    ----------
    ended : str
        Why there are no more; empty while there are.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.ended = ""
        self._process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait(self, seconds: float) -> Record | None:
        """The next answer; None, and no process any more, if there is none in time."""
        if self.ended:
            return None
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self.ended = f"took over {seconds:.0f} s"
            self._process.kill()
            return None
        if line is None:
            self.ended = f"failed with code {self._process.wait()}"
            return None
        return json.loads(line)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def __enter__(self) -> "Answers":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def start_worker(task: Task) -> Answers:
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(THREADS))
    command = [sys.executable, "-m", "benchmarks.papers.worker", json.dumps(asdict(task))]
    return Answers(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
