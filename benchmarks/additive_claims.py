"""What the papers on additive kernels state beside their tables and figures; one thread."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from benchmarks.additive_models import Parts, compile_on, histograms, judge, scaled
from benchmarks.experiments import Row
from benchmarks.timing import time_call
from widemargin import IntersectionSVC, PowerMeanSVC
from widemargin.additive.power_mean_table import chebyshev_anchors, regression_tables
from widemargin.additive.scalar_kernels import make_scalar_kernel
from widemargin.baselines import PWLSGDSVC, SIKMASVC

ONE = {"n_jobs": 1, "random_state": 0}
PMSVM = ONE | {"C": 0.01, "fit_intercept": False}
#: Bins that the papers tried.
ICD_BINS = (50, 100, 200)
LUT_BINS = (10, 100, 1000, 10_000)
#: Solvers whose C is searched, and the powers of ten to search.
SEARCHED: dict[str, tuple[Any, range]] = {
    "ICD": (IntersectionSVC(fit_intercept=False, scaling=None, **ONE), range(-5, 4)),
    "LIBLINEAR": (LinearSVC(tol=0.1, random_state=0), range(-5, 4)),
    "PWLSGD": (PWLSGDSVC(**ONE), range(-1, 3)),
    "SIKMA": (SIKMASVC(**ONE), range(-1, 3)),
}
#: C around the default of PmSVM, and passes of stochastic descent.
COSTS, PASSES = (1e-3, 1e-2, 1e-1), (1, 10, 100)


def run_bins() -> Iterator[Row]:
    """ICD with 50, 100 and 200 bins."""
    for name, parts in list_sets():
        for n_bins in ICD_BINS:
            model = IntersectionSVC(C=1e-3, fit_intercept=False, scaling=None, n_bins=n_bins, **ONE)
            yield {"data": name, "bins": n_bins} | judge("ICD", model, parts)


def run_searched() -> Iterator[Row]:
    """Table 3 of ICD, and its comparators, with the C of five-fold cross-validation on training rows.

    C is a power of ten from 1e-5 to 1e3 for ICD and LIBLINEAR, as in the paper, and from 0.1 to 100
    for the stochastic solvers, whose regularisation is 1 / (n C). These are searched on scene15 only,
    because one of their fits takes a minute on caltech101. Seconds are those of a fit with that C.
    """
    for name in ("scene15", "caltech101"):
        parts = histograms(f"{name}_bow")
        compile_on(parts)
        for method, (model, powers) in SEARCHED.items():
            if name == "scene15" or method in ("ICD", "LIBLINEAR"):
                search = GridSearchCV(model, {"C": 10.0 ** np.array(powers)}, n_jobs=1)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    search.fit(*parts[:2])
                    judged = judge(method, search.best_estimator_, parts)
                yield {"data": name, "C": search.best_params_["C"]} | judged


def list_sets() -> Iterator[tuple[str, Parts]]:
    """Two sets of bags of words and two that are no histograms, compiled for."""
    for name in ("scene15", "caltech101"):
        parts = histograms(f"{name}_bow")
        compile_on(parts)
        yield name, parts
    for name in ("shuttle", "ijcnn1"):
        parts = scaled(name)
        compile_on(parts)
        yield name, parts


def run_lut() -> Iterator[Row]:
    """PmSVM-LUT with 10 to 10,000 bins, on scene15.

    The error is the largest change of the approximate chi-square kernel on the unit square when both
    arguments are rounded to bins, in percent of its largest value.
    """
    parts = histograms("scene15_bow")
    compile_on(parts)
    kernel, anchors = make_scalar_kernel("chi2"), chebyshev_anchors(3)
    values = np.linspace(0.0, 1.0, 2003)
    read, write = regression_tables(kernel, values, anchors, 0.05)
    exact = read @ write.T
    for n_bins in LUT_BINS:
        grid = np.linspace(0.0, 1.0, n_bins)
        nearest = np.rint(values * (n_bins - 1)).astype(int)
        made = time_call(lambda grid=grid: regression_tables(kernel, grid, anchors, 0.05), 3)
        read, write = made.value
        error = np.abs(read[nearest] @ write[nearest].T - exact).max() / exact.max()
        model = PowerMeanSVC(lut=True, anchors="chebyshev", n_bins=n_bins, **PMSVM)
        yield {
            "bins": n_bins,
            "largest error (%)": 100.0 * float(error),
            "table (ms)": 1e3 * made.cpu_seconds,
        } | judge("PmSVM-LUT-chi2", model, parts)


def run_sgd() -> Iterator[Row]:
    """PmSVM by dual descent and by stochastic descent of the same objective, on scene15."""
    parts = histograms("scene15_bow")
    compile_on(parts)
    n_rows = parts[0].shape[0]
    for C in COSTS:
        model = PowerMeanSVC(**PMSVM | {"C": C})
        yield {"C": C} | judge("dual descent", model, parts)
        for passes in PASSES:
            model = PowerMeanSVC(
                **PMSVM | {"C": C}, solver="sgd", alpha=1.0 / (C * n_rows), max_iter=passes
            )
            yield {"C": C} | judge("stochastic descent", model, parts)
