"""Compilation in advance; `test_compilation.py` shows that a later fit compiles nothing."""

import pytest
from scipy import sparse

import widemargin
from widemargin.cli.options import ESTIMATORS
from widemargin.warmup import FITS, make_problems


def test_every_estimator_of_the_command_has_fits():
    assert set(FITS) == set(ESTIMATORS)


@pytest.mark.parametrize("name", FITS)
def test_parameters_exist(name):
    for options in FITS[name]:
        model = getattr(widemargin, name)(**options, n_jobs=1)
        assert options.items() <= model.get_params().items()


def test_problems_are_dense_and_sparse_with_two_and_three_classes():
    kinds = {(sparse.issparse(X), len(set(y))) for X, y in make_problems()}
    assert kinds == {(False, 2), (False, 3), (True, 2), (True, 3)}
    assert all(X.min() >= 0 for X, _ in make_problems())
