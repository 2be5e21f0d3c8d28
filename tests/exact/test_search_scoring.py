"""Scores of held-out rows that are computed without scikit-learn, against those of scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV

from widemargin import KernelSVC, KernelSVCCV
from widemargin.exact.search_scoring import area_under_roc


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.booleans(), st.floats(0.01, 100.0)),
        min_size=2,
        max_size=30,
    )
)
def test_areas_are_those_of_scikit_learn(rows):
    scores, is_positive, weights = (np.array(part) for part in zip(*rows, strict=True))
    is_positive[:2] = [True, False]
    for w in (None, weights):
        expected = roc_auc_score(is_positive, scores, sample_weight=w)
        assert_allclose(area_under_roc(scores.astype(float), is_positive, w), expected, atol=1e-12)


@pytest.fixture(scope="module")
def clouds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    return X, np.where(X[:, 0] + rng.normal(size=120) > 0.5, "yes", "no")


@pytest.mark.parametrize("weighted", [False, True])
def test_a_search_by_area_finds_what_grid_search_finds(clouds, weighted):
    X, y = clouds
    weights = 1.0 + np.arange(120) % 3 if weighted else None
    grid = {"Cs": [0.1, 10.0], "gammas": [0.1, 1.0], "cv": 3}
    ours = KernelSVCCV(scoring="roc_auc", **grid).fit(X, y, sample_weight=weights)
    # Scorers that are given as functions go through scikit-learn.
    scorer = make_scorer(roc_auc_score, response_method="decision_function")
    theirs = KernelSVCCV(scoring=scorer, **grid).fit(X, y, sample_weight=weights)
    assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    if not weighted:
        search = GridSearchCV(
            KernelSVC(), {"C": [0.1, 10.0], "gamma": [0.1, 1.0]}, scoring="roc_auc", cv=3
        ).fit(X, y)
        assert_allclose(ours.best_score_, search.best_score_, atol=1e-9)


def test_folds_of_one_class_have_no_area(clouds):
    X, y = clouds
    order = np.argsort(y)
    folds = [(order[10:], order[:10]), (order[:-10], order[-10:])]
    with (
        pytest.warns(UserWarning, match="Only one class is present"),
        pytest.raises(ValueError, match="the scorer returned nan"),
    ):
        KernelSVCCV(scoring="roc_auc", Cs=[1.0], gammas=[1.0], cv=folds).fit(X, y)
