"""What is wrong with columns that the checks of scikit-learn refuse, by name, and what to do."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernel_arguments import name_columns


def explain_columns(estimator: Any, X: Any, *, may_miss: bool) -> str | None:
    """Return which columns of a table hold texts, dates, missing or infinite values; None if none do.

    Parameters
    ----------
    estimator : estimator
        Its parameters decide what is recommended.
    X : DataFrame or ndarray
        The data as given. Of other data, None is returned.
    may_miss : bool
        Whether missing values are allowed.
    """
    is_table = hasattr(X, "iloc") and hasattr(X, "columns")
    if not is_table and not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"):
        return None
    names = list(X.columns) if is_table else None
    if is_table:
        for kind, find in (("texts", _has_texts), ("dates", _has_dates)):
            columns = _find(find, X)
            if len(columns):
                advice = _advise_on_texts(estimator) if kind == "texts" else "make numbers of them"
                return f"X: {_say(columns, names, 'hold')} {kind}; {advice}"
    columns = np.flatnonzero(X.isna().any() if is_table else np.isnan(X).any(axis=0))
    if len(columns) and not may_miss:
        advice = _advise_on_missing(estimator)
        return f"Input X contains NaN: {_say(columns, names, 'have')} missing values; {advice}"
    columns = _find(_has_infinity, X) if is_table else np.flatnonzero(np.isinf(X).any(axis=0))
    if len(columns):
        return (
            f"Input X contains infinity: {_say(columns, names, 'have')} infinite values; clip them"
        )
    return None


def _say(columns: NDArray[np.intp], names: list[Any] | None, verb: str) -> str:
    """Return the columns with a verb in the right number."""
    singular = {"hold": "holds", "have": "has"}[verb]
    return f"{name_columns(columns, names)} {singular if len(columns) == 1 else verb}"


def _find(is_so: Any, X: Any) -> NDArray[np.intp]:
    return np.flatnonzero([is_so(X.iloc[:, j]) for j in range(X.shape[1])])


def _has_texts(column: Any) -> bool:
    if getattr(column.dtype, "kind", "O") in "biufcmM":
        return False
    return any(isinstance(value, str) for value in column.dropna().head(100))


def _has_dates(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") in "mM"


def _has_infinity(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") == "f" and bool(
        np.isinf(column.to_numpy(float)).any()
    )


def _advise_on_texts(estimator: Any) -> str:
    if hasattr(estimator, "categorical_features"):
        return "name them in categorical_features"
    return "encode them, for example with sklearn.preprocessing.OneHotEncoder"


def _advise_on_missing(estimator: Any) -> str:
    fill = "fill them, for example with sklearn.impute.SimpleImputer"
    if not hasattr(estimator, "missing"):
        return fill
    return f'set missing="code" for a height of their own, or {fill}'
