"""Cases one after another in this process, with a line of JSON before and after each."""

import faulthandler
import json
import os
import sys
import tempfile
import time
import traceback
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from tests.fuzz import data_files, exports, fits, interrupts, limits, model_files
from tests.fuzz.cases import Case, Refused, Wrong

TARGETS = {
    "model_files": model_files.run,
    "data_files": data_files.run,
    "fits": fits.run,
    "interrupts": interrupts.run,
    "limits": limits.run,
    "exports": exports.run,
}
#: Verdicts that make a run fail.
FAILURES = ("wrong", "hung", "crashed")
VERDICTS = ("refused", "right", "slow", "skipped", *FAILURES)


@dataclass(frozen=True)
class Report:
    """What became of a case; ``error`` and ``place`` tell different findings apart."""

    target: str
    seed: int
    verdict: str
    seconds: float = 0.0
    notes: dict = field(default_factory=dict)
    error: str = ""
    place: str = ""
    message: str = ""

    @property
    def key(self):
        """What is the same for findings that probably have one cause."""
        return self.target, self.verdict, self.error, self.place


def run_case(target, seed, tell):
    """Run one case, which target and seed determine; ``tell`` hears its notes at once."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="widemargin-fuzz-") as folder:
        rng = np.random.default_rng([zlib.crc32(target.encode()), seed])
        case = Case(rng, Path(folder), tell)
        told = {}
        try:
            verdict = TARGETS[target](case)
        except Refused as refusal:
            verdict, told = "refused", {"message": str(refusal)}
        except Wrong as error:
            verdict = "wrong"
            told = {"error": "Wrong", "place": error.place, "message": str(error)}
        # Any other error is what the harness looks for.
        except Exception as error:
            verdict = "wrong"
            told = {
                "error": type(error).__name__,
                "place": _find_place(error),
                "message": str(error)[:500],
            }
    return Report(target, seed, verdict, time.perf_counter() - began, case.notes, **told)


def _find_place(error):
    """The innermost function of the library, or else of anyone, in an error's traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "widemargin" in Path(f.filename).parts] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].name}"


def work(target, seeds, seconds):
    """Run cases until all are done or the time has passed, and tell standard output of each."""
    faulthandler.enable()
    threadpool_limits(1, user_api="blas")
    # Whatever else writes to standard output must not garble the lines.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as lines:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

        def say(told):
            print(json.dumps(told), file=lines, flush=True)

        deadline = time.monotonic() + seconds
        for seed in seeds:
            if time.monotonic() >= deadline:
                return
            say({"begins": seed})
            say(asdict(run_case(target, seed, lambda name, text: say({"note": [name, text]}))))
