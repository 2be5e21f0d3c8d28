"""The records that pass between the parts of the harness."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class BenchmarkData:
    """A data set as every solver gets it, with the settings to fit it with.

    Attributes
    ----------
    name : str
        The name in the tables.
    X_train, X_test : ndarray or csr_matrix of float32
        Features.
    y_train, y_test : ndarray
        Labels.
    params : dict
        ``C`` and ``gamma`` of the RBF kernel.
    """

    name: str
    X_train: Any = field(repr=False)
    y_train: NDArray[Any] = field(repr=False)
    X_test: Any = field(repr=False)
    y_test: NDArray[Any] = field(repr=False)
    params: dict[str, float]


@dataclass(frozen=True, eq=False)
class PairExpansion:
    """A fitted model in one layout for all solvers: a row for each pair of classes.

    Attributes
    ----------
    support : ndarray of shape (n_SV,)
        Training rows that are support vectors.
    coef : ndarray of shape (n_pairs, n_SV)
        Signed dual coefficients of the pairs (0, 1), (0, 2), ..., (1, 2), ..., positive for the
        second class of a pair.
    intercept : ndarray of shape (n_pairs,)
        Constants of the decision functions, of the same sign.
    """

    support: NDArray[np.intp]
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
