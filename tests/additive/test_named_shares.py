"""`explain(as_frame=True)`: shares with the names of features, pairs and classes."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from widemargin import AdditiveSVC, AdditiveSVR, IntersectionSVC
from widemargin.additive.pair_model import TIMES


@pytest.fixture(scope="module")
def flowers():
    return load_iris(return_X_y=True, as_frame=True)


def test_columns_are_features_and_pairs_and_rows_those_of_the_data(flowers):
    X, y = flowers
    model = AdditiveSVC(interactions=2, n_jobs=1).fit(X, y == 2)
    some = X.iloc[[70, 3, 120]]
    frame = model.explain(some, as_frame=True)
    assert_array_equal(frame.index, [70, 3, 120])
    pairs = [TIMES.join(X.columns[pair]) for pair in model.interactions_]
    assert list(frame.columns) == [*X.columns, *pairs]
    assert_array_equal(frame.to_numpy(), model.explain(some))
    total = frame.sum(axis=1) + model.intercept_[0]
    assert_allclose(total, model.decision_function(some), atol=1e-9)


def test_several_classes_and_no_names(flowers):
    X, y = flowers
    model = IntersectionSVC(n_jobs=1).fit(X.to_numpy(), np.array(["a", "b", "c"])[y])
    frame = model.explain(X.to_numpy()[:4].tolist(), as_frame=True)
    assert list(frame["b"].columns) == [f"feature {j}" for j in range(4)]
    assert_array_equal(frame["b"].to_numpy(), model.explain(X.to_numpy()[:4])[:, 1])
    regression = AdditiveSVR(n_jobs=1).fit(X, y)
    assert list(regression.explain(X, as_frame=True).columns) == list(X.columns)


def test_what_is_refused(flowers, monkeypatch):
    X, y = flowers
    model = AdditiveSVC(n_jobs=1).fit(X, y)
    with pytest.raises(ValueError, match="as_frame: must be True or False"):
        model.explain(X, as_frame="yes")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs the package pandas; install it"):
        model.explain(X.to_numpy(), as_frame=True)
