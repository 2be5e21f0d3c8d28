"""The only place that touches raw input: data, labels, weights and parameters."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_monotonic_cst,
    _check_sample_weight,
    _num_samples,
    validate_data,
)

from widemargin.column_errors import explain_columns
from widemargin.kernel_arguments import check_precomputed
from widemargin.kernels import Items
from widemargin.problem import Problem


@dataclass(frozen=True)
class Layout:
    """How dense data may be stored; others are copied. Sparse data are of float32 or float64.

    Attributes
    ----------
    types : tuple of type
        Types of the values. Others become float64, or float32 if that holds all their values.
    order : {"C", None}
        Order of the values, None for any.
    allows_nan : bool
        Whether values may be missing.
    """

    types: tuple[type, ...] = (np.float64, np.float32)
    order: str | None = "C"
    allows_nan: bool = False

    @property
    def finite(self) -> bool | str:
        """What scikit-learn's ``ensure_all_finite`` is."""
        return "allow-nan" if self.allows_nan else True

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


def _check_data(estimator: Any, X: Any, *targets: Any, **how: Any) -> Any:
    """Run the checks of scikit-learn; errors about columns name them and say what to do."""
    try:
        return validate_data(estimator, X, *targets, **how)
    except (ValueError, TypeError) as error:
        may_miss = how.get("ensure_all_finite", True) == "allow-nan"
        advice = explain_columns(estimator, X, may_miss=may_miss)
        if advice is None:
            raise
        raise ValueError(advice) from error


def _validate_rows(
    estimator: Any, X: Any, y: Any, *, is_first: bool, layout: Layout = FLOAT_ROWS
) -> tuple[Any, Any]:
    """Finite data with labels, as wide as before unless they are the first."""
    if isinstance(X, Items):
        y = column_or_1d(y, warn=True)
        check_consistent_length(_accept_items(estimator, X), y)
        return X, y
    layout = FLOAT_ROWS if sparse.issparse(X) else layout
    checked: tuple[Any, Any] = _check_data(
        estimator, X, y, accept_sparse="csr", dtype=layout.types_for(X), order=layout.order,
        accept_large_sparse=True, reset=is_first, ensure_all_finite=layout.finite,
    )  # fmt: skip
    return checked


def validate_regression(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    precomputed: bool,
    layout: Layout = FLOAT_ROWS,
    multi_output: bool = True,
) -> tuple[Problem, NDArray[np.float64]]:
    """Check training data of a regression; returns the rows that have a weight, and their targets.

    The targets have the shape that was given, (n,) or, with ``multi_output``, (n, n_targets).
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
        layout = FLOAT_ROWS if sparse.issparse(X) else layout
        X, y = _check_data(
            estimator, X, y, accept_sparse="csr", dtype=layout.types_for(X), order=layout.order,
            accept_large_sparse=True, multi_output=multi_output, y_numeric=True,
            ensure_all_finite=layout.finite,
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
        X = _check_data(
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
        raise ValueError(
            "classes: the first call of partial_fit needs all labels there will be; give them as "
            "classes="
        )
    known = estimator.classes_ if not is_first else np.unique(classes)
    if classes is not None and not np.array_equal(np.unique(classes), known):
        raise ValueError(
            f"classes: {classes!r} are not those of the first call, {known!r}; give these or None"
        )
    if len(known) < 2:
        raise ValueError(f"classes: a classifier needs at least two, got {known!r}")
    labels = np.searchsorted(known, y)
    unknown = np.setdiff1d(y, known)
    if len(unknown):
        raise ValueError(
            f"y: the label {unknown[0]!r} is not among the classes {known!r}; the first call of "
            "partial_fit names all labels there will be"
        )
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
    X = _check_data(
        estimator, X, accept_sparse="csr", dtype=layout.types_for(X), order=layout.order, reset=False,
        accept_large_sparse=True, ensure_all_finite=layout.finite,
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
    try:
        weights = compute_class_weight(class_weight, classes=classes, y=y)
    except OverflowError as error:
        raise ValueError(f"class_weight: {class_weight!r:.80} is beyond float64") from error
    if not np.isfinite(weights).all() or (weights <= 0).any():
        raise ValueError(f"class_weight: {class_weight!r:.80} must give positive, finite weights")
    return weights


def validate_monotonic_cst(estimator: Any) -> NDArray[np.int8]:
    """Return -1, 0 or 1 for every feature, from an array, a dict of names, or None for zeros."""
    try:
        return np.asarray(_check_monotonic_cst(estimator, estimator.monotonic_cst), np.int8)
    except (ValueError, TypeError) as error:
        text = str(error).removeprefix("monotonic_cst ")
        raise ValueError(f"monotonic_cst: {text}") from error


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
