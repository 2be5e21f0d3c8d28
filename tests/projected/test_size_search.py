"""The choice of the number of basis vectors, without an estimator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from widemargin.problem import Problem
from widemargin.projected.size_search import (
    AUTO_ROWS,
    SizedDecisions,
    count_affordable,
    find_size,
    fit_each_size,
    predict_labels,
)

SIZES = np.array([1, 2, 4, 8])


def make_problem(n=100):
    """Rows whose only feature is their label."""
    labels = np.arange(n) % 2
    ones = np.ones(n)
    return Problem(labels[:, None] * 1.0, labels, np.arange(2), ones, ones, np.arange(n))


def guess(queries, n_right):
    """Decision values that are right for the first rows and wrong for the others."""
    signs = np.where(np.arange(len(queries)) < n_right, 1.0, -1.0)
    return (signs * (2.0 * queries[:, 0] - 1.0))[:, None]


def test_the_smallest_size_close_to_the_best_is_chosen():
    parts = []

    def fit_sizes(part, queries):
        parts.append(len(part.labels))
        rights = [5, 18, 20, 20]
        return SizedDecisions([guess(queries, n) for n in rights], np.array([9.0, 5.0, 4.0, 3.0]))

    size, path = find_size(make_problem(), SIZES, fit_sizes, deadline=None, seed=0)
    assert parts == [80] * 5
    assert_allclose([point.accuracy for point in path], [0.25, 0.9, 1.0, 1.0])
    assert [point.objective for point in path] == [9.0, 5.0, 4.0, 3.0]
    # Of 100 rows 10 differ between sizes 2 and 4: the standard error is 0.03, less than 0.1.
    assert size == 4


def test_folds_end_when_enough_rows_were_held_out():
    n_folds = 0

    def fit_sizes(part, queries):
        nonlocal n_folds
        n_folds += 1
        return SizedDecisions([guess(queries, len(queries))] * 4, np.zeros(4))

    problem = make_problem(4 * AUTO_ROWS)
    size, _ = find_size(problem, SIZES, fit_sizes, deadline=None, seed=0)
    assert (n_folds, size) == (2, 1)


def test_a_passed_deadline_ends_folds_and_sizes():
    fitted = []

    def fit_one(size):
        fitted.append(size)
        return np.full((1, 1), size), float(size), size

    found = fit_each_size(fit_one, SIZES, deadline=0.0)
    assert fitted == [1]
    assert_allclose(np.ravel(found.decisions), 1)
    assert_allclose(found.objectives, 1.0)
    assert fit_each_size(fit_one, SIZES, deadline=None).objectives.tolist() == [1, 2, 4, 8]


def test_a_basis_that_stops_growing_ends_the_sizes():
    fitted = []

    def fit_one(size):
        fitted.append(size)
        return np.full((1, 1), size), float(size), min(size, 3)

    found = fit_each_size(fit_one, SIZES, deadline=None)
    assert fitted == [1, 2, 4]
    assert found.objectives.tolist() == [1, 2, 4, 4]
    assert_allclose(np.ravel(found.decisions), [1, 2, 4, 4])


def test_labels_of_decision_values():
    assert predict_labels(np.array([[-1.0], [0.0]])).tolist() == [False, True]
    assert predict_labels(np.array([[0.0, 2.0, 1.0]])).tolist() == [1]


def test_vectors_that_an_amount_of_memory_holds():
    # A vector of 4 features and a coefficient take 20 bytes, the intercept 4.
    assert count_affordable("104 B", 4, 1, 1) == 5
    assert count_affordable("103 B", 4, 1, 1) == 4
    with pytest.raises(ValueError, match=r"n_basis: '23 B' is too little.*takes 24 bytes"):
        count_affordable("23 B", 4, 1, 1)
    with pytest.raises(ValueError, match=r"n_basis: 'few' is not allowed; give a positive number"):
        count_affordable("few", 4, 1, 1)
