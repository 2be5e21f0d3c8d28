"""Curves and surfaces of fitted models with ANOVA kernels."""

from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer

from widemargin import DCSVC, AdditiveSVC, KernelSVC, KernelSVCCV, KernelSVR
from widemargin.interactions import decompose
from widemargin.plotting import plot_shapes

mpl.use("Agg")


@pytest.fixture(scope="module")
def table():
    """Columns of different units, two of which interact."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "age": rng.integers(18, 90, 300),
        "income": rng.lognormal(10.0, 1.0, 300),
        "rooms": rng.integers(1, 6, 300),
        "noise": rng.normal(size=300),
    })  # fmt: skip
    score = (X.age - 54) / 20 * (np.log(X.income) - 10) + 0.5 * (X.rooms > 3)
    return X, np.where(score + 0.2 * rng.normal(size=300) > 0, "buys", "leaves")


def add_up(found):
    return found.intercept + found.curves.sum(-1) + found.surfaces.sum(-1) + found.rest


def model_of(kernel, **params):
    return make_pipeline(QuantileTransformer(n_quantiles=100), KernelSVC(kernel=kernel, **params))


@pytest.mark.parametrize("kernel", ["anova_chi2", "anova_intersection", "anova_rbf"])
def test_explanations_add_up_to_the_decision(table, kernel):
    X, y = table
    model = model_of(kernel, C=20.0).fit(X, y)
    parts = decompose(model, X)
    every = parts.explain(X[:50], top=6)
    assert_allclose(add_up(every), model.decision_function(X[:50]), atol=1e-6)
    assert_allclose(every.rest, 0.0, atol=1e-9)
    few = parts.explain(X[:50], top=2)
    assert few.surfaces.shape == (50, 2)
    assert_allclose(few.surfaces, every.surfaces[:, :2])
    assert_allclose(few.rest, every.surfaces[:, 2:].sum(axis=1), atol=1e-9)


def test_the_pair_that_interacts_is_found(table):
    X, y = table
    parts = decompose(model_of("anova_chi2", C=20.0).fit(X, y), X)
    ranked = parts.rank_terms()
    assert ranked[0].names == ("age", "income")
    assert_allclose(sum(term.share for term in ranked), 1.0)
    surface = parts.interaction_functions(top=1)[0]
    ages, _ = surface.values
    assert_allclose([ages[0], ages[-1]], [18, 89], atol=2)
    # Labels are sorted: the score is that of leaving, which rich young people do.
    assert surface.heights[0, -1] > 0 > surface.heights[-1, -1]
    assert surface.share == ranked[0].share


def test_curves_are_in_the_units_of_the_data(table):
    X, y = table
    model = model_of("anova_chi2", C=20.0).fit(X, y)
    parts = decompose(model, X, n_levels=20)
    (rooms, heights), (income, _) = parts.shape_functions([2, 1])
    assert_allclose(rooms, [1, 2, 3, 4, 5])
    assert len(income) == 20
    shares = [(X.rooms == value).mean() for value in rooms]
    assert_allclose(heights @ shares, 0.0, atol=1e-12)
    # The curve is what explanations show of rows with these values.
    shown = parts.explain(X).curves[:, 2]
    assert_allclose(shown[X.rooms == 5], heights[-1], atol=1e-9)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes(table, multi_class):
    X, _ = table
    y = np.digitize(X.age, [40, 60])
    model = model_of("anova_intersection", C=5.0, multi_class=multi_class).fit(X, y)
    parts = decompose(model, X)
    found = parts.explain(X[:20], top=3)
    assert found.curves.shape == (20, 3, 4)
    Z = model[:-1].transform(X[:20])
    assert_allclose(add_up(found), model[-1]._model.decide(Z, n_jobs=1), atol=1e-4)
    expected = {"ovo": ["1, not 0", "2, not 0", "2, not 1"], "ovr": ["0", "1", "2"]}
    assert parts.function_names == expected[multi_class]
    assert parts.rank_terms()[0].names == ("age",)


def test_regression_search_and_divide_and_conquer(table):
    X = MinMaxScaler().fit_transform(table[0])
    target = X[:, 0] * X[:, 2]
    regression = KernelSVR(kernel="anova_chi2", C=100.0, epsilon=0.01).fit(X, target)
    search = KernelSVCCV(kernel="anova_chi2", Cs=[10.0], cv=3).fit(X, table[1])
    divided = DCSVC(kernel="anova_chi2", C=10.0, n_levels=1).fit(X, table[1])
    for model in (regression, search.best_estimator_, divided):
        decide = getattr(model, "decision_function", model.predict)
        assert_allclose(add_up(decompose(model, X).explain(X)), decide(X), atol=1e-4)
    assert decompose(regression, X).interaction_functions(1)[0].features == (0, 2)
    assert decompose(search, X).intercept == decompose(search.best_estimator_, X).intercept


def test_sparse_data():
    X = sparse.random(200, 30, 0.2, format="csr", random_state=0)
    y = np.asarray(X[:, [0]].toarray()[:, 0] > 0)
    model = KernelSVC(kernel="anova_chi2", C=10.0).fit(X, y)
    parts = decompose(model, X)
    assert_allclose(add_up(parts.explain(X)), model.decision_function(X), atol=1e-6)
    assert parts.rank_terms()[0].features == (0,)


def test_many_features_have_pairs_of_the_largest_curves(monkeypatch, table):
    X, y = table
    monkeypatch.setattr("widemargin.interactions.CANDIDATES", 3)
    parts = decompose(model_of("anova_chi2", C=20.0).fit(X, y), X)
    assert len(parts.rank_terms()) == 4 + 3
    assert len(parts.interaction_functions(10)) == 3


def test_models_without_terms_are_refused(table):
    X, y = table
    Z = MinMaxScaler().fit_transform(X)
    with pytest.raises(TypeError, match="this KernelSVC is no weighted sum of ANOVA kernels"):
        decompose(KernelSVC().fit(Z, y), Z)
    with pytest.raises(TypeError, match="this AdditiveSVC is no weighted sum"):
        decompose(AdditiveSVC().fit(Z, y), Z)
    mixed = make_pipeline(PCA(4), MinMaxScaler(), KernelSVC(kernel="anova_rbf")).fit(X, y)
    with pytest.raises(ValueError, match="mixes columns"):
        decompose(mixed, X)


def test_picture_of_curves_and_pairs(table):
    X, y = table
    model = model_of("anova_chi2", C=20.0).fit(X, y)
    figure = plot_shapes(model, X, n_features=2, n_pairs=2)
    titles = [axis.get_title(loc="left") for axis in figure.axes if axis.get_visible()]
    shown = [title.split("\n")[0].split("  ")[0] for title in titles if title]
    parts = decompose(model, X)
    curves = [term.names[0] for term in parts.rank_terms() if len(term.names) == 1]
    pairs = [" and ".join(surface.names) for surface in parts.interaction_functions(2)]
    assert shown == curves[:2] + pairs
    assert "leaves" in figure.get_supylabel()
    assert "shares of the variance" in figure.get_supxlabel()
    with pytest.raises(ValueError, match="X: give the training rows"):
        plot_shapes(model)


def test_picture_of_several_classes(table):
    X, _ = table
    model = model_of("anova_chi2", C=5.0, multi_class="ovr").fit(X, np.digitize(X.age, [40, 60]))
    figure = plot_shapes(decompose(model, X), n_features=1, n_pairs=1)
    assert len(figure.legends[0].get_texts()) == 3


@pytest.fixture(scope="module")
def digit_parts(digits):
    X, y = digits
    model = KernelSVC(kernel="anova_intersection", C=10.0).fit(X[:300, 20:32], y[:300])
    return decompose(model, X[:300, 20:32])


def test_picture_of_many_classes_shows_the_largest_curves(digit_parts):
    figure = plot_shapes(digit_parts, n_features=2, n_pairs=3)
    legend = figure.legends[0]
    assert legend.get_title().get_text() == "the 6 largest of 45"
    shown = [text.get_text() for text in legend.get_texts()]
    curves = digit_parts.shape_functions(
        [term.features[0] for term in digit_parts.rank_terms() if len(term.features) == 1][:2]
    )
    sizes = sum(np.ptp(heights, axis=1) for _, heights in curves)
    names = digit_parts.function_names
    assert set(shown) == {names[k] for k in np.argsort(-sizes)[:6]}
    figure.canvas.draw()
    assert legend.get_window_extent().height < figure.bbox.height


def test_picture_of_chosen_classes_and_features(digit_parts):
    figure = plot_shapes(digit_parts, classes=[3, 8, 5], features=[4, 1], n_pairs=1)
    shown = {text.get_text() for text in figure.legends[0].get_texts()}
    assert shown == {"5, not 3", "8, not 3", "8, not 5"}
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert [title.split("  ")[0] for title in titles[:2]] == ["feature 4", "feature 1"]
    assert any(f"for {name}" in titles[2] for name in shown)
    one = plot_shapes(digit_parts, classes=[3], n_pairs=0)
    assert all("3" in text.get_text() for text in one.legends[0].get_texts())
    with pytest.raises(ValueError, match=r"classes: .* are not among"):
        plot_shapes(digit_parts, classes=[11])


def test_titles_of_maps_do_not_overlap(digits):
    X = pd.DataFrame(digits[0][:200, 26:30], columns=[f"share of vacancies {k}" for k in range(4)])
    y = np.array(["cheap", "middle", "expensive"])[digits[1][:200] % 3]
    model = KernelSVC(kernel="anova_intersection", C=10.0).fit(X, y)
    figure = plot_shapes(decompose(model, X), n_features=1, n_pairs=3)
    figure.canvas.draw()
    titles = [axis._left_title for axis in figure.axes if " and " in axis.get_title(loc="left")]
    boxes = [title.get_window_extent() for title in titles]
    assert len(boxes) == 3
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_small_shares_are_said_to_be_small(digit_parts):
    figure = plot_shapes(digit_parts, n_pairs=3)
    shares = [surface.share for surface in digit_parts.interaction_functions(3)]
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    titles = [title for title in titles if " and " in title]
    assert ["below 0.1 %" in title for title in titles] == [share < 0.001 for share in shares]
    assert any(share < 0.001 for share in shares)
    assert not any("0.0 %" in title for title in titles)
