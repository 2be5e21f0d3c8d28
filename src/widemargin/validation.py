"""The only place that touches raw input: data, labels, weights and parameters."""

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from widemargin.kernels import Kernel, make_kernel
from widemargin.problem import Problem


def validate_problem(
    estimator: Any, X: Any, y: Any, sample_weight: Any, class_weight: Any, *, precomputed: bool
) -> Problem:
    """Check training data and return them as a `Problem`; sets ``n_features_in_`` and names."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None"
        )
    X, y = validate_data(
        estimator, X, y, accept_sparse="csr", dtype=[np.float32, np.float64], order="C",
        accept_large_sparse=True,
    )  # fmt: skip
    if precomputed:
        check_precomputed(X)
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    weights = validate_weights(sample_weight, X, class_weight, classes, labels, y)
    kept = np.flatnonzero(weights)
    _require_every_class(classes, labels[kept])
    if len(kept) < len(labels):
        labels, weights = labels[kept], weights[kept]
        X = X[np.ix_(kept, kept)] if precomputed else X[kept]
    return Problem(canonical(X), labels, classes, weights, kept)


def validate_queries(estimator: Any, X: Any) -> Any:
    """Check data to predict on: finite, as wide as the training data."""
    X = validate_data(
        estimator, X, accept_sparse="csr", dtype=[np.float32, np.float64], order="C", reset=False,
        accept_large_sparse=True,
    )  # fmt: skip
    return canonical(X)


def canonical(X: Any) -> Any:
    """CSR with sorted, unique indices and no stored zeros; dense data as they are."""
    if not sparse.issparse(X):
        return X
    X = sparse.csr_matrix(X)
    if X.has_canonical_format and np.count_nonzero(X.data) == X.nnz:
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def validate_weights(
    sample_weight: Any, X: Any, class_weight: Any, classes: Any, labels: Any, y: Any
) -> NDArray[np.float64]:
    """Product of sample and class weight for every row."""
    weights = np.ones(X.shape[0])
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, copy=True)
        if (weights < 0).any():
            raise ValueError(
                f"sample_weight: row {int(np.argmin(weights))} has weight {weights.min():g}; "
                "weights must not be negative"
            )
        if not (weights > 0).any():
            raise ValueError("sample_weight: all weights are zero; give at least one row a weight")
    if class_weight is None:
        return weights
    per_class = compute_class_weight(class_weight, classes=classes, y=y)
    if not np.isfinite(per_class).all() or (per_class <= 0).any():
        raise ValueError(f"class_weight: {class_weight!r} must give positive, finite weights")
    return weights * per_class[labels]


def _require_every_class(classes: NDArray[Any], kept_labels: NDArray[np.intp]) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"y: the data hold one class only, {classes[0]!r}; a classifier needs at least two"
        )
    missing = np.setdiff1d(np.arange(len(classes)), kept_labels)
    if len(missing):
        raise ValueError(
            f"sample_weight: every row of class {classes[missing[0]]!r} has weight zero; drop the "
            "class from the data or give one of its rows a weight"
        )


def check_nonnegative(kernel: Kernel, X: Any, feature_names: Any = None) -> None:
    """Refuse negative features where the kernel is defined for histograms only."""
    if not kernel.needs_nonnegative:
        return
    column = _first_negative_column(X)
    if column is None:
        return
    name = column if feature_names is None else f"{column} ({feature_names[column]!r})"
    raise ValueError(
        f"X: column {name} holds negative values, and the {kernel.name!r} kernel needs features >= 0; "
        "scale them first, for example with sklearn.preprocessing.MinMaxScaler(clip=True)"
    )


def _first_negative_column(X: Any) -> int | None:
    if sparse.issparse(X):
        columns = X.indices[X.data < 0]
        return int(columns.min()) if len(columns) else None
    negative = (X < 0).any(axis=0)
    return int(np.argmax(negative)) if negative.any() else None


def check_precomputed(X: Any) -> None:
    """Refuse a training matrix that cannot be a kernel matrix."""
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"X: with kernel='precomputed' the training matrix must be square, but its shape is "
            f"{X.shape}; pass the kernel between all pairs of training rows"
        )
    if sparse.issparse(X):
        raise ValueError("X: with kernel='precomputed' the matrix must be dense; use X.toarray()")
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


def resolve_gamma(gamma: Any, X: Any) -> float:
    """Number for ``gamma``: ``"scale"`` is 1 / (n_features Var(X)), ``"auto"`` 1 / n_features."""
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / X.shape[1]
        if gamma == "scale":
            variance = _variance(X)
            return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
    elif isinstance(gamma, Real) and not isinstance(gamma, bool) and 0 <= gamma < np.inf:
        return float(gamma)
    raise ValueError(
        f"gamma: {gamma!r} is not allowed; give 'scale', 'auto' or a number that is not negative"
    )


def _variance(X: Any) -> float:
    if not sparse.issparse(X):
        return float(X.var(dtype=np.float64))
    mean = X.mean(dtype=np.float64)
    return float(X.multiply(X).mean(dtype=np.float64) - mean**2)


def resolve_kernel(kernel: Any, gamma: Any, degree: Any, coef0: Any, X: Any) -> Kernel:
    """Kernel object for an estimator's parameters, with ``gamma`` found from the data."""
    check_integer("degree", degree, low=0)
    check_number("coef0", coef0)
    return make_kernel(
        kernel, gamma=resolve_gamma(gamma, X), degree=int(degree), coef0=float(coef0)
    )


def check_kernel_range(kernel: Kernel, diag: NDArray[np.float64]) -> None:
    """Refuse kernel values that float32 cannot hold."""
    largest = float(np.abs(diag).max())
    if not np.isfinite(largest) or largest > 1e18:
        raise ValueError(
            f"kernel: values of the {kernel.name!r} kernel reach {largest:.3g}, too large to optimise "
            "with; scale the features, for example with sklearn.preprocessing.StandardScaler"
        )
    if diag.min() < 0:
        warnings.warn(
            f"The {kernel.name!r} kernel has a negative diagonal on these data, so it is not "
            "positive semidefinite; the solution is a local one",
            UserWarning,
            stacklevel=4,
        )


def check_number(
    name: str, value: Any, *, above: float = -np.inf, optional: bool = False
) -> None:
    """Refuse anything but a finite number greater than ``above``."""
    if optional and value is None:
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not np.isfinite(value):
        raise ValueError(f"{name}: {value!r} is not a finite number")
    if value <= above:
        raise ValueError(f"{name}: must be greater than {above:g}, got {value!r}")


def check_integer(name: str, value: Any, *, low: int) -> None:
    """Refuse anything but an integer of at least ``low``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name}: must be an integer of at least {low}, got {value!r}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse anything but one of the given words."""
    if value not in choices:
        raise ValueError(f"{name}: must be one of {', '.join(map(repr, choices))}, got {value!r}")
