"""`AdditiveSVCCV` and `AdditiveSVRCV` against `GridSearchCV` on the same values and folds."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GridSearchCV, GroupKFold, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from widemargin import AdditiveSVC, AdditiveSVCCV, AdditiveSVR, AdditiveSVRCV
from widemargin.additive import search_base
from widemargin.exact.search_surface import Grid, Surface
from widemargin.export.description import describe

pytestmark = pytest.mark.filterwarnings("ignore:.*the best C, .* is at the end of Cs")

# Solutions of the search and of single fits are the same up to the tolerance.
EXACT = {"tol": 1e-3, "max_iter": 20_000, "n_jobs": 1}
LOADERS = {"cancer": load_breast_cancer, "iris": load_iris, "wine": load_wine}


def load(name):
    X, y = LOADERS[name](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:200]
    return X[order], y[order]


@pytest.fixture(scope="module")
def targets():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return X[:200], y[:200]


def split_scores(search, n_folds):
    columns = [search.cv_results_[f"split{fold}_test_score"] for fold in range(n_folds)]
    return np.array(columns).T


def assert_same_search(ours, theirs, n_folds, **tolerance):
    assert_allclose(ours.scores_, split_scores(theirs, n_folds), **tolerance)
    assert_allclose(split_scores(ours, n_folds), ours.scores_)
    assert theirs.best_params_["C"] == ours.C_
    assert_allclose(ours.best_score_, theirs.best_score_, **tolerance)
    assert set(theirs.cv_results_) <= set(ours.cv_results_)
    assert [entry["C"] for entry in ours.cv_results_["params"]] == list(ours.Cs_)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("name", LOADERS)
def test_scores_are_those_of_grid_search(name, loss):
    X, y = load(name)
    Cs = AdditiveSVC().fit(X, y).C_ * np.array([0.01, 0.1, 1.0])
    ours = AdditiveSVCCV(Cs=Cs, cv=3, loss=loss, **EXACT).fit(X, y)
    theirs = GridSearchCV(AdditiveSVC(loss=loss, **EXACT), {"C": Cs}, cv=3).fit(X, y)
    assert_same_search(ours, theirs, 3, atol=1e-12)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert_allclose(ours.decision_function(X), theirs.decision_function(X))


@pytest.mark.parametrize("loss", ["squared_epsilon_insensitive", "epsilon_insensitive"])
@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_scores_of_regressions_are_those_of_grid_search(targets, kernel, loss):
    X, y = targets
    options = {"kernel": kernel, "loss": loss, "epsilon": 5.0, **EXACT}
    Cs = AdditiveSVR(loss=loss).fit(X, y).C_ * np.array([0.001, 0.01, 0.1])
    ours = AdditiveSVRCV(Cs=Cs, cv=3, **options).fit(X, y)
    theirs = GridSearchCV(AdditiveSVR(**options), {"C": Cs}, cv=3).fit(X, y)
    assert_same_search(ours, theirs, 3, atol=1e-3)
    assert_allclose(ours.predict(X), theirs.predict(X))


def test_weights_groups_scorers_and_sparse_rows():
    X, y = load("wine")
    rng = np.random.default_rng(1)
    groups, weights = rng.integers(0, 6, len(y)), rng.integers(0, 3, len(y)).astype(float)
    Cs, options = [0.1, 1.0, 10.0], {"class_weight": "balanced", **EXACT}
    splits = list(GroupKFold(3).split(X, y, groups))
    ours = AdditiveSVCCV(Cs=Cs, cv=GroupKFold(3), scoring="balanced_accuracy", **options)
    ours.fit(sparse.csr_array(X), y, weights, groups=groups)
    expected = np.empty((3, 3))
    for c, C in enumerate(Cs):
        for fold, (train, test) in enumerate(splits):
            model = AdditiveSVC(C=C, **options).fit(X[train], y[train], weights[train])
            scorer = sklearn.metrics.get_scorer("balanced_accuracy")
            kept = test[weights[test] > 0]
            expected[c, fold] = scorer(model, X[kept], y[kept], sample_weight=weights[kept])
    # Sparse rows are not scaled, dense rows of such different units are.
    assert not np.allclose(ours.scores_, expected)
    ours.fit(X, y, weights, groups=groups)
    assert_allclose(ours.scores_, expected)


def test_a_scorer_may_be_a_function(targets):
    X, y = targets
    scorer = make_scorer(mean_absolute_error, greater_is_better=False)
    cv = ShuffleSplit(2, random_state=0)
    ours = AdditiveSVRCV(Cs=[0.1, 1.0], cv=cv, scoring=scorer, **EXACT).fit(X, y)
    theirs = GridSearchCV(AdditiveSVR(**EXACT), {"C": [0.1, 1.0]}, cv=cv, scoring=scorer)
    assert_same_search(ours, theirs.fit(X, y), 2, rtol=1e-3)
    assert_allclose(ours.score(X, y), scorer(ours, X, y))


def test_pairs_of_features():
    X, y = load("cancer")
    options = {"interactions": 2, "scaling": "max", **EXACT}
    ours = AdditiveSVCCV(Cs=[0.1, 1.0], cv=2, **options).fit(X[:, :6], y)
    theirs = GridSearchCV(AdditiveSVC(**options), {"C": [0.1, 1.0]}, cv=2).fit(X[:, :6], y)
    assert_allclose(ours.scores_, split_scores(theirs, 2))
    assert len(ours.best_estimator_.interactions_) == 2


def test_threads_change_nothing():
    X, y = load("wine")
    one, two = (AdditiveSVCCV(Cs=3, cv=3, n_jobs=n).fit(X, y) for n in (1, 2))
    assert_array_equal(one.scores_, two.scores_)
    assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_a_range_grows_while_its_end_is_the_best():
    X, y = load("iris")
    # The best C of the same data in tiny weights is beyond any range for usual ones.
    weights = np.full(len(y), 1e-4)
    model = AdditiveSVCCV(Cs=2, cv=3).fit(X, y, weights)
    assert len(model.Cs_) > 2
    assert (np.diff(model.Cs_) > 0).all()
    assert not np.isnan(model.scores_).any()


@pytest.mark.parametrize(
    ("gains", "end"), [([0.01, 0.02, 0.01, 0.02], -1), ([0.04, -0.03, 0.02, -0.01], 0)]
)
def test_a_range_does_not_grow_by_chance(gains, end):
    """A gain at the end of a range must be larger than its standard error over the folds."""
    surface = Surface(Grid(np.ones(1), np.ones(1), np.array([1.0, 10.0, 100.0])), n_folds=4)
    inner = np.array([0.8, 0.7, 0.9, 0.6])
    for c, scores in enumerate((inner + gains, inner, inner - 0.1)):
        for fold, score in enumerate(scores):
            surface.record((0, 0, c), fold, score, "converged", 0.0, 0.0)
    assert surface.best_end(2) == -1
    assert search_base._rising_end(surface) == end


def test_the_best_value_at_an_end_is_told():
    X, y = load("iris")
    with pytest.warns(UserWarning, match="the best C, 0.001, is at the end of Cs"):
        AdditiveSVCCV(Cs=[0.001, 0.0001], cv=3).fit(X, y)


def test_a_found_range_that_ends_too_early_is_told(targets, monkeypatch):
    monkeypatch.setattr(search_base, "MAX_MOVES", 0)
    monkeypatch.setattr(search_base, "COST_RANGE", (1e-4, 1e-3))
    with pytest.warns(UserWarning, match="is the largest that was tried; its score is") as caught:
        AdditiveSVRCV(Cs=3, cv=3, epsilon=1.0).fit(*targets)
    told = [warning for warning in caught if "was tried" in str(warning.message)]
    assert [Path(warning.filename).name for warning in told] == [Path(__file__).name]
    assert "scale" not in str(told[0].message)


def test_a_score_that_is_level_at_the_end_of_a_found_range_is_no_warning():
    # The score rises with C up to the end of the extended range, at last by 0.0005.
    X, y = load_diabetes(return_X_y=True, scaled=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AdditiveSVRCV(epsilon=1.0, scaling=None).fit(X, y)
    means = model.scores_.mean(axis=1)
    assert model.Cs_.max() == model.C_
    assert 0 < means[-1] - means[-2] < 0.1 * model.scores_[-1].std() / np.sqrt(5)


def test_time_that_runs_out_leaves_a_model(targets):
    X, y = targets
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = AdditiveSVRCV(max_time=1e-6, cv=3).fit(X, y)
    assert np.isnan(model.scores_).all()
    assert np.isfinite(model.predict(X)).all()


def test_folds_of_centred_data_need_not_be_centred():
    X, y = load("wine")
    X = X - X.mean(axis=0)
    # Rows in the order of a column: no fold has the mean of all.
    order = np.argsort(X[:, 0])
    model = AdditiveSVCCV(Cs=[0.1, 1.0, 10.0], cv=ShuffleSplit(3, random_state=0))
    with pytest.warns(UserWarning, match="the data are centred"):
        model.fit(X[order], y[order])
    assert model.best_score_ > 0.9
    folds = [(np.arange(100), np.arange(100, len(y))), (np.arange(70, len(y)), np.arange(70))]
    model.set_params(cv=folds).fit(X[order], y[order])
    assert np.isfinite(model.scores_).all()


def test_without_refit():
    X, y = load("iris")
    model = AdditiveSVCCV(Cs=[1.0], cv=3, refit=False).fit(X, y)
    assert model.C_ == 1.0
    assert not hasattr(model, "predict")
    with pytest.raises(AttributeError, match="decision_function"):
        model.decision_function(X)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"Cs": []}, "Cs: "),
        ({"Cs": [1.0, -1.0]}, "Cs: values must be finite and be positive"),
        ({"Cs": 0}, "Cs: give at least one"),
        ({"cv": 1000}, "cv: class"),
        ({"rank": 0}, "rank"),
        ({"scoring": "neg_log_loss", "Cs": [1.0]}, "probabilities"),
        ({"scoring": ["accuracy"]}, "scoring"),
        ({"loss": "log"}, "loss"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        AdditiveSVCCV(**params).fit(*load("iris"))


def test_inside_other_estimators():
    X, y = load("wine")
    model = make_pipeline(MinMaxScaler(clip=True), AdditiveSVCCV(Cs=[0.1, 1.0, 10.0], cv=3))
    assert cross_val_score(clone(model), X, y, cv=3).mean() > 0.9


def test_groups_reach_the_search_by_routing():
    X, y = load("wine")
    groups = np.arange(len(y)) % 5
    with sklearn.config_context(enable_metadata_routing=True):
        search = AdditiveSVCCV(Cs=[0.1, 1.0, 10.0], cv=GroupKFold(3))
        search.set_fit_request(groups=True, sample_weight=True)
        model = make_pipeline(MinMaxScaler(), search)
        model.fit(X, y, groups=groups, sample_weight=np.ones(len(y)))
    assert model[-1].n_splits_ == 3


def test_exports_are_those_of_the_final_model():
    X, y = load("wine")
    model = AdditiveSVCCV(Cs=[0.1, 1.0, 10.0], cv=3).fit(X, y)
    ours, final = describe(model), describe(model.best_estimator_)
    assert_array_equal(ours.functions.curves, final.functions.curves)
    assert ours.name == "AdditiveSVCCV"
