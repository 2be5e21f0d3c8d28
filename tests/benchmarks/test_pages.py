"""Pages and pictures: tables go to the documentation, pictures to the folder that is not kept."""

import re
import shutil
import sys
from pathlib import Path

import pytest

# The harness is not installed with the package, and needs what only its pages use.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
pytest.importorskip("matplotlib", reason="the pictures need matplotlib")
pytest.importorskip("yaml", reason="the published numbers are in YAML files")

from benchmarks.__main__ import main
from benchmarks.freshness import MARK
from benchmarks.machine import ROOT
from benchmarks.storage import append_measurement
from matplotlib import pyplot as plt

from benchmarks import model_pictures, pages
from tests.benchmarks.test_map import make_record
from widemargin.datasets import DatasetNotFoundError


@pytest.fixture
def root(tmp_path):
    """The pages and results of the project, without its pictures."""
    (tmp_path / "docs").mkdir()
    for page in (ROOT / "docs").glob("*.md"):
        shutil.copy(page, tmp_path / "docs")
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "benchmarks" / "results", tmp_path / "benchmarks" / "results")
    return tmp_path


def render(root, part):
    assert main(["render", "--root", str(root), "--only", part]) == 0
    return {path.name: path.read_text() for path in (root / "docs").glob("*.md")}


@pytest.mark.parametrize("part", ["suites", "families"])
def test_pages_are_those_of_the_results_on_file(root, part):
    before = {path.name: unmark(path.read_text()) for path in (root / "docs").glob("*.md")}
    readme = unmark((root / "README.md").read_text())
    assert {name: unmark(text) for name, text in render(root, part).items()} == before
    assert unmark((root / "README.md").read_text()) == readme


def unmark(text):
    """Leave out the marks of older code, which change with every change of the code."""
    return text.replace(MARK, "")


def test_a_damaged_table_is_filled_again(root):
    guide = root / "docs" / "divide-and-conquer.md"
    text = unmark(guide.read_text())
    line = next(line for line in text.splitlines() if line.startswith("| bcm"))
    guide.write_text(text.replace(line, "| wrong |"))
    assert unmark(render(root, "families")["divide-and-conquer.md"]) == text


def test_the_papers_have_a_page_and_pictures_that_are_built(root):
    before = unmark((root / "docs" / "papers.md").read_text())
    page = unmark(render(root, "papers")["papers.md"])
    assert page == before
    built = {path.name for path in (root / "docs" / "_build").iterdir()}
    assert {"results.html", "dcsvm-figure-1.png", pages.README_PICTURE} <= built
    for name in built - {"results.html"}:
        assert f"`docs/_build/{name}`" in page
    assert [path.name for path in (root / "docs").glob("*.png")] == [pages.README_PICTURE]
    assert "![" not in page


def test_the_map_has_a_page_and_a_picture_once_it_is_measured(root, capsys):
    (root / "benchmarks" / "results" / "map.jsonl").unlink(missing_ok=True)
    (root / "docs" / "map.md").unlink(missing_ok=True)
    assert "map.md" not in render(root, "map")
    assert "map: nothing was measured, so no page" in capsys.readouterr().err
    append_measurement(root / "benchmarks" / "results" / "map.jsonl", make_record())
    assert "No cell is at fault." in render(root, "map")["map.md"]
    assert (root / "docs" / "_build" / "map.png").stat().st_size > 0


def test_pictures_without_data_are_named_and_left_out(tmp_path, monkeypatch, capsys):
    def fail():
        raise DatasetNotFoundError("no such set")

    monkeypatch.setattr(
        model_pictures, "PICTURES", {"a.png": fail, "b.png": lambda: plt.figure(figsize=(1, 1))}
    )
    model_pictures.save_pictures(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["b.png"]
    assert "a.png is left out: no such set" in capsys.readouterr().err
    assert plt.get_fignums() == []


def test_the_picture_of_curves_needs_no_data_folder():
    figure = model_pictures.draw_shapes()
    assert len(figure.axes) >= 6
    plt.close(figure)


def test_pages_show_pictures_that_are_kept():
    shown = {
        name
        for page in (ROOT / "docs").glob("*.md")
        for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text())
    }
    assert shown <= {pages.README_PICTURE, "early.png"}
    assert all((ROOT / "docs" / name).exists() for name in shown)
    assert (ROOT / "README.md").read_text().count("![") == 1
