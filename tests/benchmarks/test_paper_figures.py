"""The papers' figures drawn anew: curves are the measured numbers, marks the published ones."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

# The harness is not installed with the package, and needs what only its pages use.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
pytest.importorskip("matplotlib", reason="the pictures need matplotlib")
pytest.importorskip("yaml", reason="the published numbers are in YAML files")

from benchmarks.papers import page, paper_figures
from benchmarks.papers.claims import CLAIMS, TITLES
from benchmarks.papers.figures import to_svg
from benchmarks.papers.panels import STATED, Measured
from benchmarks.papers.paper_figures import PICTURES, draw_exhibits, save_exhibits
from benchmarks.papers.report import Report, name_exhibit, render_markdown
from benchmarks.papers.tables import Shown
from matplotlib import pyplot as plt

from benchmarks import additive_tables
from tests.benchmarks.test_results_page import MACHINE, Document, find_article, make_cells

GLUED = "f(glued) - f(optimum)"
WHOLE = "objective of the whole problem"


def make_rows():
    """Made-up rows of the experiments behind the figures."""
    tables = {"PmSVM, paper's anchors": 8e-3} | {
        f"PmSVM, {n} Chebyshev anchors": 10.0**-n for n in (3, 4)
    } | {f"spectral, rank {n}": 10.0 ** -(n + 1) for n in (3, 4)}  # fmt: skip
    approximation = [
        {"table": name, "chi2: mean": mean, "chi2: relative (%)": 300 * mean}
        for name, mean in tables.items()
    ]
    return {
        "dcsvm-figure-1": [
            {"clusters": k, "partition": name, GLUED: loss * k, "bound": 1e4 * k}
            for k in (8, 64)
            for name, loss in (("kernel k-means", 1.0), ("random", 20.0))
        ],
        "dcsvm-figure-2": [
            {"kernel": kernel, "clusters": k, "partition": name, "precision (%)": precision,
             "recall (%)": 95.0}
            for kernel in ("rbf", "poly")
            for k in (256, 4)
            for name, precision in (("DC-SVM", 85.0), ("cascade", 55.0))
        ],
        "dcsvm-figure-3": [
            {"clusters": k, "seconds so far": s, WHOLE: f, "accuracy (%)": 89.0}
            for k, s, f in ((64, 1.0, -90.0), (8, 3.0, -99.0), (1, 10.0, -100.0))
        ],
        "dcsvm-figure-4": [
            {"model": name, "fit (s)": s, "accuracy (%)": 80.0 + s}
            for name, s in (
                ("DC-SVM (early)", 1.0), ("DC-SVM", 4.0), ("KernelSVC", 2.0), ("LaSVM", 8.0),
                ("LIBSVM", 16.0),
            )
        ],
        "pmsvm-figure-1": approximation,
        "pmsvm-figure-2": approximation,
        "pmsvm-figure-3": [
            {"p": p, "fit (s)": 2.0 + i, "accuracy (%)": 77.0 + i}
            for i, p in enumerate(("-0.5", "-1", "-8"))
        ],
        "pmsvm-figure-4": approximation,
        "icd-figure-1": [
            {"C / default": c, "IntersectionSVC (%)": 61.0, "AdditiveSVC chi2 (%)": 60.0,
             "PowerMeanSVC p=-8 (%)": 50.0, "LinearSVC (%)": 55.0 + c}
            for c in (0.1, 1.0)
        ],
    }  # fmt: skip


ROWS = make_rows()


def draw(name, cells=(), all_levels=()):
    figure = PICTURES[name].draw(Measured(ROWS[name], list(cells), list(all_levels)))
    plt.close(figure)
    return figure


def is_stated(line):
    return all(
        look == STATED[key]
        for key, look in (
            ("color", line.get_color()), ("markerfacecolor", line.get_markerfacecolor())
        )
    )  # fmt: skip


def read_curves(axes):
    """Points of what was measured, by label."""
    return {
        line.get_label(): line.get_xydata().tolist()
        for line in axes.get_lines()
        if not is_stated(line)
    }


def read_stated_points(figure):
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    return [tuple(line.get_xydata()[0]) for line in lines if is_stated(line)]


def make_report(names=tuple(ROWS), **changed):
    rows = ROWS | changed
    shown = [
        Shown(n, TITLES[n], "Someone", rows[n], ["Verdict: reproduced"], MACHINE) for n in names
    ]
    return Report(make_cells()[:1], shown, MACHINE)


@pytest.fixture(autouse=True)
def without_files(monkeypatch):
    monkeypatch.setattr(paper_figures, "read_measurements", lambda path: [])


def test_every_figure_has_a_picture_and_a_caption():
    assert set(PICTURES) == {name for name in CLAIMS if "-figure-" in name}
    for picture in PICTURES.values():
        assert picture.caption.endswith(".")
        assert not set("[]") & set(picture.caption)


def test_losses_and_bounds_are_drawn():
    plain, log = draw("dcsvm-figure-1").axes
    assert read_curves(plain) == {
        "loss, kernel k-means": [[8, 8], [64, 64]], "loss, random": [[8, 160], [64, 1280]]
    }  # fmt: skip
    drawn = read_curves(log)
    assert drawn["bound, kernel k-means"] == drawn["bound, random"] == [[8, 8e4], [64, 64e4]]
    assert plain.get_xscale() == log.get_xscale() == log.get_yscale() == "log"


def test_support_vectors_are_drawn_for_both_kernels():
    figure = draw("dcsvm-figure-2")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "RBF kernel: precision", "RBF kernel: recall",
        "Polynomial kernel: precision", "Polynomial kernel: recall",
    ]  # fmt: skip
    assert read_curves(figure.axes[0])["DC-SVM"] == [[256, 85], [4, 85]]
    assert read_stated_points(figure) == [(256, 90)] * 4


def test_levels_are_drawn_with_what_else_is_on_file():
    alone = draw("dcsvm-figure-3")
    (objective,) = alone.axes
    curve, _ = read_curves(objective).values()
    assert np.allclose(curve, [[1.0, 0.1], [3.0, 0.01]])
    assert "1e-06 in under 10,800 s" in to_svg(alone)
    levels = [{"clusters": 4, "seconds so far": 7.0, "accuracy (%)": 95.9}]
    everything = draw("dcsvm-figure-3", make_cells(), levels)
    assert len(everything.axes) == 3
    assert read_stated_points(everything) == [(720, 96.03), (79_200, 96.15)]
    methods = next(axes for axes in everything.axes if "methods" in axes.get_title(loc="left"))
    assert read_curves(methods)["DC-SVM"] == [[0.5, 91.0], [1.0, 92.0]]


def test_speeds_are_relative_to_every_other_solver():
    accuracy, speed = draw("dcsvm-figure-4").axes
    assert [p for line in accuracy.get_lines() for p in line.get_xydata().tolist()] == [
        [1.0, 81.0], [4.0, 84.0], [2.0, 82.0], [8.0, 88.0], [16.0, 96.0]
    ]  # fmt: skip
    dots = {
        speed.get_yticklabels()[int(y)].get_text().replace("\n", " "): x
        for line in speed.get_lines()[:7]
        for x, y in line.get_xydata()
    }
    assert dots == {
        "paper: DC-SVM than LIBSVM and LaSVM": 100,
        "DC-SVM than LIBSVM": 4.0, "DC-SVM than LaSVM": 2.0, "DC-SVM than KernelSVC": 0.5,
        "DC-SVM (early) than LIBSVM": 16.0, "DC-SVM (early) than LaSVM": 8.0,
        "DC-SVM (early) than KernelSVC": 2.0,
    }  # fmt: skip


def test_surfaces_are_drawn_with_both_means():
    figure = draw("pmsvm-figure-1")
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == [
        "Kernel", "PmSVM, 3 anchors", "Difference"
    ]  # fmt: skip
    text = to_svg(figure)
    assert "mean 8.0e-03, paper 5.5e-03" in text
    assert "relative 2.40 %, paper 1.94 %" in text


def test_a_slice_is_as_far_away_as_measured():
    figure = draw("pmsvm-figure-2")
    curves, dots = figure.axes
    assert len(read_curves(curves)) == 4
    names = [label.get_text() for label in dots.get_yticklabels()]
    found = {names[int(y)]: x for line in dots.get_lines() for x, y in line.get_xydata()}
    measured = next(additive_tables.run_approximation())
    assert found[measured["table"]] == pytest.approx(measured["intersection: mean at 0.09"])
    assert found["paper: regression (Eq. 40)"] == 3.6e-3
    assert len(read_stated_points(figure)) == 3


def test_exponents_are_drawn_in_octaves():
    accuracy, time = draw("pmsvm-figure-3").axes
    assert accuracy.get_lines()[0].get_xydata().tolist() == [[-1, 77], [0, 78], [3, 79]]
    assert time.get_lines()[0].get_ydata().tolist() == [2, 3, 4]
    assert [label.get_text() for label in time.get_xticklabels()] == ["-1/2", "-1", "-8"]


def test_deviations_are_drawn_against_the_number_of_anchors():
    figure = draw("pmsvm-figure-4")
    relative, plain = figure.axes
    assert read_curves(plain)["PmSVM, Chebyshev anchors"] == [[3, 1e-3], [4, 1e-4]]
    spectral = read_curves(relative)["AdditiveSVC, spectral tables"]
    assert np.allclose(spectral, [[3, 0.03], [4, 0.003]])
    assert read_stated_points(figure) == [(6, 0.1)]


def test_accuracies_are_drawn_against_the_cost():
    (axes,) = draw("icd-figure-1").axes
    curves = read_curves(axes)
    assert curves["LinearSVC"] == [[0.1, 55.1], [1.0, 56.0]]
    stable = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert [line.get_xdata()[0] for line in stable] == [pytest.approx(0.1)]


@pytest.mark.parametrize("name", ROWS)
def test_what_is_not_on_file_is_not_drawn(name):
    assert draw_exhibits(make_report([name], **{name: []})) == {}
    lacking = [dict(list(row.items())[1:]) for row in ROWS[name]]
    assert draw_exhibits(make_report([name], **{name: lacking})) == {}


def test_the_page_has_every_picture_in_its_place():
    html = page.write_page(make_report())
    for name in ROWS:
        article = find_article(html, name)
        assert article.count("<svg") == 1
        assert PICTURES[name].caption in article
    ids = Document(html).values("id")
    assert len(ids) == len(set(ids))
    assert "<svg" not in page.write_page(make_report([name], **{name: []}))


def test_markdown_names_every_picture_below_its_heading(tmp_path):
    report = make_report()
    text = render_markdown(report, [], save_exhibits(report, tmp_path))
    for shown in report.shown:
        heading = f"### {name_exhibit(shown.name)}: {shown.title}"
        target, words = re.search(
            rf"{re.escape(heading)}\n\n`docs/_build/(.+)`: (.+)\n", text
        ).groups()
        assert words == PICTURES[shown.name].caption
        assert target == f"{shown.name}.png"
        assert (tmp_path / target).stat().st_size > 0
    assert plt.get_fignums() == []
