"""The results page: a sound document that loads nothing and shows every table once."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

# The harness is not installed with the package, and needs what only its pages use.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
pytest.importorskip("matplotlib", reason="the pictures of the page need matplotlib")
pytest.importorskip("yaml", reason="the published numbers are in YAML files")

from benchmarks.papers import page
from benchmarks.papers.html import read_number
from benchmarks.papers.report import Report, name_exhibit
from benchmarks.papers.tables import Shown

VOID = {"meta", "link", "input", "br", "hr", "img"}
NASTY = "<script>alert(\"1\")</script> & 'more' </td>"
MACHINE = {
    "cpu": "Made-up CPU", "cores": 2, "memory_bytes": 16_000_000_000, "system": "Linux",
    "versions": {"python": "3.11.7", "widemargin": "0.1.0"}, "commit": "abc1234",
    "date": "2026-01-02T03:04:05+00:00",
}  # fmt: skip
METHODS = ("KernelSVC", "DC-SVM", "LIBSVM", "LLSVM", "PSVM", "SpSVM")


class Document(HTMLParser):
    """Elements in order with their attributes; complains about tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self._open = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def values(self, attribute, *tags):
        return [
            a[attribute] for t, a in self.elements if attribute in a and (not tags or t in tags)
        ]


def make_cell(data, rows, method, value, **measured):
    found = {
        "n_test": 500, "fit_s": 0.5 * value, "predict_s": 0.1, "accuracy": 90.0 + value,
        "n_vectors": None, "peak_gb": 0.5,
    }  # fmt: skip
    return {
        "key": f"kernel/{data}-{rows}/{method}/knob={value}", "data": data, "rows": rows,
        "group": "kernel", "method": method, "options": {"knob": value}, "machine": MACHINE,
    } | (measured or found)  # fmt: skip


def make_cells():
    cells = [
        make_cell(data, rows, method, value)
        for data, rows in (("ijcnn1", 49_990), ("covtype", 50_000))
        for method in METHODS
        for value in (1, 2)
    ]
    late = make_cell("covtype", 50_000, "LIBSVM", 3, outcome=f"took over 9 s {NASTY}")
    return [*cells, late]


def make_shown():
    rows = [
        {"data": "ijcnn1", "method": "DC-SVM", "paper: accuracy (%)": 98.0,
         "here: accuracy (%)": 98.125, "verdict": "reproduced"},
        {"data": "ijcnn1", "method": NASTY, "paper: accuracy (%)": 97.0,
         "here: accuracy (%)": 1234.5, "verdict": "reproduced: after all"},
        {"data": "cifar", "method": "LIBSVM", "paper: accuracy (%)": 90.0,
         "here: accuracy (%)": None, "verdict": "not run: the data are not to be had"},
    ]  # fmt: skip
    uneven = [{"C": "2^-10", "x": 1}, {"C": "2^1", "x": 2, "later": 0.5}]
    claims = [f"Claim: {NASTY}", "Verdict: not reproduced: <b>bold</b>"]
    elsewhere = MACHINE | {"cpu": "Another CPU"}
    return [
        Shown("dcsvm-table-3", f"Title {NASTY}", "Someone, Table 3", rows, [NASTY, "Fine."]),
        Shown("dcsvm-figure-1", "A figure", "Someone, Figure 1", uneven, claims, elsewhere),
        Shown("pmsvm-table-3", "Another table", "Others, Table III", rows[:1], [], MACHINE),
        Shown("icd-table-1", "Empty", "Others, Table 1", [], []),
    ]


@pytest.fixture(scope="module")
def report():
    return Report(make_cells(), make_shown(), MACHINE)


@pytest.fixture(scope="module")
def html(report):
    return page.write_page(report)


@pytest.fixture(scope="module")
def document(html):
    return Document(html)


def find_article(html, name):
    return re.search(rf'<article id="{name}">.*?</article>', html, re.DOTALL)[0]


def read_chips(markup):
    found = re.findall(r'<b>([\d,]+)</b> <span class="label">([^<]+)</span>', markup)
    return {verdict: int(number) for number, verdict in found}


