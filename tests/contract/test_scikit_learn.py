"""Every estimator is a scikit-learn citizen.

One check cannot be passed by a classifier that refuses negative features and takes class weights:
`check_class_weight_classifiers` fits data with negative features whatever the tags say. It is run on
scaled data in the tests of `AdditiveSVC`.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import (
    DCSVC,
    LRSVC,
    AdditiveSVC,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
    ProjectedSVC,
)

ESTIMATORS = [
    KernelSVC(),
    KernelSVC(multi_class="ovr"),
    KernelSVC(fit_intercept=False),
    KernelSVC(kernel="poly", coef0=1.0),
    DCSVC(),
    AdditiveSVC(),
    AdditiveSVC(kernel="intersection", loss="hinge"),
    PowerMeanSVC(),
    PowerMeanSVC(lut=True),
    IntersectionSVC(),
    IntersectionSVC(multi_class="crammer_singer"),
    IntersectionSVC(solver="primal"),
    LRSVC(),
    ProjectedSVC(),
    ProjectedSVC(shared_basis=True, n_basis=10),
]


def failures(estimator):
    if isinstance(estimator, AdditiveSVC | PowerMeanSVC):
        return {"check_class_weight_classifiers": "the data have negative features"}
    return {}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
