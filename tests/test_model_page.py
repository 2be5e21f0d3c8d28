"""The page of a model says what the model computes, and needs nothing but itself."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from widemargin import AdditiveSVC, AdditiveSVR, IntersectionSVC, KernelSVC, PowerMeanSVC
from widemargin.bands import curve_bands
from widemargin.curve_svg import Panel, draw_panel, find_ticks
from widemargin.page_content import choose_rows
from widemargin.plotting import plot_shapes, show_model


class Reader(HTMLParser):
    """Checks that elements are nested, and collects the text of elements by their tag."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.attributes = [], {}, []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs
        self.found.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip() and self.open:
            self.found.setdefault(self.open[-1], []).append(data.strip())


def cancer_frame(cancer, n=200):
    X, y = cancer
    names = ["<b>radius</b>", "a & b", *(f"column {j}" for j in range(2, X.shape[1]))]
    X = X[:n] - X[:n].min(axis=0)
    return pd.DataFrame(X, columns=names), np.where(y[:n] == y[0], "ill", "well")


def read_number(text):
    return float(text.replace("\N{MINUS SIGN}", "-"))


def test_the_page_stands_alone_and_names_are_escaped(cancer, tmp_path):
    X, y = cancer_frame(cancer)
    model = AdditiveSVC(n_jobs=1).fit(X, y)
    path = show_model(model, X, y, tmp_path / "model.html", n_features=30)
    text = path.read_text("utf-8")
    page = Reader(text)
    assert "http" not in text
    assert not {"src", "href"} & {name for name, _ in page.attributes}
    assert "url(" not in text
    assert "@import" not in text
    assert "<b>radius" not in text
    assert page.found["h3"].count("<b>radius</b>") == 1
    assert page.found["h3"].count("a & b") == 1
    assert f"{100 * model.score(X, y):.1f} %" in page.found["dd"]


@pytest.mark.parametrize("kind", ["binary", "classes", "pairs", "pipeline", "missing"])
def test_explained_rows_add_up_to_decisions(kind, cancer, tmp_path):
    X, y = cancer_frame(cancer)
    model = AdditiveSVC(n_jobs=1)
    if kind == "classes":
        X, y = load_iris(return_X_y=True, as_frame=True)
    elif kind == "pairs":
        model.set_params(interactions=3)
    elif kind == "pipeline":
        model = make_pipeline(MinMaxScaler(clip=True), model)
    elif kind == "missing":
        X = X.mask(np.random.default_rng(0).random(X.shape) < 0.3)
        model.set_params(missing="code")
    model.fit(X, y)
    text = show_model(model, X, y, tmp_path / "page.html", n_examples=5).read_text("utf-8")
    section = Reader(text[text.index("<h2>Explained") : text.index("<footer")])
    titles = section.found["h3"]
    assert len(titles) == 5
    scores = model.decision_function(X)
    cells = [read_number(cell) for cell in section.found["td"] if cell[0] in "+\N{MINUS SIGN}"]
    names = [cell for cell in section.found["td"] if cell[0] not in "+\N{MINUS SIGN}"]
    ends = np.flatnonzero([name == "sum" for name in names])
    assert len(cells) == len(names)
    for title, first, last in zip(titles, [0, *ends[:-1] + 1], ends, strict=True):
        row = int(title.split(":")[0].removeprefix("Row "))
        expected = scores[row] if scores.ndim == 1 else scores[row].max()
        assert_allclose(cells[last], expected, atol=0.006)
        assert_allclose(sum(cells[first:last]), expected, atol=0.06)
    assert ("Pairs" in text) == (kind == "pairs")
    assert ("missing" in text[text.index("<h2>Curves") :]) == (kind == "missing")