def test_tags_are_balanced(html, document):
    assert html.startswith("<!DOCTYPE html>")
    assert [t for t, _ in document.elements].count("main") == 1


def test_every_exhibit_is_there_once(html, report):
    for shown in report.shown:
        assert html.count(f'<article id="{shown.name}">') == 1
        article = find_article(html, shown.name)
        assert name_exhibit(shown.name) in article
        assert shown.reference in article
    assert html.count("<article ") == len(report.shown) + 2


def test_ids_are_unique_and_links_lead_somewhere(document):
    ids = document.values("id")
    assert len(ids) == len(set(ids))
    assert all(target.removeprefix("#") in ids for target in document.values("href", "a"))
    assert all(target.removeprefix("#") in ids for target in document.values("xlink:href"))
    clips = [re.fullmatch(r"url\(#(.+)\)", c)[1] for c in document.values("clip-path")]
    assert clips
    assert set(clips) <= set(ids)


def test_text_is_escaped(html):
    assert "alert(" in html
    assert "<script>alert" not in html
    assert html.count("<script") == html.count("</script>") == 1
    assert "<b>bold</b>" not in html


def test_nothing_is_loaded(html, document):
    targets = [
        v for a in ("src", "href", "xlink:href", "data", "action") for v in document.values(a)
    ]
    assert all(target.startswith(("#", "data:")) for target in targets)
    assert "@import" not in html
    # What is left are names of languages, not places.
    names = re.sub(r'xmlns(:\w+)?="[^"]*"', "", html)
    assert "http://" not in names
    assert "https://" not in names


def test_chips_count_verdicts(html):
    expected = {
        "dcsvm-table-3": {"reproduced": 2, "not run": 1},
        "dcsvm-figure-1": {"not reproduced": 1},
        "dcsvm": {"reproduced": 2, "not run": 1, "not reproduced": 1},
        "pmsvm-table-3": {"reproduced": 1},
        "icd-table-1": {},
    }
    for name, counts in expected.items():
        row = re.search(rf'<th scope="row"><a href="#{name}">.*?</tr>', html, re.DOTALL)[0]
        assert read_chips(row) == counts
    assert read_chips(find_article(html, "dcsvm-table-3")) == expected["dcsvm-table-3"]
    headline = re.search(r'<p class="headline">.*?</p>', html)[0]
    assert read_chips(headline) == {"reproduced": 3, "not run": 1, "not reproduced": 1}


def test_cells_sort_as_numbers(html):
    table = find_article(html, "dcsvm-table-3")
    assert 'data-value="1234.5">1,234.50<' in table
    assert '<td class="number right"></td>' in table
    assert '<th scope="colgroup" colspan="2" class="group">accuracy (%)</th>' in table
    powers = find_article(html, "dcsvm-figure-1")
    assert f'data-value="{2.0**-10!r}">2^-10<' in powers
    assert powers.count("<td") == 4


@pytest.mark.parametrize(
    ("value", "number"),
    [(3, 3.0), (0.5, 0.5), ("-0.0625", -0.0625), ("2^-3", 0.125), ("1e-3", 0.001),
     (float("nan"), None), ("", None), ("12 rows", None), (None, None)],
)  # fmt: skip
def test_numbers_are_read(value, number):
    assert read_number(value) == number


def test_machine_is_told_where_it_differs(html):
    assert "Another CPU" in find_article(html, "dcsvm-figure-1")
    assert "Made-up CPU" not in find_article(html, "pmsvm-table-3")
    assert html.count("Made-up CPU") == 1


def test_pictures_have_points_and_tell_what_did_not_finish(html):
    article = find_article(html, "error-time-covtype-50000")
    assert '<svg role="img" aria-label="Test error against seconds to fit on covtype' in article
    assert "All 12 points" in article
    assert "LIBSVM (knob = 3)" in article
    assert "All fits finished." in find_article(html, "error-time-ijcnn1-49990")


def test_without_pictures(report):
    document = page.write_page(Report(report.cells[:1], report.shown, MACHINE))
    assert "<svg" not in document
    assert "Too few methods" in document
    Document(document)
