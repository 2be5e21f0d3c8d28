"""`AdditiveSVC(interactions=...)` with missing values, with categories and with constraints."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.svm import SVC

import widemargin
from widemargin import AdditiveSVC, plotting
from widemargin.additive import pair_cells
from widemargin.additive.indicator_columns import MISSING_WEIGHT
from widemargin.additive.pair_levels import N_LEVELS

ONE = {"n_jobs": 1, "random_state": 0}
KINDS = ONE | {"missing": "code", "categorical_features": ["town", "job"]}
TOWNS = np.array(["ham", "ley", "ton"])


def people(n=400, seed=0, n_jobs=24, share=0.15):
    """Two counts, of which one has gaps, a town that may be missing, and a job of many.

    The class is whether the age is high in one town, and low, or missing, in the others.
    """
    rng = np.random.default_rng(seed)
    age, size = rng.integers(0, 10, (2, n)).astype(float)
    town, job = rng.integers(0, 3, n), np.minimum(rng.geometric(0.15, n), n_jobs) - 1
    is_old, no_age, no_town = age > 4, rng.random(n) < share, rng.random(n) < share
    y = np.where(no_age, town > 0, is_old == (town == 0)).astype(int)
    y = np.where(no_town, age > 6, y)
    frame = pd.DataFrame({
        "size": size, "town": pd.Categorical(np.where(no_town, None, TOWNS[town])),
        "age": np.where(no_age, np.nan, age), "job": pd.Categorical([f"job{k:02}" for k in job]),
    })  # fmt: skip
    return frame, y


@pytest.fixture(scope="module")
def fitted():
    frame, y = people()
    return AdditiveSVC(interactions=3, **KINDS).fit(frame, y), frame, y


def test_pairs_of_a_number_and_a_category_help(fitted):
    model, _, _ = fitted
    new, truth = people(2000, seed=1)
    assert_array_equal(model.interactions_[0], [1, 2])
    alone = AdditiveSVC(**KINDS).fit(*people())
    assert model.score(new, truth) > 0.9 > 0.75 > alone.score(new, truth)
    assert model.missing_heights_.shape == (4,)


def delta(column):
    """Kernel that is one between equal categories, and little between missing ones."""
    is_missing = pd.isna(column).to_numpy()
    same = column.to_numpy()[:, None] == column.to_numpy()
    same &= ~is_missing & ~is_missing[:, None]
    return same + MISSING_WEIGHT * np.outer(is_missing, is_missing)


def minimum(column):
    """Intersection kernel of a number, which counts as the median where it is missing."""
    is_missing = column.isna().to_numpy()
    values = column.fillna(column.median()).to_numpy() / column.max()
    return np.minimum.outer(values, values) + MISSING_WEIGHT * np.outer(is_missing, is_missing)


def test_equals_the_exact_svm_with_the_product_kernel(monkeypatch):
    monkeypatch.setattr(pair_cells, "MAX_RANK", 1000)
    monkeypatch.setattr(pair_cells, "TRACE_SHARE", 1e-9)
    frame, y = people(151, n_jobs=8)
    y[:20] = 1 - y[:20]
    model = AdditiveSVC(
        kernel="intersection", interactions=6, C=0.5, loss="hinge", tol=1e-6, max_iter=100_000,
        rank=64, scaling="max", n_bins=1000, **KINDS,
    ).fit(frame, y)  # fmt: skip
    kernels = [
        (delta if name in ("town", "job") else minimum)(column) for name, column in frame.items()
    ]
    curves = sum(kernels)
    pairs = sum(kernels[i] * kernels[j] for i, j in model.interactions_)
    assert len(model.interactions_) == 6
    K = curves + np.diag(curves).mean() / np.diag(pairs).mean() * pairs
    theirs = SVC(kernel="precomputed", C=0.5, tol=1e-8).fit(K, y)
    assert_allclose(model.decision_function(frame), theirs.decision_function(K), atol=5e-3)


def test_shares_add_up_with_gaps_and_unknown_categories(fitted):
    model, frame, _ = fitted
    new = frame.head(30).copy()
    new["town"] = new["town"].cat.add_categories("new").where(np.arange(30) % 5 > 0, "new")
    new["age"] = new["age"].where(np.arange(30) % 3 > 0)
    # Sizes have no gaps in training: a missing one counts as the median.
    new["size"] = new["size"].where(np.arange(30) % 7 > 0)
    shares = model.explain(new)
    assert shares.shape == (30, 7)
    decisions = model.decision_function(new)
    assert_allclose(shares.sum(axis=1) + model.intercept_[0], decisions, atol=1e-9)
    # An unknown town adds nothing, alone or in pairs.
    with_town = [1] + [4 + k for k, pair in enumerate(model.interactions_) if 1 in pair]
    assert_array_equal(shares[::5][:, with_town], 0.0)
    filled = new.assign(size=new["size"].fillna(frame["size"].median()))
    assert_allclose(model.decision_function(filled), decisions, atol=1e-9)


def test_surfaces_are_named_and_have_means_of_zero(fitted):
    model, frame, _ = fitted
    for (i, j), (first, second, heights) in zip(
        model.interactions_, model.interaction_functions(), strict=True
    ):
        assert heights.shape == (len(first), len(second))
        for feature, values, over in ((i, first, heights), (j, second, heights.T)):
            column = frame.iloc[:, feature]
            if column.name in ("size", "age"):
                known = values[~np.isnan(values)]
                assert_allclose(known, np.arange(10))
                assert np.isnan(values).any() == column.isna().any()
                shares = [np.mean(np.isclose(column, value)) for value in known]
            else:
                named = [value for value in values if value != "others" and value == value]
                assert set(named) <= set(column.cat.categories)
                assert len(values) <= N_LEVELS
                assert ("others" in values) == (column.name == "job")
                shares = [np.mean(column == name) for name in named]
                rare = np.mean(~column.isin(named) & column.notna())
                shares += [rare] if "others" in values else []
            shares += [column.isna().mean()] if column.isna().any() else []
            assert_allclose(np.array(shares) @ over, 0.0, atol=1e-9)


def test_moving_the_means_to_the_curves_changes_no_decision(monkeypatch):
    """The heights of one model, with and without their means, in cells whose curves are exact."""
    frame, y = people()
    model = AdditiveSVC(interactions=2, **KINDS)
    decisions = model.fit(frame, y).decision_function(frame)
    monkeypatch.setattr(pair_cells, "make_pair_model", make_plain_model)
    assert_allclose(model.fit(frame, y).decision_function(frame), decisions, atol=1e-9)


def make_plain_model(curves, surfaces, intercept, cells):
    """Return the model with all that surfaces have in common with curves left in them."""
    maker = cells.maker
    for feature in np.unique(cells.pairs):
        levels = maker.make(feature)
        object.__setattr__(levels, "shares", np.zeros_like(levels.shares))
    return MAKE(curves, surfaces, intercept, cells)


MAKE = pair_cells.make_pair_model


def test_models_are_saved_and_loaded(fitted, tmp_path):
    model, frame, _ = fitted
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert_array_equal(loaded.decision_function(frame), model.decision_function(frame))
    assert_array_equal(loaded.missing_heights_, model.missing_heights_)
    for ours, theirs in zip(
        model.interaction_functions(), loaded.interaction_functions(), strict=True
    ):
        assert [list(map(str, part)) for part in ours[:2]] == [
            list(map(str, part)) for part in theirs[:2]
        ]


def test_the_page_names_categories_and_gaps(fitted, tmp_path):
    model, frame, y = fitted
    plotting.show_model(model, X=frame, y=y, path=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "town ham, age missing:" in page
    assert "town missing, age 0:" in page


def test_several_classes_weights_and_numbers_only():
    frame, y = people()
    labels = np.where(frame["size"] > 7, 2, y)
    model = AdditiveSVC(interactions=2, **KINDS).fit(frame, labels)
    assert model.explain(frame).shape == (400, 3, 6)
    numbers = frame[["size", "age"]]
    gaps = AdditiveSVC(interactions=1, missing="code", **ONE)
    weights = np.arange(400) % 3
    weighted = clone(gaps).set_params(tol=1e-6, max_iter=100_000).fit(numbers, y, weights)
    repeated = clone(weighted).fit(numbers.loc[numbers.index.repeat(weights)], y.repeat(weights))
    assert_allclose(
        weighted.decision_function(numbers), repeated.decision_function(numbers), atol=1e-5
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_stops_early_is_judged_on_the_features(monkeypatch):
    frame, y = people()
    model = AdditiveSVC(interactions=2, max_iter=1, **KINDS).fit(frame, y)
    assert model.score(frame, y) >= max(y.mean(), 1 - y.mean())


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_constrained_features_have_curves_alone(kernel):
    frame, y = people(share=0.1)
    y = np.where(frame["size"] + 4.0 * y > 6.5, 1, 0)
    model = AdditiveSVC(
        interactions=2, monotonic_cst={"size": 1}, kernel=kernel, max_iter=10_000, **KINDS
    ).fit(frame, y)
    assert model.stop_reason_ == "converged"
    assert 0 not in model.interactions_
    assert (model.interactions_[0] == [1, 2]).all()
    heights = model.shape_functions(features=["size"])[0][1]
    assert (np.diff(heights) >= -1e-12).all()
    assert np.ptp(heights) > 0.1
    new, truth = people(1000, seed=1, share=0.1)
    truth = np.where(new["size"] + 4.0 * truth > 6.5, 1, 0)
    alone = clone(model).set_params(interactions=0).fit(frame, y)
    assert model.score(new, truth) > alone.score(new, truth) + 0.03
    shares = model.explain(new).sum(axis=1) + model.intercept_[0]
    assert_allclose(shares, model.decision_function(new), atol=1e-9)


def test_constraints_that_hold_anyway_change_nothing():
    """With the intersection kernel a constrained feature has the same curve as without."""
    frame, y = people(share=0.0)
    y = np.where(frame["size"] + 4.0 * y > 6.5, 1, 0)
    frame = frame[["size", "age", "town"]]
    options = {"kernel": "intersection", "rank": 64, "C": 0.02, "tol": 1e-6, "max_iter": 100_000}
    model = AdditiveSVC(interactions=1, **options, **ONE, categorical_features=["town"])
    free = clone(model).fit(frame, y)
    assert (np.diff(free.shape_functions(features=["size"])[0][1]) >= 0.0).all()
    assert_array_equal(free.interactions_, [[1, 2]])
    bound = model.set_params(monotonic_cst={"size": 1}).fit(frame, y)
    assert_array_equal(bound.interactions_, free.interactions_)
    ours, theirs = bound.decision_function(frame), free.decision_function(frame)
    assert_allclose(ours, theirs, atol=0.01 * np.abs(theirs).max())


def test_constraints_on_all_features_leave_no_pairs():
    frame, y = people()
    X = frame[["size", "age"]].fillna(0.0)
    model = AdditiveSVC(interactions=2, monotonic_cst=[1, 0], **ONE).fit(X, y)
    assert model.interactions_.shape == (0, 2)
    assert model.interaction_functions() == []
