"""Ctrl-C at a random moment: the fit ends within seconds, and the estimator is unfitted or whole.

The fit runs in a process of its own, ``python -m tests.fuzz.interrupts SEED``.
"""

import contextlib
import resource
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
from tests.fuzz.cases import CLASSIFIERS, Wrong, answers, processor_seconds, require
from widemargin.compilation import compilation

ROOT = Path(__file__).parents[2]
#: Processor seconds until the process must have ended, and seconds until it is killed.
END_SECONDS, KILL_SECONDS = 5.0, 100.0
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
        before, began = _children_seconds(), processor_seconds(process.pid) or 0.0
        try:
            out, err = process.communicate(timeout=KILL_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise Wrong("late", f"no end within {KILL_SECONDS} s of Ctrl-C") from error
    seconds = _children_seconds() - before - began
    place = "signal" if process.returncode < 0 else "state"
    require(process.returncode == 0, place, f"exit {process.returncode}: {err[-800:]}")
    state, _, compiling = out.strip().partition(" ")
    case.note("state", state)
    require(state in STATES, "state", f"{out!r} {err[-800:]}")
    text = f"the end comes {seconds:.1f} s of processor time after Ctrl-C"
    # Ctrl-C waits until a function is compiled.
    require(seconds <= END_SECONDS + float(compiling), "late", text)
    return "right"


def _children_seconds():
    """Processor seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


STATES = ("unfitted", "old", "new")
#: Estimators that are interrupted.
MODELS = (
    *(lambda name=name: getattr(widemargin, name)(C=10.0, random_state=0) for name in CLASSIFIERS),
    lambda: widemargin.KernelSVR(C=10.0),
    lambda: widemargin.DCSVR(C=10.0),
    lambda: widemargin.KernelOneClassSVM(nu=0.5),
    lambda: widemargin.KernelSVCCV(Cs=[1.0, 10.0], gammas=[0.5, 2.0], cv=2),
    lambda: widemargin.KernelSVRCV(Cs=[1.0, 10.0], gammas=[0.5, 2.0], epsilons=[0.1], cv=2),
)


def interrupted_fit(seed):
    """Fit until Ctrl-C comes, and print the state of the estimator."""
    # A process that a shell starts in the background ignores the signal otherwise.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng(seed)
    model = MODELS[rng.integers(len(MODELS))]()
    old, new = rng.random(OLD_SHAPE), rng.random(NEW_SHAPE)
    old_y, new_y = (rng.integers(0, 3, len(X)) for X in (old, new))
    # Compiles what the long fit needs; compilers answer Ctrl-C late.
    clone(model).fit(new[:3000], new_y[:3000])
    is_fitted = bool(rng.random() < 0.5)
    decisions = answers(model.fit(old, old_y), old) if is_fitted else None
    before = compilation.seconds
    print(f"{model!r}, {'fitted before' if is_fitted else 'not fitted before'}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(new, new_y)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(find_state(model, old, new, decisions), compilation.seconds - before)


def find_state(model, old, new, decisions):
    """What the estimator is; an exception if it is neither one thing nor the other."""
    try:
        model.predict(new[:10])
    except NotFittedError:
        return "unfitted"
    except ValueError:
        require(decisions is not None, "state", "fitted, but not to the data of the only fit")
        oracles.check_same("state", answers(model, old), decisions)
        return "old"
    return "new"


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interrupted_fit(int(sys.argv[1]))
