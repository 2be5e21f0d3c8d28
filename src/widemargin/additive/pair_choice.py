"""The choice of pairs of features: those with the largest surfaces in an exact SVM with all pairs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.coded_rows import FloatArray
from widemargin.exact.anova_terms import AnovaTerms, choose_levels, list_pairs
from widemargin.exact.kernel_svc import KernelSVC
from widemargin.kernels.anova import AnovaChi2, AnovaIntersection
from widemargin.kernels.base import as_dense
from widemargin.problem import Problem

#: Rows and features of the exact SVM, features whose pairs it ranks, and levels of each feature.
SAMPLE_ROWS, MAX_FEATURES, CANDIDATES, N_LEVELS = 2000, 500, 100, 16
#: Its C; the mean of k(x, x) is one plus the weight of the pairs.
COST = 10.0


def choose_pairs(
    problem: Problem,
    low: FloatArray,
    factors: FloatArray,
    sources: NDArray[np.intp],
    kernel_name: str,
    n_pairs: int,
    seed: int,
    max_time: float | None,
) -> NDArray[np.int64]:
    """Return the pairs of features with the largest surfaces, the largest first, shape (n_pairs, 2).

    An exact SVM with an ANOVA kernel is fitted to a sample of the rows, and its surfaces are ranked by
    variance; see `exact.anova_terms`. Of more than 500 columns, those that `screen_features` returns
    take part. A feature may have several columns, such as one for each category; the variances of the
    surfaces of their pairs are added up.

    Parameters
    ----------
    problem : Problem
        The training data, not negative.
    low, factors : ndarray of shape (n_columns,)
        Number that is subtracted from the values of each column, and the factor on the difference.
    sources : ndarray of shape (n_columns,)
        The feature of each column; -1 for those that take part in no pair.
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
    scaled = _scale_columns(problem.X[rows], low, factors)
    allowed = np.flatnonzero(sources >= 0)
    if len(np.unique(sources[allowed])) < 2:
        return np.zeros((0, 2), np.int64)
    features = allowed[screen_features(scaled[:, allowed], problem.labels[rows])]
    X = as_dense(scaled[:, features])
    kernel = AnovaIntersection() if kernel_name == "intersection" else AnovaChi2()
    svm = KernelSVC(
        kernel=kernel, C=COST, multi_class="ovr", n_jobs=1, random_state=seed, max_time=max_time
    )
    svm.fit(X, problem.labels[rows], sample_weight=problem.weights[rows])
    terms = AnovaTerms(svm._model, [choose_levels(column, N_LEVELS) for column in X.T])
    return rank_pairs(terms, sources[features])[:n_pairs]


def _scale_columns(X: Any, low: FloatArray, factors: FloatArray) -> Any:
    if not sparse.issparse(X):
        return (X - low) * factors
    # Columns with zeros that are left out begin at zero.
    stored = (X.data - low[X.indices]) * factors[X.indices]
    return sparse.csr_matrix((stored, X.indices, X.indptr), X.shape)


def screen_features(X: Any, labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the features that may form pairs, in their order: all, or the 500 best of more.

    The best are those with the largest share of variance between the classes, which is the order of
    the F statistic. The SVM takes a time that grows with the number of features.
    """
    n, d = X.shape
    if d <= MAX_FEATURES:
        return np.arange(d)
    counts = np.bincount(labels)
    shares = counts / n
    averages = sparse.csr_matrix((1.0 / counts[labels], (labels, np.arange(n))))
    means = as_dense(averages @ X)
    squares = shares @ as_dense(averages @ (X.multiply(X) if sparse.issparse(X) else X * X))
    mean = shares @ means
    between = shares @ (means - mean) ** 2
    # Of a constant feature, both variances are rounding errors.
    info = np.finfo(np.float64)
    variances = np.maximum(squares - mean**2, info.eps * squares + info.tiny)
    return np.sort(np.argsort(-between / variances, kind="stable")[:MAX_FEATURES])


def rank_pairs(terms: AnovaTerms, sources: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return pairs of features, shape (n_pairs, 2), sorted by the variance of their surfaces.

    The columns with the largest curves take part; ``sources`` has the feature of each column.
    """
    curves = terms.curve_variances().sum(axis=0)
    candidates = np.sort(np.argsort(-curves, kind="stable")[:CANDIDATES])
    variances: Any = terms.pair_variances(candidates).sum(axis=0)
    between = np.sort(sources[list_pairs(candidates)], axis=1)
    differ = between[:, 0] < between[:, 1]
    pairs, number = np.unique(between[differ], axis=0, return_inverse=True)
    sums = np.bincount(number.ravel(), variances[differ], len(pairs))
    return pairs[np.argsort(-sums, kind="stable")].astype(np.int64)
