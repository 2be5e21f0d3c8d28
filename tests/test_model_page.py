"""The page of a model says what the model computes, and needs nothing but itself."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from widemargin import (
    AdditiveSVC,
    AdditiveSVCCV,
    AdditiveSVR,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
)
from widemargin.bands import curve_bands
from widemargin.curve_svg import (
    WIDTH,
    Panel,
    Surface,
    draw_panel,
    draw_surface,
    find_ticks,
    format_number,
    label_ticks,
    sign_number,
)
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
    is_number = [cell[0] in "+\N{MINUS SIGN}0" for cell in section.found["td"]]
    both = list(zip(section.found["td"], is_number, strict=True))
    cells = [read_number(cell) for cell, is_one in both if is_one]
    names = [cell for cell, is_one in both if not is_one]
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
    expected = [f"Row {row}: predicted {names[predicted[row]]}, is {names[y[row]]}" for row in rows]
    assert titles == expected
    assert (predicted[rows] != y[rows]).any()
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
    assert f"Row {highest}: predicted {model.predict(X)[highest]:.4g}, is {y[highest]:.4g}" in text
    assert "the prediction" in text
    assert f"{model.score(X, y):.3f}" in text
    assert "Classes" not in text
    with pytest.raises(ValueError, match="class_names: AdditiveSVR has no classes; leave it out"):
        show_model(model, class_names=["low", "high"])


def mixed_table(n=600):
    """Numbers of different sizes with missing values, categories, and two pairs that interact."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "income": rng.lognormal(11.0, 0.7, n),
        "rooms": rng.integers(1, 9, n).astype(float),
        "region": pd.Categorical(rng.choice(["north coast", "desert", "city"], n)),
        "fuel": pd.Categorical(rng.choice(["gas", "electric"], n)),
    })  # fmt: skip
    X.loc[rng.random(n) < 0.2, "income"] = np.nan
    X.loc[rng.random(n) < 0.2, "fuel"] = np.nan
    score = (X.rooms - 4.5) * np.where(X.region == "desert", 1.0, -1.0)
    score += 2 * np.where(X.fuel == "gas", 1.0, -1.0) * (X.income.fillna(6e4) > 6e4)
    return X, (score + rng.normal(size=n)).to_numpy()


def fit_mixed(y, estimator=AdditiveSVC, **params):
    X, _ = mixed_table()
    model = estimator(missing="code", categorical_features="from_dtype", n_jobs=1, **params)
    return model.fit(X, y), X


def read_texts(svg):
    """Return the texts of a picture, and how far each reaches to the left, at 5.5 a character."""
    pattern = r'<text( transform[^>]*)? x="([-\d.]+)" y="[-\d.]+" text-anchor="(\w+)">([^<]*)'
    shares = {"start": 0.0, "middle": 0.5, "end": 1.0}
    return [
        # Names that are turned by 60 degrees reach half as far.
        (text, float(x) - shares[anchor] * 5.5 * len(text) * (0.5 if turn else 1.0))
        for turn, x, anchor, text in re.findall(pattern, svg)
    ]


@pytest.mark.parametrize("factor", [1e4, 1e6])
def test_heights_of_money_are_not_cut_off(factor, tmp_path):
    model, X = fit_mixed(factor * mixed_table()[1], AdditiveSVR, epsilon=0.1 * factor)
    text = show_model(model, X, path=tmp_path / "a.html").read_text("utf-8")
    texts = read_texts(text)
    assert min(left for _, left in texts) >= 0
    assert any(name.startswith("\N{MINUS SIGN}") and name.endswith(",000") for name, _ in texts)
    assert not re.search(r"\de[+-]\d|>-\d", text[text.index("<body") :])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_pairs_matter_by_what_they_add_to_the_rows(n_classes, tmp_path):
    score = mixed_table()[1]
    y = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    model, X = fit_mixed(y, interactions=2)
    text = show_model(model, X, y, tmp_path / "a.html").read_text("utf-8")
    part = text[text.index("<h2>What matters") : text.index("<h2>Curves")]
    shown = dict(zip(*[iter(Reader(part).found["td"])] * 2, strict=True))
    shares = model.explain(X).reshape(len(X), -1, 6)
    expected = np.abs(shares - shares.mean(axis=0)).mean(axis=(0, 1))
    assert len(shown) == 6
    for name, size in zip(model._term_names(), expected, strict=True):
        assert_allclose(float(shown[name]), size, atol=0.006)
    # Explained rows begin at the mean score.
    section = text[text.index("<h2>Explained") :]
    averages = re.findall(r"average</td><td></td><td class=.number.>([^<]*)", section)
    means = np.atleast_2d(model.decision_function(X).T).mean(axis=1)
    for average in averages:
        assert np.abs(read_number(average) - means).min() < 0.006
    assert ("the class predicted for the row" in section) == (n_classes == 3)
    assert ("<small>for class " in text) == (n_classes == 3)


