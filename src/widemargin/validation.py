"""The only place that touches raw input: data, labels, weights and parameters."""

import warnings
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _num_samples, validate_data

from widemargin.kernels import Items, Kernel, make_kernel
from widemargin.problem import Problem

#: Rows looked at a time.
CHECKED_ROWS = 8192
#: Columns that an error names.
SHOWN_COLUMNS = 5
#: Largest number that float64 holds.
LARGEST = float(np.finfo(np.float64).max)
#: End of a warning about a kernel that is not positive semidefinite.
INDEFINITE = (
    "so it is not positive semidefinite; the fit ends at a stationary point, which need not be the "
    "optimum"
)


@dataclass(frozen=True)
class Layout:
    """How dense data may be stored; others are copied. Sparse data are of float32 or float64.

    Attributes
    ----------
    types : tuple of type
        Types of the values. Others become float64, or float32 if that holds all their values.
    order : {"C", None}
        Order of the values, None for any.
    """

    types: tuple[type, ...] = (np.float64, np.float32)
    order: str | None = "C"

    def types_for(self, X: Any) -> list[type]:
        """Return the types in the order in which the type of other values is chosen from them."""
        given = getattr(X, "dtype", None)
        is_short = isinstance(given, np.dtype) and given.kind in "biuf" and given.itemsize <= 2
        first = np.float32 if is_short else np.float64
        return [first, *(kind for kind in self.types if kind is not first)]


FLOAT_ROWS = Layout()
#: For classifiers that read values once, in blocks: a mapped file must not be copied whole. float32
#: holds every value of the small types.
ANY_BLOCKS = Layout(
    (np.float64, np.float32, np.float16, np.uint8, np.int8, np.uint16, np.int16), None
)


