"""What is compiled, when the user is told, and that nothing depends on who compiled."""

import gc
import itertools
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from widemargin import compilation as module
from widemargin.additive import coded_rows_fast as additive
from widemargin.compilation import NOTICE, CompilationListener, compilation
from widemargin.exact import pair_moves_fast as exact
from widemargin.kernels import tiles_fast as tiles
from widemargin.projected import scores_fast as projected


def make_event(name="widemargin.exact.loops"):
    function = SimpleNamespace(__module__=name, __name__="loop")
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.delenv(module.QUIET_VARIABLE, raising=False)
    return SimpleNamespace(now=0.0)


@pytest.fixture
def listener(clock):
    return CompilationListener(lambda: clock.now)


def compile_for(listener, clock, seconds, event=None):
    event = event or make_event()
    listener.on_start(event)
    clock.now += seconds
    listener.on_end(event)


def test_user_is_told_once_after_two_seconds_in_all(listener, clock, capsys):
    compile_for(listener, clock, 1.5)
    clock.now += 100.0
    assert capsys.readouterr().err == ""
    compile_for(listener, clock, 1.0)
    compile_for(listener, clock, 5.0)
    captured = capsys.readouterr()
    assert captured.err == NOTICE + "\n"
    assert captured.out == ""


def test_user_is_told_while_parts_are_compiled(listener, clock, capsys):
    listener.on_start(make_event())
    clock.now += 3.0
    listener.on_start(make_event("numba.np.arrayobj"))
    assert capsys.readouterr().err == NOTICE + "\n"


@pytest.mark.parametrize("name", ["elsewhere.loops", None])
def test_compilation_of_other_packages_does_not_count(listener, clock, capsys, name):
    compile_for(listener, clock, 10.0, make_event(name))
    assert capsys.readouterr().err == ""
    assert listener.functions == []


@pytest.mark.parametrize(
    ("value", "is_told"), [("1", False), ("yes", False), ("0", True), ("", True)]
)
def test_environment_keeps_the_line_away(listener, clock, capsys, monkeypatch, value, is_told):
    monkeypatch.setenv(module.QUIET_VARIABLE, value)
    compile_for(listener, clock, 3.0)
    assert bool(capsys.readouterr().err) == is_told


def test_silence_ends_with_its_body(listener, clock, capsys):
    with listener.silence():
        compile_for(listener, clock, 3.0)
    assert capsys.readouterr().err == ""
    compile_for(listener, clock, 0.0)
    assert capsys.readouterr().err == NOTICE + "\n"


def test_only_functions_that_python_calls_are_listed(listener, clock):
    listener.on_start(make_event())
    compile_for(listener, clock, 0.0, make_event("widemargin.exact.parts"))
    listener.on_end(make_event())
    assert listener.functions == ["widemargin.exact.loops.loop"]


def test_threads_print_one_line(listener, clock, capsys):
    clock.now = 0.0
    listener.on_start(make_event())
    clock.now = 3.0
    threads = [threading.Thread(target=compile_for, args=(listener, clock, 0.0)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capsys.readouterr().err == NOTICE + "\n"


@pytest.mark.parametrize("is_enabled", [True, False])
def test_garbage_collection_is_as_before(listener, clock, is_enabled):
    before = gc.isenabled()
    try:
        (gc.enable if is_enabled else gc.disable)()
        listener.on_start(make_event())
        assert not gc.isenabled()
        compile_for(listener, clock, 0.0)
        assert not gc.isenabled()
        listener.on_end(make_event())
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_listener_of_the_process_hears_numba():
    def double(x):
        return 2 * x

    double.__module__ = "widemargin.exact.loops"
    compiled = njit(double)
    before = len(compilation.functions)
    assert compiled(3) == 6
    assert compiled(4) == 8
    assert compilation.functions[before:] == ["widemargin.exact.loops.double"]


FIT = """
import hashlib, sys
import numpy as np
from scipy import sparse
from widemargin import KernelSVC
from widemargin.compilation import compilation
r = np.random.default_rng(0)
digest = hashlib.sha256()
for n, d, make in ((5000, 5, np.asarray), (700, 9, np.asarray), (700, 9, sparse.csr_array)):
    X = r.normal(size=(n, d))
    for y in (X[:, 0] * X[:, 1] > 0, np.digitize(X[:, 0] + X[:, 1], (-1, 1))):
        model = KernelSVC(n_jobs=1).fit(make(X), y)
        digest.update(model._dual_coef_.tobytes() + model.decision_function(make(X)).tobytes())
print(len(compilation.functions), digest.hexdigest())
"""


def run_fits(folder):
    done = subprocess.run(
        [sys.executable, "-c", FIT], capture_output=True, text=True, check=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder), module.QUIET_VARIABLE: "1"},
    )  # fmt: skip
    n_compiled, digest = done.stdout.split()
    assert done.stderr == ""
    return int(n_compiled), digest