def test_explained_pairs_have_their_values(tmp_path):
    y = mixed_table()[1] > 0
    model, X = fit_mixed(y, interactions=2)
    text = show_model(model, X, y, tmp_path / "a.html").read_text("utf-8")
    title = re.search(r"Row (\d+): predicted (True|False), is (True|False)", text)
    row, region = X.iloc[int(title[1])], X.region[int(title[1])]
    assert (
        f'rooms \N{MULTIPLICATION SIGN} region <span class="value">= {row.rooms:g}, {region}</span>'
        in text
    )
    assert "If the model was trained on these rows" in text


def test_maps_name_their_levels():
    categories = np.array([f"a long category {k}" for k in range(15)] + ["others"], object)
    numbers = np.array([1.0, 20.0, 300.0, 4000.0, 50000.0, np.nan])
    heights = np.linspace(-1, 1, 96).reshape(16, 6)
    surface = Surface(("job", "income"), 1.0, categories, numbers, heights)
    texts = read_texts(draw_surface(surface, 1.0))
    names = [name for name, _ in texts]
    assert {"1", "50,000", "missing", "a long category…", "others"} <= set(names)
    assert any("job" in name for name in names)
    assert any("income" in name for name in names)
    turned = replace(surface, first=numbers, second=categories, heights=heights.T)
    texts = read_texts(draw_surface(turned, 1.0))
    assert [name for name, _ in texts].count("a long category…") == 15
    assert {"1", "50,000", "missing"} <= {name for name, _ in texts}
    assert min(left for _, left in texts) >= 0
    assert max(left + 5.5 * len(name) for name, left in texts) <= WIDTH
    by_name = dict(texts)
    assert by_name["50,000"] + 5.5 * len("50,000") <= by_name["missing"]


def test_numbers_have_one_format():
    minus = "\N{MINUS SIGN}"
    given = {0.12345: "0.1235", 9999.96: "10,000", -1234567: f"{minus}1,234,567", 0.0: "0"}
    assert {value: format_number(value) for value in given} == given
    assert format_number(5.8e-8) == "5.8\N{MULTIPLICATION SIGN}10⁻⁸"
    assert format_number(-0.001, 2) == "0.00"
    assert sign_number(0.001, 2) == "0.00"
    assert sign_number(12345.6, 0) == "+12,346"
    assert label_ticks([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert label_ticks([2000.5, 2001.0]) == ["2000.5", "2001.0"]


def test_pipelines_show_pairs_in_the_units_of_the_data(cancer, tmp_path):
    X, y = cancer_frame(cancer)
    plain = AdditiveSVC(interactions=1, n_jobs=1)
    model = make_pipeline(MinMaxScaler(clip=True), plain).fit(X, y)
    text = show_model(model, X, y, tmp_path / "a.html").read_text("utf-8")
    last = plain.interaction_functions()[0]
    scale = [X.iloc[:, j].max() for j in plain.interactions_[0]]
    assert last[0].max() <= 1
    hints = re.findall(r"<title>(.*?)</title></rect>", text)
    assert len(hints) == last[2].size
    tops = max(float(hint.split(",")[0].split()[-1]) for hint in hints)
    assert_allclose(tops, last[0].max() * scale[0], rtol=0.02)


def test_rows_of_another_width_are_refused(tmp_path):
    model, X = fit_mixed(mixed_table()[1] > 0)
    for draw in (plot_shapes, show_model):
        with pytest.raises(ValueError, match=r"X: give rows with the 4 columns .* \(600, 1\)"):
            draw(model, X[["rooms"]])


def test_a_search_shows_its_best_model(cancer, tmp_path):
    X, y = cancer_frame(cancer)
    search = AdditiveSVCCV(Cs=[1.0], cv=2).fit(X, y)
    text = show_model(search, X, y, tmp_path / "a.html").read_text("utf-8")
    assert "AdditiveSVC: ill, well" in text
    pytest.importorskip("matplotlib").use("Agg")
    assert len(plot_shapes(search, X, n_features=2, features=[0]).axes) == 2
