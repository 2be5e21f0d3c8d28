"""The choice of pairs: which features take part, and whether planted pairs are found."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_selection import f_classif

from widemargin import AdditiveSVC
from widemargin.additive import pair_choice
from widemargin.additive.pair_choice import MAX_FEATURES, screen_features


def make_wide(rng, n_rows=300, n_features=MAX_FEATURES + 100):
    """Zeros and ones, of which columns 7 and 550 act together, beside a small effect of each."""
    X = (rng.random((n_rows, n_features)) < 0.4).astype(np.float64)
    X *= rng.random(n_features) + 0.5
    on = X[:, [7, 550]] > 0
    y = (on.all(axis=1) + 0.2 * on.sum(axis=1) + 0.1 * rng.normal(size=n_rows) > 0.7).astype(int)
    return X, y


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_features_are_screened_in_the_order_of_the_f_statistic(form, n_classes):
    rng = np.random.default_rng(0)
    X, _ = make_wide(rng)
    y = rng.integers(0, n_classes, len(X))
    expected = np.sort(np.argsort(-f_classif(X, y)[0])[:MAX_FEATURES])
    np.testing.assert_array_equal(screen_features(form(X), y), expected)


def test_constant_features_come_last():
    rng = np.random.default_rng(1)
    X, y = make_wide(rng)
    X[:, :50], X[:, 50:100] = 1.0 / 3.0, 0.0
    assert screen_features(X, y).min() == 100


def test_all_of_few_features_may_form_pairs():
    X, y = make_wide(np.random.default_rng(2))
    found = screen_features(X[:, :MAX_FEATURES], y)
    np.testing.assert_array_equal(found, np.arange(MAX_FEATURES))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_pair_of_wide_data_is_found_by_its_own_numbers(form):
    X, y = make_wide(np.random.default_rng(3))
    model = AdditiveSVC(interactions=1, n_jobs=1).fit(form(X), y)
    np.testing.assert_array_equal(model.interactions_, [[7, 550]])


def test_the_svm_has_no_more_features_than_allowed(monkeypatch):
    seen = []
    fit = pair_choice.KernelSVC.fit

    def watch(self, X, *more, **options):
        seen.append(X.shape[1])
        return fit(self, X, *more, **options)

    monkeypatch.setattr(pair_choice.KernelSVC, "fit", watch)
    X, y = make_wide(np.random.default_rng(4), n_rows=80)
    AdditiveSVC(interactions=2, n_jobs=1).fit(X, y)
    assert seen == [MAX_FEATURES]
