"""Columns of categories in the data that users give: their values become numbers from zero on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.arguments import check_columns
from widemargin.kernel_arguments import name_columns

#: Most categories of a column.
MAX_CATEGORIES = 256


@dataclass(frozen=True)
class CategoryCoder:
    """Columns of categories, and the categories of each in training.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,)
        Numbers of the columns, ascending.
    categories : list of ndarray
        Values of each of these columns, sorted: texts, numbers or booleans.
    """

    columns: NDArray[np.intp]
    categories: list[NDArray[Any]]

    def encode(self, X: Any) -> Any:
        """Return the data with the number of its category in place of every value.

        A value that is not among the categories becomes the number of categories, and a missing value
        NaN. A DataFrame stays one, so that its columns keep their names.
        """
        _refuse_sparse(X)
        if hasattr(X, "iloc"):
            coded = X.copy(deep=False)
            for j, known in zip(self.columns, self.categories, strict=True):
                coded.isetitem(j, _find_codes(_take_column(X, j), known))
            return coded
        X = np.asarray(X)
        if X.ndim != 2 or (len(self.columns) and self.columns[-1] >= X.shape[1]):
            # Validation says what is wrong with the shape.
            return X
        coded = np.empty(X.shape, X.dtype if X.dtype.kind == "f" else np.float64)
        others = np.setdiff1d(np.arange(X.shape[1]), self.columns)
        coded[:, others] = X[:, others]
        for j, known in zip(self.columns, self.categories, strict=True):
            coded[:, j] = _find_codes(_take_column(X, j), known)
        return coded


def learn_categories(X: Any, categorical_features: Any) -> CategoryCoder | None:
    """Return the categories of the columns that ``categorical_features`` names; None for none.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The training data as given.
    categorical_features : array-like of bool, int or str, "from_dtype" or None
        A mask, numbers or names of columns, or the columns of a DataFrame whose type is "category".
    """
    if categorical_features is None:
        return None
    _refuse_sparse(X)
    X = X if hasattr(X, "iloc") else np.asarray(X)
    if X.ndim != 2:
        return None
    names = list(X.columns) if hasattr(X, "iloc") else None
    columns = np.sort(_find_columns(X, categorical_features, names))
    if len(np.unique(columns)) < len(columns):
        raise ValueError(
            f"categorical_features: {categorical_features!r} names a column twice; name each once"
        )
    if len(columns) == 0:
        return None
    return CategoryCoder(columns, [_list_categories(X, int(j), names) for j in columns])


def _find_columns(X: Any, given: Any, names: list[Any] | None) -> NDArray[np.intp]:
    if isinstance(given, str):
        if given != "from_dtype":
            raise ValueError(
                'categorical_features: give "from_dtype", or a list of names, numbers or booleans, '
                f"got {given!r}"
            )
        kinds = X.dtypes if names is not None else []
        return np.flatnonzero([str(kind) == "category" for kind in kinds])
    mask = np.asarray(given)
    if mask.dtype == bool:
        if mask.shape != (X.shape[1],):
            raise ValueError(
                f"categorical_features: the mask has shape {mask.shape}, but X has {X.shape[1]} "
                "columns; give a boolean for each"
            )
        return np.flatnonzero(mask)
    return check_columns("categorical_features", given, X.shape[1], names)


def _list_categories(X: Any, column: int, names: list[Any] | None) -> NDArray[Any]:
    """Return the sorted values of a column, missing ones left out."""
    values, is_missing = _take_column(X, column)
    present = set(values[~is_missing].tolist())
    where = name_columns(np.array([column]), names)
    is_text = [isinstance(value, str) for value in present]
    if any(is_text) and not all(is_text):
        raise ValueError(
            f"categorical_features: {where} holds texts and numbers; make all of them texts"
        )
    if len(present) > MAX_CATEGORIES:
        raise ValueError(
            f"categorical_features: {where} has {len(present):,} categories, but at most "
            f"{MAX_CATEGORIES} have codes; merge rare ones"
        )
    if not present:
        raise ValueError(
            f"X: all values are missing in {where}; leave out columns without any value"
        )
    return np.array(sorted(present))


def _take_column(X: Any, column: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the values of a column, and which are missing."""
    if hasattr(X, "iloc"):
        series = X.iloc[:, column]
        return np.asarray(series), np.asarray(series.isna(), bool)
    values = X[:, column]
    if values.dtype.kind == "O":
        return values, np.array([_is_missing(value) for value in values], bool)
    return values, np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)


def _is_missing(value: Any) -> bool:
    # pandas.NA is neither equal nor unequal to itself.
    is_nan = isinstance(value, float | np.floating) and bool(np.isnan(value))
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _find_codes(
    column: tuple[NDArray[Any], NDArray[np.bool_]], categories: NDArray[Any]
) -> NDArray[np.float64]:
    values, is_missing = column
    numbers = {category: code for code, category in enumerate(categories.tolist())}
    codes = np.full(len(values), np.nan)
    present = values[~is_missing].tolist()
    codes[~is_missing] = [numbers.get(value, len(numbers)) for value in present]
    return codes


def _refuse_sparse(X: Any) -> None:
    if sparse.issparse(X):
        raise ValueError(
            "categorical_features: sparse data have no columns of categories; give a dense array or a "
            "DataFrame, or encode them with sklearn.preprocessing.OneHotEncoder"
        )