def test_after_warmup_nothing_is_compiled_and_results_do_not_change(tmp_path):
    """A process that loads all code from the cache computes what a process that compiles it does."""
    n_compiled, digest = run_fits(tmp_path / "fits")
    assert n_compiled > 0
    done = subprocess.run(
        [sys.executable, "-m", "widemargin.cli.command", "warmup", "--estimators", "KernelSVC"],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "warm"), module.QUIET_VARIABLE: "0"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.match(r"[1-9]\d* functions compiled", done.stdout)
    # On a slow machine lines of progress come first.
    assert done.stderr.splitlines()[-1].startswith("[1/1] KernelSVC:")
    assert NOTICE not in done.stderr
    assert run_fits(tmp_path / "warm") == (0, digest)


@njit(fastmath=True, error_model="numpy")
def write_powers(q, sums, norms, out):
    tiles.finish_power(False, q[1], sums, np.float32(q[0]), norms, out)


@njit(fastmath=True, error_model="numpy")
def write_tangents(q, sums, norms, out):
    tiles.finish_power(True, q[1], sums, np.float32(q[0]), norms, out)


@njit(fastmath=True, error_model="numpy")
def write_polynomials(q, sums, out):
    tiles.finish_poly(sums, q[0], 3, out)


@njit(fastmath=True, error_model="numpy")
def write_sums(q, values, dense, out):
    tiles.sum_row(tiles.DOT, q[0], values, np.zeros(values.size, np.uint64), dense, out)


@njit(fastmath=True, error_model="numpy")
def write_jensen_shannon(q, dense, out):
    tiles.add_jensen_shannon(np.float32(q[0]), np.uint64(0), dense, out)


@njit(fastmath=True, error_model="numpy")
def write_power_means(q, dense, out):
    tiles.add_power_mean(np.float32(q[1]), -q[0], np.uint64(0), dense, out)


@njit(fastmath=True, error_model="numpy")
def write_gradient(q, row_i, row_j, no_rise, no_fall, out):
    exact.update_gradient(q[0], row_i, q[2], row_j, no_rise, no_fall, out)


@njit(fastmath=True, error_model="numpy")
def write_four_rows(q, row0, row1, row2, row3, out):
    exact.add_rows4(row0, row1, row2, row3, q[0], q[1], q[2], q[3], out)


@njit(fastmath=True, error_model="numpy")
def write_multiples(q, row0, row1, row2, row3, out):
    projected.add_multiples(q[0], q[1], q[2], q[3], row0, row1, row2, row3, out)


@njit(fastmath=True, error_model="numpy")
def write_scaled(q, row, scale, out):
    additive.add_scaled(row, 0, out.size, scale, q[0], out, 0)


