"""Compilation in advance: small fits that take the usual paths of each estimator."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import widemargin
from widemargin.compilation import compilation
from widemargin.progress import Bar

#: Rows of the problems: solved by active sets, on their full matrix, and by a working set.
SIZES = (150, 1000, 3500)
#: What is fitted: the name of an estimator, and parameters that take another path than the defaults.
FITS: dict[str, tuple[dict[str, Any], ...]] = {
    "KernelSVC": ({}, {"multi_class": "ovr", "fit_intercept": False}),
    "KernelSVR": ({},),
    "KernelOneClassSVM": ({},),
    "DCSVC": ({"n_levels": 1}, {"n_levels": 1, "stop_level": 1}),
    "DCSVR": ({"n_levels": 1}, {"n_levels": 1, "stop_level": 1}),
    "AdditiveSVC": ({},),
    "AdditiveSVR": ({},),
    "IntersectionSVC": ({},),
    "PowerMeanSVC": ({},),
    "LRSVC": ({"n_anchors": 20},),
    "ProjectedSVC": ({"n_basis": 5},),
}


def run_warmup(names: Sequence[str]) -> int:
    """Compile what the usual fits and predictions of some estimators need.

    Machine code goes to Numba's cache, as it does in any fit: beside the package, or in the folder
    that ``NUMBA_CACHE_DIR`` names. Fits with rarer parameters may compile more. Standard error gets a
    progress bar for each estimator.

    Parameters
    ----------
    names : sequence of str
        Estimators, see `FITS`.

    Returns
    -------
    n_functions : int
        How many functions were compiled.
    """
    first = len(compilation.functions)
    with compilation.silence(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for number, name in enumerate(names, 1):
            before = len(compilation.functions)
            bar = Bar(f"[{number}/{len(names)}] {name}")
            fit_everything(name, bar.show)
            bar.close(f"{len(compilation.functions) - before} functions compiled")
    return len(compilation.functions) - first


def fit_everything(name: str, show: Callable[[float], object]) -> None:
    """Fit an estimator to dense and sparse rows in small and large numbers, and predict."""
    models = [getattr(widemargin, name)(**options, n_jobs=1) for options in FITS[name]]
    fits = [(model, X, y) for model in models for X, y in make_problems()]
    for number, (model, X, y) in enumerate(fits):
        show(number / len(fits))
        model.fit(X, y).predict(X)


def make_problems() -> Iterator[tuple[Any, Any]]:
    """Features that are not negative, with two classes and three, which also serve as targets."""
    rng = np.random.default_rng(0)
    for n in SIZES:
        X = rng.random((n, 5))
        for n_classes in (2, 3):
            y = np.floor(n_classes * X[:, :2].mean(axis=1)).astype(int)
            for kind in (np.asarray, sparse.csr_array):
                yield kind(X * (X > 0.2)), y
