"""`KernelSVCCV` against `GridSearchCV` with scikit-learn's `SVC` and with `KernelSVC`."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_wine, make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, make_scorer, recall_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from widemargin import KernelSVC, KernelSVCCV
from widemargin.exact import search_base, search_grid
from widemargin.exact.search import search
from widemargin.kernels import RBF, Poly

CS = [0.1, 1.0, 10.0, 100.0]


def scaled(X):
    return StandardScaler().fit_transform(X)


def small_sets(cancer, iris, digits):
    """Ten small sets of two and more classes, dense and sparse, easy and noisy."""
    rng = np.random.default_rng(0)
    wine = load_wine(return_X_y=True)
    yield "cancer", cancer[0], cancer[1]
    yield "cancer, few rows", cancer[0][:60], cancer[1][:60]
    yield "iris", scaled(iris[0]), iris[1]
    yield "wine", scaled(wine[0]), wine[1]
    yield "digits", digits[0][:500], digits[1][:500]
    yield "moons", *make_moons(400, noise=0.3, random_state=0)
    yield "noise", rng.normal(size=(200, 4)), rng.integers(0, 2, 200)
    yield "unbalanced", *make_classification(400, 10, weights=[0.9], flip_y=0.05, random_state=1)
    yield "sparse", sparse.random(300, 40, 0.1, "csr", random_state=0), np.arange(300) % 3
    yield "text labels", scaled(iris[0])[20:120], np.array(["a", "b", "c"])[iris[1][20:120]]


def grids(X):
    return np.array([0.05, 0.5, 2.0]) / X.shape[1]


@pytest.mark.parametrize("number", range(10))
def test_chosen_cells_and_scores_are_those_of_grid_search(number, cancer, iris, digits):
    _, X, y = list(small_sets(cancer, iris, digits))[number]
    gammas = grids(X)
    ours = KernelSVCCV(Cs=CS, gammas=gammas, search="grid").fit(X, y)
    theirs = GridSearchCV(SVC(), {"C": CS, "gamma": gammas}).fit(X, y)
    plain = GridSearchCV(KernelSVC(), {"C": CS, "gamma": gammas}).fit(X, y)
    n_test = len(y) // 5
    for peer in (theirs, plain):
        for fold in range(5):
            name = f"split{fold}_test_score"
            # A row whose decision value is zero up to the tolerance may fall on either side.
            assert_allclose(ours.cv_results_[name], peer.cv_results_[name], atol=1.01 / n_test)
        assert_allclose(
            ours.cv_results_["mean_test_score"], peer.cv_results_["mean_test_score"], atol=2e-3
        )
        best = peer.cv_results_["mean_test_score"].max()
        assert ours.best_score_ == pytest.approx(best, abs=2e-3)
    assert ours.best_params_ == plain.best_params_ or ours.best_score_ == plain.best_score_
    assert ours.cv_results_["params"] == plain.cv_results_["params"]
    assert_array_equal(ours.predict(X), KernelSVC(**ours.best_params_).fit(X, y).predict(X))


def test_results_have_the_entries_of_grid_search(cancer):
    X, y = cancer
    ours = KernelSVCCV(Cs=CS, gammas=[0.01, 0.1], cv=3).fit(X[:200], y[:200])
    theirs = GridSearchCV(SVC(), {"C": CS, "gamma": [0.01, 0.1]}, cv=3).fit(X[:200], y[:200])
    assert set(theirs.cv_results_) <= set(ours.cv_results_)
    for name in ("mean_test_score", "std_test_score", "rank_test_score", "param_C", "param_gamma"):
        assert_allclose(ours.cv_results_[name], theirs.cv_results_[name])
    assert ours.best_index_ == theirs.best_index_
    assert ours.n_splits_ == 3
    assert ours.scores_.shape == (2, 4, 3)
    for cell, params in enumerate(ours.cv_results_["params"]):
        g, c = [0.01, 0.1].index(params["gamma"]), CS.index(params["C"])
        assert_allclose(ours.scores_[g, c, 0], ours.cv_results_["split0_test_score"][cell])


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
def test_classes_and_weights(multi_class, class_weight, iris):
    X, y = scaled(iris[0]), iris[1]
    keep = np.r_[0:50, 50:80, 100:150]
    X, y = X[keep], y[keep]
    params = {"multi_class": multi_class, "class_weight": class_weight}
    ours = KernelSVCCV(Cs=CS, gammas=[0.1, 1.0], **params).fit(X, y)
    theirs = GridSearchCV(KernelSVC(**params), {"C": CS, "gamma": [0.1, 1.0]}).fit(X, y)
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-12
    )
    assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize(
    "kernel", ["linear", "poly", "sigmoid", "chi2", "exp_chi2", "intersection"]
)
def test_kernels(kernel, cancer):
    X, y = MinMaxScaler().fit_transform(cancer[0])[:200], cancer[1][:200]
    grid = {"C": CS}
    if kernel in ("poly", "sigmoid", "exp_chi2"):
        grid["gamma"] = [0.05, 0.3, 0.4]
    ours = KernelSVCCV(
        Cs=CS, gammas=grid.get("gamma", 10), kernel=kernel, coef0=0.5, search="grid"
    ).fit(X, y)
    theirs = GridSearchCV(KernelSVC(kernel=kernel, coef0=0.5), grid).fit(X, y)
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=0.0051
    )
    assert ours.best_estimator_.kernel == kernel
    assert (ours.gamma_ is None) == ("gamma" not in grid)


def test_kernel_objects_and_callables(iris):
    X, y = scaled(iris[0]), iris[1]
    named = KernelSVCCV(Cs=CS, gammas=[0.1, 1.0]).fit(X, y)
    given = KernelSVCCV(Cs=CS, gammas=[0.1, 1.0], kernel=RBF(7.0)).fit(X, y)
    assert_allclose(given.scores_, named.scores_)
    assert given.best_estimator_.kernel == RBF(given.gamma_)
    called = KernelSVCCV(Cs=CS, kernel=lambda A, B: np.asarray(A @ B.T) + 1.0).fit(X, y)
    linear = KernelSVCCV(Cs=CS, kernel="linear").fit(X, y)
    assert_allclose(called.scores_, linear.scores_, atol=0.04)


def test_precomputed_matrix(iris):
    X, y = scaled(iris[0]), iris[1]
    K = np.exp(-0.3 * np.square(X[:, None] - X[None]).sum(axis=2))
    ours = KernelSVCCV(Cs=CS, kernel="precomputed").fit(K, y)
    direct = KernelSVCCV(Cs=CS, gammas=[0.3]).fit(X, y)
    assert_allclose(ours.scores_, direct.scores_)
    assert_array_equal(ours.predict(K), direct.predict(X))
    with pytest.raises(ValueError, match="gammas: the 'precomputed' kernel has no gamma"):
        KernelSVCCV(Cs=CS, gammas=[0.3], kernel="precomputed").fit(K, y)


@pytest.mark.parametrize(
    "cv",
    [
        KFold(4, shuffle=True, random_state=1),
        ShuffleSplit(3, test_size=0.2, random_state=0),
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        [(np.arange(50, 200), np.arange(50)), (np.arange(150), np.arange(150, 200))],
    ],
)
def test_splitters(cv, cancer):
    X, y = cancer[0][:200], cancer[1][:200]
    ours = KernelSVCCV(Cs=CS, gammas=[0.02], cv=cv, keep_decisions=True).fit(X, y)
    theirs = GridSearchCV(SVC(), {"C": CS, "gamma": [0.02]}, cv=cv).fit(X, y)
    assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    held_out = np.zeros(200, bool)
    for _, test in cv if isinstance(cv, list) else cv.split(X, y):
        held_out[test] = True
    assert_array_equal(np.isfinite(ours.decision_oof_[:, 0]), held_out)


def test_groups(cancer):
    X, y = cancer[0][:200], cancer[1][:200]
    groups = np.arange(200) // 10
    ours = KernelSVCCV(Cs=CS, gammas=[0.02], cv=GroupKFold(4)).fit(X, y, groups=groups)
    theirs = GridSearchCV(SVC(), {"C": CS, "gamma": [0.02]}, cv=GroupKFold(4))
    theirs.fit(X, y, groups=groups)
    assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "f1", "roc_auc", "neg_hinge_loss"])
def test_scorers_by_name(scoring, cancer):
    X, y = cancer[0][:200], cancer[1][:200]
    if scoring == "neg_hinge_loss":
        scoring = make_scorer(
            lambda y, f: -float(np.maximum(1 - (2 * y - 1) * f, 0).mean()),
            response_method="decision_function",
        )
    ours = KernelSVCCV(Cs=CS, gammas=[0.02, 0.2], scoring=scoring).fit(X, y)
    theirs = GridSearchCV(SVC(), {"C": CS, "gamma": [0.02, 0.2]}, scoring=scoring).fit(X, y)
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=2e-3
    )
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=2e-3)


def test_a_callable_scorer_sees_the_features(iris):
    X, y = scaled(iris[0]), iris[1]
    seen = []

    def scorer(model, X, y):
        seen.append(X.shape)
        return recall_score(y, model.predict(X), average="macro")

    ours = KernelSVCCV(Cs=[1.0], gammas=[0.1], scoring=scorer, cv=3).fit(X, y)
    named = KernelSVCCV(Cs=[1.0], gammas=[0.1], scoring="recall_macro", cv=3).fit(X, y)
    assert seen == [(50, 4)] * 3
    assert_allclose(ours.scores_, named.scores_)


def test_weights_equal_repeated_rows(cancer):
    X, y = cancer[0][:150], cancer[1][:150]
    weights = np.arange(150) % 3
    rows = np.repeat(np.arange(150), weights)
    groups = np.arange(150) % 5
    folds = [(np.flatnonzero(groups != k), np.flatnonzero(groups == k)) for k in range(5)]
    repeated = [
        (np.flatnonzero(groups[rows] != k), np.flatnonzero(groups[rows] == k)) for k in range(5)
    ]
    weighted = KernelSVCCV(Cs=CS, gammas=[0.02, 0.2], cv=folds).fit(X, y, sample_weight=weights)
    plain = KernelSVCCV(Cs=CS, gammas=[0.02, 0.2], cv=repeated).fit(X[rows], y[rows])
    assert_allclose(weighted.scores_, plain.scores_)
    assert_allclose(weighted.decision_function(X), plain.decision_function(X), atol=5e-3)


def test_held_out_decisions_are_those_of_fits_on_the_folds(cancer):
    X, y = cancer[0][:300], cancer[1][:300]
    model = KernelSVCCV(Cs=CS, gammas=[0.02, 0.1], cv=3, keep_decisions=True).fit(X, y)
    assert model.decision_oof_.shape == (300, 1)
    for train, test in StratifiedKFold(3).split(X, y):
        plain = KernelSVC(**model.best_params_).fit(X[train], y[train])
        assert_allclose(model.decision_oof_[test, 0], plain.decision_function(X[test]), atol=5e-3)


def test_grids_from_the_data_and_extended_ends():
    X, y = make_moons(300, noise=0.25, random_state=0)
    model = KernelSVCCV(Cs=4, gammas=4, cv=3).fit(X * 1e-4, y)
    assert len(model.Cs_) >= 4
    assert len(model.gammas_) >= 4
    assert model.best_score_ > 0.9
    # The grid follows the scale of the data.
    other = KernelSVCCV(Cs=4, gammas=4, cv=3).fit(X, y)
    assert_allclose(model.gammas_ * 1e-8, other.gammas_, rtol=0.02)
    assert model.scores_.shape == (len(model.gammas_), len(model.Cs_), 3)


def test_a_range_is_extended_while_the_best_is_at_its_end(monkeypatch):
    # A wide kernel follows the moons only if C is large.
    X, y = make_moons(300, noise=0.1, random_state=0)
    monkeypatch.setattr(search_grid, "COST_RANGE", (0.05, 0.5))
    with pytest.warns(UserWarning, match="end of its range"):
        model = KernelSVCCV(Cs=3, gammas=[0.05], cv=3, keep_decisions=True).fit(X, y)
    assert len(model.Cs_) == 3 + 3 * 2
    assert_allclose(model.Cs_[1:] / model.Cs_[:-1], 10**0.5, rtol=0.01)
    assert model.Cs_[-1] == model.C_
    assert np.isfinite(model.scores_).all()
    fixed = KernelSVCCV(Cs=model.Cs_, gammas=[0.05], cv=3, keep_decisions=True).fit(X, y)
    assert_allclose(fixed.scores_, model.scores_)
    assert_allclose(fixed.decision_oof_, model.decision_oof_, atol=1e-3)


def test_halving_drops_cells_and_finds_the_region_of_the_full_grid(noisy):
    X, y = noisy[0][:3000], noisy[1][:3000]
    gammas, Cs = np.geomspace(0.01, 10, 7), np.geomspace(0.1, 100, 6)
    full = KernelSVCCV(Cs=Cs, gammas=gammas, cv=3, search="grid").fit(X, y)
    half = KernelSVCCV(Cs=Cs, gammas=gammas, cv=3, search="halving").fit(X, y)
    is_known = np.isfinite(half.scores_).all(axis=2)
    assert 0 < is_known.sum() < 0.5 * is_known.size
    # Scores on all rows are the same ones.
    assert_allclose(half.scores_[is_known], full.scores_[is_known], atol=2e-3)
    assert half.best_score_ > full.best_score_ - 0.01
    notes, n_rows = half.cv_results_["note"], half.cv_results_["n_rows"]
    known = np.isfinite(half.cv_results_["mean_test_score"])
    assert_array_equal(notes == "", known)
    assert all("dropped" in note for note in notes[~known])
    assert (n_rows[known] == 2000).all()
    assert (n_rows[~known] < 1000).all()
    assert np.isfinite(half.cv_results_["sample_test_score"][~known]).all()
    auto = KernelSVCCV(Cs=Cs, gammas=gammas, cv=3).fit(X, y)
    assert_allclose(auto.scores_, half.scores_)


def test_threads_and_memory_do_not_change_the_scores(cancer):
    X, y = cancer
    kernel = 4 * len(X) ** 2
    settings = [
        {"n_jobs": 1},
        {"n_jobs": 2},
        {"n_jobs": 8},
        # Room for one kernel matrix and for none.
        {"memory": int(2 * kernel)},
        {"memory": int(1.2 * kernel)},
    ]
    models = [KernelSVCCV(Cs=CS, gammas=[0.01, 0.1], **s).fit(X, y) for s in settings]
    for model in models[1:]:
        assert_allclose(model.scores_, models[0].scores_, atol=1.01 / 113)
        assert_allclose(model.scores_.mean(axis=2), models[0].scores_.mean(axis=2), atol=2e-3)


def test_memory_too_small_for_a_fold(cancer):
    with pytest.raises(ValueError, match="memory: too small"):
        KernelSVCCV(Cs=CS, gammas=[0.1], memory="10 kB").fit(*cancer)


def test_max_time_leaves_a_usable_model(noisy):
    X, y = noisy
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = KernelSVCCV(Cs=20, gammas=20, search="grid", max_time=1.5).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert "not evaluated" in set(model.cv_results_["note"])
    assert model.get_params()["max_time"] == 1.5
    with pytest.warns(ConvergenceWarning, match="max_time"):
        hasty = KernelSVCCV(max_time=1e-4).fit(X, y)
    assert np.isnan(hasty.best_score_)
    assert hasty.predict(X).shape == y.shape


def test_a_cell_that_does_not_converge_is_marked_and_not_chosen(noisy):
    X, y = noisy[0][:1000], noisy[1][:1000]
    with pytest.warns(ConvergenceWarning, match="did not converge have a higher score"):
        model = KernelSVCCV(Cs=[0.01, 1000.0], gammas=[0.1], cv=3, max_iter=2000).fit(X, y)
    reasons = dict(zip(model.cv_results_["param_C"], model.cv_results_["stop_reason"], strict=True))
    assert reasons == {0.01: "converged", 1000.0: "max_iter"}
    assert model.C_ == 0.01
    with pytest.warns(ConvergenceWarning, match="converged in no cell"):
        KernelSVCCV(Cs=[1000.0], gammas=[0.5], cv=3, max_iter=10, search="grid").fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"Cs": []}, "Cs: .* is not a list of values"),
        ({"Cs": 0}, "Cs: give at least one value"),
        ({"Cs": [1.0, -1.0]}, "Cs: values must be finite and be positive, got -1"),
        ({"Cs": [1.0, 1.0]}, "Cs: every value may be given once"),
        ({"Cs": "many"}, "Cs: 'many' are not numbers"),
        ({"gammas": [np.nan]}, "gammas: values must be finite"),
        ({"gammas": [[1.0]]}, "gammas: .* is not a list of values"),
        ({"gammas": "wide"}, "gammas: 'wide' are not numbers"),
        ({"search": "random"}, "search: must be one of"),
        ({"calibration": "platt"}, "calibration: must be one of"),
        ({"scoring": "neg_log_loss"}, "scoring: this scorer needs probabilities"),
        ({"scoring": ["accuracy", "f1"]}, "scoring: .* is not one scorer"),
        ({"scoring": "acuracy"}, "scoring: 'acuracy' is not known"),
        ({"scoring": lambda model, X, y: np.nan}, "scoring: the scorer returned nan .* fold 0"),
        ({"cv": 1}, "cv: "),
        ({"cv": [(np.arange(10**6), np.arange(3))]}, "cv: fold 0 is not one of"),
        ({"scoring": lambda model, X, y: "high"}, "scoring: the scorer returned 'high'"),
        ({"scoring": lambda model, X, y: model.predict(X[:2]).mean()}, "scoring: the scorer asks"),
        ({"refit": "accuracy"}, "refit: must be True or False"),
        (
            {"cv": [(np.arange(40), np.arange(40, 100))]},
            "cv: fold 0 has no training row of class 1",
        ),
        ({"cv": [(np.arange(100), [])]}, "cv: fold 0 has 100 training rows and 0 held-out rows"),
        ({"cv": 41}, "cv: class 0 has 40 rows, fewer than the 41 folds"),
        ({"kernel": "exp_chi2"}, "Negative values in data X"),
    ],
)
def test_bad_input(params, message, cancer):
    order = np.argsort(cancer[1], kind="stable")
    X, y = cancer[0][order][172:272], cancer[1][order][172:272]
    with pytest.raises(ValueError, match=message):
        KernelSVCCV(**{"Cs": [1.0], "gammas": [0.1], **params}).fit(X, y)


def test_a_refused_fit_leaves_the_model(cancer):
    X, y = cancer[0][:100], cancer[1][:100]
    model = KernelSVCCV(Cs=[1.0], gammas=[0.1], cv=2).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="Cs"):
        model.set_params(Cs=[-1.0]).fit(X[:, :3], y)
    assert_array_equal(model.predict(X), before)


def test_without_refit(cancer):
    X, y = cancer[0][:100], cancer[1][:100]
    model = KernelSVCCV(Cs=CS, gammas=[0.1], cv=2, refit=False).fit(X, y)
    assert model.C_ in CS
    assert not hasattr(model, "best_estimator_")
    assert not hasattr(model, "predict")
    with pytest.raises(AttributeError, match="predict_proba") as refused:
        _ = KernelSVCCV().predict_proba
    assert "no probabilities" in str(refused.value.__cause__)


def test_pipelines_nested_searches_and_clones(cancer):
    X, y = cancer[0][:150], cancer[1][:150]
    model = KernelSVCCV(Cs=[1.0, 10.0], gammas=[0.01, 0.1], cv=3)
    scores = cross_val_score(make_pipeline(StandardScaler(), model), X, y, cv=3)
    assert scores.min() > 0.85
    nested = GridSearchCV(clone(model), {"multi_class": ["ovo", "ovr"]}, cv=2).fit(X, y)
    assert nested.best_score_ > 0.85
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("set_name", ["cancer", "digits"])
def test_probabilities_are_no_worse_than_those_of_scikit_learn(method, set_name, cancer, digits):
    X, y = cancer if set_name == "cancer" else digits
    C, gamma = (10.0, 0.01) if set_name == "cancer" else (10.0, 0.1)
    ours_loss, theirs_loss = [], []
    for seed in range(3):
        A, B, a, b = train_test_split(X[:900], y[:900], random_state=seed, stratify=y[:900])
        ours = KernelSVCCV(Cs=[C], gammas=[gamma], calibration=method).fit(A, a)
        theirs = CalibratedClassifierCV(SVC(C=C, gamma=gamma), method=method, ensemble=False)
        P, Q = ours.predict_proba(B), theirs.fit(A, a).predict_proba(B)
        assert_allclose(P.sum(axis=1), 1.0)
        onehot = (b[:, None] == ours.classes_).astype(float)
        ours_loss.append([np.square(P - onehot).sum(axis=1).mean(), log_loss(b, P)])
        theirs_loss.append([np.square(Q - onehot).sum(axis=1).mean(), log_loss(b, Q)])
    mine, peer = np.mean(ours_loss, axis=0), np.mean(theirs_loss, axis=0)
    assert mine[0] <= peer[0] * 1.02 + 1e-3
    assert mine[1] <= peer[1] * 1.02 + 2e-3


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_probabilities_of_one_vs_rest(method, digits):
    X, y = digits[0][:900], digits[1][:900]
    A, B, a, b = train_test_split(X, y, random_state=0, stratify=y)
    ours = KernelSVCCV(
        Cs=[10.0], gammas=[0.1], calibration=method, multi_class="ovr", keep_decisions=True
    ).fit(A, a)
    # The same decision values, calibrated by scikit-learn one class after the other.
    decisions = ours.decision_function(B)
    columns = []
    for c in range(10):
        if method == "isotonic":
            curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            columns.append(curve.fit(ours.decision_oof_[:, c], a == c).predict(decisions[:, c]))
        else:
            logistic = LogisticRegression(C=np.inf, tol=1e-8)
            n, k = len(a), np.count_nonzero(a == c)
            # Platt's targets: every row is of both classes, with weights.
            t = np.where(a == c, (k + 1) / (k + 2), 1 / (n - k + 2))
            F = np.tile(ours.decision_oof_[:, [c]], (2, 1))
            logistic.fit(F, np.repeat([1, 0], n), sample_weight=np.concatenate([t, 1 - t]))
            columns.append(logistic.predict_proba(decisions[:, [c]])[:, 1])
    expected = np.column_stack(columns)
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(ours.predict_proba(B), expected, atol=1e-4)
    assert log_loss(b, ours.predict_proba(B)) < 0.5


def test_temperature_agrees_with_the_predictions_of_two_classes(cancer):
    X, y = cancer
    model = KernelSVCCV(Cs=[1.0], gammas=[0.02], calibration="temperature").fit(X[::2], y[::2])
    assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert brier_score_loss(y[1::2], model.predict_proba(X[1::2])[:, 1]) < 0.05


def test_degrees_are_searched_as_by_grid_search(iris):
    X, y = scaled(iris[0]), iris[1]
    grid = {"degree": [2, 3], "gamma": [0.1, 1.0], "C": [0.1, 1.0]}
    peer = GridSearchCV(SVC(kernel="poly", coef0=1.0), grid, cv=3).fit(X, y)
    model = KernelSVCCV(
        kernel="poly", coef0=1.0, degree=[2, 3], gammas=[0.1, 1.0], Cs=[0.1, 1.0], cv=3
    ).fit(X, y)
    results = model.cv_results_
    assert len(results["params"]) == 8
    for params, score in zip(results["params"], results["mean_test_score"], strict=True):
        at = peer.cv_results_["params"].index(params)
        assert_allclose(score, peer.cv_results_["mean_test_score"][at])
    assert model.best_score_ == pytest.approx(peer.best_score_)
    assert results["params"][model.best_index_] == model.best_params_
    assert results["rank_test_score"][model.best_index_] == 1
    assert model.best_params_["degree"] == model.degree_ == model.best_estimator_.degree
    assert_array_equal(results["param_degree"], np.repeat([2, 3], 4))


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [("poly", {"degree": [1, 2], "coef0": [-0.5, 1.0]}), ("sigmoid", {"coef0": [-1.0, 0.0]})],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_coef0_is_searched_as_by_grid_search(kernel, shapes, iris):
    X, y = scaled(iris[0]), iris[1]
    gammas, Cs = [0.05, 0.2], [0.1, 1.0]
    peer = GridSearchCV(
        KernelSVC(kernel=kernel), {"gamma": gammas, "C": Cs, **shapes}, cv=3
    ).fit(X, y)  # fmt: skip
    model = KernelSVCCV(kernel=kernel, gammas=gammas, Cs=Cs, cv=3, **shapes).fit(X, y)
    results = model.cv_results_
    assert len(results["params"]) == len(peer.cv_results_["params"])
    for params, score in zip(results["params"], results["mean_test_score"], strict=True):
        at = peer.cv_results_["params"].index(params)
        assert_allclose(score, peer.cv_results_["mean_test_score"][at])
    assert results["params"][model.best_index_] == model.best_params_
    assert model.best_params_["coef0"] == model.coef0_ == model.best_estimator_.coef0
    assert sorted(set(results["param_coef0"])) == shapes["coef0"]


def test_an_interrupted_search_tells_what_was_evaluated(iris):
    X, y = scaled(iris[0]), iris[1]
    calls = []

    def interrupt(model, X, y):
        calls.append(len(y))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return 0.9 if len(calls) <= 3 else 0.5

    search = KernelSVCCV(Cs=[1.0, 2.0], gammas=[0.1, 0.2], cv=3, scoring=interrupt, n_jobs=1)
    with pytest.raises(KeyboardInterrupt) as caught:
        search.fit(X, y)
    (note,) = caught.value.__notes__
    # Every fold of a gamma walks along the costs, so that seven scores complete its two cells.
    assert note.startswith("2 of 4 cells were evaluated on all folds")
    assert "C = 1, gamma = 0.1, has the mean score 0.7667." in note


def test_halving_looks_at_no_sample_if_there_is_one_cell(cancer):
    model = KernelSVCCV(Cs=[1.0], gammas=[0.1], cv=3, search="halving", refit=False).fit(*cancer)
    assert np.isnan(model.cv_results_["sample_test_score"]).all()
    several = KernelSVCCV(Cs=[1.0, 2.0], gammas=[0.1], cv=3, search="halving", refit=False)
    assert np.isfinite(several.fit(*cancer).cv_results_["sample_test_score"]).any()


@pytest.mark.parametrize("gammas", ["scale", 4])
def test_a_kernel_without_gamma_ignores_how_many_to_find(gammas, iris):
    model = KernelSVCCV(kernel="linear", gammas=gammas, Cs=[1.0], cv=3).fit(*iris)
    assert model.gamma_ is None
    assert model.best_params_ == {"C": 1.0}


def test_a_kernel_object_keeps_its_degree(iris):
    X, y = scaled(iris[0]), iris[1]
    kernel = Poly(1.0, 2, 1.0)
    model = KernelSVCCV(kernel=kernel, Cs=[1.0], gammas=[0.1, 0.5], cv=3).fit(X, y)
    assert model.degree_ == model.best_estimator_.kernel_.degree == 2
    named = KernelSVCCV(kernel="poly", degree=2, coef0=1.0, Cs=[1.0], gammas=[0.1, 0.5], cv=3)
    assert_allclose(model.scores_, named.fit(X, y).scores_)
    several = KernelSVCCV(kernel=kernel, degree=[1, 2], Cs=[1.0], gammas=[0.1, 0.5], cv=3).fit(X, y)
    assert several.best_estimator_.kernel_.degree == several.degree_
    assert_allclose(several.best_score_, max(several.cv_results_["mean_test_score"]))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"degree": [2, 3]}, "degree: the 'rbf' kernel has no degree"),
        ({"degree": [2, 3], "kernel": "sigmoid"}, "degree: the 'sigmoid' kernel has no degree"),
        ({"degree": [], "kernel": "poly"}, "degree: give a number or a list"),
        ({"degree": [2, 2], "kernel": "poly"}, "degree: give a number or a list"),
        ({"degree": [2, -1], "kernel": "poly"}, "degree"),
        ({"coef0": [0.0, 1.0]}, "coef0: the 'rbf' kernel has no coef0"),
        ({"coef0": [], "kernel": "poly"}, "coef0: give a number or a list"),
        ({"coef0": [1.0, 1.0], "kernel": "poly"}, "coef0: give a number or a list"),
        ({"coef0": [0.0, np.nan], "kernel": "poly"}, "coef0"),
    ],
)
def test_wrong_degrees_and_coef0(params, message, iris):
    with pytest.raises(ValueError, match=message):
        KernelSVCCV(Cs=[1.0], gammas=[1.0], cv=3, **params).fit(*iris)


def test_degrees_share_the_time(iris, monkeypatch):
    seconds = []

    def record(data, grid, settings, options, workers):
        seconds.append(settings.budget.deadline - time.perf_counter())
        return search(data, grid, settings, options, workers)

    monkeypatch.setattr(search_base, "search", record)
    grid = {"Cs": [1.0], "gammas": [0.1], "cv": 2, "refit": False}
    KernelSVCCV(kernel="poly", degree=[1, 2, 3], max_time=3000.0, **grid).fit(*iris)
    # 70 % of the time is for the search; what one degree leaves over goes to the next ones.
    assert_allclose(seconds, [700.0, 1050.0, 2100.0], atol=60.0)
