"""Ctrl-C in the middle of a fit ends it at once and leaves the process in order."""

import os
import signal
import subprocess
import sys

import pytest

SCRIPT = """
import signal
import numpy as np
from threadpoolctl import threadpool_info
from widemargin import KernelSVC

def blas_threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

# Processes that a shell starts in the background are told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
rng = np.random.default_rng(0)
X = rng.normal(size=(30000, 10))
y = rng.integers(0, 2, len(X))
few = KernelSVC(C=100.0, gamma=0.1, n_jobs=2).fit(X[:300], y[:300])
before = blas_threads()

def report(state):
    if state.n_seen > 2000:
        print("running", flush=True)

try:
    KernelSVC(C=100.0, gamma=0.1, n_jobs=2, callback=report).fit(X, y)
except KeyboardInterrupt:
    assert blas_threads() == before
    again = KernelSVC(C=100.0, gamma=0.1, n_jobs=2).fit(X[:300], y[:300])
    assert np.array_equal(again.dual_coef_, few.dual_coef_)
    print("in order", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind do not exist on Windows")
def test_interrupt_leaves_the_process_in_order():
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline().strip() == "running"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.split("\n")[-2] == "in order", err
