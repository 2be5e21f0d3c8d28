"""Kernels as users give them: their parameters, their domain and the range of their values."""

import warnings
from math import isfinite
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from widemargin.arguments import as_floats, check_integer, check_number, is_finite_number
from widemargin.kernels import Items, Kernel, has_feature_gamma, make_kernel
from widemargin.problem import Problem

#: Rows looked at a time.
CHECKED_ROWS = 8192
#: Columns that an error names.
SHOWN_COLUMNS = 5
#: End of a warning about a kernel that is not positive semidefinite.
INDEFINITE = (
    "so it is not positive semidefinite; the fit ends at a stationary point, which need not be the "
    "optimum"
)


def check_nonnegative(kernel: Kernel, X: Any, feature_names: Any = None) -> None:
    """Refuse negative features where the kernel is defined for histograms only."""
    if not kernel.needs_nonnegative:
        return
    columns = find_negative_columns(X)
    if len(columns):
        refuse_negative(columns, feature_names, f"the {kernel.name!r} kernel")


def validate_anchors(anchors: Any, kernel: Kernel, X: Any, feature_names: Any = None) -> Any:
    """Anchors given by hand, in float64: finite, as wide as the data, in the kernel's domain."""
    is_sparse = sparse.issparse(anchors)
    wanted = f"an array of shape (n_anchors, {X.shape[1]})"
    given = (
        sparse.csr_matrix(anchors, dtype=np.float64)
        if is_sparse
        else as_floats("anchors", anchors, wanted)
    )
    if given.ndim != 2 or given.shape[0] == 0 or given.shape[1] != X.shape[1]:
        raise ValueError(f"anchors: give {wanted}, got {given.shape}")
    if not np.isfinite(given.data if is_sparse else given).all():
        raise ValueError("anchors: there is NaN or infinity among them; give finite numbers")
    columns = find_negative_columns(given)
    if kernel.needs_nonnegative and len(columns):
        raise ValueError(
            f"anchors: there are negative values in {name_columns(columns, feature_names)}; the "
            f"{kernel.name!r} kernel needs features >= 0, so scale them like the data"
        )
    return given


def refuse_negative(
    columns: NDArray[np.intp], feature_names: Any, what: str, alternative: str | None = None
) -> NoReturn:
    """Refuse columns with negative values: ``what`` cannot take them, ``alternative`` can."""
    other = f", or use {alternative}" if alternative else ""
    raise ValueError(
        f"Negative values in data X, {name_columns(columns, feature_names)}: {what} needs "
        "features >= 0; scale them first, for example with "
        f"sklearn.preprocessing.MinMaxScaler(clip=True){other}"
    )


def name_columns(columns: NDArray[np.intp], feature_names: Any) -> str:
    """Return the numbers of some columns, with their names if they have any, for an error."""
    names = [
        str(c) if feature_names is None else f"{c} ({feature_names[c]!r})"
        for c in columns[:SHOWN_COLUMNS]
    ]
    n_more = len(columns) - len(names)
    noun = "column" if len(columns) == 1 else "columns"
    return f"{noun} {', '.join(names)}" + (f" and {n_more} more" if n_more else "")


def find_negative_columns(X: Any) -> NDArray[np.intp]:
    """Columns with a negative value, ascending."""
    negative = np.zeros(X.shape[1], bool)
    if sparse.issparse(X):
        negative[X.indices[X.data < 0]] = True
        return np.flatnonzero(negative)
    # In pieces: the data may be mapped from a file larger than memory.
    for start in range(0, X.shape[0], CHECKED_ROWS):
        negative |= (X[start : start + CHECKED_ROWS] < 0).any(axis=0)
    return np.flatnonzero(negative)


def check_precomputed(X: Any) -> None:
    """Refuse a training matrix that cannot be a kernel matrix."""
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"X: with kernel='precomputed' the training matrix must be square, but its shape is "
            f"{X.shape}; pass the kernel between all pairs of training rows"
        )
    if sparse.issparse(X):
        raise TypeError("X: Sparse precomputed kernel matrices are not supported; use X.toarray()")
    scale = max(float(np.abs(X).max()), 1e-30)
    asymmetry = max(
        float(np.abs(X[i : i + 512] - X[:, i : i + 512].T).max()) for i in range(0, len(X), 512)
    )
    if asymmetry > 1e-4 * scale:
        raise ValueError(
            f"X: the precomputed kernel matrix is not symmetric (entries differ by {asymmetry:.3g}); "
            "use (K + K.T) / 2 if it should be"
        )
    if (X.diagonal() < -1e-6 * scale).any():
        raise ValueError(
            "X: the precomputed kernel matrix has a negative diagonal entry, so it is not positive "
            "semidefinite; check how it was computed"
        )