@pytest.mark.parametrize("estimator", [IntersectionSVC(n_jobs=1), PowerMeanSVC(n_jobs=1)])
def test_other_additive_models_and_sparse_data(estimator, tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.random(100, 8, 0.3, random_state=0, format="csr")
    y = rng.integers(0, 2, 100)
    Reader(show_model(estimator.fit(X, y), X, y, tmp_path / "a.html").read_text("utf-8"))
    page = Reader(show_model(estimator, path=tmp_path / "b.html").read_text("utf-8"))
    assert "Explained rows" not in page.found["h2"]


@pytest.mark.parametrize("interactions", [0, 1])
def test_names_take_the_place_of_labels(interactions, tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = AdditiveSVC(interactions=interactions, n_jobs=1).fit(X, y)
    names = ["setosa", "versi <color>", "virginica"]
    text = show_model(
        model, X, y, tmp_path / "a.html", class_names=names, n_examples=30
    ).read_text("utf-8")  # fmt: skip
    page = Reader(text)
    assert page.found["h1"] == [f"AdditiveSVC: {', '.join(names)}"]
    assert page.found["span"][:3] == names
    predicted = model.predict(X)
    titles = [title for title in page.found["h3"] if title.startswith("Row ")]
    rows = [int(title[4 : title.index(":")]) for title in titles]
    expected = [
        f"Row {row}: {names[predicted[row]]}"
        + (f" (wrong: {names[y[row]]})" if predicted[row] != y[row] else "")
        for row in rows
    ]
    assert titles == expected
    assert any("wrong" in title for title in titles)
    assert set(predicted[rows]) == {0, 1, 2}


def test_bands_are_drawn(cancer, tmp_path):
    X, y = cancer_frame(cancer)
    model = AdditiveSVC(n_jobs=1).fit(X, y)
    bands = curve_bands(model, X, y, n_boot=3, features=[0, 1])
    text = show_model(
        model, X, path=tmp_path / "a.html", bands=bands, n_features=30
    ).read_text("utf-8")  # fmt: skip
    assert text.count('class="band') == 2
    pytest.importorskip("matplotlib").use("Agg")
    figure = plot_shapes(model, X, features=[0, 5], bands=bands)
    with_band, without = figure.axes[:2]
    (drawn,) = with_band.collections
    assert len(without.collections) == 0
    corners = drawn.get_paths()[0].vertices
    at = corners[len(corners) // 4]
    lower, upper = bands.at(0, at[:1])
    assert min(abs(at[1] - lower[0, 0]), abs(at[1] - upper[0, 0])) < 1e-9


def test_plots_show_what_missing_values_add(cancer):
    pytest.importorskip("matplotlib").use("Agg")
    X, y = cancer_frame(cancer)
    X.iloc[::5, 2] = np.nan
    model = AdditiveSVC(missing="code", n_jobs=1).fit(X, y)
    figure = plot_shapes(model, X, features=[2, 3])
    first, second = figure.axes[:2]
    (circle,) = [line for line in first.lines if line.get_gid() == "missing"]
    expected = model.missing_heights_[2] - model.explain(X)[:, 2].mean()
    assert_allclose(circle.get_ydata(), [expected])
    assert circle.get_xdata()[0] > X.iloc[:, 2].max()
    assert not [line for line in second.lines if line.get_gid() == "missing"]


def test_curves_are_drawn_where_they_are():
    values, heights = np.array([0.0, 5.0, 10.0]), np.array([[0.0, 1.0, -1.0]])
    text = draw_panel(Panel("x", 1.0, values, heights), -2.0, 2.0)
    path = text.split('class="line c0" d="M')[1].split('"')[0]
    points = np.array([list(map(float, point.split())) for point in path.split("L")])
    assert_allclose(points[:, 0], [40.0, 175.0, 310.0])
    assert_allclose(points[:, 1], [91.0, 49.5, 132.5])


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 5, 10]), (-0.31, 0.52, [0, 0.5]), (3, 3, [3]), (0, 1e-9, None)],
)
def test_ticks_are_round_numbers(low, high, expected):
    ticks = find_ticks(low, high, 4)
    assert expected is None or np.allclose(ticks, expected)
    assert 1 <= len(ticks) <= 6


def test_surest_rows_errors_and_doubts_are_chosen():
    scores = np.array([0.5, 3.0, -2.0, 0.01, -1.0, 1.0])
    truth = np.array([True, True, True, True, False, False])
    assert choose_rows(scores, truth, 4) == [1, 4, 2, 3]
    assert choose_rows(scores, None, 3) == [1, 2, 3]
    assert len(choose_rows(scores, truth, 20)) == 6


def test_wrong_arguments_are_refused(cancer, tmp_path):
    X, y = cancer_frame(cancer)
    model = AdditiveSVC(n_jobs=1).fit(X, y)
    with pytest.raises(TypeError, match="model: a KernelSVC has no curves"):
        show_model(KernelSVC().fit(X, y))
    with pytest.raises(ValueError, match="y: labels need the rows"):
        show_model(model, y=y)
    with pytest.raises(ValueError, match="n_examples: must be an integer of at least 1"):
        show_model(model, X, n_examples=0)
    with pytest.raises(
        ValueError, match=r"class_names: \['a'\] was given for 2 classes.*ill, well"
    ):
        show_model(model, X, class_names=["a"])
    with pytest.raises(ValueError, match="class_names: 'ab' was given for 2 classes; give a list"):
        show_model(model, X, class_names="ab")
    with pytest.raises(FileExistsError, match="path: "):
        show_model(model, X, path=tmp_path)


def test_a_regression_has_predictions_in_place_of_scores(tmp_path):
    X, y = load_diabetes(return_X_y=True, scaled=False, as_frame=True)
    model = AdditiveSVR(epsilon=1.0).fit(X, y)
    text = show_model(model, X, y, tmp_path / "model.html").read_text(encoding="utf-8")
    highest = int(model.predict(X).argmax())
    assert f"Row {highest}: {model.predict(X)[highest]:.4g} (true: {y[highest]:.4g})" in text
    assert "the prediction" in text
    assert f"{model.score(X, y):.3f}" in text
    assert "Classes" not in text
    with pytest.raises(ValueError, match="class_names: AdditiveSVR has no classes; leave it out"):
        show_model(model, class_names=["low", "high"])
