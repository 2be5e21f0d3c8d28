"""The methods of the tables and figures by the names that papers give them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks.settings import CACHE_MEGABYTES, TOL
from widemargin import (
    DCSVC,
    AdditiveSVC,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
    ProjectedSVC,
)
from widemargin.baselines import (
    LLSVC,
    LTPUSVC,
    PWLSGDSVC,
    SIKMASVC,
    CascadeSVC,
    FastfoodSVC,
    FourierSVC,
    LaSVC,
    SpSVC,
    SubsampleSVC,
)
from widemargin.divide import PAPER

Options = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A method as papers call it.

    Attributes
    ----------
    build : callable
        ``build(**parameters)`` makes the estimator.
    family : str
        What the figures group it by: exact, divide, sparse, low rank, additive or linear; the
        comparators are in the family they belong to.
    is_ours : bool
        Whether it is a method of the papers that this library implements.
    knob : str
        Parameter that trades time for accuracy; empty if there is none.
    values : tuple
        Its values, the fastest first.
    fixed : dict
        Parameters that all settings share.
    module : str or None
        Module whose changes make a measurement out of date, see `benchmarks.freshness`; None for a
        peer.
    """

    build: Callable[..., Any]
    family: str
    is_ours: bool = False
    knob: str = ""
    values: tuple[Any, ...] = ()
    fixed: Options = field(default_factory=dict)
    module: str | None = None

    def settings(self) -> list[Options]:
        """The options of every point of its curve."""
        return [{self.knob: value} for value in self.values] if self.knob else [{}]

    def make(self, params: Options, options: Options) -> Any:
        """Build the estimator for data with their own C and gamma."""
        return self.build(**(self.fixed | params | options))


class BinEncoder(TransformerMixin, BaseEstimator):
    """Features as the integers 0 to 100 that ICD computes with."""

    def fit(self, X: Any, y: Any) -> "BinEncoder":
        self.quantiser_ = IntersectionSVC(max_iter=1, tol=1e9, scaling=None).fit(X, y).quantiser_
        return self

    def transform(self, X: Any) -> Any:
        codes = self.quantiser_.encode(X)
        if codes.is_sparse:
            return codes.to_csr(np.arange(self.quantiser_.n_bins, dtype=np.float32))
        return codes.values.astype(np.float32).reshape(X.shape)


def on_bins(model: Any) -> Any:
    return make_pipeline(BinEncoder(), model)


#: One thread, as LIBSVM and LIBLINEAR have.
OURS = {"n_jobs": 1, "random_state": 0}
PEER = {"cache_size": CACHE_MEGABYTES, "tol": TOL}
RANKS = (30, 100, 300, 1000, 3000)
SIZES = (10, 50, 200)
LEVELS = (4, 3, 2, 1, 0)
EXACT, DIVIDE = "exact.kernel_svc", "divide.dc_svc"

#: Machines with a kernel of all features, for the tables of DC-SVM and the figures.
KERNEL_METHODS = {
    "KernelSVC": Method(KernelSVC, "exact", True, "tol", (0.5, 0.05, TOL), OURS, EXACT),
    # The algorithm as published: every level, the clusters of plain kernel k-means, Eq. 11.
    "DC-SVM": Method(
        DCSVC, "exact", True, "stop_level", LEVELS, OURS | {"tol": TOL} | PAPER, DIVIDE
    ),
    # The same estimator with the defaults of the library.
    "DCSVC": Method(DCSVC, "exact", True, "stop_level", LEVELS, OURS | {"tol": TOL}, DIVIDE),
    "LIBSVM": Method(SVC, "exact", False, fixed=PEER),
    "LIBSVM on a sample": Method(
        SubsampleSVC, "exact", False, "n_rows", (0.01, 0.03, 0.1, 0.3), PEER | {"random_state": 0}
    ),
    "CascadeSVM": Method(
        CascadeSVC,
        "exact",
        False,
        "max_rounds",
        (1, 2, 4),
        OURS | {"tol": TOL},
        "baselines.cascade",
    ),
    "LaSVM": Method(
        LaSVC, "exact", False, "n_epochs", (1, 3), OURS | {"tol": TOL}, "baselines.lasvm"
    ),
    "LLSVM": Method(LLSVC, "low rank", False, "n_landmarks", RANKS, OURS, "baselines.llsvm"),
    "FastFood": Method(
        FastfoodSVC, "low rank", False, "n_features", RANKS, OURS, "baselines.fastfood"
    ),
    "LTPU": Method(LTPUSVC, "low rank", False, "n_units", RANKS, OURS, "baselines.ltpu"),
    "PSVM": Method(
        ProjectedSVC,
        "sparse",
        True,
        "n_basis",
        SIZES,
        OURS | {"candidates": 59},
        "projected.projected_svc",
    ),
    "SpSVM": Method(SpSVC, "sparse", False, "n_basis", SIZES, OURS, "baselines.spsvm"),
}


