"""A Dask cluster of two worker processes for all tests of this folder."""

import time

import pytest


@pytest.fixture(scope="session")
def cluster():
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit="2 GB"
    ) as found:
        yield found


@pytest.fixture(scope="session")
def shared_client(cluster):
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with distributed.Client(cluster) as found:
        yield found


@pytest.fixture
def client(shared_client):
    """A client of the cluster; nothing may be left on the cluster after a test."""
    shared_client.wait_for_workers(2, timeout=60)
    yield shared_client
    assert wait_until_empty(shared_client) == []


def wait_until_empty(client, seconds=10.0):
    """Keys that are still on the scheduler after some seconds; none as soon as it has none."""
    end = time.monotonic() + seconds
    while True:
        left = client.run_on_scheduler(
            lambda dask_scheduler: sorted(map(str, dask_scheduler.tasks))
        )
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)
