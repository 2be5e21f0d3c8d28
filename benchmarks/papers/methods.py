"""The methods of the tables and figures by the names that papers give them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC, LinearSVC

from benchmarks.settings import CACHE_MEGABYTES, THREADS, TOL
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
    """

    build: Callable[..., Any]
    family: str
    is_ours: bool = False
    knob: str = ""
    values: tuple[Any, ...] = ()
    fixed: Options = field(default_factory=dict)

    def settings(self) -> list[Options]:
        """The options of every point of its curve."""
        return [{self.knob: value} for value in self.values] if self.knob else [{}]

    def make(self, params: Options, options: Options) -> Any:
        """Build the estimator for data with their own C and gamma."""
        return self.build(**(self.fixed | params | options))


class BinEncoder(TransformerMixin, BaseEstimator):
    """Features as the integers 0 to 100 that ICD computes with."""

    def fit(self, X: Any, y: Any) -> "BinEncoder":
        self.quantiser_ = IntersectionSVC(max_iter=1, tol=1e9).fit(X, y).quantiser_
        return self

    def transform(self, X: Any) -> Any:
        codes = self.quantiser_.encode(X)
        if codes.is_sparse:
            return codes.to_csr(np.arange(self.quantiser_.n_bins, dtype=np.float32))
        return codes.values.astype(np.float32).reshape(X.shape)


def on_bins(model: Any) -> Any:
    return make_pipeline(BinEncoder(), model)


OURS = {"n_jobs": THREADS, "random_state": 0}
PEER = {"cache_size": CACHE_MEGABYTES, "tol": TOL}
RANKS = (30, 100, 300, 1000, 3000)
SIZES = (10, 50, 200)

#: Machines with a kernel of all features, for the tables of DC-SVM and the figures.
KERNEL_METHODS = {
    "KernelSVC": Method(KernelSVC, "exact", True, "tol", (0.5, 0.05, TOL), OURS),
    "DC-SVM": Method(DCSVC, "exact", True, "stop_level", (4, 3, 2, 1, 0), OURS | {"tol": TOL}),
    "LIBSVM": Method(SVC, "exact", False, fixed=PEER),
    "LIBSVM on a sample": Method(
        SubsampleSVC, "exact", False, "n_rows", (0.01, 0.03, 0.1, 0.3), PEER | {"random_state": 0}
    ),
    "CascadeSVM": Method(CascadeSVC, "exact", False, "max_rounds", (1, 2, 4), OURS | {"tol": TOL}),
    "LaSVM": Method(LaSVC, "exact", False, "n_epochs", (1, 3), OURS | {"tol": TOL}),
    "LLSVM": Method(LLSVC, "low rank", False, "n_landmarks", RANKS, OURS),
    "FastFood": Method(FastfoodSVC, "low rank", False, "n_features", RANKS, OURS),
    "LTPU": Method(LTPUSVC, "low rank", False, "n_units", RANKS, OURS),
    "PSVM": Method(ProjectedSVC, "sparse", True, "n_basis", SIZES, OURS | {"candidates": 59}),
    "SpSVM": Method(SpSVC, "sparse", False, "n_basis", SIZES, OURS),
}


def on_unit_interval(build: Callable[..., Any]) -> Callable[..., Any]:
    """Scale features to [0, 1]; leave out the C and gamma of a Gaussian kernel."""

    def made(C: Any = None, gamma: Any = None, **more: Any) -> Any:
        return make_pipeline(MinMaxScaler(clip=True), build(**more))

    return made


#: Machines that are sums over the features, with C = 1.
FEATURE_METHODS = {
    "AdditiveSVC chi2": Method(
        on_unit_interval(AdditiveSVC), "additive", True, "n_bins", (4, 16, 64, 256), OURS
    ),
    "LIBLINEAR": Method(on_unit_interval(LinearSVC), "linear", False, fixed={"random_state": 0}),
}

ONE = {"n_jobs": 1, "random_state": 0}
#: PmSVM as in its paper, which has no intercept.
PMSVM = ONE | {"C": 0.01, "fit_intercept": False}
#: For the tables of PmSVM and ICD, on one thread.
ADDITIVE_METHODS = {
    "PmSVM-LUT-chi2": Method(PowerMeanSVC, "additive", True, fixed=PMSVM | {"lut": True}),
    "PmSVM-chi2": Method(PowerMeanSVC, "additive", True, fixed=PMSVM),
    "fm-chi2": Method(FourierSVC, "additive", fixed=ONE | {"C": 0.01}),
    "PmSVM-LUT-HI": Method(
        PowerMeanSVC, "additive", True,
        fixed=PMSVM | {"lut": True, "p": -8.0, "anchors": "chebyshev"},
    ),
    "PmSVM-HI": Method(
        PowerMeanSVC, "additive", True, fixed=PMSVM | {"p": -8.0, "anchors": "chebyshev"}
    ),
    "fm-HI": Method(FourierSVC, "additive", fixed=ONE | {"C": 0.01, "kernel": "intersection"}),
    "LIBLINEAR": Method(LinearSVC, "linear", fixed={"random_state": 0, "tol": 0.1}),
    "LIBLINEAR (C=0.01)": Method(
        LinearSVC, "linear", fixed={"random_state": 0, "tol": 0.1, "C": 0.01}
    ),
    "AdditiveSVC chi2": Method(
        AdditiveSVC, "additive", True, fixed=ONE | {"C": 0.1, "fit_intercept": True}
    ),
    "ICD": Method(IntersectionSVC, "additive", True, fixed=ONE | {"C": 1e-3, "fit_intercept": False}),
    "PWLSGD": Method(PWLSGDSVC, "additive", fixed=ONE),
    "SIKMA": Method(SIKMASVC, "additive", fixed=ONE),
    "LIBSVM+HIK": Method(
        lambda: on_bins(KernelSVC(kernel="intersection", C=1e-3, n_jobs=1)), "exact"
    ),
    "LIBSVM+LIN": Method(lambda: SVC(kernel="linear", **PEER), "exact"),
    "LIBSVM+RBF": Method(lambda: SVC(gamma="auto", **PEER), "exact"),
}  # fmt: skip

#: Methods by what they are measured for.
GROUPS = {"kernel": KERNEL_METHODS | FEATURE_METHODS, "additive": ADDITIVE_METHODS}
