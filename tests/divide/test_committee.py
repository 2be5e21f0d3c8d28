"""The Bayesian committee against Tresp's formula, written with odds and without logarithms."""

import numpy as np
from sklearn.datasets import make_moons

from tests.reference import kernels as formulas
from widemargin import DCSVC
from widemargin.divide import PAPER


def test_the_committee_multiplies_odds_and_divides_by_the_prior_odds():
    """The posterior odds of k experts are the product of their odds over prior odds to the k - 1."""
    X, y = make_moons(600, noise=0.2, random_state=0)
    y = np.where(np.arange(600) < 200, 0, y)  # The classes have different frequencies.
    model = DCSVC(
        **PAPER, C=10.0, gamma=2.0, n_clusters=3, n_levels=1, stop_level=1, combine="bcm"
    ).fit(X, y)
    parts, queries = model._model.parts, X[:40]
    slopes, prior_odds = parts.committee.slope[:, 0], np.mean(y == 1) / np.mean(y == 0)
    terms = model.dual_coef_[0] * formulas.rbf(queries, model.support_vectors_, gamma=2.0)
    posterior = prior_odds
    for cluster, slope in enumerate(slopes):
        decisions = terms[:, parts.clusters == cluster].sum(axis=1)
        expert_odds = prior_odds * np.exp(slope * decisions)
        posterior = posterior * expert_odds / prior_odds
    assert len(slopes) == 3
    found = np.exp(model.decision_function(queries))
    np.testing.assert_allclose(found, posterior, rtol=1e-3)
