"""Workers that die, join or lack the library, a scheduler that goes away, and Ctrl-C at the client."""

import os
import signal
import threading
import time
from contextvars import Context
from weakref import WeakValueDictionary

import numpy as np
import pytest
from sklearn.datasets import make_moons

from tests.distributed.conftest import wait_until_empty
from widemargin import DCSVC
from widemargin.distributed import DaskAdditiveSVC, DaskDCSVC, tasks

distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
da = pytest.importorskip("dask.array", reason="needs the extra 'dask'")

EXACT = {"gamma": 2.0, "n_clusters": 3, "n_levels": 2}


@pytest.fixture
def doomed():
    """A client of a cluster of its own, whose workers may die."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="2 GB"
        ) as own,
        distributed.Client(own, set_as_default=False) as found,
    ):
        yield found
        assert wait_until_empty(found) == []


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(2400, noise=0.3, random_state=0)
    return da.from_array(X, chunks=(600, 2)), da.from_array(y, chunks=600)


def kill_when(client, level, is_round):
    """Return a callback that kills a worker with SIGKILL once, at a level or in a round."""
    killed = []

    def watch(state):
        if not killed and state.level == level and (state.violation is not None) == is_round:
            pid = sorted(client.run(os.getpid).values())[0]
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    return watch, killed


@pytest.mark.parametrize(("level", "is_round"), [(2, False), (1, False), (0, True)])
def test_a_killed_worker_changes_nothing(doomed, moons, level, is_round):
    watch, killed = kill_when(doomed, level, is_round)
    model = DaskDCSVC(**EXACT, client=doomed, callback=watch).fit(*moons)
    assert killed
    assert model.stop_reason_ == "converged"
    X, y = (values.compute(scheduler="sync") for values in moons)
    local = DCSVC(**EXACT, tol=1e-4).fit(X, y)
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-5)


def kill_before(client, monkeypatch, wanted):
    """Kill a worker with SIGKILL when the first task of a name is about to be submitted."""
    name, killed = tasks.Tasks.name, []

    def watch(self, what):
        if what == wanted and not killed:
            killed.append(sorted(client.run(os.getpid).values())[0])
            os.kill(killed[0], signal.SIGKILL)
        return name(self, what)

    monkeypatch.setattr(tasks.Tasks, "name", watch)
    return killed


@pytest.mark.parametrize("what", ["describe-rows", "split-rows", "sort-rows", "solve-cluster"])
def test_a_worker_killed_before_any_phase_changes_nothing(client, doomed, moons, monkeypatch, what):
    early = {"gamma": 2.0, "n_clusters": 3, "n_levels": 2, "stop_level": 2}
    undisturbed = DaskDCSVC(**early, client=client).fit(*moons)
    killed = kill_before(doomed, monkeypatch, what)
    model = DaskDCSVC(**early, client=doomed).fit(*moons)
    assert killed
    X = moons[0].compute(scheduler="sync")
    np.testing.assert_allclose(
        model.decision_function(X), undisturbed.decision_function(X), atol=1e-6
    )


def test_a_worker_killed_while_codes_are_fitted_changes_nothing(client, doomed, moons, monkeypatch):
    X, y = moons
    undisturbed = DaskAdditiveSVC(client=client).fit(X + 4.0, y)
    killed = kill_before(doomed, monkeypatch, "evaluate-rows")
    model = DaskAdditiveSVC(client=doomed).fit(X + 4.0, y)
    assert killed
    np.testing.assert_allclose(model.coef_, undisturbed.coef_, atol=1e-9)


def test_workers_may_join(doomed, moons):
    joined = []

    def join(state):
        if not joined:
            joined.append(doomed.cluster.scale(3))

    model = DaskDCSVC(**EXACT, client=doomed, callback=join).fit(*moons)
    assert joined
    assert model.stop_reason_ == "converged"


@pytest.fixture
def ctrl_c():
    """Let SIGINT raise `KeyboardInterrupt`; processes that start in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_cancels_the_tasks(client, moons):
    model = DaskDCSVC(
        **EXACT, client=client, callback=lambda state: os.kill(os.getpid(), signal.SIGINT)
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(*moons)
    assert not hasattr(model, "classes_")
    assert wait_until_empty(client) == []


def test_a_fit_that_fails_after_a_worker_was_lost_leaves_others_alone(doomed):
    """The futures of the user survive, and nothing of the fit stays."""
    own = doomed.submit(sum, [1, 2], key="of-the-user")
    assert own.result() == 3
    X, y = make_moons(6000, noise=0.25, random_state=0)
    # A worker that has nothing of the user's.
    holder = next(iter(doomed.who_has(own).values()))
    pid = next(pid for worker, pid in doomed.run(os.getpid).items() if worker not in holder)
    calls = []

    def fail(state):
        calls.append(state)
        if len(calls) == 3:
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.3)
            raise ZeroDivisionError

    early = {"gamma": 2.0, "n_clusters": 3, "n_levels": 2, "stop_level": 2, "background": 0}
    with pytest.raises(ZeroDivisionError):
        DaskDCSVC(**early, client=doomed, callback=fail).fit(
            da.from_array(X, chunks=(600, 2)), da.from_array(y, chunks=600)
        )
    assert not own.cancelled()
    assert own.result(timeout=60) == 3
    own.release()


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_the_client_waits(client, moons):
    """SIGINT from a thread, while the client waits for tasks."""

    timers = []

    def interrupt_soon(state):
        if not timers:
            timers.append(threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)))
            timers[0].start()

    model = DaskDCSVC(**EXACT, tol=1e-9, client=client, callback=interrupt_soon)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*moons)
    assert not hasattr(model, "classes_")
    assert wait_until_empty(client) == []


