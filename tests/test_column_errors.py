"""Errors about columns of tables name the columns and say what to do."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from widemargin import AdditiveSVC, AdditiveSVR, IntersectionSVC, KernelSVC

ESTIMATORS = [AdditiveSVC(), AdditiveSVR(), IntersectionSVC(), KernelSVC()]
each = pytest.mark.parametrize("model", [clone(m) for m in ESTIMATORS], ids=str)


@pytest.fixture
def table():
    n = np.arange(40)
    return pd.DataFrame({"age": 20.0 + n, "town": np.where(n % 3, "Rome", "Oslo"), "size": n % 7})


@pytest.mark.parametrize("kind", [object, "category", "string"])
@each
def test_texts(table, model, kind):
    frame = table.astype({"town": kind})
    way = "categorical_features" if hasattr(model, "categorical_features") else "OneHotEncoder"
    with pytest.raises(ValueError, match=rf"X: column 1 \('town'\) holds texts; .*{way}"):
        model.fit(frame, frame["size"] > 3)


@each
def test_missing_and_infinite_values(table, model):
    numbers = table.drop(columns="town").astype(float)
    y = numbers["size"] > 3
    model.fit(numbers, y)
    numbers.iloc[3, 1] = np.nan
    way = 'set missing="code"' if hasattr(model, "missing") else "; fill them"
    expected = rf"Input X contains NaN: column 1 \('size'\) has missing values.*{way}"
    for refused in (model.fit, lambda X, _: model.predict(X)):
        with pytest.raises(ValueError, match=expected):
            refused(numbers, y)
    with pytest.raises(ValueError, match=r"NaN: column 1 has missing values"):
        model.fit(numbers.to_numpy(), y)
    numbers.iloc[:2] = np.inf
    with pytest.raises(ValueError, match=r"infinity: columns 0 \('age'\), 1 \('size'\) have"):
        model.fit(numbers.fillna(0.0), y)


@each
def test_dates(table, model):
    frame = table.drop(columns="town").assign(day=pd.Timestamp("2024-01-01"))
    with pytest.raises(ValueError, match=r"column 2 \('day'\) holds dates; make numbers of them"):
        model.fit(frame, frame["size"] > 3)


def test_other_errors_stay_as_they_are(table):
    numbers = table.drop(columns="town").astype(float)
    numbers.iloc[3, 1] = np.nan
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        AdditiveSVC(missing="code").fit(numbers, [0, 1])
    with pytest.raises(ValueError, match="Expected 2D array"):
        AdditiveSVC().fit(np.array([1.0, np.nan]), [0, 1])
