"""Ctrl-C at a random moment: the fit ends within seconds, and the estimator is unfitted or whole.

The fit runs in a process of its own, ``python -m tests.fuzz.interrupts SEED``.
"""

import contextlib
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import widemargin
from tests.fuzz import oracles
from tests.fuzz.cases import ESTIMATORS, Wrong, require

ROOT = Path(__file__).parents[2]
#: Seconds until the process must have ended, and until it is killed.
END_SECONDS, KILL_SECONDS = 10.0, 25.0
#: Rows and columns of the first fit, and of the one that is interrupted.
OLD_SHAPE, NEW_SHAPE = (300, 6), (40_000, 12)


def run(case):
    """Start a fit, interrupt it, and read what became of the estimator."""
    seed, wait = int(case.rng.integers(2**31)), float(case.rng.uniform(0, 1.5))
    case.note("child", f"python -m tests.fuzz.interrupts {seed}, SIGINT after {wait:.3f} s")
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.interrupts", str(seed)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        case.note("estimator", process.stdout.readline().strip())
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        began = time.perf_counter()
        try:
            out, err = process.communicate(timeout=KILL_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise Wrong("late", f"no end within {KILL_SECONDS} s of Ctrl-C") from error
    seconds = time.perf_counter() - began
    require(seconds <= END_SECONDS, "late", f"the end comes {seconds:.1f} s after Ctrl-C")
    case.note("state", out.strip())
    place = "signal" if process.returncode < 0 else "state"
    require(process.returncode == 0, place, f"exit {process.returncode}: {err[-800:]}")
    require(out.strip() in STATES, "state", f"{out!r} {err[-800:]}")
    return "right"


STATES = ("unfitted", "old", "new")


def interrupted_fit(seed):
    """Fit until Ctrl-C comes, and print the state of the estimator."""
    # A process that a shell starts in the background ignores the signal otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng(seed)
    model = getattr(widemargin, ESTIMATORS[rng.integers(len(ESTIMATORS))])(C=10.0, random_state=0)
    old, new = rng.random(OLD_SHAPE), rng.random(NEW_SHAPE)
    old_y, new_y = (rng.integers(0, 3, len(X)) for X in (old, new))
    # Compiles what the long fit needs; compilers answer Ctrl-C late.
    clone(model).fit(new[:3000], new_y[:3000])
    is_fitted = bool(rng.random() < 0.5)
    decisions = model.fit(old, old_y).decision_function(old) if is_fitted else None
    print(f"{model!r}, {'fitted before' if is_fitted else 'not fitted before'}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(new, new_y)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(find_state(model, old, new, decisions))


def find_state(model, old, new, decisions):
    """What the estimator is; an exception if it is neither one thing nor the other."""
    try:
        model.predict(new[:10])
    except NotFittedError:
        return "unfitted"
    except ValueError:
        require(decisions is not None, "state", "fitted, but not to the data of the only fit")
        oracles.check_same("state", model.decision_function(old), decisions)
        return "old"
    return "new"


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interrupted_fit(int(sys.argv[1]))