def test_an_error_of_the_callback_leaves_nothing(client, moons):
    def refuse(state):
        raise ZeroDivisionError("of the callback")

    with pytest.raises(ZeroDivisionError, match="of the callback"):
        DaskDCSVC(**EXACT, client=client, callback=refuse).fit(*moons)


def test_a_scheduler_that_goes_away_is_an_error(moons):
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as gone,
        distributed.Client(gone, timeout="2 s", set_as_default=False) as lost,
    ):

        def stop(state):
            threading.Thread(target=gone.close, kwargs={"timeout": 5}).start()
            time.sleep(1.0)

        with pytest.raises(RuntimeError, match="Dask"):
            DaskDCSVC(**EXACT, client=lost, callback=stop).fit(*moons)


def test_a_closed_client_is_refused(moons):
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as small:
        closed = distributed.Client(small, set_as_default=False)
        closed.close()
        with pytest.raises(ValueError, match="client: it is closed"):
            DaskDCSVC(**EXACT, client=closed).fit(*moons)


class OtherWorkers:
    """A client whose workers answer what they are told."""

    status = "running"

    def __init__(self, version):
        self.version = version

    def run(self, function):
        return {"tcp://10.0.0.1:1": self.version}

    def nthreads(self):
        return {}


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "cannot import widemargin"),
        ("0.0.1", "has widemargin 0.0.1"),
        (tasks.__version__, "no workers"),
    ],
)
def test_workers_that_cannot_work_are_refused(version, message):
    with pytest.raises(RuntimeError, match=f"client: .*{message}"):
        tasks.check_workers(OtherWorkers(version))


def test_collections_without_a_client_are_an_error(moons, monkeypatch):
    with pytest.raises(ValueError, match="client: it is no Dask client"):
        tasks.find_client(object())
    # Other tests have a client, which is the current one of this context and the global one.
    monkeypatch.setattr(distributed.client, "_global_clients", WeakValueDictionary())
    with pytest.raises(ValueError, match="there is no Dask client"):
        Context().run(DaskDCSVC().fit, *moons)
    X, y = (values.compute(scheduler="sync") for values in moons)
    model, local = Context().run(DaskDCSVC(gamma=2.0).fit, X, y), DCSVC(gamma=2.0).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), local.decision_function(X))


def test_a_cluster_that_loses_all_workers_is_an_error(moons, monkeypatch):
    monkeypatch.setattr(tasks, "NO_WORKER_SECONDS", 1.0)
    monkeypatch.setattr(tasks, "LOOK_SECONDS", 0.2)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as small,
        distributed.Client(small, set_as_default=False) as lonely,
        pytest.raises(RuntimeError, match="no worker for 1 s"),
    ):
        DaskDCSVC(**EXACT, client=lonely, callback=lambda state: small.scale(0)).fit(*moons)


def test_a_task_that_ends_its_workers_is_an_error(moons):
    """A kernel that kills its process, as the system does when memory runs out."""

    def deadly(X, Z):
        if len(X) > 1200:
            os._exit(9)
        return np.exp(-((X[:, None] - Z[None]) ** 2).sum(axis=2))

    X, y = moons
    whole = X.rechunk((2400, 2)), y.rechunk(2400)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None
        ) as small,
        distributed.Client(small, set_as_default=False) as lost,
        pytest.raises(RuntimeError, match=r"has ended several workers.*memory"),
    ):
        DaskDCSVC(kernel=deadly, n_clusters=1, n_levels=1, stop_level=1, client=lost).fit(*whole)
