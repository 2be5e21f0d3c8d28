"""Loops shared by threads."""

import threading
import time
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from widemargin import parallel
from widemargin.parallel import (
    Workers,
    WorkInterruptedError,
    count_threads,
    open_workers,
    single_blas,
    split_range,
)


@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 1000, 4097])
@pytest.mark.parametrize("grain", [1, 7, 256])
@pytest.mark.parametrize("max_pieces", [1, 2, 12])
def test_pieces_cover_the_range_in_order(n, grain, max_pieces):
    pieces = split_range(n, grain, max_pieces)
    assert [i for start, stop in pieces for i in range(start, stop)] == list(range(n))
    assert len(pieces) <= max_pieces
    assert all(start % grain == 0 for start, _ in pieces)
    n_grains = [-(-(stop - start) // grain) for start, stop in pieces]
    assert max(n_grains, default=0) - min(n_grains, default=0) <= 1


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 100, 5003])
def test_every_index_is_visited_once(n, n_jobs):
    visits = np.zeros(n, int)

    def visit(start, stop):
        visits[start:stop] += 1

    with open_workers(n_jobs) as workers:
        assert workers.n_threads == n_jobs
        workers.run(n, visit, grain=10)
    assert (visits == 1).all()


def test_threads_work_at_the_same_time():
    meeting = threading.Barrier(2, timeout=30)
    with open_workers(2) as workers:
        workers.run(2, lambda start, stop: meeting.wait(), grain=1)
    assert not meeting.broken


def test_without_a_pool_everything_runs_in_the_caller():
    names = []
    Workers(1, None).run(5000, lambda i, j: names.append(threading.get_ident()), grain=1)
    assert set(names) == {threading.get_ident()}


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_exception_reaches_the_caller(n_jobs):
    def fail(start, stop):
        raise ZeroDivisionError(f"piece {start}")

    with open_workers(n_jobs) as workers, pytest.raises(ZeroDivisionError, match="piece 0"):
        workers.run(1000, fail, grain=1)


def test_nothing_runs_after_an_exception():
    """A slow piece is waited for, and pieces that have not begun never do."""
    started, finished, release = [], [], threading.Event()

    def task(start, stop):
        started.append(start)
        if start == 0:
            release.set()
            raise KeyError("first")
        release.wait(30)
        finished.append(start)

    with open_workers(2) as workers:
        with pytest.raises(KeyError, match="first"):
            workers.run(800, task, grain=1)
        assert sorted(started) == sorted([0, *finished])
        running = len(started)
        workers.run(1, lambda start, stop: None)
        assert len(started) == running


def test_workers_survive_an_exception():
    seen = []
    with open_workers(2) as workers:
        with pytest.raises(ValueError, match="bad"):
            workers.run(100, lambda i, j: (_ for _ in ()).throw(ValueError("bad")).send(None), 1)
        workers.run(100, lambda i, j: seen.append((i, j)), grain=1)
    assert all(a[1] == b[0] for a, b in pairwise(sorted(seen)))
    assert sum(j - i for i, j in seen) == 100


def blas_threads():
    np.ones((2, 2)) @ np.ones((2, 2))
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]


def test_blas_has_one_thread_while_workers_are_open():
    before = blas_threads()
    with open_workers(2):
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_blas_gets_its_threads_back_whoever_leaves_last():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        is_inside, may_leave = threading.Event(), threading.Event()

        def visit():
            with open_workers(1):
                is_inside.set()
                may_leave.wait(30)

        visitor = threading.Thread(target=visit)
        with open_workers(1):
            visitor.start()
            assert is_inside.wait(30)
        assert set(blas_threads()) == {1}
        may_leave.set()
        visitor.join()
        assert blas_threads() == before


def test_another_thread_can_hold_blas_to_one_thread():
    seen = []

    def visit():
        with open_workers(1):
            seen.append(set(blas_threads()))

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        visitor = threading.Thread(target=visit)
        visitor.start()
        visitor.join()
        assert blas_threads() == before
    assert seen == [{1}]


@pytest.mark.parametrize("n_jobs", [1, 2, np.int64(7)])
def test_positive_number_of_jobs(n_jobs):
    assert count_threads(n_jobs) == n_jobs


@pytest.mark.parametrize(("n_jobs", "expected"), [(-1, 6), (-2, 5), (-6, 1), (-100, 1)])
def test_negative_number_of_jobs_counts_from_the_cores(monkeypatch, n_jobs, expected):
    monkeypatch.setattr(parallel, "cpu_count", lambda: 6)
    assert count_threads(n_jobs) == expected


@pytest.mark.parametrize(
    ("setting", "expected"),
    [(None, 6), ("1", 1), ("4", 4), ("6", 6), ("64", 6), ("0", 6), ("00", 6), ("", 6), ("many", 6),
     ("-2", 6), ("2.5", 6)],
)  # fmt: skip
def test_environment_limits_the_default(monkeypatch, setting, expected):
    monkeypatch.setattr(parallel, "cpu_count", lambda: 6)
    if setting is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert count_threads(None) == expected


def test_environment_does_not_limit_an_explicit_number(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert count_threads(3) == 3


@pytest.mark.parametrize("n_jobs", [0, True, 1.0, "2", [1], SimpleNamespace()])
def test_what_is_no_number_of_jobs_is_refused(n_jobs):
    with pytest.raises(ValueError, match=r"n_jobs: .* is not allowed"):
        count_threads(n_jobs)


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_an_interrupt_while_blas_is_held_is_made_good_by_the_next_use(call, monkeypatch):
    """Ctrl-C may come at any call that sets threads, on the way in or out."""
    calls, set_threads = [], parallel._set_blas_threads

    def interrupt(library, n_threads):
        calls.append(n_threads)
        if len(calls) == call:
            raise KeyboardInterrupt
        set_threads(library, n_threads)

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with monkeypatch.context() as patch:
            patch.setattr(parallel, "_set_blas_threads", interrupt)
            try:
                with open_workers(1):
                    pass
            except KeyboardInterrupt:
                assert len(calls) == call
        with open_workers(1):
            assert set(blas_threads()) == {1}
        assert blas_threads() == before


@pytest.mark.parametrize("moment", ["before it is counted", "after it is counted"])
def test_an_interrupted_use_does_not_hold_blas_for_ever(moment):
    """A body that Ctrl-C kept from leaving no longer counts once its frame is gone."""

    def enter_and_never_leave():
        use = single_blas()
        use.__enter__()
        if moment == "before it is counted":
            use._inside.discard(use)

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        enter_and_never_leave()
        with open_workers(1):
            assert set(blas_threads()) == {1}
        assert blas_threads() == before


def test_a_thread_alone_gives_up_when_the_others_fail():
    """A long piece ends at its next loop, or where it looks, once another piece has failed."""
    begun, gave_up = threading.Event(), []

    def task(start, stop):
        if start == 0:
            begun.wait(30)
            raise KeyError("first")
        alone = workers.alone()
        begun.set()
        try:
            while True:
                alone.run(10, lambda first, last: time.sleep(0.001))
        except WorkInterruptedError:
            gave_up.append(start)
            raise

    with open_workers(2) as workers:
        with pytest.raises(KeyError, match="first"):
            workers.run(2, task, grain=1)
        assert gave_up == [1]
        with pytest.raises(WorkInterruptedError):
            workers.alone().require_success()
