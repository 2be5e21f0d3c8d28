"""Every estimator is a scikit-learn citizen, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import DCSVC, KernelSVC

ESTIMATORS = [
    KernelSVC(),
    KernelSVC(multi_class="ovr"),
    KernelSVC(fit_intercept=False),
    KernelSVC(kernel="poly", coef0=1.0),
    DCSVC(),
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