@pytest.mark.parametrize(
    ("loop", "types"),
    [
        (write_powers, "fff"), (write_powers, "ddf"), (write_tangents, "fff"),
        (write_polynomials, "ff"), (write_sums, "fff"), (write_jensen_shannon, "ff"),
        (write_power_means, "ff"), (write_gradient, "ffddd"), (write_four_rows, "ffffd"),
        (write_multiples, "ffffd"), (write_scaled, "fff"), (write_scaled, "ddd"),
    ],
)  # fmt: skip
def test_results_do_not_depend_on_where_arrays_lie(loop, types):
    """Arrays far apart, or next to each other in any order, as small arrays of a thread may be."""
    rng = np.random.default_rng(0)
    numbers = np.array([0.37, 1.3, -1.1, 2.3])
    for size in (5, 8, 13, 16, 22, 23, 30):
        values = [(3.0 * rng.random(size)).astype(t) for t in types]
        places = [np.arange(len(types)) * 4096]
        for order in itertools.permutations(range(len(types))):
            lengths = [-(-values[i].nbytes // 8) * 8 for i in order]
            place = np.empty(len(types), np.int64)
            place[list(order)] = np.cumsum([0, *lengths[:-1]])
            places.append(place)
        results = []
        for place in places:
            memory = np.zeros(len(types) * 4096, np.uint8)
            arrays = [
                memory[p:][: v.nbytes].view(v.dtype) for p, v in zip(place, values, strict=True)
            ]
            for array, value in zip(arrays, values, strict=True):
                array[:] = value
            loop(numbers, *arrays)
            results.append(arrays[-1].copy())
        for result in results[1:]:
            assert_array_equal(result, results[0])


@pytest.mark.parametrize("types", ["fff", "ddf"])
@pytest.mark.parametrize("loop", [write_powers, write_tangents])
def test_results_do_not_depend_on_the_place_in_an_array(loop, types):
    """Most numbers are computed by vectors, and the last ones of an array one by one."""
    rng = np.random.default_rng(0)
    numbers = np.array([0.37, 1.3, -1.1, 2.3])
    sums, norms = ((3.0 * rng.random(189)).astype(t) for t in types[:2])
    whole, reverse = np.empty(189, np.float32), np.empty(189, np.float32)
    loop(numbers, sums, norms, whole)
    loop(numbers, sums[::-1].copy(), norms[::-1].copy(), reverse)
    assert_array_equal(reverse[::-1], whole)


@pytest.fixture
def interruptible():
    """Ctrl-C as in a terminal; processes in the background may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("n_signals", [0, 1, 3])
def test_an_interrupt_waits_until_a_function_is_compiled(listener, interruptible, n_signals):
    before = signal.getsignal(signal.SIGINT)
    listener.on_start(make_event())
    listener.on_start(make_event("numba.np.arrayobj"))
    for _ in range(n_signals):
        signal.raise_signal(signal.SIGINT)
    listener.on_end(None)
    with pytest.raises(KeyboardInterrupt) if n_signals else nullcontext():
        listener.on_end(None)
    assert signal.getsignal(signal.SIGINT) is before
    compile_for(listener, SimpleNamespace(now=0.0), 0.0)


def test_an_interrupt_does_not_wait_for_other_packages(listener, interruptible):
    listener.on_start(make_event("numba.np.arrayobj"))
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    listener.on_end(None)


#: Ctrl-C comes while the compiler works; then the same fit is made again in the same process.
INTERRUPTED = """
    import signal, sys, threading, time
    import numpy as np
    from widemargin import PowerMeanSVC

    rng = np.random.default_rng(0)
    X, y = rng.random((300, 5)), rng.integers(0, 2, 300)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(float(sys.argv[1]), signal.raise_signal, [signal.SIGINT]).start()
    try:
        for _ in range(10_000):
            PowerMeanSVC(lut=True).fit(X, y)
    except KeyboardInterrupt:
        print("interrupted")
    print(PowerMeanSVC(lut=True).fit(X, y).score(X, y) > 0.5)
"""


@pytest.mark.parametrize("seconds", [0.5, 1.0])
def test_a_fit_after_an_interrupted_compilation(tmp_path, seconds):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "WIDEMARGIN_QUIET": "1"}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(INTERRUPTED), str(seconds)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert run.stdout.split() == ["interrupted", "True"], run.stderr