def resolve_gamma(gamma: Any, problem: Problem, *, per_feature: bool = False) -> float:
    """Number for ``gamma``: ``"scale"`` is 1 / (n_features Var(X)), ``"auto"`` 1 / n_features.

    With ``per_feature`` it belongs to one feature at a time, and n_features counts as 1.
    """
    n_features = 1 if per_feature else problem.X.shape[1]
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / n_features
        if gamma == "scale":
            return scale_gamma(_variance(problem.X, problem.sample_weights), n_features)
    elif is_finite_number(gamma) and gamma >= 0:
        return float(gamma)
    raise ValueError(
        f"gamma: {gamma!r} is not allowed; give 'scale', 'auto' or a number that is not negative"
    )


def scale_gamma(variance: float, n_features: int) -> float:
    """Return gamma for ``"scale"`` from the variance of all values."""
    if not isfinite(variance):
        raise ValueError(
            "X: the values are so large that their variance is not finite; scale the "
            "features, for example with sklearn.preprocessing.StandardScaler"
        )
    return _invert_variance(n_features * variance) if variance > 0 else 1.0


def _invert_variance(variance: float) -> float:
    """``1 / variance``; refuse a variance so small that the result is not finite."""
    if variance < 1.0 / np.finfo(np.float64).max:
        raise ValueError(
            f"gamma: 'scale' needs data that vary, but their variance is {variance:.3g}; scale the "
            "features, for example with sklearn.preprocessing.StandardScaler, or give a number"
        )
    return 1.0 / variance


def _variance(X: Any, weights: NDArray[np.float64]) -> float:
    """Variance of all values, rows weighted; that of `numpy.var` when the weights are equal."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not sparse.issparse(X) and (weights == weights[0]).all():
            return float(X.var(dtype=np.float64))
        share = weights / (weights.sum() * X.shape[1])
        mean = float((share @ X).sum())
        # Values less the mean before they are squared: the mean may be far larger than they vary.
        if sparse.issparse(X):
            n_stored = np.diff(X.indptr)
            of_stored, of_zeros = np.repeat(share, n_stored), float(share @ (X.shape[1] - n_stored))
            return float(of_stored @ np.square(X.data - mean)) + of_zeros * mean * mean
        return float((share @ np.square(X - mean)).sum())


def resolve_kernel(kernel: Any, gamma: Any, degree: Any, coef0: Any, problem: Problem) -> Kernel:
    """Kernel object for an estimator's parameters, with its constants found from the data."""
    check_integer("degree", degree, low=0)
    check_number("coef0", coef0)
    if isinstance(problem.X, Items):
        # A callable has no gamma, and things that are no numbers have no variance.
        return make_kernel(kernel)
    resolved = resolve_gamma(gamma, problem, per_feature=has_feature_gamma(kernel))
    made = make_kernel(kernel, gamma=resolved, degree=int(degree), coef0=float(coef0))
    return made.adapt(problem.X, problem.sample_weights)


def check_norms(what: str, norms: NDArray[np.float64], scaler: str) -> None:
    """Refuse squared lengths of rows that float32 cannot hold."""
    largest = float(np.abs(norms).max())
    if not np.isfinite(largest) or largest > 1e18:
        raise ValueError(
            f"{what} reach {largest:.3g}, too large to optimise with; scale the features, for example "
            f"with sklearn.preprocessing.{scaler}"
        )


def check_kernel_range(kernel: Kernel, diag: NDArray[np.float64]) -> None:
    """Refuse kernel values that float32 cannot hold."""
    check_norms(f"kernel: values of the {kernel.name!r} kernel", diag, "StandardScaler")
    if diag.min() < 0:
        warnings.warn(
            f"The {kernel.name!r} kernel has a negative diagonal on these data, {INDEFINITE}",
            ConvergenceWarning,
            stacklevel=4,
        )
