"""One C and one gamma for each cluster, against `GridSearchCV` on the rows of each cluster."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.svm import SVC

import widemargin
from widemargin import KernelSVC, KernelSVCCV
from widemargin.cli.model_summary import format_model
from widemargin.divide import local_search
from widemargin.divide.local_search import count_clusters, divide_rows, is_clearly_better
from widemargin.export import to_c
from widemargin.kernels import RBF, Poly
from widemargin.validation import validate_problem

GRID = {"Cs": [1.0, 100.0], "gammas": [0.1, 1.0, 100.0, 1000.0], "cv": 3, "search": "grid"}


def make_halves(n, seed):
    """A half with a noisy straight border, and far from it a checkerboard of 8 x 8 fields."""
    rng = np.random.default_rng(seed)
    X = rng.random((2 * n, 2))
    smooth = X.sum(axis=1) + rng.normal(0.0, 0.3, 2 * n) > 1.0
    board = np.floor(8.0 * X).sum(axis=1) % 2 == 1
    is_board = np.arange(2 * n) % 2 == 1
    X[:, 0] += 5.0 * is_board
    return X, np.where(is_board, board, smooth).astype(int), is_board


@pytest.fixture(scope="module")
def halves():
    return make_halves(500, 0)


@pytest.fixture(scope="module")
def local(halves):
    X, y, _ = halves
    return KernelSVCCV(n_clusters=2, calibration="sigmoid", keep_decisions=True, **GRID).fit(X, y)


@pytest.fixture(scope="module")
def common(halves):
    X, y, _ = halves
    return KernelSVCCV(**GRID).fit(X, y)


def search_alone(X, y, rows):
    """`GridSearchCV` on some rows, with the folds that all rows have."""
    folds = [
        [np.flatnonzero(np.isin(rows, part)) for part in split]
        for split in StratifiedKFold(GRID["cv"]).split(X, y)
    ]
    grid = {"C": GRID["Cs"], "gamma": GRID["gammas"]}
    return GridSearchCV(SVC(), grid, cv=folds).fit(X[rows], y[rows])


def sort_choices(model):
    return sorted(model.clusters_, key=lambda choice: choice.gamma)


def test_clusters_choose_as_a_search_of_their_rows_alone(halves, local, common):
    X, y, is_board = halves
    found = local.best_estimator_.find_clusters(X)
    assert sorted(np.unique(found[is_board])) != sorted(np.unique(found[~is_board]))
    chosen = set()
    for number, choice in enumerate(local.clusters_):
        rows = np.flatnonzero(found == number)
        assert choice.n_rows == len(rows) == 500
        alone = search_alone(X, y, rows)
        # A row on the border of a class may fall on either side.
        assert choice.score == pytest.approx(alone.best_score_, abs=3.0 / len(rows))
        assert choice.gamma == alone.best_params_["gamma"]
        assert local.best_estimator_.models[number].gamma == choice.gamma
        chosen.add(choice.gamma)
    assert chosen == {0.1, 100.0} or chosen == {1.0, 100.0}
    assert (local.C_, local.gamma_) == (common.C_, common.gamma_)
    X_new, y_new, _ = make_halves(2000, 1)
    assert local.score(X_new, y_new) > common.score(X_new, y_new) + 0.01


def test_rows_are_predicted_by_the_classifier_of_their_cluster(halves, local):
    X, _, _ = halves
    found, values = local.best_estimator_.find_clusters(X), local.decision_function(X)
    for number, model in enumerate(local.best_estimator_.models):
        mine = found == number
        assert_array_equal(values[mine], model.decision_function(X[mine]))
        assert_array_equal(local.predict(X)[mine], model.predict(X[mine]))


def test_held_out_decisions_are_those_of_every_cluster(halves, local):
    X, y, _ = halves
    found = local.best_estimator_.find_clusters(X)
    splits = list(StratifiedKFold(GRID["cv"]).split(X, y))
    for number, choice in enumerate(local.clusters_):
        rows = np.flatnonzero(found == number)
        of_row = np.zeros(len(y), int)
        for fold, (_, test) in enumerate(splits):
            of_row[test] = fold
        folds = [
            (np.flatnonzero(of_row[rows] != f), np.flatnonzero(of_row[rows] == f))
            for f in range(GRID["cv"])
        ]
        peer = SVC(C=choice.C, gamma=choice.gamma)
        expected = cross_val_predict(peer, X[rows], y[rows], cv=folds, method="decision_function")
        assert_allclose(local.decision_oof_[rows, 0], expected, atol=0.01)
    values = local.predict_proba(X)
    assert_allclose(values.sum(axis=1), 1.0)
    assert abs(values[:, 1].mean() - y.mean()) < 0.05


def test_one_cluster_has_the_common_choice(halves, common):
    X, y, _ = halves
    one = KernelSVCCV(n_clusters=1, **GRID).fit(X, y)
    (choice,) = one.clusters_
    assert (choice.C, choice.gamma) == (common.C_, common.gamma_) == (one.C_, one.gamma_)
    assert choice.score == choice.common_score == pytest.approx(common.best_score_)
    assert not choice.is_own
    assert isinstance(one.best_estimator_, KernelSVC)
    assert_array_equal(one.decision_function(X), common.decision_function(X))


def test_the_model_is_that_of_all_rows_if_no_cluster_prefers_another(tmp_path, monkeypatch):
    monkeypatch.setattr(local_search, "NOISE", 1e6)
    X, y, is_board = make_halves(600, 2)
    X, y = X[~is_board], y[~is_board]
    grid = {"Cs": [1.0, 10.0], "gammas": [0.5, 2.0], "cv": 3}
    model = KernelSVCCV(n_clusters=2, calibration="sigmoid", **grid).fit(X, y)
    assert len(model.clusters_) == 2
    assert all((c.C, c.gamma) == (model.C_, model.gamma_) for c in model.clusters_)
    assert all(c.score == c.common_score > 0.5 for c in model.clusters_)
    plain = KernelSVCCV(**grid).fit(X, y)
    assert_array_equal(model.decision_function(X), plain.decision_function(X))
    widemargin.save(model, tmp_path / "m.wm")
    same = widemargin.load(tmp_path / "m.wm")
    assert same.clusters_ == model.clusters_
    assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    assert model.set_params(n_clusters=None).fit(X, y).clusters_ == []


def test_files_pickles_and_clones(halves, local, tmp_path):
    X, y, _ = halves
    widemargin.save(local, tmp_path / "m.wm")
    for same in (widemargin.load(tmp_path / "m.wm"), pickle.loads(pickle.dumps(local))):
        assert_array_equal(same.decision_function(X), local.decision_function(X))
        assert_array_equal(same.predict_proba(X), local.predict_proba(X))
        assert same.clusters_ == local.clusters_
        assert same.n_clusters == 2
    assert "cluster 1, 500 rows: C = " in format_model(local)
    again = clone(local).fit(X, y)
    assert_array_equal(again.decision_function(X), local.decision_function(X))
    with pytest.raises(ValueError, match=r"model: clusters .* n_clusters=None"):
        to_c(local, tmp_path / "m.c")


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_classes_that_a_cluster_lacks(halves, multi_class, tmp_path):
    X, y, is_board = halves
    labels = np.array(["a", "b", "c", "d"])[y + 2 * is_board]
    model = KernelSVCCV(
        n_clusters=2, multi_class=multi_class, class_weight="balanced", calibration="temperature",
        **GRID,
    ).fit(X, labels)  # fmt: skip
    assert_array_equal(model.classes_, list("abcd"))
    found = model.best_estimator_.find_clusters(X)
    for number, each in enumerate(model.best_estimator_.models):
        assert_array_equal(each.classes_, model.classes_)
        mine = np.flatnonzero(found == number)
        alone = search_alone(X, labels, mine)
        assert model.clusters_[number].gamma == alone.best_params_["gamma"]
        # The nearest rows of the classes that it lacks are far away.
        assert set(model.predict(X[mine])) == set(labels[mine])
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    widemargin.save(model, tmp_path / "m.wm")
    loaded = widemargin.load(tmp_path / "m.wm")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_weights_equal_repeated_rows_in_every_cluster(halves):
    X, y, _ = halves
    counts = np.random.default_rng(1).integers(0, 3, len(y))
    folds = [(np.arange(len(y)) % 3 != f, np.arange(len(y)) % 3 == f) for f in range(3)]
    grid = GRID | {"cv": [tuple(map(np.flatnonzero, fold)) for fold in folds]}
    weighted = KernelSVCCV(n_clusters=2, **grid).fit(X, y, sample_weight=counts)
    rows = np.repeat(np.arange(len(y)), counts)
    grid["cv"] = [tuple(np.flatnonzero(part[rows]) for part in fold) for fold in folds]
    repeated = KernelSVCCV(n_clusters=2, **grid).fit(X[rows], y[rows])
    for one, other in zip(sort_choices(weighted), sort_choices(repeated), strict=True):
        assert (one.C, one.gamma) == (other.C, other.gamma)
        assert one.score == pytest.approx(other.score, abs=0.01)


def test_sparse_data_and_kernels(halves, local):
    X, y, _ = halves
    thin = KernelSVCCV(n_clusters=2, **GRID).fit(sparse.csr_matrix(X), y)
    assert [c.gamma for c in thin.clusters_] == [c.gamma for c in local.clusters_]
    assert (thin.predict(sparse.csr_matrix(X)) == local.predict(X)).mean() > 0.99
    given = KernelSVCCV(n_clusters=2, kernel=RBF(7.0), **GRID).fit(X, y)
    assert_array_equal(given.predict(X), local.predict(X))
    assert [m.kernel_ for m in given.best_estimator_.models] == [
        RBF(choice.gamma) for choice in given.clusters_
    ]
    linear = KernelSVCCV(n_clusters=2, kernel="linear", Cs=[0.1, 1.0], cv=3).fit(X, y)
    assert [choice.gamma for choice in linear.clusters_] == [None, None]
    shapes = KernelSVCCV(
        n_clusters=2, kernel="poly", degree=[1, 2], coef0=1.0, Cs=[0.1], gammas=[0.1, 1.0], cv=2
    ).fit(X, y)
    models = getattr(shapes.best_estimator_, "models", [shapes.best_estimator_])
    assert {model.kernel_ for model in models} == {
        Poly(choice.gamma, shapes.degree_, 1.0) for choice in shapes.clusters_
    }


def test_memory_threads_and_callables(halves, local):
    X, y, _ = halves
    for changes in ({"n_jobs": 1}, {"memory": "2 MB"}):
        other = KernelSVCCV(n_clusters=2, **GRID | changes).fit(X, y)
        # With little memory k-means samples fewer rows, and clusters have other numbers.
        assert sort_choices(other) == sort_choices(local)
        assert_allclose(other.decision_function(X), local.decision_function(X), atol=0.01)
    params = {"n_clusters": 2, "Cs": [1.0, 10.0], "cv": 2}
    called = KernelSVCCV(kernel=rbf_kernel, **params).fit(X, y)
    named = KernelSVCCV(gammas=[0.5], **params).fit(X, y)
    assert_allclose(called.decision_function(X), named.decision_function(X), atol=0.01)


def test_groups_and_scorers(halves):
    X, y, _ = halves
    groups = np.arange(len(y)) // 10
    params = GRID | {"cv": GroupKFold(3), "scoring": "balanced_accuracy"}
    model = KernelSVCCV(n_clusters=2, **params).fit(X, y, groups=groups)
    found = model.best_estimator_.find_clusters(X)
    splits = list(GroupKFold(3).split(X, y, groups))
    for number, choice in enumerate(model.clusters_):
        scores = []
        for train, test in splits:
            train, test = train[found[train] == number], test[found[test] == number]
            peer = SVC(C=choice.C, gamma=choice.gamma).fit(X[train], y[train])
            scores.append(balanced_accuracy_score(y[test], peer.predict(X[test])))
        assert choice.score == pytest.approx(np.mean(scores), abs=0.005)


def test_few_rows_are_held_out(halves):
    X, y, is_board = halves
    params = GRID | {"cv": [(np.arange(500), np.flatnonzero(is_board)[300:])]}
    model = KernelSVCCV(n_clusters=2, keep_decisions=True, **params).fit(X, y)
    # Only the board has held-out rows, and the scores of one fold have no standard error.
    assert sum(np.isnan(choice.score) for choice in model.clusters_) == 1
    assert not any(choice.is_own for choice in model.clusters_)
    assert_array_equal(np.flatnonzero(~np.isnan(model.decision_oof_[:, 0])), params["cv"][0][1])


def test_a_cluster_needs_rows_and_clear_scores():
    zeros, rise = np.zeros(5), np.array([0.02, 0.03, 0.02, 0.03, 0.02])
    assert is_clearly_better(rise, zeros)
    assert not is_clearly_better(np.array([0.05, -0.03, 0.04, -0.02, 0.01]), zeros)
    assert not is_clearly_better(zeros, zeros)
    assert not is_clearly_better(np.array([0.5]), np.array([0.0]))
    assert not is_clearly_better(np.array([0.5, np.nan]), np.zeros(2))
    assert count_clusters("auto", 50_000, 7500) == 7
    assert count_clusters("auto", 50, 7500) == count_clusters(8, 399, 7500) == 1
    assert count_clusters(8, 1000, 7500) == 5


def test_clusters_cover_all_rows_and_train_on_near_ones(halves):
    X, y, _ = halves
    problem = validate_problem(KernelSVCCV(), X, y, None, None, precomputed=False)
    splits = list(StratifiedKFold(3).split(X, y))
    divided = divide_rows(RBF(0.1), problem, splits, 4, 10**8, 0, 1)
    own = [cluster.rows for cluster in divided.clusters]
    assert_array_equal(np.sort(np.concatenate(own)), np.arange(len(y)))
    found = divided.division.find_clusters(X, 1)
    for number, cluster in enumerate(divided.clusters):
        assert (found[cluster.rows] == number).mean() > 0.99
        training = divided.list_training(cluster)
        assert np.isin(cluster.rows, training).all()
        assert len(training) <= 1.2 * len(cluster.rows) + 10
        region = divided.make_region(cluster)
        held_out = np.concatenate([region.problem.kept[test] for _, test in region.splits])
        assert_array_equal(np.sort(held_out), cluster.rows)


def test_names_of_features(halves, local):
    pandas = pytest.importorskip("pandas")
    X, y, _ = halves
    table = pandas.DataFrame(X, columns=["left", "right"])
    model = KernelSVCCV(n_clusters=2, **GRID).fit(table, y)
    assert_array_equal(model.feature_names_in_, ["left", "right"])
    assert_array_equal(model.predict(table), local.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["right", "left"]])


def test_time_runs_out(halves, local):
    X, y, _ = halves
    with pytest.warns(ConvergenceWarning, match="before all clusters were searched"):
        model = KernelSVCCV(n_clusters=2, max_time=1e-3, **GRID).fit(X, y)
    assert [choice.gamma for choice in model.clusters_] == [model.gamma_] * 2
    assert all(np.isnan(choice.score) for choice in model.clusters_)
    assert model.predict(X).shape == y.shape
    ample = KernelSVCCV(n_clusters=2, max_time=600.0, **GRID).fit(X, y)
    assert ample.clusters_ == local.clusters_


def test_without_final_fit(halves):
    X, y, _ = halves
    model = KernelSVCCV(n_clusters=2, refit=False, **GRID).fit(X, y)
    assert len(model.clusters_) == 2
    assert not hasattr(model, "predict")


def test_bad_input(halves):
    X, y, _ = halves
    for given in (0, -1, 2.5, "many", True):
        with pytest.raises((ValueError, TypeError), match="n_clusters"):
            KernelSVCCV(n_clusters=given, **GRID).fit(X, y)
    with pytest.raises(ValueError, match="n_clusters: a precomputed"):
        KernelSVCCV(kernel="precomputed", n_clusters=2, Cs=[1.0]).fit(X @ X.T, y)


def test_default_is_one_choice_for_all_rows(common):
    assert isinstance(common.best_estimator_, KernelSVC)
    assert common.clusters_ == []