def on_unit_interval(build: Callable[..., Any]) -> Callable[..., Any]:
    """Scale features to [0, 1]; leave out the C and gamma of a Gaussian kernel."""

    def made(C: Any = None, gamma: Any = None, **more: Any) -> Any:
        return make_pipeline(MinMaxScaler(clip=True), build(**more))

    return made


#: Machines that are sums over the features, with C = 1.
FEATURE_METHODS = {
    "AdditiveSVC chi2": Method(
        on_unit_interval(AdditiveSVC),
        "additive",
        True,
        "n_bins",
        (4, 16, 64, 256),
        OURS,
        "additive.additive_svc",
    ),
    "LIBLINEAR": Method(on_unit_interval(LinearSVC), "linear", False, fixed={"random_state": 0}),
}

#: PmSVM as in its paper, which has no intercept: the anchors found by hand without a table, Chebyshev
#: nodes with one.
PMSVM = OURS | {"C": 0.01, "fit_intercept": False, "anchors": "paper"}
PMSVM_LUT = PMSVM | {"lut": True, "anchors": "chebyshev"}
#: The exponent by which the paper simulates the intersection kernel.
INTERSECTION_P = -8.0


def additive(build: Callable[..., Any], **fixed: Any) -> Method:
    module = build.__module__.removeprefix("widemargin.")
    is_ours = not module.startswith("baselines.")
    return Method(build, "additive", is_ours, fixed=OURS | fixed, module=module)


#: For the tables of PmSVM and ICD.
ADDITIVE_METHODS = {
    "PmSVM-LUT-chi2": additive(PowerMeanSVC, **PMSVM_LUT),
    "PmSVM-chi2": additive(PowerMeanSVC, **PMSVM),
    "fm-chi2": additive(FourierSVC, C=0.01),
    "PmSVM-LUT-HI": additive(PowerMeanSVC, **PMSVM_LUT, p=INTERSECTION_P),
    "PmSVM-HI": additive(PowerMeanSVC, **PMSVM, p=INTERSECTION_P),
    "fm-HI": additive(FourierSVC, C=0.01, kernel="intersection"),
    "LIBLINEAR": Method(LinearSVC, "linear", fixed={"random_state": 0, "tol": 0.1}),
    "LIBLINEAR (C=0.01)": Method(
        LinearSVC, "linear", fixed={"random_state": 0, "tol": 0.1, "C": 0.01}
    ),
    "AdditiveSVC chi2": additive(AdditiveSVC, C=0.1, fit_intercept=True),
    "ICD": additive(IntersectionSVC, C=1e-3, fit_intercept=False, scaling=None),
    "PWLSGD": additive(PWLSGDSVC),
    "SIKMA": additive(SIKMASVC),
    "LIBSVM+HIK": Method(
        lambda: on_bins(KernelSVC(kernel="intersection", C=1e-3, n_jobs=1)), "exact", module=EXACT
    ),
    "LIBSVM+LIN": Method(lambda: SVC(kernel="linear", **PEER), "exact"),
    "LIBSVM+RBF": Method(lambda: SVC(gamma="auto", **PEER), "exact"),
}

#: Methods by what they are measured for.
GROUPS = {"kernel": KERNEL_METHODS | FEATURE_METHODS, "additive": ADDITIVE_METHODS}