def validate_problem(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    class_weight: Any,
    *,
    precomputed: bool,
    layout: Layout = FLOAT_ROWS,
) -> Problem:
    """Check training data and return them as a `Problem`; sets ``n_features_in_`` and names."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None"
        )
    X, y = _validate_rows(estimator, X, y, is_first=True, layout=layout)
    if precomputed:
        check_precomputed(X)
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    sample_weights = validate_sample_weights(sample_weight, X)
    kept = np.flatnonzero(sample_weights)
    _require_every_class(classes, labels[kept])
    if len(kept) < len(labels):
        labels, sample_weights = labels[kept], sample_weights[kept]
        X = X[np.ix_(kept, kept)] if precomputed else X[kept]
    weights = sample_weights * validate_class_weights(class_weight, classes, y[kept])[labels]
    return Problem(canonical(X), labels, classes, sample_weights, weights, kept)


def _validate_rows(
    estimator: Any, X: Any, y: Any, *, is_first: bool, layout: Layout = FLOAT_ROWS
) -> tuple[Any, Any]:
    """Finite data with labels, as wide as before unless they are the first."""
    if isinstance(X, Items):
        y = column_or_1d(y, warn=True)
        check_consistent_length(_accept_items(estimator, X), y)
        return X, y
    layout = FLOAT_ROWS if sparse.issparse(X) else layout
    checked: tuple[Any, Any] = validate_data(
        estimator, X, y, accept_sparse="csr", dtype=layout.types_for(X), order=layout.order,
        accept_large_sparse=True, reset=is_first,
    )  # fmt: skip
    return checked


def validate_regression(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, precomputed: bool
) -> tuple[Problem, NDArray[np.float64]]:
    """Check training data of a regression; returns the rows that have a weight, and their targets.

    The targets have the shape that was given, (n,) or (n, n_targets).
    """
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None"
        )
    if isinstance(X, Items):
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(_accept_items(estimator, X), y)
    else:
        X, y = validate_data(
            estimator, X, y, accept_sparse="csr", dtype=FLOAT_ROWS.types_for(X), order="C",
            accept_large_sparse=True, multi_output=True, y_numeric=True,
        )  # fmt: skip
    problem = _keep_weighted(X, sample_weight, precomputed=precomputed)
    return problem, np.asarray(y, np.float64)[problem.kept]


def validate_rows_alone(
    estimator: Any, X: Any, sample_weight: Any, *, precomputed: bool
) -> Problem:
    """Check training data without labels."""
    if isinstance(X, Items):
        _accept_items(estimator, X)
    else:
        X = validate_data(
            estimator, X, accept_sparse="csr", dtype=FLOAT_ROWS.types_for(X), order="C",
            accept_large_sparse=True,
        )  # fmt: skip
    return _keep_weighted(X, sample_weight, precomputed=precomputed)


def _accept_items(estimator: Any, X: Items) -> Items:
    """Refuse an empty sequence; forget the width and the names of the features of an earlier fit."""
    if len(X) == 0:
        raise ValueError("X: there are no rows; give at least one")
    for name in ("n_features_in_", "feature_names_in_"):
        vars(estimator).pop(name, None)
    return X


def find_shape(estimator: Any, X: Any) -> tuple[int, ...]:
    """Shape of checked training data, as scikit-learn records it; (n,) for what are no numbers."""
    if isinstance(X, Items):
        return (len(X),)
    return (_num_samples(X), estimator.n_features_in_)


def _keep_weighted(X: Any, sample_weight: Any, *, precomputed: bool) -> Problem:
    """The rows that have a weight, as a problem of a single class."""
    if precomputed:
        check_precomputed(X)
    weights = validate_sample_weights(sample_weight, X)
    kept = np.flatnonzero(weights)
    if len(kept) < len(weights):
        X = X[np.ix_(kept, kept)] if precomputed else X[kept]
    weights = weights[kept]
    return Problem(canonical(X), np.zeros(len(kept), np.intp), np.zeros(1), weights, weights, kept)


def validate_partial(
    estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any, *, is_first: bool
) -> Problem:
    """Check some of the training data; ``classes`` name all labels, in the first call at least."""
    if estimator.class_weight == "balanced":
        raise ValueError(
            "class_weight: 'balanced' needs all data at once; give partial_fit a dict of weights"
        )
    X, y = _validate_rows(estimator, X, y, is_first=is_first)
    if is_first and classes is None:
        raise ValueError("classes: the first call of partial_fit needs all labels there will be")
    known = estimator.classes_ if not is_first else np.unique(classes)
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(f"classes: {classes!r} are not those of the first call, {known!r}")
    if len(known) < 2:
        raise ValueError(f"classes: a classifier needs at least two, got {known!r}")
    labels = np.searchsorted(known, y)
    unknown = np.setdiff1d(y, known)
    if len(unknown):
        raise ValueError(f"y: the label {unknown[0]!r} is not among the classes {known!r}")
    sample_weights = validate_sample_weights(sample_weight, X)
    weights = sample_weights * validate_class_weights(estimator.class_weight, known, y)[labels]
    return Problem(canonical(X), labels, known, sample_weights, weights, np.arange(len(labels)))


def validate_chunk(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, is_first: bool
) -> tuple[Any, NDArray[Any], NDArray[np.float64]]:
    """Check one piece of the training data; the first sets ``n_features_in_``."""
    X, y = _validate_rows(estimator, X, y, is_first=is_first)
    weights = validate_sample_weights(sample_weight, X)
    if (weights == 0).any():
        raise ValueError("sample_weight: leave rows of weight zero out of the pieces")
    return canonical(X), y, weights


def validate_labels(
    y: NDArray[Any], sample_weights: NDArray[np.float64], class_weight: Any
) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]:
    """Classes, the class of every row, and its weight."""
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    _require_every_class(classes, labels)
    return (
        classes,
        labels,
        sample_weights * validate_class_weights(class_weight, classes, y)[labels],
    )


def validate_queries(estimator: Any, X: Any, layout: Layout = FLOAT_ROWS) -> Any:
    """Check data to predict on: finite, as wide as the training data."""
    if isinstance(X, Items):
        return X
    layout = FLOAT_ROWS if sparse.issparse(X) else layout
    X = validate_data(
        estimator, X, accept_sparse="csr", dtype=layout.types_for(X), order=layout.order, reset=False,
        accept_large_sparse=True,
    )  # fmt: skip
    return canonical(X)


def canonical(X: Any) -> Any:
    """CSR with sorted, unique indices and no stored zeros; dense data as they are."""
    if not sparse.issparse(X):
        return X
    X = sparse.csr_matrix(X)
    _check_indices(X)
    if X.has_canonical_format and np.count_nonzero(X.data) == X.nnz:
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _check_indices(X: Any) -> None:
    """Refuse sparse data whose indices compiled loops would follow out of the arrays."""
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X: the sparse matrix is not valid ({error}); build it anew") from error


def validate_sample_weights(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Weight of every row, zero for negative ones, with a warning; ones if none are given."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    given = np.asarray(sample_weight)
    if given.dtype.kind in "biuf" and (given <= 0).all():
        raise ValueError(
            "sample_weight: all weights are zero or negative; give at least one row a positive one"
        )
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    is_negative = weights < 0
    if is_negative.any():
        warnings.warn(
            f"sample_weight: {np.count_nonzero(is_negative)} rows have a negative weight, the first "
            f"is row {int(np.argmax(is_negative))}; they are left out, like rows of weight zero",
            UserWarning,
            stacklevel=5,
        )
    return np.maximum(weights, 0.0)


def validate_class_weights(class_weight: Any, classes: Any, y: Any) -> NDArray[np.float64]:
    """Weight of every class; ones if none are given."""
    if class_weight is None:
        return np.ones(len(classes))
    weights = compute_class_weight(class_weight, classes=classes, y=y)
    if not np.isfinite(weights).all() or (weights <= 0).any():
        raise ValueError(f"class_weight: {class_weight!r} must give positive, finite weights")
    return weights


def _require_every_class(classes: NDArray[Any], kept_labels: NDArray[np.intp]) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"y: the data hold one class only, {classes[0]}; a classifier needs at least two"
        )
    missing = np.setdiff1d(np.arange(len(classes)), kept_labels)
    if len(missing):
        raise ValueError(
            f"sample_weight: every row of class {classes[missing[0]]} has weight zero or less; drop "
            "the class from the data or give one of its rows a weight"
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
            f"anchors: there are negative values in {_name_columns(columns, feature_names)}; the "
            f"{kernel.name!r} kernel needs features >= 0, so scale them like the data"
        )
    return given


def refuse_negative(
    columns: NDArray[np.intp], feature_names: Any, what: str, alternative: str | None = None
) -> NoReturn:
    """Refuse columns with negative values: ``what`` cannot take them, ``alternative`` can."""
    other = f", or use {alternative}" if alternative else ""
    raise ValueError(
        f"Negative values in data X, {_name_columns(columns, feature_names)}: {what} needs "
        "features >= 0; scale them first, for example with "
        f"sklearn.preprocessing.MinMaxScaler(clip=True){other}"
    )


def _name_columns(columns: NDArray[np.intp], feature_names: Any) -> str:
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


def resolve_gamma(gamma: Any, problem: Problem) -> float:
    """Number for ``gamma``: ``"scale"`` is 1 / (n_features Var(X)), ``"auto"`` 1 / n_features."""
    n_features = problem.X.shape[1]
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / n_features
        if gamma == "scale":
            variance = _variance(problem.X, problem.sample_weights)
            if not isfinite(variance):
                raise ValueError(
                    "X: the values are so large that their variance is not finite; scale the "
                    "features, for example with sklearn.preprocessing.StandardScaler"
                )
            return _invert_variance(n_features * variance) if variance > 0 else 1.0
    elif is_finite_number(gamma) and gamma >= 0:
        return float(gamma)
    raise ValueError(
        f"gamma: {gamma!r} is not allowed; give 'scale', 'auto' or a number that is not negative"
    )


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
    """Kernel object for an estimator's parameters, with ``gamma`` found from the data."""
    check_integer("degree", degree, low=0)
    check_number("coef0", coef0)
    # A callable has no gamma, and things that are no numbers have no variance.
    resolved = 0.0 if isinstance(problem.X, Items) else resolve_gamma(gamma, problem)
    return make_kernel(kernel, gamma=resolved, degree=int(degree), coef0=float(coef0))


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


