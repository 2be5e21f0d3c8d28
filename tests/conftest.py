"""Shared data: small real sets and generated ones."""

import os

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from tests.counting import counts

# Two threads exercise the threaded paths on any machine and leave room for parallel test workers.
os.environ.setdefault("OMP_NUM_THREADS", "2")
# Tests read standard error, and the first of them compile.
os.environ.setdefault("WIDEMARGIN_QUIET", "1")
# Small products by several threads of BLAS take many times as long when other tests run beside them.
threadpool_limits(1, user_api="blas")


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


@pytest.fixture(scope="session")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def noisy():
    """Six thousand points whose classes overlap: sampling, widening and resting all happen."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=len(X)) > 0
    return X, np.where(y, 1, -1)


@pytest.fixture
def entries():
    """Numbers of entries that `CountingKernel` computed."""
    counts.clear()
    return counts
