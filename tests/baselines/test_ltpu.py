"""LTPUSVC: LIBLINEAR on units computed by NumPy, and what every estimator owes its users."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.baselines.data import make_data
from tests.baselines.feature_oracles import TIGHT, assert_linear_machine, repeat_rows
from widemargin.baselines.ltpu import LTPUSVC


def gaussian_units(centers, gamma):
    return lambda X: np.exp(-gamma * ((X[:, None] - centers) ** 2).sum(axis=2))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("n_units", "C"), [(20, 0.1), (20, 2.0), (250, 1.0)])
def test_it_is_liblinear_on_gaussian_units(loss, n_units, C):
    X, y = make_data(400)
    model = LTPUSVC(n_units=n_units, C=C, gamma=0.3, loss=loss, **TIGHT).fit(X[:300], y[:300])
    assert model.centers_.shape == (n_units, 6)
    units = gaussian_units(model.centers_, 0.3)
    assert_linear_machine(model, units, X[:300], y[:300], X[300:])


def test_every_class_has_a_machine():
    X, y = make_data(400, n_classes=3)
    class_weight = {0: 2.0, 1: 1.0, 2: 0.5}
    model = LTPUSVC(n_units=20, gamma=0.3, class_weight=class_weight, loss="squared_hinge", **TIGHT)
    model.fit(X[:300], y[:300])
    assert model.coef_.shape == (3, 20)
    weights = np.array([class_weight[label] for label in y[:300]])
    units = gaussian_units(model.centers_, 0.3)
    assert_linear_machine(model, units, X[:300], y[:300], X[300:], weights)


def test_the_width_follows_the_spread_of_the_data():
    X, y = make_data()
    model = LTPUSVC(n_units=20, random_state=0).fit(X, y)
    assert model.gamma_ == pytest.approx(1.0 / (6 * X.var()))
    assert LTPUSVC(n_units=20, gamma="auto").fit(X, y).gamma_ == pytest.approx(1 / 6)
    assert_allclose(model.expand(X), gaussian_units(model.centers_, model.gamma_)(X), atol=1e-6)


def test_few_rows_have_a_unit_each():
    X, y = make_data(30)
    model = LTPUSVC(n_units=100, gamma=0.3).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert_allclose(np.unique(model.centers_, axis=0), np.unique(X, axis=0))


def test_weights_equal_repetition():
    X, y = make_data(300)
    counts, X_more, y_more = repeat_rows(X, y)
    weighted = LTPUSVC(n_units=30, C=0.5, loss="squared_hinge", **TIGHT).fit(
        X, y, sample_weight=counts
    )
    repeated = LTPUSVC(n_units=30, C=0.5, loss="squared_hinge", **TIGHT).fit(X_more, y_more)
    assert_allclose(weighted.centers_, repeated.centers_, atol=1e-10)
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)


def test_sparse_equals_dense():
    X, y = make_data()
    X[np.abs(X) < 0.7] = 0.0
    model = LTPUSVC(n_units=30, gamma=0.3, **TIGHT).fit(csr_matrix(X), y)
    units = gaussian_units(model.centers_, 0.3)
    assert_linear_machine(model, units, X, y, X)
    assert_allclose(model.decision_function(csr_matrix(X)), model.decision_function(X), atol=1e-6)


def test_labels_may_be_strings():
    X, y = make_data()
    names = np.array(["no", "yes"])[y]
    model = LTPUSVC(n_units=30, C=10.0, random_state=0).fit(X, names)
    assert_array_equal(model.classes_, ["no", "yes"])
    assert model.score(X, names) > 0.75


def test_the_draw_is_that_of_the_seed():
    X, y = make_data()
    a, b, c = (LTPUSVC(n_units=20, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert_array_equal(a.centers_, b.centers_)
    assert not np.array_equal(a.centers_, c.centers_)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_units": 0}, "n_units"),
        ({"n_units": True}, "n_units"),
        ({"C": 0.0}, "C: "),
        ({"gamma": "wide"}, "gamma"),
        ({"loss": "log"}, "loss"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = make_data(40)
    with pytest.raises(ValueError, match=message):
        LTPUSVC(**params).fit(X, y)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([LTPUSVC(n_units=20, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