def draw_seed(random_state: Any) -> int:
    """A seed for the generators of a fit."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def is_finite_number(value: Any) -> bool:
    """Whether a value is a number that float64 can hold."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    # Not isfinite, which raises OverflowError for integers beyond float64.
    return is_number and bool(abs(value) <= LARGEST)


def check_number(name: str, value: Any, *, above: float = -np.inf, optional: bool = False) -> None:
    """Refuse anything but a finite number greater than ``above``."""
    if optional and value is None:
        return
    if not is_finite_number(value):
        raise ValueError(f"{name}: {value!r} is not a finite number")
    if value <= above:
        raise ValueError(f"{name}: must be greater than {above:g}, got {value!r}")


def check_integer(name: str, value: Any, *, low: int) -> None:
    """Refuse anything but an integer of at least ``low``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name}: must be an integer of at least {low}, got {value!r}")


def as_floats(name: str, value: Any, wanted: str) -> NDArray[np.float64]:
    """A parameter as an array of float64; ``wanted`` says what to give instead of anything else."""
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: give {wanted}, got {value!r}") from error


def check_columns(name: str, columns: Any, n_features: int) -> NDArray[np.intp]:
    """Numbers of columns; refuse anything but integers from 0 to below ``n_features``."""
    given = np.asarray(columns)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"{name}: give the numbers of columns, got {columns!r}")
    if given.size and not 0 <= given.min() <= given.max() < n_features:
        raise ValueError(f"{name}: columns are numbered 0 to {n_features - 1}, got {columns!r}")
    return given.astype(np.intp)


def check_flag(name: str, value: Any) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: must be True or False, got {value!r}")


def check_verbose(value: Any) -> None:
    """Refuse anything but an integer that is not negative, or a switch."""
    if not isinstance(value, bool | np.bool_):
        check_integer("verbose", value, low=0)


def check_callback(value: Any) -> None:
    """Refuse anything but a function, or nothing."""
    if value is not None and not callable(value):
        raise ValueError(f"callback: {value!r} cannot be called; give a function, or None")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse anything but one of the given words."""
    if value not in choices:
        raise ValueError(f"{name}: must be one of {', '.join(map(repr, choices))}, got {value!r}")
