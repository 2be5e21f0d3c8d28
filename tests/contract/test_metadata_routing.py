"""Sample weights reach our estimators through scikit-learn's metadata routing."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from widemargin import DCSVC, AdditiveSVC, KernelSVC, KernelSVR, ProjectedSVC

ESTIMATORS = [
    KernelSVC(), DCSVC(n_levels=1), KernelSVR(), AdditiveSVC(), ProjectedSVC(n_basis=5),
]  # fmt: skip


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_weights_reach_the_fit_inside_a_pipeline_and_a_search(model, cancer):
    X, y = cancer
    weights = np.where(y == 1, 20.0, 1.0)
    asking = model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    pipe = make_pipeline(MinMaxScaler(clip=True), asking)
    name = pipe.steps[-1][0]
    search = GridSearchCV(pipe, {f"{name}__C": [0.01]}, cv=2).fit(X, y, sample_weight=weights)
    own = clone(model).set_params(C=0.01)
    scaled = search.best_estimator_[0].transform(X)
    expected = own.fit(scaled, y, weights).predict(scaled)
    np.testing.assert_array_equal(search.predict(X), expected)
    unweighted = own.fit(scaled, y).predict(scaled)
    assert not np.array_equal(unweighted, expected)


def test_weights_that_nobody_asked_for_are_an_error(cancer):
    X, y = cancer
    search = GridSearchCV(KernelSVC(), {"C": [1.0]}, cv=2)
    with pytest.raises(ValueError, match="sample_weight"):
        search.fit(X, y, sample_weight=np.ones(len(y)))
