"""Workers in processes of their own, so that a crash, a hang or a lack of memory is a finding."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path

from tests.fuzz.cases import processor_seconds
from tests.fuzz.worker import FAILURES, TARGETS, VERDICTS, Report

ROOT = Path(__file__).parents[2]
#: Processor seconds that a case may take; the first of a worker may have to compile. A case that
#: waits for nothing, or for other work on the machine, has so many times as long by the clock.
CASE_SECONDS, FIRST_SECONDS, PATIENCE = 30.0, 300.0, 10.0
#: Memory of a worker beyond which it is stopped.
MOST_BYTES = 4 * 2**30
#: A function of the library in a traceback of faulthandler.
OWN_FRAME = re.compile(r'File ".*widemargin/.*?(\w+\.py)", line \d+ in (\w+)')
#: Cases and seconds after which a worker is replaced.
BATCH_CASES, BATCH_SECONDS = 500, 60.0


def run_batch(target, seeds, seconds, case_seconds=CASE_SECONDS):
    """Reports of cases; a worker that is lost is replaced and goes on with the next seed."""
    deadline = time.monotonic() + seconds
    left = list(seeds)
    while left and time.monotonic() < deadline:
        n_before = len(left)
        for report in _run_worker(target, left, deadline - time.monotonic(), case_seconds):
            left = left[left.index(report.seed) + 1 :]
            yield report
        if len(left) == n_before:
            return


def _run_worker(target, seeds, seconds, case_seconds):
    """Reports of one worker, the last of which may be that it crashed or had to be stopped."""
    command = [
        sys.executable, "-m", "tests.fuzz", "--worker", "--target", target,
        "--seconds", str(seconds), "--seed", *map(str, seeds),
    ]  # fmt: skip
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield from _follow(process, target, errors, case_seconds)
        finally:
            _stop(process)


def _follow(process, target, errors, case_seconds):
    """Reports of a process, watching its time and memory."""
    lines = queue.SimpleQueue()
    threading.Thread(target=_forward, args=(process.stdout, lines), daemon=True).start()
    seed, notes, allowed, began = None, {}, FIRST_SECONDS, _read_clocks(process)
    while True:
        seconds, spent = (
            now - then for now, then in zip(_read_clocks(process), began, strict=True)
        )
        try:
            line = lines.get(timeout=0.5)
        except queue.Empty:
            excess = _find_excess(process, seconds, spent, allowed)
            if excess and seed is None:
                raise RuntimeError(f"a worker of {target} does not begin: {excess}") from None
            if excess:
                yield Report(target, seed, "hung", seconds, notes, place=excess)
                return
            continue
        if line is None:
            break
        told = json.loads(line)
        if "begins" in told:
            seed, notes, began = told["begins"], {}, _read_clocks(process)
        elif "note" in told:
            notes |= [told["note"]]
        else:
            yield Report(**told)
            seed, allowed = None, case_seconds
    yield from _explain_end(process, errors, Report(target, seed, "crashed", seconds, notes))


def _explain_end(process, errors, report):
    """The report of the case during which a worker ended, if it did not end between cases."""
    code = process.wait()
    errors.seek(0)
    text = errors.read().decode(errors="replace")
    # Where faulthandler begins; it ends with a list of all modules.
    message = text[max(text.find("Fatal Python error"), 0) :][:3000]
    if report.seed is not None:
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        frame = OWN_FRAME.search(message)
        place = f"{frame[1]}:{frame[2]}" if frame else ""
        yield replace(report, error=name, place=place, message=message)
    elif code != 0:
        raise RuntimeError(f"a worker ended with {code} between cases:\n{message}")


def _forward(stream, lines):
    for line in stream:
        lines.put(line)
    lines.put(None)


def _read_clocks(process):
    """The clock on the wall, and the processor time of a worker, in seconds."""
    now = time.monotonic()
    spent = processor_seconds(process.pid)
    return now, now if spent is None else spent


def _find_excess(process, seconds, spent, allowed):
    """What a process has too much of, if anything."""
    if spent > allowed:
        return f"{allowed:.0f} s of processor time passed"
    if seconds > PATIENCE * allowed:
        return f"{PATIENCE * allowed:.0f} s passed"
    status = Path(f"/proc/{process.pid}/statm")
    if status.exists():
        pages = int(status.read_text().split()[1])
        if pages * os.sysconf("SC_PAGE_SIZE") > MOST_BYTES:
            return f"more than {MOST_BYTES >> 30} GiB of memory"
    return None


def _stop(process):
    """End a worker and the processes that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


class Run:
    """A long run: batches of all targets in turn, the one with the least time first."""

    def __init__(self, targets, minutes, jobs, first, folder):
        self.jobs = jobs
        self.folder = folder
        self._deadline = time.monotonic() + 60.0 * minutes
        self._spent = dict.fromkeys(targets, 0.0)
        self._firsts = {target: count(first, BATCH_CASES) for target in targets}
        self._lock = threading.Lock()
        self.counts = {target: Counter() for target in targets}
        self.findings = {}

    def run(self):
        """Work until the time has passed."""
        with ThreadPoolExecutor(self.jobs) as pool:
            for future in [pool.submit(self._work) for _ in range(self.jobs)]:
                future.result()

    def _work(self):
        while (left := self._deadline - time.monotonic()) > 0:
            with self._lock:
                target = min(self._spent, key=self._spent.get)
                # Counted in advance, so that another job takes another target.
                self._spent[target] += BATCH_SECONDS
                first = next(self._firsts[target])
                seeds = range(first, first + BATCH_CASES)
            began = time.monotonic()
            for report in run_batch(target, seeds, min(BATCH_SECONDS, left)):
                self._take(report)
            with self._lock:
                self._spent[target] += time.monotonic() - began - BATCH_SECONDS

    def _take(self, report):
        with self._lock:
            self.counts[report.target][report.verdict] += 1
            if report.verdict not in (*FAILURES, "slow"):
                return
            with (self.folder / "findings.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(report)) + "\n")
            same = self.findings.setdefault(report.key, [])
            if not same:
                print(describe(report), flush=True)
            same.append(report.seed)

    @property
    def failed(self):
        """Whether anything but right answers, clear refusals and slow fits was found."""
        return any(counts[verdict] for counts in self.counts.values() for verdict in FAILURES)


def describe(report):
    """A finding in a few lines, with the command that repeats it."""
    notes = "".join(f"\n    {name}: {text}" for name, text in report.notes.items())
    where = f" ({report.error} in {report.place})" if report.error else f" {report.place}"
    return (
        f"{report.verdict}{where}: {report.message}{notes}\n"
        f"    python -m tests.fuzz --target {report.target} --seed {report.seed}"
    )


def format_table(counts):
    """Counts of verdicts, a line for each target."""
    columns = ("tried", *VERDICTS)
    lines = ["target".ljust(12) + "".join(name.rjust(9) for name in columns)]
    for target in TARGETS:
        if target in counts:
            numbers = [counts[target].total(), *(counts[target][v] for v in VERDICTS)]
            lines.append(target.ljust(12) + "".join(f"{n:9,}" for n in numbers))
    return "\n".join(lines)
