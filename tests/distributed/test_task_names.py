"""The names of tasks, which Dask's pages show, are those that the documentation explains."""

import re
from pathlib import Path

import pytest
from sklearn.datasets import make_moons

from widemargin.distributed import DaskDCSVC

ROOT = Path(__file__).parents[2]
CALL = re.compile(r'\b(?:submit|map|send|name|_map|_run)\(\s*"([a-z]+(?:-[a-z]+)+)"')


def test_the_documentation_explains_all_names():
    sources = (ROOT / "src" / "widemargin" / "distributed").glob("*.py")
    used = {name for path in sources for name in CALL.findall(path.read_text("utf-8"))}
    page = (ROOT / "docs" / "distributed.md").read_text("utf-8")
    table = page[page.index("| tasks | what they do |") : page.index("## Measurements")]
    explained = {name for row in table.splitlines() for name in re.findall(r"`([a-z-]+)`", row)}
    assert len(used) > 30
    assert used == explained


def test_a_report_of_dask_shows_the_names(client, tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    da = pytest.importorskip("dask.array", reason="needs the extra 'dask'")
    pytest.importorskip("bokeh", reason="Dask's reports need bokeh")
    X, y = make_moons(1000, noise=0.25, random_state=0)
    report = tmp_path / "report.html"
    with distributed.performance_report(report):
        DaskDCSVC(gamma=2.0, n_clusters=3, n_levels=1, stop_level=1, client=client).fit(
            da.from_array(X, chunks=(250, 2)), da.from_array(y, chunks=250)
        )
    page = report.read_text("utf-8")
    assert all(name in page for name in ("check-rows", "assign-rows", "move-rows", "solve-cluster"))
