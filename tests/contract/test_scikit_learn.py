"""Every estimator is a scikit-learn citizen."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import (
    DCSVC,
    DCSVR,
    LRSVC,
    AdditiveSVC,
    AdditiveSVCCV,
    AdditiveSVR,
    AdditiveSVRCV,
    IntersectionSVC,
    KernelOneClassSVM,
    KernelSVC,
    KernelSVCCV,
    KernelSVR,
    KernelSVRCV,
    PowerMeanSVC,
    ProjectedSVC,
)
from widemargin.distributed import DaskAdditiveSVC, DaskDCSVC, DaskIntersectionSVC
from widemargin.divide import KernelKMeans

ESTIMATORS = [
    KernelSVC(),
    KernelSVC(multi_class="ovr"),
    KernelSVC(fit_intercept=False),
    KernelSVC(kernel="poly", coef0=1.0),
    KernelSVR(),
    KernelOneClassSVM(),
    KernelSVCCV(Cs=2, gammas=2, cv=3),
    KernelSVCCV(Cs=[1.0], gammas=[0.1], cv=3, multi_class="ovr", calibration="temperature"),
    KernelSVCCV(Cs=2, gammas=2, cv=3, n_clusters=2),
    KernelSVRCV(Cs=[1.0, 10.0], gammas=2, epsilons=1, cv=3),
    DCSVC(),
    DCSVR(),
    KernelKMeans(),
    KernelKMeans(kernel="linear", n_clusters=2),
    AdditiveSVC(),
    AdditiveSVC(kernel="intersection", loss="hinge"),
    AdditiveSVC(missing="code"),
    AdditiveSVR(),
    AdditiveSVR(kernel="intersection", loss="epsilon_insensitive"),
    AdditiveSVCCV(Cs=2, cv=2),
    AdditiveSVRCV(Cs=2, cv=3),
    PowerMeanSVC(),
    PowerMeanSVC(lut=True),
    IntersectionSVC(),
    IntersectionSVC(multi_class="crammer_singer"),
    IntersectionSVC(solver="primal"),
    LRSVC(),
    ProjectedSVC(),
    ProjectedSVC(shared_basis=True, n_basis=10),
    ProjectedSVC(move=True, n_basis=5),
    DaskDCSVC(),
    DaskAdditiveSVC(),
    DaskIntersectionSVC(),
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
