"""The choice of pairs of features: those with the largest surfaces in an exact SVM with all pairs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import FloatArray
from widemargin.exact.anova_terms import AnovaTerms, choose_levels, list_pairs
from widemargin.exact.kernel_svc import KernelSVC
from widemargin.kernels.anova import AnovaChi2, AnovaIntersection
from widemargin.kernels.base import as_dense
from widemargin.problem import Problem

#: Rows of the exact SVM, features whose pairs it ranks, and levels of each feature.
SAMPLE_ROWS, CANDIDATES, N_LEVELS = 2000, 100, 16
#: Its C; the mean of k(x, x) is one plus the weight of the pairs.
COST = 10.0


def choose_pairs(
    problem: Problem,
    factors: FloatArray,
    kernel_name: str,
    n_pairs: int,
    seed: int,
    max_time: float | None,
) -> NDArray[np.int64]:
    """Return the pairs of features with the largest surfaces, the largest first, shape (n_pairs, 2).

    An exact SVM with an ANOVA kernel is fitted to a sample of the rows, and its surfaces are ranked by
    variance; see `exact.anova_terms`.

    Parameters
    ----------
    problem : Problem
        The training data, not negative.
    factors : ndarray of shape (n_features,)
        Factor on the values of each feature.
    kernel_name : str
        Name of the scalar kernel; kernels between chi-square and Hellinger count as chi-square.
    n_pairs : int
        Number of pairs; all if there are fewer.
    seed : int
        Seed of the sample.
    max_time : float or None
        Seconds for the SVM.
    """
    n = len(problem.labels)
    rows = np.sort(np.random.default_rng(seed).permutation(n)[:SAMPLE_ROWS])
    # Every class has to be there.
    firsts = np.unique(problem.labels, return_index=True)[1]
    rows = np.union1d(rows, firsts)
    X = as_dense(problem.X[rows]) * factors
    kernel = AnovaIntersection() if kernel_name == "intersection" else AnovaChi2()
    svm = KernelSVC(
        kernel=kernel, C=COST, multi_class="ovr", n_jobs=1, random_state=seed, max_time=max_time
    )
    svm.fit(X, problem.labels[rows], sample_weight=problem.weights[rows])
    terms = AnovaTerms(svm._model, [choose_levels(column, N_LEVELS) for column in X.T])
    return rank_pairs(terms)[:n_pairs]


def rank_pairs(terms: AnovaTerms) -> NDArray[np.int64]:
    """Return the pairs of the features with the largest curves, sorted by the variance of surfaces."""
    curves = terms.curve_variances().sum(axis=0)
    candidates = np.sort(np.argsort(-curves, kind="stable")[:CANDIDATES])
    variances: Any = terms.pair_variances(candidates).sum(axis=0)
    order = np.argsort(-variances, kind="stable")
    return list_pairs(candidates)[order].astype(np.int64)
