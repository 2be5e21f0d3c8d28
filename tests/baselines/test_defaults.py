"""Machines on explicit features pass scikit-learn's checks with as many as by default, too."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.baselines import LLSVC, LTPUSVC, FastfoodSVC


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [LLSVC(random_state=0), LTPUSVC(random_state=0), FastfoodSVC(random_state=0)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
