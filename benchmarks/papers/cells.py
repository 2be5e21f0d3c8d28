"""Cells of the tables: one method on one data set at one setting, measured in a process apart."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from benchmarks.harness import Job, Record, describe_job, start_job
from benchmarks.papers.methods import Options

#: Seconds that loading and compiling may take beside the limit of a fit.
PREPARATION_SECONDS = 180.0


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
    job = Job("benchmarks.papers.fits:measure_task", asdict(task), threads=1)
    machine = describe_job(job)
    with start_job(job) as running:
        running.wait(PREPARATION_SECONDS)
        not_tried = f"the warm-up {running.ended}" if running.ended else ""
        for options in task.settings:
            running.wait(limit_seconds)  # The fit, then the prediction.
            measured = running.wait(limit_seconds)
            found = measured or {"options": options, "outcome": not_tried or running.ended}
            keep(describe(task, options) | found | {"machine": machine})
            if running.ended and not not_tried:
                not_tried = f"not tried: a faster setting {running.ended}"


def describe(task: Task, options: Options) -> Record:
    fields = asdict(task)
    fields.pop("settings")
    return {"key": task.key(options)} | fields
