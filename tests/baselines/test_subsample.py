"""SubsampleSVC: SVC on the rows it names, and what every estimator owes its users."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.baselines.data import make_data
from widemargin.baselines.subsample import SubsampleSVC, draw_stratified


@pytest.mark.parametrize("convert", [np.asarray, csr_matrix])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"C": 10.0, "gamma": 0.3, "class_weight": "balanced"},
        {"kernel": "poly", "degree": 2, "coef0": 1.0, "tol": 1e-5, "cache_size": 10.0},
    ],
)
def test_it_is_svc_on_its_rows(params, n_classes, convert):
    X, y = make_data(400, n_classes=n_classes)
    model = SubsampleSVC(n_rows=0.3, random_state=0, **params).fit(convert(X), y)
    rows = model.indices_
    peer = SVC(**params).fit(convert(X[rows]), y[rows])
    assert len(rows) == 120 == len(np.unique(rows))
    assert_array_equal(model.decision_function(convert(X)), peer.decision_function(convert(X)))
    assert_array_equal(model.predict(convert(X)), peer.predict(convert(X)))


@pytest.mark.parametrize("kernel", ["rbf", lambda A, B: (A @ B.T).toarray()])
def test_queries_take_the_form_of_the_training_rows(kernel):
    X, y = make_data(200)
    forms = (np.asarray, csr_matrix) if kernel == "rbf" else (csr_matrix,)
    for form in forms:
        model = SubsampleSVC(n_rows=0.5, kernel=kernel, random_state=0).fit(form(X), y)
        assert_array_equal(model.predict(csr_matrix(X)), model.predict(X))
        assert_array_equal(model.decision_function(csr_matrix(X)), model.decision_function(X))


def test_wide_indices_are_made_narrow():
    X, y = make_data(200)
    X = csr_matrix(X)
    wide = X.copy()
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    model = SubsampleSVC(n_rows=0.5, random_state=0).fit(wide, y)
    peer = SubsampleSVC(n_rows=0.5, random_state=0).fit(X, y)
    assert_array_equal(model.decision_function(wide), peer.decision_function(X))


@pytest.mark.parametrize("n_drawn", [5, 13, 100, 500, 1000])
def test_classes_have_their_share(n_drawn):
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [700, 200, 100]))
    rows = draw_stratified(labels, n_drawn, 0)
    assert len(rows) == n_drawn == len(np.unique(rows))
    shares = np.bincount(labels[rows]) - n_drawn * np.array([0.7, 0.2, 0.1])
    assert np.abs(shares).max() < 1.0 + 1e-9


def test_no_class_is_lost():
    labels = np.repeat([0, 1, 2], [998, 1, 1])
    assert_array_equal(np.unique(labels[draw_stratified(labels, 10, 0)]), [0, 1, 2])
    assert len(draw_stratified(labels, 1, 0)) == 3


def test_every_row_is_as_likely():
    labels = np.repeat([0, 1], [20, 40])
    drawn = [draw_stratified(labels, 15, seed) for seed in range(2000)]
    counts = np.bincount(np.concatenate(drawn), minlength=60)
    # Binomial with 2000 draws of chance 1/4: five standard deviations are 97.
    assert np.abs(counts - 500).max() < 97


def test_numbers_and_shares():
    X, y = make_data(200)
    assert len(SubsampleSVC(n_rows=50).fit(X, y).indices_) == 50
    assert len(SubsampleSVC(n_rows=0.25).fit(X, y).indices_) == 50
    assert_array_equal(SubsampleSVC(n_rows=1000).fit(X, y).indices_, np.arange(200))


def test_labels_may_be_strings():
    X, y = make_data()
    names = np.array(["no", "yes"])[y]
    model = SubsampleSVC(n_rows=0.5, random_state=0).fit(X, names)
    assert_array_equal(model.classes_, ["no", "yes"])
    assert model.score(X, names) > 0.75


def test_the_draw_is_that_of_the_seed():
    X, y = make_data()
    a, b, c = (SubsampleSVC(random_state=seed).fit(X, y).indices_ for seed in (0, 0, 1))
    assert_array_equal(a, b)
    assert not np.array_equal(a, c)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_rows": 0}, "n_rows"),
        ({"n_rows": 1.5}, "n_rows"),
        ({"n_rows": True}, "n_rows"),
        ({"n_rows": "half"}, "n_rows"),
        ({"kernel": "precomputed"}, "kernel"),
        ({"C": -1.0}, "'C'"),
        ({"class_weight": {0: 0.0}}, "class_weight: "),
        ({"class_weight": {1: -1.0}}, "class_weight: "),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = make_data(40)
    with pytest.raises(ValueError, match=message):
        SubsampleSVC(**params).fit(X, y)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([SubsampleSVC(n_rows=0.5, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
